"""Pictures of a report as SVG text: no script, no style attribute, colours by class. Every text in them is escaped."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from ragtrace.reporting.results import Metric

BINS = 20
_WIDTH, _HEIGHT, _LEFT, _BOTTOM, _TOP = 320, 130, 8, 22, 16


def histogram(metric: Metric, values: Sequence[float]) -> str:
    """How a metric's values are distributed, in 20 bins, with a line at the threshold. Empty without values.

    The axis is the metric's range, or that of the values where the range has no end. A bin holds its lower bound, the
    last one its upper one, too.
    """
    if not values:
        return ""
    low, high = _axis(metric, values)
    counts = binned(values, low, high)
    most = max(counts)
    step = (_WIDTH - 2 * _LEFT) / BINS
    floor = _HEIGHT - _BOTTOM
    bars = []
    for i, count in enumerate(counts):
        if count:
            height = max(1.0, (floor - _TOP) * count / most)
            middle = low + (high - low) * (i + 0.5) / BINS
            kind = {True: "good", False: "bad", None: "plain"}[metric.meets(middle)]
            bounds = f"{low + (high - low) * i / BINS:.3g} to {low + (high - low) * (i + 1) / BINS:.3g}"
            bars.append(
                f'<rect class="bar {kind}" x="{_LEFT + i * step + 0.5:.1f}" y="{floor - height:.1f}" '
                f'width="{step - 1:.1f}" height="{height:.1f}"><title>{bounds}: {count}</title></rect>'
            )
    return (
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{escape(_told(metric, counts, low, high))}">'
        f'{"".join(bars)}<line class="axis" x1="{_LEFT}" x2="{_WIDTH - _LEFT}" y1="{floor}" y2="{floor}"/>'
        f'<text x="{_LEFT}" y="{_HEIGHT - 7}">{low:.3g}</text>'
        f'<text x="{_WIDTH - _LEFT}" y="{_HEIGHT - 7}" text-anchor="end">{high:.3g}</text>'
        f"{_threshold(metric, low, high, floor)}</svg>"
    )


def binned(values: Sequence[float], low: float, high: float) -> list[int]:
    """How many values lie in each of the bins between `low` and `high`; those outside count for the nearest one."""
    counts = [0] * BINS
    for value in values:
        # The nudge keeps 0.15 of [0, 1] in the bin that starts there, though 0.15 * 20 is a little under 3.
        place = math.floor((value - low) / (high - low) * BINS + 1e-9)
        counts[min(BINS - 1, max(0, place))] += 1
    return counts


def _axis(metric: Metric, values: Sequence[float]) -> tuple[float, float]:
    low = metric.range[0] if math.isfinite(metric.range[0]) else min(values)
    high = metric.range[1] if math.isfinite(metric.range[1]) else max(values)
    return (low, high) if high > low else (low, low + 1.0)


def _threshold(metric: Metric, low: float, high: float, floor: int) -> str:
    if metric.threshold is None or not low <= metric.threshold <= high:
        return ""
    x = _LEFT + (_WIDTH - 2 * _LEFT) * (metric.threshold - low) / (high - low)
    anchor = "end" if x > _WIDTH / 2 else "start"
    sign = "≥" if metric.direction == "higher" else "≤"
    return (
        f'<line class="limit" x1="{x:.1f}" x2="{x:.1f}" y1="4" y2="{floor}"/>'
        f'<text x="{x - 4 if anchor == "end" else x + 4:.1f}" y="12" text-anchor="{anchor}">'
        f"{sign} {metric.threshold:g}</text>"
    )


def _told(metric: Metric, counts: Sequence[int], low: float, high: float) -> str:
    fullest = max(range(BINS), key=lambda i: counts[i])
    start, end = (low + (high - low) * i / BINS for i in (fullest, fullest + 1))
    limit = "" if metric.threshold is None else f"; threshold {metric.threshold:g}"
    return f"Distribution of {metric.name}: {sum(counts)} values, most between {start:.3g} and {end:.3g}{limit}"
