"""Sends messages of OTLP that are encoded already, with OpenTelemetry's exporters.

TLS, headers, compression and retries are as their environment variables say."""

from collections.abc import Mapping
from enum import Enum
from typing import Any

from opentelemetry.sdk._logs.export import LogRecordExportResult
from opentelemetry.sdk.trace.export import SpanExportResult

from ragtrace_otlp import environment
from ragtrace_otlp.batch import CountingExporter, quiet
from ragtrace_otlp.provider import NOISY
from ragtrace_otlp.span_encoder import use_encoder

_FUNCTIONS: Mapping[environment.Signal, str] = {"traces": "encode_spans", "logs": "encode_logs"}
_MAY_COME_AGAIN = frozenset({
    408, 429, 502, 503, 504,
    "CANCELLED", "DEADLINE_EXCEEDED", "RESOURCE_EXHAUSTED", "ABORTED", "OUT_OF_RANGE", "UNAVAILABLE", "DATA_LOSS",
})  # fmt: skip
"""Statuses of HTTP and gRPC after which OTLP lets a sender try again."""
_CODES = _MAY_COME_AGAIN | {
    "UNKNOWN", "INVALID_ARGUMENT", "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED", "FAILED_PRECONDITION",
    "UNIMPLEMENTED", "INTERNAL", "UNAUTHENTICATED",
}  # fmt: skip


_LARGEST = 4 * 1024 * 1024
"""Bytes of the largest request that a server of gRPC takes by default."""


class SendResult(Enum):
    """How a message ended."""

    SENT = "sent"
    RETRY = "retry"
    """The endpoint could not be reached, or asks to come again."""
    REJECTED = "rejected"


class _Message:
    """An encoded message in place of a batch."""

    def __init__(self, request: Any, items: int) -> None:
        self.request, self._items = request, items

    def __len__(self) -> int:
        return self._items


class _StatusExporter(CountingExporter[Any]):
    """Remembers the status of the endpoint's last answer, which the result of an export does not say."""

    status: int | str | None = None

    def note_answer(self, status: Any) -> bool:
        """See `CountingExporter`."""
        if (isinstance(status, int) and 100 <= status < 600) or status in _CODES:  # other arguments of log lines
            self.status = status
        return super().note_answer(status)


class Destination:
    """An endpoint for one signal."""

    refused = 0
    """Items that the endpoint refused of the message that it took last."""

    def __init__(self, exporter: Any, signal: environment.Signal) -> None:
        """`exporter` is one of OpenTelemetry's for OTLP."""
        quiet(NOISY)
        use_encoder(exporter, lambda message: message.request, _FUNCTIONS[signal])
        is_logs = signal == "logs"
        failure = LogRecordExportResult.FAILURE if is_logs else SpanExportResult.FAILURE
        self._exporter = _StatusExporter(exporter, "events" if is_logs else "spans", failure, optional=is_logs)

    def send(self, request: Any, items: int) -> SendResult:
        """Send an `Export…ServiceRequest` with so many items."""
        self._exporter.status = None
        self._exporter.refused = 0
        result = self._exporter.export(_Message(request, items))  # type: ignore[arg-type]  # has what they use of it
        if getattr(result, "name", "SUCCESS") == "SUCCESS" or self._exporter.is_unsupported:
            self.refused = self._exporter.refused
            return SendResult.SENT
        status = self._exporter.status
        if status == "RESOURCE_EXHAUSTED" and request.ByteSize() > _LARGEST:
            return SendResult.REJECTED
        return SendResult.RETRY if status is None or status in _MAY_COME_AGAIN else SendResult.REJECTED

    def close(self) -> None:
        """End a request that is under way."""
        self._exporter.stop()


def make_destination(signal: environment.Signal, endpoint: str) -> Destination | None:
    """The destination at the endpoint, or else of OpenTelemetry's environment variables; None where neither names one.

    Raises MissingExtraError and SettingError as `environment.make_exporters` does."""
    exporters = environment.make_exporters(signal, endpoint)
    return Destination(exporters[0], signal) if exporters else None
