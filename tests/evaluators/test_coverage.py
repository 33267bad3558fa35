"""How much of a question's words a text holds."""

from __future__ import annotations

import pytest

from ragtrace.evaluate.coverage import coverage
from tests.row_files import rows

TEXT = "The bicycle shop in Antwerp repairs gearboxes on Mondays."


@pytest.mark.parametrize(("question", "share"), rows(__file__, "coverage"))
def test_coverage(question: str, share: float | None) -> None:
    """Words that begin alike are the same; a question without words has no share."""
    assert coverage(question, TEXT) == share


def test_rare_words_weigh_more() -> None:
    """One missing word costs more the rarer it is."""
    assert (coverage("the gearbox of what", TEXT) or 0.0) > 0.8
    assert (coverage("the aardvark in shop", TEXT) or 1.0) < 0.6


def test_other_scripts_and_empty_texts() -> None:
    assert coverage("где велосипед", "велосипед стоит дома") == pytest.approx(0.5)
    assert coverage("bicycle", "") == 0.0
