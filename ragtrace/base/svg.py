"""Draws charts as SVG text: no script, no style attribute; CSS classes set the colours. Every text is escaped.

Coordinates are pixels of the view box, with the origin at the top left; numbers are written with one decimal. Shares of
an axis are in [0, 1], from its low to its high end."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

Spot = tuple[float, float]
"""x and y in pixels."""


@dataclass(frozen=True, slots=True)
class Frame:
    """The size of a chart and the margins around its plot, in pixels."""

    width: int
    height: int
    left: int
    right: int
    top: int
    bottom: int

    @property
    def inner(self) -> int:
        """Width of the plot."""
        return self.width - self.left - self.right

    @property
    def floor(self) -> int:
        """y of the lower edge of the plot."""
        return self.height - self.bottom

    def x(self, share: float) -> float:
        """x of a share of the plot's width."""
        return self.left + self.inner * share

    def y(self, share: float) -> float:
        """y of a share of the plot's height; 0 is the lower edge."""
        return self.floor - (self.floor - self.top) * share


@dataclass(frozen=True, slots=True)
class Axis:
    """A scale from `low` to `high` with marks at `ticks`; `unit` is one of ``%``, ``s`` or empty."""

    low: float
    high: float
    ticks: tuple[float, ...] = ()
    unit: str = ""

    def share(self, value: float) -> float:
        """The position of a value on the axis, in [0, 1]; a value outside is at the nearest end."""
        return min(1.0, max(0.0, (value - self.low) / (self.high - self.low)))

    def label(self, value: float) -> str:
        """The text of a mark."""
        if self.unit == "%":
            return f"{100 * value:.0f} %"
        if self.unit == "s":
            return f"{1000 * value:.0f} ms" if 0 < value < 0.995 and self.high < 1 else f"{value:g} s"
        return f"{value / 1000:g} k" if value >= 10_000 else f"{value:g}"

    def bounds(self, i: int, count: int) -> str:
        """The text of bin `i` of `count` equal bins: `0.25 to 0.3`."""
        width = (self.high - self.low) / count
        return f"{self.low + width * i:.3g} to {self.low + width * (i + 1):.3g}"

    def bin(self, value: float, count: int) -> int:
        """The index of the bin that contains a value, of `count` equal bins. A bin contains its lower bound, the last
        one also its upper bound; a value outside is in the nearest bin."""
        # Without the small addend, 0.15 of [0, 1] would be in the bin below: 0.15 * 20 is a little less than 3.
        place = math.floor((value - self.low) / (self.high - self.low) * count + 1e-9)
        return min(count - 1, max(0, place))


def axis(values: Sequence[float], unit: str = "", *, zero: bool = True, ceiling: float | None = None) -> Axis:
    """An axis with two to six round marks that contains all values. It begins at 0, or with `zero=False` below the
    least value; it ends at `ceiling` if that is given."""
    finite = [v for v in values if math.isfinite(v)]
    low = 0.0 if zero or not finite else min(finite)
    high = ceiling if ceiling is not None else max([*finite, low])
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


def picture(label: str, width: int, height: int, shapes: Iterable[str], kind: str = "") -> str:
    """The whole picture. `label` describes it to those who do not see it."""
    attributes = {"class": kind, "viewBox": f"0 0 {width} {height}", "role": "img", "aria-label": label}
    return _element("svg", {name: value for name, value in attributes.items() if value}, "".join(shapes))


def rect(kind: str, x: float, y: float, width: float, height: float, *, title: str = "") -> str:
    """A rectangle of CSS class `kind`; `title` is shown when the pointer is over it."""
    return _element("rect", {"class": kind, "x": x, "y": y, "width": width, "height": height}, _title(title))


def line(kind: str, x1: float, y1: float, x2: float, y2: float, *, title: str = "") -> str:
    """A straight line of CSS class `kind`."""
    return _element("line", {"class": kind, "x1": x1, "x2": x2, "y1": y1, "y2": y2}, _title(title))


def circle(kind: str, x: float, y: float, radius: float, *, title: str = "") -> str:
    """A circle of CSS class `kind`."""
    return _element("circle", {"class": kind, "cx": x, "cy": y, "r": radius}, _title(title))


def polygon(kind: str, spots: Iterable[Spot]) -> str:
    """A filled area of CSS class `kind` inside a closed line."""
    return _element("polygon", {"class": kind, "points": _points(spots)})


def text(x: float, y: float, content: str, anchor: str = "start") -> str:
    """A text that starts, ends or is centred at x (`anchor` is `start`, `end` or `middle`)."""
    return _element("text", {"x": x, "y": y, "text-anchor": anchor}, escape(content))


def runs(spots: Iterable[Spot | None]) -> list[list[Spot]]:
    """Splits a series at its gaps (None) into runs of neighbours."""
    parts: list[list[Spot]] = [[]]
    for spot in spots:
        if spot is None:
            parts.append([])
        else:
            parts[-1].append(spot)
    return [run for run in parts if run]


def trend(spots: Iterable[Spot | None], kind: str = "") -> str:
    """A line through neighbours; None makes a gap, and a value without neighbours is a dot."""
    shapes = []
    for run in runs(spots):
        if len(run) == 1:
            shapes.append(circle(f"dot {kind}".strip(), *run[0], 2.5))
        else:
            shapes.append(_element("polyline", {"class": f"trend {kind}".strip(), "points": _points(run)}))
    return "".join(shapes)


def grid(frame: Frame, scale: Axis, base: str = "axis") -> str:
    """Horizontal lines with labels at the marks of a vertical axis; the lowest line has the CSS class `base`."""
    shapes = []
    for tick in scale.ticks:
        y = frame.y(scale.share(tick))
        shapes.append(line(base if tick == scale.low else "axis", frame.left, y, frame.width - frame.right, y))
        shapes.append(text(frame.left - 5, y + 4, scale.label(tick), "end"))
    return "".join(shapes)


def ends(frame: Frame, first: str, last: str) -> str:
    """Labels under both ends of the plot."""
    y = frame.height - 5
    return text(frame.left, y, first) + text(frame.width - frame.right, y, last, "end")


def _title(content: str) -> str:
    return f"<title>{escape(content)}</title>" if content else ""


def _points(spots: Iterable[Spot]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in spots)


def _element(name: str, attributes: dict[str, str | float], inside: str = "") -> str:
    start = "".join(f' {key}="{_attribute(value)}"' for key, value in attributes.items())
    return f"<{name}{start}>{inside}</{name}>" if inside else f"<{name}{start}/>"


def _attribute(value: str | float) -> str:
    return escape(value) if isinstance(value, str) else f"{value:.1f}".removesuffix(".0")
