"""The structure of the code: what `tools/measure_house.py` measures meets its aims."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

TOOLS = Path(__file__).parents[2] / "tools"
sys.path.insert(0, str(TOOLS))

import measure_house  # noqa: E402

FIGURES = measure_house.figures()


@pytest.mark.parametrize("figure", FIGURES, ids=lambda figure: figure.name)
def test_figure_meets_its_aim(figure: measure_house.Figure) -> None:
    """Each structural figure of the code meets its aim."""
    assert not figure.missed, f"{figure.value:g} where {figure.aim:g} is the most: {figure.places}"
