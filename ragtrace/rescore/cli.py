"""`ragtrace rescore`."""

from __future__ import annotations

import argparse
import contextlib
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from ragtrace.errors import DataError, SettingError

if TYPE_CHECKING:
    from ragtrace.rescore.cost_estimate import CostEstimate
    from ragtrace.rescore.job import RescoreOutcome, RescoreSuite
    from ragtrace.rescore.stored_logs import LogSelection, Missing


def add_commands(commands: Any) -> None:
    """Adds it to the parser of `ragtrace`. Imports nothing heavy."""
    from ragtrace.chatlogs.cli import add_store_option

    rescore = commands.add_parser(
        "rescore", help="evaluate stored logs or spans in a file again, with other evaluators or new versions"
    )
    add = rescore.add_argument
    add_store_option(rescore)
    add(
        "--evaluators",
        default="default",
        metavar="A,B",
        help="names of evaluators, `default` (the default) or `local`",
    )
    add_log_options(rescore)
    add("--jobs", type=int, default=0, help="the number of processes; 0 (the default) starts one for each core")
    add("--yes", action="store_true", help="let the judge spend what the command says that it will cost")
    rescore.set_defaults(run=_rescore)


def add_log_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options that choose stored logs."""
    add = parser.add_argument
    add("--since", default="", metavar="WHEN", help="only logs from then on: 30m, 24h or 7d before now, or 2026-01-31")
    add("--until", default="", metavar="WHEN", help="only logs before then, in the same form")
    add("--app", default="", help="only logs of this application")


def compare_versions(options: argparse.Namespace) -> int:
    """`ragtrace compare --evaluator`: two versions on the logs of a store."""
    from ragtrace.chatlogs.cli import open_store_of
    from ragtrace.reporting import terminal
    from ragtrace.rescore.version_changes import two_versions, version_changes

    selection = _selection(options)
    with open_store_of(options) as store:
        versions = [version for version in (options.first, options.second) if version is not None]
        pair = two_versions(store, options.evaluator, versions)
        print(version_changes(store, options.evaluator, pair, selection, terminal.width()))
    return 0


def _rescore(options: argparse.Namespace) -> int:
    return _rescore_store(options)


def _say(text: str) -> None:
    print(f"ragtrace rescore: {text}", file=sys.stderr)


def _rescore_store(options: argparse.Namespace) -> int:
    from ragtrace import settings
    from ragtrace.chatlogs.cli import open_store_of
    from ragtrace.offline.rows import Row
    from ragtrace.rescore.cost_estimate import estimate_cost, sample_size
    from ragtrace.rescore.job import load_suite, process_count, run_suite
    from ragtrace.rescore.stored_logs import StoredLogs

    suite = load_suite(options.evaluators, settings.load())
    selection = _selection(options)
    with open_store_of(options) as store:
        logs = StoredLogs(store, suite.checks, selection)
        missing = logs.count()
        _say(_task(suite, missing, store.name))
        if not missing.unfinished:
            return 0
        suite = suite.subset({name for name, count in missing.evaluations.items() if count})
        processes = process_count(options.jobs, missing.unfinished)
        rows = (item for item in logs.rows() if isinstance(item, Row))
        sample = list(islice(rows, sample_size(missing.unfinished)))
        _confirm(suite, estimate_cost(suite, sample, missing.evaluations, processes), processes, options.yes)
        with _progress(missing.unfinished) as progress:
            outcome = run_suite(
                suite, logs.rows(), missing.unfinished, processes, logs.write, _report_error, progress=progress
            )
        return _conclude(options, outcome, "stored")


def _selection(options: argparse.Namespace) -> LogSelection:
    from ragtrace.reporting.live import parse_time
    from ragtrace.rescore.stored_logs import LogSelection

    now = time.time()
    since = parse_time(options.since, now, "--since") if options.since else 0.0
    until = parse_time(options.until, now, "--until") if options.until else LogSelection().until
    if not since < until:
        raise SettingError(f"the period ends before it begins: --since {options.since}, --until {options.until}")
    return LogSelection(since, until, options.app)


def _task(suite: RescoreSuite, missing: Missing, name: str) -> str:
    """What is to be done, in one sentence."""
    versions = ", ".join(f"{check.name} {check.version}" for check in suite.checks)
    begin = f"{name}: {missing.logs:,} logs, {len(suite.checks)} evaluators in these versions: {versions}"
    if not missing.unfinished:
        return f"{begin}; all scores are there, nothing is to be done"
    todo = sum(missing.evaluations.values())
    present = missing.logs * len(suite.checks) - todo
    return f"{begin}; {todo:,} evaluations of {missing.unfinished:,} logs are to be done, {present:,} are there"


def _confirm(suite: RescoreSuite, cost: CostEstimate, processes: int, agreed: bool) -> None:
    """Says what the run will take, and asks before the judge costs money. Raises SettingError without an agreement."""
    where = f"{processes} processes" if processes else "one process"
    _say(f"about {_duration(cost.seconds)} in {where}, measured on {cost.sample} of the logs")
    if not suite.asks_judge:
        return
    used = suite.settings
    limits = f"its budget is {used.judge_budget_hour:g} US dollars an hour and {used.judge_budget_day:g} a day"
    _say(f"the judge {used.judge_model}: about {cost.calls:,} calls, {_dollars(cost.dollars)}; {limits}")
    if cost.dollars > used.judge_budget_hour:
        _say("that is more than judge_budget_hour: what it has no room for fails, and the next run tries it again")
    if agreed or not cost.dollars:
        return
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise SettingError(f"the judge will cost about {_dollars(cost.dollars)}; add --yes to agree")
    print("ragtrace rescore: go on? [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise SettingError("rescore was not confirmed; nothing was evaluated")


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{max(1.0, seconds):.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7_200 else f"{seconds / 3_600:.1f} h"


def _dollars(amount: float) -> str:
    return f"{amount:.2f} US dollars" if amount >= 0.01 or not amount else f"{amount:.2g} US dollars"


def _report_error(error: DataError) -> None:
    _say(str(error))


@contextlib.contextmanager
def _progress(logs: int) -> Iterator[Callable[[int], None] | None]:
    from ragtrace.reporting.progress import progress_bar

    with progress_bar(lambda: logs, "logs") as progress:
        yield progress


def _conclude(options: argparse.Namespace, outcome: RescoreOutcome, verb: str) -> int:
    """Prints the figures; returns the exit code."""
    from ragtrace.reporting import terminal

    left_out = f"{len(outcome.errors)} unreadable ones were left out"
    _say(f"{outcome.done:,} logs were evaluated and {verb}, {left_out}, in {outcome.seconds:.1f} s")
    print("\n".join(outcome.figures.lines(terminal.width(sys.stderr))), file=sys.stderr)
    if outcome.failed:
        _say(f"{outcome.failed:,} evaluations failed; the same command tries them again")
    names = [name.strip() for name in options.evaluators.split(",")]
    empty = outcome.figures.without_value(_required(outcome, names))
    for line in empty:
        _say(line)
    return 1 if outcome.errors or empty else 0


def _required(outcome: RescoreOutcome, names: Sequence[str]) -> list[str]:
    """The evaluators that were named themselves: those of `default` and `local` may suit no log."""
    return [name for name in outcome.figures.figures if any(each.rpartition(":")[2] == name for each in names)]
