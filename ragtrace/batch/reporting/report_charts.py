"""The charts of the report of a run."""

from collections.abc import Sequence

from ragtrace.base import svg
from ragtrace.batch.reporting.results import Metric

BINS = 20
_FRAME = svg.Frame(320, 130, 8, 8, 16, 22)


def histogram(metric: Metric, values: Sequence[float]) -> str:
    """The distribution of a metric's values in 20 bins, with a line at the threshold. Empty without values.

    The axis is the metric's range; where the range is infinite, it ends at the least or greatest value."""
    if not values:
        return ""
    scale = svg.Axis(*metric.ends(values))
    counts = binned(values, scale)
    step = _FRAME.inner / BINS
    bars = []
    for i, count in enumerate(counts):
        if count:
            height = max(1.0, (_FRAME.floor - _FRAME.top) * count / max(counts))
            middle = scale.low + (scale.high - scale.low) * (i + 0.5) / BINS
            kind = {True: "good", False: "bad", None: "plain"}[metric.meets(middle)]
            x, y = _FRAME.x(i / BINS) + 0.5, _FRAME.floor - height
            bars.append(svg.rect(f"bar {kind}", x, y, step - 1, height, title=f"{scale.bounds(i, BINS)}: {count}"))
    axis = svg.line("axis", _FRAME.left, _FRAME.floor, _FRAME.x(1.0), _FRAME.floor)
    marks = svg.ends(_FRAME, f"{scale.low:.3g}", f"{scale.high:.3g}") + _threshold(metric, scale)
    return svg.picture(_label(metric, counts, scale), _FRAME.width, _FRAME.height, [*bars, axis, marks])


def binned(values: Sequence[float], scale: svg.Axis) -> list[int]:
    """The number of values in each of 20 equal bins."""
    counts = [0] * BINS
    for value in values:
        counts[scale.bin(value, BINS)] += 1
    return counts


def _threshold(metric: Metric, scale: svg.Axis) -> str:
    if metric.threshold is None or not scale.low <= metric.threshold <= scale.high:
        return ""
    x = _FRAME.x(scale.share(metric.threshold))
    sign = "≥" if metric.direction == "higher" else "≤"
    at, anchor = (x - 4, "end") if x > _FRAME.width / 2 else (x + 4, "start")
    return svg.line("limit", x, 4, x, _FRAME.floor) + svg.text(at, 12, f"{sign} {metric.threshold:g}", anchor)


def _label(metric: Metric, counts: Sequence[int], scale: svg.Axis) -> str:
    fullest = max(range(BINS), key=lambda i: counts[i])
    limit = "" if metric.threshold is None else f"; threshold {metric.threshold:g}"
    most = scale.bounds(fullest, BINS).replace(" to ", " and ")
    return f"Distribution of {metric.name}: {sum(counts)} values, most between {most}{limit}"
