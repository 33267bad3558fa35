"""95 % intervals of rates, means and resampled statistics; tests of paired samples, corrected for their number."""

import math
from collections.abc import Iterable, Sequence
from typing import Any

from ragtrace.errors import package

Z = 1.959963984540054
"""97.5 % quantile of the standard normal distribution."""
_TAILS = (0.025, 0.975)
_CELLS = 2_000_000
"""Random numbers per block, so that memory does not grow with the number of rows."""


def wilson(rate: float, n: float) -> tuple[float, float]:
    """Wilson interval of a rate in [0, 1] observed in n > 0 trials; n may be an effective sample size. It is
    within [0, 1] and contains the rate. Raises ValueError for other arguments.

    E. B. Wilson, Probable inference, the law of succession, and statistical inference (1927), without continuity
    correction.
    """
    if not (0.0 <= rate <= 1.0 and n > 0.0):
        raise ValueError(f"wilson needs a rate in [0, 1] and n > 0, got rate {rate!r} and n {n!r}")
    scale = 1 + Z * Z / n
    centre = (rate + Z * Z / (2 * n)) / scale
    half = Z / scale * math.sqrt(rate * (1 - rate) / n + Z * Z / (4 * n * n))
    # Rounding must not push a bound past the rate.
    return min(rate, max(0.0, centre - half)), max(rate, min(1.0, centre + half))


def normal(value: float, variance: float) -> tuple[float, float]:
    """Normal interval of an estimate with this variance (a negative one, from rounding, counts as 0)."""
    half = Z * math.sqrt(max(0.0, variance))
    return value - half, value + half


def effective_size(weights: Iterable[float]) -> float:
    """Kish's effective sample size, (sum w)^2 / sum w^2: as many equally weighted observations are about as precise.
    0 if no weight is positive."""
    total = squares = 0.0
    for weight in weights:
        total += weight
        squares += weight * weight
    return total * total / squares if squares else 0.0


def quantiles(values: Sequence[float], at: Sequence[float]) -> tuple[float, ...]:
    """Quantiles at probabilities in [0, 1] with linear interpolation, numpy's default. Raises ValueError without
    values, MissingExtraError without numpy."""
    if not values:
        raise ValueError("quantiles needs at least one value")
    return tuple(numpy().quantile(values, at).tolist())


def percentile_interval(draws: Sequence[float], value: float | None = None) -> tuple[float, float]:
    """The 2.5 % and 97.5 % quantiles of resampled values (B. Efron, 1979), widened to contain `value` if it is given.
    Raises ValueError without draws."""
    low, high = quantiles(draws, _TAILS)
    return (low, high) if value is None else (min(low, value), max(high, value))


def bootstrap_mean(values: Sequence[float], *, seed: int = 0, draws: int = 2_000) -> tuple[float, float] | None:
    """Percentile interval of a mean, by drawing rows with replacement. None for fewer than two values, which do not
    show their spread. The same seed gives the same interval. Raises MissingExtraError without numpy."""
    if len(values) < 2:
        return None
    np = numpy()
    rows = np.asarray(values, dtype=np.float64)
    rng = np.random.default_rng(seed)
    means: list[float] = []
    for size in block_sizes(draws, len(rows)):
        means += rows[rng.integers(0, len(rows), size=(size, len(rows)))].mean(axis=1).tolist()
    return percentile_interval(means)


def block_sizes(draws: int, width: int) -> list[int]:
    """Splits `draws` draws of `width` numbers each into blocks that fit into memory."""
    size = max(1, _CELLS // width)
    return [min(size, draws - start) for start in range(0, draws, size)]


def numpy() -> Any:
    """The module numpy. Raises MissingExtraError if it is not installed."""
    return package("numpy", "eval", "The statistics of a run")


_EXACT = 13
"""Up to so many differences, all sign flips are tried: 2^13 are fewer than the random ones would be."""


def permutation_p(differences: Sequence[float], *, seed: int = 0, draws: int = 10_000) -> float:
    """Two-sided p in (0, 1] of a paired permutation test: how often the mean difference is at least as far from zero
    if a coin chooses the sign of each pair. 1 if nothing differs. Raises MissingExtraError without numpy.

    Up to 13 pairs that differ, all flips are tried. Above, `draws` random flips are; the observed one counts as one of
    them, so that p is never 0 (B. Phipson, G. Smyth, 2010).
    """
    np = numpy()
    values = np.asarray([d for d in differences if d != 0], dtype=np.float64)
    if not len(values):
        return 1.0
    # Sums in another order differ in their last bits, and a tie must remain a tie.
    least = abs(float(values.sum())) - 1e-12 * float(np.abs(values).sum())
    if len(values) <= _EXACT:
        bits = (np.arange(2 ** len(values))[:, None] >> np.arange(len(values))) & 1
        return float((np.abs((bits * 2 - 1) @ values) >= least).mean())
    rng = np.random.default_rng(seed)
    hits = 0
    for size in block_sizes(draws, len(values)):
        signs = rng.integers(0, 2, size=(size, len(values)), dtype=np.int8) * 2 - 1
        hits += int((np.abs(signs @ values) >= least).sum())
    return (hits + 1) / (draws + 1)


def mcnemar_p(only_first: int, only_second: int) -> float:
    """Two-sided p of McNemar's exact test. The arguments count the rows that pass on one side only; under the null
    hypothesis a coin decides which side. 1 if both are 0."""
    total = only_first + only_second
    tail = sum(math.comb(total, i) for i in range(min(only_first, only_second) + 1))
    return min(1.0, 2 * tail / (1 << total))


def holm(ps: Sequence[float]) -> list[float]:
    """p values corrected for their number, in the same order (S. Holm, 1979): at most 5 % of all such families contain
    a false alarm below 0.05."""
    order = sorted(range(len(ps)), key=lambda i: ps[i])
    adjusted = [1.0] * len(ps)
    most = 0.0
    for rank, i in enumerate(order):
        most = max(most, min(1.0, (len(ps) - rank) * ps[i]))
        adjusted[i] = most
    return adjusted
