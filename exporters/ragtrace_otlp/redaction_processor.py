"""Redacts the spans of other libraries in the same provider, or leaves their texts out, before they are exported."""

from functools import partial
from typing import Any

from opentelemetry.sdk.trace import Event, ReadableSpan, SpanLimits, SpanProcessor
from opentelemetry.sdk.util import BoundedList
from opentelemetry.trace import Link, Status

from ragtrace import semconv
from ragtrace.capture.span_writer import MESSAGE, NAME_LENGTH, STATUS_LENGTH, attributes_for, redacted_item
from ragtrace.capture.spans.dialects import OWN_SCOPES
from ragtrace.text.sanitizer import REDACTION_FAILED, Sanitizer
from ragtrace_otlp.hold import ProcessorGroup, copy_of
from ragtrace_otlp.text_filter import TextFilter


class RedactionProcessor(ProcessorGroup):
    """A span processor around the real ones, which get a copy of each span of another library that is redacted when
    somebody reads it: usually in an exporter's thread."""

    def __init__(self, inner: SpanProcessor, sanitizer: Sanitizer | TextFilter) -> None:
        super().__init__((inner,))
        self._sanitizer = sanitizer

    def on_end(self, span: ReadableSpan) -> None:
        """Hand on a copy. Runs in the thread that ends the span."""
        scope = span.instrumentation_scope
        if scope is None or scope.name not in OWN_SCOPES:  # ours is redacted when it is written, or when the span ends
            span = _RedactedSpan(span, self._sanitizer)
        super().on_end(span)


class _RedactedSpan(ReadableSpan):
    """A copy of a span whose texts are redacted when they are first read. Where that fails it has none, which is
    counted in `Sanitizer.failures`."""

    _TEXTS = frozenset({"_name", "_attributes", "_events", "_links", "_status"})

    def __init__(self, span: ReadableSpan, sanitizer: Sanitizer | TextFilter) -> None:
        self.__dict__.update((key, value) for key, value in vars(span).items() if key not in self._TEXTS)
        self._redact = partial(_texts_of, span, sanitizer)

    def __getattr__(self, name: str) -> Any:
        if name not in self._TEXTS:
            raise AttributeError(name)
        self.__dict__.update(self._redact())
        return self.__dict__[name]


def _texts_of(span: ReadableSpan, sanitizer: Sanitizer | TextFilter) -> dict[str, Any]:
    try:
        copy = redacted_copy(span, sanitizer)
    except Exception as error:  # noqa: BLE001 what cannot be redacted does not leave
        sanitizer.failures.count(error)
        status = Status(span.status.status_code)
        copy = copy_of(span, name=REDACTION_FAILED, attributes={}, events=[], links=[], status=status)
    return {key: value for key, value in vars(copy).items() if key in _RedactedSpan._TEXTS}


def redacted_copy(span: ReadableSpan, sanitizer: Sanitizer | TextFilter) -> ReadableSpan:
    """A copy of an ended span with its name, status, attributes, events and links redacted. Ids, times, keys of
    attributes and the resource stay; so do the counts of what the SDK dropped."""
    status = span.status
    if status.description:
        description = sanitizer.attributes({MESSAGE: status.description}).get(MESSAGE)
        status = Status(status.status_code, description and description[:STATUS_LENGTH])
    events = [Event(sanitizer.text(e.name, NAME_LENGTH), redacted_item(e, sanitizer), e.timestamp) for e in span.events]
    links = [Link(link.context, redacted_item(link, sanitizer)) for link in span.links]
    return copy_of(
        span,
        name=sanitizer.text(span.name, NAME_LENGTH),
        attributes=redacted_item(span, sanitizer),
        events=_bounded(events, span.dropped_events),  # the SDK's own spans hold such lists
        links=_bounded(links, span.dropped_links),
        status=status,
    )


def cut_copy(span: ReadableSpan, limits: SpanLimits) -> ReadableSpan:
    """A copy of a span with its values, but for scores, cut to the limits of length: what was cut before it is redacted
    would not be recognized."""
    length, attributes = limits.max_attribute_length, span.attributes or {}
    scores = {key: value for key, value in attributes.items() if key.startswith(semconv.SCORE_PREFIX)}
    cut = attributes_for(span, attributes, limits.max_span_attribute_length)
    events = [Event(e.name, attributes_for(e, e.attributes, length), e.timestamp) for e in span.events]
    links = [Link(link.context, attributes_for(link, link.attributes, length)) for link in span.links]
    return copy_of(
        span, attributes=attributes_for(span, {**cut, **scores}), events=_bounded(events, span.dropped_events),
        links=_bounded(links, span.dropped_links),
    )  # fmt: skip


def _bounded(items: list[Any], dropped: int) -> BoundedList[Any]:
    bounded: BoundedList[Any] = BoundedList(max(1, len(items)))
    bounded.extend(items)
    bounded.dropped = dropped
    return bounded
