"""Divides a request into pieces: the spans of each trace, with all that came around them."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, Span

NO_TRACE, NO_SPAN = bytes(16), bytes(8)
_ENTRIES = (Span.SPAN_KIND_SERVER, Span.SPAN_KIND_CONSUMER)


@dataclass(slots=True)
class SpanGroup:
    """The spans of one trace that came in one request."""

    trace_id: bytes
    payload: bytes = b""
    """An encoded `ExportTraceServiceRequest`. Several of them one after the other are one, too."""
    span_ids: list[bytes] = field(default_factory=list)
    has_root: bool = False
    has_entry: bool = False
    """Whether a span of a server or a consumer is among them."""
    row: int = 0
    """Its number in the buffer."""


@dataclass(frozen=True, slots=True)
class Division:
    """The pieces of a request, and what was left out."""

    pieces: list[SpanGroup]
    sender: str
    """The first service's name."""
    spans: int
    """Spans of the request, those that were left out included."""
    invalid: int
    """Spans without a valid trace id or span id, which no backend can take."""


def divide(request: ExportTraceServiceRequest) -> Division:
    """Divides a request, which is empty afterwards. Fields that this release of OTLP does not know stay."""
    groups: dict[bytes, list[tuple[int, int, Any]]] = {}
    frames: list[tuple[Any, list[Any]]] = []
    sender, spans, invalid = "", 0, 0
    for i, of_resource in enumerate(request.resource_spans):
        sender = sender or service_of(of_resource.resource)[0]
        scopes = list(of_resource.scope_spans)
        for j, of_scope in enumerate(scopes):
            for span in of_scope.spans:
                spans += 1
                if is_valid(span):
                    groups.setdefault(span.trace_id, []).append((i, j, span))
                else:
                    invalid += 1
        frames.append((of_resource, scopes))
    if len(groups) == 1 and not invalid:
        [(trace_id, members)] = groups.items()
        piece = SpanGroup(trace_id)
        for _, _, span in members:
            _note(piece, span)
        piece.payload = request.SerializeToString()
        return Division([piece], sender, spans, 0)
    for of_resource, scopes in frames:  # what remains are the frames around the spans, with their unknown fields
        for of_scope in scopes:
            of_scope.ClearField("spans")
        of_resource.ClearField("scope_spans")
    return Division([_piece(trace_id, each, frames) for trace_id, each in groups.items()], sender, spans, invalid)


def is_valid(span: Any) -> bool:
    """Whether the ids of a span have their lengths and are not zero."""
    trace_id, span_id = span.trace_id, span.span_id
    return len(trace_id) == 16 and len(span_id) == 8 and trace_id != NO_TRACE and span_id != NO_SPAN


def service_of(resource: Any) -> tuple[str, str]:
    """Name and environment of a resource's service; "" without one."""
    values = {each.key.removesuffix(".name"): each.value.string_value for each in resource.attributes}
    return values.get("service", ""), values.get("deployment.environment", "")


def _piece(trace_id: bytes, members: list[tuple[int, int, Any]], frames: list[tuple[Any, list[Any]]]) -> SpanGroup:
    piece, part = SpanGroup(trace_id), ExportTraceServiceRequest()
    resources: dict[int, ResourceSpans] = {}
    scopes: dict[tuple[int, int], Any] = {}
    for i, j, span in members:
        target = scopes.get((i, j))
        if target is None:
            of_resource = resources.get(i)
            if of_resource is None:
                of_resource = resources[i] = part.resource_spans.add()
                of_resource.CopyFrom(frames[i][0])
            target = scopes[i, j] = of_resource.scope_spans.add()
            target.CopyFrom(frames[i][1][j])
        target.spans.append(span)
        _note(piece, span)
    piece.payload = part.SerializeToString()
    return piece


def _note(piece: SpanGroup, span: Any) -> None:
    piece.span_ids.append(span.span_id)
    if span.parent_span_id in (b"", NO_SPAN):
        piece.has_root = True
    elif span.kind in _ENTRIES:
        piece.has_entry = True


def spans_in(request: ExportTraceServiceRequest) -> Iterator[tuple[Any, Any, Any]]:
    """Resource, scope and span of each span."""
    for of_resource in request.resource_spans:
        for of_scope in of_resource.scope_spans:
            for span in of_scope.spans:
                yield of_resource.resource, of_scope.scope, span


def without_spans(payload: bytes, leave_out: set[bytes]) -> tuple[bytes, list[bytes]]:
    """A payload without the spans with these ids, and without those that it holds twice; and the ids that are left."""
    request = ExportTraceServiceRequest.FromString(payload)
    left: list[bytes] = []
    for of_resource in request.resource_spans:
        for of_scope in of_resource.scope_spans:
            spans = list(of_scope.spans)
            of_scope.ClearField("spans")
            for span in spans:
                if span.span_id not in leave_out and span.span_id not in left:
                    left.append(span.span_id)
                    of_scope.spans.append(span)
    return request.SerializeToString(), left
