"""Evidence by betting: whether an evaluator scores the same texts as before."""

import math
import random
from collections.abc import Callable
from statistics import fmean

import pytest

from ragtrace.statistics.bets import ALARM, _odds, log_wealth_against_move, wealth_against_same

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
    """The run that raises the alarm, counted from the change; None if none of `most` runs does. There are 60 texts, and
    three runs before the first that is tested."""
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
