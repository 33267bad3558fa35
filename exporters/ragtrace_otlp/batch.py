"""Exports in batches that give way to the application's threads, and counts what could not be exported."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from ragtrace.background import after_fork

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


@dataclass(frozen=True, slots=True)
class ExportStats:
    """What became of the items given to an exporter."""

    exported: int
    failed: Mapping[str, int]
    """By reason: `rejected` (the endpoint took them not), or the name of an exception."""


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

    def __init__(self, inner: Any, what: str, failure: Any) -> None:
        """`failure` is the result that says that a batch was not exported."""
        self._inner = inner
        self._what = what
        self._failure = failure
        self._exported = 0
        self._failed: Counter[str] = Counter()
        self._logged_at = 0.0
        self._stopped = False
        self._log = logging.getLogger(__name__)
        after_fork(self._reset_counts)

    def _reset_counts(self) -> None:
        # In a forked child: the parent reports what was counted before the fork; a second report would double it.
        self._exported = 0
        self._failed = Counter()

    def export(self, batch: Sequence[T]) -> Any:
        """Export a batch with the inner exporter; its result."""
        if self._stopped:
            self._note("shutdown", len(batch))
            return self._failure
        if threading.current_thread().name.startswith("OtelBatch"):
            batch = _Paced(batch)
        try:
            result = self._inner.export(batch)
        except Exception as error:
            self._note(type(error).__name__, len(batch))
            raise
        if getattr(result, "name", "SUCCESS") == "SUCCESS":
            self._exported += len(batch)
        else:
            self._note("rejected", len(batch))
        return result

    def _note(self, reason: str, count: int) -> None:
        self._failed[reason] += count
        now = time.monotonic()
        if now - self._logged_at >= _LOG_EVERY or not self._logged_at:
            self._logged_at = now
            self._log.warning(
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

    def __init__(self, exporter: CountingExporter[Any], queue: int = 4_096) -> None:
        self.dropped = 0
        self._limit = queue
        after_fork(self._reset_counts)
        super().__init__(  # type: ignore[call-arg]  # the SDK's processor, which comes next among the bases
            exporter, max_queue_size=queue, schedule_delay_millis=1_000, max_export_batch_size=_BATCH
        )

    def _reset_counts(self) -> None:
        self.dropped = 0

    def _count(self) -> None:
        """Called before each item: the SDK drops the oldest one if the queue is full."""
        if len(getattr(getattr(self, "_batch_processor", None), "_queue", ())) >= self._limit:
            self.dropped += 1


class PacedSpanProcessor(_DropCounter, BatchSpanProcessor):
    """The SDK's span processor with a count of dropped spans."""

    def on_end(self, span: ReadableSpan) -> None:
        """Queue the span."""
        self._count()
        super().on_end(span)


class PacedLogRecordProcessor(_DropCounter, BatchLogRecordProcessor):
    """The SDK's log processor with a count of dropped events."""

    def on_emit(self, log_record: Any) -> None:
        """Queue the event."""
        self._count()
        super().on_emit(log_record)


def quiet(logger_names: Sequence[str]) -> None:
    """Let the exporters' own loggers speak of errors once a minute: they log every failed try with a traceback."""
    for name in logger_names:
        logger = logging.getLogger(name)
        if not any(isinstance(f, _OncePerMinute) for f in logger.filters):
            logger.addFilter(_OncePerMinute())


class _OncePerMinute(logging.Filter):
    def __init__(self) -> None:
        super().__init__()
        self._last = -_LOG_EVERY

    def filter(self, record: logging.LogRecord) -> bool:
        now = time.monotonic()
        if now - self._last < _LOG_EVERY:
            return False
        self._last = now
        return True
