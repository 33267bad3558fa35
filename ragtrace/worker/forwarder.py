"""Sends ended traces on over OTLP, redacted by `redact_others`; the buffer forgets what the endpoint has."""

import logging
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from ragtrace.base.background import Background, Bounds
from ragtrace.base.lazy import groups_of
from ragtrace.capture.span_writer import NAME_LENGTH, STATUS_LENGTH, redacted_attributes
from ragtrace.capture.spans import dialects
from ragtrace.capture.spans.conversion import attributes_from
from ragtrace.capture.spans.pieces import spans_in
from ragtrace.text.sanitizer import Sanitizer
from ragtrace.worker.buffer import Buffer, TraceOutcome
from ragtrace.worker.open_traces import OpenTraces
from ragtrace.worker.outcomes import EndedTrace, marked, outcome_of
from ragtrace.worker.score_outbox import ScoreOutbox
from ragtrace.worker.span_counts import SpanCounts
from ragtrace_otlp.destination import Destination, SendResult
from ragtrace_otlp.scores import ScoreFormat
from ragtrace_otlp.wire import write_attributes

_log = logging.getLogger("ragtrace.worker")
_BATCH, _WAIT = 256, 0.1
_REQUEST_BYTES = 2 * 1024 * 1024
"""Bytes of one request to the endpoint, about."""
_EVENTS_REST = 60.0
"""Seconds without events after an endpoint has not taken them."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 30.0
"""Seconds before a further try; twice as many each time."""


@dataclass(frozen=True, slots=True)
class Onward:
    """Where traces go, and in which form."""

    spans: Destination | None
    """None where no endpoint is set, and where the spans stay here."""
    events: Destination | None
    scores: ScoreOutbox
    """Gets the scores of traces that were sent."""
    form: ScoreFormat = field(default_factory=ScoreFormat)
    redact: Sanitizer | None = None
    """Redacts the spans that pass, where the settings ask for it."""
    stay_reason: Literal["no_endpoint", "spans_off"] = "no_endpoint"
    """Why `spans` is None."""


class _ClosingError(Exception):
    """The worker ends, and the endpoint takes nothing."""


class Forwarder:
    """A thread that sends. What the endpoint cannot take now is tried again until it can."""

    def __init__(
        self, onward: Onward, buffer: Buffer, ledger: SpanCounts, traces: OpenTraces, settle_store: Callable[[], object]
    ) -> None:
        """`settle_store` waits until what was evaluated is in the store."""
        self._onward, self._buffer, self._ledger, self._traces = onward, buffer, ledger, traces
        self._settle_store = settle_store
        self._events_rest_until = 0.0
        bounds = Bounds(items=100_000_000, batch=_BATCH, wait=_WAIT)
        self._queue: Background[EndedTrace] = Background("ragtrace-forward", self._work, bounds)

    def __call__(self, trace: EndedTrace) -> None:
        """Take a trace that is to be sent."""
        self._queue.put(trace)

    # --- the thread ------------------------------------------------------------------------------

    def _work(self, batch: list[EndedTrace]) -> None:
        try:
            self._save_outcomes(batch)
            for part in groups_of(batch, lambda trace: trace.trace.size, _REQUEST_BYTES):
                self._forward(part)
        except _ClosingError:
            pass  # what has no place in the buffer is counted at the end
        except Exception:  # each trace counts as dropped (`internal`) before the queue logs the error
            for trace in batch:
                self._settle(trace, "internal")
                self._buffer.fail(trace.trace.rows)
            raise

    def _save_outcomes(self, batch: Sequence[EndedTrace]) -> None:
        """Compute and save the outcomes: from now on these traces are not evaluated again."""
        evaluated = [trace for trace in batch if trace.outcome is None]
        for trace in evaluated:
            annotations = self._onward.scores.encoded(trace.evaluations)
            trace.outcome = outcome_of(trace, self._onward.form, self._onward.events is not None, annotations)
        fresh = [trace for trace in evaluated if trace.evaluations]
        if fresh:
            self._settle_store()
            self._durably(lambda: self._buffer.save([(t.trace.id, _outcome(t)) for t in fresh]))

    def _forward(self, part: Sequence[EndedTrace]) -> None:
        """Send a part of a batch. Of a part that is refused each trace is sent by itself: one may be the cause."""
        spans = self._onward.spans
        stays = [trace for trace in part if spans is None or trace.trace.request is not None]
        self._send_events(stays)
        self._finish(stays, self._onward.stay_reason if spans is None else "spans_off")
        if spans is None or len(stays) == len(part):
            return
        part = [trace for trace in part if trace.trace.request is None]
        payloads = {trace: payload for trace in part if (payload := self._payload(trace)) is not None}
        self._finish([trace for trace in part if trace not in payloads], "redaction")
        sent = list(payloads)
        if not sent:
            return
        if (refused := self._send(spans, ExportTraceServiceRequest, list(payloads.values()), sent)) is not None:
            self._send_events(sent)
            self._finish(sent, "", refused)
        elif len(sent) == 1:
            self._finish(sent, "rejected")
        else:
            for trace in sent:
                self._forward([trace])

    def _payload(self, trace: EndedTrace) -> bytes | None:
        """What is sent of a trace; None where it cannot be redacted."""
        payload, sanitizer = trace.trace.payload, self._onward.redact
        onward = payload if sanitizer is None else redacted(payload, sanitizer)
        return None if onward is None else marked(onward, _outcome(trace).marks)

    def _send_events(self, traces: Sequence[EndedTrace]) -> None:
        events = [_outcome(trace).events for trace in traces if _outcome(trace).events]
        if not events or self._onward.events is None or time.monotonic() < self._events_rest_until:
            return
        self._send(self._onward.events, ExportLogsServiceRequest, events, traces, patient=False)

    def _send(
        self, destination: Destination, kind: Any, payloads: Sequence[bytes], traces: Sequence[EndedTrace], *,
        patient: bool = True,
    ) -> int | None:  # fmt: skip
        """Send until it is taken, a large trace in parts that endpoints take: the number of items that were refused of
        it; None if all is refused. Spans do not wait for an endpoint of events (not `patient`), which repeat scores."""
        whole, refused = kind.FromString(b"".join(payloads)), 0
        (name,) = (each.name for each in kind.DESCRIPTOR.fields)
        room = _REQUEST_BYTES if len(traces) == 1 else math.inf
        for group in groups_of(getattr(whole, name), lambda part: int(part.ByteSize()), room):
            request, pause = kind(**{name: group}), _FIRST_PAUSE
            items = (
                sum(trace.trace.spans for trace in traces) if len(group) == len(getattr(whole, name)) else len(group)
            )
            while (result := destination.send(request, items)) is SendResult.RETRY:
                if not patient:
                    self._events_rest_until = time.monotonic() + _EVENTS_REST
                    _log.warning("ragtrace worker: the endpoint takes no events; the next minute's are left out")
                    return None
                if self._queue.pause(pause):
                    raise _ClosingError
                pause = min(2 * pause, _LONGEST_PAUSE)
            if result is not SendResult.SENT:
                return None
            refused += destination.refused
        return refused

    def _finish(self, traces: Sequence[EndedTrace], reason: str, refused: int = 0) -> None:
        if not traces:
            return
        rows = [row for trace in traces for row in trace.trace.rows]
        # Late spans say nothing of their trace, which may not have been sent yet.
        ended = [trace for trace in traces if not trace.is_late]
        self._durably(lambda: self._buffer.finish(rows, [trace.trace.id for trace in ended], reason))
        for trace in traces:
            self._settle(trace, reason, min(refused, trace.trace.spans))
            refused = max(0, refused - trace.trace.spans)
        self._onward.scores.deliver({trace.trace.id: _outcome(trace).annotations for trace in ended})

    def _settle(self, trace: EndedTrace, reason: str, refused: int = 0) -> None:
        self._ledger.settle(trace.trace.spans, trace.trace.size, reason, refused)
        self._traces.release(trace.trace.sender, trace.trace.size)

    def _durably(self, write: Callable[[], None]) -> None:
        """Write to the buffer, again and again while its disk is full."""
        pause = _FIRST_PAUSE
        while True:
            try:
                write()
                return
            except OSError as error:
                _log.warning("ragtrace worker: %s; tried again in %g s", error, pause)
                if self._queue.pause(pause):
                    raise _ClosingError from None
                pause = min(2 * pause, _LONGEST_PAUSE)

    # --- the end ---------------------------------------------------------------------------------

    def close(self, timeout: float) -> None:
        """Send for up to `timeout` seconds what waits, and end. Without a buffer the rest is lost, and counted."""
        self._queue.close(timeout)
        for destination in (self._onward.spans, self._onward.events):
            if destination is not None:
                destination.close()
        if not self._buffer.is_durable:
            stats = self._ledger.stats()
            self._ledger.settle(stats.open, stats.open_bytes, "shutdown")


def _outcome(trace: EndedTrace) -> TraceOutcome:
    return trace.outcome or TraceOutcome(b"", b"")


def redacted(payload: bytes, sanitizer: Sanitizer) -> bytes | None:
    """The payload with names, statuses, and attributes of spans, events and links redacted; ragtrace's own spans were
    redacted when they were made. None where a text cannot be redacted, which is counted in `Sanitizer.failures`."""
    request = ExportTraceServiceRequest.FromString(payload)
    try:
        for _, scope, span in spans_in(request):
            if scope.name not in dialects.OWN_SCOPES:
                _redact(span, sanitizer)
    except Exception as error:  # noqa: BLE001 what cannot be redacted does not leave
        sanitizer.failures.count(error)
        return None
    return bytes(request.SerializeToString())


def _redact(span: Any, sanitizer: Sanitizer) -> None:
    span.name = sanitizer.text(span.name, NAME_LENGTH)
    if span.status.message:
        span.status.message = sanitizer.text(span.status.message, STATUS_LENGTH)
    for event in span.events:
        event.name = sanitizer.text(event.name, NAME_LENGTH)
    for item in (span, *span.events, *span.links):
        attributes = redacted_attributes(attributes_from(item.attributes), sanitizer)
        del item.attributes[:]
        write_attributes(item, attributes)
