"""Pictures as SVG text: no script, no style attribute, colours by class. Every text in them is escaped, and every value
stands in a title, too; tables beside them say the same."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape

from ragtrace.console.safe_text import printable

WIDTH, HEIGHT = 400, 150
LEFT, RIGHT, _TOP, _BOTTOM = 40, 8, 8, 20
_INNER = WIDTH - LEFT - RIGHT
_FLOOR = HEIGHT - _BOTTOM


@dataclass(frozen=True, slots=True)
class Point:
    """One value on the way, with its interval where it has one; None where nothing was seen."""

    x: float
    """On a time line Unix seconds, the start of its step."""
    value: float | None
    low: float | None = None
    high: float | None = None
    told: str = ""
    """What its title says."""


@dataclass(frozen=True, slots=True)
class Axis:
    """A scale from `low` to `high` with marks at `ticks`; `unit` is one of ``%``, ``s`` or empty."""

    low: float
    high: float
    ticks: tuple[float, ...]
    unit: str = ""

    def at(self, value: float) -> float:
        """Where a value lies, in [0, 1]."""
        share = (value - self.low) / (self.high - self.low)
        return min(1.0, max(0.0, share))

    def told(self, value: float) -> str:
        """A mark's text."""
        if self.unit == "%":
            return f"{100 * value:.0f} %"
        if self.unit == "s":
            return f"{1000 * value:.0f} ms" if 0 < value < 0.995 and self.high < 1 else f"{value:g} s"
        return f"{value / 1000:g} k" if value >= 10_000 else f"{value:g}"


def axis(values: Sequence[float], unit: str = "", *, zero: bool = True, ceiling: float | None = None) -> Axis:
    """A scale with two to five round marks that holds all values; it begins at 0 unless told otherwise."""
    known = [v for v in values if math.isfinite(v)]
    low = 0.0 if zero or not known else min(known)
    high = ceiling if ceiling is not None else max([*known, low])
    if not high > low:
        high = low + 1.0
    step = _round((high - low) / 4)
    low = math.floor(low / step + 1e-9) * step
    steps = max(1, math.ceil((high - low) / step - 1e-9))
    top = ceiling if ceiling is not None else low + steps * step
    ticks = tuple(t for i in range(steps + 1) if (t := round(low + i * step, 10)) <= top + 1e-9)
    return Axis(low, top, ticks, unit)


def _round(step: float) -> float:
    power = 10.0 ** math.floor(math.log10(step))
    return next(power * nice for nice in (1, 2, 2.5, 5, 10) if power * nice >= step * 0.999)


def _x(i: float, count: int) -> float:
    return LEFT + _INNER * i / max(1, count)


def _y(scale: Axis, value: float) -> float:
    return _FLOOR - (_FLOOR - _TOP) * scale.at(value)


def rates(points: Sequence[Point], label: str, switches: Sequence[tuple[float, str]] = ()) -> str:
    """Shares in [0, 1] over time with the band of their intervals; a dashed line where something was switched: (Unix
    time, what). Empty where nothing is known."""
    known = [p for p in points if p.value is not None]
    if not known:
        return ""
    least = min(p.low if p.low is not None else p.value for p in known if p.value is not None)
    scale = axis([min(0.9, least)], "%", zero=False, ceiling=1.0)
    lines = _runs(points, scale)
    marks = "".join(_switch(points, when, what) for when, what in switches)
    return _svg(label, _frame(scale, points) + _band(points, scale) + lines + marks + _hits(points))


def lines(series: Sequence[tuple[str, Sequence[Point]]], label: str, unit: str) -> str:
    """Up to two lines over time, the second one in another colour. Empty where nothing is known."""
    values = [p.value for _, points in series for p in points if p.value is not None]
    if not values:
        return ""
    scale = axis(values, unit)
    drawn = "".join(_runs(points, scale, "second" if i else "") for i, (_, points) in enumerate(series))
    return _svg(label, _frame(scale, series[0][1]) + drawn + _hits(series[-1][1]))


def columns(points: Sequence[Point], bad: Sequence[float], label: str) -> str:
    """Counts over time as columns, the share that is bad in another colour at their foot. Empty without any."""
    if not any(p.value for p in points):
        return ""
    scale = axis([p.value or 0.0 for p in points])
    drawn = []
    for i, (p, wrong) in enumerate(zip(points, bad, strict=True)):
        if not p.value:
            continue
        x, width = _x(i, len(points)) + 0.5, max(0.5, _INNER / len(points) - 1)
        y, foot = _y(scale, p.value), _y(scale, wrong)
        drawn.append(f'<rect class="f-accent" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{foot - y:.1f}"/>')
        if wrong:
            height = max(1.0, _FLOOR - foot)
            drawn.append(
                f'<rect class="f-bad" x="{x:.1f}" y="{_FLOOR - height:.1f}" width="{width:.1f}" height="{height:.1f}"/>'
            )
    return _svg(label, _frame(scale, points) + "".join(drawn) + _hits(points))


def _frame(scale: Axis, points: Sequence[Point]) -> str:
    made = _rules(scale)
    if len(points) > 1:
        start, end = points[0].x, points[-1].x + (points[-1].x - points[-2].x)
        made += f'<text x="{LEFT}" y="{HEIGHT - 5}">{_when(start, end - start)}</text>'
        made += f'<text x="{WIDTH - RIGHT}" y="{HEIGHT - 5}" text-anchor="end">{_when(end, end - start)}</text>'
    return made


def _rules(scale: Axis) -> str:
    made = []
    for tick in scale.ticks:
        y = _y(scale, tick)
        kind = "zero" if tick == scale.low else "axis"
        made.append(f'<line class="{kind}" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        made.append(f'<text x="{LEFT - 5}" y="{y + 4:.1f}" text-anchor="end">{scale.told(tick)}</text>')
    return "".join(made)


def _when(seconds: float, span: float) -> str:
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime("%H:%M" if span < 90_000 else "%d %b %H:%M")
    except (ValueError, OverflowError, OSError):
        return ""


def _segments(points: Sequence[Point]) -> list[list[tuple[int, Point]]]:
    """Neighbours that are known; a gap where nothing was seen."""
    found: list[list[tuple[int, Point]]] = [[]]
    for i, p in enumerate(points):
        if p.value is None:
            found.append([])
        else:
            found[-1].append((i, p))
    return [run for run in found if run]


def _runs(points: Sequence[Point], scale: Axis, kind: str = "") -> str:
    drawn, n = [], len(points)
    for run in _segments(points):
        spots = [(_x(i + 0.5, n), _y(scale, p.value)) for i, p in run if p.value is not None]
        if len(spots) == 1:
            drawn.append(f'<circle class="dot {kind}" cx="{spots[0][0]:.1f}" cy="{spots[0][1]:.1f}" r="2.5"/>')
        else:
            path = " ".join(f"{x:.1f},{y:.1f}" for x, y in spots)
            drawn.append(f'<polyline class="trend {kind}" points="{path}"/>')
    return "".join(drawn)


def _band(points: Sequence[Point], scale: Axis) -> str:
    drawn, n = [], len(points)
    half = 0.5 * _INNER / n
    for run in _segments(points):
        sure = [(_x(i + 0.5, n), p.low, p.high) for i, p in run if p.low is not None and p.high is not None]
        if not sure:
            continue
        if len(sure) == 1:
            sure = [(sure[0][0] - half * 0.8, *sure[0][1:]), (sure[0][0] + half * 0.8, *sure[0][1:])]
        path = [f"{x:.1f},{_y(scale, high):.1f}" for x, _, high in sure]
        path += [f"{x:.1f},{_y(scale, low):.1f}" for x, low, _ in reversed(sure)]
        drawn.append(f'<polygon class="band" points="{" ".join(path)}"/>')
    return "".join(drawn)


def _hits(points: Sequence[Point]) -> str:
    width = _INNER / max(1, len(points))
    return "".join(
        f'<rect class="hit" x="{_x(i, len(points)):.1f}" y="{_TOP}" width="{width:.1f}" height="{_FLOOR - _TOP}">'
        f"<title>{escape(p.told)}</title></rect>"
        for i, p in enumerate(points)
        if p.told
    )


def _switch(points: Sequence[Point], when: float, what: str) -> str:
    if len(points) < 2:
        return ""
    place = (when - points[0].x) / (points[1].x - points[0].x)
    if not 0 < place < len(points):
        return ""
    x = _x(place, len(points))
    return (
        f'<line class="switch" x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP}" y2="{_FLOOR}"><title>{escape(what)}</title></line>'
    )


def _upright(kind: str, x: float, top: float, foot: float, inside: str = "") -> str:
    return f'<line class="{kind}" x1="{x:.1f}" x2="{x:.1f}" y1="{top:.1f}" y2="{foot:.1f}">{inside}</line>'


def _svg(label: str, inside: str, width: int = WIDTH, height: int = HEIGHT) -> str:
    drawn = f'<svg class="plot" viewBox="0 0 {width} {height}" role="img" aria-label="{escape(label)}">{inside}</svg>'
    return printable(drawn)


def reliability(points: Sequence[Point], label: str) -> str:
    """A calibration curve: the probability that was said (x, in [0, 1]) against the share that people passed, with
    intervals, and the line on which both are equal."""
    scale = Axis(0.0, 1.0, (0.0, 0.25, 0.5, 0.75, 1.0), "%")
    drawn = [_rules(scale), f'<line class="limit" x1="{LEFT}" y1="{_FLOOR}" x2="{WIDTH - RIGHT}" y2="{_TOP}"/>']
    spots = []
    for p in points:
        if p.value is None:
            continue
        x, y = LEFT + _INNER * min(1.0, max(0.0, p.x)), _y(scale, p.value)
        if p.low is not None and p.high is not None:
            drawn.append(_upright("trend", x, _y(scale, p.low), _y(scale, p.high)))
        drawn.append(f'<circle class="dot" cx="{x:.1f}" cy="{y:.1f}" r="3.5"><title>{escape(p.told)}</title></circle>')
        spots.append(f"{x:.1f},{y:.1f}")
    if not spots:
        return ""
    drawn.append(_unit_marks())
    return _svg(label, "".join(drawn))


def _unit_marks() -> str:
    marks = ((0.0, "start"), (0.25, "middle"), (0.5, "middle"), (0.75, "middle"), (1.0, "end"))
    return "".join(
        f'<text x="{LEFT + _INNER * at:.0f}" y="{HEIGHT - 5}" text-anchor="{anchor}">{at:g}</text>'
        for at, anchor in marks
    )


WIDE, WIDE_LEFT = 640, 34


def distribution(
    passed: Sequence[float], failed: Sequence[float], ends: tuple[float, float], threshold: float | None, label: str
) -> str:
    """How scores lie for logs that people passed (upwards) and failed (downwards), in percent in equal bins between the
    ends, with a line at the threshold (its class `threshold` is moved by script)."""
    low, high = ends
    most, n, inner = max([*passed, *failed, 1e-12]), len(passed), WIDE - WIDE_LEFT - RIGHT
    middle, half = (_TOP + _FLOOR) / 2, (_FLOOR - _TOP) / 2
    drawn = [f'<line class="zero" x1="{WIDE_LEFT}" x2="{WIDE - RIGHT}" y1="{middle}" y2="{middle}"/>']
    for i, (up, down) in enumerate(zip(passed, failed, strict=True)):
        x, width = WIDE_LEFT + inner * i / n + 0.5, inner / n - 1
        bounds = f"{low + (high - low) * i / n:.3g} to {low + (high - low) * (i + 1) / n:.3g}"
        for amount, kind, height in ((up, "good", half * up / most), (down, "bad", half * down / most)):
            if amount:
                told = f"{bounds}: {'passed' if kind == 'good' else 'failed'} by people, {amount:.3g} %"
                y = middle - height if kind == "good" else middle
                drawn.append(
                    f'<rect class="f-{kind}" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}">'
                    f"<title>{told}</title></rect>"
                )
    for place in range(5):
        at = WIDE_LEFT + inner * place / 4
        anchor = ("start", "middle", "middle", "middle", "end")[place]
        told = f"{low + (high - low) * place / 4:.3g}"
        drawn.append(f'<text x="{at:.1f}" y="{HEIGHT - 5}" text-anchor="{anchor}">{told}</text>')
    drawn.append(f'<text x="{WIDE_LEFT - 5}" y="{_TOP + 8}" text-anchor="end">pass</text>')
    drawn.append(f'<text x="{WIDE_LEFT - 5}" y="{_FLOOR}" text-anchor="end">fail</text>')
    if threshold is not None:
        x = WIDE_LEFT + inner * min(1.0, max(0.0, (threshold - low) / (high - low)))
        drawn.append(_upright("limit threshold", x, _TOP, _FLOOR))
    return _svg(label, "".join(drawn), WIDE)


def shares(counts: Sequence[tuple[str, float]]) -> list[tuple[str, float, float]]:
    """(name, count, percent of the greatest) for lists with bars."""
    most = max((n for _, n in counts), default=0.0)
    return [(name, n, 100.0 * n / most if most else 0.0) for name, n in counts]
