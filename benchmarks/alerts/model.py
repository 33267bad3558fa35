"""Hundreds of months of what pages: python benchmarks/alerts/model.py [--months 100] [--falls 200] [--bars 15m=3.7 ...]

run.py lets a Prometheus evaluate the shipped rules, which takes minutes for a month. Here the conditions `worse` and
`beyond_chance` of each window (grafana/source/conditions.py) are computed in numpy from the same simulated counts, so
that rates of less than one page a month can be compared. Not modelled: groups, known rhythms of weeks, and how an
incident ends; beginnings within 50 minutes of each other are one page. `--bars` tries other least standard errors.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from itertools import product
from pathlib import Path

import numpy as np
import report
from traffic import DAY, WEEK, Array, Story, counted, rhythm

sys.path.append(str(Path(__file__).resolve().parents[2] / "grafana" / "source"))
from conditions import WINDOWS, Window
from rule import LEAST, seconds

MINUTES_A_DAY = 1_440
SAMPLED = ("1%", "5%", "20%", "biased")
TOGETHER = 50
"""Minutes within which beginnings are one page: the least length of an incident."""
HISTORY = 9
"""Days before a fall."""
FALLS = ((200, 0.75, 15), (200, 0.85, 180), (20, 0.75, 120), (20, 0.85, 720))
"""Requests a minute, the share that passes after the fall, and the minutes in which it must be found."""


def zscores(random: np.random.Generator, story: Story, days: float, drop: float = 0.0) -> dict[str, Array]:
    """Returns, by window and minute, the standard errors above the past; -inf where the rate is not `worse`."""
    times = np.arange(0, int(days * MINUTES_A_DAY) + 1) * 60.0
    counts = counted(random, times, story, drop)
    fails = counts.weights["fail"]
    weights, squares = fails + counts.weights["pass"], counts.squares["fail"] + counts.squares["pass"]
    sums = [np.cumsum(each) for each in (fails, weights, squares)]
    rates = {minutes: _rate(sums, minutes) for minutes in (MINUTES_A_DAY, *map(_minutes, WINDOWS))}
    recent = rates[720][0]
    for minutes in (360, 120, 60):
        recent = np.where(rates[minutes][1] >= LEAST, rates[minutes][0], recent)
    return {window.length: _zscore(window, rates, recent) for window in WINDOWS}


def _minutes(window: Window) -> int:
    return int(seconds(window.length)) // 60


def _rate(sums: list[Array], minutes: int) -> tuple[Array, Array]:
    """The weighted failure rate and the effective samples (Kish) of the window that ends at each minute."""
    fails, weights, squares = (total - _earlier(total, minutes) for total in sums)
    with np.errstate(invalid="ignore", divide="ignore"):
        return fails / weights, np.where(squares > 0, weights**2 / squares, 0.0)


def _earlier(values: Array, minutes: int, missing: float = 0.0) -> Array:
    earlier = np.full(len(values), missing)
    earlier[minutes:] = values[:-minutes]
    return earlier


def _zscore(window: Window, rates: Mapping[int, tuple[Array, Array]], recent: Array) -> Array:
    minutes = _minutes(window)
    rate, n = rates[minutes]
    before, m = (_earlier(each, minutes, np.nan) for each in rates[MINUTES_A_DAY])
    days = [MINUTES_A_DAY * number for number in range(1, 8)]
    same_n = sum(_earlier(n, each) for each in days)
    same_fails = sum(_earlier(np.nan_to_num(rate) * n, each) for each in days)
    worse = (rate - before > window.least) & (n >= LEAST) & (m >= 4 * LEAST)
    if minutes > 60:
        worse &= recent - before > window.least / 2
    worse[: MINUTES_A_DAY + minutes] = False
    with np.errstate(invalid="ignore", divide="ignore"):
        day = (_angle(rate) - _angle(before)) / np.sqrt(1 / n + 1 / m + window.wandering**2)
        hours = (_angle(rate) - _angle(same_fails / same_n)) / np.sqrt(1 / n + 1 / same_n + window.wandering**2)
    least = np.minimum(day, np.where(same_n >= 4 * LEAST, hours, np.inf))
    return np.where(worse, least, -np.inf)


def _angle(rate: Array) -> Array:
    return 2 * np.arcsin(np.sqrt(np.clip(rate, 0, 1)))


def pages(scores: Mapping[str, Array], bars: Mapping[str, float]) -> int:
    """Returns how many pages a history has."""
    at = np.flatnonzero(np.any([scores[window] > bar for window, bar in bars.items()], axis=0))
    return 1 + int((np.diff(at) > TOGETHER).sum()) if len(at) else 0


def quiet_table(months: int, bars: Mapping[str, float], seed: int) -> str:
    """Returns the table of pages where nothing happens."""
    rows = []
    means: dict[str, list[float]] = {"rhythm": [], "usual": [], "both": []}
    for kind, rate, (place, sampling) in product(("rhythm", "usual"), (20, 200, 2000), enumerate(SAMPLED)):
        random = np.random.default_rng([seed, rate, place, len(kind)])
        stories = [Story(rate, sampling, phase=_phase(random), wanders=kind == "usual") for _ in range(months)]
        counts = np.array([pages(zscores(random, story, 30), bars) for story in stories])
        means[kind].append(counts.mean())
        means["both"].append(counts.mean())
        rows.append((rate, sampling, kind, f"{counts.mean():.2f}", f"{(counts > 1).mean():.0%}", counts.max()))
    rows += [("all", "", kind, f"{np.mean(part):.2f}", "", "") for kind, part in means.items()]
    return report.table(("requests a minute", "sampling", "what", "pages a month", "months with several", "most"), rows)


def _phase(random: np.random.Generator) -> int:
    return int(random.integers(0, WEEK // 60)) * 60


def fall_table(falls: int, bars: Mapping[str, float], seed: int) -> str:
    """Returns the table of falls from 0.92 at 5 % sampling, at hours with at least the mean traffic."""
    rows = []
    for rate, after, limit in FALLS:
        random = np.random.default_rng([seed, rate, int(100 * after)])
        stories = [_fall(random, rate, after) for _ in range(falls)]
        delays = [_delay(zscores(random, story, HISTORY + 0.6, HISTORY * DAY), bars) for story in stories]
        within = np.mean(np.array(delays) <= limit)
        rows.append((rate, after, f"{limit} min", f"{within:.1%}", f"{np.median(delays):.0f} min"))
    return report.table(("requests a minute", "0.92 to", "aim", "in time", "median"), rows)


def _fall(random: np.random.Generator, rate: float, after: float) -> Story:
    while rhythm(np.array([HISTORY * DAY + (phase := _phase(random))]))[0] < 1:
        pass
    return Story(rate, "5%", after=after, phase=phase)


def _delay(scores: Mapping[str, Array], bars: Mapping[str, float]) -> float:
    """Minutes from the fall to the page."""
    first = HISTORY * MINUTES_A_DAY + 1
    firsts = [np.flatnonzero(scores[window][first:] > bar) for window, bar in bars.items()]
    return min((float(at[0]) + 1 for at in firsts if len(at)), default=np.inf)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--months", type=int, default=100)
    parser.add_argument("--falls", type=int, default=200)
    parser.add_argument("--bars", nargs="*", default=[], metavar="WINDOW=Z")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    bars = {window.length: window.z for window in WINDOWS}
    bars |= {length: float(z) for length, _, z in (each.partition("=") for each in options.bars)}
    print(", ".join(f"{length} {z:g}" for length, z in bars.items()) + "\n")
    print(quiet_table(options.months, bars, options.seed) + "\n", flush=True)
    print(fall_table(options.falls, bars, options.seed))


if __name__ == "__main__":
    main()
