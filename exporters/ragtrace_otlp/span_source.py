"""Reads the spans of other libraries from the provider that they record to. Decides which of them wait for scores."""

from collections.abc import Callable
from typing import Any

from opentelemetry.context import Context
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor

from ragtrace import semconv
from ragtrace.capture.recorder import Consumer, current_consumer
from ragtrace.capture.spans.collector import CollectorLimits, CollectorStats, SpanCollector
from ragtrace.capture.spans.open_spans import SpanKey
from ragtrace.records import Trace
from ragtrace.text.sanitizer import Sanitizer
from ragtrace_otlp.hold import HoldProcessor


class SpanSource(SpanProcessor):
    """A span processor in front of the hold. It changes no span, and a second one of it beside the first counts
    nothing twice as long as only one belongs to the running ragtrace."""

    def __init__(
        self,
        *,
        reads: Callable[[str], bool] = lambda _scope: True,
        consumer: Consumer | None = None,
        sanitizer: Sanitizer | None = None,
        limits: CollectorLimits | None = None,
    ) -> None:
        """`reads` says whether spans of an instrumentation scope are read. `consumer` defaults to the process's one."""
        self.hold: HoldProcessor | None = None
        """Parks the roots; without one, scores leave as evaluation spans and events alone."""
        self._multi: Any = None
        """The provider's processors, which this one was put in front of."""
        self._consumer = consumer
        self._collector = SpanCollector(self._take, reads=reads, sanitizer=sanitizer, limits=limits)

    # --- span processor --------------------------------------------------------------------------

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        """Note the span. Never raises, never blocks."""
        self._collector.start(span)

    def on_end(self, span: ReadableSpan) -> None:
        """Note the end, and have the hold park a span that may be a request. Never raises, never blocks."""
        if self._collector.end(span) and self.hold is not None and span.context is not None:
            self.hold.expect((span.context.trace_id, span.context.span_id))

    def shutdown(self) -> None:
        """Hand on what is there."""
        self._collector.close()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """See `flush`."""
        return self.flush(timeout_millis / 1000)

    # --- control ---------------------------------------------------------------------------------

    def attach(self, tracer_provider: Any, hold: HoldProcessor | None) -> None:
        """Have a provider's spans pass before its other processors; `hold` is the one among them.

        Where the provider looks different from what is known, the source comes behind them, and no span waits."""
        multi = getattr(tracer_provider, "_active_span_processor", None)
        processors = getattr(multi, "_span_processors", None)
        if multi is not None and isinstance(processors, tuple):
            self.hold = hold
            multi._span_processors = (self, *processors)
            self._multi = multi
        elif hasattr(tracer_provider, "add_span_processor"):
            tracer_provider.add_span_processor(self)

    def flush(self, timeout: float = 10.0) -> bool:
        """Hand on the requests whose roots have ended; False after `timeout` seconds."""
        return self._collector.flush(timeout)

    def close(self, timeout: float = 2.0) -> None:
        """Hand on what is there, and leave the provider as it was."""
        self._collector.close(timeout)
        if self._multi is not None:
            others = [each for each in self._multi._span_processors if each is not self]
            self._multi._span_processors = tuple(others)

    # --- the collector's thread ------------------------------------------------------------------

    def _take(self, key: SpanKey, trace: Trace | None) -> None:
        """Sample a request, tell the hold, and have it evaluated."""
        consumer = self._consumer or current_consumer()
        if trace is None or consumer is None:
            self._decide(key, {})
            return
        decision = consumer.sample(trace)
        marks: dict[str, Any] = {semconv.SAMPLED: decision.keep, semconv.PROBABILITY: decision.probability}
        if not decision.keep:
            marks[semconv.STATUS] = "sampled_out"
        self._decide(key, marks)
        consumer.submit(trace, decision)

    def _decide(self, key: SpanKey, marks: dict[str, Any]) -> None:
        if self.hold is not None:
            self.hold.decide(key, marks)

    def stats(self) -> CollectorStats:
        """Count what was handed on, kept and lost."""
        return self._collector.stats()
