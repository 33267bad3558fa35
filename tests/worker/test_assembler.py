"""What the assembler and its table of open traces keep."""

from __future__ import annotations

import time

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from ragtrace.capture.spans.pieces import SpanGroup, divide
from ragtrace.live.pipeline import Pipeline
from ragtrace.text.sanitizer import Sanitizer
from ragtrace.worker import open_traces
from ragtrace.worker.assembler import Assembler
from ragtrace.worker.open_traces import OpenTrace, OpenTraces
from ragtrace.worker.outcomes import EndedTrace
from ragtrace.worker.span_counts import SpanCounts
from ragtrace.worker.worker_settings import WorkerSettings

SETTINGS = WorkerSettings(source="nats://broker")


def piece(span_id: bytes, **attributes: str) -> SpanGroup:
    """A trace of one span, as it arrives."""
    request = ExportTraceServiceRequest()
    scope = request.resource_spans.add().scope_spans.add()
    scope.scope.name = "openinference.instrumentation.langchain"
    span = scope.spans.add(
        trace_id=b"t" * 16, span_id=span_id, name="chain", start_time_unix_nano=1, end_time_unix_nano=2
    )
    texts = {"openinference.span.kind": "CHAIN", "input.value": "q", "output.value": "a", **attributes}
    for key, value in texts.items():
        attribute = span.attributes.add(key=key)
        attribute.value.string_value = value
    (group,) = divide(request).pieces
    return group


def whole(group: SpanGroup) -> OpenTrace:
    now = time.monotonic()
    trace = OpenTrace(group.trace_id, now, now, "sender", [group.payload], [0])
    trace.span_ids, trace.spans = set(group.span_ids), 1
    return trace


def test_one_request_in_two_messages_lets_both_go() -> None:
    """Two collectors may publish a request in different bytes: both messages end, so the broker forgets them."""
    ended: list[EndedTrace] = []
    assembler = Assembler(SETTINGS, OpenTraces(SETTINGS), SpanCounts(), Sanitizer(), ended.append)
    pipeline = Pipeline([], sinks=[assembler])
    for number in ("1", "2"):
        assembler.take(whole(piece(b"r" * 8, number=number)))
    assembler.start(pipeline)
    until = time.monotonic() + 30
    while len(ended) < 2 and time.monotonic() < until:
        pipeline.flush(1)
    assert len(ended) == 2
    assert assembler.waiting == 0
    assert assembler.finish(keep=False, timeout=10)
    pipeline.close(5)


def test_the_ids_of_late_spans_are_bounded() -> None:
    """Spans of a trace that has ended are passed on; their ids are remembered only up to a number."""
    traces = OpenTraces(SETTINGS)
    traces.note_ended([b"t" * 16])
    for number in range(1, open_traces._LATE_SPANS + 500):
        late = traces.add(piece(number.to_bytes(8, "big")), "sender", time.monotonic()).late
        assert late is not None
        traces.release("sender", late.size)
    assert len(traces._ended[b"t" * 16]) == open_traces._LATE_SPANS
