"""Numbers that a claim takes from the wrong text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragtrace.text.misplaced_numbers import ContextPlaces
from ragtrace.text.quantities import stated_numbers

CONTEXT = (
    "Tariff Heron: 12 euros a month, 20 GB, cancel with a notice of 14 days.",
    "Tariff Osprey: 19 euros a month, 60 GB, cancel with a notice of 30 days.",
)


def misplaced(claim: str, query: str, *context: str) -> str | None:
    texts = context or CONTEXT
    place = ContextPlaces(texts, [list(stated_numbers(text)) for text in texts]).misplaced_in(claim, query)
    return None if place is None else claim[slice(*place)]


@pytest.mark.parametrize(
    ("claim", "query", "number"),
    [
        ("The Heron tariff costs 19 euros.", "What do I pay?", "19"),
        ("It comes with 60 GB.", "What does the Heron tariff include?", "60"),
        ("Osprey: 60 GB, notice 14 days.", "What are the terms?", "14"),
    ],
)
def test_a_number_of_another_text(claim: str, query: str, number: str) -> None:
    """The name in the claim or in its question belongs to another text, which has its own number of the kind."""
    assert misplaced(claim, query) == number


@pytest.mark.parametrize(
    ("claim", "query"),
    [
        ("The Heron tariff costs 12 euros.", "What do I pay?"),
        ("It costs 19 euros.", "What do I pay for a tariff?"),  # no word says which
        ("With 60 GB it has 40 GB more than Heron.", "What does Osprey include?"),  # worked out
        ("Heron has 20 GB, Osprey 60 GB.", "What is the difference?"),
        ("The Heron tariff costs 77 euros.", "What do I pay?"),  # in no text
        ("The Heron tariff has no limit.", "Is there a limit?"),
    ],
)
def test_numbers_at_their_place(claim: str, query: str) -> None:
    """The number of the named text, one that nothing places, a result, a comparison, and one that no text holds."""
    assert misplaced(claim, query) is None


def test_one_text_has_no_other_place() -> None:
    """A single text, and a context of more than 6,000 characters, are not looked into."""
    assert misplaced("The Heron tariff costs 19 euros.", "", CONTEXT[1]) is None
    assert misplaced("The Heron tariff costs 19 euros.", "", *CONTEXT, "x " * 3_000) is None


@given(st.text(), st.text(), st.lists(st.text(), max_size=3))
def test_any_text_is_read(claim: str, query: str, context: list[str]) -> None:
    """No text raises."""
    misplaced(claim, query, *context)
