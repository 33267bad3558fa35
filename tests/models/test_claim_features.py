"""What is counted of a claim beside what the groundedness head says."""

from __future__ import annotations

import numpy as np
import pytest

from ragtrace.models.claim_features import CLAIM_FEATURES, ClaimColumn, ContextFacts, claim_features
from ragtrace.models.support import Question, compare

CHUNKS = ("The warranty of the pump lasts 24 months. Wear parts are not covered.", "Berger GmbH sells it in Vienna.")


def feature(claim: str, column: ClaimColumn, supported: float = 0.5) -> float:
    return float(claim_features(claim, ContextFacts(CHUNKS, "How long is the warranty?"), supported, 0.0)[column])


def test_there_is_one_value_for_each_column() -> None:
    """The row has the columns' order and size; the head's probability is a logit in it."""
    row = claim_features("The pump is covered.", ContextFacts(CHUNKS, ""), 0.9, 0.0)
    assert row.shape == (CLAIM_FEATURES,)
    assert row[ClaimColumn.HEAD] == pytest.approx(2.197, abs=0.001)
    assert row[ClaimColumn.HEAD_WORDS] == pytest.approx(row[ClaimColumn.HEAD] * row[ClaimColumn.WORDS])


@pytest.mark.parametrize(("claim", "count"), [("It lasts two years.", 0), ("It lasts 36 months, or 3 kg.", 2)])
def test_quantities_are_compared_by_amount(claim: str, count: int) -> None:
    """Two years are 24 months; what the context does not hold is counted."""
    assert feature(claim, ClaimColumn.QUANTITY) == count


def test_a_negation_on_one_side_is_noticed() -> None:
    """It counts where the claim or its closest sentence has one, not where both or neither have."""
    assert feature("Wear parts are covered.", ClaimColumn.NEGATION) == pytest.approx(1.0)
    assert feature("Wear parts aren't covered.", ClaimColumn.NEGATION) == 0.0
    assert feature("The warranty lasts 24 months.", ClaimColumn.NEGATION) == 0.0
    assert feature("The warranty never lasts 24 months.", ClaimColumn.NEGATION) > 0.5


def test_names_of_the_context_are_known() -> None:
    """The share of capitalised words that the context does not have; the first word of a sentence is no name."""
    assert feature("You can buy it from Berger in Vienna.", ClaimColumn.NAME) == 0.0
    assert feature("You can buy it from Berger in Graz.", ClaimColumn.NAME) == 0.5


def test_words_are_compared_with_the_context_and_with_its_closest_sentence() -> None:
    """Words of two sentences are all known, and neither sentence has all of them."""
    assert feature("Berger covers wear parts.", ClaimColumn.WORDS) == 1.0
    assert feature("Berger covers wear parts.", ClaimColumn.OVERLAP) == 0.75


@pytest.mark.parametrize(("claim", "chunks"), [("", CHUNKS), ("!!!", ()), ("A claim.", ("",))])
def test_nothing_to_compare_is_a_row(claim: str, chunks: tuple[str, ...]) -> None:
    """An empty claim or context gives finite values."""
    row = claim_features(claim, ContextFacts(chunks, ""), 0.0, 0.0)
    assert all(abs(value) < 100 for value in row)


def test_the_comparison_counts_less_in_a_long_context() -> None:
    """Its logit is kept in [-4, 4], and weighed by the part of the context that a passage can hold."""
    short = claim_features("It lasts two years.", ContextFacts(CHUNKS, ""), 0.5, -9.0)
    assert short[ClaimColumn.PART] == 1
    assert short[ClaimColumn.COMPARISON_PART] == -4
    long = claim_features("It lasts two years.", ContextFacts((*CHUNKS, "The pump is blue. " * 200), ""), 0.5, -9.0)
    assert 0 < long[ClaimColumn.PART] < 0.2
    assert long[ClaimColumn.COMPARISON_PART] == pytest.approx(-4 * long[ClaimColumn.PART])


def test_the_claims_that_the_head_trusts_most_are_compared() -> None:
    """Of 61 claims 60 are compared with their passages; the one that the head trusts least is not."""
    answer = "Wear parts are covered. " * 61
    spans = [(24 * i, 24 * i + 23) for i in range(61)]
    trust = np.full(61, 0.9, np.float32)
    trust[7] = 0.1
    rows = compare(Question("", answer, spans, CHUNKS), ContextFacts(CHUNKS, ""), trust)
    assert rows[7, ClaimColumn.COMPARISON_PART] == 0
    assert (np.delete(rows[:, ClaimColumn.COMPARISON_PART], 7) < 0).all()
