"""Finds pages of stored traces for a filter, in bounded time for any number of traces.

A page never counts or sorts what it does not show. The condition with the fewest traces leads: its ids come from an
index in descending order, a chunk at a time, and the other conditions are checked for these ids only. If no condition
is rare but their combination is, a page ends after `_SECONDS` with the matches so far and a cursor to continue."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Connection, and_, case, func, select, text

from ragtrace.console.chatlogs import filters
from ragtrace.console.chatlogs.encryption import clean
from ragtrace.console.chatlogs.engine import among
from ragtrace.console.chatlogs.schema import contents, end_id, evaluators, lowest_id, scores, traces
from ragtrace.console.chatlogs.store import Store
from ragtrace.console.chatlogs.store_types import Filter, Page, TraceSummary
from ragtrace.errors import SettingError

_SECONDS = 0.5
"""Seconds after which a page starts no further chunk."""
_PROBE = 400
"""Ids that each condition lists at first: a condition with fewer leads, and all its traces are checked at once."""
_CHUNK = 10_000
"""Most ids that are checked at once."""
_HIGHEST = 2**62
_BEGINNING = 500
"""Characters of query and answer in a row: for some, `masks` takes the last 200 away."""
_MOST = 1_000
_CHOICES = 200


def find(store: Store, filter: Filter, *, after: str | None = None, limit: int = 50, order: str = "newest") -> Page:
    """Finds a page of traces. `after` is the field `after` of the previous page.

    `newest` orders by the request's start, latest first. `worst` orders by the value of the filter's evaluator, worst
    first in steps of 0.01 (see `schema.bucket`), latest first within a step; scores without a value are left out. A
    page may have fewer rows than `limit` (at most 1,000) although others follow: rare combinations are searched in
    parts.

    Raises SettingError for `worst` without an evaluator, a text in an encrypted store, and an invalid `after`."""
    if order not in ("newest", "worst"):
        raise SettingError(f"order is {order!r}; give newest or worst")
    if order == "worst" and not filter.evaluator:
        raise SettingError("the order worst needs an evaluator; name one with evaluator")
    filter = _cleaned(filter)
    with store.reading() as connection:
        conditions = filters.parse_filter(store, connection, filter)
        low = 0 if filter.since is None else lowest_id(filter.since)
        high = _HIGHEST if filter.until is None else end_id(filter.until)
        until = time.monotonic() + _SECONDS
        search = _Search(connection, conditions, low, high, min(max(1, limit), _MOST), until)
        matches = _newest(search, after) if order == "newest" else _worst(search, filter, after)
        rows = _rows(store, connection, matches.ids)
    if after is None and matches.after is None:
        return Page(rows, None, len(rows))
    return Page(rows, matches.after, matches.total if after is None else None)


def _cleaned(filter: Filter) -> Filter:
    """The filter with texts as they are stored: the databases cannot store NUL and lone surrogates."""
    texts: dict[str, Any] = {
        name: clean(value) for name in Filter.__slots__ if isinstance(value := getattr(filter, name), str)
    }
    # The user id stays as it is: `traces.user_key` is derived from the unchanged id.
    return replace(filter, **(texts | {"user_id": filter.user_id}))


@dataclass(frozen=True, slots=True)
class _Search:
    """One search: its conditions, the smallest and largest id, the page's size, and when it ends."""

    connection: Connection
    conditions: Sequence[filters.Condition]
    low: int
    high: int
    limit: int
    until: float

    def is_late(self) -> bool:
        return time.monotonic() > self.until

    def check(self, ids: Sequence[int], lead: filters.Condition | None) -> list[int]:
        """Those of `ids`, in their order, that fulfil all conditions; `lead` is the condition that listed them."""
        ids = list(dict.fromkeys(ids))
        rest = [condition.where for condition in self.conditions if not (condition is lead and condition.only)]
        if not rest or not ids:
            return ids
        # CASE: the planner must not lead by an index of one condition, which may hold for half of the store.
        query = select(traces.c.id).where(among(self.connection, traces.c.id, ids), case((and_(*rest), 1)) == 1)
        matches = set(self.connection.scalars(query))
        return [trace for trace in ids if trace in matches]


@dataclass(frozen=True, slots=True)
class _Matches:
    ids: Sequence[int]
    after: str | None
    total: int | None = None


# --- newest first --------------------------------------------------------------------------------------------


def _newest(search: _Search, after: str | None) -> _Matches:
    high = min(search.high, _parse_id(after) - 1) if after else search.high
    lead, all_ids = _lead(search, high)
    if all_ids is not None:
        ids = search.check(all_ids, lead)
        has_more = len(ids) > search.limit
        return _Matches(ids[: search.limit], str(ids[search.limit - 1]) if has_more else None, len(ids))
    listing = lead.listing if lead is not None and lead.listing is not None else filters.list_all
    ids, last = _walk(search, listing, lead, high, search.limit + 1)
    if len(ids) > search.limit:
        return _Matches(ids[: search.limit], str(ids[search.limit - 1]))
    return _Matches(ids, None if last is None else str(last))


def _lead(search: _Search, high: int) -> tuple[filters.Condition | None, list[int] | None]:
    """The condition whose ids are the candidates, and all its ids if it has few.

    If all conditions have many, it is the one whose first ids reach back furthest: it has the fewest in a period."""
    reach: list[tuple[int, int]] = []
    for i, condition in enumerate(search.conditions):
        if condition.listing is not None:
            ids = condition.listing(search.connection, search.low, high, _PROBE)
            if len(ids) < _PROBE:
                return condition, ids
            reach.append((ids[-1], i))
    return (search.conditions[min(reach)[1]], None) if reach else (None, None)


def _walk(
    search: _Search, listing: filters.Listing, lead: filters.Condition | None, high: int, count: int
) -> tuple[list[int], int | None]:
    """At least `count` ids that fulfil all conditions, if there are so many, and the id to continue after: None at the
    end."""
    matches: list[int] = []
    is_sufficient = all(condition is lead and condition.only for condition in search.conditions)
    size = count if is_sufficient else min(max(2 * count, 100), _CHUNK)
    while True:
        ids = listing(search.connection, search.low, high, size)
        matches += search.check(ids, lead)
        if len(ids) < size:
            return matches, None
        if len(matches) >= count or search.is_late():
            return matches, ids[-1]
        high, size = ids[-1] - 1, min(4 * size, _CHUNK)


def _parse_id(after: str) -> int:
    if not (after.isascii() and after.isdigit() and len(after) < 19):
        raise SettingError("`after` is not a cursor returned by a previous page")
    return int(after)


# --- worst first ---------------------------------------------------------------------------------------------


def _worst(search: _Search, filter: Filter, after: str | None) -> _Matches:
    """Searches bucket by bucket, each as above. A cursor is `bucket.id`."""
    used = filters.used_buckets(search.connection, filter, values_only=True)
    sign = 1 if filters.higher_is_better(search.connection, filter.evaluator) else -1
    used = used[::sign]
    start, last = _parse_place(after)
    if start is not None:
        # After id 0 nothing is left of a bucket.
        used = [number for number in used if number * sign > start * sign or (number == start and last > 0)]
    lead, all_ids = _lead(search, search.high)
    if all_ids is not None:
        return _sort_worst(search, filter, search.check(all_ids, lead), (start, last, sign))
    matches: list[tuple[int, int]] = []
    for number in used:
        high = min(search.high, last - 1) if number == start else search.high
        listing = filters.list_bucket(search.connection, filter, number)
        ids, end = _walk(search, listing, None, high, search.limit + 1 - len(matches))
        matches += [(number, trace) for trace in ids]
        if len(matches) > search.limit:
            cursor = "{}.{}".format(*matches[search.limit - 1])
            return _Matches([trace for _, trace in matches[: search.limit]], cursor)
        if end is not None or (search.is_late() and number != used[-1]):
            return _Matches([trace for _, trace in matches], f"{number}.{0 if end is None else end}")
    return _Matches([trace for _, trace in matches], None)


def _sort_worst(search: _Search, filter: Filter, ids: Sequence[int], place: tuple[int | None, int, int]) -> _Matches:
    """Sorts few traces, worst first, and takes the page after a place (bucket, id, sign)."""
    start, last, sign = place
    query = select(scores.c.bucket, scores.c.trace).where(
        among(search.connection, scores.c.trace, ids),
        scores.c.value.is_not(None),
        *filters.score_conditions(search.connection, filter),
    )
    ranked = sorted({(number * sign, -trace) for number, trace in search.connection.execute(query)})
    total = len(ranked)
    if start is not None:
        ranked = [rank for rank in ranked if rank > (start * sign, -last)]
    page = [(number * sign, -trace) for number, trace in ranked[: search.limit]]
    has_more = len(ranked) > search.limit
    return _Matches([trace for _, trace in page], "{}.{}".format(*page[-1]) if has_more else None, total)


def _parse_place(after: str | None) -> tuple[int | None, int]:
    if after is None:
        return None, 0
    number, _, last = after.rpartition(".")
    if not (number.isascii() and number.removeprefix("-").isdigit() and len(number) < 7):
        raise SettingError("`after` is not a cursor returned by a previous page")
    return int(number), _parse_id(last)


# --- what a page shows ---------------------------------------------------------------------------------------


def summaries(store: Store, ids: Sequence[int]) -> tuple[TraceSummary, ...]:
    """Reads the rows of traces by the store's ids, in their order; without those that are not stored."""
    with store.reading() as connection:
        return _rows(store, connection, ids)


def _rows(store: Store, connection: Connection, ids: Sequence[int]) -> tuple[TraceSummary, ...]:
    """Reads the rows of these traces, in their order."""
    if not ids:
        return ()
    texts = [func.substr(contents.c[name], 1, _BEGINNING).label(name) for name in ("query", "answer")]
    query = select(traces, *texts, contents.c.sealed, contents.c.key)
    query = query.join(contents, contents.c.trace == traces.c.id).where(among(connection, traces.c.id, ids))
    rows = {row["id"]: row for row in connection.execute(query).mappings()}
    by_trace = _scores(connection, ids)
    return tuple(_row(store, rows[trace], by_trace.get(trace, {})) for trace in ids if trace in rows)


def _row(store: Store, row: Mapping[Any, Any], values: Mapping[str, tuple[float | None, str | None]]) -> TraceSummary:
    texts = store.unseal(row["trace_id"], row, ("query", "answer"))
    names = ("id", "trace_id", "started", "duration", "app", "model", "prompt_version", "error", "cause", "thumbs")
    return TraceSummary(
        **{name: row[name] for name in names}, reviewed=bool(row["reviewed"]),
        query=(texts["query"] or "")[:_BEGINNING], answer=(texts["answer"] or "")[:_BEGINNING], scores=values,
    )  # fmt: skip


def _scores(connection: Connection, ids: Sequence[int]) -> dict[int, dict[str, tuple[float | None, str | None]]]:
    query = select(scores.c.trace, scores.c.evaluator, scores.c.value, scores.c.label, scores.c.error)
    query = query.where(among(connection, scores.c.trace, ids)).order_by(scores.c.id)
    by_trace: dict[int, dict[str, tuple[float | None, str | None]]] = {}
    for trace, name, value, label, error in connection.execute(query):
        by_trace.setdefault(trace, {})[name] = (value, "error" if error is not None else label)
    return by_trace


def choices(store: Store) -> dict[str, list[str]]:
    """Returns the values that a filter can have, by its field: `app`, `env`, `model`, `prompt_version`, `cause`,
    `evaluator`, `version`, `label`. At most 200 of each, sorted."""
    with store.reading() as connection:
        values = {
            name: _distinct(connection, "traces", name) for name in ("app", "env", "model", "prompt_version", "cause")
        }
        rows = connection.execute(select(evaluators.c.name, evaluators.c.version)).all()
        values["evaluator"] = sorted({name for name, _ in rows})[:_CHOICES]
        values["version"] = sorted({version for _, version in rows})[:_CHOICES]
        labels = {"error"}
        for name in values["evaluator"]:
            labels.update(_distinct(connection, "scores", "label", "AND evaluator = :e", e=name))
        values["label"] = sorted(labels)[:_CHOICES]
    return values


def _distinct(connection: Connection, table: str, name: str, more: str = "", **values: str) -> list[str]:
    # The names are constants. From each value straight to the next one: one look into the index for each value.
    query = text(f"""
        WITH RECURSIVE used (v) AS (
            SELECT (SELECT min({name}) FROM {table} WHERE {name} IS NOT NULL {more})
            UNION ALL
            SELECT (SELECT min({name}) FROM {table} WHERE {name} > used.v {more}) FROM used WHERE used.v IS NOT NULL
        ) SELECT v FROM used WHERE v IS NOT NULL AND v <> '' LIMIT {_CHOICES}""")
    return sorted(connection.scalars(query, values))
