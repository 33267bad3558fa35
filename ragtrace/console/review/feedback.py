"""Stores what users of the application say about its answers. Bad feedback brings a log to review."""

import logging
import math
import time
from dataclasses import replace
from textwrap import shorten

from sqlalchemy import Connection, insert, literal, select, update

from ragtrace.base.background import Background, Bounds
from ragtrace.console.chatlogs.schema import feedback, trace_is, traces
from ragtrace.console.chatlogs.store import Store
from ragtrace.console.chatlogs.store_types import MAX_COMMENT, is_trace_id
from ragtrace.console.review.fill_queue import count_today, enqueue
from ragtrace.console.review.notices import notify
from ragtrace.console.review.policy import Policy
from ragtrace.console.review.rules import not_picked
from ragtrace.errors import DataError, RagtraceError
from ragtrace.records import Feedback
from ragtrace.text.redaction import mask_pii

_log = logging.getLogger(__name__)
_WAITING = 10_000
"""Pieces of feedback that wait for the database at most."""
_PAUSE = 1.0


def add_feedback(store: Store, message: Feedback, now: float | None = None, policy: Policy | None = None) -> bool:
    """Stores a user's feedback. True if its trace is stored already; a trace that is stored later gets it then.

    The latest thumbs of a trace count. Bad thumbs bring it into the review queue, up to the policy's share for today;
    `ragtrace.console.review.queue.fill` adds the others later. Raises DataError for an invalid trace id, invalid
    thumbs, and empty feedback; StoreError as the store does."""
    now, policy = time.time() if now is None else now, policy or Policy()
    message = _checked(message, now)
    row = {name: getattr(message, name) for name in ("trace_id", "source", "thumbs", "score", "category", "created")}
    with store.writing() as connection:
        columns = store.seal(message.trace_id, {"comment": message.comment})
        connection.execute(insert(feedback).values(**row, **columns))
        query = select(traces.c.id).where(trace_is(message.trace_id)).order_by(traces.c.id.desc())
        ids = list(connection.scalars(query))
        if ids and message.thumbs is not None:
            connection.execute(update(traces).where(traces.c.id.in_(ids)).values(thumbs=message.thumbs))
        if ids and message.thumbs == -1 and _has_room(connection, policy, ids[0], now):
            enqueue(connection, "feedback", ids[:1], policy, now)
    if message.thumbs == -1:
        content = {"trace_id": message.trace_id, "source": mask_pii(message.source or ""), "comment": message.comment}
        notify(store, "feedback.negative", content)
    return bool(ids)


def _checked(message: Feedback, now: float) -> Feedback:
    trace_id = message.trace_id.lower()
    if not is_trace_id(trace_id):
        raise DataError("invalid trace_id in feedback: expected 32 hexadecimal digits")
    if message.thumbs not in (None, -1, 0, 1):
        raise DataError("invalid thumbs in feedback: expected -1, 0 or 1")
    comment = (message.comment or "").strip()[:MAX_COMMENT] or None
    if message.score is not None and not math.isfinite(message.score):
        raise DataError(f"invalid score in feedback: expected a finite number, not {message.score}")
    category = shorten(message.category or "", 100, placeholder="") or None  # no half of a value
    if message.thumbs is None and message.score is None and category is None and comment is None:
        raise DataError("the feedback is empty: expected thumbs, a score, a category or a comment")
    source = shorten(message.source, 100, placeholder="") if message.source else None
    created = message.created or now
    return replace(message, trace_id=trace_id, comment=comment, source=source, category=category, created=created)


def _has_room(connection: Connection, policy: Policy, trace: int, now: float) -> bool:
    """Whether no rule has picked the trace, and today's share of feedback is not used up."""
    is_free = connection.scalar(select(not_picked(literal(trace))))
    return bool(is_free) and count_today(connection, now).get("feedback", 0) < policy.allowed(now).get("feedback", 0)


class FeedbackSink:
    """Takes feedback in the application's thread, without waiting, and stores it in a thread of its own.

    While the database is away, up to ten thousand pieces wait; then the oldest are lost, and counted."""

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
        from ragtrace.console.chatlogs.store import open_store

        if self._store is None:
            self._store = open_store(self._url, key=self._key)
        return self._store

    def _lose(self, reason: str, count: int = 1) -> None:
        first = self.lost == 0
        self.lost += count
        if first and count:
            _log.warning("ragtrace: feedback could not be stored (%s). Further losses are only counted.", reason)

    @property
    def undelivered(self) -> int:
        """Pieces of feedback that were lost so far."""
        return self.lost

    def flush(self, timeout: float = 10.0) -> bool:
        """Wait until everything taken so far is stored; False after `timeout` seconds."""
        return self._queue.flush(timeout)

    def close(self, timeout: float = 5.0) -> None:
        """Store what waits, for up to `timeout` seconds. Safe to call twice."""
        self._lose("shutdown", len(self._queue.close(timeout)))
        if not self._queue.running and self._store is not None:
            self._store.close()
