"""Counters that reset, workers that die between scrapes, clocks that jump: nothing negative, nothing lost, no page."""

from __future__ import annotations

import dataclasses
import itertools

import history
import numpy as np
import replay
import shipped
from falls import DROP
from traffic import DAY, HOUR, Array, Counted, Story, counted

KINDS = ("restarts", "workers die", "clock jumps")
RATE = "app_evaluator:ragtrace_evaluation_fail:ratio_ipw_rate"
WINDOWS = ("5m", "15m", "1h", "1d")


@dataclasses.dataclass(frozen=True)
class Harm:
    """`wrong` counts recorded rates outside [0, 1], `lost` minutes without a rate of 15 minutes though a scrape had
    come in the last five, `pages` those of all runs; `counted` is the weight seen by `increase` over the true one."""

    kind: str
    rate: float
    runs: int
    troubles: int
    wrong: int
    lost: int
    pages: int
    counted: float


def harm(kind: str, rate: float, runs: int, seed: int, days: int = 3) -> Harm:
    """Two workers of one application for some days, with trouble every two hours or so."""
    times = np.arange(DROP, DROP + days * DAY + 1, 60)
    writer = history.Writer(times)
    scraped = np.ones(len(times), dtype=bool)
    random = np.random.default_rng([seed, 5])
    if kind == "clock jumps":
        # Ahead: an hour that nobody saw. Back: samples that are too old, and refused, for ten minutes.
        for start in random.choice(np.arange(2 * HOUR, days * DAY, 60), 3 * days):
            scraped &= ~((times - DROP >= start) & (times - DROP < start + random.choice([600, HOUR])))
    troubles, truth = 0, 0.0
    for i in range(runs):
        for worker in range(2):
            counts = counted(random, times, Story(rate / 2, "20%"), 0)
            breaks = [] if kind == "clock jumps" else sorted(random.choice(len(times), 12 * days, replace=False))
            troubles += len(breaks)
            truth += sum(w.sum() for w in counts.weights.values())
            _lives(
                writer,
                counts,
                scraped,
                [int(b) for b in breaks],
                app=f"run{i}",
                worker=worker,
                dies=kind == "workers die",
            )
    if kind == "clock jumps":
        troubles = int((np.diff(scraped.astype(int)) < 0).sum())
    alerts = shipped.alerts("page")
    # While a clock jumps, nobody evaluates either.
    edges = np.flatnonzero(np.diff(scraped.astype(int), prepend=0, append=0))
    grid = [(60, times[a:b]) for a, b in zip(edges[::2], edges[1::2], strict=True)]
    fired = replay.fired(writer, alerts, grid)
    wrong = 0
    with history.served(writer) as url:
        records = shipped.records()
        for window in WINDOWS:
            expr = f"({records[RATE + window]}) < 0 or ({records[RATE + window]}) > 1"
            wrong += sum(map(len, history.asked(url, expr, times.tolist(), 60).values()))
        there = history.asked(url, records[RATE + "15m"], times.tolist(), 60)
        grown = history.asked(url, f"sum(increase(ragtrace_evaluation_weight_total[{days}d]))", [float(times[-1])], 60)
    recent = np.convolve(scraped, np.ones(5), "full")[: len(times)] >= 2
    expected = int(recent[15:].sum()) * runs
    failures = sum(int(recent[(int(t) - DROP) // 60]) for v in there.values() for t, _ in v if t >= times[15])
    (value,) = (v[0][1] for v in grown.values())
    pages = sum(len(e) for by in fired.values() for e in by.values())
    return Harm(kind, rate, runs, troubles, wrong, expected - failures, pages, value / truth)


def _lives(
    writer: history.Writer, counts: Counted, scraped: Array, breaks: list[int], *, app: str, worker: int, dies: bool
) -> None:
    """One worker's series: at each break its counters begin anew; where it dies, under another name."""
    base = {"app": app, "env": "prod"}
    series = [
        ("ragtrace_requests_total", counts.requests, {"status": "ok"}),
        ("ragtrace_sampling_decisions_total", counts.sampled, {"decision": "sampled", "stratum": "ratio"}),
    ]
    for verdict in ("pass", "fail"):
        own = {"evaluator": "faithfulness", "verdict": verdict}
        series += [
            ("ragtrace_evaluation_weight_total", counts.weights[verdict], own),
            ("ragtrace_evaluation_weight_squared_total", counts.squares[verdict], own),
            ("ragtrace_evaluations_total", counts.evaluations[verdict], own),
        ]
    edges = [0, *breaks, len(writer.times)]
    for name, events, own in series:
        whole = np.full(len(writer.times), np.nan)
        for life, (a, b) in enumerate(itertools.pairwise(edges)):
            values = np.full(len(writer.times), np.nan)
            values[a:b] = np.cumsum(events[a:b])
            # A worker needs a minute to come up.
            values[a : min(a + 1, b)] = np.nan if life else 0.0
            if dies:
                writer.add(name, np.where(scraped, values, np.nan), **base, **own, instance=f"w{worker}-{life}")
            whole[a:b] = values[a:b]
        if not dies:
            writer.add(name, np.where(scraped, whole, np.nan), **base, **own, instance=f"w{worker}")
    up = np.where(scraped, 1.0, np.nan)
    writer.add("ragtrace_build_info", up, "gauge", **base, instance=f"w{worker}")
