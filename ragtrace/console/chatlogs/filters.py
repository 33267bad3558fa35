"""Translates a filter into conditions. Each condition can be checked for a trace; most can also list their traces, the
newest first, from an index in the order of ids."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from sqlalchemy import BigInteger, ColumnElement, Connection, Select, column, exists, false, select, table, text

from ragtrace.console.chatlogs import full_text
from ragtrace.console.chatlogs.encryption import user_keys
from ragtrace.console.chatlogs.schema import NO_VALUE, bucket, evaluators, scores, trace_topics, traces
from ragtrace.console.chatlogs.store import Store
from ragtrace.console.chatlogs.store_types import Filter
from ragtrace.errors import SettingError

_COMMON = 20_000
"""Number of traces with a word from which on PostgreSQL walks through time instead of reading them all from the index
of words."""

NO_TOPIC = "none"
"""In the place of a topic's id: the questions that were looked at and fit no topic."""

Listing = Callable[[Connection, int, int, int], list[int]]
"""(connection, lowest id, highest id, limit) → trace ids in descending order, possibly with repetitions. Fewer ids than
the limit mean that there are no more."""


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition of a filter."""

    where: Any
    """The condition for a row of `traces`."""
    listing: Listing | None = None
    only: bool = False
    """Whether every listed id fulfils the condition, so that it need not be checked again."""


def parse_filter(store: Store, connection: Connection, filter: Filter) -> list[Condition]:
    """Returns the conditions of a filter. Raises SettingError for a condition that this store cannot answer."""
    conditions = []
    for name in ("app", "env", "model", "prompt_version", "tenant", "session_id", "cause"):
        if value := getattr(filter, name):
            conditions.append(_equal(traces.c[name], (value,)))
    if filter.user_id:
        conditions.append(_equal(traces.c.user_key, user_keys(store.keys, filter.user_id)))
    if filter.topic:
        conditions.append(_in_topic(filter.topic))
    if filter.since is not None:
        conditions.append(Condition(traces.c.started >= filter.since))
    if filter.until is not None:
        conditions.append(Condition(traces.c.started < filter.until))
    for name in ("thumbs", "reviewed"):
        if (flag := getattr(filter, name)) is not None:
            conditions.append(_equal(traces.c[name], (flag,)))
    if filter.errors is not None:
        conditions.append(
            _listed(traces.c.error.is_not(None)) if filter.errors else Condition(traces.c.error.is_(None))
        )
    if filter.evaluator:
        conditions += _scored(connection, filter)
    elif filter.label or filter.version or filter.low is not None or filter.high is not None:
        raise SettingError("label, version, low and high need an evaluator; name one with evaluator")
    if filter.text.strip():
        conditions.append(_text(store, connection, filter.text))
    return conditions


def _listing(query: Select[Any], column: ColumnElement[int]) -> Listing:
    def list_ids(connection: Connection, low: int, high: int, most: int) -> list[int]:
        limited = query.where(column >= low, column <= high).order_by(column.desc()).limit(most)
        return list(connection.scalars(limited))

    return list_ids


list_all = _listing(select(traces.c.id), traces.c.id)
"""Lists all traces."""


def _listed(where: ColumnElement[bool]) -> Condition:
    """A condition on `traces` that has an index in the order of ids."""
    return Condition(where, _listing(select(traces.c.id).where(where), traces.c.id), only=True)


def _equal(column: Any, values: Sequence[Any]) -> Condition:
    return _listed(column == values[0] if len(values) == 1 else column.in_(values))


def _in_topic(topic: str) -> Condition:
    where: ColumnElement[bool]
    if topic == NO_TOPIC:
        where = trace_topics.c.topic.is_(None)
    elif topic.isascii() and topic.isdigit() and len(topic) < 19:
        where = trace_topics.c.topic == int(topic)
    else:
        raise SettingError(f"topic is {topic[:60]!r}; give the id of a topic, or {NO_TOPIC}")
    listing = _listing(select(trace_topics.c.trace).where(where), trace_topics.c.trace)
    return Condition(exists().where(trace_topics.c.trace == traces.c.id, where), listing, only=True)


# --- scores --------------------------------------------------------------------------------------------------


def score_conditions(connection: Connection, filter: Filter) -> list[ColumnElement[bool]]:
    """Returns the conditions on a row of `scores`; without a version, the row must be the evaluator's newest score of
    the trace."""
    conditions = _indexed_conditions(filter)
    versions = select(evaluators.c.version).where(evaluators.c.name == filter.evaluator)
    if filter.version:
        conditions.append(scores.c.version == filter.version)
    elif len(connection.execute(versions).all()) > 1:
        later = scores.alias("later")
        same = (later.c.trace == scores.c.trace) & (later.c.evaluator == scores.c.evaluator)
        conditions.append(~exists().where(same, later.c.id > scores.c.id))
    return conditions


def _indexed_conditions(filter: Filter) -> list[ColumnElement[bool]]:
    """Those of the conditions that an index contains: evaluator, label, range."""
    conditions: list[ColumnElement[bool]] = [scores.c.evaluator == filter.evaluator]
    if filter.label == "error":
        conditions.append(scores.c.error.is_not(None))
    elif filter.label:
        conditions.append(scores.c.label == filter.label)
    if filter.low is not None:
        conditions.append(scores.c.value >= filter.low)
    if filter.high is not None:
        conditions.append(scores.c.value <= filter.high)
    return conditions


def _scored(connection: Connection, filter: Filter) -> list[Condition]:
    """The condition on scores; twice, with two listings, if both the label and the range may be rare."""
    on_scores = score_conditions(connection, filter)
    where = exists().where(scores.c.trace == traces.c.id, *on_scores)
    conditions = []
    if filter.label:
        with_label = select(scores.c.trace).where(*_indexed_conditions(filter)[:2])
        conditions.append(Condition(where, _listing(with_label, scores.c.trace), only=len(on_scores) == 2))
    if filter.low is not None or filter.high is not None or not filter.label:
        used = used_buckets(connection, filter)
        only = len(on_scores) == len(_indexed_conditions(filter))
        conditions.append(Condition(where, partial(_list_buckets, filter, used), only=only))
    return conditions


def higher_is_better(connection: Connection, evaluator: str) -> bool:
    """Whether higher values are better, by the evaluator's newest version."""
    query = select(evaluators.c.direction).where(evaluators.c.name == evaluator)
    return connection.scalar(query.order_by(evaluators.c.first_seen.desc()).limit(1)) != "lower"


def list_bucket(connection: Connection, filter: Filter, number: int) -> Listing:
    """Lists the traces with a score of the filter's evaluator in this bucket."""
    query = select(scores.c.trace).where(scores.c.bucket == number, *score_conditions(connection, filter))
    return _listing(query, scores.c.trace)


def _list_buckets(  # noqa: PLR0917 a listing with two arguments bound
    filter: Filter, used: Sequence[int], connection: Connection, low: int, high: int, most: int
) -> list[int]:
    """Lists traces by their scores in these buckets. Each bucket is a range of an index in the order of ids: a few
    traces of each are read, and more only if those of the other buckets reach further back."""
    size = max(16, 4 * most // max(1, len(used)))
    while used:
        limit = min(size, most)
        rows = _first_rows(filter, used, connection, (low, high, limit))
        counts = Counter(number for number, _ in rows)
        full = {number for number, count in counts.items() if count == limit}
        reached = max((min(trace for b, trace in rows if b == number) for number in full), default=low)
        ids = sorted((trace for _, trace in rows if trace >= reached), reverse=True)
        if len(ids) >= most or not full:
            return ids[:most]
        size *= 4
    return []


def _first_rows(
    filter: Filter, used: Sequence[int], connection: Connection, bounds: tuple[int, int, int]
) -> Sequence[tuple[int, int]]:
    """The newest traces of each bucket, as (bucket, trace)."""
    values: dict[str, Any] = dict(zip(("lowest", "highest", "most"), bounds, strict=True), e=filter.evaluator)
    ranges = ""
    for name, sign in (("low", ">="), ("high", "<=")):
        if (value := getattr(filter, name)) is not None:
            values[name] = value
            ranges += f" AND value {sign} :{name}"
    # SQL as text: SQLAlchemy needs longer to compile a statement of a hundred parts than SQLite to run it.
    part = (
        "SELECT trace FROM scores WHERE evaluator = :e AND bucket = {} AND trace BETWEEN :lowest AND :highest"
        + ranges
        + " ORDER BY trace DESC LIMIT :most"
    )
    if connection.dialect.name == "sqlite":
        query = " UNION ALL ".join(f"SELECT {b}, trace FROM ({part.format(b)})" for b in used)
    else:
        query = f"SELECT b, trace FROM unnest(CAST(:used AS smallint[])) AS b CROSS JOIN LATERAL ({part.format('b')}) t"
        values["used"] = list(used)
    return [(number, trace) for number, trace in connection.execute(text(query), values)]


def used_buckets(connection: Connection, filter: Filter, *, values_only: bool = False) -> list[int]:
    """Returns the buckets with scores of the filter's evaluator in its range of values, in ascending order. Without a
    range that includes scores without a value, unless `values_only`."""
    has_range = values_only or filter.low is not None or filter.high is not None
    first = bucket(filter.low) if filter.low is not None else NO_VALUE + has_range
    last = bucket(filter.high) if filter.high is not None else -NO_VALUE
    # From each bucket straight to the next one: one look into the index for each bucket.
    query = text("""
        WITH RECURSIVE used (b) AS (
            SELECT (SELECT min(bucket) FROM scores WHERE evaluator = :e AND bucket >= :first)
            UNION ALL
            SELECT (SELECT min(bucket) FROM scores WHERE evaluator = :e AND bucket > used.b) FROM used
            WHERE used.b IS NOT NULL AND used.b < :last
        ) SELECT b FROM used WHERE b <= :last""")
    return list(connection.scalars(query, {"e": filter.evaluator, "first": first, "last": last}))


# --- text ----------------------------------------------------------------------------------------------------

_SEARCH = table("search", column("rowid", BigInteger), column("trace", BigInteger))
"""The index of `full_text`: it has `rowid` in SQLite, `trace` in PostgreSQL."""


def _text(store: Store, connection: Connection, words: str) -> Condition:
    if store.keys is not None:
        raise SettingError(
            "this store is encrypted, so it has no index of words and texts cannot be searched; filter by time, "
            "application, model, score, session or user"
        )
    phrases = full_text.parse_phrases(words)
    if not phrases:
        return Condition(false())
    if not store.sqlite:
        return _tsquery(connection, phrases)
    match = text("search MATCH :query").bindparams(query=full_text.fts5_query(phrases))
    listing = _listing(select(_SEARCH.c.rowid).where(match), _SEARCH.c.rowid)
    return Condition(exists().where(match, _SEARCH.c.rowid == traces.c.id), listing, only=True)


def _tsquery(connection: Connection, phrases: Sequence[Sequence[str]]) -> Condition:
    values = {f"q{i}": " ".join(phrase) for i, phrase in enumerate(phrases)}
    query = " && ".join(f"phraseto_tsquery('simple', :{name})" for name in values)
    plan = connection.scalar(text(f"EXPLAIN (FORMAT JSON) SELECT trace FROM search WHERE words @@ ({query})"), values)
    match = text(f"words @@ ({query})").bindparams(**values)
    where = exists().where(match, _SEARCH.c.trace == traces.c.id)
    if plan[0]["Plan"]["Plan Rows"] > _COMMON:
        return Condition(where)
    # MATERIALIZED: otherwise the planner may walk through all traces, newest first, until it meets enough matches.
    hit = select(_SEARCH.c.trace).where(match).cte("hit").prefix_with("MATERIALIZED")
    return Condition(where, _listing(select(hit.c.trace), hit.c.trace), only=True)
