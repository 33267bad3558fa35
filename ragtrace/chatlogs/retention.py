"""What leaves the store: by age, by size, and all of one user."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, delete, func, select, text
from sqlalchemy.exc import DBAPIError

from ragtrace.chatlogs import full_text
from ragtrace.chatlogs.encryption import user_keys
from ragtrace.chatlogs.schema import contents, feedback, lowest_id, reviews, scores, sums, traces
from ragtrace.chatlogs.spill import Spill, spill_path
from ragtrace.errors import StoreError

if TYPE_CHECKING:
    from ragtrace.chatlogs.store import Store

_DAY = 86_400.0
_BATCH = 200
_BESIDE = 4_000
"""Bytes that a trace takes in PostgreSQL beside its content, about: scores, indexes, words."""


@dataclass(frozen=True, slots=True)
class Retention:
    """What the store may keep."""

    days: float = 0.0
    """Requests that started earlier go; 0 for no bound."""
    bytes: int = 0
    """Above them the oldest requests go; 0 for no bound. Of SQLite the pages in use, of PostgreSQL an estimate: the
    content and 4 kB for each trace."""


@dataclass(frozen=True, slots=True)
class Removal:
    """How much went."""

    traces: int = 0
    scores: int = 0
    reviews: int = 0
    feedback: int = 0
    spilled: int = 0
    """Evaluations that waited in the spill file."""

    def __add__(self, other: Removal) -> Removal:
        return Removal(*(getattr(self, name) + getattr(other, name) for name in self.__slots__))

    @property
    def anything(self) -> bool:
        """Whether anything went."""
        return self != Removal()


def prune(store: Store, retention: Retention, now: float | None = None) -> Removal:
    """Remove what is too old and what is too much, oldest first, with reviews and feedback. The sums of the overview go
    with what is too old. Each transaction is short: readers and writers go on. Raises StoreError as the store does."""
    removed = Removal()
    if retention.days:
        before = (time.time() if now is None else now) - retention.days * _DAY
        oldest = select(traces.c.id).where(traces.c.id < lowest_id(before + 1), traces.c.started < before)
        while (gone := _remove(store, oldest.order_by(traces.c.id).limit(_BATCH))).traces:
            removed += gone
        with store.writing() as connection:
            connection.execute(delete(sums).where(sums.c.start + sums.c.step < before))
    if retention.bytes:
        while (left := _excess(store, retention.bytes)) > 0:
            gone = _remove(store, select(traces.c.id).order_by(traces.c.id).limit(min(left, _BATCH)))
            if not gone.traces:
                break
            removed += gone
    return removed


def _excess(store: Store, most: int) -> int:
    """How many traces are too many, or some of them."""
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


def _remove(store: Store, chosen: Any) -> Removal:
    """The traces that a select names, with all that hangs on them, in one transaction."""
    with store.writing() as connection:
        return remove(connection, list(connection.scalars(chosen)))


def remove(connection: Connection, ids: Sequence[int]) -> Removal:
    """Remove traces by their ids, with scores, contents, reviews, feedback and search index; how much went."""
    if not ids:
        return Removal()
    rows = connection.execute(select(contents).where(contents.c.trace.in_(ids), contents.c.sealed.is_(None))).mappings()
    full_text.remove(connection, [full_text.index_row(row) for row in rows if row["query"] is not None])
    hexes = list(connection.scalars(select(traces.c.trace_id).where(traces.c.id.in_(ids))))
    removed = Removal(
        len(hexes),
        _count(connection, scores.c.trace, ids),
        _count(connection, reviews.c.trace, ids),
        connection.execute(delete(feedback).where(feedback.c.trace_id.in_(hexes))).rowcount,
    )
    connection.execute(delete(traces).where(traces.c.id.in_(ids)))  # the rest hangs on it
    return removed


def _count(connection: Connection, column: Any, ids: Sequence[int]) -> int:
    return int(connection.scalar(select(func.count()).where(column.in_(ids))) or 0)


# --- one user ------------------------------------------------------------------------------------------------


def delete_user(store: Store, user_id: str, *, rewrite: bool = True) -> Removal:
    """Remove all of one user: traces, texts, scores, feedback, reviews, search index, and what waits in the spill file
    (of this machine).

    With `rewrite` the database is written anew, so that no bytes of it are left in the file or in PostgreSQL's tables:
    it takes minutes for a million traces and as much room again as they have, and keeps others from writing meanwhile.
    Copies elsewhere (backups, replicas, PostgreSQL's archived log) are not reached. The sums of the overview, which
    name nobody, stay. Raises StoreError as the store does; calling again goes on.
    """
    spilled = Spill(spill_path(store.engine.url), store.keys).forget(user_id)
    removed = Removal(spilled=spilled)
    own = select(traces.c.id).where(traces.c.user_key.in_(user_keys(store.keys, user_id))).limit(_BATCH)
    while (gone := _remove(store, own)).traces:
        removed += gone
    if rewrite:
        rewrite_files(store)
    return removed


def rewrite_files(store: Store) -> None:
    """Write the database anew, without what was deleted from it. Raises StoreError if that cannot be done now."""
    try:
        if not store.sqlite:
            with store.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
                for table in ("contents", "details", "traces", "scores", "feedback", "reviews", "search"):
                    connection.execute(text(f"VACUUM FULL {table}"))
            return
        with store.writing() as connection:
            full_text.purge(connection)
        raw: Any = store.engine.raw_connection()
        try:
            raw.execute("VACUUM")
            busy, _, _ = raw.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        finally:
            raw.close()
    except DBAPIError as error:
        raise _not_rewritten(store, str(error.orig)) from None
    except sqlite3.Error as error:
        raise _not_rewritten(store, str(error)) from None
    if busy:
        raise _not_rewritten(store, "somebody reads it all the time")


def _not_rewritten(store: Store, why: str) -> StoreError:
    return StoreError(
        f"the store {store.name}: the rows are changed, but the file could not be rewritten ({why}), so old "
        "bytes may still be in it; call again when there is room and nobody holds a lock"
    )
