"""Tests by betting: evidence that may be looked at after every run.

A bettor begins with 1 and stakes a part of the wealth on each observation, at odds that are fair if nothing changed.
Then the wealth is above 1 / a with a probability of at most a (G. Shafer, Testing by betting, 2021). Run k begins with
1 / (k (k + 1)); these shares add up to 1, so that the bound holds for all runs together. The evidence is the natural
logarithm of the wealth.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from random import Random

ALARM = math.log(20)
"""The log of the wealth from which the hypothesis is given up: at most 5 % of the true ones ever reach it."""
_STAKES = (0.5, 0.9)
_STAKE = 0.8
_POINTS = 0.1
_STEPS = (0.01, 0.25)
"""Scores are compared in such steps: a smaller difference depends on the processor, or is usual for this evaluator."""


def log_wealth_against_same(scores: Iterable[tuple[float, Sequence[float], bool]], run: int, random: Random) -> float:
    """Evidence against the hypothesis that an evaluator scores the same texts as in earlier runs.

    `scores` has for each text the score of this run, those of earlier runs (at least one), and whether people fail it;
    higher scores are worse. `run` counts from 1. `random` decides between equal scores.

    As long as the evaluator is the same, a score is equally likely to have any place among the earlier ones (V. Vovk,
    I. Nouretdinov, A. Gammerman, Testing exchangeability on-line, 2003). Texts whose scores are all equal say nothing.
    The bettors bet that scores rise or fall, that they move towards what people say or away from it, and that they are
    beyond all earlier ones; the wealth is their mean.
    """
    logs = [0.0] * (11 * len(_STEPS))
    for score, past, is_bad in scores:
        for first, step in zip(range(0, len(logs), 11), _STEPS, strict=True):
            value, earlier = round(score / step), [round(one / step) for one in past]
            if any(one != value for one in earlier):
                place = sum(one < value for one in earlier) + random.randint(0, earlier.count(value))
                for i, odds in enumerate(_odds(place, len(earlier) + 1, is_bad), first):
                    logs[i] += math.log(odds)
    most = max(logs)
    mean = most + math.log(math.fsum(math.exp(log - most) for log in logs) / len(logs))
    return mean - math.log(run * (run + 1))


def _odds(place: int, places: int, is_bad: bool) -> list[float]:
    """What each bettor has of 1 after a score took this place, from 0 (the lowest), of so many; their mean over all
    places is 1."""
    rank = 2 * place / (places - 1) - 1
    agreed = rank if is_bad else -rank
    odds = [1 + stake * side for side in (rank, -rank, agreed, -agreed) for stake in _STAKES]
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
