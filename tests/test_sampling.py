"""The laws of sampling: subset, ratio, probability, and the weight 1/p that follows from them."""

import functools
import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragtrace import sampling
from ragtrace.errors import SettingError
from ragtrace.records import Trace
from ragtrace.sampling import Decision, Sampler, all_of, any_of, attribute, errors, rate_limit, ratio, share, slow
from ragtrace.testing import Clock, make_trace

trace_ids = st.integers(1, 2**128 - 1)
fractions = st.floats(0, 1)


@functools.lru_cache(4)
def traces(count: int, seed: int = 7, **fields: object) -> list[Trace]:
    draw = random.Random(seed).getrandbits
    return [make_trace(trace_id=draw(128), span_id=draw(64), **fields) for _ in range(count)]


@pytest.mark.parametrize("by", [ratio, share])
@given(trace_id=trace_ids, one=fractions, other=fractions)
def test_a_lower_ratio_keeps_a_subset(by: Callable[[float], Sampler], trace_id: int, one: float, other: float) -> None:
    """Whatever a lower ratio or share keeps, a higher one keeps, too; 1 keeps everything and 0 nothing."""
    low, high = sorted((one, other))
    trace = make_trace(trace_id=trace_id)
    assert not by(low)(trace).keep or by(high)(trace).keep
    assert by(1.0)(trace).keep
    assert not ratio(0.0)(trace).keep


@given(trace_ids, fractions)
def test_a_ratio_is_deterministic_and_carries_its_probability(trace_id: int, p: float) -> None:
    """Two processes agree on a trace, and both know with what probability it was kept."""
    trace = make_trace(trace_id=trace_id)
    assert (ratio(p)(trace), ratio(p)(trace).probability) == (ratio(p)(trace), p)


def test_opentelemetrys_consistent_rule_is_followed() -> None:
    """R is the low 56 bits of the trace id and a trace is kept when R reaches the threshold (1 - p) 2^56."""
    half = 1 << 55
    assert ratio(0.5)(make_trace(trace_id=half)).keep
    assert not ratio(0.5)(make_trace(trace_id=half - 1)).keep
    assert not ratio(0.5)(make_trace(trace_id=(0xFF << 56) | (half - 1))).keep


def test_conditions_are_certain() -> None:
    failed, quick = make_trace(error="ValueError"), make_trace(duration=0.1)
    late, paid = make_trace(duration=5.0), make_trace(attributes={"plan": "paid"})
    assert (errors()(failed), errors()(quick)) == (Decision(True, 1.0, "error"), Decision(False, 0.0, "error"))
    assert slow(5.0)(late).keep
    assert not slow(5.0)(quick).keep
    assert attribute("plan", "paid")(paid).keep
    assert attribute("plan")(paid).keep
    assert not attribute("plan", "free")(paid).keep


@given(trace_ids, fractions, fractions)
def test_unions_and_intersections_of_consistent_samplers(trace_id: int, one: float, other: float) -> None:
    """By trace id the union of two ratios is the larger one, and their intersection the smaller one."""
    trace = make_trace(trace_id=trace_id)
    union, both = (combine(ratio(one), ratio(other))(trace) for combine in (any_of, all_of))
    assert (union.keep, union.probability) == (ratio(max(one, other))(trace).keep, pytest.approx(max(one, other)))
    assert (both.keep, both.probability) == (ratio(min(one, other))(trace).keep, min(one, other))


def test_independent_decisions_multiply() -> None:
    by_id, by_rate = Decision(True, 0.5, "ratio"), Decision(True, 0.2, "rate_limit", consistent=False)
    assert sampling.joint(by_id, by_rate).probability == pytest.approx(0.1)
    union = any_of(lambda _: by_id, lambda _: by_rate)(make_trace())
    assert union.probability == pytest.approx(1 - 0.5 * 0.8)


@pytest.mark.long
def test_what_compares_the_id_nests_within_a_mixture() -> None:
    """A ratio below a ratio and a limit keeps its share of the limit alone: the id was compared already."""
    chance = random.Random(5)
    both = all_of(ratio(0.5), lambda _: Decision(chance.random() < 0.4, 0.4, "limit", consistent=False))
    kept = 0
    for trace in traces(20_000):
        decision = sampling.joint(any_of(errors(), both)(trace), ratio(0.25)(trace))
        assert not decision.keep or decision.probability == pytest.approx(0.25 * 0.4)
        kept += decision.keep
    assert abs(kept / 20_000 - 0.1) < 4 * (0.1 * 0.9 / 20_000) ** 0.5


@pytest.mark.long
def test_a_union_of_mixtures_has_its_probability() -> None:
    """The union of a ratio with what compares the id and draws as well is kept as often as it says."""
    chance = random.Random(6)
    both = all_of(ratio(0.6), lambda _: Decision(chance.random() < 0.5, 0.5, "limit", consistent=False))
    other = all_of(ratio(0.3), lambda _: Decision(chance.random() < 0.2, 0.2, "other", consistent=False))
    decisions = [any_of(ratio(0.1), both, other)(trace) for trace in traces(20_000)]
    expected = 0.1 + 0.2 * (1 - 0.5 * 0.8) + 0.3 * 0.5
    assert {round(d.probability, 9) for d in decisions} == {round(expected, 9)}
    kept = sum(d.keep for d in decisions) / 20_000
    assert abs(kept - expected) < 4 * (expected * (1 - expected) / 20_000) ** 0.5


_OF_ONE = attribute("plan", "paid")
COMBINATIONS: dict[str, Callable[[Callable[[float], Sampler]], Sampler]] = {
    "a limit, then a condition": lambda limit: any_of(all_of(limit(2), _OF_ONE), ratio(0.1)),
    "a condition, then a limit": lambda limit: any_of(all_of(_OF_ONE, limit(2)), limit(1)),
    "a share, then a ratio": lambda limit: any_of(all_of(share(0.4), ratio(0.5)), ratio(0.1)),
    "two limits": lambda limit: all_of(limit(3), limit(2)),
    "two shares": lambda limit: all_of(share(0.3), share(0.2)),
    "any of two shares": lambda limit: any_of(share(0.3), share(0.2)),
}  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize("combine", COMBINATIONS.values(), ids=COMBINATIONS)
def test_the_weights_of_a_combination_are_unbiased(combine: Callable[..., Sampler]) -> None:
    """The sum of 1/p over the kept requests estimates how many there were, in each group of them."""
    clock = Clock()
    sampler = combine(functools.partial(rate_limit, clock=clock))
    weights = {"paid": 0.0, "free": 0.0}
    for i, trace in enumerate(traces(40_000)):
        clock.tick(0.1)
        plan = "paid" if i % 3 else "free"
        decision = sampler(replace(trace, attributes={"plan": plan}))
        weights[plan] += 1 / decision.probability if decision.keep else 0.0
    assert weights == {"paid": pytest.approx(26_667, rel=0.06), "free": pytest.approx(13_333, rel=0.09)}


def test_an_error_is_always_in_the_union() -> None:
    """Every error is kept with probability 1, others at the ratio; what no rule keeps is put down to the last one."""
    nobody = any_of(errors(), slow(9.0), ratio(0.0))(make_trace())
    assert (nobody.keep, nobody.reason) == (False, "ratio")
    sampler = any_of(errors(), ratio(0.01))
    assert sampler(make_trace(error="TimeoutError", trace_id=1)) == Decision(True, 1.0, "error")
    assert sampler(make_trace(trace_id=1)).probability == 0.01


def test_strata_have_their_own_ratio() -> None:
    sampler = sampling.stratified("plan", {"free": 0.1, "paid": 1.0}, default=0.5)
    assert sampler(make_trace(attributes={"plan": "paid"})).probability == 1.0
    assert sampler(make_trace(attributes={"plan": "free"})).probability == 0.1
    assert sampler(make_trace(attributes={"plan": ["list"]})).probability == 0.5
    assert sampler(make_trace()).probability == 0.5


@given(
    st.lists(st.floats(0, 2), min_size=1, max_size=300), st.floats(0.1, 20), st.integers(1, 30), st.integers(0, 2**32)
)
def test_the_rate_limit_is_a_hard_bound(gaps: list[float], rate: float, burst: int, seed: int) -> None:
    clock = Clock()
    sampler = rate_limit(rate, burst, clock=clock)
    start, kept = clock.now, 0
    for gap, trace in zip(gaps, traces(len(gaps), seed), strict=True):
        clock.tick(gap)
        kept += sampler(trace).keep
    assert kept <= burst + rate * (clock.now - start) + 1e-6


def test_a_rate_limit_leaves_a_quiet_stream_alone() -> None:
    clock = Clock()
    sampler = rate_limit(1.0, clock=clock)
    decisions = []
    for trace in traces(500):
        clock.tick(1.01)
        decisions.append(sampler(trace))
    assert all(d.keep and d.probability == 1.0 for d in decisions)


@pytest.mark.long
@pytest.mark.parametrize("overload", [3, 30, 300])
def test_weights_under_a_rate_limit_are_unbiased(overload: int) -> None:
    """The sum of 1/p over the kept requests estimates how many there were, at any overload."""
    clock = Clock()
    sampler = rate_limit(10.0, 200, clock=clock)
    offered = 60_000
    weight = kept = 0.0
    for trace in traces(offered, seed=overload):
        clock.tick(1 / (10.0 * overload))
        decision = sampler(trace)
        if decision.keep:
            kept += 1
            weight += 1 / decision.probability
    assert kept <= 200 + 10 * offered / (10.0 * overload)
    assert weight == pytest.approx(offered, rel=5 / kept**0.5)


def test_a_rate_limit_draws_for_each_request_of_a_trace() -> None:
    """Requests of one trace, e.g. of a long job, are not all kept or all left out."""
    sampler = rate_limit(1.0, 20, clock=Clock())
    kept = [sampler(make_trace(span_id=number)).keep for number in range(1, 100)]
    assert any(kept[kept.index(False) :])


def test_a_clock_that_steps_back_does_not_stop_sampling() -> None:
    clock = Clock()
    sampler = rate_limit(1.0, 10, clock=clock)
    clock.tick(-3600)
    assert sampler(make_trace()).keep


@pytest.mark.parametrize(
    ("make", "arguments"),
    [(ratio, [1.5]), (ratio, [-0.1]), (ratio, [float("nan")]), (rate_limit, [0]), (rate_limit, [1, 0.5]), (slow, [-1]),
     (any_of, []), (all_of, []), (sampling.stratified, ["x", {"a": 2.0}, 0.1])],
)  # fmt: skip
def test_a_wrong_setting_is_an_error_at_the_boundary(make: Callable[..., Sampler], arguments: list[Any]) -> None:
    """A sampler that cannot be is refused when it is made, not when it is asked."""
    with pytest.raises(SettingError):
        make(*arguments)
