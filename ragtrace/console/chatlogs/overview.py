"""Computes the overview of a period: how many requests there were, how good the answers were and how certain that is,
what went wrong and where. Reads the sums that every batch updates, never the traces."""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, and_, func, or_, select

from ragtrace.console.chatlogs.rollups import FIELDS, STEPS, latency_of
from ragtrace.console.chatlogs.schema import evaluators, sums
from ragtrace.console.chatlogs.store import Store
from ragtrace.errors import SettingError
from ragtrace.statistics import Estimate, Step, Sums

_POINTS = 200
"""Longest series of one step that is read; a longer period uses the next longer step."""
QUANTILES = (0.5, 0.9, 0.99)
FIRST = ("faithfulness", "groundedness", "correctness", "answer_correctness", "answer_relevance")
"""Evaluators whose question comes first, where nothing else was chosen."""


@dataclass(frozen=True, slots=True)
class Traffic:
    """The requests of one period."""

    start: float
    evaluated: int
    """Requests stored."""
    requests: float
    """Estimated number of requests: the sum of 1/p."""
    errors: Estimate | None
    """Weighted share of requests that ended in an error."""
    latency: Mapping[float, float]
    """Seconds by quantile (those of `QUANTILES`), weighted, at most 9 % too high; empty without requests."""


@dataclass(frozen=True, slots=True)
class Check:
    """The scores of one evaluator."""

    evaluator: str
    versions: tuple[str, ...]
    lower_is_better: bool
    passes: Estimate | None
    """Weighted share of passes among passes and fails; None without either."""
    value: Estimate | None
    """Weighted mean of the values without a verdict, as of an evaluator without a threshold."""
    errors: int
    """Failed evaluations."""
    cost: float
    """US dollars that the judge cost."""
    line: tuple[Step, ...]
    """The share of passes over time, one point for each item of `Overview.traffic`."""


@dataclass(frozen=True, slots=True)
class Group:
    """The requests of an application, or of a model."""

    name: str
    evaluated: int
    requests: float
    errors: Estimate | None
    passes: Estimate | None
    """Of all evaluators together."""
    worst: tuple[tuple[str, Estimate], ...]
    """Up to five evaluators and their shares of passes, lowest first, by the upper end of the interval."""


@dataclass(frozen=True, slots=True)
class Overview:
    """The overview of a period."""

    since: float
    until: float
    """The requested period, extended to whole steps."""
    step: int
    """Seconds between two points of time."""
    total: Traffic
    traffic: tuple[Traffic, ...]
    checks: tuple[Check, ...]
    """Lowest share of passes first, by the upper end of the interval."""
    causes: Mapping[str, float]
    """Causes of bad answers by estimated number of requests, most frequent first."""
    apps: tuple[Group, ...]
    models: tuple[Group, ...]
    """Worst first."""


_Key = tuple[Any, ...]
_Sums = Mapping[_Key, Sums]


def overview(store: Store, since: float, until: float, app: str = "", buckets: int = 48) -> Overview:
    """Computes the overview of the requests from `since` to `until` (Unix times) in at most `buckets` points of time.

    `app` selects one application; empty for all. Raises SettingError unless `since` is before `until`."""
    if not since < until:
        raise SettingError(f"the period ends before it begins: since is {since!r}, until is {until!r}")
    step, first, last = _whole_steps(since, until)
    width = step * max(1, math.ceil((last - first) / step / max(1, buckets)))
    of_app = [sums.c.app == app] if app else []
    with store.reading() as connection:
        point = ((sums.c.start - first) / width).label("point")
        over_time = _read(connection, [_within(step, first, last), *of_app], point, ("kind", "name"))
        whole = [or_(*_longest_steps(step, first, last)), *of_app]
        totals = _read(connection, whole, None, ("kind", "app", "model", "name", "version"))
        lower = set(connection.scalars(select(evaluators.c.name).where(evaluators.c.direction == "lower")))
    whole_by_kind = _merged(totals, (0, 3))
    causes = {name: values.w for (kind, name), values in whole_by_kind.items() if kind == "cause"}
    starts = [first + width * i for i in range(math.ceil((last - first) / width))]
    by_point: defaultdict[int, dict[_Key, Sums]] = defaultdict(dict)
    for key, values in over_time.items():
        by_point[key[0]][key[1:]] = values
    return Overview(
        first, last, width, _traffic(first, whole_by_kind),
        tuple(_traffic(start, by_point[i]) for i, start in enumerate(starts)),
        _checks(totals, over_time, starts, lower), dict(sorted(causes.items(), key=lambda item: -item[1])),
        _groups(totals, 1), _groups(totals, 2),
    )  # fmt: skip


def _within(step: int, first: float, last: float) -> Any:
    return and_(sums.c.step == step, sums.c.start >= first, sums.c.start < last)


def _longest_steps(step: int, first: float, last: float) -> list[Any]:
    """Covers the period from `first` to `last` with few rows: whole days, and steps before and after them."""
    day = STEPS[-1]
    begin, end = math.ceil(first / day) * day, math.floor(last / day) * day
    if step == day or begin >= end:
        return [_within(step, first, last)]
    return [_within(step, first, begin), _within(day, begin, end), _within(step, end, last)]


def _read(connection: Connection, where: Sequence[Any], point: Any, names: Sequence[str]) -> _Sums:
    """Reads sums, grouped by columns; with `point`, first by the number of the point of time."""
    by = [sums.c[name] for name in names]
    totals = [func.sum(sums.c[name]).label(name) for name in FIELDS]
    head = [] if point is None else [func.floor(point).label("point")]
    result: dict[_Key, Sums] = {}
    for row in connection.execute(select(*head, *by, *totals).where(*where).group_by(*head, *by)):
        key = tuple(row[: len(head) + len(by)])
        values = (float(value) for value in row[len(key) :])
        result[key if point is None else (int(key[0]), *key[1:])] = Sums(*values)
    return result


def _merged(totals: _Sums, positions: Sequence[int]) -> dict[_Key, Sums]:
    """Adds up the sums whose keys are equal at these positions."""
    result: defaultdict[_Key, Sums] = defaultdict(Sums)
    for key, values in totals.items():
        result[tuple(key[i] for i in positions)] += values
    return result


def _traffic(start: float, by_kind: _Sums) -> Traffic:
    """From sums by kind and name."""
    requests = by_kind.get(("request", ""), Sums())
    histogram = {int(name): values.w for (kind, name), values in by_kind.items() if kind == "latency"}
    return Traffic(start, int(requests.count), requests.w, requests.rate(), _quantiles(histogram))


def _quantiles(histogram: Mapping[int, float]) -> dict[float, float]:
    total = sum(histogram.values())
    result: dict[float, float] = {}
    for quantile in QUANTILES if total else ():
        below = 0.0
        for step in sorted(histogram):
            below += histogram[step]
            if below >= quantile * total * (1 - 1e-12):
                result[quantile] = latency_of(step)
                break
    return result


def _checks(totals: _Sums, over_time: _Sums, starts: Sequence[float], lower: set[str]) -> tuple[Check, ...]:
    by_name = defaultdict(Sums, _merged(totals, (0, 3)))
    versions: defaultdict[str, set[str]] = defaultdict(set)
    for kind, _, _, name, version in totals:
        if kind in ("rate", "value", "error"):
            versions[name].add(version)
    checks = [
        Check(
            name,
            tuple(sorted(versions[name])),
            name in lower,
            by_name["rate", name].rate(),
            by_name["value", name].mean(),
            int(by_name["error", name].count),
            by_name["cost", name].wv,
            tuple(Step(start, over_time.get((i, "rate", name), Sums()).rate()) for i, start in enumerate(starts)),
        )
        for name in versions
    ]
    return tuple(sorted(checks, key=lambda check: (_badness(check.passes), check.evaluator)))


def _badness(passes: Estimate | None) -> float:
    """Sorts by the upper end of the interval, so that what is certainly bad comes first."""
    return 2.0 if passes is None else passes.interval[1] if passes.interval else passes.value


def _groups(totals: _Sums, position: int) -> tuple[Group, ...]:
    """Groups by application (position 1) or model (2), worst first."""
    whole, by_name = defaultdict(Sums, _merged(totals, (0, position))), _merged(totals, (0, position, 3))
    groups = []
    for name in {key[position] for key in totals if key[0] == "request"}:
        requests = whole["request", name]
        rates = {key[2]: values.rate() for key, values in by_name.items() if key[:2] == ("rate", name)}
        ranked = sorted(((check, rate) for check, rate in rates.items() if rate), key=lambda item: _badness(item[1]))
        passes = whole["rate", name].rate()
        groups.append(Group(name, int(requests.count), requests.w, requests.rate(), passes, tuple(ranked[:5])))
    return tuple(sorted(groups, key=lambda group: (_badness(group.passes), group.name)))


def pass_rates(store: Store, since: float, until: float, app: str = "") -> dict[str, Estimate | None]:
    """Each evaluator's weighted share of passes from `since` to `until` (Unix times), extended to whole steps as
    `overview` does it. `app` selects one application; empty for all."""
    step, first, last = _whole_steps(since, until)
    where = [sums.c.kind == "rate", or_(*_longest_steps(step, first, last)), *([sums.c.app == app] if app else [])]
    with store.reading() as connection:
        rates = _read(connection, where, None, ("name",))
    return {name: values.rate() for (name,), values in rates.items()}


def begin_of(length: float, until: float) -> float:
    """When a period of `length` seconds begins whose last step is the one of `until`: 24 hours are 24 steps."""
    step = _step(length)
    return float(math.ceil((until - length) / step) * step)


def _step(length: float) -> int:
    """The shortest step that divides a period into no more than _POINTS."""
    return next((step for step in STEPS if length / step <= _POINTS), STEPS[-1])


def _whole_steps(since: float, until: float) -> tuple[int, int, int]:
    """The step of the period, and the period's ends at whole steps."""
    step = _step(until - since)
    return step, math.floor(since / step) * step, math.ceil(until / step) * step


def ordered(names: Sequence[str]) -> list[str]:
    """Evaluators as they are shown: the main ones first, the others by name."""
    place = {name: i for i, name in enumerate(FIRST)}
    return sorted(set(names), key=lambda name: (place.get(name, len(place)), name))
