"""Groups verdicts by log: what people together say about one evaluator's question."""

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ragtrace.calibrations import own_version
from ragtrace.console.chatlogs.store_types import ScoredVerdict
from ragtrace.statistics import Estimate, weighted

USABLE = ("pass", "fail")


@dataclass(frozen=True, slots=True)
class ReviewedLog:
    """One log and its verdicts on one evaluator's question."""

    trace: int
    weight: float
    """Requests that the log stands for; only ratios of weights matter."""
    bad: float
    """Share in [0, 1] of `fail` among the verdicts `pass` and `fail`."""
    value: float | None
    flagged: bool | None
    """Whether the evaluator's label is `fail`; None if it is neither `fail` nor `pass`."""


def group_by_log(rows: Iterable[ScoredVerdict], *, weighted: bool = True) -> list[ReviewedLog]:
    """Returns one item for each log with a verdict `pass` or `fail`; all rows belong to one evaluator. People who
    disagree about a log share it. With `weighted`, logs of weight 0 are left out; otherwise each has the weight 1."""
    by_trace: defaultdict[int, list[ScoredVerdict]] = defaultdict(list)
    for row in rows:
        if row.verdict in USABLE and (row.weight > 0 or not weighted):
            by_trace[row.trace].append(row)
    return [
        ReviewedLog(
            trace,
            group[0].weight if weighted else 1.0,
            sum(row.verdict == "fail" for row in group) / len(group),
            group[0].value,
            group[0].label == "fail" if group[0].label in USABLE else None,
        )
        for trace, group in by_trace.items()
    ]


def group_scored(rows: Iterable[ScoredVerdict], *, weighted: bool = True) -> list[ReviewedLog]:
    """As `group_by_log`, without logs whose score is not a finite number."""
    logs = group_by_log(rows, weighted=weighted)
    return [log for log in logs if log.value is not None and math.isfinite(log.value)]


def newest_version(rows: Sequence[ScoredVerdict]) -> tuple[str, list[ScoredVerdict]]:
    """Returns the evaluator's own version of the newest log with a score, and the rows of this version; calibrations
    of one version count as this version. Raises ValueError without rows."""
    version = own_version(max(rows, key=lambda row: (row.version != "", row.trace)).version)
    return version, [row for row in rows if own_version(row.version) == version]


def weighted_rate(pairs: Sequence[tuple[float, float]]) -> Estimate | None:
    """The weighted mean of values in [0, 1], from pairs of value and weight, with Wilson's interval on Kish's effective
    sample size (see `ragtrace.statistics`). None if no weight is positive."""
    positive = [(value, weight) for value, weight in pairs if weight > 0]
    if not positive:
        return None
    values, weights = zip(*positive, strict=True)
    least = min(weights)
    return weighted(values, [least / weight for weight in weights], rate=True, most=math.inf)
