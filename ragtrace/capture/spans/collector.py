"""Gathers the spans of this process as they start and end, and hands each request on once it is complete.

In the application's thread a span costs a few look-ups, and one bounded append where it may be a request. Nothing there
waits or raises. A thread of its own reads the spans.

A request is complete when its root has ended and nothing below it is open. Where a child stays open (a stream that is
read later, a task whose end was lost), it is waited for; a request without an end is given up after a while."""

import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from opentelemetry.trace import SpanKind

from ragtrace import semconv
from ragtrace.base.background import Background, Bounds, after_fork
from ragtrace.capture.request import MODEL_CALLS
from ragtrace.capture.span_writer import attributes_of
from ragtrace.capture.spans import dialects
from ragtrace.capture.spans.assembly import CONTAINERS, RequestSpans, requests_in, trace_from
from ragtrace.capture.spans.duplicates import Duplicates
from ragtrace.capture.spans.open_spans import LocalTrace, OpenSpan, SpanKey, is_below, scope_of
from ragtrace.capture.spans.span_facts import facts_of, operation_of
from ragtrace.capture.spans.span_record import SpanRecord, record_of
from ragtrace.records import Trace
from ragtrace.text.sanitizer import Sanitizer

_ENTRIES = (SpanKind.SERVER, SpanKind.CONSUMER)
_LEAVES = (SpanKind.CLIENT, SpanKind.PRODUCER)
_OWN, _GENERATIVE, _PLAIN, _UNKNOWN = "own", "generative", "plain", "unknown"
"""What an instrumentation scope is: ragtrace; a library in `dialects`; a library of something else, such as HTTP and
databases; or one whose attributes must be looked at."""
_MAX_SCOPES = 1_000
_REASONS = ("traces", "bytes", "open_spans", "expired", "failed")
_SWEEP = 30.0
_MAX_CALLS = 2_000
_PLAIN_SIZE = 1_000


@dataclass(frozen=True, slots=True)
class CollectorLimits:
    """What is kept of traces that have not ended. The oldest trace is given up beyond a limit, and counted."""

    traces: int = 10_000
    bytes: int = 64 * 1024 * 1024
    """Characters of attributes."""
    open_spans: int = 100_000
    settle: float = 0.2
    """Seconds after a root's end in which further spans may start below it."""
    patience: float = 30.0
    """Seconds for which open spans below an ended root are waited for."""
    expire: float = 900.0
    """Seconds without any span after which a trace is given up."""


@dataclass(frozen=True, slots=True)
class CollectorStats:
    """A snapshot of a collector."""

    requests: int
    """Requests that were handed on."""
    open_traces: int
    """Traces with spans of generative applications that have not ended."""
    kept_bytes: int
    lost: Mapping[str, int]
    """Traces that were given up: `traces`, `bytes`, `open_spans` (limits that were met), `expired`; `failed` calls."""


class _Candidate(NamedTuple):
    """A span that has ended and may be a request."""

    node: OpenSpan
    key: SpanKey
    since: float


class SpanCollector:
    """Takes the starts and ends of spans; calls `deliver` with each request, in a thread of its own."""

    def __init__(
        self, deliver: Callable[[SpanKey, Trace | None], None], *, reads: Callable[[str], bool] = lambda _scope: True,
        limits: CollectorLimits | None = None, sanitizer: Sanitizer | None = None,
    ) -> None:  # fmt: skip
        """`deliver` gets the key of each span that `end` announced as a possible request, with its trace or, where it
        turned out to be none, with None. `reads` says whether spans of an instrumentation scope are read."""
        self._deliver = deliver
        self._reads = reads
        self._limits = limits or CollectorLimits()
        self._sanitizer = sanitizer or Sanitizer()
        bounds = Bounds(items=self._limits.traces, batch=64)
        self._queue: Background[_Candidate] = Background("ragtrace-spans", self._work, bounds)
        self._closed = False
        self._reset()
        after_fork(self._reset)

    def _reset(self) -> None:
        # Also for a forked child: the parent's requests are the parent's.
        self._lock = threading.RLock()  # a finalizer may end a span while its thread has the lock
        self._nodes: dict[int, OpenSpan] = {}
        self._locals: dict[int, LocalTrace] = {}
        self._bytes = 0
        self._hurry = 0
        self._requests = 0
        self._lost: Counter[str] = Counter()
        self._duplicates = Duplicates()
        self._calls: deque[Any] = deque(maxlen=_MAX_CALLS)
        self._origins: dict[str, str] = {}

    # --- the application's thread ----------------------------------------------------------------

    def start(self, span: Any) -> None:
        """Note a span that starts. Never raises, never blocks."""
        try:
            if not self._closed:
                self._start(span)
        except Exception:  # noqa: BLE001 the application's thread
            self._lost["failed"] += 1

    def _start(self, span: Any) -> None:
        parent = span.parent
        above = self._nodes.get(parent.span_id) if parent is not None else None
        scope = scope_of(span)
        origin = self._origins.get(scope) or self._origin_of(scope)
        if above is not None and above.local.is_own:
            self._nodes[span.context.span_id] = above  # a part of a request that ragtrace records itself
            return
        if above is not None and origin == _PLAIN and span.kind in _LEAVES:
            return
        local = above.local if above is not None else LocalTrace()
        if origin == _OWN:
            local.is_own = inside = True
        else:
            inside = (above is not None and above.inside) or self._is_generative(span, scope, origin)
        span_id = span.context.span_id
        node = self._nodes[span_id] = local.open[span_id] = OpenSpan(span, local, above, inside, origin)
        if len(self._nodes) > self._limits.open_spans:
            self._forget_oldest(node)

    def _origin_of(self, scope: str) -> str:
        """What may be expected of an instrumentation scope; remembered, since it is asked for every span."""
        if scope.startswith(dialects.OWN_SCOPE):
            origin = _OWN
        elif scope in dialects.SCOPES or scope == dialects.LANGFUSE_SCOPE:
            origin = _GENERATIVE
            self._duplicates.note_scope(scope)
        elif scope.startswith(dialects.PLAIN_SCOPES) and not dialects.GENERATIVE_SCOPES.search(scope):
            origin = _PLAIN
        else:
            origin = _UNKNOWN
        if len(self._origins) < _MAX_SCOPES:
            self._origins[scope] = origin
        return origin

    def _is_generative(self, span: Any, scope: str, origin: str) -> bool:
        if origin == _GENERATIVE:
            return self._is_read(scope)
        return origin == _UNKNOWN and operation_of(attributes_of(span), span.name) is not None and self._reads(scope)

    def _is_read(self, scope: str) -> bool:
        return self._reads(scope) and self._duplicates.reads(scope)

    def _forget_oldest(self, newest: OpenSpan) -> None:
        """Spans whose end was lost must not fill the memory."""
        oldest = next(iter(self._nodes), None)
        node = self._nodes.pop(oldest, None) if oldest is not None else None
        if node is not None and node is not newest:
            node.local.open.pop(oldest, None)  # type: ignore[arg-type]  # not None: its node was there
            self._lost["open_spans"] += 1
            self._close(node.local)

    def end(self, span: Any) -> bool:
        """Note a span that ends; True where it may be a request: `deliver` gets its key. Never raises, never blocks."""
        try:
            span_id = span.context.span_id
            node = self._nodes.pop(span_id, None)
            if node is None:  # it started before this collector, or it ends for the second time
                return False
            local = node.local
            local.open.pop(span_id, None)
            if local.is_own:
                if attributes_of(span).get(semconv.OPERATION) in MODEL_CALLS:
                    self._calls.append(span)
                return False
            return not self._closed and self._end(span, node)
        except Exception:  # noqa: BLE001 the application's thread
            self._lost["failed"] += 1
            return False

    def _end(self, span: Any, node: OpenSpan) -> bool:
        local = node.local
        operation = None if node.origin == _PLAIN else operation_of(attributes_of(span), span.name)
        if operation is None and not local.ended:
            return False
        if operation is not None and not self._is_read(scope_of(span)):
            if node.above is None and local.ended:
                self._announce(span, node)  # below it may be a request that another library tells better
            return False
        if operation in MODEL_CALLS:
            self._calls.append(span)
        self._keep(span, local, operation is not None)
        if operation in CONTAINERS and (node.above is None or not node.above.inside):
            local.containers = True
            return self._announce(span, node)
        if operation in MODEL_CALLS:
            local.calls = True
        if node.above is None:
            return self._announce(span, node) and local.calls and not (operation is None and local.containers)
        if operation is None and span.kind in _ENTRIES and local.calls:
            return self._announce(span, node) and not local.containers
        return False

    def _announce(self, span: Any, node: OpenSpan) -> bool:
        key = (span.context.trace_id, span.context.span_id)
        node.local.announced.add(key)
        return self._queue.put(_Candidate(node, key, time.monotonic()), delay=self._limits.settle) is None

    def _keep(self, span: Any, local: LocalTrace, is_part: bool) -> None:
        size = _size_of(span) if is_part else _PLAIN_SIZE
        local.touched = time.monotonic()
        with self._lock:
            local.ended.append(span)
            local.size += size
            self._bytes += size
            self._locals[id(local)] = local
            while len(self._locals) > self._limits.traces or self._bytes > self._limits.bytes:
                self._lost["traces" if len(self._locals) > self._limits.traces else "bytes"] += 1
                self._drop(next(iter(self._locals.values())))

    def _drop(self, local: LocalTrace) -> None:
        """Forget what was kept of a trace. The caller holds the lock."""
        self._locals.pop(id(local), None)
        self._bytes -= local.size
        local.size = 0
        local.ended = []

    # --- the collector's thread ------------------------------------------------------------------

    def _work(self, items: list[_Candidate]) -> float | None:
        for item in items:
            try:
                self._look_at(item)
            except Exception:  # noqa: BLE001 an odd span costs one request, which leaves unscored
                self._lost["failed"] += 1
                self._deliver(item.key, None)
        self._sweep()
        return _SWEEP if self._locals else None

    def _look_at(self, item: _Candidate) -> None:
        local, waited = item.node.local, time.monotonic() - item.since
        below = any(is_below(node, item.node) for node in list(local.open.values()))
        if below and waited < self._limits.patience and not self._hurry and not self._queue.closed:
            self._queue.put(item, delay=min(1.0, max(self._limits.settle, waited)))
            return
        while self._calls:  # also of other traces: a client below a framework may have one of its own
            call = record_of(self._calls.popleft())
            facts = facts_of(call)
            if facts is not None and not facts.is_empty:
                self._duplicates.note_call(call, facts)
        present = [] if local.is_own else list(local.ended)
        records = [record_of(span) for span in present]
        records += [record_of(node.span) for node in list(local.open.values())]
        requests = {_key(request.root.record): request for request in requests_in(records, self._duplicates)}
        if item.key not in requests:
            self._deliver(item.key, None)
        for key, request in requests.items():
            # Also a root that nobody announced, because another library's span above it seemed to be the root.
            if key == item.key or key not in local.announced:
                if request.root.facts is None and local.containers:
                    self._deliver(key, None)  # what is left beside workflows that were handed on before
                else:
                    self._hand_on(request)
                self._forget(local, request)
        local.announced.discard(item.key)
        if not local.open:
            self._close(local)

    def _hand_on(self, request: RequestSpans) -> None:
        trace = trace_from(request, self._sanitizer)
        self._requests += 1
        self._deliver(_key(request.root.record), trace)

    def _forget(self, local: LocalTrace, request: RequestSpans) -> None:
        """Drop the spans of a request: the span of a connection above it may stay open for days."""
        ids = {request.root.record.span_id, *(node.record.span_id for node in request.members())}
        present = local.ended
        count = len(present)
        others = [span for span in present[:count] if span.context.span_id not in ids]
        freed = sum(_size_of(span) for span in present[:count] if span.context.span_id in ids)
        with self._lock:
            if local.ended is not present or id(local) not in self._locals:
                return  # it was given up in between
            local.ended = [*others, *present[count:]]
            freed = min(freed, local.size)
            local.size -= freed
            self._bytes -= freed

    def _close(self, local: LocalTrace) -> None:
        with self._lock:
            if not local.open and id(local) in self._locals:
                self._drop(local)

    def _sweep(self, age: float | None = None) -> None:
        """Give up traces in which nothing has happened for long."""
        limit = time.monotonic() - (self._limits.expire if age is None else age)
        with self._lock:
            idle = [local for local in self._locals.values() if local.touched <= limit]
        for local in idle:  # hand on what is complete apart from open spans above it, or else what never ended
            ended = [record_of(span) for span in local.ended]
            roots = [r for r in requests_in(ended, self._duplicates) if r.root.operation in CONTAINERS]
            if not roots:
                still_open = [_given_up(record_of(node.span)) for node in list(local.open.values())]
                roots = [r for r in requests_in([*ended, *still_open], self._duplicates) if not local.containers]
            for request in roots:
                self._lost["expired"] += 1
                self._hand_on(request)
            with self._lock:
                self._drop(local)
            for span_id in list(local.open):
                self._nodes.pop(span_id, None)
            local.open.clear()

    # --- control ---------------------------------------------------------------------------------

    def flush(self, timeout: float = 10.0) -> bool:
        """Wait until every request whose root has ended was handed on; False after `timeout` seconds."""
        self._hurry += 1
        try:
            return self._queue.flush(timeout)
        finally:
            self._hurry -= 1

    def close(self, timeout: float = 2.0) -> None:
        """Hand on what is there, the requests that have not ended too, and take no further spans."""
        self.flush(timeout)
        self._closed = True
        for item in self._queue.close(timeout):
            self._deliver(item.key, None)
        self._sweep(0.0)

    def stats(self) -> CollectorStats:
        """Count what was handed on, kept and lost."""
        with self._lock:
            lost = {reason: self._lost[reason] for reason in _REASONS}
            return CollectorStats(self._requests, len(self._locals), self._bytes, lost)


def _size_of(span: Any) -> int:
    """About how many bytes a span keeps alive."""
    values = attributes_of(span).values()
    return _PLAIN_SIZE + sum(len(value) for value in values if isinstance(value, (str, tuple)))


def _key(record: SpanRecord) -> SpanKey:
    return record.trace_id, record.span_id


def _given_up(record: SpanRecord) -> SpanRecord:
    """An open span as one that ended with the error `expired`, as the recorder ends its own."""
    attributes = {**record.attributes, semconv.ERROR_TYPE: "expired"}
    return replace(record, ended=max(time.time_ns(), record.started), status="ERROR", attributes=attributes)
