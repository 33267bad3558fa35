"""Answers in the units of their context."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragtrace.text.converted_quantities import in_units_of_context


@pytest.mark.parametrize(
    ("answer", "chunk", "text"),
    [
        ("Parts last 2 years.", "Parts last 24 months.", "Parts last 24 months."),
        ("A two-year warranty.", "24 months of warranty.", "A 24 months warranty."),
        ("It takes an hour and a half.", "It takes 90 minutes.", "It takes 90 minutes."),
        ("From 0.7 to 1.1 metres.", "Belts of 70-110 cm.", "From 70 to 110 cm."),
        ("It weighs 0.5 kg, not 2 kg.", "It weighs 500 g.", "It weighs 500 g, not 2 kg."),
        ("There are 2 of them, at 14:00.", "There are two. It is 2 pm.", "There are 2 of them, at 2 pm."),
        ("It opens from 2 pm to 7 pm.", "Open from 14:00 to 19:00", "It opens from 14:00 to 19:00."),
    ],
)
def test_a_quantity_has_the_unit_of_the_context(answer: str, chunk: str, text: str) -> None:
    """An equal quantity is written as the context writes it, also in a range; other words and quantities stay."""
    converted = in_units_of_context(answer, [(0, len(answer))], ["Nothing.", chunk])
    assert converted is not None
    assert (converted.text, converted.changed) == (text, [True])


@pytest.mark.parametrize(
    ("answer", "chunk"),
    [
        ("Parts last 3 years.", "Parts last 24 months."),
        ("Parts last 24 months.", "Parts last 24 months, so 2 years."),
        ("There are 2 of them, at 14:00.", "There are two. It is 14:00."),
        ("It opens at 8 pm.", "It opens at 8:00."),
        ("No number.", "24 months"),
        ("24 months", ""),
    ],
)
def test_other_quantities_stay(answer: str, chunk: str) -> None:
    """What the context does not hold, or holds as it is, and plain numbers are not converted."""
    assert in_units_of_context(answer, [(0, len(answer))], [chunk]) is None


def test_plain_numbers_of_a_context_are_not_compared() -> None:
    """A table of numbers before the quantity leaves it to be read."""
    answer, table = "It lasts two years", " ".join(map(str, range(1_000)))
    converted = in_units_of_context(answer, [(0, len(answer))], [table, "It lasts 24 months"])
    assert converted is not None
    assert converted.text == "It lasts 24 months"


def test_statements_move_with_their_text() -> None:
    """The places of the statements are those of the new text; what is between them stays."""
    answer = "It lasts 2 years [1]. It is blue. It lasts 1 year."
    places = [(0, 16), (22, 33), (34, 50)]
    converted = in_units_of_context(answer, places, ["24 months, then 12 months"])
    assert converted is not None
    assert converted.text == "It lasts 24 months [1]. It is blue. It lasts 12 months."
    assert [converted.text[a:b] for a, b in converted.statements] == [
        "It lasts 24 months",
        "It is blue.",
        "It lasts 12 months.",
    ]
    assert converted.changed == [True, False, True]


@given(st.text("0123456789 .,-mkghcyears/to", max_size=40), st.text("0123456789 .,-mkghcyears/to", max_size=40))
def test_no_text_breaks_it(answer: str, chunk: str) -> None:
    """Texts of any form keep the length of what is between statements, or stay as they are."""
    converted = in_units_of_context(answer, [(0, len(answer))], [chunk])
    assert converted is None or converted.statements == [(0, len(converted.text))]
