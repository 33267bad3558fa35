"""Pages of stored traces that a filter asks for, in bounded time however many there are.

No page counts or sorts what it does not show. The condition that lists fewest traces leads: its ids come from an index
in descending order, a chunk at a time, and the other conditions are checked of these alone. Where neither condition is
rare but both together are, a page ends after `_SECONDS` with what was found, and tells where to go on.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from sqlalchemy import BigInteger, ColumnElement, Connection, and_, bindparam, case, func, select, text
from sqlalchemy.dialects.postgresql import ARRAY

from ragtrace.chatlogs.encryption import clean
from ragtrace.chatlogs.filters import (
    Condition,
    Listing,
    higher_is_better,
    list_all,
    list_bucket,
    parse_filter,
    score_conditions,
    used_buckets,
)
from ragtrace.chatlogs.records import Filter, Page, Row
from ragtrace.chatlogs.schema import contents, evaluators, lowest_id, scores, traces
from ragtrace.errors import SettingError

if TYPE_CHECKING:
    from ragtrace.chatlogs.store import Store

_SECONDS = 0.5
"""How long a page is looked for; a chunk that was begun is finished."""
_PROBE = 400
"""Ids that each condition lists at first: a condition with fewer leads, and all its traces are checked at once."""
_CHUNK = 10_000
"""Ids that are checked at once at most."""
_HIGHEST = 2**62
_BEGINNING = 300
_MOST = 1_000
_CHOICES = 200


def find(store: Store, filter: Filter, *, after: str | None = None, limit: int = 50, order: str = "newest") -> Page:
    """A page of the traces that a filter asks for. `after` is the `after` of the page before.

    `newest`: by the request's start, latest first. `worst`: by the value of the filter's evaluator, worst first in
    steps of 0.01 (see `schema.bucket`), latest first within a step; scores without a value are left out. A page may
    have fewer rows than `limit` (at most 1,000) and still be followed by others: rare combinations are looked for
    piece by piece.

    Raises SettingError for `worst` without an evaluator, a text in an encrypted store, and an `after` that is none.
    """
    if order not in ("newest", "worst"):
        raise SettingError(f"order is {order!r}; give newest or worst")
    if order == "worst" and not filter.evaluator:
        raise SettingError("order worst needs to know by which evaluator; name one with evaluator")
    filter = _cleaned(filter)
    with store.reading() as connection:
        terms = parse_filter(store, connection, filter)
        until = time.monotonic() + _SECONDS
        look = _Look(connection, terms, *_bounds(filter), min(max(1, limit), _MOST), until)
        found = _newest(look, after) if order == "newest" else _worst(look, filter, after)
        rows = _rows(store, connection, found.ids)
    if after is None and found.after is None:
        return Page(rows, None, len(rows))
    return Page(rows, found.after, found.total if after is None else None)


def _cleaned(given: Filter) -> Filter:
    """With texts as they are stored: neither database takes NUL or a lone surrogate."""
    texts: dict[str, Any] = {
        name: clean(value) for name in Filter.__slots__ if isinstance(value := getattr(given, name), str)
    }
    # Past the user id: what is hidden of it is that of the id as it was given.
    return replace(given, **(texts | {"user_id": given.user_id}))


def _bounds(given: Filter) -> tuple[int, int]:
    low = 0 if given.since is None else lowest_id(given.since)
    return low, _HIGHEST if given.until is None else lowest_id(given.until + 1)


@dataclass(frozen=True, slots=True)
class _Look:
    """One search: its conditions, the ids between which it looks, both inclusive, and how long."""

    connection: Connection
    terms: Sequence[Condition]
    low: int
    high: int
    limit: int
    until: float

    def late(self) -> bool:
        return time.monotonic() > self.until

    def listed(self, listing: Listing, high: int, most: int) -> list[int]:
        return listing(self.connection, self.low, high, most)

    def checked(self, ids: Sequence[int], lead: Condition | None) -> list[int]:
        """Those of `ids`, in their order, that fulfil all conditions; `lead` is the one that listed them."""
        ids = list(dict.fromkeys(ids))
        left = [term.where for term in self.terms if not (term is lead and term.only)]
        if not left or not ids:
            return ids
        # CASE: no planner may lead by an index of one of the conditions, each of which may hold of half the store.
        query = select(traces.c.id).where(_among(self.connection, traces.c.id, ids), case((and_(*left), 1)) == 1)
        kept = set(self.connection.scalars(query))
        return [own for own in ids if own in kept]


def _among(connection: Connection, own: ColumnElement[int], ids: Sequence[int]) -> ColumnElement[bool]:
    """That a column is one of many ids, which go as one parameter."""
    if connection.dialect.name == "sqlite":
        return own.in_(text("SELECT value FROM json_each(:ids)").bindparams(ids=json.dumps(list(ids))))
    return own == func.any(bindparam("ids", list(ids), ARRAY(BigInteger)))


@dataclass(frozen=True, slots=True)
class _Found:
    ids: Sequence[int]
    after: str | None
    total: int | None = None


# --- newest first --------------------------------------------------------------------------------------------


def _newest(look: _Look, after: str | None) -> _Found:
    high = min(look.high, _number(after) - 1) if after else look.high
    lead, whole = _lead(look, high)
    if whole is not None:
        kept = look.checked(whole, lead)
        more = len(kept) > look.limit
        return _Found(kept[: look.limit], str(kept[look.limit - 1]) if more else None, len(kept))
    listing = lead.listing if lead is not None and lead.listing is not None else list_all
    found, last = _walked(look, listing, lead, high, look.limit + 1)
    if len(found) > look.limit:
        return _Found(found[: look.limit], str(found[look.limit - 1]))
    return _Found(found, None if last is None else str(last))


def _lead(look: _Look, high: int) -> tuple[Condition | None, list[int] | None]:
    """The condition that lists the others' candidates, and all its ids where it has few.

    Of conditions with many the one whose first ids reach back farthest: it has the fewest in a stretch of time.
    """
    lists = [term for term in look.terms if term.listing is not None]
    reach: list[tuple[int, int]] = []
    for i, term in enumerate(lists):
        ids = look.listed(term.listing, high, _PROBE)  # type: ignore[arg-type]
        if len(ids) < _PROBE:
            return term, ids
        reach.append((ids[-1], i))
    return (lists[min(reach)[1]], None) if reach else (None, None)


def _walked(
    look: _Look, listing: Listing, lead: Condition | None, high: int, wanted: int
) -> tuple[list[int], int | None]:
    """Ids that fulfil all conditions, at least `wanted` if there are, and the id to go on after: None at the end."""
    found: list[int] = []
    settled = all(term is lead and term.only for term in look.terms)
    size = wanted if settled else min(max(2 * wanted, 100), _CHUNK)
    while True:
        ids = look.listed(listing, high, size)
        found += look.checked(ids, lead)
        if len(ids) < size:
            return found, None
        if len(found) >= wanted or look.late():
            return found, ids[-1]
        high, size = ids[-1] - 1, min(4 * size, _CHUNK)


def _number(after: str) -> int:
    if not (after.isascii() and after.isdigit() and len(after) < 19):
        raise SettingError("after is none that a page gave")
    return int(after)


# --- worst first ---------------------------------------------------------------------------------------------


def _worst(look: _Look, given: Filter, after: str | None) -> _Found:
    """Bucket by bucket, each as above. A cursor is `bucket.id`."""
    used = used_buckets(look.connection, given.evaluator, given.low, given.high, valued=True)
    if higher_is_better(look.connection, given.evaluator):
        worse = 1
    else:
        worse = -1
        used.reverse()
    start, last = _place(after)
    if start is not None:
        # Past id 0 nothing is left of a bucket.
        used = [b for b in used if b * worse > start * worse or (b == start and last > 0)]
    lead, whole = _lead(look, look.high)
    if whole is not None:
        return _worst_of(look, given, look.checked(whole, lead), (start, last, worse))
    found: list[tuple[int, int]] = []
    for b in used:
        high = min(look.high, last - 1) if b == start else look.high
        kept, end = _walked(look, list_bucket(look.connection, given, b), None, high, look.limit + 1 - len(found))
        found += [(b, own) for own in kept]
        if len(found) > look.limit:
            return _Found([own for _, own in found[: look.limit]], "{}.{}".format(*found[look.limit - 1]))
        if end is not None or (look.late() and b != used[-1]):
            return _Found([own for _, own in found], f"{b}.{0 if end is None else end}")
    return _Found([own for _, own in found], None)


def _worst_of(look: _Look, given: Filter, ids: Sequence[int], place: tuple[int | None, int, int]) -> _Found:
    """The same of few traces, sorted."""
    start, last, worse = place
    query = select(scores.c.bucket, scores.c.trace).where(
        _among(look.connection, scores.c.trace, ids),
        scores.c.value.is_not(None),
        *score_conditions(look.connection, given),
    )
    ranked = sorted({(b * worse, -own) for b, own in look.connection.execute(query)})
    total = len(ranked)
    if start is not None:
        ranked = [each for each in ranked if each > (start * worse, -last)]
    page = [(b * worse, -own) for b, own in ranked[: look.limit]]
    more = len(ranked) > look.limit
    return _Found([own for _, own in page], "{}.{}".format(*page[-1]) if more else None, total)


def _place(after: str | None) -> tuple[int | None, int]:
    if after is None:
        return None, 0
    first, _, last = after.rpartition(".")
    if not (first.isascii() and first.removeprefix("-").isdigit() and len(first) < 7):
        raise SettingError("after is none that a page gave")
    return int(first), _number(last)


# --- what a page shows ---------------------------------------------------------------------------------------


def _rows(store: Store, connection: Connection, ids: Sequence[int]) -> tuple[Row, ...]:
    """The rows of these traces, in their order."""
    if not ids:
        return ()
    texts = [func.substr(contents.c[name], 1, _BEGINNING).label(name) for name in ("query", "answer")]
    query = select(traces, *texts, contents.c.sealed, contents.c.key)
    query = query.join(contents, contents.c.trace == traces.c.id).where(_among(connection, traces.c.id, ids))
    found = {row["id"]: row for row in connection.execute(query).mappings()}
    scored = _scores(connection, ids)
    return tuple(_row(store, found[own], scored.get(own, {})) for own in ids if own in found)


def _row(store: Store, row: Mapping[Any, Any], scored: Mapping[str, tuple[float | None, str | None]]) -> Row:
    said = store.unseal(row["trace_id"], row, ("query", "answer"))
    names = ("id", "trace_id", "started", "duration", "app", "model", "prompt_version", "error", "cause", "thumbs")
    return Row(
        **{name: row[name] for name in names},
        reviewed=bool(row["reviewed"]),
        query=(said["query"] or "")[:_BEGINNING],
        answer=(said["answer"] or "")[:_BEGINNING],
        scores=scored,
    )


def _scores(connection: Connection, ids: Sequence[int]) -> dict[int, dict[str, tuple[float | None, str | None]]]:
    query = select(scores.c.trace, scores.c.evaluator, scores.c.value, scores.c.label, scores.c.error)
    found: dict[int, dict[str, tuple[float | None, str | None]]] = {}
    for own, name, value, label, error in connection.execute(
        query.where(_among(connection, scores.c.trace, ids)).order_by(scores.c.id)
    ):
        found.setdefault(own, {})[name] = (value, "error" if error is not None else label)
    return found


def choices(store: Store) -> dict[str, list[str]]:
    """What can be chosen in a filter, by the filter's field: `app`, `env`, `model`, `prompt_version`, `cause`,
    `evaluator`, `version`, `label`. At most 200 of each, sorted."""
    with store.reading() as connection:
        found = {
            name: _distinct(connection, "traces", name) for name in ("app", "env", "model", "prompt_version", "cause")
        }
        known = connection.execute(select(evaluators.c.name, evaluators.c.version)).all()
        found["evaluator"] = sorted({name for name, _ in known})[:_CHOICES]
        found["version"] = sorted({version for _, version in known})[:_CHOICES]
        labels: set[str] = set()
        for name in found["evaluator"]:
            labels.update(_distinct(connection, "scores", "label", "AND evaluator = :e", e=name))
        found["label"] = sorted(labels | {"error"})[:_CHOICES]
    return found


def _distinct(connection: Connection, table: str, name: str, more: str = "", **values: str) -> list[str]:
    # Names are ours. From each value straight to the next one: a look into the index for each, not for each row.
    query = text(f"""
        WITH RECURSIVE used (v) AS (
            SELECT (SELECT min({name}) FROM {table} WHERE {name} IS NOT NULL {more})
            UNION ALL
            SELECT (SELECT min({name}) FROM {table} WHERE {name} > used.v {more}) FROM used WHERE used.v IS NOT NULL
        ) SELECT v FROM used WHERE v IS NOT NULL AND v <> '' LIMIT {_CHOICES}""")
    return sorted(connection.scalars(query, values))
