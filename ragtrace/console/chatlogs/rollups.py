"""Updates the sums of the overview with every batch, so that a page over a million traces reads some thousand rows."""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Any

from sqlalchemy import Connection

from ragtrace import semconv
from ragtrace.evaluation import NOT_APPLICABLE
from ragtrace.statistics import Sums

STEPS = (300, 3_600, 86_400)
"""Lengths of the periods in seconds, each a multiple of the one before."""
FIELDS = ("count", "clipped", "w", "w2", "wv", "wv2", "w2v", "w2v2")
_numbers = attrgetter(*FIELDS)
_KEY = ("step", "start", "kind", "app", "model", "name", "version")
# The histogram of latencies has 8 steps for each doubling, from one millisecond.
_LEAST = 0.001


def latency_step(seconds: float) -> int:
    """Returns the step of the histogram that contains this latency."""
    return 0 if seconds <= _LEAST else min(200, 1 + int(math.log2(seconds / _LEAST) * 8))


def latency_of(step: float) -> float:
    """Returns the largest latency of a step, in seconds."""
    return _LEAST * 2 ** (step / 8)


NO_VERDICT: Mapping[str, Any] = {"value": None, "label": None, "error": None}
"""Replaces these columns of a score of which only the cost is added."""


def add(
    connection: Connection,
    new: Sequence[Mapping[str, Any]],
    scored: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]],
) -> None:
    """Adds new traces, and new scores with their traces; all are rows of the tables."""
    new_sums: defaultdict[tuple[Any, ...], Sums] = defaultdict(Sums)
    causes = _cause_probabilities(scored)
    for trace in new:
        p, start, app, model = trace["probability"], _start(trace), trace["app"], trace["model"] or ""
        new_sums[start, "request", app, model, "", ""].add(float(trace["error"] is not None), p)
        new_sums[start, "latency", app, "", str(latency_step(trace["duration"])), ""].add(trace["duration"], p)
        if trace["cause"]:
            new_sums[start, "cause", app, model, trace["cause"], ""].add(1.0, causes.get(_span(trace), p))
    for trace, score in scored:
        kind, value = _kind(score)
        start, rest = _start(trace), (trace["app"], trace["model"] or "", score["evaluator"], score["version"])
        if kind:
            new_sums[start, kind, *rest].add(value, score["probability"])
        if score["cost"]:
            new_sums[start, "cost", *rest].add(score["cost"], 1.0)
    _upsert(connection, new_sums)


def _span(trace: Mapping[str, Any]) -> tuple[Any, Any]:
    return trace["trace_id"], trace["span_id"]


def _cause_probabilities(scored: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]]) -> dict[tuple[Any, Any], float]:
    """The probability with which the cause of each span was evaluated, by span.

    It is the probability of the evaluator whose score has the cause, because an evaluator may score only a share of the
    requests. Where several scores have it, it is the largest of theirs. A span is missing where no score has its cause.
    """
    probabilities: dict[tuple[Any, Any], float] = {}
    for trace, score in scored:
        if score["cause"] and score["cause"] in (trace["cause"], semconv.CAUSE_TOLD_BY.get(trace["cause"])):
            before = probabilities.get(_span(trace), 0.0)
            probabilities[_span(trace)] = max(before, score["probability"])
    return probabilities


def _start(trace: Mapping[str, Any]) -> int:
    return int(trace["started"]) // STEPS[0] * STEPS[0]


def _kind(score: Mapping[str, Any]) -> tuple[str, float]:
    """The kind of sum that a score belongs to, and its value there: failed evaluations, verdicts, or values without a
    verdict. An empty kind is not summed."""
    if score["error"] is not None:
        return "error", 1.0
    if score["label"] in ("pass", "fail"):
        return "rate", float(score["label"] == "pass")
    if score["value"] is None or score["label"] == NOT_APPLICABLE:
        return "", 0.0
    return "value", score["value"]


def _upsert(connection: Connection, new_sums: Mapping[tuple[Any, ...], Sums]) -> None:
    by_step: defaultdict[tuple[Any, ...], Sums] = defaultdict(Sums)
    for (start, *rest), values in new_sums.items():
        for step in STEPS:
            by_step[step, start // step * step, *rest] += values
    if not by_step:
        return
    # Sorted by key: adjacent rows are written together, and two writers cannot deadlock.
    rows = [(*key, *_numbers(values)) for key, values in sorted(by_step.items())]
    names = ", ".join(f'"{name}"' for name in (*_KEY, *FIELDS))
    holder = "?" if connection.dialect.name == "sqlite" else "%s"
    updates = ", ".join(f'"{name}" = sums."{name}" + excluded."{name}"' for name in FIELDS)
    connection.exec_driver_sql(
        f"INSERT INTO sums ({names}) VALUES ({', '.join([holder] * (len(_KEY) + len(FIELDS)))}) "
        f"ON CONFLICT ({', '.join(_KEY)}) DO UPDATE SET {updates}",
        rows,
    )
