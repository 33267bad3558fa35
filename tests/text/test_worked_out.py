"""Results that an answer works out from its context."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragtrace.text.worked_out import WorkedOut

PRICES = [
    "A bicycle costs 4 EUR, a car 32 EUR and each passenger 9 EUR. Members get 25 % off the car.",
    "A kit holds 12 tubes of 50 ml. Opening lasts 30 minutes. The office is in Lund.",
]


@pytest.mark.parametrize(
    ("query", "statement", "text"),
    [
        ("", "Three passengers pay 27 EUR.", "Three passengers pay 9 EUR."),
        ("What do three passengers pay?", "They pay 27 EUR.", "They pay 9 EUR."),
        ("", "A passenger pays 5 EUR more than a bicycle.", "A passenger pays 4 EUR more than a bicycle."),
        ("", "A car and a bicycle cost 36 EUR in total.", "A car and a bicycle cost 4 EUR in total."),
        (
            "",
            "A car is 32 EUR and two passengers 18 EUR, so 50 EUR.",
            "A car is 32 EUR and two passengers 9 EUR, so 32 EUR.",
        ),
        ("", "12 tubes of 50 ml are 600 ml.", "12 tubes of 50 ml are 50 ml."),
        ("", "Members pay 24 EUR for the car.", "Members pay 32 EUR for the car."),
    ],
)
def test_a_result_is_read_as_its_operand(query: str, statement: str, text: str) -> None:
    """Multiples, sums, differences and shares of amounts; results may follow from each other."""
    assert WorkedOut(query, PRICES).with_operands(statement) == text


@pytest.mark.parametrize(
    "statement",
    [
        "Three passengers pay 29 EUR.",
        "A passenger pays 7 EUR more than a bicycle.",
        "A car is 32 EUR and two passengers 18 EUR, so 58 EUR.",
        "A bicycle costs 4 EUR.",
        "A bicycle costs 41 EUR, and three passengers pay 27 EUR.",  # one of the amounts does not follow
        "Two openings last 60 minutes.",  # durations follow from each other by chance
        "There are 36 of them.",
        "",
    ],
)
def test_other_amounts_stay(statement: str) -> None:
    """Wrong results, what the context has, and numbers that are no amounts."""
    assert WorkedOut("", PRICES).with_operands(statement) is None


def test_a_result_of_an_earlier_statement_is_an_operand() -> None:
    """27 EUR for passengers, and with the bicycle 31 EUR."""
    worked_out = WorkedOut("", PRICES)
    assert worked_out.with_operands("Three passengers pay 27 EUR.") is not None
    assert worked_out.with_operands("With a bicycle at 4 EUR this is 31 EUR.") is not None


@given(
    st.text(), st.lists(st.text() | st.just(PRICES[0]), max_size=3), st.text() | st.just("1e999 EUR, 3 EUR and 9 EUR")
)
def test_any_text_is_survived(query: str, chunks: list[str], statement: str) -> None:
    """What comes back is another text."""
    assert WorkedOut(query, chunks).with_operands(statement) != statement or not statement
