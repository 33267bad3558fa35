"""Intervals and tests for scores. Pure arithmetic: every function takes numbers and gives numbers."""

from __future__ import annotations

from collections.abc import Sequence
from math import comb
from typing import Any

from ragtrace.errors import MissingExtraError
from ragtrace.statistics.estimates import wilson as wilson_of

_EXACT = 13
"""Differences up to which all sign flips are tried: 2^13 of them are fewer than the random ones would be."""
_CELLS = 2_000_000
"""Numbers drawn at a time, so that memory stays flat however many rows there are."""


def wilson(passed: int, total: int) -> tuple[float, float]:
    """95 % interval of a rate, within [0, 1]; it contains the rate. Raises ValueError without rows.

    E. B. Wilson, Probable inference, the law of succession, and statistical inference (1927), without continuity
    correction.
    """
    if not 0 <= passed <= total or total == 0:
        raise ValueError(f"{passed} of {total} is no rate")
    return wilson_of(passed / total, total)


def bootstrap_mean(values: Sequence[float], *, seed: int = 0, draws: int = 2_000) -> tuple[float, float] | None:
    """95 % percentile interval of a mean, by drawing rows with replacement (B. Efron, 1979). None for fewer than two
    values, which say nothing of their spread. The same seed gives the same interval."""
    if len(values) < 2:
        return None
    np = _numpy()
    given = np.asarray(values, dtype=np.float64)
    rng = np.random.default_rng(seed)
    means = []
    for count in _chunks(draws, len(given)):
        means.append(given[rng.integers(0, len(given), size=(count, len(given)))].mean(axis=1))
    low, high = np.quantile(np.concatenate(means), [0.025, 0.975])
    return float(low), float(high)


def quantiles(values: Sequence[float], at: Sequence[float]) -> tuple[float, ...]:
    """Quantiles with linear interpolation. Raises ValueError without values."""
    if not values:
        raise ValueError("no values, no quantiles")
    np = _numpy()
    return tuple(float(q) for q in np.quantile(np.asarray(values, dtype=np.float64), list(at)))


def permutation_p(differences: Sequence[float], *, seed: int = 0, draws: int = 10_000) -> float:
    """Two-sided p in (0, 1] of a paired permutation test: how often the mean difference is at least as far from zero
    when each pair's sign is a coin's. 1 if nothing differs.

    All flips are tried for up to 13 pairs that differ, `draws` random ones otherwise; then the observed flip counts as
    one of them, so that p is never 0 (B. Phipson, G. Smyth, 2010).
    """
    np = _numpy()
    given = np.asarray([d for d in differences if d != 0], dtype=np.float64)
    if not len(given):
        return 1.0
    # Sums in another order differ in their last bits, and a tie must stay a tie.
    least = abs(float(given.sum())) - 1e-12 * float(np.abs(given).sum())
    if len(given) <= _EXACT:
        bits = (np.arange(2 ** len(given))[:, None] >> np.arange(len(given))) & 1
        return float((np.abs((bits * 2 - 1) @ given) >= least).mean())
    rng = np.random.default_rng(seed)
    hits = 0
    for count in _chunks(draws, len(given)):
        signs = rng.integers(0, 2, size=(count, len(given)), dtype=np.int8) * 2 - 1
        hits += int((np.abs(signs @ given) >= least).sum())
    return (hits + 1) / (draws + 1)


def mcnemar_p(only_first: int, only_second: int) -> float:
    """Two-sided p of McNemar's exact test: of the rows that exactly one side passes, is it a coin which one? 1 if there
    are none."""
    total = only_first + only_second
    tail = sum(comb(total, i) for i in range(min(only_first, only_second) + 1))
    return min(1.0, 2 * tail / (1 << total))


def holm(ps: Sequence[float]) -> list[float]:
    """p values corrected for how many there are, in the order given (S. Holm, 1979): at most 5 % of all such families
    hold a false alarm below 0.05."""
    order = sorted(range(len(ps)), key=lambda i: ps[i])
    adjusted = [1.0] * len(ps)
    most = 0.0
    for rank, i in enumerate(order):
        most = max(most, min(1.0, (len(ps) - rank) * ps[i]))
        adjusted[i] = most
    return adjusted


def _chunks(draws: int, width: int) -> list[int]:
    size = max(1, _CELLS // width)
    return [min(size, draws - start) for start in range(0, draws, size)]


def _numpy() -> Any:
    try:
        import numpy
    except ModuleNotFoundError as error:
        raise MissingExtraError("numpy", "eval", "The statistics of a run") from error
    return numpy
