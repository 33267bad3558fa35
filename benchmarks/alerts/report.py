"""The tables."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np
from estimates import REQUESTS, Errors
from falls import Delays
from quiet import Pages
from troubles import Harm

TARGETS = {(200, 0.75): 15, (200, 0.85): 180, (20, 0.75): 120, (20, 0.85): 720}
"""Requests a minute and the share that passes after the fall; minutes within which 95 % of the runs shall page."""


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A Markdown table."""
    lines = ["| " + " | ".join(map(str, row)) + " |" for row in (head, ["---"] * len(head), *rows)]
    return "\n".join(line.replace("| --- ", "|---").replace("|--- |", "|---|") for line in lines)


def minutes(value: float) -> str:
    """Readable: 7 min, 3.4 h, or a dash for never."""
    if not math.isfinite(value):
        return "-"
    return f"{value:.0f} min" if value < 120 else f"{value / 60:.1f} h"


def quantile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least that share of the values does not exceed; infinite ones count."""
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


def spread(values: Sequence[float]) -> tuple[str, str, str]:
    """Median, 90 % quantile, and the share of runs that never got there."""
    missed = sum(not math.isfinite(v) for v in values) / len(values)
    return minutes(quantile(values, 0.5)), minutes(quantile(values, 0.9)), f"{missed:.0%}"


def quiet(results: Sequence[Pages]) -> str:
    """False pages in 30 days, by scenario."""
    rows = []
    for p in results:
        month = 30 / p.days
        mean = float(np.mean(p.pager)) * month
        rows.append(
            (f"{p.calm.rate:g}", p.calm.sampling, p.calm.kind, len(p.pager), f"{mean:.2f}", max(p.pager),
             sum(p.early), f"{np.mean(p.naive) * month:.0f}")
        )  # fmt: skip
    head = (
        "requests a minute",
        "sampling",
        "what",
        "months",
        "pages a month",
        "most in one",
        "in first 8 days",
        "naive",
    )
    return table(head, rows)


def quiet_rules(results: Sequence[Pages]) -> str:
    """False pages in 30 days, by rule, over all scenarios."""
    months = sum(len(p.pager) * p.days / 30 for p in results)
    totals = {name: sum(sum(p.rules[name]) for p in results) for name in results[0].rules}
    rows = [(name, n, f"{n / months:.3f}") for name, n in totals.items()]
    naive = sum(sum(p.naive) for p in results)
    return table(
        ("rule", f"pages in {months:.0f} months", "a month"), [*rows, ("naive", naive, f"{naive / months:.1f}")]
    )


def falls(results: Sequence[Delays]) -> str:
    """Delays to the first page, by scenario."""
    rows = [
        (f"{d.fall.rate:g}", d.fall.sampling, f"{d.fall.after:.2f}", _kind(d), *spread(d.pages), *spread(d.naive))
        for d in results
    ]
    head = ("requests a minute", "sampling", "0.92 to", "how", "median", "p90", "missed",
            "naive median", "p90", "missed")  # fmt: skip
    return table(head, rows)


def _kind(d: Delays) -> str:
    return d.fall.shape + (", noisy" if d.fall.noisy else "")


def targets(results: Sequence[Delays]) -> str:
    """Shares of runs that page in time."""
    rows = []
    for d in results:
        limit = TARGETS[int(d.fall.rate), d.fall.after]
        share = sum(p <= limit for p in d.pages) / len(d.pages)
        median, p95 = (minutes(quantile(d.pages, q)) for q in (0.5, 0.95))
        verdict = "yes" if share >= 0.95 else "no"
        rows.append(
            (f"{d.fall.rate:g}", f"{d.fall.after:.2f}", d.fall.when, len(d.pages), minutes(limit), f"{share:.1%}",
             median, p95, verdict)
        )  # fmt: skip
    head = ("requests a minute", "0.92 to", "when", "runs", "within", "share", "median", "p95", "95 % in time")
    return table(head, rows)


def rules(results: Sequence[Delays]) -> str:
    """Delays by rule."""
    names = list(results[0].rules)
    head = [
        "rule",
        *(f"to {d.fall.after:.2f}{'' if d.fall.shape == 'sudden' else ', ' + d.fall.shape}" for d in results),
    ]
    rows = []
    for name in [*names, "naive"]:
        cells = [spread(d.naive if name == "naive" else d.rules[name]) for d in results]
        rows.append((name, *(f"{a} / {b}, {c} missed" if a + b != "--" else "never" for a, b, c in cells)))
    return table(head, rows)


def estimates(results: Sequence[Errors]) -> str:
    """How far weighted and plain shares are from the truth."""
    rows = []
    for e in results:
        weighted, raw = np.abs(e.weighted), np.abs(e.raw)
        rows.append(
            (e.sampling, f"{1 - e.usual:.0%}", len(weighted), f"{np.mean(e.weighted):+.2f}",
             f"{np.std(e.weighted):.2f}", f"{np.mean(weighted <= 1):.0%}", f"{weighted.max():.2f}",
             f"{np.mean(e.raw):+.1f}", f"{raw.min():.1f}")
        )  # fmt: skip
    head = ("sampling", "truth fails", f"runs of {REQUESTS:,} requests", "weighted: mean error", "deviation",
            "within 1 point", "worst", "plain mean: error", "least")  # fmt: skip
    return table(head, rows)


def troubles(results: Sequence[Harm]) -> str:
    """What troubles do."""
    rows = [(h.kind, f"{h.rate:g}", h.runs, h.troubles, h.wrong, h.lost, h.pages, f"{h.counted:.1%}") for h in results]
    head = ("what", "requests a minute", "applications", "times", "rates outside 0 to 1", "minutes without a rate",
            "pages", "weight counted")  # fmt: skip
    return table(head, rows)
