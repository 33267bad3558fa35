"""Which spans a request's message has."""

from collections.abc import Sequence

import pytest
from opentelemetry import trace as otel
from opentelemetry.proto.trace.v1.trace_pb2 import TracesData
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

from ragtrace import semconv
from ragtrace_brokers.message import TraceMessage
from ragtrace_otlp import transport_exporter
from ragtrace_otlp.transport_exporter import TransportSpanExporter


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
