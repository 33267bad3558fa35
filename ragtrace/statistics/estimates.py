"""Estimates for all requests from evaluations that were chosen with different probabilities.

Each evaluation has the weight w = 1/p, where p is the probability with which it was chosen.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ragtrace.statistics.intervals import normal, wilson

MAX_WEIGHT = 1_000.0
"""Larger weights are clipped to this one and counted: otherwise one request with a weight of a million would decide the
average. An estimate without clipped weights is not biased by clipping."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A weighted mean and its precision."""

    value: float
    interval: tuple[float, float] | None
    """95 % interval; contains the value. None where a single number does not show its spread."""
    count: int
    """Number of evaluations."""
    effective: float
    """Kish's effective sample size, in (0, count]: as many equally weighted evaluations are about as precise."""
    clipped: int = 0
    """Number of clipped weights; each one pulls the estimate towards what is sampled often."""


@dataclass(frozen=True, slots=True)
class Step:
    """A point of a time line."""

    start: float
    """Unix time at which the step begins."""
    passes: Estimate | None
    """Weighted share of passes; None without passes and fails."""


@dataclass(slots=True)
class Sums:
    """The sums from which an estimate is computed. Sums of disjoint samples can be added."""

    count: float = 0.0
    clipped: float = 0.0
    w: float = 0.0
    w2: float = 0.0
    wv: float = 0.0
    wv2: float = 0.0
    w2v: float = 0.0
    w2v2: float = 0.0

    def add(self, value: float, probability: float, most: float = MAX_WEIGHT) -> None:
        """Add one value that was chosen with this probability; its weight is clipped at `most`."""
        weight, clipped = weight_of(probability, most)
        squared, product = weight * weight, weight * value
        self.count += 1
        self.clipped += clipped
        self.w += weight
        self.w2 += squared
        self.wv += product
        self.wv2 += product * value
        self.w2v += squared * value
        self.w2v2 += product * product

    def __iadd__(self, other: Sums) -> Sums:
        # Written out: the store adds sums for every score, and a loop over the names takes twice as long.
        self.count += other.count
        self.clipped += other.clipped
        self.w += other.w
        self.w2 += other.w2
        self.wv += other.wv
        self.wv2 += other.wv2
        self.w2v += other.w2v
        self.w2v2 += other.w2v2
        return self

    @property
    def effective(self) -> float:
        """Kish's effective sample size; 0 without values."""
        return min(self.count, self.w * self.w / self.w2) if self.count else 0.0

    def rate(self) -> Estimate | None:
        """The estimate for values that are 0 or 1; None without values.

        The interval is Wilson's, with Kish's effective sample size. It is too wide on purpose where failures are
        sampled more often than passes: an interval from the linearised variance misses the true rate too often when it
        is based on few failures.
        """
        if not self.count:
            return None
        value = min(1.0, max(0.0, self.wv / self.w))
        return self._estimate(value, wilson(value, self.effective))

    def mean(self) -> Estimate | None:
        """The estimate for values of any range; None without values.

        The interval is a normal one. Its variance is the larger of two: the linearised variance of a ratio,
        sum w^2 (v - m)^2 / (sum w)^2 (C.-E. Särndal, B. Swensson, J. Wretman, Model Assisted Survey Sampling, 1992,
        5.6), times n / (n - 1), and that of Kish's effective sample. The first is too small as long as the sample
        contains no bad answer with a large weight.
        """
        if not self.count:
            return None
        value = self.wv / self.w
        if self.count < 2:
            return self._estimate(value, None)
        correction = self.count / (self.count - 1)
        linearised = (self.w2v2 - 2 * value * self.w2v + value * value * self.w2) / (self.w * self.w)
        kish = (self.wv2 / self.w - value * value) / self.effective
        return self._estimate(value, normal(value, max(linearised, kish) * correction))

    def _estimate(self, value: float, interval: tuple[float, float] | None) -> Estimate:
        return Estimate(value, interval, int(self.count), self.effective, int(self.clipped))


def weight_of(probability: float, most: float = MAX_WEIGHT) -> tuple[float, bool]:
    """The weight 1/p, and whether it was clipped at `most`. A number that is not a probability in (0, 1] (0, negative,
    NaN: `most`; above 1: 1.0) counts as clipped."""
    if probability * most >= 1.0 and probability <= 1.0:
        return 1.0 / probability, False
    return (most, True) if not probability > 1.0 else (1.0, True)


def weighted(
    values: Sequence[float], probabilities: Sequence[float], *, rate: bool | None = None, most: float = MAX_WEIGHT
) -> Estimate:
    """Estimates the mean over all requests from a sample: sum(w v) / sum(w) with w = 1 / p, clipped at `most`.

    `values` are n numbers, `probabilities` the n inclusion probabilities in (0, 1] (J. Hájek, 1971). `rate` chooses the
    interval of `Sums.rate` or that of `Sums.mean`; the default is the first if all values are 0 or 1. The effective
    sample size is (sum w)^2 / sum w^2 (L. Kish, Survey Sampling, 1965).

    Raises ValueError for empty or unequal sequences, for values that are not finite, and for numbers that are not
    probabilities in (0, 1].
    """
    if not values:
        raise ValueError("weighted needs at least one value")
    if invalid := [p for p in probabilities if not 0.0 < p <= 1.0]:
        raise ValueError(f"{invalid[0]!r} is no inclusion probability: it must be in (0, 1]")
    if infinite := [v for v in values if not math.isfinite(v)]:
        raise ValueError(f"{infinite[0]!r} is no value: it must be a finite number")
    sums = Sums()
    for value, probability in zip(values, probabilities, strict=True):
        sums.add(value, probability, most)
    is_rate = all(value in (0.0, 1.0) for value in values) if rate is None else rate
    estimate = sums.rate() if is_rate else sums.mean()
    assert estimate is not None
    return estimate
