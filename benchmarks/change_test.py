"""How soon the change test tells a rise of failures, and how often it cries wolf, beside the rule that is usually made.

    python benchmarks/change_test.py [--seed 1] [--quiet 1]

Each run learns a week (5,000 evaluations at most), then either stays as it is for 30 days, or rises at a random minute
of the first hour. The usual rule is "the mean of 15 minutes passes less than 90 %", looked at every minute; an alarm
that goes on counts once. `biased` is error-biased sampling: suspicious answers are chosen with a probability of 0.8 to
1, others of 0.05 to 0.15, and counted with its inverse; the usual rule takes the plain mean, as it is usually made.
Evaluations come at random moments. An alarm while learning is one of the week (or the 6,000 evaluations) that each run
begins with. Under a minute.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Iterator

import numpy as np

from ragtrace.statistics import ChangeTest

HOUR, DAY, WEEK = 3_600, 86_400, 604_800

BASE = 0.04
RISES = (0.08, 0.12, 0.2, 0.6)
HORIZON = 72 * HOUR
MONTH = 30 * DAY
Arrays = tuple[np.ndarray, np.ndarray, np.ndarray]


def evaluations(rng: np.random.Generator, fails: float, hourly: float, span: float, biased: bool) -> Arrays:
    """Times in seconds, failures and weights of what is evaluated in a span of time."""
    if not biased:
        count = rng.poisson(hourly * span / HOUR)
        return np.sort(rng.uniform(0, span, count)), rng.random(count) < fails, np.ones(count)
    # As many requests as leave `hourly` evaluations where nothing is wrong.
    usual = BASE * (0.85 * 0.9 + 0.15 * 0.1) + (1 - BASE) * (0.05 * 0.9 + 0.95 * 0.1)
    requests = rng.poisson(hourly / usual * span / HOUR)
    failed = rng.random(requests) < fails
    suspicious = rng.random(requests) < np.where(failed, 0.85, 0.05)
    p = np.where(suspicious, rng.uniform(0.8, 1.0, requests), rng.uniform(0.05, 0.15, requests))
    sampled = rng.random(requests) < p
    return np.sort(rng.uniform(0, span, sampled.sum())), failed[sampled], 1 / p[sampled]


def feed(test: ChangeTest, arrays: Arrays, start: float) -> Iterator[float]:
    """Put evaluations to the test; the times of its alarms, each acknowledged at once."""
    observe = test.observe
    for moment, failed, weight in zip(arrays[0].tolist(), arrays[1].tolist(), arrays[2].tolist(), strict=True):
        if observe(failed, weight, start + moment):
            yield moment
            test.acknowledge()


def learnt(rng: np.random.Generator, hourly: float, biased: bool) -> tuple[ChangeTest, int]:
    """A test that knows the usual rate, and the alarms that it raised on the way."""
    span = min(WEEK, 6_000 / hourly * HOUR * (3 if biased else 1))
    test = ChangeTest()
    return test, sum(1 for _ in feed(test, evaluations(rng, BASE, hourly, span, biased), -span))


def usual_rule(arrays: Arrays, span: float) -> np.ndarray:
    """The minutes at which the usual rule begins to hold."""
    minutes = int(span // 60)
    at = np.minimum(minutes - 1, (arrays[0] // 60).astype(int))
    fails = np.concatenate([[0], np.cumsum(np.bincount(at, weights=arrays[1], minlength=minutes))])
    counts = np.concatenate([[0], np.cumsum(np.bincount(at, minlength=minutes))])
    begin = np.maximum(0, np.arange(1, minutes + 1) - 15)
    failed, counts_in_window = fails[1:] - fails[begin], counts[1:] - counts[begin]
    holds = np.divide(failed, counts_in_window, out=np.zeros(minutes), where=counts_in_window > 0) > 0.1
    return np.flatnonzero(holds & ~np.concatenate([[False], holds[:-1]]))


def false_alarms(rng: np.random.Generator, hourly: float, biased: bool, runs: int) -> tuple[str, str, float]:
    """Alarms where nothing is wrong: of the test in 30 days that follow the learning, of the test while it learns, of
    the usual rule in 30 days."""
    ours, early, usual = [], [], []
    for _ in range(runs):
        arrays = evaluations(rng, BASE, hourly, MONTH, biased)
        test, alarms = learnt(rng, hourly, biased)
        early.append(alarms)
        ours.append(sum(1 for _ in feed(test, arrays, 0.0)))
        usual.append(len(usual_rule(arrays, MONTH)))
    summary = f"{np.mean(ours):.2f} ({max(ours)} at most, {runs} runs)"
    return summary, f"{np.mean(early):.2f} ({max(early)} at most)", float(np.mean(usual))


def delays(
    rng: np.random.Generator, hourly: float, biased: bool, rise: float, runs: int
) -> tuple[list[float], list[float]]:
    """Hours from the rise to the first alarm after it, of the test and of the usual rule; infinite after three days."""
    ours, usual = [], []
    for _ in range(runs):
        test, _ = learnt(rng, hourly, biased)
        lead = rng.uniform(0, HOUR)
        quiet = evaluations(rng, BASE, hourly, lead, biased)
        for _ in feed(test, quiet, 0.0):
            pass
        times, failed, weights = evaluations(rng, rise, hourly, HORIZON, biased)
        ours.append(next(feed(test, (times, failed, weights), lead), math.inf) / HOUR)
        first = usual_rule((times, failed, weights), HORIZON)
        usual.append((first[0] + 1) / 60 if len(first) else math.inf)
    return ours, usual


def told(hours: list[float]) -> str:
    """Median and 90th percentile."""
    ordered = sorted(hours)
    return " / ".join(f"{ordered[math.ceil(q * len(ordered)) - 1]:.1f}" for q in (0.5, 0.9))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--quiet", type=int, default=1, help="so many times the runs for false alarms")
    options = parser.parse_args()
    rng = np.random.default_rng(options.seed)
    started = time.perf_counter()
    print(
        "| evaluations | rule | "
        + " | ".join(f"{BASE:.0%} → {rise:.0%}" for rise in RISES)
        + " | false alarms in 30 days | while learning |"
    )
    print("|---|---|" + "---|" * (len(RISES) + 2))
    for hourly, biased, runs, months in (
        (20, False, 60, 80),
        (200, False, 40, 25),
        (200, True, 30, 20),
        (2_000, False, 20, 3),
    ):
        arrays = [delays(rng, hourly, biased, rise, runs) for rise in RISES]
        ours, early, usual = false_alarms(rng, hourly, biased, months * options.quiet)
        name = f"{hourly} an hour{', biased' if biased else ''}"
        print(f"| {name} | change test | {' | '.join(told(o) for o, _ in arrays)} | {ours} | {early} |")
        print(f"| | 15 min > 10 % | {' | '.join(told(u) for _, u in arrays)} | {usual:.0f} | |", flush=True)
    print(f"\nHours from the rise to the alarm, median / 90 % of the runs. {time.perf_counter() - started:.0f} s")


if __name__ == "__main__":
    main()
