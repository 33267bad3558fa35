"""The sums that the overview is made of, kept up to date with every batch, so that a page over a million traces reads
some thousand rows."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection

from ragtrace.evaluation import NOT_APPLICABLE
from ragtrace.statistics import Sums

STEPS = (300, 3_600, 86_400)
"""Seconds of the stretches that are summed up, each one a multiple of the one before."""
FIELDS = ("count", "clipped", "w", "w2", "wv", "wv2", "w2v", "w2v2")
_KEY = ("step", "start", "kind", "app", "model", "name", "version")
# Latencies are counted in 8 steps for each doubling, from a millisecond on.
_LEAST = 0.001


def latency_step(seconds: float) -> int:
    """The step of a histogram of latencies that these seconds fall in."""
    return 0 if seconds <= _LEAST else min(200, 1 + int(math.log2(seconds / _LEAST) * 8))


def latency_of(step: float) -> float:
    """The greatest seconds of a step."""
    return _LEAST * 2 ** (step / 8)


def add(
    connection: Connection,
    new: Sequence[Mapping[str, Any]],
    scored: Iterable[tuple[Mapping[str, Any], Mapping[str, Any]]],
) -> None:
    """Add new traces, and new scores each with its trace; all are rows as they are stored."""
    found: defaultdict[tuple[Any, ...], Sums] = defaultdict(Sums)
    for trace in new:
        p, start, app, model = trace["probability"], _start(trace), trace["app"], trace["model"] or ""
        found[start, "request", app, model, "", ""].add(float(trace["error"] is not None), p)
        found[start, "latency", app, "", str(latency_step(trace["duration"])), ""].add(trace["duration"], p)
        if trace["cause"]:
            found[start, "cause", app, model, trace["cause"], ""].add(1.0, p)
    for trace, score in scored:
        kind, value = _kind(score)
        own = (_start(trace), kind, trace["app"], trace["model"] or "", score["evaluator"], score["version"])
        if kind:
            found[own].add(value, score["probability"])
        if score["cost"]:
            found[own[0], "cost", *own[2:]].add(score["cost"], 1.0)
    _upsert(connection, found)


def _start(trace: Mapping[str, Any]) -> int:
    return int(trace["started"]) // STEPS[0] * STEPS[0]


def _kind(score: Mapping[str, Any]) -> tuple[str, float]:
    """Where a score is added: failed checks, verdicts, or values that nobody judges."""
    if score["error"] is not None:
        return "error", 1.0
    if score["label"] in ("pass", "fail"):
        return "rate", float(score["label"] == "pass")
    if score["value"] is None or score["label"] == NOT_APPLICABLE:
        return "", 0.0
    return "value", score["value"]


def _upsert(connection: Connection, found: Mapping[tuple[Any, ...], Sums]) -> None:
    by_step: defaultdict[tuple[Any, ...], Sums] = defaultdict(Sums)
    for (start, *own), given in found.items():
        for step in STEPS:
            by_step[step, start // step * step, *own] += given
    if not by_step:
        return
    # In the order of the key: neighbours lie together, and two writers never wait for each other in a circle.
    rows = [(*key, *(getattr(given, name) for name in FIELDS)) for key, given in sorted(by_step.items())]
    names = ", ".join(f'"{name}"' for name in (*_KEY, *FIELDS))
    holder = "?" if connection.dialect.name == "sqlite" else "%s"
    more = ", ".join(f'"{name}" = sums."{name}" + excluded."{name}"' for name in FIELDS)
    connection.exec_driver_sql(
        f"INSERT INTO sums ({names}) VALUES ({', '.join([holder] * (len(_KEY) + len(FIELDS)))}) "
        f"ON CONFLICT ({', '.join(_KEY)}) DO UPDATE SET {more}",
        rows,
    )
