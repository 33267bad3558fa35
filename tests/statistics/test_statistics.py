"""Weighted estimates and the change test."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragtrace.statistics import MAX_WEIGHT, ChangeTest, Estimate, Reference, Sums, weighted, wilson

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


# --- estimates ---------------------------------------------------------------------------------------------


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
    for estimate in (weighted(result, inclusion), weighted([float(v > 0) for v in result], inclusion)):
        assert 0 < estimate.effective <= estimate.count == len(pairs)
        assert estimate.clipped == sum(1 / p > MAX_WEIGHT for p in inclusion)
        if estimate.interval is not None:
            assert estimate.interval[0] <= estimate.value <= estimate.interval[1]


@given(st.lists(st.tuples(st.booleans(), probabilities), min_size=1, max_size=50))
def test_a_rate_stays_a_rate(pairs: list[tuple[bool, float]]) -> None:
    """A rate and its bounds lie in [0, 1]."""
    estimate = weighted([float(v) for v, _ in pairs], [p for _, p in pairs])
    assert estimate.interval is not None
    assert 0 <= estimate.interval[0] <= estimate.value <= estimate.interval[1] <= 1


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
        result = (
            verdicts
            if kind == "rate"
            else [chance.uniform(0.6, 1.0) if v else chance.uniform(0, 0.6) for v in verdicts]
        )
        truth = 0.88 if kind == "rate" else 0.88 * 0.8 + 0.12 * 0.3
        interval = weighted(result, inclusion).interval
        assert interval is not None
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
    assert both is not None
    assert one is not None
    assert both.value == pytest.approx(one.value, rel=1e-6, abs=1e-6)
    assert both.count == one.count


# --- the change test ---------------------------------------------------------------------------------------


def fed(test: ChangeTest, fails: float, count: int, *, start: float = 0.0, seed: int = 1, gap: float = 18.0) -> float:
    """Feed evaluations of a failure rate, 200 an hour; the time after them."""
    chance = random.Random(seed)
    for i in range(count):
        test.observe(chance.random() < fails, 1.0, start + i * gap)
    return start + count * gap


def test_a_rise_is_found_and_a_steady_rate_is_not() -> None:
    """A month at 4 % raises nothing; from 4 to 12 % is detected within some hundred evaluations, and reported with its
    begin and both rates."""
    test = ChangeTest()
    now = fed(test, 0.04, 144_000)
    assert test.alarm is None
    fed(test, 0.12, 1_000, start=now, seed=2)
    assert test.alarm is not None
    assert test.alarm.time - now < 6 * HOUR
    assert abs(test.alarm.since - now) < 6 * HOUR
    assert 0.03 < test.alarm.before < 0.05 < test.alarm.after


def test_an_improvement_is_no_alarm() -> None:
    """Fewer failures raise nothing."""
    test = ChangeTest(Reference(0.2, 5_000))
    fed(test, 0.02, 20_000)
    assert test.alarm is None


def test_acknowledging() -> None:
    """An alarm remains until it is acknowledged; it is raised again while the rate is high."""
    test = ChangeTest(Reference(0.04, 5_000))
    now = fed(test, 0.3, 500)
    first = test.alarm
    now = fed(test, 0.04, 2_000, start=now)
    assert first is not None
    assert test.alarm is first
    test.acknowledge()
    now = fed(test, 0.04, 2_000, start=now)
    assert test.alarm is None
    now = fed(test, 0.3, 500, start=now)
    assert test.alarm is not None


@pytest.mark.parametrize("jump", [-400 * DAY, -HOUR, HOUR, 30 * DAY, 400 * DAY])
def test_a_jump_of_the_clock_raises_nothing(jump: float) -> None:
    """A jump or a gap leaves the statistic alone and moves the limit by no more than an hour can."""
    one, other = ChangeTest(), ChangeTest()
    chance = random.Random(4)
    for i in range(20_000):
        failed = chance.random() < 0.04
        one.observe(failed, 1.0, 18.0 * i)
        other.observe(failed, 1.0, 18.0 * i + (jump if i > 10_000 else 0.0))
    assert one.alarm is other.alarm is None
    assert other.limit == pytest.approx(one.limit, abs=0.1)
    for i in range(20_000, 20_500):
        failed = chance.random() < 0.3
        one.observe(failed, 1.0, 18.0 * i)
        other.observe(failed, 1.0, 18.0 * i + jump)
    assert other.alarm is not None


def test_uneven_weights_make_the_test_slower_not_louder() -> None:
    """Under biased sampling a month of a steady rate raises nothing, the reference is the weighted rate, and a rise is
    found."""
    chance = random.Random(6)
    test = ChangeTest()
    time = 0.0
    for fails, requests in ((0.04, 300_000), (0.2, 20_000)):
        verdicts, inclusion = sampled(chance, requests, fails)
        for verdict, p in zip(verdicts, inclusion, strict=True):
            test.observe(verdict == 0.0, 1 / p, time)
            time += 18.0
        if fails == 0.04:
            assert test.alarm is None
            assert test.reference is not None
            assert test.reference.rate == pytest.approx(0.04, abs=0.015)
    assert test.alarm is not None
