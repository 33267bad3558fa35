"""From a span on the wire to the record that `ragtrace.capture.spans` reads."""

from typing import Any

from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from ragtrace.capture.spans.span_record import SpanEvent, SpanRecord
from ragtrace.semconv import TRACE_STATE_MEMBER

_KINDS = {
    number: name.removeprefix("SPAN_KIND_").replace("UNSPECIFIED", "INTERNAL") for name, number in Span.SpanKind.items()
}
_STATUSES = {number: name.removeprefix("STATUS_CODE_") for name, number in Status.StatusCode.items()}
_DEPTH = 20


def record_from(span: Any, scope: str, service: tuple[str, str]) -> SpanRecord:
    """The record of a span. The span's own messages are not kept."""
    parent = int.from_bytes(span.parent_span_id, "big")
    started = span.start_time_unix_nano
    # A span on the wire has ended; a sender that gives no end, or one before the start, gives no duration.
    ended = max(span.end_time_unix_nano, started, 1)
    events = (SpanEvent(event.name, event.time_unix_nano, attributes_from(event.attributes)) for event in span.events)
    return SpanRecord(
        trace_id=int.from_bytes(span.trace_id, "big"), span_id=int.from_bytes(span.span_id, "big"),
        parent_id=parent or None, name=span.name, scope=scope, kind=_KINDS.get(span.kind, "INTERNAL"),
        started=started, ended=ended, status=_STATUSES.get(span.status.code, "UNSET"),
        attributes=attributes_from(span.attributes), events=tuple(events), service=service,
        trace_state=tracestate_member(span.trace_state) if span.trace_state else "",
    )  # fmt: skip


def tracestate_member(trace_state: str) -> str:
    """OpenTelemetry's member of a W3C tracestate (`ot=th:e;rv:…,vendor=…`); "" without it."""
    members = (member.strip().partition("=") for member in trace_state.split(","))
    return next((value for key, _, value in members if key == TRACE_STATE_MEMBER), "")


def attributes_from(pairs: Any) -> dict[str, Any]:
    """Attributes as plain values: lists are tuples, as in the SDK. Of a key that is there twice the last counts."""
    # Most values are texts; an empty one is read like those of other kinds.
    return {pair.key: pair.value.string_value or value_from(pair.value) for pair in pairs}


def value_from(value: Any, depth: int = 0) -> Any:
    """An `AnyValue` as a plain value; None for one that is empty, or nested more than 20 deep."""
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return tuple(value_from(v, depth + 1) for v in value.array_value.values) if depth < _DEPTH else None
    if kind == "kvlist_value":
        pairs = value.kvlist_value.values
        return {pair.key: value_from(pair.value, depth + 1) for pair in pairs} if depth < _DEPTH else None
    return None if kind is None else getattr(value, kind)
