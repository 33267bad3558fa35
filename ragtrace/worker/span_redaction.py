"""Redacts spans that pass through the worker, where the setting `redact_others` asks for it."""

from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from ragtrace.capture.span_writer import NAME_LENGTH, STATUS_LENGTH
from ragtrace.capture.spans import dialects
from ragtrace.capture.spans.conversion import attributes_from
from ragtrace.capture.spans.pieces import spans_in
from ragtrace.text.sanitizer import Sanitizer
from ragtrace_otlp.wire import write_attributes


def redacted(payload: bytes, sanitizer: Sanitizer) -> bytes | None:
    """The payload with names, statuses, and attributes of spans, events and links redacted; ragtrace's own spans were
    redacted when they were made. None where a text cannot be redacted, which is counted in `Sanitizer.failures`."""
    request = ExportTraceServiceRequest.FromString(payload)
    try:
        for _, scope, span in spans_in(request):
            if not scope.name.startswith(dialects.OWN_SCOPE):
                _redact(span, sanitizer)
    except Exception as error:  # noqa: BLE001 what cannot be redacted does not leave
        sanitizer.failures.count(error)
        return None
    return bytes(request.SerializeToString())


def _redact(span: Any, sanitizer: Sanitizer) -> None:
    span.name = sanitizer.text(span.name, NAME_LENGTH)
    if span.status.message:
        span.status.message = sanitizer.text(span.status.message, STATUS_LENGTH)
    for event in span.events:
        event.name = sanitizer.text(event.name, NAME_LENGTH)
    for item in (span, *span.events, *span.links):
        attributes = sanitizer.attributes(attributes_from(item.attributes))
        del item.attributes[:]
        write_attributes(item, attributes)
