"""The commands `ragtrace calibrate`, `ragtrace export` and `ragtrace import-labels`."""

from __future__ import annotations

import argparse
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragtrace.console.chatlogs.cli import add_store_option, open_store_of
from ragtrace.errors import DataError, SettingError
from ragtrace.settings.section import parse_pairs

if TYPE_CHECKING:
    from ragtrace.console.chatlogs.store import Store
    from ragtrace.console.review.calibration import Calibration
    from ragtrace.console.review.quality_measures import QualityMeasures
    from ragtrace.statistics import Estimate


_TOOLS = ("phoenix", "mlflow", "langfuse")


def add_commands(commands: Any) -> None:
    """Adds the commands to a parser's sub-commands. Imports nothing heavy."""
    calibrate = commands.add_parser("calibrate", help="fit thresholds and probabilities to people's verdicts")
    add_store_option(calibrate)
    calibrate.add_argument(
        "--evaluator", action="append", default=[], metavar="NAME", help="may be repeated (default: all reviewed ones)"
    )
    calibrate.add_argument(
        "--out", type=Path, metavar="FILE", help="the calibration file (default: setting calibration_file)"
    )
    calibrate.add_argument(
        "--aim", choices=("balanced_accuracy", "f1"), default="balanced_accuracy",
        help="the measure that the threshold maximises (default: %(default)s)",
    )  # fmt: skip
    calibrate.add_argument(
        "--unweighted", action="store_true", help="measure on the reviewed logs alone, not for the whole traffic"
    )
    calibrate.add_argument("--dry-run", action="store_true", help="print the measures, write nothing")
    calibrate.set_defaults(run=_calibrate)

    export = commands.add_parser("export", help="write the reviewed logs as a data set")
    add_store_option(export)
    export.add_argument(
        "--out", type=Path, required=True, help="a .jsonl or .parquet file, or a folder in Hugging Face's layout"
    )
    export.add_argument("--license", default="", metavar="SPDX", help="license of the data set, e.g. CC-BY-4.0")
    export.add_argument(
        "--consent", default="", metavar="TEXT", help="ground on which rows without a consent of their own are exported"
    )
    export.add_argument("--require-consent", action="store_true", help="export only rows whose trace has consent")
    export.add_argument(
        "--redact", default="", metavar="NAME", help="pii, or module:attribute of a function from text to text"
    )
    export.set_defaults(run=_export)

    _add_import(commands)


def _add_import(commands: Any) -> None:
    labels = commands.add_parser("import-labels", help="import labels from elsewhere into the store")
    add_store_option(labels)
    labels.add_argument(
        "file", type=Path, nargs="?", help="JSON lines or CSV with trace_id, evaluator, label and reviewer"
    )
    labels.add_argument(
        "--from", dest="tool", choices=_TOOLS,
        help="read what people said of stored logs in this tool: in the server that the setting phoenix_url, "
        "mlflow_url or langfuse_url names, or the environment of the tool's own client",
    )  # fmt: skip
    labels.add_argument(
        "--word", action="append", default=[], metavar="WORD=LABEL", help="with --from: what a word of the tool means"
    )
    labels.add_argument(
        "--name", action="append", default=[], metavar="NAME=EVALUATOR",
        help="with --from: the evaluator that a name of the tool stands for",
    )  # fmt: skip
    labels.add_argument(
        "--pass-at", type=float, metavar="VALUE", help="with --from: numbers from VALUE on are pass, lower ones fail"
    )
    labels.add_argument(
        "--probability", type=float, metavar="P",
        help="probability with which a stored log was labelled, if the labelled logs are a random sample; 1 for all",
    )  # fmt: skip
    labels.set_defaults(run=_import)


# --- calibrate --------------------------------------------------------------------------------------------------------


def _calibrate(options: argparse.Namespace) -> int:
    from ragtrace import settings
    from ragtrace.console.review import calibration

    target = options.out or Path(settings.load().calibration_file or "")
    if not options.dry_run and target == Path():
        raise SettingError("no calibration file is set; name it with --out, or with the setting calibration_file")
    with open_store_of(options) as store:
        fits, problems = _fit(store, options, target)
        print(table(fits), end="")
        better = [fit for fit in fits if fit.better]
        problems += [
            f"{fit.evaluator}: the new threshold is no better on held-out logs, so the old one stays"
            for fit in fits
            if not fit.better
        ]
        for problem in problems:
            print(f"ragtrace calibrate: {problem}", file=sys.stderr)
        if better and not options.dry_run:
            entries = calibration.save(target, better, store=store)
            labels = ", ".join(f"{entry.evaluator} {entry.label}" for entry in entries)
            print(f"ragtrace calibrate: {target}: {labels}", file=sys.stderr)
    return 2 if not fits else 1 if problems else 0


def _fit(store: Store, options: argparse.Namespace, target: Path) -> tuple[list[Calibration], list[str]]:
    from ragtrace.calibrations import load, own_version
    from ragtrace.console.review import calibration
    from ragtrace.console.review.rules import load_evaluators
    from ragtrace.console.review.weights import load_verdicts

    rows = load_verdicts(store)
    if not rows:
        raise DataError(
            f"nobody has judged a log of {store.name} yet; review logs in the console (ragtrace serve), or import "
            "labels with ragtrace import-labels"
        )
    entries = load(target) if target != Path() and target.exists() else {}
    with store.reading() as connection:
        checks = load_evaluators(connection)
    fits, problems = [], []
    for name in options.evaluator or sorted({row.evaluator for row in rows}):
        check, entry = checks.get(name), entries.get(name)
        if check is None:
            problems.append(f"{name}: the store has no score of this evaluator")
            continue
        threshold = (
            entry.threshold if entry is not None and entry.version == own_version(check.version) else check.threshold
        )
        verdicts = [row for row in rows if row.evaluator == name]
        try:
            fits.append(
                calibration.fit(verdicts, threshold, check.direction, aim=options.aim, weighted=not options.unweighted)
            )
        except DataError as error:
            problems.append(str(error) if verdicts else f"{name}: {error}")
    return fits, problems


def table(fits: list[Calibration]) -> str:
    """Formats the measures on held-out logs before and after, with 95 % intervals; empty without calibrations."""
    if not fits:
        return ""
    rows: list[tuple[str, ...]] = [
        ("evaluator", "", "logs", "bad", "threshold", "balanced accuracy", "F1", "Brier", "ECE", "curve")
    ]
    for fit in fits:
        head = (f"{fit.evaluator} {fit.version}", f"{fit.count}", f"{fit.failed:g}")
        if fit.before is not None:
            rows.append((head[0], "before", *head[1:], *_row(fit.before, fit.previous, "")))
            head = ("", "", "")
        rows.append((head[0], "after", *head[1:], *_row(fit.after, fit.threshold, fit.curve.kind)))
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join(lines) + "\n"


def _row(measures: QualityMeasures, threshold: float | None, kind: str) -> tuple[str, ...]:
    estimates = (measures.balanced_accuracy, measures.f1, measures.brier, measures.ece)
    return ("" if threshold is None else f"{threshold:g}", *(_cell(estimate) for estimate in estimates), kind)


def _cell(estimate: Estimate | None) -> str:
    if estimate is None:
        return "-"
    low, high = estimate.interval or (estimate.value, estimate.value)
    return f"{estimate.value:.3f} [{low:.3f}, {high:.3f}]"


# --- data sets --------------------------------------------------------------------------------------------------------


def _export(options: argparse.Namespace) -> int:
    from ragtrace.console.review.dataset_export import Options, export

    redact = None
    if options.redact:
        from ragtrace import plugins
        from ragtrace.text.redaction import mask_pii

        redact = mask_pii if options.redact == "pii" else plugins.resolve(options.redact, "--redact")
    terms = Options(options.license, options.consent, options.require_consent, redact)
    with open_store_of(options) as store:
        result = export(store, options.out, terms)
    counts = f"{result.rows} logs, {result.refused} left out for refused consent, {result.without} without consent"
    print(f"ragtrace export: {result.path}: {counts}", file=sys.stderr)
    return 0


def _import(options: argparse.Namespace) -> int:
    from ragtrace.console.review.label_import import LabelWords, import_from_tool, import_labels
    from ragtrace_backends.deliveries import read_labels

    if (options.file is None) == (options.tool is None):
        raise SettingError(f"name either a file, or a tool with --from: {', '.join(_TOOLS)}")
    words = LabelWords(parse_pairs("--word", options.word), parse_pairs("--name", options.name), options.pass_at)
    with open_store_of(options) as store:
        if options.tool is None:
            result = import_labels(store, options.file, probability=options.probability)
        else:
            read = partial(read_labels, options.tool)
            result = import_from_tool(store, read, words, options.probability)
    place = f"{options.file}, line" if options.tool is None else f"{options.tool}, label"
    for error in result.errors:
        print(f"ragtrace import-labels: {place} {error.line}: {error.why}", file=sys.stderr)
    rest = "lines" if options.tool is None else "labels"
    counts = f"{result.labels} labels of {result.logs} logs, {len(result.errors)} {rest} left out"
    print(f"ragtrace import-labels: {counts}", file=sys.stderr)
    return 1 if result.errors else 0
