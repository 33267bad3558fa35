"""Weighted estimates."""

import math
import random
from collections.abc import Callable
from statistics import fmean

import numpy as np
import ppi_py
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragtrace.statistics import MAX_WEIGHT, Estimate, Sums, weighted, wilson
from ragtrace.statistics.bets import ALARM, _odds, log_wealth_against_move, wealth_against_same
from ragtrace.statistics.true_share import JudgedLog, TrueShare, true_share

DAY, HOUR = 86_400, 3_600
values = st.floats(-1e6, 1e6, allow_nan=False)
probabilities = st.floats(1e-4, 1.0)


def sampled(chance: random.Random, requests: int, fails: float) -> tuple[list[float], list[float]]:
    """Verdicts (1 passes) and inclusion probabilities of what a sampler keeps that keeps suspicious answers."""
    verdicts, inclusion = [], []
    for _ in range(requests):
        bad = chance.random() < fails
        suspicious = chance.random() < (0.85 if bad else 0.05)
        p = chance.uniform(0.8, 1.0) if suspicious else chance.uniform(0.05, 0.15)
        if chance.random() < p:
            verdicts.append(0.0 if bad else 1.0)
            inclusion.append(p)
    return verdicts, inclusion


@given(st.lists(values, min_size=1, max_size=50), probabilities)
def test_equal_weights_give_the_mean(result: list[float], p: float) -> None:
    """With one probability for all, the estimate is the mean and the effective size the count."""
    estimate = weighted(result, [p] * len(result))
    assert estimate.value == pytest.approx(math.fsum(result) / len(result), rel=1e-9, abs=1e-3)
    assert estimate.effective == pytest.approx(len(result))


@given(st.lists(st.tuples(values, probabilities), min_size=1, max_size=50))
def test_intervals_contain_the_estimate(pairs: list[tuple[float, float]]) -> None:
    """The interval contains the value, the effective size is in (0, count], and clipped weights are counted."""
    result, inclusion = [v for v, _ in pairs], [p for _, p in pairs]
    rate = weighted([float(v > 0) for v in result], inclusion)
    assert 0 <= rate.interval[0] <= rate.value <= rate.interval[1] <= 1
    for estimate in (weighted(result, inclusion), rate):
        assert 0 < estimate.effective <= estimate.count == len(pairs)
        assert estimate.clipped == sum(1 / p > MAX_WEIGHT for p in inclusion)
        if estimate.interval is not None:
            assert estimate.interval[0] <= estimate.value <= estimate.interval[1]


@pytest.mark.parametrize("fails", [0.04, 0.12])
def test_within_a_point_of_the_truth_where_the_mean_is_off(fails: float) -> None:
    """Of 10,000 requests, sampled with a bias to what looks wrong, the estimate is within 1 percentage point of the
    truth in 18 of 20 runs (its standard error is half a point), on average within 0.2; the plain mean is off by more
    than 5 in each."""
    chance = random.Random(5)
    errors = []
    for _ in range(20):
        result, inclusion = sampled(chance, 10_000, fails)
        errors.append(weighted(result, inclusion).value - (1 - fails))
        assert abs(math.fsum(result) / len(result) - (1 - fails)) > 0.05
    assert sum(abs(error) < 0.01 for error in errors) >= (20 if fails < 0.1 else 18)
    assert abs(math.fsum(errors)) / 20 < 0.002


@pytest.mark.parametrize(("requests", "runs"), [(200, 600), (1_000, 200), (5_000, 60)])
@pytest.mark.parametrize("kind", ["rate", "score"])
def test_coverage(requests: int, runs: int, kind: str) -> None:
    """The 95 % intervals hold the truth in at least 93 % of runs under biased sampling."""
    chance = random.Random(11)
    hits = 0
    for _ in range(runs):
        verdicts, inclusion = sampled(chance, requests, 0.12)
        truth, result = 0.88, verdicts
        if kind == "score":
            truth = 0.88 * 0.8 + 0.12 * 0.3
            result = [chance.uniform(0.6, 1.0) if v else chance.uniform(0, 0.6) for v in verdicts]
        interval = weighted(result, inclusion).interval
        hits += interval[0] <= truth <= interval[1]
    assert hits / runs >= 0.93


def test_weights_are_clipped_and_counted() -> None:
    assert weighted([0.0, 1.0], [1e-9, 1.0], most=4.0) == Estimate(
        0.2, wilson(0.2, 25 / 17), count=2, effective=25 / 17, clipped=1
    )


@pytest.mark.parametrize(
    ("result", "inclusion"),
    [([], []), ([1.0], [0.0]), ([1.0], [1.5]), ([1.0], [math.nan]), ([math.nan], [1.0]), ([1.0], [1.0, 1.0])],
)
def test_what_is_no_sample_is_refused(result: list[float], inclusion: list[float]) -> None:
    """No values, impossible probabilities and NaN raise ValueError."""
    with pytest.raises(ValueError, match=r"\w"):
        weighted(result, inclusion)


def test_one_value_has_no_interval() -> None:
    """A single score says nothing of its spread; a single verdict does."""
    assert weighted([0.5], [0.5]).interval is None
    assert weighted([1.0], [0.5]).interval == wilson(1.0, 1.0)


@given(st.lists(st.tuples(values, probabilities), min_size=2, max_size=30), st.integers(1, 29))
def test_sums_add_up(pairs: list[tuple[float, float]], cut: int) -> None:
    parts, whole = [Sums(), Sums()], Sums()
    for i, (value, p) in enumerate(pairs):
        parts[i < cut].add(value, p)
        whole.add(value, p)
    parts[0] += parts[1]
    both, one = parts[0].mean(), whole.mean()
    assert both.value == pytest.approx(one.value, rel=1e-6, abs=1e-6)
    assert both.count == one.count


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
    chance = random.Random(8)
    judged, scores = month(chance, 0.2, 100, even=True)
    first = estimate(judged, scores)
    assert first.needed > 300
    assert estimate([JudgedLog(0.0, 0.5, 1.0)] * 10, []).needed == 51  # none of 61: 0 to 5.9 %
    more, scores = month(chance, 0.2, 100 + first.needed, even=True)
    second = estimate(more, scores)
    assert (second.interval[1] - second.interval[0]) / 2 == pytest.approx(0.03, abs=0.005)


def test_bad_input_is_refused() -> None:
    """Without verdicts there is no estimate. A log with weight 0 does not count."""
    assert true_share([], Sums()) is None
    with pytest.raises(ValueError, match="weights above 0"):
        true_share([JudgedLog(1.0, 0.5, 0.0)], Sums())


Judge = Callable[[random.Random, int, bool], float]
"""Scores the text of this number, which people fail or pass; higher is worse."""


def own(number: int, is_bad: bool, accuracy: float, seed: int) -> float:
    """The score that a judge gives to a text each time. So many of its texts are right."""
    chance = random.Random(1_000 * seed + number)
    return (0.8 if is_bad == (chance.random() < accuracy) else 0.15) + chance.uniform(-0.1, 0.1)


def steady(chance: random.Random, number: int, is_bad: bool) -> float:
    return own(number, is_bad, 0.85, 1)


def noisy(chance: random.Random, number: int, is_bad: bool) -> float:
    """Another score each time, and in each twentieth case the opposite."""
    score = steady(chance, number, is_bad)
    return (1 - score if chance.random() < 0.05 else score) + chance.gauss(0, 0.02)


def runs_until_alarm(seed: int, before: Judge, after: Judge, change: int, most: int) -> int | None:
    """The run that raises the alarm, counted from the change; None if none of `most` runs does."""
    chance = random.Random(seed)
    bad = [chance.random() < 0.5 for _ in range(60)]
    past = [[before(chance, i, said) for _ in range(3)] for i, said in enumerate(bad)]
    wealth: list[float] = []
    for run in range(1, most + 1):
        judge = after if run >= change else before
        scores = [judge(chance, i, said) for i, said in enumerate(bad)]
        wealth = wealth_against_same(zip(scores, past, bad, strict=True), run, wealth)
        if math.log(fmean(wealth)) >= ALARM:
            return run - change
        for earlier, score in zip(past, scores, strict=True):
            earlier.append(score)
    return None


@pytest.mark.parametrize("places", [2, 3, 8, 31])
@pytest.mark.parametrize("is_bad", [False, True])
def test_the_odds_are_fair(places: int, is_bad: bool) -> None:
    """If each place is equally likely, nobody wins on average."""
    odds = [_odds(place, places, is_bad) for place in range(places)]
    assert [sum(column) / places for column in zip(*odds, strict=True)] == pytest.approx([1.0] * len(odds[0]))


@pytest.mark.parametrize("judge", [steady, noisy, lambda chance, number, is_bad: chance.random()])
def test_a_judge_that_stays_the_same_is_hardly_ever_suspected(judge: Judge) -> None:
    """Of 60 streams of 20 runs three at most: 5 %."""
    assert sum(runs_until_alarm(seed, judge, judge, 99, 20) is not None for seed in range(60)) <= 3


@pytest.mark.parametrize(("before", "change"), [(steady, 1), (noisy, 6)])
@pytest.mark.parametrize(
    "after",
    [
        pytest.param(lambda chance, number, is_bad: own(number, is_bad, 0.6, 2), id="less often right"),
        pytest.param(lambda chance, number, is_bad: own(number, is_bad, 0.85, 3), id="wrong elsewhere"),
        pytest.param(lambda chance, number, is_bad: own(number, is_bad, 0.85, 1) + 0.1, id="stricter by a tenth"),
        pytest.param(lambda chance, number, is_bad: 0.1, id="passes everything"),
        pytest.param(lambda chance, number, is_bad: chance.random(), id="guesses"),
    ],
)
def test_a_silent_change_is_seen_in_the_first_run(before: Judge, after: Judge, change: int) -> None:
    """Within 60 texts, in 60 of 60 streams, of which three at most (5 %) were suspected before it."""
    alarms = [runs_until_alarm(seed, before, after, change, change) for seed in range(60)]
    early = [alarm for alarm in alarms if alarm is not None and alarm < 0]
    assert alarms.count(0) == 60 - len(early)
    assert len(early) <= 3


def test_texts_whose_scores_are_all_equal_say_nothing() -> None:
    """Also where they differ by less than a hundredth: another processor rounds otherwise."""
    same = [(0.5 + i % 2 * 1e-4, [0.5, 0.5001, 0.5], i % 3 == 0) for i in range(60)]
    assert math.log(fmean(wealth_against_same(same, 1))) == pytest.approx(-0.6931, abs=1e-4)


def test_evidence_that_nothing_moved() -> None:
    """39 texts without a move show that less than 10 points moved; a tenth that did move shows nothing."""
    assert log_wealth_against_move([0] * 38) < ALARM <= log_wealth_against_move([0] * 39)
    assert log_wealth_against_move(([1] + [0] * 9) * 20) < 0
    assert log_wealth_against_move(([-1] + [0] * 9) * 20) < 0
