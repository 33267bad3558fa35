"""Takes requests: checks what the worker may hold, has the buffer commit the spans, and adds them to their traces."""

import logging
import time
from collections.abc import Callable

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from ragtrace.capture.spans.pieces import SpanGroup, divide
from ragtrace.capture.spans.request_body import IntakeError, decode, decompress
from ragtrace.worker.buffer import Buffer
from ragtrace.worker.open_traces import OpenTrace, OpenTraces, size_of
from ragtrace.worker.span_counts import SpanCounts
from ragtrace.worker.worker_settings import BODY_BYTES, WorkerSettings

_log = logging.getLogger("ragtrace.worker")
BUSY, UNAVAILABLE = 429, 503
"""HTTP's statuses of requests that may come again."""
GRPC_CODES = {400: 3, 401: 16, 404: 12, 405: 12, 408: 4, 413: 11, 415: 3, 500: 13, BUSY: 8, UNAVAILABLE: 14}
"""gRPC's numbers of HTTP's statuses."""
_INVALID_IDS = "trace ids must have 16 bytes and span ids 8, and none may be zero"


class Intake:
    """Where both receivers hand their requests in. Thread-safe."""

    def __init__(
        self,
        settings: WorkerSettings,
        buffer: Buffer,
        traces: OpenTraces,
        ledger: SpanCounts,
        pass_on: Callable[[OpenTrace], None],
    ) -> None:
        """`pass_on` gets the spans whose trace has ended."""
        self.settings = settings
        self.ledger = ledger
        self._buffer = buffer
        self._traces = traces
        self._pass_on = pass_on
        self.is_open = False
        """Whether requests are taken."""

    def check_open(self) -> None:
        """Raises IntakeError where no requests are taken."""
        if not self.is_open:
            raise IntakeError(UNAVAILABLE, "stopping", "the worker is starting or stopping")

    def refuse(self, error: IntakeError) -> None:
        """Count a request that is not taken, and log the first one of its kind."""
        if self.ledger.refuse(error.reason):
            _log.warning("ragtrace worker: refused a request: %s; further ones are only counted", error.message)

    def take(self, body: bytes, coding: str, kind: str, sender: str) -> ExportTraceServiceResponse:
        """Decode the body of a request and accept it; see `accept`. Returns the answer. Raises IntakeError for a bad
        one, too."""
        try:
            invalid = self.accept(decode(decompress(body, coding, BODY_BYTES), kind), sender)
        except IntakeError:
            raise
        except Exception as error:
            _log.debug("ragtrace worker: a request could not be taken", exc_info=True)
            raise IntakeError(500, "internal", f"the request could not be taken ({type(error).__name__})") from error
        response = ExportTraceServiceResponse()
        if invalid:
            response.partial_success.rejected_spans = invalid
            response.partial_success.error_message = _INVALID_IDS
        return response

    def accept(self, request: ExportTraceServiceRequest, sender: str = "") -> int:
        """Take the spans of a request, and return how many of them were left out because their ids are invalid.

        `sender` is who sends, by the token; without tokens the first service's name. Returns after the buffer's commit.
        Raises IntakeError where there is no room, where the worker stops, and where the buffer cannot be written."""
        self.check_open()
        division = divide(request)
        name = sender or division.sender
        size = sum(size_of(piece) for piece in division.pieces)
        self._check_room(name, size)
        try:
            if division.pieces:
                self._buffer.append(division.pieces)
        except OSError as error:
            raise IntakeError(UNAVAILABLE, "buffer", str(error)) from None
        if division.invalid:
            self.ledger.open(division.invalid, 0)
            self.ledger.settle(division.invalid, 0, "invalid")
        now = time.monotonic()
        for piece in division.pieces:
            self._add_piece(piece, name, now, recovered=False)
        return division.invalid

    def _check_room(self, sender: str, size: int) -> None:
        limit, total = self.settings.bytes, self.ledger.bytes
        if total + size > limit and total:
            raise IntakeError(BUSY, "full", f"the worker holds {total} bytes of spans, and may hold {limit}")
        if total > limit / 2 and self._traces.bytes_by_sender[sender] + size > limit / 2:
            raise IntakeError(BUSY, "sender", f"of {limit} bytes that the worker may hold, {sender!r} has half")

    def _add_piece(self, piece: SpanGroup, sender: str, now: float, *, recovered: bool) -> None:
        self.ledger.open(len(piece.span_ids), size_of(piece), recovered=recovered)
        addition = self._traces.add(piece, sender, now)
        if addition.duplicates:
            self.ledger.settle(addition.duplicates, size_of(piece) - addition.size, "duplicate")
        if addition.late is not None:
            self.ledger.note_late(addition.spans)
            self._pass_on(addition.late)

    def restore(self) -> None:
        """Take what an earlier process left in the buffer."""
        self._traces.note_ended(self._buffer.ended())
        now, pieces = time.monotonic(), 0
        for row, _, payload in self._buffer.pieces():
            division = divide(ExportTraceServiceRequest.FromString(payload))
            for piece in division.pieces:  # one: each row has one trace
                piece.row = row
                self._add_piece(piece, division.sender, now, recovered=True)
            pieces += 1
        if pieces:
            _log.info("ragtrace worker: found %d spans in the buffer", self.ledger.stats().recovered)
