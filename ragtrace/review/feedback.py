"""What users of the application say of its answers. Bad feedback brings a log to review."""

from __future__ import annotations

import logging
import re
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from sqlalchemy import Connection, func, insert, select, update

from ragtrace.background import Background, Bounds
from ragtrace.chatlogs.schema import feedback, items, traces
from ragtrace.errors import DataError, RagtraceError
from ragtrace.records import Feedback
from ragtrace.review.fill_queue import enqueue
from ragtrace.review.notices import notify
from ragtrace.review.policy import CERTAIN, Policy

if TYPE_CHECKING:
    from ragtrace.chatlogs.store import Store

_log = logging.getLogger(__name__)
_HEX = re.compile(r"[0-9a-f]{32}\Z")
_COMMENT = 10_000
"""Characters of a comment that are kept."""
_WAITING = 10_000
"""Pieces of feedback that wait for the database at most."""
_PAUSE = 1.0
_DAY = 86_400.0


def add_feedback(store: Store, given: Feedback, now: float | None = None, policy: Policy | None = None) -> bool:
    """Keep what a user said; True if its trace is stored already (one that comes later finds it).

    The last thumbs of a trace count. Bad ones bring it into the review queue, as many of them each day as the policy
    has room for; `reviewing.fill` brings the others later. Raises DataError for a trace id or a thumb that is none, and
    for feedback that says nothing; StoreError as the store does.
    """
    now = time.time() if now is None else now
    given = _checked(given, now)
    with store.writing() as connection:
        sealed = store.seal(given.trace_id, {"comment": given.comment})
        row = {"trace_id": given.trace_id, "thumbs": given.thumbs, "source": given.source, "created": given.created}
        connection.execute(insert(feedback).values(**row, **sealed))
        query = select(traces.c.id).where(traces.c.trace_id == given.trace_id).order_by(traces.c.id.desc())
        found = list(connection.scalars(query))
        if found and given.thumbs is not None:
            connection.execute(update(traces).where(traces.c.id.in_(found)).values(thumbs=given.thumbs))
        if found and given.thumbs == -1 and _room(connection, policy or Policy(), found[0], now):
            enqueue(connection, "feedback", found[:1], policy or Policy(), now)
    if given.thumbs == -1:
        said = {"trace_id": given.trace_id, "source": given.source, "comment": given.comment}
        notify(store, "feedback.negative", said)
    return bool(found)


def _checked(given: Feedback, now: float) -> Feedback:
    trace_id = given.trace_id.lower()
    if not _HEX.match(trace_id):
        raise DataError("the trace id of feedback is none: give its 32 hexadecimal digits")
    if given.thumbs not in (None, -1, 0, 1):
        raise DataError("the thumbs of feedback are none: give -1, 0 or 1")
    comment = (given.comment or "").strip()[:_COMMENT] or None
    if given.thumbs is None and comment is None:
        raise DataError("the feedback says nothing: give thumbs or a comment")
    source = given.source[:100] if given.source else None
    return replace(given, trace_id=trace_id, comment=comment, source=source, created=given.created or now)


def _room(connection: Connection, policy: Policy, trace: int, now: float) -> bool:
    there = select(items.c.id).where(items.c.trace == trace, items.c.reason.in_(CERTAIN))
    if connection.execute(there.limit(1)).first() is not None:
        return False
    today = (items.c.reason == "feedback") & (items.c.slot == 0) & (items.c.created >= now - now % _DAY)
    made = connection.scalar(select(func.count()).select_from(items).where(today)) or 0
    return int(made) < policy.allowed(now)["feedback"]


class FeedbackSink:
    """Takes feedback in the application's thread, without waiting, and stores it in a thread of its own.

    While the database is away, up to ten thousand pieces wait; then the oldest are lost, and counted.
    """

    def __init__(self, url: str, *, key: str | None = None) -> None:
        self._url = url
        self._key = key
        self._store: Store | None = None
        self.lost = 0
        """Pieces of feedback that could not be stored."""
        self._queue = Background("ragtrace-feedback", self._work, Bounds(items=_WAITING, drop_oldest=True))

    def __call__(self, message: Feedback) -> None:
        """Take one piece of feedback. Never blocks, never raises for what it holds."""
        if loss := self._queue.put(replace(message, created=message.created or time.time())):
            self._lose(loss)

    def _work(self, batch: list[Feedback]) -> None:
        for message in batch:
            is_last_try = False
            while not self._stored(message, is_last_try):
                is_last_try = self._queue.pause(_PAUSE)

    def _stored(self, message: Feedback, is_last_try: bool) -> bool:
        """Store it, or count it as lost. False if the database is away, locked or full and another try follows."""
        try:
            add_feedback(self._opened(), message)
        except DataError as error:
            self._lose(str(error))
        except RagtraceError as error:
            if not is_last_try:
                return False
            self._lose(str(error))
        except Exception as error:  # noqa: BLE001 somebody's feedback may hold anything
            self._lose(type(error).__name__)
        return True

    def _opened(self) -> Store:
        from ragtrace.chatlogs.store import open_store

        if self._store is None:
            self._store = open_store(self._url, key=self._key)
        return self._store

    def _lose(self, reason: str, count: int = 1) -> None:
        first = self.lost == 0
        self.lost += count
        if first and count:
            _log.warning("ragtrace: feedback could not be stored (%s). Further losses are only counted.", reason)

    def flush(self, timeout: float = 10.0) -> bool:
        """Wait until everything taken so far is stored; False after `timeout` seconds."""
        return self._queue.flush(timeout)

    def close(self, timeout: float = 5.0) -> None:
        """Store what waits, for up to `timeout` seconds. Safe to call twice."""
        self._lose("shutdown", len(self._queue.close(timeout)))
        if not self._queue.running and self._store is not None:
            self._store.close()
