"""From single verdicts to logs: what people together say of one evaluator's question about one log."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ragtrace.calibrations import own
from ragtrace.chatlogs.records import ScoredVerdict
from ragtrace.statistics import Estimate, Sums

USABLE = ("pass", "fail")


@dataclass(frozen=True, slots=True)
class ReviewedLog:
    """One log beside its verdicts on one evaluator's question."""

    trace: int
    weight: float
    """Requests that it stands for; only ratios of weights matter."""
    bad: float
    """Share in [0, 1] of the people who said `fail` among those who said `pass` or `fail`."""
    value: float | None
    flagged: bool | None
    """Whether the evaluator says `fail`; None where it says neither `fail` nor `pass`."""
    verdicts: int


def group_by_log(rows: Iterable[ScoredVerdict], *, weighted: bool = True) -> list[ReviewedLog]:
    """One for each log of which somebody said `pass` or `fail`, all of one evaluator. People who disagree about a log
    share it: it is no second log. With `weighted`, those of weight 0 are left out; without, each weighs 1."""
    found: defaultdict[int, list[ScoredVerdict]] = defaultdict(list)
    for row in rows:
        if row.verdict in USABLE and (row.weight > 0 or not weighted):
            found[row.trace].append(row)
    return [_log(trace, given, weighted) for trace, given in found.items()]


def _log(trace: int, given: Sequence[ScoredVerdict], weighted: bool) -> ReviewedLog:
    first = given[0]
    return ReviewedLog(
        trace,
        first.weight if weighted else 1.0,
        sum(row.verdict == "fail" for row in given) / len(given),
        first.value,
        first.label == "fail" if first.label in USABLE else None,
        len(given),
    )


def newest_version(rows: Sequence[ScoredVerdict]) -> tuple[str, list[ScoredVerdict]]:
    """The newest of the evaluator's own versions that were judged, and its rows; calibrations of one version are one.
    Raises ValueError without rows."""
    last = max(rows, key=lambda row: row.created)
    version = own(last.version)
    return version, [row for row in rows if own(row.version) == version]


def weighted_rate(pairs: Sequence[tuple[float, float]]) -> Estimate | None:
    """The weighted mean of values in [0, 1], given with their weights, and Wilson's interval on Kish's effective sample
    size (see `ragtrace.statistics`); None where nothing weighs anything."""
    weighing = [(value, weight) for value, weight in pairs if weight > 0]
    if not weighing:
        return None
    least = min(weight for _, weight in weighing)
    sums = Sums()
    for value, weight in weighing:
        sums.add(value, least / weight, math.inf)
    return sums.rate()
