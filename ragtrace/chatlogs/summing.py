"""The sums that the overview is made of, kept up to date with every batch, so that a page over a million traces reads
some thousand rows."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection
from sqlalchemy.dialects import postgresql, sqlite

from ragtrace.chatlogs.schema import sums
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

    def one(trace: Mapping[str, Any], kind: str, value: float, p: float, *, name: str = "", version: str = "") -> None:
        own = (kind, trace["app"], trace["model"] or "", name, version)
        found[int(trace["started"]) // STEPS[0] * STEPS[0], own].add(value, p)

    for trace in new:
        p = trace["probability"]
        one(trace, "request", float(trace["error"] is not None), p)
        one(trace, "latency", trace["duration"], p, name=str(latency_step(trace["duration"])))
        if trace["cause"]:
            one(trace, "cause", 1.0, p, name=trace["cause"])
    for trace, score in scored:
        named = {"name": score["evaluator"], "version": score["version"]}
        if score["error"] is not None:
            one(trace, "error", 1.0, score["probability"], **named)
        if score["label"] in ("pass", "fail"):
            one(trace, "rate", float(score["label"] == "pass"), score["probability"], **named)
        if score["value"] is not None:
            one(trace, "value", score["value"], score["probability"], **named)
        if score["cost"]:
            one(trace, "cost", score["cost"], 1.0, **named)
    _upsert(connection, found)


def _upsert(connection: Connection, found: Mapping[tuple[Any, ...], Sums]) -> None:
    by_step: defaultdict[tuple[Any, ...], Sums] = defaultdict(Sums)
    for (start, own), given in found.items():
        for step in STEPS:
            by_step[step, start // step * step, *own] += given
    rows = [
        dict(zip(_KEY, key, strict=True)) | {name: getattr(given, name) for name in FIELDS}
        for key, given in sorted(by_step.items())
    ]
    inserting: Any = sqlite.insert if connection.dialect.name == "sqlite" else postgresql.insert
    statement = inserting(sums)
    statement = statement.on_conflict_do_update(
        index_elements=list(_KEY), set_={name: sums.c[name] + statement.excluded[name] for name in FIELDS}
    )
    if rows:
        connection.execute(statement, rows)
