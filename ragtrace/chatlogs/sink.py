"""The sink that fills the store: a bounded queue, one daemon thread, batches, and a file for when the database is away.

In the pipeline's thread it appends to the queue and returns. Whatever happens afterwards is counted and logged once,
never raised.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
import weakref
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlalchemy.exc import SQLAlchemyError

from ragtrace.chatlogs.encryption import Keys
from ragtrace.chatlogs.engine import named, url_of
from ragtrace.chatlogs.retention import Retention, prune
from ragtrace.chatlogs.spill import SIZE, Spill, SpillFullError, path_of
from ragtrace.chatlogs.store import Store, open_store
from ragtrace.errors import RagtraceError, StoreError
from ragtrace.evaluation import Evaluator
from ragtrace.records import Evaluation

_log = logging.getLogger(__name__)
_BACKOFF = (0.5, 60.0)
"""Seconds until the database is tried again: the first time, and at most."""
_HOUR = 3_600.0


@dataclass(frozen=True, slots=True)
class Bounds:
    """What the sink may use."""

    items: int = 10_000
    """Evaluations that wait in memory."""
    bytes: int = 64 * 1024 * 1024
    """Their texts, about."""
    batch: int = 200
    """Evaluations stored in one transaction."""
    wait: float = 0.5
    """Seconds that an evaluation waits for company at most."""
    spill: int = SIZE
    """Bytes of the file for when the database is away."""


class StoreSink:
    """Stores every evaluation that was not dropped. Public counters say what became of them: `written`, `spilled`,
    `lost`, `waiting`; what was spilled counts as `written`, too, for the process that brings it into the database."""

    def __init__(
        self,
        url: str,
        *,
        key: str | None = None,
        app: str = "rag",
        env: str = "dev",
        evaluators: Sequence[Evaluator] = (),
        retention: Retention | None = None,
        bounds: Bounds | None = None,
    ) -> None:
        """`app` and `env` are those of traces that do not say theirs. Raises SettingError for what waiting does not
        mend: an address that is none, a wrong key, a store of a newer version. A database that does not answer does
        not keep the application from starting: what comes meanwhile is spilled."""
        self._url, self._key = url, key
        self._known = {"app": app, "env": env}
        self._checks = tuple(evaluators)
        self._retention = retention
        self._bounds = bounds or Bounds()
        address = url_of(url)
        self._name = named(address)
        self._spill = Spill(path_of(address), Keys(key) if key is not None else None, self._bounds.spill)
        self._store: Store | None = None
        self.written = 0
        """Evaluations stored since the start."""
        self.spilled = 0
        """Evaluations that this process put into the spill file since the start, stored meanwhile or not."""
        self.lost = 0
        """Evaluations that neither the database nor the file took, or for which there was no room."""
        self.failures = 0
        """Times that the database did not take a batch."""
        try:
            self._store = open_store(url, key=key)
        except StoreError as error:
            _log.warning("ragtrace: %s. What is evaluated meanwhile waits in %s", error, self._spill.path)
        self._reset()
        _reset_in_children(self)

    def _reset(self) -> None:
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._queue: deque[tuple[Evaluation, int]] = deque()
        self._bytes = 0
        self._busy = 0
        self._flushing = 0
        self._closed = False
        self._thread: threading.Thread | None = None
        self._again = 0.0
        self._pause = _BACKOFF[0]
        self._pruned = time.monotonic() - _HOUR + 60.0

    # --- the pipeline's thread -------------------------------------------------------------------

    def __call__(self, evaluation: Evaluation) -> None:
        """Take an evaluation. Never waits, never raises."""
        if evaluation.status == "dropped":
            return
        size = _size_of(evaluation)
        with self._lock:
            full = len(self._queue) >= self._bounds.items or (self._queue and self._bytes + size > self._bounds.bytes)
            if full or self._closed:
                self._lose(1, "the queue is full" if full else "it is closed")
                return
            self._queue.append((evaluation, size))
            self._bytes += size
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="ragtrace-store", daemon=True)
                self._thread.start()
            if len(self._queue) in (1, self._bounds.batch):
                self._changed.notify_all()

    def know(self, checks: Sequence[Evaluator]) -> None:
        """The evaluators as they label from now on: a calibration gives them other thresholds and versions."""
        self._checks = tuple(checks)

    @property
    def waiting(self) -> int:
        """Evaluations that wait in memory."""
        return len(self._queue) + self._busy

    @property
    def spill_bytes(self) -> int:
        """Bytes that wait in the file, of all processes that share it."""
        return len(self._spill)

    # --- its own thread --------------------------------------------------------------------------

    def _work(self) -> None:
        lock = self._lock  # a forked child has another one
        while lock is self._lock:
            batch = self._take()
            try:
                self._put(batch)
                self._tend()
            except Exception:  # noqa: BLE001 a thread that dies would take all later evaluations with it
                _log.exception("ragtrace: a batch of %d evaluations was not stored", len(batch))
                self._lose(len(batch), "of an error of ours")
            with self._changed:
                self._busy = 0
                self._changed.notify_all()
                if self._closed and not self._queue:
                    return

    def _take(self) -> list[Evaluation]:
        """The next batch: full, or what came within the wait."""
        with self._changed:
            while not self._queue and not self._closed:
                if not self._changed.wait(self._rest()):
                    return []
            if len(self._queue) < self._bounds.batch and not (self._closed or self._flushing):
                self._changed.wait_for(
                    lambda: len(self._queue) >= self._bounds.batch or self._closed or self._flushing, self._bounds.wait
                )
            taken = [self._queue.popleft() for _ in range(min(self._bounds.batch, len(self._queue)))]
            self._bytes -= sum(size for _, size in taken)
            self._busy = len(taken)
        return [evaluation for evaluation, _ in taken]

    def _rest(self) -> float:
        """Seconds until something is to be done although nothing comes."""
        return max(0.1, self._again - time.monotonic()) if len(self._spill) else _HOUR / 60

    def _put(self, batch: list[Evaluation]) -> None:
        if not batch:
            return
        batch = [self._named(evaluation) for evaluation in batch]
        if time.monotonic() >= self._again and self._stored(batch):
            return
        try:
            self._spill.append(batch)
            self.spilled += len(batch)
        except SpillFullError:
            self._lose(len(batch), f"{self._spill.path} is full, too")
        except OSError as error:
            self._keep(batch, error)

    def _keep(self, batch: Sequence[Evaluation], error: OSError) -> None:
        """Neither database nor file: back into memory, where there is room, and a moment's rest."""
        with self._changed:
            room = max(0, self._bounds.items - len(self._queue)) if not self._closed else 0
            for evaluation in reversed(batch[:room]):
                size = _size_of(evaluation)
                self._queue.appendleft((evaluation, size))
                self._bytes += size
            self._busy = 0
            self._lose(len(batch) - min(room, len(batch)), f"{self._spill.path}: {error.strerror}")
            if not self._closed:
                self._changed.wait(min(1.0, self._pause))

    def _stored(self, batch: Sequence[Evaluation]) -> bool:
        """Whether the database has it now."""
        try:
            self._opened().write(batch, self._checks)
        except (RagtraceError, OSError) as error:
            self._failed(error)
            return False
        except (SQLAlchemyError, ValueError, TypeError, OverflowError) as error:
            if len(batch) == 1:  # the evaluation itself is what the database does not take
                self._lose(1, type(error).__name__)
                return True
            for one in batch:
                if not self._stored([one]):
                    self._spilled(one)
            return True
        self.written += len(batch)
        self._again, self._pause = 0.0, _BACKOFF[0]
        return True

    def _spilled(self, one: Evaluation) -> None:
        try:
            self._spill.append([one])
            self.spilled += 1
        except (OSError, StoreError):
            self._lose(1, "neither the database nor the file took it")

    def _opened(self) -> Store:
        if self._store is None:
            self._store = open_store(self._url, key=self._key)
        return self._store

    def _failed(self, error: Exception) -> None:
        self.failures += 1
        self._again = time.monotonic() + self._pause
        if self._pause == _BACKOFF[0]:
            _log.warning("ragtrace: %s. What is evaluated meanwhile waits in %s", error, self._spill.path)
        self._pause = min(2 * self._pause, _BACKOFF[1])

    def _tend(self) -> None:
        """What was spilled goes into the database when it takes it; once an hour what is too old goes."""
        if time.monotonic() < self._again or self._closed:
            return
        try:
            if len(self._spill):
                self._drain()
            if self._retention is not None and time.monotonic() - self._pruned > _HOUR:
                self._pruned = time.monotonic()
                prune(self._opened(), self._retention)
        except (RagtraceError, OSError, SQLAlchemyError) as error:
            self._failed(error)

    def _drain(self) -> None:
        store = self._opened()
        done, damaged = self._spill.drain(lambda batch: store.write(batch, self._checks))
        self.written += done
        if done or damaged:
            _log.warning("ragtrace: %s took %d evaluations that had waited (%d damaged)", self._name, done, damaged)

    def _named(self, evaluation: Evaluation) -> Evaluation:
        """With application and environment, and a time."""
        trace = evaluation.trace
        attributes = {**self._known, **{k: v for k, v in trace.attributes.items() if v is not None}}
        return replace(evaluation, trace=replace(trace, attributes=attributes, started=trace.started or time.time()))

    def _lose(self, count: int, why: str) -> None:
        if count <= 0:
            return
        first = self.lost == 0
        self.lost += count
        if first:
            _log.warning("ragtrace: an evaluation was not stored (%s); further ones are only counted", why)

    # --- control ---------------------------------------------------------------------------------

    def flush(self, timeout: float = 10.0) -> bool:
        """Wait until all that was taken so far is stored or in the file; False if `timeout` seconds did not do."""
        with self._changed:
            self._flushing += 1
            self._changed.notify_all()
            try:
                return self._changed.wait_for(lambda: not self._queue and not self._busy, timeout)
            finally:
                self._flushing -= 1

    def close(self, timeout: float = 5.0) -> bool:
        """Store what waits for up to `timeout` seconds, spill the rest. True if nothing was lost by it. Safe to call
        twice."""
        done = self.flush(timeout) if self._thread is not None else True
        with self._changed:
            self._closed = True
            left = [self._named(evaluation) for evaluation, _ in self._queue]
            self._queue.clear()
            self._bytes = 0
            self._changed.notify_all()
        lost = self.lost
        if left:
            try:
                self._spill.append(left)
                self.spilled += len(left)
            except (OSError, StoreError):
                self._lose(len(left), "neither the database nor the file took it in time")
        if done and self._store is not None:
            self._store.close()
        return self.lost == lost


def _size_of(evaluation: Evaluation) -> int:
    """Bytes that it keeps alive, about."""
    trace = evaluation.trace
    size = 1_000 + sys.getsizeof(trace.query) + sys.getsizeof(trace.answer) + 500 * len(evaluation.scores)
    for score in evaluation.scores:
        size += sys.getsizeof(score.explanation) + 200 * len(score.evidence)
    return size + sum(300 + sys.getsizeof(document.content) for document in trace.documents)


def _reset_in_children(sink: StoreSink) -> None:
    """What waited belongs to the parent, and any lock may have been held at the fork."""
    reference = weakref.ref(sink)

    def reset() -> None:
        if (alive := reference()) is not None:
            alive._reset()

    os.register_at_fork(after_in_child=reset)


__all__ = ["Bounds", "Retention", "StoreSink"]
