"""From single verdicts to logs: what people together say of one evaluator's question about one log."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ragtrace.chatlogs.records import Judged
from ragtrace.statistics import Estimate, Sums
from ragtrace.thresholds import own

USABLE = ("pass", "fail")


@dataclass(frozen=True, slots=True)
class Log:
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


def logs(rows: Iterable[Judged], *, weighted: bool = True) -> list[Log]:
    """One for each log of which somebody said `pass` or `fail`, all of one evaluator. People who disagree about a log
    share it: it is no second log. With `weighted`, those of weight 0 are left out; without, each weighs 1."""
    found: defaultdict[int, list[Judged]] = defaultdict(list)
    for row in rows:
        if row.verdict in USABLE and (row.weight > 0 or not weighted):
            found[row.trace].append(row)
    return [_log(trace, given, weighted) for trace, given in found.items()]


def _log(trace: int, given: Sequence[Judged], weighted: bool) -> Log:
    first = given[0]
    return Log(
        trace,
        first.weight if weighted else 1.0,
        sum(row.verdict == "fail" for row in given) / len(given),
        first.value,
        first.label == "fail" if first.label in USABLE else None,
        len(given),
    )


def newest(rows: Sequence[Judged]) -> tuple[str, list[Judged]]:
    """The newest of the evaluator's own versions that were judged, and its rows; calibrations of one version are one.
    Raises ValueError without rows."""
    last = max(rows, key=lambda row: row.created)
    version = own(last.version)
    return version, [row for row in rows if own(row.version) == version]


def rate(pairs: Sequence[tuple[float, float]]) -> Estimate | None:
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


def f1_of(found: Sequence[Log], flagged: Sequence[bool]) -> Estimate | None:
    """F1 of the label `fail`. It is 2 J / (1 + J) of the Jaccard index J, which is a rate; so is its interval."""
    pairs = []
    for log, flag in zip(found, flagged, strict=True):
        if flag:
            pairs += [(1.0, log.weight * log.bad), (0.0, log.weight * (1 - log.bad))]
        else:
            pairs.append((0.0, log.weight * log.bad))
    jaccard = rate(pairs)
    if jaccard is None or jaccard.interval is None:
        return None
    low, high = (2 * bound / (1 + bound) for bound in jaccard.interval)
    value = 2 * jaccard.value / (1 + jaccard.value)
    return Estimate(value, (low, high), jaccard.count, jaccard.effective)


def precision_of(found: Sequence[Log], flagged: Sequence[bool]) -> Estimate | None:
    """Of the logs that the evaluator fails, those that people fail, too."""
    return rate([(log.bad, log.weight) for log, flag in zip(found, flagged, strict=True) if flag])


def recall_of(found: Sequence[Log], flagged: Sequence[bool]) -> Estimate | None:
    """Of the logs that people fail, those that the evaluator fails, too."""
    return rate([(float(flag), log.weight * log.bad) for log, flag in zip(found, flagged, strict=True)])


def specificity_of(found: Sequence[Log], flagged: Sequence[bool]) -> Estimate | None:
    """Of the logs that people pass, those that the evaluator passes, too."""
    return rate([(float(not flag), log.weight * (1 - log.bad)) for log, flag in zip(found, flagged, strict=True)])


def balanced_of(found: Sequence[Log], flagged: Sequence[bool]) -> Estimate | None:
    """Balanced accuracy: the mean of recall and specificity, its interval recovered from theirs (G. Y. Zou, A. Donner,
    Construction of confidence limits about effect measures, 2008)."""
    one, two = recall_of(found, flagged), specificity_of(found, flagged)
    if one is None or two is None or one.interval is None or two.interval is None:
        return None
    value = (one.value + two.value) / 2
    down = math.hypot(one.value - one.interval[0], two.value - two.interval[0]) / 2
    up = math.hypot(one.interval[1] - one.value, two.interval[1] - two.value) / 2
    return Estimate(
        value, (max(0.0, value - down), min(1.0, value + up)), len(found), min(one.effective, two.effective)
    )
