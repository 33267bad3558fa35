"""Publishes each request that was sampled to a broker, from which workers fetch it."""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.trace import SpanContext

from ragtrace import semconv
from ragtrace_brokers import message
from ragtrace_otlp.span_encoder import encode_spans

_OPEN = 10_000
"""Traces whose root has not come, the latest. Traces without a request have none."""
_SPANS = 100_000
"""Spans that are kept in all traces together, those of the latest ones."""
_SECONDS = 10.0
_PAUSE = 0.25


class TransportSpanExporter(SpanExporter):
    """Gathers the spans of a trace until the root of its request comes, which says whether it was sampled."""

    def __init__(
        self, open_publisher: Callable[[], message.Publisher], settle_store: Callable[[], object] | None = None
    ) -> None:
        """`open_publisher` is called at the first request, in the thread that exports. With `settle_store`, which waits
        until the store has the requests, messages have their ids alone."""
        self._open_publisher, self._settle_store = open_publisher, settle_store
        self._publisher: message.Publisher | None = None
        self._traces: OrderedDict[int, dict[int, list[ReadableSpan]]] = OrderedDict()
        """By trace id, and then by the id of the span above: ended spans whose root has not come."""
        self._spans = 0
        self._stop = threading.Event()

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Publish the requests whose roots are among the spans. A broker that is full or away is tried again for ten
        seconds; what it does not take then is lost, and the batch counts as failed."""
        messages: list[message.TraceMessage] = []
        for span in spans:
            if span.context is None:
                continue
            is_sampled = (span.attributes or {}).get(semconv.SAMPLED)
            if is_sampled is None:
                above = span.parent.span_id if span.parent is not None else 0
                self._traces.setdefault(span.context.trace_id, {}).setdefault(above, []).append(span)
                self._spans += 1
                continue
            members = [*self._take_below(span.context), span]
            if is_sampled is True:
                payload = encode_spans(members).SerializeToString() if self._settle_store is None else None
                messages.append(_message(span, span.context, payload))
        while len(self._traces) > _OPEN or self._spans > _SPANS:
            self._spans -= sum(map(len, self._traces.popitem(last=False)[1].values()))
        return SpanExportResult.SUCCESS if self._publish(messages) else SpanExportResult.FAILURE

    def _take_below(self, root: SpanContext) -> list[ReadableSpan]:
        """The ended spans below a request's root. The spans of its trace's other requests stay."""
        trace = self._traces.get(root.trace_id, {})
        members: list[ReadableSpan] = []
        span_ids = [root.span_id]
        while span_ids:
            children = trace.pop(span_ids.pop(), [])
            members += children
            span_ids += [child.context.span_id for child in children if child.context is not None]
        self._spans -= len(members)
        if not trace:
            self._traces.pop(root.trace_id, None)
        return members

    def _publish(self, messages: Sequence[message.TraceMessage]) -> bool:
        if not messages:
            return True
        if self._publisher is None:
            self._publisher = self._open_publisher()
        if self._settle_store is not None:
            self._settle_store()
        is_whole, until = True, time.monotonic() + _SECONDS
        while messages:
            results = self._publisher.publish(messages)
            is_whole = is_whole and "too_large" not in results
            messages = [m for m, r in zip(messages, results, strict=True) if r in ("full", "unreachable")]
            if messages and (time.monotonic() > until or self._stop.wait(_PAUSE)):
                return False
        return is_whole

    def shutdown(self) -> None:
        """Leave the broker."""
        self._stop.set()
        if self._publisher is not None:
            self._publisher.close()


def _message(root: ReadableSpan, context: SpanContext, payload: bytes | None) -> message.TraceMessage:
    """The message of a request; without a payload the one with its ids."""
    attributes = root.attributes or {}
    headers = {
        message.HEADER_SCHEMA: message.SCHEMA,
        message.HEADER_PROBABILITY: repr(attributes.get(semconv.PROBABILITY, 1.0)),
    }
    if tenant := attributes.get(semconv.TENANT):
        headers[message.HEADER_TENANT] = str(tenant)
    if payload is None:
        headers[message.HEADER_CONTENT] = message.CONTENT_IN_STORE
        payload = context.span_id.to_bytes(8, "big")
    return message.TraceMessage(f"{context.trace_id:032x}", payload, headers)
