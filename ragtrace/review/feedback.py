"""What users of the application say of its answers. Bad feedback brings a log to review."""

from __future__ import annotations

import logging
import os
import queue
import re
import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from sqlalchemy import Connection, func, insert, select, update

from ragtrace.chatlogs.records import Feedback
from ragtrace.chatlogs.schema import feedback, items, traces
from ragtrace.errors import DataError, RagtraceError
from ragtrace.review.fill_queue import enqueue
from ragtrace.review.notices import tell
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
        tell(store, "feedback.negative", said)
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
    """Takes feedback in the application's thread, without waiting, and keeps it in a store from a thread of its own.

    While the database is away what came waits, up to ten thousand pieces; then the oldest are lost, and counted.
    """

    def __init__(self, url: str, *, key: str | None = None) -> None:
        self._url = url
        self._key = key
        self.lost = 0
        """Pieces of feedback that could not be kept."""
        self._reset()

    def _reset(self) -> None:
        self._process = os.getpid()
        self._queue: queue.Queue[Feedback | None] = queue.Queue(_WAITING)
        self._thread: threading.Thread | None = None
        self._closed = threading.Event()
        self._starting = threading.Lock()

    def __call__(self, given: Feedback) -> None:
        """Take one. Never blocks, never raises for what it holds."""
        if os.getpid() != self._process:  # a forked child: what waited is the parent's
            self._reset()
        given = replace(given, created=given.created or time.time())
        while True:
            try:
                self._queue.put_nowait(given)
                break
            except queue.Full:
                self._drop()
        with self._starting:
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="ragtrace-feedback", daemon=True)
                self._thread.start()

    def _drop(self) -> None:
        try:
            self._queue.get_nowait()
            self._queue.task_done()
            self.lost += 1
        except queue.Empty:
            pass

    def _work(self) -> None:
        store: Store | None = None
        own = self._queue
        while (given := own.get()) is not None:
            while True:
                try:
                    if store is None:
                        from ragtrace.chatlogs.store import open_store

                        store = open_store(self._url, key=self._key)
                    add_feedback(store, given)
                except DataError:
                    self._lose("it was none")
                except RagtraceError as error:  # away, locked, full: it may come back
                    if not self._closed.wait(_PAUSE):
                        continue
                    self._lose(str(error))
                except Exception as error:  # noqa: BLE001 the thread must live on; what failed is counted
                    self._lose(type(error).__name__)
                break
            own.task_done()
        if store is not None:
            store.close()

    def _lose(self, why: str) -> None:
        self.lost += 1
        if self.lost == 1:
            _log.warning("ragtrace: feedback could not be kept (%s); further losses are only counted", why)

    def flush(self, timeout: float = 10.0) -> bool:
        """Wait until all that was taken so far is kept; False if `timeout` seconds did not do."""
        waiting = self._queue
        with waiting.all_tasks_done:
            return waiting.all_tasks_done.wait_for(lambda: not waiting.unfinished_tasks, timeout)

    def close(self, timeout: float = 5.0) -> None:
        """Keep what waits, for up to `timeout` seconds. Safe to call twice."""
        thread = self._thread
        if thread is None or os.getpid() != self._process:
            return
        self._closed.set()
        try:
            self._queue.put_nowait(None)
        except queue.Full:
            return
        thread.join(timeout)
