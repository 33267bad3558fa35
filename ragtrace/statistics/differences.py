"""Differences of two shares, of independent or of paired samples, and what they mean in words."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ragtrace.statistics.estimates import Estimate, weight_of
from ragtrace.statistics.intervals import Z, effective_size, holm, mcnemar_p, wilson

_LEVEL = 0.05


@dataclass(frozen=True, slots=True)
class ShareDifference:
    """The share of B minus the share of A."""

    a: Estimate
    b: Estimate
    value: float
    """In [-1, 1]."""
    interval: tuple[float, float]
    """95 % interval; contains the value."""
    p: float
    """Two-sided, in [0, 1]: McNemar's exact test for pairs of one weight, else a normal approximation."""
    pairs: int | None = None
    """Number of pairs; None for independent samples."""
    only_a: int = 0
    """Pairs that count in A only."""
    only_b: int = 0

    @property
    def certain(self) -> bool:
        """Whether the interval excludes 0."""
        return self.interval[0] > 0 or self.interval[1] < 0


def independent_difference(a: Estimate, b: Estimate) -> ShareDifference:
    """The difference of two shares from different requests, with Newcombe's interval from the two Wilson intervals (R.
    G. Newcombe, Interval estimation for the difference between independent proportions, 1998, method 10). Kish's
    effective sizes take the place of the numbers of requests. Both estimates must have an interval."""
    interval = _interval(a, b, 0.0)
    return ShareDifference(a, b, b.value - a.value, interval, _normal_p(b.value - a.value, interval))


def paired_difference(pairs: Sequence[tuple[bool, bool]], probabilities: Sequence[float]) -> ShareDifference:
    """The difference of two shares from pairs (whether A counts, whether B counts), each with its probability of being
    in the sample, in (0, 1].

    The interval is Newcombe's for paired shares (R. G. Newcombe, Improved confidence intervals for the difference
    between binomial proportions based on paired data, 1998, method 10), with Kish's effective size; p is of McNemar's
    exact test where all weights are equal, else from the interval. Raises ValueError without pairs.
    """
    if not pairs:
        raise ValueError("paired_difference needs at least one pair")
    weights = [weight_of(probability)[0] for probability in probabilities]
    total, effective = math.fsum(weights), min(float(len(pairs)), effective_size(weights))
    cells = dict.fromkeys(((True, True), (True, False), (False, True), (False, False)), 0.0)
    for pair, weight in zip(pairs, weights, strict=True):
        cells[pair] += weight / total
    a, b = (_share(cells, side, len(pairs), effective) for side in (0, 1))
    only_a, only_b = pairs.count((True, False)), pairs.count((False, True))
    value, interval = b.value - a.value, _interval(a, b, _phi(cells, effective))
    p = mcnemar_p(only_a, only_b) if len(set(weights)) == 1 else _normal_p(value, interval)
    return ShareDifference(a, b, value, interval, p, len(pairs), only_a, only_b)


def _normal_p(value: float, interval: tuple[float, float]) -> float:
    # The half of the interval on the side of zero: it is what keeps zero out of the interval or in it.
    half = value - interval[0] if value > 0 else interval[1] - value
    return math.erfc(Z * abs(value) / half / math.sqrt(2)) if half else 1.0


def _share(cells: dict[tuple[bool, bool], float], side: int, count: int, effective: float) -> Estimate:
    value = min(1.0, max(0.0, math.fsum(share for pair, share in cells.items() if pair[side])))
    return Estimate(value, wilson(value, effective), count, effective)


def _phi(cells: dict[tuple[bool, bool], float], effective: float) -> float:
    """The correlation of the two sides, with Newcombe's correction of positive ones; 0 where one side never changes."""
    both, neither = cells[True, True], cells[False, False]
    one, other = cells[True, False], cells[False, True]
    margins = (both + one) * (other + neither) * (both + other) * (one + neither)
    if margins <= 0:
        return 0.0
    excess = both * neither - one * other
    if excess > 0:
        excess = max(excess - 0.5 / effective, 0.0)
    return max(-1.0, min(1.0, excess / math.sqrt(margins)))


def _interval(a: Estimate, b: Estimate, phi: float) -> tuple[float, float]:
    assert a.interval is not None
    assert b.interval is not None
    value = b.value - a.value
    low = _distance(b.value - b.interval[0], a.interval[1] - a.value, phi)
    high = _distance(b.interval[1] - b.value, a.value - a.interval[0], phi)
    return max(-1.0, value - low), min(1.0, value + high)


def _distance(one: float, other: float, phi: float) -> float:
    return math.sqrt(max(0.0, one * one - 2 * phi * one * other + other * other))


def change_verdicts(differences: Sequence[ShareDifference]) -> list[str]:
    """For each difference of shares of failures: `worse` or `better` if B differs from A beyond chance (p below 0.05,
    corrected by Holm for the number of differences), else empty."""
    corrected = holm([difference.p for difference in differences])
    return [
        ("worse" if difference.value > 0 else "better") if p < _LEVEL else ""
        for difference, p in zip(differences, corrected, strict=True)
    ]


def difference_sentence(name_a: str, name_b: str, difference: ShareDifference) -> str:
    """What a difference of failures means: how many points more or fewer of B's answers fail than of A's, with its
    interval and n, e.g. "v8 fails 6 points more than v7 (2 to 10), n = 412 pairs."
    """
    low, high = (100 * bound for bound in difference.interval)
    value = 100 * difference.value
    # No decimal places for a wide interval, unless one of the numbers would look like 0.
    places = 1 if high - low < 4 or min(abs(low), abs(value), abs(high)) < 0.5 else 0
    pairs = difference.pairs
    size = f"n = {pairs:,} pairs" if pairs is not None else f"n = {difference.b.count:,} and {difference.a.count:,}"
    word = "fewer" if value < 0 else "more"
    begin = f"{name_b} fails {abs(value):.{places}f} points {word} than {name_a}"
    if difference.certain:
        least, most = sorted((abs(low), abs(high)))
        return f"{begin} ({least:.{places}f} to {most:.{places}f}), {size}."
    bounds = f"{signed_points(low, places)} to {signed_points(high, places)}"
    return f"No difference is shown. {begin}; the data allow {bounds}, {size}."


def signed_points(points: float, places: int = 1) -> str:
    """Percentage points with their sign."""
    return f"{points:+.{places}f}".replace("-", "\N{MINUS SIGN}")
