"""What the page of one evaluator shows of its threshold: the candidates with their consequences, how scores lie for
logs that people pass and fail, and how far scores and calibrated probabilities come true."""

from collections.abc import Sequence
from dataclasses import dataclass

from ragtrace.base import svg
from ragtrace.console.chatlogs.store_types import ScoredVerdict
from ragtrace.console.pages import page_charts
from ragtrace.console.pages.page_charts import Point
from ragtrace.console.pages.template_filters import percent, range_percent
from ragtrace.console.review.consensus import ReviewedLog, group_scored, newest_version, weighted_rate
from ragtrace.console.review.curves import Curve
from ragtrace.console.review.threshold_effects import ThresholdEffect, measure_thresholds
from ragtrace.evaluation import Direction

BINS = 20
_PARTS = 10


@dataclass(frozen=True, slots=True)
class Board:
    """All that hangs on the threshold, with one of the candidates chosen."""

    steps: tuple[ThresholdEffect, ...]
    """By threshold, ascending."""
    at: int
    """The chosen one among them."""
    now: ThresholdEffect | None
    """What the threshold in force does."""
    picture: str
    place: tuple[float, float, float, float]
    """Left and right edge of the picture's axis, and the scores that they stand for."""
    logs: int
    """That weigh anything."""
    judged: int

    @property
    def chosen(self) -> ThresholdEffect:
        """The candidate that is shown."""
        return self.steps[self.at]


def board(
    judged: Sequence[ScoredVerdict],
    threshold: float | None,
    direction: Direction,
    candidate: float | None,
    place: int | None,
    *,
    weighted: bool,
) -> Board | None:
    """The board, with the step at `place`, or else the one nearest to `candidate` or to the threshold in force; None
    where no reviewed log has a score that weighs anything."""
    steps = measure_thresholds(judged, None, direction, weighted=weighted)
    if not steps:
        return None
    now = None
    if threshold is not None:
        (now,) = measure_thresholds(judged, [threshold], direction, weighted=weighted)
        if all(step.threshold != threshold for step in steps):
            steps.append(now)
    steps.sort(key=lambda step: step.threshold)
    aim = candidate if candidate is not None else threshold
    if aim is None:
        aim = steps[len(steps) // 2].threshold
    at = min(range(len(steps)), key=lambda i: abs(steps[i].threshold - aim)) if place is None else place
    at = min(at, len(steps) - 1)
    logs = _usable(judged, weighted)
    scale = _scale(logs)
    picture = _picture(logs, scale, steps[at].threshold)
    axis = (page_charts.WIDE.left, page_charts.WIDE.x(1.0), scale.low, scale.high)
    return Board(tuple(steps), at, now, picture, axis, len(logs), len(_usable(judged, False)))


def _usable(judged: Sequence[ScoredVerdict], weighted: bool) -> list[ReviewedLog]:
    return group_scored(newest_version(judged)[1], weighted=weighted) if judged else []


def _scale(logs: Sequence[ReviewedLog]) -> svg.Axis:
    values = [log.value or 0.0 for log in logs]
    low, high = min(values), max(values)
    if low >= 0.0 and high <= 1.0:
        return svg.Axis(0.0, 1.0)
    return svg.Axis(low, high if high > low else low + 1.0)


def _picture(logs: Sequence[ReviewedLog], scale: svg.Axis, threshold: float) -> str:
    passed, failed = [0.0] * BINS, [0.0] * BINS
    total = sum(log.weight for log in logs) or 1.0
    for log in logs:
        at = scale.bin(log.value or 0.0, BINS)
        passed[at] += 100.0 * log.weight * (1 - log.bad) / total
        failed[at] += 100.0 * log.weight * log.bad / total
    label = f"Scores of logs that people passed (upwards) and failed (downwards), {len(logs)} logs"
    return page_charts.distribution(passed, failed, scale, threshold, label)


def reliability(judged: Sequence[ScoredVerdict], curve: Curve | None, *, weighted: bool) -> str:
    """How often people fail answers of which so much was said: of the curve's probability, or of the bare score where
    there is no curve and scores are in [0, 1]. Empty where nothing can be shown."""
    logs = _usable(judged, weighted)
    if not logs:
        return ""
    values = [log.value or 0.0 for log in logs]
    if curve is not None:
        predictions, what = curve(values).tolist(), "calibrated probability of a bad answer"
    elif min(values) >= 0.0 and max(values) <= 1.0:
        predictions, what = values, "score"
    else:
        return ""
    outcome = [log.bad if curve is not None else 1 - log.bad for log in logs]
    label = f"Calibration: {what} against what people say"
    return page_charts.reliability(_bins(predictions, outcome, [log.weight for log in logs]), label)


def _bins(predictions: Sequence[float], outcome: Sequence[float], weights: Sequence[float]) -> list[Point]:
    points = []
    for part in range(_PARTS):
        inside = [i for i, p in enumerate(predictions) if min(_PARTS - 1, int(p * _PARTS)) == part]
        estimate = weighted_rate([(outcome[i], weights[i]) for i in inside])
        if estimate is None:
            continue
        x = sum(predictions[i] * weights[i] for i in inside) / sum(weights[i] for i in inside)
        label = f"said {percent(x)}, came true {percent(estimate.value)} ({range_percent(estimate.interval)}), "
        low, high = estimate.interval or (None, None)
        points.append(Point(x, estimate.value, low, high, f"{label}{len(inside)} logs"))
    return points
