"""Ends traces, finds the requests in them, has these evaluated, and gives each trace to be sent on."""

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from ragtrace import semconv
from ragtrace.base.lazy import Latest
from ragtrace.capture.spans.assembly import RequestSpans, requests_in, trace_from
from ragtrace.capture.spans.conversion import record_from
from ragtrace.capture.spans.duplicates import Duplicates
from ragtrace.capture.spans.pieces import service_of, spans_in
from ragtrace.capture.spans.span_record import SpanRecord
from ragtrace.errors import log_failure
from ragtrace.live.pipeline import Pipeline
from ragtrace.records import Evaluation, Trace
from ragtrace.sampling import Decision
from ragtrace.text.sanitizer import Sanitizer
from ragtrace.worker.open_traces import Ended, OpenTrace, OpenTraces
from ragtrace.worker.outcomes import EndedTrace
from ragtrace.worker.span_counts import SpanCounts
from ragtrace.worker.worker_settings import MOST_ATTRIBUTES, WorkerSettings

_TICK = 0.05
_SERVICES = 1_000
"""Services whose latest model calls are remembered, the latest."""


class _Sampled(NamedTuple):
    trace: Trace
    decision: Decision


class Assembler:
    """A thread that ends traces. Call it with each evaluation."""

    def __init__(
        self, settings: WorkerSettings, traces: OpenTraces, ledger: SpanCounts, sanitizer: Sanitizer,
        pass_on: Callable[[EndedTrace], None], *, is_relay: bool = False,
    ) -> None:  # fmt: skip
        """`pass_on` gets each trace when its evaluations are there, or with `is_relay` as soon as it has ended."""
        self._is_relay = is_relay
        self._settings, self._traces, self._ledger = settings, traces, ledger
        self._sanitizer, self._pass_on = sanitizer, pass_on
        self._duplicates: Latest[tuple[str, str], Duplicates] = Latest(_SERVICES)
        self._lock = threading.Lock()
        self._waiting: dict[tuple[int, int], deque[EndedTrace]] = {}
        """By the ids of the request's root. Two messages may hold the same request in other bytes."""
        self._backlog: deque[_Sampled] = deque()
        self._stop = threading.Event()
        self._arrived: deque[OpenTrace] = deque()
        self._wake = threading.Event()
        self._has_failed = False
        self._is_keeping = False
        self.pipeline: Pipeline
        """Set by `start`."""
        self._thread = threading.Thread(target=self._run, name="ragtrace-assembler", daemon=True)

    def start(self, pipeline: Pipeline) -> None:
        """Begin to end traces."""
        self.pipeline = pipeline
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.is_set():
            self._wake.wait(_TICK)
            self._wake.clear()
            try:
                self._end_arrived()
                for ended in self._traces.take_due(time.monotonic()):
                    self._end(ended)
                self._feed()
            except Exception:  # noqa: BLE001 the thread must live on
                log_failure(__name__, "ragtrace worker: traces could not be ended", is_error=True)

    def take(self, trace: OpenTrace) -> None:
        """End a trace that has come whole."""
        self._arrived.append(trace)
        self._wake.set()

    @property
    def is_idle(self) -> bool:
        """Whether all traces that have come are evaluated."""
        return not (self._arrived or self._backlog or self._waiting)

    def _end_arrived(self) -> None:
        while self._arrived:
            self._end(Ended(self._arrived[0], "message"))
            self._arrived.popleft()  # afterwards: until then this thread is not idle

    # --- the end of a trace ----------------------------------------------------------------------

    def _end(self, ended: Ended) -> None:
        trace = EndedTrace(ended.trace)
        if self._is_relay:  # those behind the broker read it
            self._ledger.note_end(ended.why, "relayed")
            self._pass_on(trace)
            return
        sampled: list[_Sampled] = []
        what = "failed"
        try:
            if (stored := ended.trace.request) is not None:  # its application has sampled it
                probability = ended.trace.probability or stored.sampling_probability
                what, sampled = "request", [_Sampled(stored, Decision(True, probability, "publisher"))]
            else:
                requests, unread = self._read(ended.trace)
                what = "request" if requests else "unread" if unread else "no_request"
                sampled = [each for request in requests if (each := self._sample(trace, request))]
        except Exception:  # noqa: BLE001 an odd span costs its trace the scores; the spans leave as they came
            if not self._has_failed:
                self._has_failed = True
                log_failure(
                    __name__, "ragtrace worker: a trace could not be read; further ones are only counted", is_error=True
                )
        self._ledger.note_end(ended.why, what)
        trace.waiting = len(sampled)
        if not sampled:
            self._pass_on(trace)
            return
        with self._lock:
            for each in sampled:
                self._waiting.setdefault((each.trace.trace_id, each.trace.span_id), deque()).append(trace)
            self._backlog.extend(sampled)

    def _read(self, trace: OpenTrace) -> tuple[list[RequestSpans], int]:
        """The requests of a trace, and the number of its spans with too many attributes."""
        request = ExportTraceServiceRequest.FromString(trace.payload)
        records: list[SpanRecord] = []
        unread, before, service = 0, None, ("", "")
        for resource, scope, span in spans_in(request):
            if resource is not before:
                before, service = resource, service_of(resource)
            if len(span.attributes) > MOST_ATTRIBUTES:
                unread += 1
                continue
            records.append(record_from(span, scope.name, service))
        root = next((each for each in records if each.parent_id is None), records[0] if records else None)
        memory = self._memory_of(root.service if root is not None else ("", ""))
        return requests_in(records, memory, with_own=bool(self._settings.source)), unread

    def _memory_of(self, service: tuple[str, str]) -> Duplicates:
        memory = self._duplicates[service] = self._duplicates.pop(service, Duplicates())
        return memory

    def _sample(self, ended: EndedTrace, request: RequestSpans) -> _Sampled | None:
        """The request, if it is evaluated; else it is counted."""
        trace = trace_from(request, self._sanitizer)
        published = ended.trace.probability
        decision = self.pipeline.sample(trace) if published is None else Decision(True, published, "publisher")
        marks: dict[str, Any] = {semconv.SAMPLED: decision.keep, semconv.PROBABILITY: decision.probability}
        ended.marks[trace.span_id] = marks
        if decision.keep:
            return _Sampled(trace, decision)
        marks[semconv.STATUS] = "sampled_out"
        self.pipeline.submit(trace, decision)
        return None

    # --- evaluation ------------------------------------------------------------------------------

    def _feed(self) -> None:
        """Give the pipeline what it has room for: it drops what its full queue cannot take."""
        pipeline = self.pipeline
        while self._backlog:
            stats = pipeline.stats()
            if stats.queued >= max(1, pipeline.limits.items // 2) or stats.queued_bytes > pipeline.limits.bytes / 2:
                return
            for _ in range(min(len(self._backlog), 16, pipeline.limits.items)):
                pipeline.submit(*self._backlog.popleft())

    def __call__(self, evaluation: Evaluation) -> None:
        """Take an evaluation. The last one of a trace lets it go."""
        if evaluation.is_late:
            return
        with self._lock:
            key = (evaluation.trace.trace_id, evaluation.trace.span_id)
            if self._is_keeping and evaluation.reason == "shutdown":
                return  # stays in the buffer
            traces = self._waiting.get(key)
            if not traces:
                return
            trace = traces.popleft()
            if not traces:
                del self._waiting[key]
            trace.evaluations.append(evaluation)
            trace.waiting -= 1
            if trace.waiting:
                return
        self._pass_on(trace)

    # --- the end ---------------------------------------------------------------------------------

    def finish(self, keep: bool, timeout: float) -> None:
        """End traces now: with `keep` those whose root has arrived, else all. Wait up to `timeout` seconds until they
        are evaluated. What is not evaluated by then stays in the buffer with `keep`."""
        self._stop.set()
        self._wake.set()
        self._thread.join(timeout)
        until = time.monotonic() + timeout
        self._end_arrived()
        for ended in self._traces.take(complete_only=keep):
            self._end(ended)
        while self._waiting and time.monotonic() < until:
            self._feed()
            time.sleep(_TICK / 5)
        self._is_keeping = keep

    def let_go(self) -> None:
        """Send on what waits for its evaluation, without it."""
        with self._lock:
            traces = list({id(trace): trace for each in self._waiting.values() for trace in each}.values())
            self._waiting.clear()
        for trace in traces:
            for marks in trace.marks.values():
                marks.setdefault(semconv.STATUS, "pending_timeout")
            self._pass_on(trace)
