"""Claims that say the opposite of their context in a single word."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragtrace.text.opposites import Opposites

RULES = (
    "Cars up to 5 metres cost 32 EUR. Children younger than 4 travel free of charge. Tickets can be changed up to "
    "two days before departure. Check in before 6 pm. Shake the bottle before opening it. A court costs 12 EUR "
    "before noon and 18 EUR after. Goggles are mandatory in room 3 and optional in room 5. The insurance for "
    "guests is voluntary. Logs are usually kept for 30 days. Users may set their own time zone. Bags of up to 23 "
    "kg are free. The first ferry leaves at 6:20."
)


@pytest.mark.parametrize(
    ("claim", "words"),
    [
        ("Cars over 5 metres cost 32 EUR.", "over"),
        ("Cars of 5 metres or more cost 32 EUR.", "or more"),
        ("Children older than four travel free of charge.", "older than"),
        ("Yes, check in after 6 pm.", "after"),
        ("Shake the bottle after opening it.", "after"),
        ("The insurance for guests is mandatory.", "mandatory"),
        ("Logs are always kept for 30 days.", "always"),
        ("Users must set their own time zone.", "must"),
        ("The second ferry leaves at 6:20.", "second"),
    ],
)
def test_the_opposite_of_a_word(claim: str, words: str) -> None:
    """A limit, an order in time, a duty, a share or a rank of the same thing, among the same words."""
    place = Opposites(["Nothing.", RULES]).opposite_in(claim)
    assert place is not None
    assert claim[slice(*place)] == words


@pytest.mark.parametrize(
    "claim",
    [
        "Cars of at most 5 metres cost 32 EUR.",
        "Cars of no more than 5 metres cost 32 EUR.",
        "Children under 4 travel free of charge.",
        "Children of 4 or older have to pay.",  # the other case
        "No, children over 4 do not travel free of charge.",
        "Tickets can be changed at least two days before departure.",  # the same, from the other side
        "Open the bottle after shaking it.",
        "After noon a court costs 18 EUR.",  # the context has both
        "Goggles are optional in room 5.",
        "As a rule, logs are kept for 30 days.",
        "Bags above 23 kg cost extra.",
        "Some users set their own time zone.",
        "The first ferry leaves at 6:20, the second ferry later.",
        "| Length | Price |\n|---|---|\n| up to 5 metres | 32 EUR |",
        "",
    ],
)
def test_other_claims(claim: str) -> None:
    """Paraphrases, other cases, denials, and what the context has as well."""
    assert Opposites([RULES]).opposite_in(claim) is None


@given(st.lists(st.text() | st.just(RULES), max_size=3), st.text() | st.just(RULES))
def test_any_text_is_survived(texts: list[str], claim: str) -> None:
    """Where there is a place, it is inside of the claim."""
    place = Opposites(texts).opposite_in(claim)
    assert place is None or 0 <= place[0] < place[1] <= len(claim)
