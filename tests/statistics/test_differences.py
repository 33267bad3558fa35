"""Differences of shares, against the literature and against samples whose truth is known."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragtrace.statistics import Estimate, wilson
from ragtrace.statistics.differences import difference_sentence, independent_difference, paired_difference
from tests.row_files import rows


def _share(count: int, total: int) -> Estimate:
    return Estimate(count / total, wilson(count / total, total), total, total)


@pytest.mark.parametrize(("a", "b", "low", "high"), rows(__file__, "independent_shares"))
def test_independent_shares(a: tuple[int, int], b: tuple[int, int], low: float, high: float) -> None:
    """Newcombe's own examples (1998, table II, method 10, without continuity correction)."""
    difference = independent_difference(_share(*a), _share(*b))
    assert difference.interval == pytest.approx((low, high), abs=5e-5)
    assert difference.value == pytest.approx(b[0] / b[1] - a[0] / a[1])


@pytest.mark.parametrize(("cells", "low", "high"), rows(__file__, "paired_shares"))
def test_paired_shares(cells: tuple[int, int, int, int], low: float, high: float) -> None:
    """Newcombe's own examples (1998, table III, method 10)."""
    both, other, one, neither = cells
    pairs = [(True, True)] * both + [(False, True)] * other + [(True, False)] * one + [(False, False)] * neither
    difference = paired_difference(pairs, [1.0] * len(pairs))
    assert difference.interval == pytest.approx((low, high), abs=5e-4)
    assert (difference.only_a, difference.only_b) == (one, other)


@given(st.integers(0, 40), st.integers(1, 40), st.integers(0, 40), st.integers(1, 40))
def test_the_interval_contains_the_difference(x: int, more_x: int, y: int, more_y: int) -> None:
    """Whatever the counts; p and interval agree about zero."""
    difference = independent_difference(_share(x, x + more_x), _share(y, y + more_y))
    low, high = difference.interval
    assert -1 <= low <= difference.value <= high <= 1
    assert difference.certain == (difference.p < 0.05) or abs(difference.p - 0.05) < 1e-6


def test_intervals_cover() -> None:
    """Of 1,500 samples of pairs with known shares and unequal weights, nine of ten intervals or more hold the truth."""
    chance = random.Random(5)
    hits = 0
    for _ in range(1_500):
        pairs, probabilities = [], []
        for _ in range(60):
            level = chance.random()
            pairs.append((level < 0.2, chance.random() < 0.1 or level < 0.25))
            probabilities.append(chance.choice((0.2, 0.5, 1.0)))
        low, high = paired_difference(pairs, probabilities).interval
        hits += low <= 0.325 - 0.2 <= high
    assert 0.9 <= hits / 1_500 <= 1.0


def test_weights_count() -> None:
    """A pair that was sampled with a tenth of the probability stands for ten, in the interval and in p."""
    pairs = [(False, True), (True, False), (False, False), (True, True)]
    difference = paired_difference(pairs, [0.1, 1.0, 1.0, 1.0])
    assert (difference.a.value, difference.b.value) == pytest.approx((2 / 13, 11 / 13))
    assert difference.p > 0.05
    assert not difference.certain
    # B is worse among what is always sampled, and better among the rest, of which a twentieth is.
    pairs = [(False, True)] * 60 + [(True, False)] * 3
    opposed = paired_difference([*pairs, *[(False, False)] * 300], [1.0] * 60 + [0.05] * 303)
    assert not opposed.certain
    assert opposed.p > 0.05
    with pytest.raises(ValueError, match="at least one pair"):
        paired_difference([], [])


def test_sentences() -> None:
    """What a difference means, with its interval in points and n; and that nothing is shown where nothing is."""
    worse = independent_difference(_share(40, 400), _share(80, 412))
    assert difference_sentence("v7", "v8", worse) == "v8 fails 9 points more than v7 (5 to 14), n = 412 and 400."
    better = independent_difference(_share(80, 412), _share(40, 400))
    assert difference_sentence("v7", "v8", better) == "v8 fails 9 points fewer than v7 (5 to 14), n = 400 and 412."
    same = paired_difference([(True, True)] * 20 + [(False, False)] * 180 + [(True, False)], [1.0] * 201)
    sentence = difference_sentence("v7", "v8", same)
    assert sentence.startswith("No difference is shown. v8 fails 0.5 points fewer than v7; the data allow \u2212")
    assert sentence.endswith("n = 201 pairs.")
