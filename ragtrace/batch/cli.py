"""`ragtrace demo`, `eval`, `compare`, `report` and `evaluators`."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import re
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragtrace.base import terminal
from ragtrace.errors import RagtraceError, SettingError
from ragtrace.settings.section import parse_pairs

if TYPE_CHECKING:
    from ragtrace.batch.reporting.gates import Gate, GateResult
    from ragtrace.batch.run import Outcome, Plan


def add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add them to the parser of `ragtrace`. Imports nothing heavy."""
    demo = commands.add_parser("demo", help="run two real assistants, traced and scored", add_help=False)
    demo.set_defaults(run_with=_demo)  # the demo has its own parser
    _add_eval(commands)
    _add_reports(commands)


def _add_eval(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    evaluate = commands.add_parser("eval", help="score a data set")
    add = evaluate.add_argument
    add(
        "file", type=Path,
        help="the data set: JSON lines or CSV, plain or gzipped, Parquet, or a folder that Hugging Face's datasets "
        "wrote; its fields are id, query, contexts, answer, reference, model",
    )  # fmt: skip
    add(
        "--evaluators", default="auto", metavar="A,B",
        help="names of evaluators, `default`, `local`, or `auto` (the default): all that the data set allows",
    )  # fmt: skip
    add("--out", default="-", help="write the scores to this file; - (the default) is standard output")
    add("--map", action="append", default=[], metavar="FIELD=COLUMN", help="read this field from this column")
    add("--jobs", type=int, default=0, help="the number of processes; 0 (the default) starts one for each core")
    add("--strict", action="store_true", help="stop at the first line that cannot be read")
    add("--fresh", action="store_true", help="start again from the first row after an interrupted run")
    add("--judge", metavar="MODEL", help="the LLM that judges, under litellm's name (the setting judge_model)")
    add(
        "--perturb", default="", metavar="KINDS",
        help="also score changed rows: typos,case,paraphrase,chunk_order,distractor",
    )  # fmt: skip
    add(
        "--report", type=Path, metavar="FOLDER",
        help="write results.parquet, results.json and report.html to this folder",
    )  # fmt: skip
    add(
        "--fail-under", action="append", default=[], metavar="NAME=VALUE[%]",
        help="exit with 3 if a model's mean of the evaluator is below VALUE (above it, if lower is better); with a "
        "percent sign, if fewer than VALUE %% of its rows pass the evaluator's threshold; may be repeated",
    )  # fmt: skip
    add("--junit", type=Path, metavar="FILE", help="write JUnit's XML: a suite for each evaluator, a case for each row")
    evaluate.set_defaults(run=_eval)


def _add_reports(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    from ragtrace.batch.rescore.cli import add_log_options
    from ragtrace.console.chatlogs.cli import add_store_option

    comparison = commands.add_parser("compare", help="show which differences between two runs are significant")
    add = comparison.add_argument
    add("first", nargs="?", help="a folder that `ragtrace eval --report` wrote; with --evaluator a version of it")
    add("second", nargs="?", help="another such folder, with the same rows; or another version")
    add(
        "--evaluator", default="", metavar="NAME", help="compare two versions of this evaluator (default: the last two)"
    )
    add_store_option(comparison)
    add_log_options(comparison)
    comparison.set_defaults(run=_compare)

    report = commands.add_parser("report", help="show the scores of live requests, and whether they became worse")
    report.add_argument("--file", default="", help="the journal; the default is the setting report_file")
    report.add_argument(
        "--since", default="24h", metavar="WHEN", help="start: 30m, 24h or 7d before now, or 2026-01-31[T12:00]"
    )
    report.add_argument("--until", default="0m", metavar="WHEN", help="end, in the same form; the default is now")
    report.add_argument("--app", help="show only this application")
    report.add_argument("--html", type=Path, metavar="FILE", help="also write one self-contained HTML page")
    report.add_argument("--json", action="store_true", help="print one JSON object")
    report.add_argument(
        "--suggest-objective",
        action="store_true",
        help="print objectives for grafana/rules/objectives.yml, from what the evaluators showed in this time",
    )
    report.set_defaults(run=_report)
    rules = commands.add_parser("rules", help="write alert rules, dashboards and Alertmanager's configuration")
    rules.add_argument("grafana", nargs="?", default="", help="Grafana's address, for the links in alerts")
    rules.add_argument(
        "console", nargs="?", default="", help="the address of `ragtrace serve`, for the links in alerts"
    )
    rules.add_argument("--out", type=Path, required=True, metavar="FOLDER", help="write the files to this folder")
    rules.add_argument("--pages", default="", metavar="NAMES", help="evaluators whose falls page: faithfulness,…")
    rules.add_argument("--env-pattern", default="", metavar="REGEX", help="environments that page: prod.*")
    rules.set_defaults(run=_rules)

    evaluators = commands.add_parser("evaluators", help="list the built-in evaluators")
    evaluators.add_argument("search", nargs="*", metavar="WORD", help="list only those with all these words")
    evaluators.add_argument("--json", action="store_true", help="print one JSON array")
    evaluators.set_defaults(run=_evaluators)


def _demo(arguments: Sequence[str]) -> int:
    from ragtrace.batch.demo import main as demo

    return int(demo(arguments))


def _eval(options: argparse.Namespace) -> int:
    from ragtrace.batch.reporting.files import REPORT_NAMES, prepare_target
    from ragtrace.batch.reporting.gates import parse_gate
    from ragtrace.batch.run import check_files, evaluate

    reports = [] if options.report is None else [options.report / name for name in REPORT_NAMES]
    check_files(options.file, options.out, options.junit, *reports)
    for file in filter(None, (*reports, options.junit)):  # before rows are evaluated
        prepare_target(Path(file))
    plan, gates = _plan(options, [parse_gate("--fail-under", text) for text in options.fail_under])
    keep = options.report is not None or options.junit is not None or bool(gates)
    started = time.time()
    to_stdout = options.out == "-"
    if to_stdout:
        terminal.write_utf8()
    with _progress(options.file, visible=not (to_stdout and sys.stdout.isatty())) as progress:
        out = sys.stdout if to_stdout else Path(options.out)
        outcome = evaluate(plan, out, keep=keep, progress=progress)
    resumed = f" ({outcome.resumed} of them in an earlier run)" if outcome.resumed else ""
    left_out = f"{len(outcome.errors)} unreadable lines were left out"
    print(
        f"ragtrace eval: {outcome.done} rows were scored{resumed}, {left_out}, in {outcome.seconds:.1f} s",
        file=sys.stderr,
    )
    problems = _write_results(options, plan, outcome, gates, started) if keep else []
    # Evaluators that the option itself names: those of `auto`, `default` and `local` may suit no row.
    options_names = {name.strip() for name in options.evaluators.split(",")}
    required = [check.name for name, check in zip(plan.names, outcome.checks, strict=False) if name in options_names]
    empty = outcome.figures.without_value(required)
    print("\n".join(outcome.figures.lines(terminal.width(sys.stderr))), file=sys.stderr)
    for line in [*empty, *(each.problem for each in problems)]:
        print(f"ragtrace eval: {line}", file=sys.stderr)
    if any(each.is_missed for each in problems):
        return 3
    return 1 if outcome.errors or empty or problems else 0


def _plan(options: argparse.Namespace, gates: Sequence[Gate]) -> tuple[Plan, list[Gate]]:
    """What the options of `eval` ask for, and the gates with the names of their evaluators. An evaluator that only a
    gate names is evaluated, too.

    Raises SettingError for an evaluator that does not exist or whose packages are not installed, and for a limit
    outside of its range: all before a row is evaluated."""
    from ragtrace import plugins, settings
    from ragtrace.batch.reporting.gates import check_gate
    from ragtrace.batch.run import Plan
    from ragtrace.batch.selection import parse_names
    from ragtrace.live import requirements

    if options.jobs < 0:
        raise SettingError(f"--jobs must be 0 or more, not {options.jobs}")
    used = settings.load({"judge_model": options.judge})
    is_auto = options.evaluators == "auto"
    names = [] if is_auto else parse_names(options.evaluators)
    checks = {check.name: check for check in plugins.load_all(names)}
    own = {gate.name: plugins.load(gate.name) for gate in gates if gate.name not in checks}
    required = [name for name, check in own.items() if check.name not in checks]
    checks.update((check.name, check) for check in own.values())
    gates = [dataclasses.replace(gate, name=own[gate.name].name) if gate.name in own else gate for gate in gates]
    for gate in gates:
        check_gate("--fail-under", checks[gate.name], gate)
    requirements.check(list(checks.values()), used)
    plan = Plan(
        path=options.file, names=() if is_auto else tuple(dict.fromkeys((*names, *required))),
        required=tuple(required), columns=parse_pairs("--map", options.map),
        perturb=tuple(kind.strip() for kind in options.perturb.split(",") if kind.strip()), jobs=options.jobs,
        strict=options.strict, fresh=options.fresh, settings=used,
    )  # fmt: skip
    return plan, gates


def _write_results(
    options: argparse.Namespace, plan: Plan, outcome: Outcome, gates: Sequence[Gate], started: float
) -> list[GateResult]:
    """Writes the report and JUnit's file, where they are wanted. Returns the gates that do not open."""
    from ragtrace.batch.reporting.gates import gate_results
    from ragtrace.batch.run import to_run

    run = to_run(plan, outcome, started)
    results = gate_results(run, gates)
    if options.report is not None:
        from ragtrace.batch.reporting.analysis import analyse
        from ragtrace.batch.reporting.files import write_run
        from ragtrace.batch.reporting.html import write_report

        analysis = analyse(run)
        write_run(run, options.report, analysis)
        print(f"ragtrace eval: the report is {write_report(analysis, options.report)}", file=sys.stderr)
    if options.junit is not None:
        from ragtrace.batch.reporting.junit import write_junit

        seconds = {name: figures.seconds for name, figures in outcome.figures.figures.items()}
        write_junit(run, results, options.junit, seconds)
    return [result for result in results if result.problem]


def _progress(path: Path, *, visible: bool) -> contextlib.AbstractContextManager[Callable[[int], None] | None]:
    """The progress bar for a data set. In a terminal, scores and a bar on the same lines would be unreadable."""
    from ragtrace.base.rows import read
    from ragtrace.batch.reporting.progress import progress_bar

    return progress_bar(lambda: sum(1 for _ in read(path)), "rows") if visible else contextlib.nullcontext()


def _compare(options: argparse.Namespace) -> int:
    if options.evaluator:
        from ragtrace.batch.rescore.cli import compare_versions

        return compare_versions(options)
    from ragtrace.batch.reporting.comparison import comparison_table
    from ragtrace.batch.reporting.files import read_run

    if options.second is None:
        raise SettingError("compare needs two folders of reports, or --evaluator NAME to compare its versions")
    runs = [read_run(Path(folder)) for folder in (options.first, options.second)]
    print(comparison_table(runs[0], runs[1], columns=terminal.width()))
    return 0


def _report(options: argparse.Namespace) -> int:
    from ragtrace import settings
    from ragtrace.batch.reporting import live, live_text

    current = settings.load()
    path = options.file or current.report_file
    if not path:
        raise SettingError(
            "no journal is configured: give its path with --file, or set report_file, which makes ragtrace write it"
        )
    now = time.time()
    since, until = (live.parse_time(getattr(options, name), now, f"--{name}") for name in ("since", "until"))
    report = live.live_report(path, since, until, options.app)
    if current.store:
        report = dataclasses.replace(report, people=_people(current.store, since, until, options.app or ""))
    if options.html is not None:
        from ragtrace.batch.reporting import page
        from ragtrace.batch.reporting.live_html import live_page

        print(f"ragtrace report: the page is {page.write(live_page(report), options.html)}", file=sys.stderr)
    if options.suggest_objective:
        from ragtrace.batch.reporting.objectives import suggest_objectives

        print(suggest_objectives(report))
    else:
        print(live_text.as_json(report) if options.json else live_text.as_text(report, terminal.width()))
    return 1 if report.damaged else 0


def _rules(options: argparse.Namespace) -> int:
    from ragtrace import plugins
    from ragtrace.batch.alert_rules import OWN, write_rules

    own = "stays as it was, whatever --pages says" if (options.out / "rules" / OWN).exists() else "is yours to edit"
    files = write_rules(options.out, options.pages, options.env_pattern, options.grafana, options.console)
    for name in sorted({name.strip() for name in options.pages.split(",")} - {"", *plugins.BUILT_IN}):
        similar = ", ".join(plugins.similar_names(name, plugins.BUILT_IN))
        hint = f"similar: {similar}" if similar else "right if one of your own has it"
        print(f"ragtrace rules: no built-in evaluator has the name {name!r}; {hint}", file=sys.stderr)
    print(f"ragtrace rules: {len(files)} files below {options.out}; {OWN} {own}")
    return 0


def _people(address: str, since: float, until: float, app: str) -> tuple[str, ...]:
    """What people would say of the answers of this time, or of 30 days where that is longer."""
    from ragtrace.console.chatlogs.cli import open_store_of
    from ragtrace.console.review.true_shares import MONTH, estimates, sentence

    try:
        with open_store_of(argparse.Namespace(store=address)) as store:
            judged = estimates(store, min(since, until - MONTH), until, app)
    except RagtraceError as error:
        return (f"What people say is missing: {error}",)
    return tuple(f"{each.app}: {each.evaluator}: {sentence(each.share)}" for each in judged)


def _evaluators(options: argparse.Namespace) -> int:
    from ragtrace import plugins

    words = [word.lower() for word in options.search]
    rows = [plugins.describe(plugins.load(name)) for name in plugins.builtin_names()]
    rows = [row for row in rows if all(word in " ".join(map(str, row.values())).lower() for word in words)]
    if not rows:
        similar = [name for word in words for name in plugins.similar_names(word, plugins.builtin_names())]
        hint = f"; did you mean {' or '.join(similar)}?" if similar else ""
        raise SettingError(
            f"no evaluator has {' and '.join(map(repr, words))} in its name, method or description{hint}"
        )
    if options.json:
        print(json.dumps(rows, indent=1))
        return 0
    columns = terminal.width()
    for row in rows:
        print("\n".join(_evaluator_lines(row, columns)))
    return 0


def _evaluator_lines(row: Mapping[str, Any], columns: int | None) -> list[str]:
    """The lines of one evaluator: a single line for a file or a pipe (`columns` is None); in a terminal a line with the
    name, and below it the description."""
    needs, text = ", ".join(row["needs"]), _first_sentence(str(row["description"]))
    if columns is None:
        return [f"{row['name']:32} {row['method']:6} {needs:28} {text}"]
    return terminal.fitted([f"{row['name']}  ({row['method']}; needs {needs})", f"  {text}"], columns)


def _first_sentence(text: str) -> str:
    """The first sentence of a docstring, which may be broken into lines."""
    paragraph = " ".join(text.split("\n\n", maxsplit=1)[0].split())
    match = re.match(r".*?[.!?](?=\s+[A-Z`]|$)", paragraph)
    return match[0] if match else paragraph
