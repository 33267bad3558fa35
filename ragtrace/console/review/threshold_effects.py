"""Shows what a threshold would do to the logs that people reviewed. Needs no numpy."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from ragtrace.console.chatlogs.store_types import ScoredVerdict
from ragtrace.console.review.consensus import ReviewedLog, group_scored, newest_version
from ragtrace.console.review.quality_measures import LabelMeasures, measure_labels
from ragtrace.evaluation import Direction

_DRAWS = 400


@dataclass(frozen=True)
class ThresholdEffect(LabelMeasures):
    """The effect of a threshold on the reviewed logs."""

    threshold: float


def measure_thresholds(
    verdicts: Sequence[ScoredVerdict],
    thresholds: Sequence[float] | None,
    direction: Direction,
    *,
    weighted: bool = True,
) -> list[ThresholdEffect]:
    """Measures the effect of each threshold, in their order; None measures up to 41 that divide the reviewed scores.
    Verdicts on older versions of the evaluator are left out. Without verdicts the list is empty."""
    logs = group_scored(newest_version(verdicts)[1], weighted=weighted) if verdicts else []
    if not logs:
        return []
    candidates = _candidates([log.value or 0.0 for log in logs]) if thresholds is None else thresholds
    return [_effect(logs, threshold, direction) for threshold in candidates]


def _candidates(values: Sequence[float], count: int = 41) -> list[float]:
    distinct = sorted(set(values))
    middles = [distinct[0], *((a + b) / 2 for a, b in pairwise(distinct)), distinct[-1]]
    if len(middles) <= count:
        return middles
    return [middles[round(i * (len(middles) - 1) / (count - 1))] for i in range(count)]


def _effect(logs: Sequence[ReviewedLog], threshold: float, direction: Direction) -> ThresholdEffect:
    values = [log.value or 0.0 for log in logs]
    flags = [value < threshold if direction == "higher" else value > threshold for value in values]
    return ThresholdEffect(threshold=threshold, **vars(measure_labels(logs, flags, draws=_DRAWS)))
