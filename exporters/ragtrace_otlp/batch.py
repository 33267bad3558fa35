"""Exports in batches that give way to the application's threads, and counts what could not be exported."""

import contextlib
import logging
import os
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from ragtrace.base.background import after_fork, step_aside

_log = logging.getLogger(__name__)
T = TypeVar("T")
_BATCH = 512
"""Items that leave the queue together, as in the SDK."""
_PART = 32
"""Items sent in one request while few wait: putting the parts together and writing them out is one piece of work under
the interpreter's lock."""
_PRESSURE = 16
"""When more than this part of the queue's room waits, here a sixteenth, an export takes the lock as long as it can:
what a full queue drops is worse than a request that waits."""
_STRIDE = 8
"""Items after which the exporter's own thread steps aside. Encoding holds the interpreter's lock: 512 spans at once,
the SDK's default, stall every request for as long as their encoding takes. Fewer would hold the lock for a shorter
time, and be too slow: a thread that stepped aside may wait 5 ms for its next turn where the application computes
without a break."""
_LOG_EVERY = 60.0
_QUEUE = 4_096
_DELAY = 1_000
"""Milliseconds."""
_TIMEOUT = 10.0
"""Seconds that an exporter waits by default: OTEL_EXPORTER_OTLP_TIMEOUT."""
_BUSY = frozenset({408, 429, 502, 503, 504, "UNAVAILABLE", "RESOURCE_EXHAUSTED"})
"""What a backend answers that may take the same items later."""
_GAVE_UP = "max retries"
"""What the SDK's exporters say when they try no further."""
_NO_SUCH_SIGNAL = frozenset({404, 405, 501, "UNIMPLEMENTED"})
"""What a backend answers that has no place for a signal: HTTP's and gRPC's status."""
_attempt = threading.local()
"""`exporter`: the CountingExporter that exports in this thread."""


@dataclass(frozen=True, slots=True)
class ExportStats:
    """How the items that an exporter received ended."""

    exported: int
    failed: Mapping[str, int]
    """By reason: `rejected`, `unavailable` (the endpoint was not reached, or busy for longer than the exporter tries),
    `timeout` (it may have received them), `shutdown`, or the name of an exception."""


class _Paced(Sequence[T]):
    """A batch that lets others run between two of its items: exporters encode while they iterate."""

    def __init__(self, items: Sequence[T], is_urgent: Callable[[], bool]) -> None:
        self._items = items
        self._is_urgent = is_urgent

    def __len__(self) -> int:
        return len(self._items)

    def __getitem__(self, index: Any) -> Any:
        return self._items[index]

    def __iter__(self) -> Iterator[T]:
        for i, item in enumerate(self._items, 1):
            yield item
            if i % _STRIDE == 0 and not self._is_urgent():
                step_aside()


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
        self.is_urgent: Callable[[], bool] = lambda: False
        """Whether so many items wait that the exporter should not step aside."""
        self.prepare: Callable[[T], T] | None = None
        """What changes each item last of all."""
        self._logged_at = 0.0
        self._stopped = self._is_busy = False
        self._accepted: Callable[[], int] | None = None
        """Items that were given to this exporter's queue and not dropped; None until `abandon`."""
        self._reset_counts()
        after_fork(self._reset_counts)

    def _reset_counts(self) -> None:
        # In a forked child: the parent reports what was counted before the fork; a second report would double it.
        self._lock = threading.Lock()  # of `_exported`, `_under_way` and `_failed`
        self._exported = 0
        self._under_way = self.refused = 0
        self._failed: Counter[str] = Counter()

    def export(self, batch: Sequence[T]) -> Any:
        """Export a batch with the inner exporter, in several requests where it may take its time; the result of the
        first request that failed, else of the last."""
        results = [self._export_part(part) for part in self._parts(batch)]
        return next((result for result in results if not _is_success(result)), results[-1] if results else None)

    def _parts(self, batch: Sequence[T]) -> Iterator[Sequence[T]]:
        """The requests of a batch. In the processor's thread they are small, and pause, until many items wait."""
        if not threading.current_thread().name.startswith("OtelBatch"):
            yield batch
            return
        sent = 0
        while sent < len(batch):
            size = len(batch) if self.is_urgent() else _PART
            yield _Paced(batch[sent : sent + size], self.is_urgent)
            sent += size

    def _export_part(self, part: Sequence[T]) -> Any:
        if self.is_unsupported:
            return type(self._failure).SUCCESS
        if self._stopped:
            self._note("shutdown", len(part))
            return self._failure
        self._under_way = len(part)
        start, self._is_busy = time.monotonic(), False
        _attempt.exporter = self
        reason, self.refused = "", 0
        try:
            result = self._inner.export(list(map(self.prepare, part)) if self.prepare else part)
        except Exception as error:  # noqa: BLE001 the parts that follow are exported all the same
            # requests' errors are OSErrors. Older SDKs raise them, newer ones return a failure.
            is_network, name = isinstance(error, OSError), type(error).__name__
            result, reason = self._failure, "timeout" if "Timeout" in name else "" if is_network else name
            self._is_busy = is_network
        finally:
            _attempt.exporter = None
        late = time.monotonic() - start >= _timeout_of(self._inner) * 0.95
        usual = "timeout" if late else "unavailable" if self._is_busy else "rejected"
        reason = reason or ("shutdown" if self._stopped else usual)
        self._settle(_is_success(result), reason)
        return result

    def _settle(self, is_exported: bool, reason: str) -> None:
        """Count the request that is under way, unless `abandon` has done so."""
        with self._lock:
            count, self._under_way = self._under_way, 0
            refused = min(count, self.refused) if is_exported else count
            self._exported += count - refused
        if refused and not self.is_unsupported:
            self._note("rejected" if is_exported else reason, refused)

    def abandon(self, accepted: Callable[[], int]) -> None:
        """Count a request that has not ended as `timeout`: nobody waits for it any more. From now on every other item
        of `accepted` that is in no other count is a `shutdown`, wherever it is: in the queue, in a batch of the
        processor's thread, or on the way from one to the other."""
        self._settle(False, "timeout")
        self._accepted = accepted
        if "shutdown" in self.stats().failed:
            self._warn("shutdown")

    def note_answer(self, status: Any) -> bool:
        """Note the status of the backend's answer. True where optional items end because of it."""
        self._is_busy |= status in _BUSY or status == _GAVE_UP
        if self._optional and not self._exported and not self.is_unsupported and status in _NO_SUCH_SIGNAL:
            self.is_unsupported = True
            _log.warning(
                "ragtrace: the backend takes no %s (%s), so none are sent any more; scores are on the spans. "
                "OTEL_LOGS_EXPORTER=none turns them off", self._what, status,
            )  # fmt: skip
        return self.is_unsupported

    def _note(self, reason: str, count: int) -> None:
        with self._lock:
            self._failed[reason] += count
        self._warn(reason)

    def _warn(self, reason: str) -> None:
        now = time.monotonic()
        if now - self._logged_at >= _LOG_EVERY or not self._logged_at:
            self._logged_at = now
            _log.warning(
                "ragtrace: %d %s could not be exported so far (%s)", sum(self.stats().failed.values()), self._what,
                reason,
            )  # fmt: skip

    def stats(self) -> ExportStats:
        """The counts so far. After `abandon` they add up to the items that were accepted, at each moment."""
        with self._lock:
            exported, failed = self._exported, dict(self._failed)
            if self._accepted is not None and not self.is_unsupported:
                others = sum(count for reason, count in failed.items() if reason != "shutdown")
                if lost := self._accepted() - exported - others:
                    failed["shutdown"] = lost
        return ExportStats(exported, failed)

    def stop(self) -> None:
        """Send nothing more: what comes is counted as `shutdown`, a retry that waits is ended."""
        self._stopped = True
        self._inner.shutdown()

    def shutdown(self, *_args: Any, **_kwargs: Any) -> None:
        """Shut the inner exporter down."""
        if not self._stopped:
            self._inner.shutdown()


class _Queue(deque[T]):
    """The queue of the SDK's batch processor, with a count of the items that were taken out of it."""

    def __init__(self, items: Iterable[T], maxlen: int | None) -> None:
        super().__init__(items, maxlen)
        self.reset()

    def reset(self) -> None:
        """Forget the items and the count."""
        self._lock = threading.Lock()
        self._removals = 0
        self.clear()

    def pop(self) -> T:  # type: ignore[override]  # the SDK gives no index
        """Take the oldest item."""
        with self._lock:
            item = super().pop()
            self._removals += 1
            return item

    def entries(self) -> int:
        """The items that wait and those that were taken out: all that were put in and not dropped."""
        with self._lock:
            return len(self) + self._removals


class _DropCounter(Generic[T]):
    """Counts the items that a full queue of the SDK's batch processor drops."""

    _variables: ClassVar[str]
    """How the names of its environment variables begin."""

    def __init__(self, exporter: CountingExporter[T]) -> None:
        self._exporter = exporter
        self._queue: _Queue[T] | None = None
        self._reset_counts()
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
        self._count_queue()

    def _count_queue(self) -> None:
        """Have the SDK's processor use a queue that counts; there is no public way."""
        processor = getattr(self, "_batch_processor", None)
        if isinstance(queue := getattr(processor, "_queue", None), deque):
            counting = self._queue = processor._queue = _Queue(queue, queue.maxlen)  # type: ignore[union-attr]
            least = (queue.maxlen or _QUEUE) // _PRESSURE
            self._exporter.is_urgent = lambda: len(counting) > least

    def _variable(self, argument: str) -> str:
        return self._variables + argument.removesuffix("_millis").upper()

    def _reset_counts(self) -> None:
        self._lock = threading.RLock()  # reentrant: a finaliser may end a span while its thread has the lock
        self._accepted = self._dropped = 0
        if self._queue is not None:
            self._queue.reset()

    def _count(self) -> None:
        """Called after each item that was put into the queue; the SDK drops the oldest one of a full queue."""
        with self._lock:
            self._accepted += 1

    @property
    def dropped(self) -> int:
        """Items that the full queue dropped, or that came after the shutdown."""
        accepted = self._accepted  # read first: items that come meanwhile make the result smaller, never larger
        if self._queue is not None:
            self._dropped = max(self._dropped, accepted - self._queue.entries())
        return self._dropped

    def abandon(self) -> None:
        """Count what is left after the end. It stays where it is: the SDK's thread may be taking it at this moment."""
        if self._queue is not None:
            self._exporter.abandon(self._queue.entries)


class PacedSpanProcessor(_DropCounter[ReadableSpan], BatchSpanProcessor):
    """The SDK's span processor with a count of dropped spans."""

    _variables = "OTEL_BSP_"

    def on_end(self, span: ReadableSpan) -> None:
        """Queue the span."""
        super().on_end(span)
        if span.context is not None and span.context.trace_flags.sampled:  # the SDK leaves others out
            self._count()


class PacedLogRecordProcessor(_DropCounter[Any], BatchLogRecordProcessor):
    """The SDK's log processor with a count of dropped events."""

    _variables = "OTEL_BLRP_"

    def on_emit(self, log_record: Any) -> None:
        """Queue the event."""
        super().on_emit(log_record)
        self._count()


def note_refused(body: bytes) -> None:
    """Note how many items an endpoint refuses of those that this thread exports, from the body of its answer, which has
    one form for all signals. OpenTelemetry's exporters read none."""
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

    exporter: CountingExporter[Any] | None = getattr(_attempt, "exporter", None)
    if exporter is not None:
        with contextlib.suppress(Exception):  # another form: JSON, or a word
            exporter.refused = ExportTraceServiceResponse.FromString(body).partial_success.rejected_spans


def _is_success(result: Any) -> bool:
    return getattr(result, "name", "SUCCESS") == "SUCCESS"


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
        arguments += (_GAVE_UP,) * (_GAVE_UP in str(record.msg))
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
