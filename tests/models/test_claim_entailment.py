"""A claim read together with its passage by the cross-encoder."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragtrace.models.claim_comparison import ClaimPair
from ragtrace.models.claim_entailment import claim_logits, pair_ids
from ragtrace.models.embedding import open_tokenizer

PASSAGE = (
    "Sealed items can be returned within 30 days. Opened software cannot be returned. "
    "The store manager approves refunds above 200 euros, and the cashier approves the rest."
)


@pytest.mark.parametrize(
    ("right", "wrong", "query"),
    [
        ("Software that has been opened can't be sent back.", "Software that has been opened can be sent back.", ""),
        ("No.", "Yes.", "Can I return opened software?"),
    ],
)
def test_the_changed_claim_is_supported_less(right: str, wrong: str, query: str) -> None:
    """A faithful sentence in other words ranks above its twin with one thing changed."""
    supported, unsupported = claim_logits([ClaimPair(right, query, PASSAGE), ClaimPair(wrong, query, PASSAGE)])
    assert supported > unsupported + 0.5


def test_a_pair_has_the_same_logit_beside_others() -> None:
    """Pairs are run one by one, so that what else is asked changes nothing."""
    pair = ClaimPair("Sealed items can be returned.", "", PASSAGE)
    others = [ClaimPair("It is blue. " * 20, "What colour?", PASSAGE * 3), ClaimPair("Yes.", "", "")]
    assert claim_logits([*others, pair])[2] == claim_logits([pair])[0]
    assert claim_logits([]).shape == (0,)


def test_the_claim_is_a_segment_of_its_own() -> None:
    """Claim, question and passage stand between the encoder's marks; long ones are cut."""
    tokenizer = open_tokenizer(512)
    ids, segments = pair_ids(tokenizer, ClaimPair("It is red.", "Which colour?", "The door is red."))
    cls, sep = 101, 102
    assert ids[0] == cls
    assert [i for i, piece in enumerate(ids) if piece == sep] == [5, 9, 15]
    assert segments == [0] * 6 + [1] * 10
    ids, segments = pair_ids(tokenizer, ClaimPair("red " * 300, "which " * 100, "door " * 400))
    assert len(ids) == len(segments) == 64 + 24 + 168 + 4


@given(st.text(max_size=200), st.text(max_size=60), st.text(max_size=300))
def test_any_text_gives_a_finite_logit(claim: str, query: str, passage: str) -> None:
    """Empty texts, other scripts, lone surrogates and control characters are read like any other."""
    assert np.isfinite(claim_logits([ClaimPair(claim, query, passage)])).all()
