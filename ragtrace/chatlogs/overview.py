"""What the stored evaluations say of a stretch of time: how many requests there were, how good the answers were and how
sure that is, what went wrong and where. Read from the sums that every batch keeps up to date, never from the traces."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, and_, func, or_, select

from ragtrace.chatlogs.rollups import FIELDS, STEPS, latency_of
from ragtrace.chatlogs.schema import evaluators, sums
from ragtrace.errors import SettingError
from ragtrace.reporting.live import Step
from ragtrace.statistics import Estimate, Sums

if TYPE_CHECKING:
    from ragtrace.chatlogs.store import Store

_POINTS = 200
"""Stretches that are read at most: longer times are read from longer stretches."""
QUANTILES = (0.5, 0.9, 0.99)


@dataclass(frozen=True, slots=True)
class Traffic:
    """The requests of one stretch of time."""

    start: float
    evaluated: int
    """Requests stored."""
    requests: float
    """Requests there were, estimated: the sum of 1/p."""
    errors: Estimate | None
    """Weighted share of requests that ended in an error."""
    latency: Mapping[float, float]
    """Seconds by quantile (those of `QUANTILES`), weighted, at most 9 % too high; empty without requests."""


@dataclass(frozen=True, slots=True)
class Check:
    """One evaluator."""

    evaluator: str
    versions: tuple[str, ...]
    lower_is_better: bool
    passes: Estimate | None
    """Weighted share of passes among passes and fails; None where nothing passed or failed."""
    value: Estimate | None
    """Weighted mean of the values that are neither, as of an evaluator without a threshold."""
    errors: int
    """Failed checks."""
    cost: float
    """US dollars that the judge took."""
    line: tuple[Step, ...]
    """The share of passes over time, one point for each of `Overview.traffic`."""


@dataclass(frozen=True, slots=True)
class Group:
    """An application, or a model."""

    name: str
    evaluated: int
    requests: float
    errors: Estimate | None
    passes: Estimate | None
    """Of all checks together."""
    worst: tuple[tuple[str, Estimate], ...]
    """Its evaluators by their share of passes, least first, by the upper end of the interval; five at most."""


@dataclass(frozen=True, slots=True)
class Overview:
    """The page."""

    since: float
    until: float
    """As they were asked for, moved outwards to whole stretches of `step` seconds."""
    step: int
    """Seconds between two points of time."""
    total: Traffic
    traffic: tuple[Traffic, ...]
    checks: tuple[Check, ...]
    """Least share of passes first, by the upper end of the interval."""
    causes: Mapping[str, float]
    """Causes of bad answers by estimated number of requests, most first."""
    apps: tuple[Group, ...]
    models: tuple[Group, ...]
    """Worst first."""


def overview(store: Store, since: float, until: float, app: str = "", buckets: int = 48) -> Overview:
    """What was stored of the requests from `since` to `until` (Unix times), in at most `buckets` points of time.

    `app` is one application's; empty for all. Raises SettingError if the time ends before it begins.
    """
    if not since < until:
        raise SettingError("the time ends before it begins")
    step = next((s for s in STEPS if (until - since) / s <= _POINTS), STEPS[-1])
    first, last = math.floor(since / step) * step, math.ceil(until / step) * step
    width = step * max(1, math.ceil((last - first) / step / max(1, buckets)))
    of_app = [sums.c.app == app] if app else []
    with store.reading() as connection:
        point = ((sums.c.start - first) / width).label("point")
        over_time = _read(connection, [_within(step, first, last), *of_app], point, ("kind", "name"))
        whole = [or_(*_longest(step, first, last)), *of_app]
        totals = _read(connection, whole, None, ("kind", "app", "model", "name", "version"))
        lower = _lower(connection)
    points = range(math.ceil((last - first) / width))
    starts = [first + width * i for i in points]
    traffic = tuple(_traffic(starts[i], {k[1:]: s for k, s in over_time.items() if k[0] == i}) for i in points)
    return Overview(
        first,
        last,
        width,
        _traffic(first, _merged(totals, (0, 3))),
        traffic,
        _checks(totals, over_time, starts, lower),
        _causes(totals),
        _groups(totals, 1),
        _groups(totals, 2),
    )


def _within(step: int, first: float, last: float) -> Any:
    return and_(sums.c.step == step, sums.c.start >= first, sums.c.start < last)


def _longest(step: int, first: float, last: float) -> list[Any]:
    """The time from `first` to `last` in as few stretches as there are: whole days, and steps before and after them."""
    day = STEPS[-1]
    begin, end = math.ceil(first / day) * day, math.floor(last / day) * day
    if step == day or begin >= end:
        return [_within(step, first, last)]
    return [_within(step, first, begin), _within(day, begin, end), _within(step, end, last)]


_Sums = Mapping[tuple[Any, ...], Sums]


def _read(connection: Connection, where: Sequence[Any], point: Any, names: Sequence[str]) -> _Sums:
    """Sums by some of their columns; with `point` by that first, a whole number of points from the begin."""
    by = [sums.c[name] for name in names]
    added = [func.sum(sums.c[name]).label(name) for name in FIELDS]
    head = [] if point is None else [func.floor(point).label("point")]
    found: dict[tuple[Any, ...], Sums] = {}
    for row in connection.execute(select(*head, *by, *added).where(*where).group_by(*head, *by)):
        own = tuple(row[: len(head) + len(by)])
        key = own if point is None else (int(own[0]), *own[1:])
        found[key] = Sums(*(float(value) for value in row[len(own) :]))
    return found


def _lower(connection: Connection) -> set[str]:
    query = select(evaluators.c.name).where(evaluators.c.direction == "lower")
    return set(connection.scalars(query))


def _merged(totals: _Sums, at: Sequence[int]) -> dict[tuple[Any, ...], Sums]:
    """Sums by some places of their keys."""
    found: defaultdict[tuple[Any, ...], Sums] = defaultdict(Sums)
    for key, given in totals.items():
        found[tuple(key[i] for i in at)] += given
    return found


def _traffic(start: float, by_kind: _Sums) -> Traffic:
    """From sums by kind and name."""
    requests = by_kind.get(("request", ""), Sums())
    histogram = {int(name): given.w for (kind, name), given in by_kind.items() if kind == "latency"}
    return Traffic(start, int(requests.count), requests.w, requests.rate(), _quantiles(histogram))


def _quantiles(histogram: Mapping[int, float]) -> dict[float, float]:
    total, found = sum(histogram.values()), {}
    for quantile in QUANTILES if total else ():
        reached = 0.0
        for step in sorted(histogram):
            reached += histogram[step]
            if reached >= quantile * total * (1 - 1e-12):
                found[quantile] = latency_of(step)
                break
    return found


def _checks(totals: _Sums, over_time: _Sums, starts: Sequence[float], lower: set[str]) -> tuple[Check, ...]:
    by_name = _merged(totals, (0, 3))
    versions: defaultdict[str, set[str]] = defaultdict(set)
    for kind, _, _, name, version in totals:
        if kind in ("rate", "value", "error"):
            versions[name].add(version)
    found = []
    for name, known in versions.items():
        line = [
            over_time[i, "rate", name].rate() if (i, "rate", name) in over_time else None for i in range(len(starts))
        ]
        found.append(
            Check(
                name,
                tuple(sorted(known)),
                name in lower,
                by_name.get(("rate", name), Sums()).rate(),
                by_name.get(("value", name), Sums()).mean(),
                int(by_name.get(("error", name), Sums()).count),
                by_name.get(("cost", name), Sums()).wv,
                tuple(Step(start, passes) for start, passes in zip(starts, line, strict=True)),
            )
        )
    return tuple(sorted(found, key=lambda check: (_badness(check.passes), check.evaluator)))


def _badness(passes: Estimate | None) -> float:
    """What is surely bad comes first: the upper end of the interval."""
    return 2.0 if passes is None else passes.interval[1] if passes.interval else passes.value


def _causes(totals: _Sums) -> dict[str, float]:
    found = {name: given.w for (kind, name), given in _merged(totals, (0, 3)).items() if kind == "cause"}
    return dict(sorted(found.items(), key=lambda item: -item[1]))


def _groups(totals: _Sums, at: int) -> tuple[Group, ...]:
    """Groups by application (1) or model (2), worst first."""
    everything, by_name = _merged(totals, (0, at)), _merged(totals, (0, at, 3))
    found = []
    for name in {key[at] for key in totals if key[0] == "request"}:
        requests = everything["request", name]
        rates = {key[2]: given.rate() for key, given in by_name.items() if key[:2] == ("rate", name)}
        ranked = sorted(((check, rate) for check, rate in rates.items() if rate), key=lambda item: _badness(item[1]))
        rate = everything["rate", name].rate() if ("rate", name) in everything else None
        found.append(Group(name, int(requests.count), requests.w, requests.rate(), rate, tuple(ranked[:5])))
    return tuple(sorted(found, key=lambda group: (_badness(group.passes), group.name)))
