"""The charts of the console. Each value has a title too, and a table next to the chart has the same values."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from ragtrace.base import svg
from ragtrace.base.svg import Axis, Frame, Spot
from ragtrace.console.pages.template_filters import moment, percent, range_percent
from ragtrace.console.safe_text import printable
from ragtrace.statistics import Estimate

_FRAME = Frame(400, 150, 40, 8, 8, 20)
WIDE = Frame(640, 150, 34, 8, 8, 20)
"""The frame of `distribution`; threshold.js moves a line in it."""
_SHARES = Axis(0.0, 1.0, (0.0, 0.25, 0.5, 0.75, 1.0), "%")
_ANCHORS = ("start", "middle", "middle", "middle", "end")


@dataclass(frozen=True, slots=True)
class Point:
    """One value of a series with its interval; None where there are no data."""

    x: float
    """On a time line the Unix time at which its step starts."""
    value: float | None
    low: float | None = None
    high: float | None = None
    title: str = ""


def share(start: float, share: Estimate | None) -> Point:
    """A share of checks in the step of a time line that starts then."""
    if share is None:
        return Point(start, None)
    low, high = share.interval or (None, None)
    title = f"{moment(start)}: {percent(share.value)} ({range_percent(share.interval)}), {share.count:,} checks"
    return Point(start, share.value, low, high, title)


def rates(points: Sequence[Point], label: str, switches: Sequence[tuple[float, str]] = ()) -> str:
    """Shares in [0, 1] over time with the band of their intervals. Each switch (Unix time, description) is a dashed
    line. Empty without values."""
    lows = [p.value if p.low is None else p.low for p in points if p.value is not None]
    if not lows:
        return ""
    scale = svg.axis([min(0.9, *lows)], "%", zero=False, ceiling=1.0)
    marks = [_switch(points, time, title) for time, title in switches]
    trend = svg.trend(_spots(points, scale))
    return _picture(label, [_frame(scale, points), _band(points, scale), trend, *marks, _titles(points)])


def lines(points: Sequence[Point], others: Sequence[Point], label: str, unit: str = "%") -> str:
    """Values from 0 on over time with the band of their intervals, where they have some, and others as a second line.
    Empty without values of the first."""
    ends = [end for p in points for end in (p.value, p.high) if end is not None]
    if not ends:
        return ""
    scale = svg.axis([*ends, *(p.value for p in others if p.value is not None)], unit)
    trends = [svg.trend(_spots(others, scale), "second"), svg.trend(_spots(points, scale))]
    return _picture(label, [_frame(scale, points), _band(points, scale), *trends, _titles(points)])


def columns(points: Sequence[Point], bad: Sequence[float], label: str) -> str:
    """Counts over time as columns; the bad part of each is at its foot in another colour. Empty if all are 0."""
    if not any(p.value for p in points):
        return ""
    scale = svg.axis([p.value or 0.0 for p in points])
    bars = []
    for i, (p, bad_count) in enumerate(zip(points, bad, strict=True)):
        if not p.value:
            continue
        x, width = _FRAME.x(i / len(points)) + 0.5, max(0.5, _FRAME.inner / len(points) - 1)
        y, foot = _FRAME.y(scale.share(p.value)), _FRAME.y(scale.share(bad_count))
        bars.append(svg.rect("f-accent", x, y, width, foot - y))
        if bad_count:
            height = max(1.0, _FRAME.floor - foot)
            bars.append(svg.rect("f-bad", x, _FRAME.floor - height, width, height))
    return _picture(label, [_frame(scale, points), *bars, _titles(points)])


def reliability(points: Sequence[Point], label: str) -> str:
    """A calibration curve: a predicted probability (x, in [0, 1]) against the share that people passed, with intervals,
    and the line on which both are equal. Empty without values."""
    complete = [p for p in points if p.value is not None]
    if not complete:
        return ""
    diagonal = svg.line("limit", _FRAME.x(0.0), _FRAME.y(0.0), _FRAME.x(1.0), _FRAME.y(1.0))
    shapes = [svg.grid(_FRAME, _SHARES, "zero"), diagonal]
    for p in complete:
        x, y = _FRAME.x(_SHARES.share(p.x)), _FRAME.y(_SHARES.share(p.value or 0.0))
        if p.low is not None and p.high is not None:
            shapes.append(svg.line("trend", x, _FRAME.y(_SHARES.share(p.low)), x, _FRAME.y(_SHARES.share(p.high))))
        shapes.append(svg.circle("dot", x, y, 3.5, title=p.title))
    return _picture(label, [*shapes, _marks(_FRAME, _SHARES, "g")])


def distribution(
    passed: Sequence[float], failed: Sequence[float], scale: Axis, threshold: float | None, label: str
) -> str:
    """The scores of logs that people passed (upwards) and failed (downwards), in percent, in equal bins of `scale`,
    with a line at the threshold (threshold.js moves it by its class `threshold`)."""
    most, n = max([*passed, *failed, 1e-12]), len(passed)
    middle, half = (WIDE.top + WIDE.floor) / 2, (WIDE.floor - WIDE.top) / 2
    shapes = [svg.line("zero", WIDE.left, middle, WIDE.x(1.0), middle)]
    for i, (up, down) in enumerate(zip(passed, failed, strict=True)):
        x, width = WIDE.x(i / n) + 0.5, WIDE.inner / n - 1
        for amount, kind, verdict in ((up, "good", "passed"), (down, "bad", "failed")):
            if amount:
                height = half * amount / most
                title = f"{scale.bounds(i, n)}: {verdict} by people, {amount:.3g} %"
                y = middle - height if kind == "good" else middle
                shapes.append(svg.rect(f"f-{kind}", x, y, width, height, title=title))
    shapes.append(_marks(WIDE, scale, ".3g"))
    shapes.append(svg.text(WIDE.left - 5, WIDE.top + 8, "pass", "end"))
    shapes.append(svg.text(WIDE.left - 5, WIDE.floor, "fail", "end"))
    if threshold is not None:
        x = WIDE.x(scale.share(threshold))
        shapes.append(svg.line("limit threshold", x, WIDE.top, x, WIDE.floor))
    return _picture(label, shapes, WIDE)


def shares(counts: Sequence[tuple[str, float]]) -> list[tuple[str, float, float]]:
    """(name, count, percent of the greatest) for lists with bars."""
    most = max((n for _, n in counts), default=0.0)
    return [(name, n, 100.0 * n / most if most else 0.0) for name, n in counts]


def _picture(label: str, shapes: Iterable[str], frame: Frame = _FRAME) -> str:
    picture = printable(svg.picture(label, frame.width, frame.height, shapes, "plot"))
    return f'<div class="plot-box">{picture}</div>'


def _frame(scale: Axis, points: Sequence[Point]) -> str:
    rules = svg.grid(_FRAME, scale, "zero")
    if len(points) < 2:
        return rules
    start, end = points[0].x, points[-1].x + (points[-1].x - points[-2].x)
    return rules + svg.ends(_FRAME, *_period(start, end))


def _period(start: float, end: float) -> tuple[str, str]:
    """Both ends of a time line: with the day where the days differ, without a time where both are midnight."""
    try:
        ends = [datetime.fromtimestamp(seconds, UTC) for seconds in (start, end)]
    except (ValueError, OverflowError, OSError):
        return "", ""
    if all(end.hour == end.minute == 0 for end in ends):
        form = "%d %b"
    else:
        form = "%H:%M" if ends[0].date() == ends[1].date() else "%d %b %H:%M"
    return ends[0].strftime(form), ends[1].strftime(form)


def _middle(i: int, points: Sequence[Point]) -> float:
    return _FRAME.x((i + 0.5) / len(points))


def _spots(points: Sequence[Point], scale: Axis) -> list[Spot | None]:
    return [
        None if p.value is None else (_middle(i, points), _FRAME.y(scale.share(p.value))) for i, p in enumerate(points)
    ]


def _band(points: Sequence[Point], scale: Axis) -> str:
    """The intervals as areas, one for each run of neighbours."""
    bounds: list[list[tuple[float, float, float]]] = [[]]
    for i, p in enumerate(points):
        if p.value is None:
            bounds.append([])
        elif p.low is not None and p.high is not None:
            bounds[-1].append((_middle(i, points), _FRAME.y(scale.share(p.low)), _FRAME.y(scale.share(p.high))))
    shapes, half = [], 0.4 * _FRAME.inner / len(points)
    for run in filter(None, bounds):
        widths = (-half, half) if len(run) == 1 else (0.0,)
        upper = [(x + width, high) for x, _, high in run for width in widths]
        lower = [(x + width, low) for x, low, _ in run for width in widths]
        shapes.append(svg.polygon("band", [*upper, *reversed(lower)]))
    return "".join(shapes)


def _titles(points: Sequence[Point]) -> str:
    """Invisible rectangles over the whole height that show the titles."""
    n, height = len(points), _FRAME.floor - _FRAME.top
    return "".join(
        svg.rect("hit", _FRAME.x(i / n), _FRAME.top, _FRAME.inner / n, height, title=p.title)
        for i, p in enumerate(points)
        if p.title
    )


def _switch(points: Sequence[Point], time: float, title: str) -> str:
    if len(points) < 2:
        return ""
    place = (time - points[0].x) / (points[1].x - points[0].x)
    if not 0 < place < len(points):
        return ""
    x = _FRAME.x(place / len(points))
    return svg.line("switch", x, _FRAME.top, x, _FRAME.floor, title=title)


def _marks(frame: Frame, scale: Axis, form: str) -> str:
    """Labels under the plot at its quarters."""
    return "".join(
        svg.text(frame.x(i / 4), frame.height - 5, format(scale.low + (scale.high - scale.low) * i / 4, form), anchor)
        for i, anchor in enumerate(_ANCHORS)
    )
