"""Writes attributes to a span without having the SDK clean each value a second time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from opentelemetry.attributes import BoundedAttributes
from opentelemetry.trace import Span

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
