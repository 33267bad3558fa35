"""Numbers that an answer works out."""

from __future__ import annotations

import pytest

from ragtrace.text.unstated_numbers import ContextNumbers
from ragtrace.text.worked_out_numbers import calculates, factors, is_worked_out


@pytest.mark.parametrize(
    ("value", "numbers", "by"),
    [
        (33.6, [23.7, 9.9], []),
        (13.8, [23.7, 9.9], []),
        (70, [14, 140], [5]),
        (750, [1500], [2]),
        (1.5, [0.75, 200], []),
        (230, [200, 15], []),
        (170, [200, 15], []),
    ],
)
def test_one_step(value: float, numbers: list[float], by: list[float]) -> None:
    """A sum, a difference, a product, a quotient, a percentage, and a number with a percentage more or less."""
    assert is_worked_out(value, numbers, by)


@pytest.mark.parametrize(("value", "numbers"), [(200, [100]), (61, [23, 9]), (40, [20]), (7, [])])
def test_no_step(value: float, numbers: list[float]) -> None:
    """A number with itself is no step."""
    assert not is_worked_out(value, numbers, [])


def test_many_numbers_are_not_calculated_with() -> None:
    """Of many numbers some pair gives almost any value."""
    assert is_worked_out(30, range(10, 22), [])
    assert not is_worked_out(30, range(10, 23), [])


def test_words_of_calculation() -> None:
    """In the claim, or an amount in the question that is no length of the answer."""
    assert calculates("Together they cost €9.", "")
    assert calculates("€9.", "What do three of them cost?")
    assert not calculates("It costs €9.", "Summarise the offer in 50 words.")
    assert factors("Twice a year") == {2.0, 12.0, 52.0, 365.0}


CONTEXT = ["The lift costs €12 a ride. A season card is €240.", "Skis are €31 a day, boots €14."]


@pytest.mark.parametrize(
    ("claim", "query", "number"),
    [
        ("For five rides you pay €60.", "What do 5 rides cost?", None),
        ("Skis and boots together are €45.", "", None),
        ("The season card is €20 per month.", "", None),
        ("For five rides you pay €65.", "What do 5 rides cost?", "65"),
        ("The lift costs €17.", "", "17"),
        ("For example, someone who rides 37 times saves money.", "", None),
        ("The hut is open 24/7.", "", None),
    ],
)
def test_results_are_stated(claim: str, query: str, number: str | None) -> None:
    """What is worked out from one text and the question is no unstated number; nor is the number of an example."""
    place = ContextNumbers(CONTEXT, query).unstated_in(claim)
    assert (None if place is None else claim[slice(*place)]) == number
