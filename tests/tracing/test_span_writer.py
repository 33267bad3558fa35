"""Attributes arrive on a span as the SDK itself would set them."""

from __future__ import annotations

from typing import Any

import pytest
from opentelemetry.sdk.trace import SpanLimits, TracerProvider
from opentelemetry.trace import NonRecordingSpan, SpanContext

from ragtrace.capture.span_writer import write_attributes

PLAIN = {"text": "a", "count": 1, "share": 0.5, "on": True, "names": ("a", "b"), "none": ()}


@pytest.mark.parametrize(
    ("limits", "attributes"),
    [
        (None, PLAIN),
        (None, {**PLAIN, "list": ["a", "b"], "odd": object(), "mixed": ("a", 1), "bytes": b"x"}),
        (SpanLimits(max_attribute_length=3), {**PLAIN, "long": "abcdef"}),
        (SpanLimits(max_attributes=4), PLAIN),
        (SpanLimits(max_attributes=0), PLAIN),
    ],
    ids=["plain", "odd values", "length", "number", "none at all"],
)
def test_a_span_has_what_the_sdk_would_give_it(limits: SpanLimits | None, attributes: dict[str, Any]) -> None:
    """Plain and odd values, limits of length and number: the same attributes and the same dropped count, also for keys
    that are set again."""
    tracer = TracerProvider(shutdown_on_exit=False, span_limits=limits).get_tracer("test")
    ours, theirs = (
        tracer.start_span("a", attributes={"text": "before"}),
        tracer.start_span("a", attributes={"text": "before"}),
    )
    write_attributes(ours, attributes)
    theirs.set_attributes(attributes)
    assert dict(ours.attributes) == dict(theirs.attributes)  # type: ignore[attr-defined]
    assert ours.dropped_attributes == theirs.dropped_attributes  # type: ignore[attr-defined]


def test_a_span_that_does_not_record_takes_nothing() -> None:
    """A span of another kind is left to its own method."""
    write_attributes(NonRecordingSpan(SpanContext(1, 2, is_remote=False)), PLAIN)
