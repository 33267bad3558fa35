"""What the assembler and its table of open traces keep."""

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
from tests.worker.running import root, scope, wait_for

SETTINGS = WorkerSettings(source="nats://broker")


def piece(number: int, sender: str = "") -> SpanGroup:
    """A trace of one span, as it arrives."""
    request = ExportTraceServiceRequest()
    root(scope(request), 7, number).attributes.add(key="sender").value.string_value = sender
    (group,) = divide(request).pieces
    return group


def test_one_request_in_two_messages_lets_both_go() -> None:
    """Two collectors may publish a request in different bytes: both messages end, so the broker forgets them."""
    ended: list[EndedTrace] = []
    assembler = Assembler(SETTINGS, OpenTraces(SETTINGS), SpanCounts(), Sanitizer(), ended.append)
    pipeline = Pipeline([], sinks=[assembler])
    for sender in ("1", "2"):
        group, now = piece(1, sender), time.monotonic()
        trace = OpenTrace(group.trace_id, now, now, "sender", [group.payload], [0])
        trace.span_ids, trace.spans = set(group.span_ids), 1
        assembler.take(trace)
    assembler.start(pipeline)
    wait_for(lambda: (pipeline.flush(1), len(ended))[1], lambda count: count == 2)
    assert assembler.is_idle
    assembler.finish(keep=False, timeout=10)
    pipeline.close(5)


def test_the_ids_of_late_spans_are_bounded() -> None:
    """Spans of a trace that has ended are passed on; their ids are remembered only up to a number."""
    traces = OpenTraces(SETTINGS)
    traces.note_ended([piece(1).trace_id])
    for number in range(1, open_traces._LATE_SPANS + 500):
        late = traces.add(piece(number), "sender", time.monotonic()).late
        assert late is not None
        traces.release("sender", late.size)
    assert len(traces._ended[piece(1).trace_id]) == open_traces._LATE_SPANS
