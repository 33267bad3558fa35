"""A claim compared with its passage from both sides."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragtrace.models.claim_alignment import align
from ragtrace.models.claim_comparison import ClaimComparison, ClaimPair, compare_claim, compare_claims
from ragtrace.models.claim_contrasts import negations, order, polarity, slots, wording
from ragtrace.models.claim_words import likeness, read_words

PASSAGE = (
    "Sealed items can be returned within 30 days. Opened software cannot be returned. "
    "The store manager approves refunds above 200 euros, and the cashier approves the rest."
)


@pytest.mark.parametrize(
    ("text", "other", "alike"),
    [("returned", "returned", (1, 1)), ("returned", "returns", (0.85, 0.95)), ("30", "60", (0, 0.25))],
)
def test_words_are_alike_by_spelling_stem_and_amount(text: str, other: str, alike: tuple[float, float]) -> None:
    """The same word is 1, another form of it nearly; two numbers are not alike however near their vectors are."""
    value = float(likeness(read_words(text), read_words(other))[0, 0])
    assert alike[0] <= value <= alike[1]


def test_a_word_of_near_meaning_is_nearer_than_another() -> None:
    """The vectors know that a refund is closer to a reimbursement than to a parking space."""
    row = likeness(read_words("reimbursed"), read_words("refund parking"))[0]
    assert row[0] > row[1]


def test_a_negation_of_the_passage_alone_is_lost() -> None:
    """What the sentence denies and the claim affirms is counted; the faithful claim has none of it."""
    wrong = negations(align("Opened software can be returned.", "", PASSAGE))
    right = negations(align("Opened software cannot be returned.", "", PASSAGE))
    assert wrong["negation_lost"] > 0.9
    assert right["negation_lost"] == 0


def test_yes_and_no_answer_the_question() -> None:
    """ "Yes" beside a sentence that denies what is asked, and "No" beside one that affirms it."""
    asked = "Can I return opened software?"
    assert polarity(align("Yes, you can.", asked, PASSAGE))["yes_to_negation"] == 1
    assert polarity(align("No, you cannot.", asked, PASSAGE))["no_without_negation"] == 0
    assert polarity(align("No.", "Can I return sealed items?", PASSAGE))["no_without_negation"] == 1


def test_exchanged_roles_are_another_order() -> None:
    """The words of the claim come in another order than in the sentence."""
    passage = "The landlord gives the tenant three keys."
    assert order(align("The landlord gives the tenant three keys.", "", passage))["turned_sentence"] == 0
    assert order(align("The tenant gives the landlord three keys.", "", passage))["turned_sentence"] > 0


def test_the_figure_of_another_row_has_a_rival_that_stands_nearer() -> None:
    """What the question names stands beside another figure than the claim's."""
    passage = "Tariff Alder costs 12 euros. Tariff Birch costs 17 euros."
    wrong = slots(align("12 euros.", "What does tariff Birch cost?", passage))
    right = slots(align("17 euros.", "What does tariff Birch cost?", passage))
    assert wrong["slot_of_rival"] > right["slot_of_rival"] == 0


def test_opposites_are_noticed() -> None:
    """A word whose opposite the sentence has instead."""
    assert wording(align("It opens after noon.", "", "It opens before noon."))["opposites"] == 1


@pytest.mark.parametrize(
    ("right", "wrong", "query"),
    [
        ("Opened software cannot be returned.", "Opened software can be returned.", ""),
        ("Sealed items can be returned within 30 days.", "Sealed items can be returned within 45 days.", ""),
        ("Refunds above 200 euros need the store manager.", "Refunds above 500 euros need the store manager.", ""),
    ],
)
def test_the_changed_claim_is_supported_less(right: str, wrong: str, query: str) -> None:
    """The trees rank a faithful sentence above its twin with one thing changed."""
    supported, unsupported = compare_claims([ClaimPair(right, query, PASSAGE), ClaimPair(wrong, query, PASSAGE)])
    assert supported > unsupported + 0.5


def test_the_trees_read_as_many_features_as_there_are() -> None:
    """The shipped file belongs to this code."""
    expected = ClaimComparison()._session.get_inputs()[0].shape[1]
    assert compare_claim("A claim.", "", PASSAGE).shape == (expected,)


@given(st.text(max_size=200), st.text(max_size=60), st.text(max_size=300))
def test_any_text_gives_finite_features(claim: str, query: str, passage: str) -> None:
    """Empty texts, other scripts and control characters are compared like any other."""
    assert np.isfinite(compare_claim(claim, query, passage)).all()
