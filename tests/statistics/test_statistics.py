"""Weighted estimates."""

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragtrace.statistics import MAX_WEIGHT, Estimate, Sums, weighted, wilson

DAY, HOUR = 86_400, 3_600
values = st.floats(-1e6, 1e6, allow_nan=False)
probabilities = st.floats(1e-4, 1.0)


def sampled(chance: random.Random, requests: int, fails: float) -> tuple[list[float], list[float]]:
    """Verdicts (1 passes) and inclusion probabilities of what a sampler keeps that keeps suspicious answers: most that
    fail are, few that pass."""
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
    """The interval contains the value, the effective size is in (0, count], and clipped weights are counted; a rate and
    its bounds lie in [0, 1]."""
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
    """A weight beyond the bound counts with the bound."""
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
    """Two parts' sums together are the whole's."""
    parts, whole = [Sums(), Sums()], Sums()
    for i, (value, p) in enumerate(pairs):
        parts[i < cut].add(value, p)
        whole.add(value, p)
    parts[0] += parts[1]
    both, one = parts[0].mean(), whole.mean()
    assert both.value == pytest.approx(one.value, rel=1e-6, abs=1e-6)
    assert both.count == one.count
