"""What a worker puts in the place of an application's telemetry: the traces that pass through it."""

from collections.abc import Callable
from typing import Any

from ragtrace.live.pipeline import Sink
from ragtrace.worker.span_counts import WorkerStats
from ragtrace_otlp.batch import ExportStats
from ragtrace_otlp.provider import TelemetryStats


class WorkerTelemetry:
    """Brings evaluations to the assembler. It has no providers, and sends nothing itself."""

    hold = None
    source = None
    tracer_provider: Any = None
    logger_provider: Any = None
    undelivered = 0

    def __init__(self, sink: Sink, stats: Callable[[], WorkerStats], unready_reason: Callable[[], str]) -> None:
        """`unready_reason` says why the worker takes no requests; an empty text if it does."""
        self.sinks = (sink,)
        self.worker_stats = stats
        self.unready_reason = unready_reason

    def stats(self) -> TelemetryStats:
        """The spans that were sent, in the form of an application's exporters."""
        stats = self.worker_stats()
        return TelemetryStats(ExportStats(stats.sent, stats.dropped), None, 0, 0, None)

    def flush(self, timeout: float = 10.0) -> bool:
        """Nothing waits here."""
        return True

    def close(self, timeout: float = 5.0) -> None:
        """Nothing is open here."""
