"""A span in neutral form: from the SDK of this process, from a golden file, or from the wire."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ragtrace.semconv import TRACE_STATE_MEMBER


@dataclass(frozen=True, slots=True)
class SpanEvent:
    """An event on a span."""

    name: str
    time: int
    """Unix nanoseconds."""
    attributes: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SpanRecord:
    """A span of any library."""

    trace_id: int
    span_id: int
    parent_id: int | None
    """Also set where the parent is in another process, or was never seen."""
    name: str
    scope: str
    """Name of the instrumentation scope."""
    kind: str
    """`INTERNAL`, `SERVER`, `CLIENT`, `PRODUCER` or `CONSUMER`."""
    started: int
    """Unix nanoseconds."""
    ended: int
    """Unix nanoseconds; 0 for a span that is still open."""
    status: str = "UNSET"
    """`UNSET`, `OK` or `ERROR`."""
    attributes: Mapping[str, Any] = field(default_factory=dict)
    events: Sequence[SpanEvent] = ()
    sampled: bool = True
    """Whether the trace is exported."""
    service: tuple[str, str] = ("", "")
    """Name and environment of the service that recorded it, where several may come together; "" in the process."""
    trace_state: str = ""
    """The member `ot` of the W3C tracestate."""


def record_of(span: Any) -> SpanRecord:
    """A record of a span of OpenTelemetry's SDK, which may still be open. Copies no text."""
    context, parent, scope = span.context, span.parent, span.instrumentation_scope
    return SpanRecord(
        trace_id=context.trace_id, span_id=context.span_id, parent_id=None if parent is None else parent.span_id,
        name=span.name, scope=scope.name if scope is not None else "", kind=span.kind.name,
        started=span.start_time or 0, ended=span.end_time or 0, status=span.status.status_code.name,
        attributes=dict(span.attributes or {}),
        events=tuple(SpanEvent(event.name, event.timestamp, event.attributes or {}) for event in span.events),
        sampled=context.trace_flags.sampled,
        trace_state=context.trace_state.get(TRACE_STATE_MEMBER, "") if context.trace_state else "",
    )  # fmt: skip
