"""What an ended trace leaves with: attributes of its roots, and evaluation events."""

import time
from dataclasses import dataclass, field
from typing import Any

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.logs.v1.logs_pb2 import SeverityNumber

from ragtrace import semconv
from ragtrace._version import __version__
from ragtrace.capture.spans.pieces import spans_in
from ragtrace.evaluation import NOT_APPLICABLE
from ragtrace.records import Evaluation
from ragtrace.worker.buffer import TraceOutcome
from ragtrace.worker.open_traces import OpenTrace
from ragtrace_otlp.events import event_attributes
from ragtrace_otlp.scores import ScoreFormat, score_attributes
from ragtrace_otlp.wire import write_attributes


@dataclass(slots=True, eq=False)
class EndedTrace:
    """A trace that has ended, on its way to the endpoint."""

    trace: OpenTrace
    marks: dict[int, dict[str, Any]] = field(default_factory=dict)
    """Attributes to add, by span id."""
    evaluations: list[Evaluation] = field(default_factory=list)
    waiting: int = 0
    """Requests in it whose evaluations have not come."""
    outcome: TraceOutcome | None = None
    """Set when all have come; also that of an earlier process."""
    is_late: bool = False
    """Whether these are spans that came after the end of their trace."""


def outcome_of(ended: EndedTrace, form: ScoreFormat, with_events: bool, annotations: bytes) -> TraceOutcome:
    """The outcome of a trace whose evaluations have all come. `annotations` are their scores for other tools."""
    for evaluation in ended.evaluations:
        ended.marks.setdefault(evaluation.trace.span_id, {}).update(score_attributes(evaluation, form))
    marks = ExportTraceServiceRequest()
    spans = marks.resource_spans.add().scope_spans.add().spans if ended.marks else None
    for span_id, attributes in ended.marks.items():
        write_attributes(spans.add(span_id=span_id.to_bytes(8, "big")), attributes)  # type: ignore[union-attr]
    events = _events(ended, form).SerializeToString() if with_events and ended.evaluations else b""
    return TraceOutcome(marks.SerializeToString(), events, annotations)


def marked(payload: bytes, marks: bytes) -> bytes:
    """The payload with the attributes of the marks. All else stays as it came."""
    if not marks:
        return payload
    more = {span.span_id: span for _, _, span in spans_in(ExportTraceServiceRequest.FromString(marks))}
    request = ExportTraceServiceRequest.FromString(payload)
    for _, _, span in spans_in(request):
        if (mark := more.get(span.span_id)) is not None:
            names = {pair.key for pair in mark.attributes}
            others = [pair for pair in span.attributes if pair.key not in names]  # some are of an earlier evaluation
            del span.attributes[:]
            span.attributes.extend([*others, *mark.attributes])
    return bytes(request.SerializeToString())


def _events(ended: EndedTrace, form: ScoreFormat) -> ExportLogsServiceRequest:
    """The scores as events, below the resource of the span that they belong to."""
    request = ExportLogsServiceRequest()
    spans = spans_in(ExportTraceServiceRequest.FromString(ended.trace.payload))
    resources = {int.from_bytes(span.span_id, "big"): resource for resource, _, span in spans}
    for evaluation in ended.evaluations:
        scores = [score for score in evaluation.scores if score.label != NOT_APPLICABLE]
        if not scores:
            continue
        group = request.resource_logs.add()
        resource = resources.get(evaluation.trace.span_id)
        if resource is not None:
            group.resource.CopyFrom(resource)
        records = group.scope_logs.add()
        records.scope.name, records.scope.version = "ragtrace", __version__
        for score in scores:
            severity = SeverityNumber.SEVERITY_NUMBER_WARN if score.error else SeverityNumber.SEVERITY_NUMBER_INFO
            record = records.log_records.add(
                time_unix_nano=time.time_ns(), observed_time_unix_nano=time.time_ns(), severity_number=severity,
                event_name=semconv.EVENT_EVALUATION, trace_id=ended.trace.id,
                span_id=evaluation.trace.span_id.to_bytes(8, "big"), flags=1,
            )  # fmt: skip
            write_attributes(record, event_attributes(evaluation, score, form))
    return request
