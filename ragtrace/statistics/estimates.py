"""Estimates for the whole traffic from evaluations that were not all chosen with the same probability.

Each evaluation counts with its weight w = 1/p, the inverse of the probability with which it was chosen.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

_Z = 1.959963984540054
"""97.5 % quantile of the normal distribution: intervals are 95 % ones."""
MAX_WEIGHT = 1_000.0
"""Weights are clipped here, and the clips counted: one request of a millionfold weight would be the whole average. An
estimate in which nothing was clipped is not biased by it."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A weighted mean with what is known of its precision."""

    value: float
    interval: tuple[float, float] | None
    """95 %, contains the value. None where a single number says nothing of the spread."""
    count: int
    """Evaluations that it is made of."""
    effective: float
    """Kish's effective sample size, in (0, count]: as many equally weighted ones would be about as precise."""
    clipped: int = 0
    """Weights that were clipped; each one pulls the estimate towards what is sampled often."""


@dataclass(slots=True)
class Sums:
    """What an estimate is made of. Sums of disjoint samples add up to those of both."""

    count: float = 0.0
    clipped: float = 0.0
    w: float = 0.0
    w2: float = 0.0
    wv: float = 0.0
    wv2: float = 0.0
    w2v: float = 0.0
    w2v2: float = 0.0

    def add(self, value: float, probability: float, most: float = MAX_WEIGHT) -> None:
        """Count one value."""
        weight, clipped = weight_of(probability, most)
        self.count += 1
        self.clipped += clipped
        self.w += weight
        self.w2 += weight * weight
        self.wv += weight * value
        self.wv2 += weight * value * value
        self.w2v += weight * weight * value
        self.w2v2 += weight * weight * value * value

    def __iadd__(self, other: Sums) -> Sums:
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        return self

    def rate(self) -> Estimate | None:
        """The estimate for values that are 0 or 1; None without any.

        The interval is Wilson's on Kish's effective sample size. It is conservative where failures are sampled more
        often than passes, and is so on purpose: one on the linearised variance misses the truth too often when few
        failures were seen.
        """
        if not self.count:
            return None
        effective = min(self.count, self.w * self.w / self.w2)
        value = min(1.0, max(0.0, self.wv / self.w))
        return Estimate(value, wilson(value, effective), int(self.count), effective, int(self.clipped))

    def mean(self) -> Estimate | None:
        """The estimate for values of any range; None without any.

        The interval is a normal one. Its variance is the linearised one of a ratio, sum w^2 (v - m)^2 / (sum w)^2
        (C.-E. Särndal, B. Swensson, J. Wretman, Model Assisted Survey Sampling, 1992, 5.6), times n / (n - 1), or that
        of Kish's effective sample, if that is greater: the first one is too small as long as no bad answer of a great
        weight was drawn.
        """
        if not self.count:
            return None
        effective = min(self.count, self.w * self.w / self.w2)
        value = self.wv / self.w
        if self.count < 2:
            return Estimate(value, None, int(self.count), effective, int(self.clipped))
        correction = self.count / (self.count - 1)
        linearised = (self.w2v2 - 2 * value * self.w2v + value * value * self.w2) / (self.w * self.w)
        kish = (self.wv2 / self.w - value * value) / effective
        half = _Z * math.sqrt(max(0.0, linearised, kish) * correction)
        return Estimate(value, (value - half, value + half), int(self.count), effective, int(self.clipped))


def weight_of(probability: float, most: float = MAX_WEIGHT) -> tuple[float, bool]:
    """The weight 1/p, and whether it was clipped at `most`. What is no probability in (0, 1] is clipped, too."""
    if probability * most >= 1.0 and probability <= 1.0:
        return 1.0 / probability, False
    return (most, True) if not probability > 1.0 else (1.0, True)


def weighted(
    values: Sequence[float], probabilities: Sequence[float], *, rate: bool | None = None, most: float = MAX_WEIGHT
) -> Estimate:
    """The mean over the whole traffic of what was seen of a sample: sum(w v) / sum(w), w = 1 / p, clipped at `most`.

    `values` are n numbers, `probabilities` the n inclusion probabilities in (0, 1] (J. Hájek, 1971). `rate` chooses the
    interval of `Sums.rate` or that of `Sums.mean`; by default the first where all values are 0 or 1. The effective
    sample size is (sum w)^2 / sum w^2 (L. Kish, Survey Sampling, 1965).

    Raises ValueError without values, for lengths that differ, and for numbers that are not finite or no probability.
    """
    _check(values, probabilities)
    sums = Sums()
    for value, probability in zip(values, probabilities, strict=True):
        sums.add(value, probability, most)
    is_rate = all(value in (0.0, 1.0) for value in values) if rate is None else rate
    found = sums.rate() if is_rate else sums.mean()
    assert found is not None
    return found


def _check(values: Sequence[float], probabilities: Iterable[float]) -> None:
    if not values:
        raise ValueError("no values, no estimate")
    if wrong := [p for p in probabilities if not 0.0 < p <= 1.0]:
        raise ValueError(f"{wrong[0]!r} is no inclusion probability; it lies in (0, 1]")
    if odd := [v for v in values if not math.isfinite(v)]:
        raise ValueError(f"{odd[0]!r} is no value")


def wilson(rate: float, n: float) -> tuple[float, float]:
    """95 % interval of a rate in [0, 1] seen in n > 0 trials, where n may be an effective number; contains the rate.
    Raises ValueError for what is none.

    E. B. Wilson, Probable inference, the law of succession, and statistical inference (1927), without continuity
    correction.
    """
    if not (0.0 <= rate <= 1.0 and n > 0.0):
        raise ValueError(f"{rate!r} of {n!r} is no rate")
    return bounds(rate, n, _Z)


def bounds(rate: float, n: float, z: float) -> tuple[float, float]:
    """Wilson's bounds at z standard deviations."""
    scale = 1 + z * z / n
    centre = (rate + z * z / (2 * n)) / scale
    half = z / scale * math.sqrt(rate * (1 - rate) / n + z * z / (4 * n * n))
    # Rounding must not push a bound past the rate that it bounds.
    return min(rate, max(0.0, centre - half)), max(rate, min(1.0, centre + half))
