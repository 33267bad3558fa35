"""The command line: `ragtrace demo · eval · compare · report · evaluators · doctor`."""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from ragtrace._version import __version__
from ragtrace.chatlogs import cli as store_cli
from ragtrace.errors import RagtraceError, SettingError
from ragtrace.review import cli


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the exit code. 0: done · 1: done, with bad input left out · 2: could not be done ·
    3: done, and a mean is worse than `--fail-under` allows."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments[:1] == ["demo"]:  # it has a parser of its own
        return _guarded(lambda: _demo(arguments[1:]))
    options = _parser().parse_args(arguments)
    return _guarded(lambda: int(options.run(options)))


def _guarded(command: object) -> int:
    try:
        return int(command())  # type: ignore[operator]
    except RagtraceError as error:
        print(f"ragtrace: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # `ragtrace eval … | head`
        sys.stderr.close()
        return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="ragtrace", description="Watches live RAG applications.")
    parser.add_argument("--version", action="version", version=f"ragtrace-otel {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    commands.add_parser("demo", help="two real assistants over a real corpus, traced and scored", add_help=False)

    evaluate = commands.add_parser("eval", help="score a data set")
    evaluate.add_argument(
        "file",
        type=Path,
        help="JSON lines, CSV or Parquet, plain or gzipped, or a folder of Hugging Face's datasets; "
        "with id, query, contexts, answer, reference, model",
    )
    evaluate.add_argument(
        "--evaluators", default="auto", metavar="A,B", help="names, `default`, `local`, or `auto`: what the data allows"
    )
    evaluate.add_argument("--out", default="-", help="where the scores go; - for standard output")
    evaluate.add_argument("--map", action="append", default=[], metavar="FIELD=COLUMN", help="where a field stands")
    evaluate.add_argument("--jobs", type=int, default=0, help="processes; 0 for one for each core")
    evaluate.add_argument("--strict", action="store_true", help="stop at the first line that cannot be used")
    evaluate.add_argument("--fresh", action="store_true", help="begin anew where an earlier run was stopped")
    evaluate.add_argument("--judge", metavar="MODEL", help="the judge, as litellm names it (setting judge_model)")
    evaluate.add_argument("--perturb", default="", metavar="KINDS", help="typos,case,paraphrase,chunk_order,distractor")
    evaluate.add_argument("--report", type=Path, metavar="FOLDER", help="results.parquet, results.json, report.html")
    evaluate.add_argument(
        "--fail-under",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="exit code 3 if the mean is worse than that: below it, or above it where lower is better",
    )
    evaluate.set_defaults(run=_eval)

    comparison = commands.add_parser("compare", help="which differences between two runs are real")
    comparison.add_argument("first", type=Path, help="a folder that `ragtrace eval --report` wrote")
    comparison.add_argument("second", type=Path, help="another one, with the same rows")
    comparison.set_defaults(run=_compare)

    report = commands.add_parser("report", help="what live requests scored lately, and whether it became worse")
    report.add_argument("--file", default="", help="the journal; default: the setting report_file")
    report.add_argument("--since", default="24h", metavar="WHEN", help="30m, 24h, 7d ago, or 2026-01-31[T12:00]")
    report.add_argument("--until", default="0m", metavar="WHEN", help="likewise; default: now")
    report.add_argument("--app", help="this application alone")
    report.add_argument("--html", type=Path, metavar="FILE", help="write a page that needs nothing else")
    report.add_argument("--json", action="store_true", help="as one JSON object")
    report.set_defaults(run=_report)

    listing = commands.add_parser("evaluators", help="what can be asked of an answer")
    listing.add_argument("--json", action="store_true", help="as one JSON array")
    listing.set_defaults(run=_evaluators)

    from ragtrace.console.cli import add_commands as console_commands

    console_commands(commands)

    doctor = commands.add_parser("doctor", help="what is installed, set and reachable here")
    doctor.add_argument("--json", action="store_true", help="as one JSON array")
    doctor.set_defaults(run=_doctor)
    store_cli.add_commands(commands)
    cli.add_commands(commands)
    return parser


def _demo(arguments: Sequence[str]) -> int:
    from ragtrace.demo import main as demo

    return int(demo(arguments))


def _eval(options: argparse.Namespace) -> int:
    from ragtrace import settings
    from ragtrace.offline.run import Plan, evaluate, to_run
    from ragtrace.offline.selection import names_of

    limits = {name: _number(name, value) for name, value in _pairs("--fail-under", options.fail_under).items()}
    settings.use(settings.load({"judge_model": options.judge}))
    plan = Plan(
        path=options.file,
        names=() if options.evaluators == "auto" else tuple(names_of(options.evaluators)),
        columns=_pairs("--map", options.map),
        perturb=tuple(kind.strip() for kind in options.perturb.split(",") if kind.strip()),
        jobs=options.jobs,
        strict=options.strict,
        fresh=options.fresh,
    )
    keep = options.report is not None or bool(limits)
    started = time.time()
    with _progress(options.file) as progress:
        out = sys.stdout if options.out == "-" else Path(options.out)
        outcome = evaluate(plan, out, keep=keep, progress=progress)
    resumed = f", {outcome.resumed} of them before" if outcome.resumed else ""
    said = f"{outcome.done} rows scored{resumed}, {len(outcome.errors)} lines left out, {outcome.seconds:.1f} s"
    print(f"ragtrace eval: {said}", file=sys.stderr)
    short: list[str] = []
    if keep:
        from ragtrace.reporting.summary import shortfalls

        run = to_run(plan, outcome, started)
        short = shortfalls(run, limits)
        if options.report is not None:
            from ragtrace.reporting.analysis import analyse
            from ragtrace.reporting.files import write_run
            from ragtrace.reporting.html import write_report

            analysis = analyse(run)
            write_run(run, options.report, analysis)
            print(f"ragtrace eval: {write_report(analysis, options.report)}", file=sys.stderr)
    for line in short:
        print(f"ragtrace eval: {line}", file=sys.stderr)
    if short:
        return 3
    return 1 if outcome.errors else 0


def _pairs(option: str, given: Sequence[str]) -> dict[str, str]:
    found = {}
    for pair in given:
        name, sign, value = pair.partition("=")
        if not (name and sign and value):
            raise SettingError(f"{option} is {pair!r}; give NAME=VALUE")
        found[name] = value
    return found


def _number(name: str, value: str) -> float:
    try:
        return float(value)
    except ValueError:
        raise SettingError(f"--fail-under is {name}={value}; give a number") from None


@contextlib.contextmanager
def _progress(path: Path) -> Iterator[Callable[[int], None] | None]:
    """A bar with rate and remaining time, where somebody looks."""
    if not sys.stderr.isatty() or importlib.util.find_spec("rich") is None:
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from ragtrace.offline.rows import read

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
    )
    begun, done = time.monotonic(), 0
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("evaluating", total=sum(1 for _ in read(path)), rate="")

        def advance(rows: int) -> None:
            nonlocal done
            done += rows
            bar.update(task, advance=rows, rate=f"{done / max(1e-6, time.monotonic() - begun):.1f} rows/s")

        yield advance


def _compare(options: argparse.Namespace) -> int:
    from ragtrace.reporting.comparison import comparison_table
    from ragtrace.reporting.files import read_run

    print(comparison_table(read_run(options.first), read_run(options.second)))
    return 0


def _report(options: argparse.Namespace) -> int:
    from ragtrace import settings
    from ragtrace.reporting import live, live_text

    path = options.file or settings.load().report_file
    if not path:
        raise SettingError("name the journal with --file, or with the setting report_file that makes it")
    now = time.time()
    since, until = (live.parse_time(getattr(options, name), now, f"--{name}") for name in ("since", "until"))
    report = live.live_report(path, since, until, options.app)
    if options.html is not None:
        from ragtrace.reporting.live_html import write_live

        print(f"ragtrace report: {write_live(report, options.html)}", file=sys.stderr)
    print(live_text.as_json(report) if options.json else live_text.as_text(report))
    return 1 if report.damaged else 0


def _evaluators(options: argparse.Namespace) -> int:
    from ragtrace import plugins

    rows = [plugins.describe(plugins.load(name)) for name in plugins.builtin_names()]
    if options.json:
        print(json.dumps(rows, indent=1))
        return 0
    for row in rows:
        needs = ", ".join(row["needs"])
        print(f"{row['name']:32} {row['method']:6} {needs:28} {str(row['description']).splitlines()[0]}")
    return 0


def _doctor(options: argparse.Namespace) -> int:
    from ragtrace.startup.doctor import examine

    findings = examine()
    if options.json:
        print(json.dumps([{"what": f.what, "state": f.state, "detail": f.detail} for f in findings], indent=1))
    else:
        for finding in findings:
            print(f"{finding.state:8} {finding.what:36} {finding.detail}")
    return 2 if any(finding.state == "wrong" for finding in findings) else 0
