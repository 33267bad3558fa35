"""The shipped alerts over a history: when each of them fires, for which application."""

from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import Iterable, Sequence

import history
import numpy as np
import shipped
from firing import Episode, episodes
from traffic import Array

NAIVE = shipped.Alert("naive", "", 'avg_over_time(naive_score{evaluator="faithfulness"}[15m]) < 0.8', 0, 0)
"""What is usually made."""
_RECORDED = re.compile(r"(app_evaluator(?:_paging)?:[a-z0-9_:]+)(?:\{[^}]*\})?(?:\[[^\]]+\])?(?:\s+offset\s+(\d+)s)?")
RANGE = 90_000
"""The longest range, in seconds, over which rules read what is recorded, but for what they add up."""
SUMMED = (":increase5m", ":increase30m")
"""The ends of names that rules add up over days."""
_RAW = re.compile(r"(?<![:\w])ragtrace_(?!objective|evaluator_info|pages)")
Grid = Sequence[tuple[int, Array]]
"""Steps in seconds and the times that lie so far apart."""
Fired = dict[str, dict[str, list[Episode]]]
"""By alert and application."""


def fired(writer: history.Writer, alerts: Sequence[shipped.Alert], grid: Grid, since: float = 0.0) -> Fired:
    """When alerts fire over what was written, evaluated at the times of the grid that are later than `since`.

    What the rules record is recorded first, level by level, at the times at which it is read: to ask windows of days
    over and over again takes too long. Alerts that read exported counters are asked the first Prometheus, others the
    last.
    """
    records = _stateless(shipped.records())
    levels = _levels(records)
    plain = {a.name: a.expr for a in shipped.alerts(recorded={})}
    second = [a for a in alerts if a.name in plain and not _RAW.search(plain[a.name])]
    late = [(step, times[times > since]) for step, times in grid]
    late = [(step, times) for step, times in late if len(times)]
    recorded = history.Writer(np.concatenate([times for _, times in grid]))
    active: dict[str, dict[str, list[float]]] = {}
    with contextlib.ExitStack() as stack:
        url = stack.enter_context(history.served(writer))
        for alert in alerts:
            if alert not in second:
                active[alert.name] = _active(url, alert.expr, late)
        for level in range(1, max(levels.values()) + 1):
            deeper = {name: expr for name, expr in records.items() if levels[name] > level}
            read = _shifts(a.expr for a in shipped.alerts(recorded=deeper) if a.name in {s.name for s in second})
            for name in sorted(name for name in read if levels.get(name) == level):
                for step, times in grid if name.endswith(SUMMED) else _read(grid, read[name], since):
                    for labels, values in history.asked(url, records[name], times.tolist(), step).items():
                        recorded.put(name, values, **dict(labels))
            stack.close()
            url = stack.enter_context(history.served(recorded))
        for alert in second:
            active[alert.name] = _active(url, plain[alert.name], late)
    moments = [t for _, times in late for t in times.tolist()]
    return {a.name: {app: episodes(moments, at, a.wait, a.keep) for app, at in active[a.name].items()} for a in alerts}


def _stateless(records: dict[str, str]) -> dict[str, str]:
    """The records that say what holds now; those on incidents, groups and rhythms are left out."""
    left = ("incident", "own_", "onset", "fall_", "recovery", "excess", "fallen", "as_bad", "known", "trigger", "ruler")
    return {n: e for n, e in records.items() if "_group:" not in n and not n.rsplit(":", 1)[1].startswith(left)}


def _levels(records: dict[str, str]) -> dict[str, int]:
    """How deep each recorded name stands: 1 if it reads exported counters alone, else below all that it reads."""

    @functools.cache
    def level(name: str) -> int:
        return 1 + max((level(read) for read, _ in _RECORDED.findall(records[name]) if read in records), default=0)

    return {name: level(name) for name in records}


def _shifts(exprs: Iterable[str]) -> dict[str, set[int]]:
    """The recorded names in expressions, and by which offsets they are read."""
    rules: dict[str, set[int]] = {}
    for expr in exprs:
        for name, offset in _RECORDED.findall(expr):
            rules.setdefault(name, set()).add(int(offset or 0))
    return rules


def _read(grid: Grid, shifts: Iterable[int], since: float) -> Grid:
    """The part of the grid that is read with these offsets by what is evaluated after `since`."""
    end = max(times[-1] for _, times in grid)
    spans = []
    for step, times in grid:
        needed = np.zeros(len(times), dtype=bool)
        for shift in shifts:
            needed |= (times >= since - shift - RANGE - 600) & (times <= end - shift)
        edges = np.flatnonzero(np.diff(needed.astype(int), prepend=0, append=0))
        spans += [(step, times[a:b]) for a, b in zip(edges[::2], edges[1::2], strict=True)]
    return spans


def _active(url: str, expr: str, grid: Grid) -> dict[str, list[float]]:
    apps: dict[str, list[float]] = {}
    for step, times in grid:
        for labels, values in history.asked(url, expr, times.tolist(), step).items():
            apps.setdefault(dict(labels).get("app", ""), []).extend(t for t, _ in values)
    return apps
