"""Whether the words of a claim are where the rest of it belongs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragtrace.models.claim_alignment import align
from ragtrace.models.claim_bindings import bindings
from ragtrace.models.claim_comparison import ClaimPair, compare_claims
from ragtrace.models.closest_passage import Segments

TARIFFS = Segments(["Tariff Alder. The line costs 12 euros a month.", "Tariff Birch. The line costs 17 euros a month."])


@pytest.mark.parametrize(("price", "sign"), [("17", 1), ("12", -1)])
def test_a_figure_of_the_other_chunk_is_behind(price: str, sign: int) -> None:
    """The lead of the tariff's own price is positive, that of its neighbour's price negative."""
    claim = f"You pay {price} euros for Birch."
    features = bindings(align(claim, "What does Birch cost?", TARIFFS.passage(claim)))
    assert features["lead_of_number_in_chunk"] * sign > 0.05
    assert features["behind_in_chunk"] == (sign < 0)


def test_the_trees_know_the_chunk_that_is_meant() -> None:
    """The price of the other tariff is supported less."""
    claims = [f"Birch costs {price} euros a month." for price in (17, 12)]
    pairs = [ClaimPair(claim, "What does Birch cost?", TARIFFS.passage(claim)) for claim in claims]
    right, wrong = compare_claims(pairs)
    assert right > wrong + 0.5


def test_what_the_question_says_has_no_lead() -> None:
    """A word that the question has is no news, so its place does not matter."""
    claim = "Birch."
    features = bindings(align(claim, "Is it Alder or Birch?", TARIFFS.passage(claim)))
    assert features["lead_in_chunk"] == features["mean_lead_in_chunk"] == 0


@given(st.text(max_size=80), st.text(max_size=40), st.lists(st.text(max_size=80), max_size=3))
def test_any_text_gives_finite_features_under_the_same_names(claim: str, query: str, chunks: list[str]) -> None:
    """Empty claims, questions and passages have the same features."""
    features = bindings(align(claim, query, Segments(chunks).passage(claim, query)))
    assert list(features) == list(bindings(align("Birch costs 17.", "", TARIFFS.passage(""))))
    assert np.isfinite(list(features.values())).all()
