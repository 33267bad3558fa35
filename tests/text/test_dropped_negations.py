"""Claims that affirm what their context denies."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragtrace.text.dropped_negations import ContextDenials

CONTEXT = (
    "Unworn shoes may be sent back within 20 days. Engraved rings and earrings cannot be sent back.",
    "Not insured: losses on boats, thefts from open cars. Bicycles are insured everywhere.",
    "Water damage isn't covered by the basic plan. A permit is valid for no more than 14 days.",
)


def affirmed(claim: str, query: str = "", *context: str) -> str | None:
    place = ContextDenials(context or CONTEXT).affirmed_in(claim, query)
    return None if place is None else claim[slice(*place)]


@pytest.mark.parametrize(
    ("claim", "word"),
    [
        ("Engraved rings can be sent back within 20 days.", "sent"),
        ("Losses on boats are insured.", "insured"),
        ("Yes, water damage is covered by the basic plan.", "covered"),
    ],
)
def test_an_affirmed_denial(claim: str, word: str) -> None:
    """The word that the context denies is pointed at."""
    assert affirmed(claim) == word


@pytest.mark.parametrize(
    "claim",
    [
        "Engraved rings cannot be sent back.",
        "Engraved rings are excluded: they are never sent back.",
        "Unworn shoes may be sent back within 20 days.",  # the context affirms it, too
        "Bicycles are insured everywhere.",
        "A permit is valid for up to 14 days.",
        "Earrings cost 40 euros, and a voucher for them is sent by post within a week of the order.",
    ],
)
def test_other_claims(claim: str) -> None:
    """A denial, what the context affirms, a limit, and something else."""
    assert affirmed(claim) is None


def test_long_contexts_are_not_read() -> None:
    """A context of more than 4,000 characters may affirm elsewhere what it denies here."""
    assert affirmed("Engraved rings can be sent back.", "", CONTEXT[0], "x " * 2_000) is None


@given(st.text(), st.text(), st.lists(st.text(), max_size=3))
def test_any_text_is_read(claim: str, query: str, context: list[str]) -> None:
    """No text raises, and what is pointed at is in the claim."""
    place = ContextDenials(context).affirmed_in(claim, query)
    assert place is None or 0 <= place[0] < place[1] <= len(claim)
