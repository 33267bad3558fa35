"""The sink that fills the store: a bounded queue, a worker thread, and a spill file for when the database is away.

In the pipeline's thread it only appends to the queue. Every later failure is counted and logged once, never raised."""

import logging
import sys
import time
from collections.abc import Sequence
from dataclasses import replace

from sqlalchemy.exc import SQLAlchemyError

from ragtrace.base.background import Background, Bounds
from ragtrace.console.chatlogs.encryption import Keys
from ragtrace.console.chatlogs.engine import display_name, parse_url
from ragtrace.console.chatlogs.retention import Retention, prune_hourly
from ragtrace.console.chatlogs.spill import SIZE, Spill, SpillFullError, spill_path
from ragtrace.console.chatlogs.store import Store, open_store
from ragtrace.errors import RagtraceError, StoreError
from ragtrace.evaluation import Evaluator
from ragtrace.records import Evaluation

_log = logging.getLogger(__name__)
_BACKOFF = (0.5, 60.0)
"""Seconds until the next try after a failure of the database: the first pause, and the longest."""
_HOUR = 3_600.0
BOUNDS = Bounds(items=10_000, bytes=64 * 1024 * 1024, batch=200, wait=0.5)
"""What waits in memory, and the evaluations stored in one transaction."""


class StoreSink:
    """Stores every evaluation that was not dropped. Public counters say how they ended: `written`, `spilled`,
    `lost`, `waiting`. A spilled evaluation also counts as `written`, in the process that stores it later."""

    def __init__(
        self,
        url: str,
        *,
        key: str | None = None,
        app: str = "rag",
        env: str = "dev",
        evaluators: Sequence[Evaluator] = (),
        retention: Retention | None = None,
        bounds: Bounds = BOUNDS,
        spill_size: int = SIZE,
    ) -> None:
        """`app` and `env` label traces that have no such attributes. `spill_size` is the largest size of the spill
        file in bytes.

        Raises SettingError for what waiting cannot repair: an invalid address, a wrong key, a store of a newer version.
        A database that does not answer does not keep the application from starting: evaluations are spilled."""
        self._url, self._key = url, key
        self._app, self._env = app, env
        self._checks = tuple(evaluators)
        self._retention = retention
        address = parse_url(url)
        self._name = display_name(address)
        self._spill = Spill(spill_path(address), Keys(key) if key is not None else None, spill_size)
        self._store: Store | None = None
        self.written = 0
        """Evaluations stored since the start."""
        self.spilled = 0
        """Evaluations that this process has put into the spill file since the start, stored by now or not."""
        self.lost = 0
        """Evaluations that neither the database nor the file took, or for which the queue had no room."""
        self.failures = 0
        """Times that the database did not take a batch."""
        self._next_try = 0.0
        self._pause = _BACKOFF[0]
        self._pruned = -_HOUR
        self._batch: Sequence[Evaluation] = ()
        """What the worker thread stores or spills at present."""
        try:
            self._store = open_store(url, key=key, is_sink=True)
        except StoreError as error:
            _log.warning("ragtrace: %s. Evaluations wait in %s meanwhile.", error, self._spill.path)
        self._queue = Background("ragtrace-store", self._work, bounds)

    def __call__(self, evaluation: Evaluation) -> None:
        """Take an evaluation, in the pipeline's thread. Never waits, never raises."""
        if evaluation.status != "dropped" and (loss := self._queue.put(evaluation, _size_of(evaluation))):
            self._lose(1, loss)

    def update_evaluators(self, checks: Sequence[Evaluator]) -> None:
        """Use these evaluators from now on: a calibration has changed their thresholds and versions."""
        self._checks = tuple(checks)

    @property
    def waiting(self) -> int:
        """Evaluations in memory that are not stored."""
        return self._queue.waiting + self._queue.running

    @property
    def spill_bytes(self) -> int:
        """Bytes in the spill file, of all processes that share it."""
        return len(self._spill)

    @property
    def undelivered(self) -> int:
        """Evaluations that are not in the database and do not wait in memory: lost, or in the spill file."""
        return self.lost + (self.spilled if self.spilled and self.spill_bytes else 0)

    # --- the worker thread -----------------------------------------------------------------------

    def _work(self, batch: list[Evaluation]) -> float:
        """Store a batch and do what is due; seconds until something is due although nothing comes."""
        try:
            if batch:
                self._batch = [self._with_defaults(evaluation) for evaluation in batch]
                self._put(self._batch)
                self._batch = ()
        except Exception:  # counted as lost before the queue logs it: the counts must add up
            self._lose(len(batch), "internal")
            raise
        self._maintain()
        if self._queue.closed and self._store is not None:  # `close` did not wait for this batch
            self._store.close()
        return max(1.0, self._next_try - time.monotonic()) if len(self._spill) else _HOUR / 60

    def _put(self, batch: Sequence[Evaluation]) -> None:
        """Store a batch or spill it. Tries again while neither the database nor the disk takes it, until `close`."""
        is_last_try = False
        while True:
            if time.monotonic() >= self._next_try and self._stored(batch):
                return
            if self._spilled(batch, is_last_try):
                return
            is_last_try = self._queue.pause(min(1.0, self._pause))

    def _spilled(self, batch: Sequence[Evaluation], is_last_try: bool) -> bool:
        """Put a batch into the file. A full file loses it; False if the disk refuses it and another try follows."""
        try:
            self._spill.append(batch)
            self.spilled += len(batch)
        except (SpillFullError, OSError) as error:
            if isinstance(error, OSError) and not is_last_try:
                return False
            self._lose(len(batch), f"{self._spill.path}: {error}")
        return True

    def _stored(self, batch: Sequence[Evaluation]) -> bool:
        """Whether the database took the batch."""
        try:
            self._write(batch)
        except (RagtraceError, OSError) as error:
            self._failed(error)
            return False
        self._next_try, self._pause = 0.0, _BACKOFF[0]
        return True

    def _write(self, batch: Sequence[Evaluation]) -> int:
        """Store a batch, one by one where the database refuses a value of it; how many it took."""
        try:
            self._opened().write(batch, self._checks)
        except (RagtraceError, OSError):
            raise
        except Exception as error:  # noqa: BLE001 e.g. an object of the application's that cannot be written
            if len(batch) > 1:
                return sum(self._write([evaluation]) for evaluation in batch)
            self._lose(1, type(error).__name__)  # the evaluation itself is what the database does not take
            return 0
        self.written += len(batch)
        return len(batch)

    def _opened(self) -> Store:
        """The store, opened again where its file was deleted. Raises SettingError where a newer version of ragtrace has
        upgraded its tables: then evaluations are spilled, and nothing is written in an old form."""
        if self._store is not None and self._store.is_gone():
            _log.warning("ragtrace: %s was deleted or replaced; it is opened again, empty if it is new", self._name)
            self._store.close()
            self._store = None
        if self._store is None:
            self._store = open_store(self._url, key=self._key, is_sink=True)
        else:
            self._store.check_version()
        return self._store

    def _failed(self, error: Exception) -> None:
        self.failures += 1
        self._next_try = time.monotonic() + self._pause
        if self._pause == _BACKOFF[0]:
            _log.warning("ragtrace: %s. Evaluations wait in %s meanwhile.", error, self._spill.path)
        self._pause = min(2 * self._pause, _BACKOFF[1])

    def _maintain(self) -> None:
        """Store what was spilled as soon as the database takes it; delete what is too old once an hour."""
        if time.monotonic() < self._next_try or self._queue.closed:
            return
        try:
            if self._retention is not None and time.monotonic() - self._pruned > _HOUR:
                self._pruned = time.monotonic()
                prune_hourly(self._opened(), self._retention)
            if len(self._spill):
                self._drain()
        except (RagtraceError, OSError, SQLAlchemyError) as error:
            self._failed(error)

    def _drain(self) -> None:
        count, damaged = self._spill.drain(self._write)
        if count or damaged:
            _log.warning("ragtrace: %s stored %d spilled evaluations; %d were damaged", self._name, count, damaged)

    def _with_defaults(self, evaluation: Evaluation) -> Evaluation:
        """The evaluation with an application, an environment and a time."""
        trace = evaluation.trace
        facts = replace(trace.facts, app=trace.facts.app or self._app, env=trace.facts.env or self._env)
        return replace(evaluation, trace=replace(trace, facts=facts, started=trace.started or time.time()))

    def _lose(self, count: int, reason: str) -> None:
        first = self.lost == 0
        self.lost += count
        if first and count:
            _log.warning("ragtrace: the store lost an evaluation (%s). Further losses are only counted.", reason)

    # --- control ---------------------------------------------------------------------------------

    def flush(self, timeout: float = 10.0) -> bool:
        """Wait until everything taken so far is stored or spilled; False after `timeout` seconds."""
        return self._queue.flush(timeout)

    def wait_for_spill(self, timeout: float) -> bool:
        """Wait until what this process has spilled is in the database; False after `timeout` seconds."""
        until = time.monotonic() + timeout
        while self.spilled and self.spill_bytes:
            if time.monotonic() >= until or self._queue.pause(0.05):
                return False
        return True

    def close(self, timeout: float = 5.0) -> bool:
        """Store what waits for up to `timeout` seconds and spill the rest; True if nothing was lost meanwhile. Safe to
        call twice."""
        lost = self.lost
        rest = [self._with_defaults(evaluation) for evaluation in self._queue.close(timeout)]
        # The process may end before the database answers the worker thread. What is stored twice counts once.
        if rest := [*self._batch, *rest]:
            self._batch = ()
            self._spilled(rest, is_last_try=True)
        if not self._queue.running and self._store is not None:
            self._store.close()
        return self.lost == lost


def _size_of(evaluation: Evaluation) -> int:
    """About how many bytes the evaluation keeps alive."""
    trace = evaluation.trace
    size = 1_000 + sys.getsizeof(trace.query) + sys.getsizeof(trace.answer) + 500 * len(evaluation.scores)
    for score in evaluation.scores:
        size += sys.getsizeof(score.explanation) + 200 * len(score.evidence)
    return size + sum(300 + sys.getsizeof(document.content) for document in trace.documents)
