"""Tests by betting: evidence that may be looked at after every run.

A bettor begins with 1 and stakes a part of the wealth on each observation, at odds that are fair if nothing changed.
Then the wealth is above 1 / a with a probability of at most a (G. Shafer, Testing by betting, 2021). A share of
1 / (k (k + 1)) begins in run k, so that a change in any run is met by wealth that no earlier run has used up; the
shares add up to 1, and the bound holds for all runs together. The evidence is the natural logarithm of the wealth.
"""

import math
from collections.abc import Iterable, Sequence
from functools import lru_cache

ALARM = math.log(20)
"""The log of the wealth from which the hypothesis is given up: at most 5 % of the true ones ever reach it."""
_STAKES = (0.5, 0.9)
_STAKE = 0.8
_POINTS = 0.1
_STEPS = (0.01, 0.25)
"""Scores are compared in such steps: a smaller difference depends on the processor, or is usual for this evaluator."""
_BETTORS = 6 * len(_STAKES) + 3


def wealth_against_same(
    scores: Iterable[tuple[float, Sequence[float], bool]], run: int, before: Sequence[float] = ()
) -> list[float]:
    """The bettors' wealth after a run. The log of its mean is the evidence against the hypothesis that an evaluator
    scores the same texts as in earlier runs.

    `scores` has for each of at most 200 texts the score of this run, those of earlier runs (at least one), and whether
    people fail it; higher scores are worse. `run` counts from 1; `before` is the result of the run before it.

    As long as the evaluator is the same, a score is equally likely to have any place among the earlier ones (V. Vovk,
    I. Nouretdinov, A. Gammerman, Testing exchangeability on-line, 2003); equal scores have the mean of their odds. The
    bettors bet that scores rise or fall, that they move towards what people say or away from it, that they vary more or
    less, and that they are beyond all earlier ones.
    """
    wealth = [one + 1 / (run * (run + 1)) for one in before or [0.0] * (_BETTORS * len(_STEPS))]
    for score, past, is_bad in scores:
        for first, step in zip(range(0, len(wealth), _BETTORS), _STEPS, strict=True):
            value, earlier = round(score / step), [round(one / step) for one in past]
            place = sum(one < value for one in earlier)
            for i, odds in enumerate(_mean_odds(place, earlier.count(value), len(earlier) + 1, is_bad), first):
                wealth[i] *= odds
    return wealth


@lru_cache(maxsize=20_000)
def _mean_odds(place: int, ties: int, places: int, is_bad: bool) -> list[float]:
    """What each bettor has of 1 after a score took this place or one of the next, with which it is tied."""
    every = zip(*(_odds(one, places, is_bad) for one in range(place, place + ties + 1)), strict=True)
    return [math.fsum(odds) / (ties + 1) for odds in every]


def _odds(place: int, places: int, is_bad: bool) -> list[float]:
    """What each bettor has of 1 after a score took this place, from 0 (the lowest), of so many; their mean over all
    places is 1."""
    rank = 2 * place / (places - 1) - 1
    agreed = rank if is_bad else -rank
    width = abs(rank) - math.fsum(abs(2 * one / (places - 1) - 1) for one in range(places)) / places
    odds = [1 + stake * side for side in (rank, -rank, agreed, -agreed, width, -width) for stake in _STAKES]
    is_lowest, is_highest = place == 0, place == places - 1
    beyond = [(is_lowest, places), (is_highest, places), (is_lowest or is_highest, places / 2)]
    return odds + [0.5 + 0.5 * gain * hit for hit, gain in beyond]


def log_wealth_against_move(moves: Iterable[int]) -> float:
    """Evidence against the hypothesis that an evaluator fails at least 10 points more, or fewer, of its texts than
    before. `moves` has 1 for each text that it fails now only, -1 for one that it failed before only, and 0. Without a
    move, 39 texts reach `ALARM`."""
    logs = [0.0, 0.0]
    for move in moves:
        for i, side in enumerate((move, -move)):
            logs[i] += math.log1p(_STAKE * (_POINTS - side))
    return min(logs)
