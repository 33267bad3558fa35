"""Encodes spans for OTLP: writes the bytes of `ExportTraceServiceRequest` from the spans, without a message.

The SDK's encoder builds each part and then copies it into the part around it, down to the texts: six copies of each
text. The bytes here are the same; `tests/otlp/test_span_encoder.py` compares them."""

import logging
import types
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, SpanKind

from ragtrace_otlp.wire import attributes_field, field, number

_log = logging.getLogger(__name__)
_KINDS = {kind: number(kind.value + 1) for kind in SpanKind}
"""OTLP counts from one: zero stands for no kind."""
_LOCAL, _REMOTE = (flags.to_bytes(4, "little") for flags in (0x100, 0x300))
"""OTLP's `SpanFlags`: it is known whether the span around is of another process (0x100), and it is (0x200)."""
# Tags of fields (see `wire`), in the order of their numbers, as protobuf writes them.
_RESOURCE_SPANS = b"\x0a"
"""Of `ExportTraceServiceRequest`."""
_ABOUT, _CONTENTS, _SCHEMA = b"\x0a", b"\x12", b"\x1a"
"""Of `ResourceSpans` and `ScopeSpans`: the resource or scope, its spans, its schema's URL."""
_RESOURCE_ATTRIBUTES, _SCOPE_NAME, _SCOPE_VERSION, _SCOPE_ATTRIBUTES = b"\x0a", b"\x0a", b"\x12", b"\x1a"
_TRACE_ID, _SPAN_ID, _TRACE_STATE, _PARENT = b"\x0a\x10", b"\x12\x08", b"\x1a", b"\x22\x08"
"""Of `Span`, as are those of the next three lines. Ids and times have a fixed length."""
_NAME, _KIND, _START, _END, _ATTRIBUTES, _DROPPED_ATTRIBUTES = b"\x2a", b"\x30", b"\x39", b"\x41", b"\x4a", b"\x50"
_EVENTS, _DROPPED_EVENTS, _LINKS, _DROPPED_LINKS, _STATUS, _FLAGS = (
    b"\x5a", b"\x60", b"\x6a", b"\x70", b"\x7a", b"\x85\x01",
)  # fmt: skip
_EVENT_TIME, _EVENT_NAME, _EVENT_ATTRIBUTES, _EVENT_DROPPED = b"\x09", b"\x12", b"\x1a", b"\x20"
_LINK_ATTRIBUTES, _LINK_DROPPED, _LINK_FLAGS = b"\x22", b"\x28", b"\x35"
_MESSAGE, _CODE = b"\x12", b"\x18"
"""Of `Status`."""
_NO_STATUS = _STATUS + b"\x00"


@dataclass(frozen=True, slots=True)
class EncodedSpans:
    """A batch in the place of the message that OpenTelemetry's exporter over HTTP asks for its bytes, and for nothing
    else. Whatever else a release asks for is that of the message."""

    data: bytes

    def SerializeToString(self) -> bytes:  # noqa: N802 protobuf's name
        """Returns the bytes."""
        return self.data

    SerializePartialToString = SerializeToString

    def __getattr__(self, name: str) -> Any:
        return getattr(_message_from(self.data), name)


def use_encoder(exporter: Any, encode: Callable[[Any], Any] | None = None, name: str = "encode_spans") -> Any:
    """Makes an OTLP exporter of OpenTelemetry encode with `encode`, or else with this module, and returns it.

    There is no public way to choose an encoder: the exporters call the function that their module imports. To replace
    it in the module would change the application's own exporters, too. So this object alone gets a copy of the method
    in which `name`, that of the function which the exporter calls, means the other one. An exporter of another kind
    stays as it is."""
    for place in ("export", "_translate_data"):
        method = getattr(type(exporter), place, None)
        code = getattr(method, "__code__", None)
        if method is not None and code is not None and name in code.co_names:
            # The exporter over gRPC needs a message; that over HTTP asks for bytes at once.
            names = {**method.__globals__, name: encode or (encode_spans if place == "export" else message_of)}
            copy = types.FunctionType(code, names, place, method.__defaults__, method.__closure__)
            copy.__kwdefaults__ = method.__kwdefaults__
            setattr(exporter, place, types.MethodType(copy, exporter))
    return exporter


def encode_spans(spans: Sequence[ReadableSpan]) -> Any:
    """Returns spans as OTLP: an object whose `SerializeToString` gives the bytes of an `ExportTraceServiceRequest`. A
    batch that cannot be encoded here is left to the SDK's encoder, which may raise, and logged."""
    try:
        return EncodedSpans(b"".join(_request(spans)))
    except Exception:  # noqa: BLE001 an attribute that OTLP does not know, or a release with other spans
        from opentelemetry.exporter.otlp.proto.common import trace_encoder

        _log.info("ragtrace: spans are encoded by OpenTelemetry's encoder", exc_info=True)
        return trace_encoder.encode_spans(spans)


def message_of(spans: Sequence[ReadableSpan]) -> Any:
    """Returns spans as an `ExportTraceServiceRequest`."""
    return _message_from(encode_spans(spans).SerializeToString())


def _message_from(data: bytes) -> Any:
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    return ExportTraceServiceRequest.FromString(data)


def _request(spans: Sequence[ReadableSpan]) -> list[bytes]:
    """A request: for each resource its scopes, and for each of those its spans. These are parts to join: a batch is
    large, so it is copied once. Each span is encoded when `spans` yields it, so that a batch can pause between two."""
    resources: dict[int, tuple[Resource, dict[int, tuple[InstrumentationScope | None, list[bytes]]]]] = {}
    for span in spans:
        scope = span.instrumentation_scope
        _, scopes = resources.setdefault(id(span.resource), (span.resource, {}))
        _, pieces = scopes.setdefault(id(scope), (scope, []))
        pieces += _field(_CONTENTS, [_span(span)])
    parts: list[bytes] = []
    for resource, scopes in resources.values():
        contents = [field(_ABOUT, b"".join(attributes_field(_RESOURCE_ATTRIBUTES, resource.attributes)))]
        for scope, pieces in scopes.values():
            contents += _field(_CONTENTS, _of_scope(scope, pieces))
        parts += _field(_RESOURCE_SPANS, [*contents, *_text(_SCHEMA, resource.schema_url)])
    return parts


def _of_scope(scope: InstrumentationScope | None, spans: list[bytes]) -> list[bytes]:
    """The parts of a scope, with those of its spans."""
    if scope is None:
        return [field(_ABOUT, b""), *spans]
    about = [*_text(_SCOPE_NAME, scope.name), *_text(_SCOPE_VERSION, scope.version)]
    about += attributes_field(_SCOPE_ATTRIBUTES, scope.attributes)
    return [field(_ABOUT, b"".join(about)), *spans, *_text(_SCHEMA, scope.schema_url)]


def _span(span: ReadableSpan) -> bytes:
    context, parent, status = span.get_span_context(), span.parent, span.status
    if context is None:
        raise ValueError("a span without a context cannot be encoded")
    parts = [_TRACE_ID, context.trace_id.to_bytes(16, "big"), _SPAN_ID, context.span_id.to_bytes(8, "big")]
    if context.trace_state:
        parts += _text(_TRACE_STATE, ",".join([f"{key}={value}" for key, value in context.trace_state.items()]))
    if parent is not None:
        parts += (_PARENT, parent.span_id.to_bytes(8, "big"))
    name = span.name.encode(errors="replace")
    if name:
        parts += (_NAME, number(len(name)), name)
    parts += (_KIND, _KINDS[span.kind])
    if start := span.start_time:
        parts += (_START, start.to_bytes(8, "little"))
    if end := span.end_time:
        parts += (_END, end.to_bytes(8, "little"))
    parts += attributes_field(_ATTRIBUTES, span.attributes)
    parts += _count(_DROPPED_ATTRIBUTES, span.dropped_attributes)
    for event in span.events:
        parts.append(field(_EVENTS, _event(event)))
    parts += _count(_DROPPED_EVENTS, span.dropped_events)
    for link in span.links:
        parts.append(field(_LINKS, _link(link)))
    parts += _count(_DROPPED_LINKS, span.dropped_links)
    if status.is_unset and not status.description:
        parts.append(_NO_STATUS)
    else:
        reason = b"".join([*_text(_MESSAGE, status.description), *_count(_CODE, status.status_code.value)])
        parts.append(field(_STATUS, reason))
    parts += (_FLAGS, _flags(parent))
    return b"".join(parts)


def _event(event: Event) -> bytes:
    parts = [_EVENT_TIME, event.timestamp.to_bytes(8, "little")] if event.timestamp else []
    parts += _text(_EVENT_NAME, event.name)
    parts += attributes_field(_EVENT_ATTRIBUTES, event.attributes)
    parts += _count(_EVENT_DROPPED, event.dropped_attributes)
    return b"".join(parts)


def _link(link: Link) -> bytes:
    context = link.context
    parts = [_TRACE_ID, context.trace_id.to_bytes(16, "big"), _SPAN_ID, context.span_id.to_bytes(8, "big")]
    parts += attributes_field(_LINK_ATTRIBUTES, link.attributes)
    parts += _count(_LINK_DROPPED, link.dropped_attributes)
    parts += (_LINK_FLAGS, _flags(context))
    return b"".join(parts)


def _flags(context: SpanContext | None) -> bytes:
    return _REMOTE if context is not None and context.is_remote else _LOCAL


def _field(tag: bytes, parts: list[bytes]) -> list[bytes]:
    """The parts of a message as a field of the message around it."""
    return [tag, number(sum(map(len, parts))), *parts]


def _text(tag: bytes, text: str | None) -> list[bytes]:
    """A text as a field; protobuf leaves empty ones out."""
    return [field(tag, text.encode(errors="replace"))] if text else []


def _count(tag: bytes, count: int) -> list[bytes]:
    """A number as a field; protobuf leaves zeros out."""
    return [tag, number(count)] if count else []
