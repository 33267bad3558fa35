"""`ragtrace calibrate · export · import-labels`."""

from __future__ import annotations

import argparse
import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragtrace.errors import DataError, SettingError

if TYPE_CHECKING:
    from ragtrace.chatlogs.store import Store
    from ragtrace.review.calibration import Calibration, QualityMeasures
    from ragtrace.statistics import Estimate


def add_commands(commands: Any) -> None:
    """Add the commands to a parser's sub-commands. Imports nothing heavy."""
    calibrate = commands.add_parser("calibrate", help="thresholds and probabilities from people's verdicts")
    _store_options(calibrate)
    calibrate.add_argument(
        "--evaluator", action="append", default=[], metavar="NAME", help="default: all reviewed ones"
    )
    calibrate.add_argument("--out", type=Path, metavar="FILE", help="the calibration file (setting calibration_file)")
    calibrate.add_argument("--aim", choices=("balanced_accuracy", "f1"), default="balanced_accuracy")
    calibrate.add_argument(
        "--unweighted", action="store_true", help="for the reviewed logs, not for the traffic that they came from"
    )
    calibrate.add_argument("--dry-run", action="store_true", help="print the figures, write nothing")
    calibrate.set_defaults(run=_calibrate)

    out = commands.add_parser("export", help="reviewed logs as a data set")
    _store_options(out)
    out.add_argument("--out", type=Path, required=True, help=".jsonl, .parquet, or a folder in Hugging Face's layout")
    out.add_argument("--license", default="", metavar="SPDX", help="e.g. CC-BY-4.0")
    out.add_argument("--consent", default="", metavar="TEXT", help="on what ground rows go out that say nothing of it")
    out.add_argument("--require-consent", action="store_true", help="only rows whose trace has consent")
    out.add_argument("--redact", default="", metavar="NAME", help="pii, or module:attribute of a function on texts")
    out.set_defaults(run=_export)

    labels = commands.add_parser("import-labels", help="labels from elsewhere into the store")
    _store_options(labels)
    labels.add_argument("file", type=Path, help="JSON lines or CSV with trace_id, evaluator, label and reviewer")
    labels.add_argument(
        "--probability",
        type=float,
        metavar="P",
        help="with which a stored log was labelled, if those that were are a random part of all; 1 for all of them",
    )
    labels.set_defaults(run=_import)


def _store_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--store", default="", metavar="URL", help="a file or postgresql://… (setting store)")


def _open(options: argparse.Namespace) -> Store:
    from ragtrace import settings
    from ragtrace.chatlogs.encryption import read_keys
    from ragtrace.chatlogs.store import open_store

    used: Any = settings.load()
    url = options.store or getattr(used, "store", "")
    if not url:
        raise SettingError("name the store with --store, or with the setting store")
    return open_store(url, key=read_keys(getattr(used, "store_key", "")))


# --- calibrate --------------------------------------------------------------------------------------------------------


def _calibrate(options: argparse.Namespace) -> int:
    from ragtrace import settings
    from ragtrace.review import calibration

    target = options.out or Path(settings.load().calibration_file or "")
    if not options.dry_run and target == Path():
        raise SettingError("name the file with --out, or with the setting calibration_file")
    with closing(_open(options)) as store:
        made, refused = _fitted(store, options, target)
        print(table(made), end="")
        for line in refused:
            print(f"ragtrace calibrate: {line}", file=sys.stderr)
        worth = [each for each in made if each.better]
        for each in made:
            if not each.better:
                said = f"{each.evaluator}: held out, the new threshold is no better; it stays as it is"
                print(f"ragtrace calibrate: {said}", file=sys.stderr)
        if worth and not options.dry_run:
            entries = calibration.save(target, worth, store=store)
            said = ", ".join(f"{e.evaluator} {e.label}" for e in entries)
            print(f"ragtrace calibrate: {target}: {said}", file=sys.stderr)
    if not made:
        return 2
    return 1 if len(worth) < len(made) + len(refused) else 0


def _fitted(store: Store, options: argparse.Namespace, target: Path) -> tuple[list[Calibration], list[str]]:
    from ragtrace.calibrations import own
    from ragtrace.review import calibration
    from ragtrace.review.rules import load_evaluators
    from ragtrace.review.weights import load_verdicts

    rows = load_verdicts(store)
    if not rows:
        raise DataError(
            f"nobody has judged a log of {store.name} yet: people do in the console (ragtrace serve), or bring what "
            "they said elsewhere with ragtrace import-labels"
        )
    entries = calibration.load(target) if target != Path() and target.exists() else {}
    with store.reading() as connection:
        checks = load_evaluators(connection)
    made, refused = [], []
    for name in options.evaluator or sorted({row.evaluator for row in rows}):
        check, entry = checks.get(name), entries.get(name)
        if check is None:
            refused.append(f"{name}: the store has no score of it")
            continue
        threshold = entry.threshold if entry is not None and entry.version == own(check.version) else check.threshold
        own_rows = [row for row in rows if row.evaluator == name]
        try:
            made.append(
                calibration.fit(
                    own_rows,
                    threshold,
                    "higher" if check.higher else "lower",
                    aim=options.aim,
                    weighted=not options.unweighted,
                )
            )
        except DataError as error:
            refused.append(str(error) if own_rows else f"{name}: {error}")
    return made, refused


def table(made: list[Calibration]) -> str:
    """The figures on held-out logs, before and after, with 95 % intervals."""
    if not made:
        return ""
    rows: list[tuple[str, ...]] = [
        ("evaluator", "", "logs", "bad", "threshold", "balanced accuracy", "F1", "Brier", "ECE", "curve")
    ]
    for each in made:
        name = f"{each.evaluator} {each.version}"
        before = () if each.before is None else _row(each.before, each.previous, "")
        if before:
            rows.append((name, "before", f"{each.count}", f"{each.failed:g}", *before))
        after = _row(each.after, each.threshold, each.curve.kind)
        rows.append(
            ("" if before else name, "after", *(("", "") if before else (f"{each.count}", f"{each.failed:g}")), *after)
        )
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join(lines) + "\n"


def _row(figures: QualityMeasures, threshold: float | None, kind: str) -> tuple[str, ...]:
    of = (figures.balanced_accuracy, figures.f1, figures.brier, figures.ece)
    return ("" if threshold is None else f"{threshold:g}", *(_cell(each) for each in of), kind)


def _cell(found: Estimate | None) -> str:
    if found is None:
        return "-"
    low, high = found.interval or (found.value, found.value)
    return f"{found.value:.3f} [{low:.3f}, {high:.3f}]"


# --- data sets --------------------------------------------------------------------------------------------------------


def _export(options: argparse.Namespace) -> int:
    from ragtrace.review.dataset_export import Options, export

    redact = None
    if options.redact:
        from ragtrace import plugins
        from ragtrace.text import redaction

        redact = redaction.BUILT_IN.get(options.redact) or plugins.resolve(options.redact, "--redact")
    given = Options(options.license, options.consent, options.require_consent, redact)
    with closing(_open(options)) as store:
        found = export(store, options.out, given)
    said = f"{found.rows} logs, {found.refused} left out for refused consent, {found.without} without consent"
    print(f"ragtrace export: {found.path}: {said}", file=sys.stderr)
    return 0


def _import(options: argparse.Namespace) -> int:
    from ragtrace.review.label_import import import_labels

    with closing(_open(options)) as store:
        found = import_labels(store, options.file, probability=options.probability)
    for error in found.errors:
        print(f"ragtrace import-labels: {error}", file=sys.stderr)
    said = f"{found.labels} labels of {found.logs} logs, {len(found.errors)} lines left out"
    print(f"ragtrace import-labels: {said}", file=sys.stderr)
    return 1 if found.errors else 0
