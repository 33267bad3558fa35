"""OTLP messages as ragtrace encodes them are those of OpenTelemetry's own encoder; which spans a request's has."""

import logging
from collections.abc import Sequence
from typing import Any

import pytest
from opentelemetry import trace as otel
from opentelemetry.exporter.otlp.proto.common import trace_encoder
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as GrpcExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as HttpExporter
from opentelemetry.proto.trace.v1.trace_pb2 import TracesData
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanLimits, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import Link, SpanContext, SpanKind, Status, StatusCode, TraceFlags, TraceState

from ragtrace import semconv
from ragtrace_brokers.message import TraceMessage
from ragtrace_otlp import transport_exporter, wire
from ragtrace_otlp.span_encoder import encode_spans, message_of, use_encoder
from ragtrace_otlp.transport_exporter import TransportSpanExporter
from ragtrace_otlp.wire import attributes_field
from tests.otlp.receivers import recording

VALUES: dict[str, Any] = {
    "text": "Öl für die Pumpe", "empty": "", "truth": True, "whole": -(2**62), "fraction": 0.25, "bytes": b"\x00\xff",
    "texts": ("a", "b"), "numbers": (1, 2), "none": (),
}  # fmt: skip


def spans_of(*resources: Resource) -> list[ReadableSpan]:
    """Spans with everything that a span can have, of several scopes."""
    exporter = InMemorySpanExporter()
    remote = SpanContext(7, 8, is_remote=True, trace_flags=TraceFlags(1), trace_state=TraceState([("vendor", "x")]))
    for resource in resources:
        provider = TracerProvider(resource=resource)
        provider.add_span_processor(SimpleSpanProcessor(exporter))
        for scope in ("one", "two"):
            tracer = provider.get_tracer(scope, "1.0", "https://schema.example/1", {"scope": "attribute"})
            parent = otel.set_span_in_context(otel.NonRecordingSpan(remote))
            for kind in SpanKind:
                span = tracer.start_span(f"span {kind}", parent, kind, VALUES, [Link(remote, {"link": 1})])
                span.add_event("event", {"nested": "value"}, timestamp=5)
                span.set_status(Status(StatusCode.ERROR, "it failed"))
                span.end()
            tracer.start_span("root").end()
    return list(exporter.get_finished_spans())


def span_with(attributes: dict[str, Any], resource: Resource = Resource({})) -> ReadableSpan:  # noqa: B008
    context = SpanContext(1, 2, is_remote=False)
    return ReadableSpan("s", context=context, resource=resource, attributes=attributes, start_time=1, end_time=2)


def test_the_message_is_the_one_of_the_sdk() -> None:
    spans = spans_of(Resource({"service.name": "a"}), Resource({"service.name": "b"}, "https://schema.example/2"))
    assert encode_spans(spans).SerializeToString() == trace_encoder.encode_spans(spans).SerializeToString()


def test_numbers_of_what_was_dropped_are_those_of_the_sdk() -> None:
    context = SpanContext(7, 8, is_remote=False)
    limits = SpanLimits(max_span_attributes=2, max_events=1, max_links=1, max_event_attributes=1)
    provider, exporter = recording(span_limits=limits)
    span = provider.get_tracer("t").start_span("s", attributes=VALUES, links=[Link(context, VALUES)] * 3)
    for _ in range(4):
        span.add_event("event", VALUES)
    span.end()
    spans = exporter.get_finished_spans()
    (sent,) = message_of(spans).resource_spans[0].scope_spans[0].spans
    dropped = (sent.dropped_attributes_count, sent.dropped_links_count, sent.dropped_events_count)
    assert dropped == (len(VALUES) - 2, 2, 3)
    assert sent.events[0].dropped_attributes_count == len(VALUES) - 1
    assert encode_spans(spans).SerializeToString() == trace_encoder.encode_spans(spans).SerializeToString()


def test_nested_values_are_those_of_the_sdk() -> None:
    nested = {"map": {"a": {"b": 1}, "none": None}, "list": [{"a": True}, ["x", 2.5]], "missing": None}
    spans = [span_with(nested)]
    assert encode_spans(spans).SerializeToString() == trace_encoder.encode_spans(spans).SerializeToString()


def test_what_cannot_be_encoded_is_left_to_the_sdk(caplog: pytest.LogCaptureFixture) -> None:
    """A span leaves without a value that OTLP does not know, as with the SDK's encoder, which the log names."""
    caplog.set_level(logging.INFO, "ragtrace_otlp.span_encoder")
    spans = [span_with({"odd": object(), "text": "kept"})]
    assert [a.key for a in message_of(spans).resource_spans[0].scope_spans[0].spans[0].attributes] == ["text"]
    assert "ragtrace: spans are encoded by OpenTelemetry's encoder" in caplog.messages


def test_half_of_a_surrogate_pair_costs_no_span() -> None:
    """A collector refuses a whole batch for one text that is not UTF-8."""
    context = SpanContext(1, 2, is_remote=False)
    span = ReadableSpan("a\ud800", context=context, resource=Resource({}), attributes={"b\ud800": "c\udc80" * 40})
    (sent,) = message_of([span]).resource_spans[0].scope_spans[0].spans
    assert (sent.name, sent.attributes[0].key, sent.attributes[0].value.string_value) == ("a?", "b?", "c?" * 40)


def test_bytes_of_recurring_attributes_are_bounded() -> None:
    """Ids and names that come once each do not fill the memory, and equal values of other types keep their type."""
    for i in range(10_000):
        attributes_field(b"\x4a", {f"key{i}": f"user {i}", "number": i})
    assert len(wire._attributes) <= wire._MAX_ENTRIES
    assert len(wire._names) <= wire._MAX_ENTRIES
    spans = [span_with({"key": value}) for value in (1, True, 1.0, "1", 0, False, 0.0)]
    assert encode_spans(spans).SerializeToString() == trace_encoder.encode_spans(spans).SerializeToString()


@pytest.mark.parametrize("kind", [HttpExporter, GrpcExporter])
def test_exporters_of_opentelemetry_use_it(kind: Any) -> None:
    """Both exporters of OpenTelemetry take the encoder, each object for itself: other objects keep the SDK's."""
    exporter = use_encoder(kind(endpoint="http://127.0.0.1:9"))
    name = "export" if kind is HttpExporter else "_translate_data"
    assert getattr(exporter, name).__globals__["encode_spans"] is (encode_spans if kind is HttpExporter else message_of)
    assert getattr(kind(endpoint="http://127.0.0.1:9"), name).__globals__["encode_spans"] is trace_encoder.encode_spans


def test_an_integer_that_otlp_cannot_hold_is_a_text() -> None:
    """A seed of 64 bits costs its batch neither the attribute nor the encoder."""
    request = message_of([span_with({"seed": 2**63, "low": -(2**63)})])
    values = {a.key: a.value for a in request.resource_spans[0].scope_spans[0].spans[0].attributes}
    assert (values["seed"].string_value, values["low"].int_value) == (str(2**63), -(2**63))


class Publishing:
    """A publisher that keeps the names of the spans of each message."""

    def __init__(self) -> None:
        self.messages: list[set[str]] = []

    def publish(self, messages: Sequence[TraceMessage]) -> list[str]:
        for message in messages:
            spans = TracesData.FromString(message.payload).resource_spans
            self.messages.append({s.name for r in spans for scope in r.scope_spans for s in scope.spans})
        return ["ok"] * len(messages)

    def close(self) -> None:
        pass


def _tracer() -> tuple[otel.Tracer, Publishing, TransportSpanExporter]:
    publishing = Publishing()
    exporter = TransportSpanExporter(lambda: publishing)  # type: ignore[arg-type,return-value]
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return provider.get_tracer("ragtrace"), publishing, exporter


def test_requests_side_by_side_keep_their_spans() -> None:
    """Two requests of one trace, as `asyncio.gather` makes them: each message has its own spans."""
    tracer, publishing, exporter = _tracer()
    around = otel.set_span_in_context(tracer.start_span("POST /"))
    roots = {name: tracer.start_span(f"root {name}", around) for name in "AB"}
    for name, root in roots.items():
        step = tracer.start_span(f"step {name}", otel.set_span_in_context(root))
        tracer.start_span(f"retrieval {name}", otel.set_span_in_context(step)).end()
        step.end()
    for root in roots.values():
        root.set_attribute(semconv.SAMPLED, True)
        root.end()
    assert publishing.messages == [{f"root {name}", f"step {name}", f"retrieval {name}"} for name in "AB"]
    assert not exporter._traces
    assert exporter._spans == 0


def test_spans_without_a_request_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A nightly job that embeds documents below one span has no request that would let its spans go."""
    monkeypatch.setattr(transport_exporter, "_SPANS", 50)
    tracer, publishing, exporter = _tracer()
    around = otel.set_span_in_context(tracer.start_span("nightly ingestion"))
    for _ in range(200):
        tracer.start_span("embeddings", around).end()
    assert exporter._spans <= 50
    with tracer.start_as_current_span("root") as root:
        root.set_attribute(semconv.SAMPLED, True)
    assert publishing.messages == [{"root"}]
