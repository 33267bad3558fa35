"""Exports in batches that give way to the application's threads, and counts what could not be exported."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from ragtrace.background import after_fork

_log = logging.getLogger(__name__)
T = TypeVar("T")
_BATCH = 32
"""Items sent in one request: putting the parts together and writing them out is one piece of work under the lock."""
_PAUSE = 0.0001
"""Seconds that the exporter's own thread steps aside after every _STRIDE items. Encoding holds the interpreter's lock,
and a thread that computes gives it up after 5 ms only: 512 spans at once, the SDK's default, stall every request for as
long as their encoding takes."""
_STRIDE = 8
"""Fewer would hold the lock for a shorter time, and be too slow: a thread that stepped aside may wait 5 ms for its next
turn where the application computes without a break."""
_LOG_EVERY = 60.0
_QUEUE = 4_096
_DELAY = 1_000
"""Milliseconds."""
_TIMEOUT = 10.0
"""Seconds that an exporter waits by default: OTEL_EXPORTER_OTLP_TIMEOUT."""
_NO_SUCH_SIGNAL = frozenset({404, 405, 501, "UNIMPLEMENTED"})
"""What a backend answers that has no place for a signal: HTTP's and gRPC's status."""
_attempt = threading.local()
"""`exporter`: the CountingExporter that exports in this thread."""


@dataclass(frozen=True, slots=True)
class ExportStats:
    """What became of the items given to an exporter."""

    exported: int
    failed: Mapping[str, int]
    """By reason: `rejected` (the endpoint refused them), `timeout` (it did not answer in time, and may have received
    them), `shutdown`, or the name of an exception."""


class _Paced(Sequence[T]):
    """A batch that lets others run between two of its items: exporters encode while they iterate."""

    def __init__(self, items: Sequence[T]) -> None:
        self._items = items

    def __len__(self) -> int:
        return len(self._items)

    def __getitem__(self, index: Any) -> Any:
        return self._items[index]

    def __iter__(self) -> Iterator[T]:
        for i, item in enumerate(self._items, 1):
            yield item
            if i % _STRIDE == 0:
                time.sleep(_PAUSE)


class CountingExporter(Generic[T]):
    """Wraps an exporter: counts, steps aside between items, and says once a minute that it fails."""

    def __init__(self, inner: Any, what: str, failure: Any, *, optional: bool = False) -> None:
        """`failure` is the result that says that a batch was not exported. `optional` items end, with one sentence in
        the log and no failures, where the backend says at the first batch that it has no place for them."""
        self._inner = inner
        self._what = what
        self._failure = failure
        self._optional = optional
        self.is_unsupported = False
        """Whether the backend has no place for optional items."""
        self._exported = 0
        self._failed: Counter[str] = Counter()
        self._logged_at = 0.0
        self._stopped = False
        after_fork(self._reset_counts)

    def _reset_counts(self) -> None:
        # In a forked child: the parent reports what was counted before the fork; a second report would double it.
        self._exported = 0
        self._failed = Counter()

    def export(self, batch: Sequence[T]) -> Any:
        """Export a batch with the inner exporter; its result."""
        if self.is_unsupported:
            return type(self._failure).SUCCESS
        if self._stopped:
            self._note("shutdown", len(batch))
            return self._failure
        if threading.current_thread().name.startswith("OtelBatch"):
            batch = _Paced(batch)
        start = time.monotonic()
        _attempt.exporter = self
        try:
            result = self._inner.export(batch)
        except Exception as error:
            name = type(error).__name__
            self._note("timeout" if "Timeout" in name else name, len(batch))
            raise
        finally:
            _attempt.exporter = None
        if getattr(result, "name", "SUCCESS") == "SUCCESS":
            self._exported += len(batch)
        elif not self.is_unsupported:
            late = time.monotonic() - start >= _timeout_of(self._inner) * 0.95
            self._note("shutdown" if self._stopped else "timeout" if late else "rejected", len(batch))
        return result

    def note_answer(self, status: Any) -> bool:
        """Note the status of the backend's answer. True where optional items end because of it."""
        if self._optional and not self._exported and not self.is_unsupported and status in _NO_SUCH_SIGNAL:
            self.is_unsupported = True
            _log.warning(
                "ragtrace: the backend takes no %s (%s), so none are sent any more; scores are on the spans. "
                "events=False turns them off",
                self._what,
                status,
            )
        return self.is_unsupported

    def _note(self, reason: str, count: int) -> None:
        self._failed[reason] += count
        now = time.monotonic()
        if now - self._logged_at >= _LOG_EVERY or not self._logged_at:
            self._logged_at = now
            _log.warning(
                "ragtrace: %d %s could not be exported so far (%s)", sum(self._failed.values()), self._what, reason
            )

    def stats(self) -> ExportStats:
        """The counts so far."""
        return ExportStats(self._exported, dict(self._failed))

    def stop(self) -> None:
        """Send nothing more: what comes is counted as `shutdown`, a retry that waits is ended."""
        self._stopped = True
        self._inner.shutdown()

    def shutdown(self, *_args: Any, **_kwargs: Any) -> None:
        """Shut the inner exporter down."""
        if not self._stopped:
            self._inner.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Flush the inner exporter."""
        flush = getattr(self._inner, "force_flush", None)
        return bool(flush(timeout_millis)) if flush is not None else True


class _DropCounter:
    """Counts the items that a full queue of the SDK's batch processor drops."""

    _variables: ClassVar[str]
    """How the names of its environment variables begin."""

    def __init__(self, exporter: CountingExporter[Any]) -> None:
        self.dropped = 0
        after_fork(self._reset_counts)
        usual = {"max_queue_size": _QUEUE, "schedule_delay_millis": _DELAY, "max_export_batch_size": _BATCH}
        # The SDK reads what is None from the environment, and tells of a value that is no number.
        options = {name: None if self._variable(name) in os.environ else value for name, value in usual.items()}
        queue = os.environ.get(self._variable("max_queue_size"), "")
        if options["max_export_batch_size"] and queue.isdecimal() and int(queue):
            options["max_export_batch_size"] = min(_BATCH, int(queue))
        try:
            super().__init__(exporter, **options)  # type: ignore[call-arg]  # the SDK's, the next of the bases
        except ValueError as error:
            _log.warning("ragtrace: %s* is not used, because %s", self._variables, error)
            super().__init__(exporter, **usual)  # type: ignore[call-arg]

    def _variable(self, argument: str) -> str:
        return self._variables + argument.removesuffix("_millis").upper()

    def _reset_counts(self) -> None:
        self.dropped = 0

    def _count(self) -> None:
        """Called before each item: the SDK drops the oldest one if the queue is full."""
        queue = getattr(getattr(self, "_batch_processor", None), "_queue", None)
        if queue is not None and len(queue) == queue.maxlen:
            self.dropped += 1


class PacedSpanProcessor(_DropCounter, BatchSpanProcessor):
    """The SDK's span processor with a count of dropped spans."""

    _variables = "OTEL_BSP_"

    def on_end(self, span: ReadableSpan) -> None:
        """Queue the span."""
        self._count()
        super().on_end(span)


class PacedLogRecordProcessor(_DropCounter, BatchLogRecordProcessor):
    """The SDK's log processor with a count of dropped events."""

    _variables = "OTEL_BLRP_"

    def on_emit(self, log_record: Any) -> None:
        """Queue the event."""
        self._count()
        super().on_emit(log_record)


def quiet(logger_names: Sequence[str]) -> None:
    """Let the exporters' own loggers speak of errors once a minute: they log every failed try with a traceback."""
    for name in logger_names:
        logger = logging.getLogger(name)
        if not any(isinstance(f, _OncePerMinute) for f in logger.filters):
            logger.filters.insert(0, _OncePerMinute())  # the SDK's own filter hides answers that are repeated


class _OncePerMinute(logging.Filter):
    """Also tells the exporter of the status that the backend answered: the result of an export does not say it."""

    def __init__(self) -> None:
        super().__init__()
        self._last = -_LOG_EVERY

    def filter(self, record: logging.LogRecord) -> bool:
        exporter: CountingExporter[Any] | None = getattr(_attempt, "exporter", None)
        arguments = record.args if isinstance(record.args, tuple) else ()
        for status in (getattr(argument, "name", argument) for argument in arguments):
            if exporter is not None and isinstance(status, (int, str)) and exporter.note_answer(status):
                return False
        now = time.monotonic()
        if now - self._last < _LOG_EVERY:
            return False
        self._last = now
        return True


def _timeout_of(exporter: Any) -> float:
    """Seconds that the exporter waits for an answer at most; the SDK has no public name for it."""
    for each in (exporter, getattr(exporter, "_client", None)):
        if isinstance(seconds := getattr(each, "_timeout", None), (int, float)):
            return float(seconds)
    return _TIMEOUT
