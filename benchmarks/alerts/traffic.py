"""Applications that never were: what their evaluations count, minute by minute, with a day's and a week's rhythm.

An answer is bad with a probability that has a rhythm and wobbles; at a time, it rises. Which answers are evaluated is
a matter of sampling, and what is said of them that of an evaluator that may err.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

Array = Any
HOUR, DAY, WEEK = 3_600, 86_400, 604_800
USUAL = 0.92
"""Share of the answers that pass where nothing is wrong, averaged over the traffic of a week."""
SUSPICIOUS = {True: 0.85, False: 0.05}
"""Error-biased sampling looks at what seems suspicious: that share of the bad answers and of the good ones does."""
SENSITIVITY, SPECIFICITY = 0.637, 0.820
"""How often faithfulness failed a bad answer and passed a good one of RAGTruth in November 2026."""


@dataclasses.dataclass(frozen=True)
class Sampling:
    """Inclusion probabilities of what seems suspicious and of all else."""

    name: str
    usual: float
    suspicious: float


SAMPLINGS = {
    s.name: s
    for s in (
        Sampling("1%", 0.01, 0.01),
        Sampling("5%", 0.05, 0.05),
        Sampling("20%", 0.20, 0.20),
        Sampling("biased", 0.05, 0.90),
        Sampling("biased 10%", 0.10, 0.90),
    )
}


@dataclasses.dataclass(frozen=True)
class Story:
    """What one application lives through.

    `rate` is the week's mean of requests a minute. `after` is the share that passes once it fell (`shape` says how) or
    None where nothing happens. `phase` moves the rhythm, in seconds. With `noisy`, 0.92 and `after` are the truth and
    the evaluator errs; without, they are what it reports. `nightly`: each night has three bad hours, as every week.
    `wanders`: beside the rhythm the share of bad answers drifts up and down; a `steady` application has neither.
    """

    rate: float
    sampling: str
    after: float | None = None
    shape: str = "sudden"
    phase: int = 0
    noisy: bool = False
    nightly: bool = False
    steady: bool = False
    wanders: bool = True
    usual: float = USUAL


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
    base = np.full(len(times), 1 - story.usual)
    if not story.steady:
        # Nights and weekends bring other questions: a fifth and a tenth more of them go wrong.
        night = np.where((local % DAY) < 6 * HOUR, 1.2, 1.0) * np.where(local // DAY % 7 >= 5, 1.1, 1.0)
        base = base * night / 1.05
        if story.wanders:
            base = base * wobble(random, times)
    if story.nightly:
        base = np.where((local % DAY >= 1 * HOUR) & (local % DAY < 4 * HOUR), base + 0.15, base)
    if story.after is not None:
        since = np.maximum(0.0, times - drop)
        damage = (since > 0) * 1.0 if story.shape != "creeping" else np.minimum(1.0, since / (2 * DAY))
        part = 0.1 if story.shape == "tenant" else 1.0
        base = base + damage * part * (story.usual - story.after)
    return np.clip(base, 0.0, 1.0)


@dataclasses.dataclass(frozen=True)
class Counted:
    """What is added in each step; `evaluations`, `weights` and `squares` by verdict."""

    requests: Array
    bad: Array
    sampled: Array
    evaluations: dict[str, Array]
    weights: dict[str, Array]
    squares: dict[str, Array]


def counted(random: np.random.Generator, times: Array, story: Story, drop: float) -> Counted:
    """One application's counts; the first step stands for a minute."""
    minutes = np.diff(times, prepend=times[0] - 60) / 60
    flow = 1.0 if story.steady else rhythm(times + story.phase)
    requests = random.poisson(story.rate * minutes * flow)
    bad = random.binomial(requests, bad_share(random, times, story, drop))
    sampling = SAMPLINGS[story.sampling]
    zero = np.zeros(len(times))
    sampled = zero.astype(np.int64)
    counted = Counted(requests, bad, sampled, *({"pass": zero.copy(), "fail": zero.copy()} for _ in range(3)))
    for is_bad, answers in ((True, bad), (False, requests - bad)):
        reviewed = random.binomial(answers, SUSPICIOUS[is_bad])
        for part, p in ((reviewed, sampling.suspicious), (answers - reviewed, sampling.usual)):
            sampled_part = random.binomial(part, p)
            wrong = (SENSITIVITY if is_bad else 1 - SPECIFICITY) if story.noisy else float(is_bad)
            failed = random.binomial(sampled_part, wrong)
            sampled += sampled_part
            for verdict, events in (("fail", failed), ("pass", sampled_part - failed)):
                counted.evaluations[verdict] += events
                counted.weights[verdict] += events / p
                counted.squares[verdict] += events / p**2
    return counted
