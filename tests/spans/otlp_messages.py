"""Spans as messages of OTLP, to send them to real receivers."""

from collections.abc import Iterable
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from ragtrace.capture.spans.span_record import SpanRecord
from ragtrace_otlp.wire import write_attributes


def message_of(records: Iterable[SpanRecord], service: str) -> ExportTraceServiceRequest:
    request = ExportTraceServiceRequest()
    scopes: dict[str, Any] = {}
    of_resource = request.resource_spans.add()
    write_attributes(of_resource.resource, {"service.name": service})
    for record in records:
        target = scopes.get(record.scope)
        if target is None:
            target = scopes[record.scope] = of_resource.scope_spans.add()
            target.scope.name = record.scope
        _add(target, record)
    return request


def _add(target: Any, record: SpanRecord) -> None:
    one = target.spans.add(
        trace_id=record.trace_id.to_bytes(16, "big"), span_id=record.span_id.to_bytes(8, "big"),
        parent_span_id=record.parent_id.to_bytes(8, "big") if record.parent_id else b"", name=record.name,
        kind=Span.SpanKind.Value(f"SPAN_KIND_{record.kind}"), start_time_unix_nano=record.started,
        end_time_unix_nano=record.ended,
    )  # fmt: skip
    one.status.code = Status.StatusCode.Value(f"STATUS_CODE_{record.status}")
    write_attributes(one, record.attributes)
    for event in record.events:
        write_attributes(one.events.add(name=event.name, time_unix_nano=event.time), event.attributes)
