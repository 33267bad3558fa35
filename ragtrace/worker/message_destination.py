"""Sends traces to a broker in the place of an OTLP endpoint."""

from typing import Any

from ragtrace.capture.spans.pieces import divide
from ragtrace_brokers.message import HEADER_SCHEMA, SCHEMA, Publisher, TraceMessage
from ragtrace_otlp.destination import Destination, SendResult


class MessageDestination(Destination):
    """See `Destination`. Each trace of a request is a message."""

    def __init__(self, publisher: Publisher) -> None:
        self._publisher = publisher
        self._digests: set[str] = set()
        """Messages of requests that were taken in part, which come again."""

    def send(self, request: Any, items: int) -> SendResult:
        """See `Destination`. A request with a trace that is too large is rejected once the broker has the others."""
        headers = {HEADER_SCHEMA: SCHEMA}
        pieces = divide(request).pieces
        messages = [TraceMessage(piece.trace_id.hex(), piece.payload, headers) for piece in pieces]
        messages = [message for message in messages if message.digest not in self._digests]
        results = self._publisher.publish(messages)
        pairs = list(zip(messages, results, strict=True))
        if not any(results):
            self._digests.difference_update(message.digest for message in messages)
            return SendResult.SENT
        self._digests.update(message.digest for message, result in pairs if not result)
        return SendResult.REJECTED if all(result in ("", "too_large") for result in results) else SendResult.RETRY

    def close(self) -> None:
        self._publisher.close()
