"""Deletes from the store: what is too old, what exceeds the size limit, and everything of one user."""

from __future__ import annotations

import math
import re
import sqlite3
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl

from sqlalchemy import Connection, delete, exists, func, insert, or_, select, text, update
from sqlalchemy.exc import DBAPIError, IntegrityError

from ragtrace.console.chatlogs import full_text
from ragtrace.console.chatlogs.encryption import user_keys
from ragtrace.console.chatlogs.engine import chunks
from ragtrace.console.chatlogs.reader import TOPIC, TOPIC_SEAL, read_questions
from ragtrace.console.chatlogs.schema import (
    contents,
    end_id,
    feedback,
    meta,
    reviews,
    scores,
    sums,
    topics,
    trace_topics,
    traces,
    views,
)
from ragtrace.console.chatlogs.spill import Spill, spill_path
from ragtrace.console.chatlogs.store import Store
from ragtrace.errors import StoreError

_HOUR, _DAY = 3_600.0, 86_400.0
_PRUNED = "store:pruned"
"""The name of the time of the last prune in the table `meta`."""
_BATCH = 200
_STRAY_DAYS, _MOST_STRAY = 7.0, 100_000
"""Feedback may come before its trace. What is older, or exceeds the number, belongs to traces that were not sampled."""
_BESIDE = 4_000
"""Approximate bytes of a trace in PostgreSQL besides its content: scores, indexes, words."""


@dataclass(frozen=True, slots=True)
class Retention:
    """The limits of the store."""

    days: float = 0.0
    """Requests that started earlier are deleted; 0 for no limit."""
    bytes: int = 0
    """Above this size the oldest requests are deleted; 0 for no limit. For SQLite it is the pages in use, for
    PostgreSQL an estimate: the content and 4 kB for each trace."""


@dataclass(frozen=True, slots=True)
class Removal:
    """How much was deleted."""

    traces: int = 0
    scores: int = 0
    reviews: int = 0
    feedback: int = 0
    spilled: int = 0
    """Evaluations in the spill file."""

    def __add__(self, other: Removal) -> Removal:
        return Removal(*(getattr(self, name) + getattr(other, name) for name in self.__slots__))


def prune(store: Store, retention: Retention, now: float | None = None) -> Removal:
    """Deletes what is too old and what exceeds the size limit, oldest first, with reviews and feedback. The sums of the
    overview are deleted by age. Feedback whose trace is not stored is deleted after 7 days, and above 100,000 pieces.
    Transactions are short, so readers and writers can continue. Raises StoreError as the store does."""
    total = _remove_stray_feedback(store, (time.time() if now is None else now) - _STRAY_DAYS * _DAY)
    if retention.days:
        before = (time.time() if now is None else now) - retention.days * _DAY
        oldest = select(traces.c.id).where(traces.c.id < end_id(before), traces.c.started < before)
        total += _remove_all(store, oldest.order_by(traces.c.id).limit(_BATCH))
        # A client's clock may run ahead: what was stored so long ago is as old.
        total += _remove_all(store, select(traces.c.id).where(traces.c.stored < before).limit(_BATCH))
        store.execute(delete(sums).where(sums.c.start + sums.c.step < before))
    if retention.bytes:
        while (excess := _count_excess(store, retention.bytes)) > 0:
            removal = _remove(store, select(traces.c.id).order_by(traces.c.id).limit(min(excess, _BATCH)))
            if not removal.traces:
                break
            total += removal
    return total


def prune_hourly(store: Store, retention: Retention) -> None:
    """Prunes unless a process with these limits did so in the last hour. Raises StoreError as the store does."""
    now, name = time.time(), f"{_PRUNED}:{retention.days:g}:{retention.bytes}"
    row = meta.c.name == name
    last = float(store.scalar(select(meta.c.value).where(row)) or 0.0)
    if 0.0 <= now - last < _HOUR:
        return
    prune(store, retention)
    if not store.execute(update(meta).where(row).values(value=str(now))):
        with suppress(IntegrityError):  # another process was faster
            store.execute(insert(meta).values(name=name, value=str(now)))


def _remove_stray_feedback(store: Store, before: float) -> Removal:
    """Deletes feedback without a stored trace that was given before a time, and the oldest above a number."""
    stray = ~exists().where(traces.c.trace_id == feedback.c.trace_id)
    newest = select(feedback.c.id).where(stray).order_by(feedback.c.id.desc())
    with store.writing() as connection:
        excess = connection.scalar(newest.offset(_MOST_STRAY).limit(1)) or 0
        old = or_(feedback.c.created < before, feedback.c.id <= excess)
        return Removal(feedback=connection.execute(delete(feedback).where(stray, old)).rowcount)


def _count_excess(store: Store, most: int) -> int:
    """The number of traces above the limit, or a part of it."""
    with store.reading() as connection:
        if store.sqlite:
            pages, free, size = (
                int(connection.exec_driver_sql(f"PRAGMA {name}").scalar() or 0)
                for name in ("page_count", "freelist_count", "page_size")
            )
            used, count = (pages - free) * size, _BATCH
        else:
            total, number = connection.execute(select(func.sum(traces.c.size), func.count())).one()
            used = int(total or 0) + _BESIDE * number
            count = int(number * (1 - most / used)) + 1 if used > most else 0
    return count if used > most else 0


def _remove_all(store: Store, query: Any) -> Removal:
    """Deletes the traces that a query selects in batches, until none is left."""
    total = Removal()
    while (removal := _remove(store, query)).traces:
        total += removal
    return total


def _remove(store: Store, query: Any) -> Removal:
    """Deletes the traces that a query selects, with everything that belongs to them, in one transaction."""
    with store.writing() as connection:
        return remove(connection, list(connection.scalars(query)))


def remove(connection: Connection, ids: Sequence[int]) -> Removal:
    """Deletes traces by their ids, with scores, contents, reviews, feedback and index entries."""
    if not ids:
        return Removal()
    rows = connection.execute(select(contents).where(contents.c.trace.in_(ids), contents.c.sealed.is_(None))).mappings()
    full_text.remove(connection, [full_text.index_row(row) for row in rows if row["query"] is not None])
    hexes = list(connection.scalars(select(traces.c.trace_id).where(traces.c.id.in_(ids))))
    removal = Removal(
        len(hexes), _count(connection, scores.c.trace, ids), _count(connection, reviews.c.trace, ids),
        connection.execute(delete(feedback).where(feedback.c.trace_id.in_(hexes))).rowcount,
    )  # fmt: skip
    connection.execute(delete(traces).where(traces.c.id.in_(ids)))  # deletes the rest by foreign keys
    # The name of a topic has words of its questions.
    connection.execute(delete(topics).where(~exists().where(trace_topics.c.topic == topics.c.id)))
    return removal


def _count(connection: Connection, column: Any, ids: Sequence[int]) -> int:
    return int(connection.scalar(select(func.count()).where(column.in_(ids))) or 0)


# --- one user ------------------------------------------------------------------------------------------------


def delete_user(store: Store, user_id: str, *, rewrite: bool = True) -> Removal:
    """Deletes everything of one user: traces, texts, scores, feedback, reviews, index entries, saved searches for
    them, and what waits in the spill file of this machine. Feedback whose trace is not stored names no user: all of it
    is deleted.

    With `rewrite` the database is rewritten, so that no bytes of it are left in the file or in PostgreSQL's tables:
    this takes minutes for a million traces, needs as much free space as they occupy, and blocks other writers. Copies
    elsewhere (backups, replicas, PostgreSQL's archived log) are not changed. The sums of the overview, which contain no
    user, stay. Raises StoreError as the store does; after an error, call it again."""
    spilled = Spill(spill_path(store.engine.url), store.keys).forget(user_id)
    query = select(traces.c.id).where(traces.c.user_key.in_(user_keys(store.keys, user_id))).limit(_BATCH)
    removal = Removal(spilled=spilled) + _remove_all(store, query)
    removal += _remove_stray_feedback(store, math.inf)  # it names no user, so it may be this one's
    _remove_stale_topics(store)
    with store.writing() as connection:
        saved = connection.execute(select(views.c.id, views.c.query)).all()
        of_user = [view for view, query in saved if user_id in dict(parse_qsl(query)).values()]
        connection.execute(delete(views).where(views.c.id.in_(of_user)))
    if rewrite:
        rewrite_files(store)
    return removal


def _remove_stale_topics(store: Store) -> None:
    """Deletes the topics whose name has a word that none of their questions has: it may be a deleted user's word. Their
    questions come into topics again when new topics are formed."""
    with store.reading() as connection:
        rows = connection.execute(select(topics)).mappings().all()
        stale = [row["id"] for row in rows if _has_stale_word(store, connection, row)]
    store.execute(delete(topics).where(topics.c.id.in_(stale)))


def _has_stale_word(store: Store, connection: Connection, topic: Mapping[Any, Any]) -> bool:
    words = set(re.findall(r"[^\W\d_]+", store.unseal(TOPIC_SEAL, topic, TOPIC)["name"] or ""))
    query = select(trace_topics.c.trace).where(trace_topics.c.topic == topic["id"])
    for part in chunks(connection.scalars(query.order_by(trace_topics.c.trace.desc())).all()):
        for question in read_questions(connection, store.keys, part).values():
            words = {word for word in words if word not in question.casefold()}
        if not words:
            return False
    return True


def rewrite_files(store: Store) -> None:
    """Rewrites the database without deleted content. Raises StoreError if that is not possible now."""
    try:
        if not store.sqlite:
            with store.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
                for table in (
                    "contents",
                    "details",
                    "traces",
                    "scores",
                    "feedback",
                    "reviews",
                    "topics",
                    "search",
                    "views",
                ):
                    connection.execute(text(f"VACUUM FULL {table}"))
            return
        # Rewrites FTS5's index, so that nothing of removed traces is left in it.
        store.execute(text("INSERT INTO search (search) VALUES ('optimize')"))
        raw: Any = store.engine.raw_connection()
        try:
            raw.execute("VACUUM")
            busy, _, _ = raw.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        finally:
            raw.close()
    except (DBAPIError, sqlite3.Error) as error:
        raise _not_rewritten(store, str(getattr(error, "orig", error))) from None
    if busy:
        raise _not_rewritten(store, "another connection reads it")


def _not_rewritten(store: Store, reason: str) -> StoreError:
    return StoreError(
        f"the store {store.name}: the rows were changed, but the file could not be rewritten ({reason}), so it may "
        "still contain deleted bytes; try again when there is free space and no other connection holds a lock"
    )
