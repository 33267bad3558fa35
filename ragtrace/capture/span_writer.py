"""Writes attributes to a span without having the SDK clean each value a second time, and redacts what others wrote."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from opentelemetry.attributes import BoundedAttributes
from opentelemetry.trace import Span, Status

from ragtrace import semconv
from ragtrace.text.sanitizer import Sanitizer

_PLAIN = frozenset({str, int, float, bool})


def write_attributes(span: Span, attributes: Mapping[str, Any]) -> None:
    """Set the attributes of an open span. Values are texts, numbers, truth values, or tuples of these.

    The SDK checks each value again, which costs a third of what recording does. Where the span is the SDK's own, no
    limit applies and every value is plain, they are put where the SDK puts them; otherwise its own method is called.
    """
    target = getattr(span, "_attributes", None)
    if type(target) is BoundedAttributes and _takes(target, attributes):
        lock = getattr(target, "_lock", None)
        if lock is not None:
            with lock:
                target._dict.update(attributes)
            return
    span.set_attributes(attributes)


def _takes(target: BoundedAttributes, attributes: Mapping[str, Any]) -> bool:
    """Whether the SDK would take these attributes as they are."""
    room = target.maxlen is None or len(target._dict) + len(attributes) <= target.maxlen
    if not room or target.max_value_len is not None or target._immutable:
        return False
    others = set(map(type, attributes.values())) - _PLAIN
    if others == {tuple}:
        lists = (value for value in attributes.values() if type(value) is tuple)
        others = {type(item) for values in lists for item in values} - _PLAIN
    return not others


def redact_written(span: Span, title: str, sanitizer: Sanitizer) -> None:
    """Redact what the application and other libraries wrote on an open span of ragtrace's, which is the current span
    while their code works: attributes, events, links, the status and the name, where it is not `title` any more.

    A span that is not the SDK's shows nothing of this, and stays as it is.
    """
    if sanitizer.redact is None:
        return
    written = dict(getattr(span, "attributes", None) or {})
    written.pop(semconv.OPERATION, None)
    if written:
        span.set_attributes(sanitizer.attributes(written))
    _replace(
        getattr(span, "_events", None), lambda e: type(e)(sanitizer.text(e.name), _redacted(e, sanitizer), e.timestamp)
    )
    _replace(getattr(span, "_links", None), lambda link: type(link)(link.context, _redacted(link, sanitizer)))
    status = getattr(span, "status", None)
    if status is not None and status.description:
        span.set_status(Status(status.status_code, sanitizer.text(status.description)))
    if (name := getattr(span, "name", title)) != title:
        span.update_name(sanitizer.text(name))


def _redacted(item: Any, sanitizer: Sanitizer) -> BoundedAttributes:
    """The attributes of an event or a link, redacted."""
    copy = BoundedAttributes(attributes=sanitizer.attributes(item.attributes or {}), immutable=True)
    copy.dropped = getattr(item.attributes, "dropped", 0)
    return copy


def _replace(items: Any, redacted: Callable[[Any], Any]) -> None:
    """Redact each of the SDK's list of events or links, in its place: the list also counts what it has dropped."""
    if items:
        copies = [redacted(item) for item in items]  # without the lock: a function of the application's may wait here
        with items._lock:
            items._dq.clear()
            items._dq.extend(copies)
