"""A source of traces for the worker: messages of a broker, one trace each."""

import threading
import time
from collections.abc import Callable, Sequence
from typing import cast

from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from ragtrace.capture.spans.pieces import divide
from ragtrace.errors import log_failure
from ragtrace.worker.message_buffer import MessageBuffer
from ragtrace.worker.open_traces import OpenTrace, size_of
from ragtrace.worker.span_counts import SpanCounts
from ragtrace.worker.stored_contents import StoredContents, payload_with_ids
from ragtrace.worker.worker_settings import BODY_BYTES, WorkerSettings
from ragtrace_brokers import message as envelope
from ragtrace_brokers.seal import TransportKeys, payload_of

_FETCH_SECONDS = 0.5
_PAUSE = 0.02
_FIRST_PAUSE, _LONGEST_PAUSE = 0.25, 5.0
_LAG_SECONDS = 15.0
_GROUP = 32
"""Messages, one of which may have ended a process, that are evaluated together."""
_STARTS = 3
"""A message whose evaluation was started so often after its first delivery, and never ended, is a dead letter."""


class MessageSource:
    """A thread that fetches as many messages as the worker has room for, and gives their traces to be evaluated.

    A message that comes for the first time costs nothing beyond its evaluation. One that another worker may have
    started has its starts counted in the broker: the second time it is evaluated beside others, then in a small group,
    the last time alone, so that a message that ends the process takes no other with it; after `_STARTS` of them it is a
    dead letter."""

    def __init__(
        self, transport: envelope.Transport, settings: WorkerSettings, buffer: MessageBuffer, ledger: SpanCounts, *,
        take: Callable[[OpenTrace], None], is_idle: Callable[[], bool], keys: TransportKeys | None,
        contents: StoredContents,
    ) -> None:  # fmt: skip
        """`take` evaluates a trace; `is_idle` says whether all that was taken is evaluated;
        `keys` open sealed messages, `contents` has the requests of those that have ids alone."""
        self._transport, self._settings, self._buffer, self._ledger = transport, settings, buffer, ledger
        self._take, self._is_idle, self._keys, self._contents = take, is_idle, keys, contents
        self._stop = threading.Event()
        self._pause, self._lag_read = _FIRST_PAUSE, 0.0
        self._thread = threading.Thread(target=self._run, name="ragtrace-fetch", daemon=True)

    def start(self) -> None:
        """Begin to fetch."""
        self._thread.start()

    def stop(self, seconds: float) -> None:
        """Fetch nothing further."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(seconds)

    # --- the thread ------------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self._fetch()
                self._pause = _FIRST_PAUSE
                self._buffer.note_error(None)
            except envelope.TransportError as error:
                self._buffer.note_error(error)
                self._wait()
            except Exception:  # noqa: BLE001 the thread must live on
                log_failure(__name__, "ragtrace worker: messages could not be taken", is_error=True)
                self._wait()

    def _wait(self) -> None:
        self._stop.wait(self._pause)
        self._pause = min(2 * self._pause, _LONGEST_PAUSE)

    def _fetch(self) -> None:
        room = envelope.IN_FLIGHT - self._buffer.counts.in_flight
        if self._ledger.bytes >= self._settings.bytes:
            room = 0
        messages = self._transport.fetch(max(0, room), _FETCH_SECONDS)
        if room <= 0:
            self._stop.wait(_PAUSE)
        if any(envelope.HEADER_CONTENT in each.headers for each in messages):
            try:
                self._contents.check()
            except envelope.TransportError:  # the store does not answer, and nothing has been started
                self._transport.nack(messages, _LONGEST_PAUSE)
                raise
        self._buffer.counts.fetched += len(messages)
        self._accept([each for each in messages if not each.is_redelivered])
        redelivered = [each for each in messages if each.is_redelivered]
        if redelivered:
            self._buffer.counts.redelivered += len(redelivered)
            self._accept_again(redelivered)
        if time.monotonic() > self._lag_read + _LAG_SECONDS:
            self._lag_read = time.monotonic()
            self._buffer.counts.lag = self._transport.lag()

    def _accept_again(self, messages: Sequence[envelope.TraceMessage]) -> None:
        """Messages that another worker may have started."""
        counts = dict(zip((each.id for each in messages), self._transport.starts(messages), strict=True))
        for message in messages:
            if counts[message.id] >= _STARTS:
                text = f"starts: {counts[message.id]} evaluations of it were started and none ended"
                self._buffer.bury(message, text)
        second = [each for each in messages if counts[each.id] == 0]
        if second:
            self._transport.count_starts(second)
            self._accept(second)
        rest = sorted((m for m in messages if 0 < counts[m.id] < _STARTS), key=lambda m: counts[m.id])
        while rest and not self._stop.is_set():
            rest = self._transport.extend(rest)
            # The last start is alone. A worker that was killed held hundreds; one by one they would take a minute.
            size = _GROUP if rest and counts[rest[0].id] < _STARTS - 1 else 1
            group = [each for each in rest[:size] if counts[each.id] == counts[rest[0].id]]
            self._accept_apart(group)
            rest = rest[len(group) :]

    def _accept_apart(self, messages: Sequence[envelope.TraceMessage]) -> None:
        """Evaluate messages while nothing else is evaluated here: if the process ends, one of them was the cause."""
        while not self._is_idle():
            if self._stop.wait(_PAUSE):
                return
            self._transport.fetch(0, 0.0)
        self._transport.count_starts(messages)
        self._accept(messages)
        # Until the broker knows that they are done: the next one may end the process before. An endpoint that is away
        # holds up the others for no longer than the broker would.
        until = time.monotonic() + self._settings.visibility_seconds
        while any(map(self._buffer.holds, messages)) and time.monotonic() < until and not self._stop.wait(_PAUSE):
            self._transport.fetch(0, 0.0)

    def _accept(self, messages: Sequence[envelope.TraceMessage]) -> None:
        for message in messages:
            try:
                self._open(message)
            except envelope.UnreadableMessageError as error:
                self._buffer.bury(message, str(error))

    def _open(self, message: envelope.TraceMessage) -> None:
        """Give the traces of a message to be evaluated. Raises UnreadableMessageError."""
        if envelope.HEADER_CONTENT in message.headers:
            self._open_stored(message)
            return
        division = divide(read_message(message, BODY_BYTES, self._keys))
        if not division.pieces:
            raise envelope.UnreadableMessageError(f"empty: none of its {division.spans} spans has valid ids")
        ids = [piece.trace_id for piece in division.pieces]
        if envelope.HEADER_SCHEMA in message.headers and [trace_id.hex() for trace_id in ids] != [message.key]:
            raise envelope.UnreadableMessageError("key: the key of the message is not the id of the one trace in it")
        now = time.monotonic()
        for row, piece in zip(self._buffer.hold(message, ids), division.pieces, strict=False):
            size, spans = size_of(piece), len(piece.span_ids)
            self._ledger.open(spans, size)
            trace = OpenTrace(piece.trace_id, now, now, division.sender, [piece.payload], [row])
            trace.span_ids, trace.spans, trace.size = set(piece.span_ids), spans, size
            trace.probability = _probability(message)
            self._take(trace)

    def _open_stored(self, message: envelope.TraceMessage) -> None:
        """Give a request of the store to be evaluated. Raises UnreadableMessageError."""
        request, now = self._contents.read(message), time.monotonic()
        trace_id = bytes.fromhex(message.key)
        for row in self._buffer.hold(message, [trace_id]):
            trace = OpenTrace(trace_id, now, now, "", [payload_with_ids(request)], [row])
            trace.request, trace.probability = request, _probability(message)
            self._take(trace)


def _probability(message: envelope.TraceMessage) -> float | None:
    try:
        probability = float(message.headers[envelope.HEADER_PROBABILITY])
    except (KeyError, ValueError):
        return None
    return probability if 0.0 < probability <= 1.0 else None


def read_message(message: envelope.TraceMessage, limit: int, keys: TransportKeys | None) -> ExportTraceServiceRequest:
    """The spans of a message. Raises UnreadableMessageError for a payload of more than `limit` bytes, of an unknown
    schema, for one that these keys cannot open, and for one that is no `TracesData`."""
    if len(message.payload) > limit:
        raise envelope.UnreadableMessageError(
            f"too_large: the payload has {len(message.payload)} bytes, at most {limit} are read"
        )
    schema = message.headers.get(envelope.HEADER_SCHEMA, envelope.SCHEMA)
    if schema != envelope.SCHEMA:
        raise envelope.UnreadableMessageError(
            f"schema: {envelope.HEADER_SCHEMA} is {schema[:20]!r}, this release reads {envelope.SCHEMA!r}"
        )
    try:
        return cast("ExportTraceServiceRequest", ExportTraceServiceRequest.FromString(payload_of(message, keys)))
    except DecodeError:
        raise envelope.UnreadableMessageError("undecodable: the payload is no TracesData in protobuf") from None
