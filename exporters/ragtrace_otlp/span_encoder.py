"""Encodes spans for OTLP into one message whose parts are filled in place.

The SDK's encoder builds each part and then copies it into the part around it, down to the texts: six copies of each
text, and ten times the work. The result here is the same message; `tests/otlp/test_span_encoder.py` compares them.
"""

from __future__ import annotations

import logging
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import SpanContext, SpanKind

_log = logging.getLogger(__name__)
_KINDS = {kind: kind.value + 1 for kind in SpanKind}
"""OTLP counts from one: zero stands for no kind."""
_INTEGERS = 2**63
"""OTLP's integers are in [-_INTEGERS, _INTEGERS); a seed of 64 bits is written as a text."""
_KNOWS_IF_REMOTE, _IS_REMOTE = 0x100, 0x200
"""OTLP's `SpanFlags`: whether the span around is of another process is known, and is true."""


def use_encoder(exporter: Any, encode: Callable[[Any], Any] | None = None, name: str = "encode_spans") -> Any:
    """Makes an OTLP exporter of OpenTelemetry encode with `encode`, or else with `encode_spans` below, and returns it.

    There is no public way to choose an encoder: the exporters call the function that their module imports. To replace
    it in the module would change the application's own exporters, too. So this object alone gets a copy of the method
    in which `name`, that of the function which the exporter calls, means the other one. An exporter of another kind
    stays as it is.
    """
    for place in ("export", "_translate_data"):
        method = getattr(type(exporter), place, None)
        code = getattr(method, "__code__", None)
        if method is not None and code is not None and name in code.co_names:
            names = {**method.__globals__, name: encode or encode_spans}
            copy = types.FunctionType(code, names, place, method.__defaults__, method.__closure__)
            copy.__kwdefaults__ = method.__kwdefaults__
            setattr(exporter, place, types.MethodType(copy, exporter))
    return exporter


def encode_spans(spans: Sequence[ReadableSpan]) -> Any:
    """Returns spans as OTLP's `ExportTraceServiceRequest`. A batch that cannot be encoded here is left to the SDK's
    encoder, which may raise, and logged."""
    from opentelemetry.exporter.otlp.proto.common import trace_encoder

    request = trace_encoder.encode_spans([])  # an empty message
    try:
        groups: dict[tuple[int, int], Any] = {}
        resources: dict[int, Any] = {}
        for span in spans:
            key = (id(span.resource), id(span.instrumentation_scope))
            group = groups.get(key)
            if group is None:
                group = groups[key] = _group(request, resources, span)
            _write_span(group.spans.add(), span)
    except Exception:  # noqa: BLE001 an attribute that OTLP does not know, or a release with other spans or messages
        _log.info("ragtrace: spans are encoded by OpenTelemetry's encoder", exc_info=True)
        return trace_encoder.encode_spans(spans)
    return request


def _group(request: Any, resources: dict[int, Any], span: ReadableSpan) -> Any:
    """The part of the message for spans of the same resource and scope."""
    resource, scope = span.resource, span.instrumentation_scope
    of_resource = resources.get(id(resource))
    if of_resource is None:
        of_resource = resources[id(resource)] = request.resource_spans.add(schema_url=resource.schema_url)
        of_resource.resource.SetInParent()
        write_attributes(of_resource.resource.attributes, resource.attributes)
    group = of_resource.scope_spans.add()
    group.scope.SetInParent()
    if scope is not None:
        group.schema_url = scope.schema_url or ""
        group.scope.name, group.scope.version = scope.name, scope.version or ""
        write_attributes(group.scope.attributes, scope.attributes)
    return group


def _write_span(target: Any, span: ReadableSpan) -> None:
    context, parent, status = span.get_span_context(), span.parent, span.status
    if context is None:
        raise ValueError("a span without a context cannot be encoded")
    target.trace_id = context.trace_id.to_bytes(16, "big")
    target.span_id = context.span_id.to_bytes(8, "big")
    if context.trace_state:
        target.trace_state = ",".join([f"{key}={value}" for key, value in context.trace_state.items()])
    if parent is not None:
        target.parent_span_id = parent.span_id.to_bytes(8, "big")
    target.name = span.name
    target.kind = _KINDS[span.kind]
    if span.start_time is not None:
        target.start_time_unix_nano = span.start_time
    if span.end_time is not None:
        target.end_time_unix_nano = span.end_time
    target.flags = _flags(parent)
    write_attributes(target.attributes, span.attributes)
    target.dropped_attributes_count = span.dropped_attributes
    target.dropped_events_count = span.dropped_events
    target.dropped_links_count = span.dropped_links
    target.status.SetInParent()
    target.status.code = status.status_code.value
    if status.description:
        target.status.message = status.description
    for event in span.events:
        item = target.events.add(name=event.name, time_unix_nano=event.timestamp)
        item.dropped_attributes_count = event.dropped_attributes
        write_attributes(item.attributes, event.attributes)
    for link in span.links:
        item = target.links.add(flags=_flags(link.context), dropped_attributes_count=link.dropped_attributes)
        item.trace_id, item.span_id = link.context.trace_id.to_bytes(16, "big"), link.context.span_id.to_bytes(8, "big")
        write_attributes(item.attributes, link.attributes)


def _flags(context: SpanContext | None) -> int:
    return _KNOWS_IF_REMOTE | _IS_REMOTE if context is not None and context.is_remote else _KNOWS_IF_REMOTE


def write_attributes(target: Any, attributes: Mapping[str, Any] | None) -> None:
    """Appends attributes to a field of `KeyValue`s."""
    for key, value in attributes.items() if attributes else ():
        item = target.add()
        item.key = key
        _write_value(item.value, value)


def _write_value(target: Any, value: Any) -> None:
    """Writes into an `AnyValue`; Python's truth values are integers, too, so they come first."""
    if isinstance(value, str):
        target.string_value = value
    elif isinstance(value, bool):
        target.bool_value = value
    elif isinstance(value, int):
        if -_INTEGERS <= value < _INTEGERS:
            target.int_value = value
        else:
            target.string_value = str(value)
    elif isinstance(value, float):
        target.double_value = value
    elif isinstance(value, bytes):
        target.bytes_value = value
    elif isinstance(value, Mapping):
        target.kvlist_value.SetInParent()
        write_attributes(target.kvlist_value.values, {str(key): item for key, item in value.items()})
    elif value is None:
        target.SetInParent()
    else:
        _write_list(target.array_value, value)


def _write_list(target: Any, values: Iterable[Any]) -> None:
    target.SetInParent()
    for value in values:
        _write_value(target.values.add(), value)
