"""How often the rules page for nothing, and how soon they find a fall: python benchmarks/alerts/model.py [--months 100]

The rules of grafana/rules/ragtrace-measures.yml (usual rate, hours of the day and the week, wandering, excess) computed
in numpy in steps of five minutes, over simulated evaluations: months take seconds. `promtool test rules
grafana/rules/tests/*.yml` shows that the rules themselves do the same. Not modelled: groups of requests. A page is the
begin of an incident. Delays are from the fall, at busy hours, to the end of the step in which it is sure.
"""

import argparse
from collections.abc import Callable
from itertools import product

import numpy as np
from traffic import DAY, WEEK, Array, Story, counted, rhythm

STEP = 300
DAY_STEPS, HOUR_STEPS = 288, 12
THRESHOLD, PACE_UNTIL = 6.5, 3.2
SIZES = ((3.5, 10.4), (2.0, 6.6))
"""Odds ratio, and the most that the excess can become."""
LEARN = 100.0
LEAST_VARIANCE, MOST_VARIANCE = 0.01, 0.16
PRIOR = 60.0
SAMPLED = ("1%", "5%", "20%", "biased")
FALLS = (
    (200, "20%", 0.98, 0.92), (60, "5%", 0.92, 0.75), (200, "5%", 0.92, 0.75), (200, "5%", 0.92, 0.85),
    (20, "5%", 0.92, 0.75), (20, "5%", 0.92, 0.85), (200, "5%", 0.75, 0.60),
)  # fmt: skip
HISTORY = 9


def summed(values: Array, steps: int) -> Array:
    """The sum over the last so many steps."""
    total = np.cumsum(values, axis=1)
    result = total.copy()
    result[:, steps:] = total[:, steps:] - total[:, :-steps]
    return result


def begins(fails: Array, weights: Array, squares: Array) -> Array:
    """Where incidents begin, (series, steps); the arguments are what the counters grow by in each step."""
    with np.errstate(all="ignore"):
        unit = np.nan_to_num(summed(weights, 72) / summed(squares, 72))
    fe, ne = fails * unit, weights * unit
    hour_fails, hour_n = summed(fe, HOUR_STEPS), summed(ne, HOUR_STEPS)
    series, steps = fe.shape
    usual_fails, usual_n = np.zeros(series), np.zeros(series)
    profiles = {back: np.full((series, steps), np.nan) for back in (DAY_STEPS, 7 * DAY_STEPS)}
    excess = np.zeros((len(SIZES), series))
    is_open = np.zeros(series, bool)
    starts = np.zeros((series, steps), bool)
    variance = np.full(series, LEAST_VARIANCE)
    for t in range(steps):
        usual = (usual_fails + 1e-9) / (usual_n + 1e-9)
        expected = usual + np.sqrt(usual * (1 - usual) / np.maximum(usual_n, 1))
        for back, profile in profiles.items():
            if t >= back:
                hours = [t - back + k for k in (-6, 0, 6, 12, 18)]
                rates = [(hour_fails[:, h] + PRIOR * usual) / (hour_n[:, h] + PRIOR) for h in hours]
                before = np.where(np.isnan(profile[:, t - back]), usual, profile[:, t - back])
                profile[:, t] = 0.5 * before + 0.5 * np.max(rates, axis=0)
                expected = np.maximum(expected, profile[:, t])
        expected = np.clip(expected, 0.01, 0.9)
        if t % 6 == 0 and t >= DAY_STEPS:
            variance = _wander(hour_fails, hour_n, usual, t)
        divisor = 1 + variance * hour_n[:, t] * expected / (1 - expected)
        learnt = (usual_n >= LEARN) & (t >= 84)
        for k, (odds, most) in enumerate(SIZES):
            gain = (fe[:, t] * np.log(odds) - ne[:, t] * np.log(1 + (odds - 1) * expected)) / divisor
            excess[k] = np.where(learnt, np.clip(excess[k] + gain, 0, most), 0)
        new = (excess > THRESHOLD).any(axis=0) & ~is_open
        starts[:, t] = new
        is_open = (is_open | new) & (excess > 0).any(axis=0)
        follows = (excess <= PACE_UNTIL).all(axis=0)
        keep = 1 - np.minimum(ne[:, t] / 500, 1 / 864)
        usual_fails = np.where(follows, usual_fails * keep + fe[:, t], usual_fails)
        usual_n = np.where(follows, usual_n * keep + ne[:, t], usual_n)
    return starts


def _wander(hour_fails: Array, hour_n: Array, usual: Array, t: int) -> Array:
    past = slice(max(0, t - 7 * DAY_STEPS), t, HOUR_STEPS)
    with np.errstate(all="ignore"):
        n = np.where(hour_n[:, past] >= 10, hour_n[:, past], np.nan)
        high, low = np.nanquantile(hour_fails[:, past] / n, (0.84, 0.16), axis=1)
        chance = usual * (1 - usual) * np.nanmean(1 / n, axis=1)
        variance = (((high - low) / 2) ** 2 - chance) / usual**2
    return np.clip(np.nan_to_num(variance), LEAST_VARIANCE, MOST_VARIANCE)


def simulated(
    story: Callable[[np.random.Generator], Story], count: int, days: float, drop: float, seed: list[int]
) -> Array:
    """Where incidents begin in so many histories."""
    random = np.random.default_rng(seed)
    times = np.arange(0, int(days * DAY) + 1, STEP).astype(float)
    counts = [counted(random, times, story(random), drop) for _ in range(count)]
    return begins(*map(np.array, zip(*counts, strict=True)))


def phase(random: np.random.Generator, drop: float = 0.0, *, busy: bool = False) -> int:
    """Where in the week a history begins; with `busy` so that the fall is at an hour of at least the mean traffic."""
    while True:
        at = int(random.integers(0, WEEK // 60)) * 60
        if not busy or rhythm(np.array([drop + at]))[0] >= 1:
            return at


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--months", type=int, default=20, help="months of each cell")
    parser.add_argument("--falls", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    o = parser.parse_args()
    print("usually fail | requests a minute: " + ", ".join(f"{r} {s}" for r, s in product((20, 200, 2000), SAMPLED)))
    for usual in (0.02, 0.08, 0.15, 0.25):
        cells = []
        for rate, sampling in product((20, 200, 2000), SAMPLED):
            starts = simulated(
                lambda r, rate=rate, p=sampling, usual=usual: Story(rate, p, phase=phase(r), usual=1 - usual),
                o.months, 37, 0.0, [o.seed, rate, len(sampling)],
            )  # fmt: skip
            cells.append(starts[:, 7 * DAY_STEPS :].sum() / o.months)
        print(f"{usual:.0%} | mean {np.mean(cells):.2f} | " + " ".join(f"{cell:.2f}" for cell in cells), flush=True)
    drop = HISTORY * DAY
    for rate, sampling, before, after in FALLS:
        starts = simulated(
            lambda r, rate=rate, sampling=sampling, before=before, after=after: Story(
                rate, sampling, after=after, phase=phase(r, drop, busy=True), usual=before
            ),
            o.falls, HISTORY + 1.5, drop, [o.seed + 1, rate],
        )  # fmt: skip
        first = int(drop // STEP) + 1
        delays = [float(np.argmax(row[first:]) + 1) * 5 if row[first:].any() else np.inf for row in starts]
        low, high = np.quantile(delays, (0.5, 0.95), method="lower")
        print(
            f"{rate} a minute, {sampling}: {before} to {after}: median {low:.0f} min, 95 % {high:.0f} min", flush=True
        )


if __name__ == "__main__":
    main()
