"""Is the recorded failure rate that of all traffic, when suspicious answers are evaluated more often?"""

from __future__ import annotations

import dataclasses

import history
import numpy as np
import shipped
from falls import DROP
from traffic import HOUR, Story, counted

REQUESTS = 10_000
RATE = "app_evaluator:ragtrace_evaluation_fail:ratio_ipw_rate1h"
RAW = (
    'sum by (app) (increase(ragtrace_evaluations_total{verdict="fail"}[1h])) '
    "/ sum by (app) (increase(ragtrace_evaluations_total[1h]))"
)


@dataclasses.dataclass(frozen=True)
class Errors:
    """Differences from the truth, in percentage points, one for each run."""

    usual: float
    sampling: str
    weighted: list[float]
    raw: list[float]


def errors(usual: float, sampling: str, runs: int, seed: int) -> Errors:
    """An hour with 10,000 requests under error-biased sampling, of which `usual` pass."""
    times = np.arange(DROP - HOUR, DROP + 1, 60)
    writer = history.Writer(times)
    truth = {}
    for i in range(runs):
        story = Story(REQUESTS / 60, sampling, steady=True, usual=usual)
        counts = counted(np.random.default_rng([seed, i, 3]), times, story, 0)
        truth[f"run{i}"] = counts.bad[1:].sum() / counts.requests[1:].sum()
        history.application(writer, counts, f"run{i}", whole=True)
    with history.served(writer) as url:
        answers = [history.asked(url, expr, [float(DROP)], 60) for expr in (shipped.records()[RATE], RAW)]
    weighted, raw = (
        [100 * (v[0][1] - truth[dict(labels)["app"]]) for labels, v in answer.items()] for answer in answers
    )
    return Errors(usual, sampling, weighted, raw)
