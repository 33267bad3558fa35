"""The share of answers that people would fail, from few verdicts and all scores."""

import random
from collections.abc import Callable

import numpy as np
import ppi_py
import pytest

from ragtrace.statistics import Sums
from ragtrace.statistics.true_share import JudgedLog, TrueShare, true_share

Drawn = tuple[list[JudgedLog], list[tuple[float, float]]]


def month(chance: random.Random, fails: float, count: int, *, even: bool = False, shift: float = 1.2) -> Drawn:
    """Judged logs and all scores with their weights. Suspicious requests are evaluated more often than others."""
    rows = []
    for _ in range(3_000):
        bad = chance.random() < fails
        p = 1.0 if even else 0.9 if chance.random() < (0.85 if bad else 0.05) else 0.1
        if chance.random() < p:
            rows.append((float(bad), chance.gauss(shift * bad, 1.0), 1 / p))
    judged = [JudgedLog(*row) for row in chance.sample(rows, count)]
    return judged, [(score, weight) for _, score, weight in rows]


def sums(scores: list[tuple[float, float]]) -> Sums:
    total = Sums()
    for score, weight in scores:
        total.add(score, 1 / weight)
    return total


def estimate(judged: list[JudgedLog], scores: list[tuple[float, float]]) -> TrueShare:
    return true_share(judged, sums(scores))


@pytest.mark.parametrize("even", [True, False])
def test_the_estimate_is_that_of_ppi_python(even: bool) -> None:
    """With the same lambda and weights, the authors' package gives the same share."""
    judged, scores = month(random.Random(3), 0.2, 200, even=even)
    share = estimate(judged, scores)
    bad, score, weight = (np.array(column) for column in zip(*judged, strict=True))
    values, weights = (np.array(column) for column in zip(*scores, strict=True))
    peer = ppi_py.ppi_mean_pointestimate(
        bad, score, values, lam=share.factor, w=weight / weight.mean(), w_unlabeled=weights / weights.mean()
    )
    assert share.factor > 0.05
    assert share.value == pytest.approx(float(peer[0]), abs=1e-9)


def test_lambda_and_interval_are_those_of_ppi_python() -> None:
    """Without weights lambda and the width agree, but for the small corrections of few verdicts."""
    judged, scores = month(random.Random(4), 0.3, 400, even=True)
    share = estimate(judged, scores)
    bad, score, _ = (np.array(column) for column in zip(*judged, strict=True))
    low, high = ppi_py.ppi_mean_ci(bad, score, np.array([value for value, _ in scores]), alpha=0.05)
    width = share.interval[1] - share.interval[0]
    assert width == pytest.approx(float(high[0] - low[0]), rel=0.03)
    assert share.interval[0] == pytest.approx(float(low[0]), abs=0.01)
    assert width < 0.95 * (share.alone[1] - share.alone[0])


def test_a_bootstrap_gives_the_same_spread() -> None:
    """The linearised variance of weighted logs is that of drawing the judged logs again."""
    chance = random.Random(5)
    judged, scores = month(chance, 0.25, 300)
    share = estimate(judged, scores)
    draws = sorted(estimate(chance.choices(judged, k=len(judged)), scores).value for _ in range(600))
    assert share.interval[1] - share.interval[0] == pytest.approx(draws[585] - draws[15], rel=0.2)


@pytest.mark.parametrize(("fails", "count", "even"), [(0.1, 60, True), (0.1, 100, False), (0.3, 60, False)])
def test_intervals_hold_the_truth(fails: float, count: int, even: bool) -> None:
    """Of 200 months about 95 % do; fewer than 91 % would come by chance in one of a hundred tests."""
    chance = random.Random(6)
    shares = [estimate(*month(chance, fails, count, even=even)) for _ in range(200)]
    assert sum(share.interval[0] <= fails <= share.interval[1] for share in shares) >= 182


def test_scores_that_say_nothing_change_nothing() -> None:
    """An evaluator that throws dice leaves the interval about as wide as that of the verdicts."""
    judged, scores = month(random.Random(7), 0.2, 200, even=True, shift=0.0)
    share = estimate(judged, scores)
    width, alone = share.interval[1] - share.interval[0], share.alone[1] - share.alone[0]
    assert 0.97 * alone <= width <= alone
    assert share.value == pytest.approx(sum(log.bad for log in judged) / len(judged), abs=0.01)


@pytest.mark.parametrize("make", [lambda i: float(i < 2), lambda i: 0.0, lambda i: 1.0])
def test_few_failures_are_the_verdicts_alone(make: Callable[[int], float]) -> None:
    """Two bad logs do not show how far a score can be trusted, and none or all have an interval all the same."""
    judged = [JudgedLog(make(i), float(i), 1.0) for i in range(40)]
    share = estimate(judged, [(float(i % 40), 1.0) for i in range(4_000)])
    assert share.factor == 0.0
    assert share.interval == share.alone
    assert 0.0 <= share.interval[0] <= share.value <= share.interval[1] <= 1.0
    assert share.interval[0] < share.interval[1]


def test_it_says_how_many_more_verdicts_it_needs() -> None:
    """With that many the interval is within three points."""
    chance = random.Random(8)
    judged, scores = month(chance, 0.2, 100, even=True)
    first = estimate(judged, scores)
    assert first.needed > 300
    assert estimate([JudgedLog(0.0, 0.5, 1.0)] * 10, []).needed == 51  # none of 61: 0 to 5.9 %
    more, scores = month(chance, 0.2, 100 + first.needed, even=True)
    second = estimate(more, scores)
    assert (second.interval[1] - second.interval[0]) / 2 == pytest.approx(0.03, abs=0.005)


def test_bad_input_is_refused() -> None:
    """No verdicts are no estimate; a weight of 0 stands for nothing."""
    assert true_share([], Sums()) is None
    with pytest.raises(ValueError, match="weights above 0"):
        true_share([JudgedLog(1.0, 0.5, 0.0)], Sums())
