"""What a threshold would do, on the logs that people reviewed: for whoever moves it by hand. Needs no numpy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from ragtrace.chatlogs.records import Judged
from ragtrace.evaluation import Direction
from ragtrace.review.confusion import measured
from ragtrace.review.consensus import Log, logs, newest, rate
from ragtrace.statistics import Estimate

_DRAWS = 400


@dataclass(frozen=True, slots=True)
class Consequence:
    """What a threshold would do, on the reviewed logs. Estimates are None where nothing can be said."""

    threshold: float
    flagged: Estimate | None
    """Share of the traffic that would fail."""
    precision: Estimate | None
    recall: Estimate | None
    f1: Estimate | None
    balanced_accuracy: Estimate | None


def consequences(
    judged: Sequence[Judged], thresholds: Sequence[float] | None, direction: Direction, *, weighted: bool = True
) -> list[Consequence]:
    """For each candidate threshold what it would do, in their order; None for 41 that divide the reviewed scores.
    Verdicts on older versions of the evaluator are left out. No verdicts, no consequences."""
    if not judged:
        return []
    found = [g for g in logs(newest(judged)[1], weighted=weighted) if g.value is not None and math.isfinite(g.value)]
    if not found:
        return []
    candidates = _candidates([float(g.value or 0.0) for g in found]) if thresholds is None else thresholds
    return [_consequence(found, threshold, direction) for threshold in candidates]


def _candidates(values: Sequence[float], count: int = 41) -> list[float]:
    distinct = sorted(set(values))
    middles = [distinct[0], *((a + b) / 2 for a, b in pairwise(distinct)), distinct[-1]]
    if len(middles) <= count:
        return middles
    return [middles[round(i * (len(middles) - 1) / (count - 1))] for i in range(count)]


def _consequence(found: Sequence[Log], threshold: float, direction: Direction) -> Consequence:
    flags = [
        g.value is not None and (g.value < threshold if direction == "higher" else g.value > threshold) for g in found
    ]
    measures = measured(found, flags, draws=_DRAWS)
    return Consequence(
        threshold,
        rate([(float(flag), g.weight) for g, flag in zip(found, flags, strict=True)]),
        measures.precision,
        measures.recall,
        measures.f1,
        measures.balanced_accuracy,
    )
