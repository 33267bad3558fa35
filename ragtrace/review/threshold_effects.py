"""What a threshold would do, on the logs that people reviewed: for whoever moves it by hand. Needs no numpy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from ragtrace.chatlogs.records import ScoredVerdict
from ragtrace.evaluation import Direction
from ragtrace.review.confusion import measured
from ragtrace.review.consensus import ReviewedLog, group_by_log, newest_version, weighted_rate
from ragtrace.statistics import Estimate

_DRAWS = 400


@dataclass(frozen=True, slots=True)
class ThresholdEffect:
    """What a threshold would do, on the reviewed logs. Estimates are None where nothing can be said."""

    threshold: float
    flagged: Estimate | None
    """Share of the traffic that would fail."""
    precision: Estimate | None
    recall: Estimate | None
    f1: Estimate | None
    balanced_accuracy: Estimate | None


def measure_thresholds(
    judged: Sequence[ScoredVerdict], thresholds: Sequence[float] | None, direction: Direction, *, weighted: bool = True
) -> list[ThresholdEffect]:
    """For each candidate threshold what it would do, in their order; None for 41 that divide the reviewed scores.
    Verdicts on older versions of the evaluator are left out. No verdicts, no consequences."""
    if not judged:
        return []
    found = [
        g
        for g in group_by_log(newest_version(judged)[1], weighted=weighted)
        if g.value is not None and math.isfinite(g.value)
    ]
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


def _consequence(found: Sequence[ReviewedLog], threshold: float, direction: Direction) -> ThresholdEffect:
    flags = [
        g.value is not None and (g.value < threshold if direction == "higher" else g.value > threshold) for g in found
    ]
    measures = measured(found, flags, draws=_DRAWS)
    return ThresholdEffect(
        threshold,
        weighted_rate([(float(flag), g.weight) for g, flag in zip(found, flags, strict=True)]),
        measures.precision,
        measures.recall,
        measures.f1,
        measures.balanced_accuracy,
    )
