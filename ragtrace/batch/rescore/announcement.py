"""What `ragtrace rescore` says before it starts: what is to be done, what it takes, and whether it may cost that."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from ragtrace.errors import SettingError

if TYPE_CHECKING:
    from ragtrace.batch.rescore.cost_estimate import CostEstimate
    from ragtrace.batch.rescore.job import RescoreSuite
    from ragtrace.batch.rescore.stored_logs import Missing


def say(text: str) -> None:
    """Prints a line of the command to standard error, in the terminal's width."""
    from ragtrace.base import terminal

    print("\n".join(terminal.fitted([f"ragtrace rescore: {text}"], terminal.width(sys.stderr))), file=sys.stderr)


def task(suite: RescoreSuite, missing: Missing, name: str) -> str:
    """What is to be done, in one sentence."""
    versions = ", ".join(f"{check.name} {check.version}" for check in suite.checks)
    begin = f"{name}: {missing.logs:,} logs; evaluators with their versions: {versions}"
    if not missing.logs:
        return f"{begin}; there is nothing to evaluate (spans have texts with capture_content alone)"
    if not missing.unfinished:
        return f"{begin}; all scores are there, nothing is to be done"
    todo = sum(missing.evaluations.values())
    present = missing.logs * len(suite.checks) - todo
    return f"{begin}; {todo:,} evaluations of {missing.unfinished:,} logs are to be done, {present:,} are there"


def confirm(
    suite: RescoreSuite, cost: CostEstimate, processes: int, agreed: bool, batch_share: float | None = None
) -> None:
    """Says what the run will take, and asks before the judge costs money. `batch_share` is the share of the price at
    which the judge is asked in batches; None for single calls. Raises SettingError without an agreement."""
    if batch_share is not None:
        cost = cost.in_batches(batch_share)
    where = f"{processes} processes" if processes else "one process"
    say(f"about {_duration(cost.seconds)} in {where}, measured on {cost.sample} of the logs")
    if not suite.asks_judge:
        return
    used = suite.settings
    limits = f"its budget is {used.judge_budget_hour:g} US dollars an hour and {used.judge_budget_day:g} a day"
    price = "" if batch_share is None else f" in batches at {batch_share:g} of the price"
    say(f"the judge {used.judge_model}: about {cost.calls:,} calls, {_dollars(cost.dollars)}{price}; {limits}")
    if batch_share is not None:
        say("a batch may take up to 24 hours, and where the questions depend on replies, one follows another")
    elif cost.dollars > used.judge_budget_hour:
        say("that is more than judge_budget_hour: what it has no room for fails, and the next run tries it again")
    if agreed or cost.is_free:
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
