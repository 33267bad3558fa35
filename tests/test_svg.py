"""The shapes and scales of the charts."""

from itertools import pairwise
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragtrace.base import svg
from ragtrace.base.svg import Axis, Frame


@given(st.floats(1e-6, 1e9), st.booleans())
def test_an_axis_holds_its_values(top: float, zero: bool) -> None:
    axis = svg.axis([0.0, top], zero=zero)
    assert axis.low <= 0 < top <= axis.high * (1 + 1e-9)
    assert 2 <= len(axis.ticks) <= 6
    steps = [b - a for a, b in pairwise(axis.ticks)]
    assert max(steps) <= min(steps) * 1.01 + 1e-9


@given(st.floats(-100, 100), st.integers(1, 50))
def test_every_value_has_a_bin(value: float, count: int) -> None:
    scale = Axis(-10.0, 10.0)
    i = scale.bin(value, count)
    assert 0 <= i < count
    if -10 <= value <= 10:
        low, high = (-10 + 20 * (i + end) / count for end in (0, 1))
        assert low - 1e-6 <= value <= high + 1e-6


def test_a_plot_is_inside_its_margins() -> None:
    frame = Frame(400, 150, 40, 8, 10, 20)
    assert [frame.x(share) for share in (0, 1)] == [40, 392]
    assert [frame.y(share) for share in (0, 1)] == [130, 10]


def test_trend_has_gaps() -> None:
    drawing = svg.trend([(0, 1), (1, 2), None, (3, 4), None, None, (5, 6), (6, 7), (7, 8)], "second")
    assert (drawing.count("<polyline"), drawing.count('<circle class="dot second"')) == (2, 1)
    assert 'points="5.0,6.0 6.0,7.0 7.0,8.0"' in drawing
    assert svg.trend([None]) == ""


@pytest.mark.parametrize("hostile", ['"><script>x</script>', "</title></svg><img src=x onerror=y>", "' onload='z"])
def test_no_text_becomes_markup(hostile: str) -> None:
    """Whatever a label, a title, a text or a class contains, the picture has only its own elements and attributes."""
    shapes = [
        svg.rect(hostile, 0, 0, 1, 1, title=hostile), svg.line("axis", 0, 0, 1, 1, title=hostile),
        svg.circle("dot", 0, 0, 1, title=hostile), svg.text(0, 0, hostile), svg.polygon(hostile, [(0, 0), (1, 1)]),
    ]  # fmt: skip
    elements = list(ElementTree.fromstring(svg.picture(hostile, 10, 10, shapes)).iter())
    names = [element.tag.rpartition("}")[2] for element in elements]
    assert names == ["svg", "rect", "title", "line", "title", "circle", "title", "text", "polygon"]
    assert elements[0].get("aria-label") == hostile
    assert not {"onload", "onerror", "style", "src"} & {key for element in elements for key in element.attrib}
