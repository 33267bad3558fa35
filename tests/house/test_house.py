"""The structure of the code: what `tools/measure_house.py` measures meets its aims."""

import measure_house
import pytest

FIGURES = measure_house.figures()


@pytest.mark.parametrize("figure", FIGURES, ids=lambda figure: figure.name)
def test_figure_meets_its_aim(figure: measure_house.Figure) -> None:
    assert not figure.missed, f"{figure.value:g} where {figure.aim:g} is the most: {figure.places}"
