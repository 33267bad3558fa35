"""Places where a claim says the reverse of its context."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragtrace.text.quantities import stated_numbers
from ragtrace.text.reversals import ContextWording

REPORT = (
    "Revenue increased by 12% to $482 million. Operating income fell from $70 million to $61 million. "
    "Costs rose 4 % in May and fell 4 % in June."
)
RULES = (
    "Items may be returned within 30 days if unused. An incorrect code is not accepted. Each invalid code is logged."
)


def _wording(*texts: str) -> ContextWording:
    return ContextWording(texts, [list(stated_numbers(text)) for text in texts])


@pytest.mark.parametrize(
    ("claim", "words"),
    [
        ("The company saw its revenue fall by 12% this year.", "12%"),
        ("There was a 12% decrease of revenue.", "12%"),
        ("Operating income fell from $61 million to $70 million.", "61 million to $70 million"),
        ("Operating income went from $61 million to $70 million.", "61 million to $70 million"),
        ("Staff grew from 900 to 600 people.", "900 to 600"),
    ],
)
def test_a_reversed_change(claim: str, words: str) -> None:
    """The other direction of the same amount, or two numbers the other way round."""
    place = _wording(REPORT).reversed_change_in(claim)
    assert place is not None
    assert claim[slice(*place)].startswith(words)


@pytest.mark.parametrize(
    "claim",
    [
        "Revenue grew by 12%.",
        "Operating income fell from $70 million to $61 million.",
        "Income fell by $9 million, from $70 million to $61 million.",
        "Costs fell by 4 % in June.",  # the context has both directions
        "The office is open from 9:00 to 17:00.",
        "Revenue changed by 12%.",
        "Staff fell from 900 to 600 people.",
    ],
)
def test_other_changes(claim: str) -> None:
    """The context's own direction, none, or one of which it says nothing."""
    assert _wording(REPORT).reversed_change_in(claim) is None


@pytest.mark.parametrize(
    ("claim", "word"),
    [
        ("Used items may be returned within 30 days.", "Used"),
        ("You may return used items within 30 days.", "used"),
        ("Each valid code is logged.", "valid"),
    ],
)
def test_a_word_without_its_negating_prefix(claim: str, word: str) -> None:
    """The context has the word only with the prefix, in the sentence that the claim repeats."""
    place = _wording(RULES).reversed_word_in(claim)
    assert place is not None
    assert claim[slice(*place)] == word


@pytest.mark.parametrize(
    "claim",
    [
        "Unused items may be returned within 30 days.",
        "Items that are not used may be returned within 30 days.",
        "The correct code is accepted.",  # the context denies the other one
        "Used cars are sold on Fridays.",
        "",
    ],
)
def test_words_that_may_be_right(claim: str) -> None:
    """The word itself, a negation beside it, or another subject."""
    assert _wording(RULES).reversed_word_in(claim) is None


def test_a_word_with_a_new_prefix() -> None:
    """The context has the word only without the prefix."""
    assert _wording("The claim is eligible for a refund.").reversed_word_in(
        "The claim is ineligible for a refund."
    ) == (13, 23)


@given(st.text(), st.text())
def test_no_text_breaks_it(claim: str, context: str) -> None:
    """Places are inside of the claim."""
    wording = _wording(context, claim)
    for place in (wording.reversed_change_in(claim), wording.reversed_word_in(claim)):
        assert place is None or 0 <= place[0] < place[1] <= len(claim)
