"""Quantities: the same amount in other words is the same, another amount is not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragtrace.text.quantities import missing, quantities

SAME = [
    ("twenty-four months", "two years"),
    ("30 °C", "86 degrees Fahrenheit"),
    ("€50", "fifty euros"),
    ("1,200 g", "1.2 kg"),
    ("half an hour", "30 minutes"),
    ("an hour and a half", "90 min"),
    ("$1.5 million", "1,500,000 dollars"),
    ("12%", "twelve percent"),
    ("2 pm", "14:00"),
    ("48 hours", "two days"),
    ("a fortnight", "14 days"),
    ("5 GB", "5,000 MB"),
    ("one hundred and five rooms", "105 rooms"),
    ("half a dozen eggs", "6 eggs"),
    ("365 days", "a year"),
    ("30 m", "3,000 cm"),
    ("$30m", "30 million dollars"),
    ("two and a half hours", "150 minutes"),
]
OTHER = [
    ("14 days", "14 weeks"),
    ("24 months", "3 years"),
    ("2 pm", "2 am"),
    ("30 °C", "30 °F"),
    ("€50", "$50"),
    ("1,200 g", "12 kg"),
    ("105 rooms", "150 rooms"),
    ("30 m", "30 million people"),
]


@pytest.mark.parametrize(("context", "claim"), SAME)
def test_one_amount_in_two_forms_is_the_same(context: str, claim: str) -> None:
    """What is converted or written in words is in the context."""
    assert quantities(claim)
    assert missing(quantities(claim), quantities(context)) == []


@pytest.mark.parametrize(("context", "claim"), OTHER)
def test_another_amount_is_missing(context: str, claim: str) -> None:
    """Another number, unit, currency or half of the day is not in the context."""
    assert len(missing(quantities(claim), quantities(context))) == 1


def test_one_is_a_pronoun() -> None:
    """A plain "one" is never missing."""
    assert missing(quantities("One of them is enough."), quantities("Any filter will do.")) == []


@given(st.text())
def test_any_text_is_read(text: str) -> None:
    """No text raises, and there are at most as many quantities as asked for."""
    assert len(quantities(text * 3, 5)) <= 5
