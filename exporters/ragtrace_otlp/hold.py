"""Holds a sampled request's root span back until its scores are there, and lets it go with them.

A span takes no attribute after its end, so its scores are added to a copy, and the copy is exported. Children leave at
once. Whatever happens (late scores, a full hold, a shutdown), each span leaves exactly once."""

import math
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, SynchronousMultiSpanProcessor

from ragtrace import semconv
from ragtrace.base.background import Background, after_fork
from ragtrace.base.lazy import Latest
from ragtrace.capture.span_writer import attributes_for, attributes_of
from ragtrace.errors import log_failure
from ragtrace.records import Evaluation
from ragtrace_otlp.scores import ScoreFormat, score_attributes, without_content

_REMEMBERED = 10_000
LOADING = 60.0
"""Seconds that the evaluators may take to load their models: so much longer the first spans are held."""
_Key = tuple[int, int]


@dataclass(frozen=True, slots=True)
class HoldLimits:
    """Limits of the hold: spans, their bytes, and the seconds for which one span is held. The seconds begin when the
    evaluators have loaded their models, `LOADING` seconds after the span's end at the latest."""

    spans: int = 2_000
    bytes: int = 64 * 1024 * 1024
    seconds: float = 20.0


@dataclass(frozen=True, slots=True)
class HoldStats:
    """A snapshot: `parked = released + expired + held`."""

    parked: int
    released: int
    """Exported with their scores, or marked as having none."""
    expired: int
    """Left unscored: too late, too many, too large, or the process ended."""
    late: int
    """Evaluations that came for a span which had left."""
    held: int
    held_bytes: int


@dataclass(slots=True)
class _Parked:
    span: ReadableSpan
    size: int
    since: float
    more: dict[str, Any] | None = None
    """Attributes that the span leaves with in any case; None where nobody has decided yet whether it is a request."""


class ProcessorGroup(SynchronousMultiSpanProcessor):
    """Several processors as one."""

    def __init__(self, processors: tuple[SpanProcessor, ...]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._span_processors = processors

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Flush all."""
        results = [each.force_flush(timeout_millis) for each in self._span_processors]  # no short cut, as the SDK takes
        return all(results)


class HoldProcessor(ProcessorGroup):
    """A span processor around the real one. Call it with an evaluation to let that request's root span go."""

    def __init__(
        self,
        inner: SpanProcessor,
        limits: HoldLimits | None = None,
        form: ScoreFormat | None = None,
        late: Callable[[Evaluation], None] | None = None,
    ) -> None:
        """`late` is given each evaluation whose span has left without it."""
        super().__init__((inner,))
        self._limits = limits or HoldLimits()
        self._form = form or ScoreFormat()
        self._late_sink = late or (lambda _evaluation: None)
        self._must_load = False
        self._closed = False
        self._worker = Background("ragtrace-hold", self._work)
        self._reset()
        after_fork(self._reset)

    def _reset(self) -> None:
        # Also for a forked child: what is parked belongs to the parent, which exports it.
        # Reentrant, unlike the SDK's: a finalizer may end a span while its thread has the lock.
        self._lock = threading.RLock()  # type: ignore[assignment]
        self._spans: OrderedDict[_Key, _Parked] = OrderedDict()
        self._early: Latest[_Key, Evaluation] = Latest(self._limits.spans)
        self._recent: Latest[_Key, None] = Latest(_REMEMBERED)
        """Spans that have left: what comes for them is late."""
        self._expected: Latest[_Key, dict[str, Any] | None] = Latest(self._limits.spans)
        """By key: what `decide` has said of spans that have not ended; None where it has not."""
        self._bytes = 0
        self._loaded_at = math.inf if self._must_load else 0.0
        self._parked = self._released = self._expired = self._late = 0

    def wait_for_models(self) -> None:
        """Count no seconds until `begin` is called. A forked child, which loads its own models, waits again."""
        self._must_load = True
        self._loaded_at = math.inf

    def begin(self) -> None:
        """Count the seconds from now on: the evaluators have loaded their models."""
        with self._lock:
            if self._loaded_at == math.inf:
                self._loaded_at = time.monotonic()
        self._worker.wake()

    # --- span processor --------------------------------------------------------------------------

    def on_end(self, span: ReadableSpan) -> None:
        """Park a span that waits for its scores; pass any other on."""
        context = span.context
        key = (context.trace_id, context.span_id) if context is not None else (0, 0)
        is_expected, more = self._expectation(key) if self._expected else (False, None)
        is_sampled = attributes_of(span).get(semconv.SAMPLED) is True
        if not (is_sampled or is_expected) or context is None or self._closed:
            super().on_end(span)
            return
        if more is None:
            more = {} if is_sampled else None
        elif not more.get(semconv.SAMPLED):
            self._leave(span, more)
            return
        early = None
        with self._lock:
            closed = self._closed  # once more under the lock: a shutdown in between would leave the span behind
            if not closed:
                self._parked += 1
                early = self._early.pop(key, None)
                if early is not None:
                    self._released += 1
                    self._recent[key] = None
                else:
                    self._spans[key] = _Parked(span, 0, time.monotonic(), more)
        if closed:
            super().on_end(span)
        elif early is not None:
            self._leave(span, score_attributes(early, self._form))
        else:
            self._worker.put(key)  # not under the lock: it may start a thread
            self._let_go(self._limits.spans)

    def shutdown(self) -> None:
        """Let everything go, then shut the real processor down."""
        with self._lock:
            self._closed = True
        self._let_go(0, "dropped")  # no scores come any more
        self._worker.close(0)
        super().shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Let everything go, then flush the real processor."""
        self._let_go(0)
        return super().force_flush(timeout_millis)

    # --- spans of other libraries ----------------------------------------------------------------

    def expect(self, key: tuple[int, int]) -> None:
        """Park the span with these ids (trace, span), which is about to end: somebody decides later."""
        with self._lock:
            self._expected.setdefault(key, None)

    def _expectation(self, key: _Key) -> tuple[bool, dict[str, Any] | None]:
        with self._lock:
            return key in self._expected, self._expected.pop(key, None)

    def decide(self, key: tuple[int, int], more: dict[str, Any]) -> None:
        """Say with which attributes a parked span leaves in any case. It waits for scores if it is `SAMPLED`."""
        with self._lock:
            entry = self._spans.get(key)
            if entry is None:  # the thread that decides was faster than the one that ends the span
                if key not in self._recent:
                    self._expected[key] = more
                return
            if more.get(semconv.SAMPLED):
                entry.more = more
                return
            del self._spans[key]
            self._bytes -= entry.size
            self._released += 1
            self._recent[key] = None
        self._leave(entry.span, more)

    # --- sink ------------------------------------------------------------------------------------

    def __call__(self, evaluation: Evaluation) -> None:
        """Let the evaluated request's root span go with its scores."""
        key = (evaluation.trace.trace_id, evaluation.trace.span_id)
        if evaluation.is_late:  # the span has left, or waits for an evaluation of its own
            self._late_sink(evaluation)
            return
        with self._lock:
            entry = self._spans.pop(key, None)
            late = entry is None and (key in self._recent or self._closed)
            if entry is not None:
                self._bytes -= entry.size
                self._released += 1
                self._recent[key] = None
            elif late:
                self._late += 1
            else:
                # It may wait for a span that never comes: the application's own sampler has left the request out.
                self._early[key] = without_content(evaluation)
        if entry is not None:
            self._leave(entry.span, {**(entry.more or {}), **score_attributes(evaluation, self._form)})
        elif late:
            self._late_sink(evaluation)

    def stats(self) -> HoldStats:
        """Count the spans that are held and that were exported, and how."""
        with self._lock:
            return HoldStats(self._parked, self._released, self._expired, self._late, len(self._spans), self._bytes)

    # --- inside ----------------------------------------------------------------------------------

    def _leave(self, span: ReadableSpan, more: dict[str, Any]) -> None:
        copy = span
        try:
            copy = with_attributes(span, more) if more else span
        except Exception:  # noqa: BLE001 another release of the SDK may build spans differently: unscored beats lost
            log_failure(__name__, "ragtrace: scores could not be added to a span")
        try:
            # Once only: where one of several processors raises, the others have it already.
            super().on_end(copy)
        except Exception:  # noqa: BLE001 in the application's thread, or the timer's, which must live on
            log_failure(__name__, "ragtrace: a span processor failed")

    def _leave_unscored(self, entry: _Parked, status: str = "pending_timeout") -> None:
        """Export a span whose scores are not there, and say so where it waited for some."""
        self._leave(entry.span, {} if entry.more is None else {**entry.more, semconv.STATUS: status})

    def _let_go(self, spans: int, status: str = "pending_timeout") -> None:
        """Export the oldest ones until so many are left, and not too many bytes."""
        surplus = []
        with self._lock:
            while len(self._spans) > spans or (self._bytes > self._limits.bytes and self._spans):
                surplus.append(self._pop_oldest())
        for entry in surplus:
            self._leave_unscored(entry, status)

    def _pop_oldest(self) -> _Parked:
        key, entry = self._spans.popitem(last=False)
        self._bytes -= entry.size
        self._expired += 1
        self._recent[key] = None
        return entry

    def _work(self, parked: list[_Key]) -> float | None:
        """Measure the spans that were parked, which makes their deferred attributes, and let go what is too much."""
        for key in parked:
            with self._lock:
                entry = self._spans.get(key)
            if entry is None:
                continue
            size = _size_of(entry.span)
            with self._lock:
                if key in self._spans:  # it has not left meanwhile
                    entry.size = size
                    self._bytes += size
            self._let_go(self._limits.spans)
        return self._expire()

    def _expire(self) -> float | None:
        """Export the spans whose time is over; seconds until the next one's is. All are held equally long."""
        while True:
            with self._lock:
                if not self._spans:
                    return None
                since = next(iter(self._spans.values())).since
                counted_from = min(max(since, self._loaded_at), since + LOADING)
                remaining = counted_from + self._limits.seconds - time.monotonic()
                if remaining > 0:
                    return remaining
                entry = self._pop_oldest()
            self._leave_unscored(entry)


def with_attributes(span: ReadableSpan, more: dict[str, Any]) -> ReadableSpan:
    """A copy of an ended span with more attributes, its dropped counts kept.

    The SDK's limits are not applied again: scores push nothing out."""
    return copy_of(span, attributes=attributes_for(span, {**(span.attributes or {}), **more}))


def copy_of(span: ReadableSpan, **changes: Any) -> ReadableSpan:
    """A copy of an ended span with some of the arguments of `ReadableSpan` replaced."""
    names = ("name", "context", "parent", "resource", "attributes", "kind", "status", "start_time", "end_time")
    same = {name: getattr(span, name) for name in (*names, "instrumentation_scope")}
    # The bounded lists themselves hold the dropped counts.
    return ReadableSpan(**{**same, "events": span._events, "links": span._links, **changes})


def _size_of(span: ReadableSpan) -> int:
    """Bytes that a parked span keeps alive, about."""
    size = 2_000
    for attributes in (span.attributes, *(event.attributes for event in span.events)):
        for value in (attributes or {}).values():
            size += 100 + (sum(map(sys.getsizeof, value)) if isinstance(value, tuple) else sys.getsizeof(value))
    return size
