"""Tests of the difference between two paired samples, and a correction for several tests."""

from collections.abc import Sequence
from math import comb

from ragtrace.statistics.intervals import block_sizes, numpy

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
    tail = sum(comb(total, i) for i in range(min(only_first, only_second) + 1))
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
