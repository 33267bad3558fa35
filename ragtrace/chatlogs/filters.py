"""What a filter asks, as conditions: each one can be checked of a trace, and most can list their traces newest first
from an index that is in the order of ids."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from sqlalchemy import ColumnElement, Connection, Select, exists, false, select, text

from ragtrace.chatlogs import full_text
from ragtrace.chatlogs.encryption import user_keys
from ragtrace.chatlogs.records import Filter
from ragtrace.chatlogs.schema import NO_VALUE, bucket, evaluators, scores, traces
from ragtrace.errors import SettingError

if TYPE_CHECKING:
    from ragtrace.chatlogs.store import Store

_COMMON = 20_000
"""Traces with a word from which on PostgreSQL walks through time instead of collecting them all from its index."""

Listing = Callable[[Connection, int, int, int], list[int]]
"""(connection, lowest id, highest id, how many at most) → trace ids, descending, maybe some twice. Fewer than that many
say that there are no more."""


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition."""

    where: Any
    """Of a row of `traces`."""
    listing: Listing | None = None
    only: bool = False
    """Whether every listed id fulfils the condition, so that it need not be checked again."""


def parse_filter(store: Store, connection: Connection, given: Filter) -> list[Condition]:
    """The conditions of a filter. Raises SettingError for one that this store cannot answer."""
    found = [_equal(column, value) for column, value in _columns(store, given) if value]
    if given.since is not None:
        found.append(Condition(traces.c.started >= given.since))
    if given.until is not None:
        found.append(Condition(traces.c.started < given.until))
    for column_, wanted in ((traces.c.thumbs, given.thumbs), (traces.c.reviewed, given.reviewed)):
        if wanted is not None:
            found.append(_equal(column_, (wanted,)))
    if given.errors is not None:
        found.append(_failed() if given.errors else Condition(traces.c.error.is_(None)))
    if given.evaluator:
        found += _scored(connection, given)
    elif given.label or given.version or given.low is not None or given.high is not None:
        raise SettingError("label, version, low and high speak of an evaluator; name one with evaluator")
    if given.text.strip():
        found.append(_text(store, connection, given.text))
    return found


def list_all(connection: Connection, low: int, high: int, most: int) -> list[int]:
    """Lists all traces."""
    return _listing(select(traces.c.id), traces.c.id)(connection, low, high, most)


def _columns(store: Store, given: Filter) -> Iterable[tuple[Any, Sequence[Any]]]:
    for name in ("app", "env", "model", "prompt_version", "session_id", "cause"):
        value = getattr(given, name)
        yield traces.c[name], (value,) if value else ()
    yield traces.c.user_key, user_keys(store.keys, given.user_id) if given.user_id else ()


def _listing(query: Select[Any], own: ColumnElement[int]) -> Listing:
    def listed(connection: Connection, low: int, high: int, most: int) -> list[int]:
        return list(connection.scalars(query.where(own >= low, own <= high).order_by(own.desc()).limit(most)))

    return listed


def _equal(column_: Any, values: Sequence[Any]) -> Condition:
    where = column_ == values[0] if len(values) == 1 else column_.in_(values)
    return Condition(where, _listing(select(traces.c.id).where(where), traces.c.id), only=True)


def _failed() -> Condition:
    where = traces.c.error.is_not(None)
    return Condition(where, _listing(select(traces.c.id).where(where), traces.c.id), only=True)


# --- scores --------------------------------------------------------------------------------------------------


def score_conditions(connection: Connection, given: Filter) -> list[ColumnElement[bool]]:
    """What a filter asks of a row of `scores`; without a version, that it is the evaluator's last one of the trace."""
    found = _listable(given)
    if given.version:
        found.append(scores.c.version == given.version)
    elif len(connection.execute(select(evaluators.c.version).where(evaluators.c.name == given.evaluator)).all()) > 1:
        found.append(_newest())
    return found


def _listable(given: Filter) -> list[ColumnElement[bool]]:
    """Those of the conditions that indexes have."""
    found: list[ColumnElement[bool]] = [scores.c.evaluator == given.evaluator]
    if given.label == "error":
        found.append(scores.c.error.is_not(None))
    elif given.label:
        found.append(scores.c.label == given.label)
    if given.low is not None:
        found.append(scores.c.value >= given.low)
    if given.high is not None:
        found.append(scores.c.value <= given.high)
    return found


def _scored(connection: Connection, given: Filter) -> list[Condition]:
    """The condition on scores; once more with another listing where both label and range may be what is rare."""
    wanted = score_conditions(connection, given)
    where = exists().where(scores.c.trace == traces.c.id, *wanted)
    found = []
    if given.label:
        of_label = select(scores.c.trace).where(*_listable(given)[:2])
        found.append(Condition(where, _listing(of_label, scores.c.trace), only=len(wanted) == 2))
    ranged = given.low is not None or given.high is not None
    if ranged or not given.label:
        used = used_buckets(connection, given.evaluator, given.low, given.high)
        found.append(Condition(where, partial(_in_buckets, given, used), only=len(wanted) == len(_listable(given))))
    return found


def higher_is_better(connection: Connection, evaluator: str) -> bool:
    """Which way an evaluator's values are good, by its newest version."""
    query = select(evaluators.c.direction).where(evaluators.c.name == evaluator)
    return connection.scalar(query.order_by(evaluators.c.first_seen.desc()).limit(1)) != "lower"


def list_bucket(connection: Connection, given: Filter, own: int) -> Listing:
    """The traces with a score of the filter's evaluator in this bucket."""
    query = select(scores.c.trace).where(scores.c.bucket == own, *score_conditions(connection, given))
    return _listing(query, scores.c.trace)


def _newest() -> ColumnElement[bool]:
    """That a score is its evaluator's last one of the trace."""
    later = scores.alias("later")
    return ~exists().where(
        later.c.trace == scores.c.trace, later.c.evaluator == scores.c.evaluator, later.c.id > scores.c.id
    )


def _in_buckets(  # noqa: PLR0917 a listing with two things bound
    given: Filter, used: Sequence[int], connection: Connection, low: int, high: int, most: int
) -> list[int]:
    """Lists traces by their scores in these buckets. Each bucket is a stretch of an index in the order of ids: a few
    are taken of each, and more only where those of the other buckets reach further back."""
    each = max(16, 4 * most // max(1, len(used)))
    while used:
        rows = _firsts(given, used, connection, (low, high, min(each, most)))
        counts = Counter(b for b, _ in rows)
        full = {b for b, count in counts.items() if count == min(each, most)}
        reached = max((min(own for b, own in rows if b == f) for f in full), default=low)
        found = sorted((own for _, own in rows if own >= reached), reverse=True)
        if len(found) >= most or not full:
            return found[:most]
        each *= 4
    return []


def _firsts(
    given: Filter, used: Sequence[int], connection: Connection, bounds: tuple[int, int, int]
) -> Sequence[tuple[int, int]]:
    """Of each bucket the latest traces, as (bucket, trace)."""
    values: dict[str, Any] = dict(zip(("lowest", "highest", "most"), bounds, strict=True), e=given.evaluator)
    more = ""
    for name, sign in (("low", ">="), ("high", "<=")):
        if (value := getattr(given, name)) is not None:
            values[name] = value
            more += f" AND value {sign} :{name}"
    # In text: a statement of a hundred parts would take SQLAlchemy longer to write than SQLite to run.
    part = (
        "SELECT trace FROM scores WHERE evaluator = :e AND bucket = {} AND trace BETWEEN :lowest AND :highest"
        + more
        + " ORDER BY trace DESC LIMIT :most"
    )
    if connection.dialect.name == "sqlite":
        query = " UNION ALL ".join(f"SELECT {b}, trace FROM ({part.format(b)})" for b in used)
    else:
        query = f"SELECT b, trace FROM unnest(CAST(:used AS smallint[])) AS b CROSS JOIN LATERAL ({part.format('b')}) t"
        values["used"] = list(used)
    return [(b, own) for b, own in connection.execute(text(query), values)]


def used_buckets(
    connection: Connection, evaluator: str, low: float | None, high: float | None, *, valued: bool = False
) -> list[int]:
    """The buckets with scores of an evaluator that a range of values touches, ascending. Without a range all of them,
    unless `valued` that of scores without a value too."""
    ranged = valued or low is not None or high is not None
    first = bucket(low) if low is not None else NO_VALUE + ranged
    last = bucket(high) if high is not None else -NO_VALUE
    # From each one straight to the next: as many looks into the index as there are buckets.
    query = text("""
        WITH RECURSIVE used (b) AS (
            SELECT (SELECT min(bucket) FROM scores WHERE evaluator = :e AND bucket >= :first)
            UNION ALL
            SELECT (SELECT min(bucket) FROM scores WHERE evaluator = :e AND bucket > used.b) FROM used
            WHERE used.b IS NOT NULL AND used.b < :last
        ) SELECT b FROM used WHERE b <= :last""")
    return list(connection.scalars(query, {"e": evaluator, "first": first, "last": last}))


# --- text ----------------------------------------------------------------------------------------------------


def _text(store: Store, connection: Connection, given: str) -> Condition:
    if store.keys is not None:
        raise SettingError(
            "this store is encrypted: an index of the words would tell what is sealed, so there is none and texts "
            "cannot be searched; filter by time, application, model, score, session or user"
        )
    phrases = full_text.parse_phrases(given)
    if not phrases:
        return Condition(false())
    if store.sqlite:
        return _fts5(full_text.fts5_query(phrases))
    return _tsquery(connection, phrases)


def _fts5(query: str) -> Condition:
    def listing(connection: Connection, low: int, high: int, most: int) -> list[int]:
        matching = text(
            "SELECT rowid FROM search WHERE search MATCH :query AND rowid BETWEEN :low AND :high "
            "ORDER BY rowid DESC LIMIT :most"
        )
        return list(connection.scalars(matching, {"query": query, "low": low, "high": high, "most": most}))

    where = text("EXISTS (SELECT 1 FROM search WHERE search MATCH :query AND search.rowid = traces.id)")
    return Condition(where.bindparams(query=query), listing, only=True)


def _tsquery(connection: Connection, phrases: Sequence[Sequence[str]]) -> Condition:
    values = {f"q{i}": " ".join(phrase) for i, phrase in enumerate(phrases)}
    asked = " && ".join(f"phraseto_tsquery('simple', :{name})" for name in values)
    plan = connection.scalar(text(f"EXPLAIN (FORMAT JSON) SELECT trace FROM search WHERE words @@ ({asked})"), values)
    where: Any = text(f"EXISTS (SELECT 1 FROM search WHERE words @@ ({asked}) AND search.trace = traces.id)")
    where = where.bindparams(**values)
    if plan[0]["Plan"]["Plan Rows"] > _COMMON:
        return Condition(where)

    # MATERIALIZED: else the planner may walk through all traces, newest first, in the hope of meeting one soon.
    matching = text(
        f"WITH hit AS MATERIALIZED (SELECT trace FROM search WHERE words @@ ({asked})) "
        "SELECT trace FROM hit WHERE trace BETWEEN :low AND :high ORDER BY trace DESC LIMIT :most"
    )

    def listing(connection: Connection, low: int, high: int, most: int) -> list[int]:
        return list(connection.scalars(matching, {"low": low, "high": high, "most": most, **values}))

    return Condition(where, listing, only=True)
