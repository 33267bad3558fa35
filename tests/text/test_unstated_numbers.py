"""Numbers that a claim states and its context does not hold."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragtrace.text.unstated_numbers import ContextNumbers

CONTEXT = (
    "Baggage is covered up to EUR 2,500, and the excess is EUR 100 per claim. Claims are made within 30 days.",
    "The pump weighs 1.8 kg, its belt fits 70 to 110 cm, and it costs 40 euros a month. Papers are kept for 6 months.",
    "Revenue was $482.6 million in the year 2018-19, after $430.9 million. The shop opens at 9 am; Ada, 13, is there.",
)


def unstated(claim: str, *context: str) -> str | None:
    span = ContextNumbers(context or CONTEXT).unstated_in(claim)
    return None if span is None else claim[span[0] : span[1]]


@pytest.mark.parametrize(
    ("claim", "number"),
    [
        ("Baggage is covered up to EUR 3,500.", "3,500"),
        ("The excess is EUR 200 per claim.", "200"),
        ("Claims are made within 60 days.", "60"),
        ("It weighs 1.3 kg.", "1.3"),
        ("Papers are kept for six years.", "six"),
        ("Revenue was $428.6 million.", "428.6 million"),
        ("The shop opens at 10:30 am.", "10:30 am."),
        ("It weighs 1.8 kg and 25 of them fit.", "25"),
    ],
)
def test_numbers_that_the_context_does_not_hold(claim: str, number: str) -> None:
    """Another number, unit or time is pointed at."""
    assert unstated(claim) == number


@pytest.mark.parametrize(
    "claim",
    [
        "Baggage is covered up to 2500 euros.",
        "Claims are made within a month, that is 30 days.",
        "It weighs 1,800 g.",
        "The belt fits waists between 0.7 and 1.1 metres.",
        "The pump costs EUR 480 per year.",
        "Revenue grew by $51.7 million.",
        "Revenue was nearly 500 million dollars.",
        "Revenue was about $483 million.",
        "The shop opens at 9:00.",
        "Ada is a 13-year-old girl.",
        "In 2018-19 it grew.",
        "1. Open the shop.\n2. Weigh the pump.\n14. Go home.",
        "According to passage 17 there are three belts.",
        "Here is a summary in 72 words: revenue grew.",
        "It is open seven days a week.",
        "Nothing is counted here.",
    ],
)
def test_numbers_that_the_context_holds(claim: str) -> None:
    """What is converted, rounded or worked out is held; the number of a list's item or of a passage is no statement."""
    assert unstated(claim) is None


@given(st.text(), st.lists(st.text(), max_size=3))
def test_any_text_is_read(claim: str, context: list[str]) -> None:
    """No text raises, and a text holds its own numbers."""
    ContextNumbers(context).unstated_in(claim)
    assert ContextNumbers([claim]).unstated_in(claim) is None


@pytest.mark.parametrize("text", ["9" * 400, "1e999 9.9e400 " + "7" * 5_000, "1,000,000 " * 2_000, "12:75 99:99"])
def test_odd_numbers(text: str) -> None:
    """Numbers of any size are read, with their text as the context or without."""
    assert ContextNumbers([text]).unstated_in(f"It rose to {text}") is None
    span = ContextNumbers(["It is 5."]).unstated_in(text)
    assert span is None or text[span[0] : span[1]].strip()
