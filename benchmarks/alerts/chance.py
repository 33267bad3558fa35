"""How often chance alone exceeds a threshold: python benchmarks/alerts/chance.py [--months 50] [--seed 1]

Binomial failures at a constant rate, looked at every minute over a sliding window, beside a day before that is known:
alarms in 30 days of the pooled difference of two proportions and of Cohen's h, each in its standard errors. An alarm
that ends and comes back within half an hour counts once. Less than 30 evaluations are not looked at, and the difference
must be 5 points. No Prometheus is needed.
"""

from __future__ import annotations

import argparse

import numpy as np
import report
from traffic import Array

DAY = 1_440
TESTS = (("pooled", 5.0), ("pooled", 4.0), ("h", 4.0), ("h", 3.75), ("h", 3.5))


def scores(kind: str, failed: Array, counts: Array, share: float, before: float) -> Array:
    """Standard errors by which `failed` of `seen` lie above `share` of `before`."""
    rate = failed / np.maximum(counts, 1)
    width = 1 / np.maximum(counts, 1) + 1 / before
    if kind == "h":
        return 2 * (np.arcsin(np.sqrt(rate)) - np.arcsin(np.sqrt(share))) / np.sqrt(width)
    pooled = (failed + share * before) / (counts + before)
    return (rate - share) / np.sqrt(np.maximum(pooled * (1 - pooled), 1e-4) * width)


def alarms(high: Array) -> int:
    """How many times it is high, with at least half an hour between."""
    at = np.flatnonzero(high)
    return 1 + int((np.diff(at) > 30).sum()) if len(at) else 0


def monthly(random: np.random.Generator, share: float, rate: float, window: int, months: int) -> list[float]:
    """Alarms of each test in 30 days, with so many evaluations a minute."""
    steps = months * 30 * DAY
    counts = random.poisson(rate, steps)
    failed = random.binomial(counts, share)
    counts, failed = (np.convolve(x, np.ones(window), "valid") for x in (counts, failed))
    there = (counts >= 30) & (failed - share * counts > 0.05 * counts)
    return [alarms(there & (scores(kind, failed, counts, share, rate * DAY) > least)) / months for kind, least in TESTS]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--months", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    o = parser.parse_args()
    random = np.random.default_rng(o.seed)
    rows = []
    for share in (0.02, 0.08):
        for rate, window in ((1, 60), (1, 120), (4, 15), (10, 15)):
            rates = monthly(random, share, rate, window, o.months)
            rows.append((f"{share:.0%}", rate, f"{window} min", *(f"{n:.2f}" for n in rates)))
    print(report.table(("fail", "evaluations a minute", "window", *(f"{k} > {z:g}" for k, z in TESTS)), rows))


if __name__ == "__main__":
    main()
