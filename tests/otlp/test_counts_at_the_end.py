"""What an exporter counts when it is left in the middle of its work."""

import threading
from collections.abc import Sequence

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from ragtrace_otlp.batch import CountingExporter, ExportStats, PacedSpanProcessor


@pytest.fixture(autouse=True)
def _by_size_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The exporter's thread begins with a whole batch of 512 spans, however slow the machine is."""
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "60000")


class _Slow(SpanExporter):
    """Takes the first request and answers it when `answer` is set; `shutdown` does not interrupt it."""

    def __init__(self) -> None:
        self.asked, self.answer = threading.Event(), threading.Event()

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Wait for the answer."""
        self.asked.set()
        self.answer.wait(30)
        return SpanExportResult.SUCCESS


def _left(inner: _Slow, spans: int) -> tuple[TracerProvider, CountingExporter[ReadableSpan], PacedSpanProcessor]:
    """A processor that was given these spans and left while its first request waits for an answer."""
    exporter: CountingExporter[ReadableSpan] = CountingExporter(inner, "spans", SpanExportResult.FAILURE)
    processor = PacedSpanProcessor(exporter)
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(processor)
    for _ in range(spans):
        provider.get_tracer("t").start_span("s").end()
    assert inner.asked.wait(60)
    exporter.stop()
    processor.abandon()
    return provider, exporter, processor


def test_a_batch_in_the_middle_is_counted_whole() -> None:
    """Of 600 spans 32 are in a request without an answer, and count as `timeout`; the 480 that the exporter's thread
    has taken with them and the 88 in the queue count as `shutdown`, before that thread comes to them."""
    inner = _Slow()
    provider, exporter, processor = _left(inner, 600)
    try:
        assert exporter.stats() == ExportStats(0, {"timeout": 32, "shutdown": 568})
        assert processor.dropped == 0
    finally:
        inner.answer.set()
        provider.shutdown()


def test_an_answer_that_comes_after_the_end_changes_no_count() -> None:
    """The exporter's thread goes through what is left: each span keeps its one count, and the thread ends unharmed."""
    inner = _Slow()
    raised: list[threading.ExceptHookArgs] = []
    hook, threading.excepthook = threading.excepthook, raised.append
    try:
        provider, exporter, processor = _left(inner, 6_000)
        before, dropped = exporter.stats(), processor.dropped
        inner.answer.set()
        provider.shutdown()  # joins the thread
        assert (exporter.stats(), processor.dropped) == (before, dropped)
        assert dropped + sum(before.failed.values()) == 6_000
    finally:
        threading.excepthook = hook
        inner.answer.set()
    assert raised == []
