"""How much of a question's words a text holds."""

from __future__ import annotations

import pytest

from ragtrace.evaluate.coverage import coverage

TEXT = "The bicycle shop in Antwerp repairs gearboxes on Mondays."


def test_all_and_nothing() -> None:
    assert coverage("bicycle gearboxes", TEXT) == 1.0
    assert coverage("quantum chromodynamics", TEXT) == 0.0
    assert coverage("Bicycle? GEARBOXES!", TEXT) == 1.0


def test_rare_words_weigh_more() -> None:
    """One missing word costs more the rarer it is."""
    common, rare = coverage("the gearbox of what", TEXT), coverage("the aardvark in shop", TEXT)
    assert common is not None
    assert rare is not None
    assert common > 0.8
    assert rare < 0.6


def test_words_that_begin_alike() -> None:
    assert coverage("repairing", TEXT) == 1.0  # repairs
    assert coverage("shops", TEXT) == 0.0  # too short to tell from what begins alike by chance


@pytest.mark.parametrize("question", ["", "?!", "   ", "—"])
def test_a_question_without_words(question: str) -> None:
    assert coverage(question, TEXT) is None


def test_other_scripts_and_empty_texts() -> None:
    assert coverage("где велосипед", "велосипед стоит дома") == pytest.approx(0.5)
    assert coverage("bicycle", "") == 0.0
