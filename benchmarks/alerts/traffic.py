"""Applications that never were: what their evaluations count, minute by minute, with a day's and a week's rhythm.

An answer is bad with a probability that has a rhythm and wobbles; at a time, it rises. Which answers are evaluated is
a matter of sampling.
"""

import dataclasses
from typing import Any

import numpy as np

Array = Any
HOUR, DAY, WEEK = 3_600, 86_400, 604_800
SUSPICIOUS = {True: 0.85, False: 0.05}
"""Error-biased sampling looks at what seems suspicious: that share of the bad answers and of the good ones does."""
SAMPLINGS = {"1%": (0.01, 0.01), "5%": (0.05, 0.05), "20%": (0.20, 0.20), "biased": (0.90, 0.05)}
"""Inclusion probabilities of what seems suspicious and of all else."""


@dataclasses.dataclass(frozen=True)
class Story:
    """What one application lives through.

    `rate` is the week's mean of requests a minute, `usual` the share of answers that pass where nothing is wrong,
    averaged over the traffic of a week; `after` is the share once it fell, or None where nothing happens. `phase` moves
    the rhythm, in seconds.
    """

    rate: float
    sampling: str
    usual: float
    after: float | None = None
    phase: int = 0


def rhythm(times: Array) -> Array:
    """Traffic as a multiple of its mean over the week: nights at a quarter of the afternoons, weekends at half."""
    day = 1 + 0.6 * np.sin((times % DAY / DAY - 8 / 24) * 2 * np.pi)
    weekend = np.where(times // DAY % 7 >= 5, 0.5, 1.0)
    return day * weekend / (6 / 7)


def wobble(random: np.random.Generator, times: Array) -> Array:
    """A factor around 1 that wanders: standard deviation 0.1, correlated over three hours."""
    moved = np.zeros(len(times))
    keep = np.exp(-np.diff(times, prepend=times[0] - 60) / (3 * HOUR))
    push = random.standard_normal(len(times)) * np.sqrt(1 - keep**2) * 0.1
    value = random.standard_normal() * 0.1
    for i in range(len(times)):
        value = value * keep[i] + push[i]
        moved[i] = value
    return np.exp(moved)


def bad_share(random: np.random.Generator, times: Array, story: Story, drop: float) -> Array:
    """The share of bad answers in the step that ends at each time."""
    local = times + story.phase
    # Nights and weekends bring other questions: a fifth and a tenth more of them go wrong.
    night = np.where((local % DAY) < 6 * HOUR, 1.2, 1.0) * np.where(local // DAY % 7 >= 5, 1.1, 1.0)
    base = (1 - story.usual) * night / 1.05 * wobble(random, times)
    if story.after is not None:
        base = base + (times > drop) * (story.usual - story.after)
    return np.clip(base, 0.0, 1.0)


def counted(random: np.random.Generator, times: Array, story: Story, drop: float) -> tuple[Array, Array, Array]:
    """What one application adds in each step: weights of failing answers, of all, and all squared weights. The first
    step stands for a minute."""
    minutes = np.diff(times, prepend=times[0] - 60) / 60
    requests = random.poisson(story.rate * minutes * rhythm(times + story.phase))
    bad = random.binomial(requests, bad_share(random, times, story, drop))
    fails, weights, squares = np.zeros((3, len(times)))
    for is_bad, answers in ((True, bad), (False, requests - bad)):
        reviewed = random.binomial(answers, SUSPICIOUS[is_bad])
        for part, p in zip((reviewed, answers - reviewed), SAMPLINGS[story.sampling], strict=True):
            sampled = random.binomial(part, p)
            random.binomial(sampled, float(is_bad))  # so that the draws are those of the figures in docs/alerts.md
            fails += sampled / p * is_bad
            weights += sampled / p
            squares += sampled / p**2
    return fails, weights, squares
