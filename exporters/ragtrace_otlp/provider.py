"""Creates ragtrace's tracer provider, or attaches to the application's."""

import logging
import threading
import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from opentelemetry import _logs
from opentelemetry import trace as otel
from opentelemetry._logs import NoOpLoggerProvider
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import LogRecordExportResult
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import SpanLimits, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from ragtrace.errors import SettingError
from ragtrace.records import Evaluation
from ragtrace.text.sanitizer import Sanitizer
from ragtrace_otlp import environment
from ragtrace_otlp.batch import CountingExporter, ExportStats, PacedLogRecordProcessor, PacedSpanProcessor, quiet
from ragtrace_otlp.events import EventSink
from ragtrace_otlp.hold import HoldLimits, HoldProcessor, HoldStats, ProcessorGroup
from ragtrace_otlp.jsonl import JsonLinesSpanExporter
from ragtrace_otlp.redaction_processor import RedactionProcessor, cut_copy
from ragtrace_otlp.scores import ScoreFormat
from ragtrace_otlp.span_source import SpanSource
from ragtrace_otlp.spans import EvaluationSpanSink
from ragtrace_otlp.text_filter import TextFilter

_log = logging.getLogger(__name__)
_STOP_SECONDS = 0.5
_GATHERING = 1.0
"""Seconds for which late scores of one request are gathered for one span."""
NOISY = (
    "opentelemetry.exporter.otlp.proto.http.trace_exporter", "opentelemetry.exporter.otlp.proto.http._log_exporter",
    "opentelemetry.exporter.otlp.proto.grpc.exporter", "opentelemetry.exporter.http.transport",
    "opentelemetry.exporter.otlp.common", "opentelemetry.exporter.otlp", "ragtrace_otlp.span_encoder",
)  # fmt: skip


_closed: weakref.WeakSet[Any] = weakref.WeakSet()
"""Tracer providers of ours that are shut down. One of them may still be the global one, which cannot be replaced."""


def current_provider() -> Any:
    """The application's global tracer provider; None without one, or where it is one of ours that was shut down."""
    provider = otel.get_tracer_provider()
    return provider if hasattr(provider, "add_span_processor") and provider not in _closed else None


@dataclass(frozen=True, slots=True)
class TelemetryStats:
    """What went out and what did not."""

    spans: ExportStats | None
    events: ExportStats | None
    spans_dropped: int
    """Spans that a full export queue dropped."""
    events_dropped: int
    """Events that a full export queue dropped."""
    hold: HoldStats | None
    file_spans: ExportStats | None = None
    """Spans for `spans_file`, where there is an endpoint beside it; `spans` are then those for the endpoint."""
    file_spans_dropped: int = 0


@dataclass(slots=True)
class Telemetry:
    """Providers and the sinks that bring scores to them."""

    tracer_provider: Any
    logger_provider: Any
    sinks: tuple[Callable[[Evaluation], None], ...]
    hold: HoldProcessor | None = None
    span_exporter: CountingExporter[Any] | None = None
    file_exporter: CountingExporter[Any] | None = None
    event_exporter: CountingExporter[Any] | None = None
    processors: tuple[PacedSpanProcessor, ...] = ()
    event_processor: PacedLogRecordProcessor | None = None
    own: bool = False
    """Whether the tracer provider is ragtrace's. The logger provider is where there is an `event_exporter`."""
    undo: Callable[[], None] | None = None
    source: SpanSource | None = None
    """Reads the spans of other libraries."""
    late: EvaluationSpanSink | None = None
    others: Sanitizer | TextFilter | None = None
    """What changes the spans of other libraries."""

    def hold_around(self, inner: SpanProcessor, limits: HoldLimits | None, form: ScoreFormat | None) -> HoldProcessor:
        """The hold in front of these processors, and between them what redacts the spans of other libraries."""
        if self.others is not None:
            inner = RedactionProcessor(inner, self.others)
        return HoldProcessor(inner, limits, form, self.late)

    @property
    def names(self) -> tuple[str, str]:
        """The service's name and environment in the provider's resource; empty where it has none."""
        return environment.names_of(getattr(self.tracer_provider, "resource", None))

    def flush(self, timeout: float = 10.0) -> bool:
        """Send what waits; False if `timeout` seconds did not do."""
        until = time.monotonic() + timeout
        done = self.late is None or self.late.flush(timeout)
        for provider in (self.tracer_provider, self.logger_provider):
            flush = getattr(provider, "force_flush", None)
            if flush is not None:
                left = max(0, int((until - time.monotonic()) * 1000))
                done = _within(left / 1000, partial(flush, left)) and done
        return done

    def close(self, timeout: float = 5.0) -> None:
        """Shut down providers of ours; flush providers of the application and leave them.

        Takes `timeout` seconds and a little: what could not be sent by then is counted as `shutdown`."""
        self.flush(timeout)
        if self.undo is not None:
            self.undo()
        for exporter in (self.span_exporter, self.event_exporter):
            if exporter is not None:
                _within(_STOP_SECONDS, exporter.stop)
        if self.own:
            _closed.add(self.tracer_provider)
            _within(_STOP_SECONDS, self.tracer_provider.shutdown)
        if self.event_exporter is not None:
            _within(_STOP_SECONDS, self.logger_provider.shutdown)
        for processor in (*self.processors, self.event_processor):
            if processor is not None:
                processor.abandon()

    @property
    def undelivered(self) -> int:
        """Spans and events that exporters of ours could not export so far, or that a full queue dropped. What the
        processors of an application's own provider do is not known here."""
        stats = self.stats()
        exporters = (stats.spans, stats.events, stats.file_spans)
        late = self.late.undelivered if self.late is not None else 0
        failed = late + sum(sum(each.failed.values()) for each in exporters if each is not None)
        return failed + stats.spans_dropped + stats.events_dropped + stats.file_spans_dropped

    def stats(self) -> TelemetryStats:
        """Counters of export and hold."""
        return TelemetryStats(
            self.span_exporter.stats() if self.span_exporter else None,
            self.event_exporter.stats() if self.event_exporter else None,
            self.processors[0].dropped if self.processors else 0,
            self.event_processor.dropped if self.event_processor else 0, self.hold.stats() if self.hold else None,
            self.file_exporter.stats() if self.file_exporter else None,
            sum(processor.dropped for processor in self.processors[1:]),
        )  # fmt: skip


def _within(seconds: float, work: Callable[[], Any]) -> bool:
    """Whether `work` was done (and not False) in `seconds`: the SDK heeds no deadline where an endpoint is silent."""
    result: list[Any] = []
    thread = threading.Thread(target=lambda: result.append(work()), name="ragtrace-close", daemon=True)
    try:
        thread.start()
    except RuntimeError:  # the interpreter is ending and starts no more threads
        return work() is not False
    thread.join(seconds)
    return bool(result) and result[0] is not False


def set_up(
    *,
    app: str = "",
    env: str = "",
    endpoint: str = "",
    spans_file: str | None = None,
    hold: HoldLimits | None = None,
    form: ScoreFormat | None = None,
    redact_others: Sanitizer | TextFilter | None = None,
    publisher: Callable[[], SpanExporter] | None = None,
) -> Telemetry:
    """Create providers that export to an OTLP endpoint, to a file, to both, or nowhere.

    What is left out is read from OpenTelemetry's environment variables; a wrong value there is logged. The providers
    become the global ones where the application has none. `redact_others` redacts the spans of other libraries.
    `publisher` makes the exporter that publishes sampled requests to a broker as well. Raises MissingExtraError without
    the exporter's package and SettingError for a file that cannot be written."""
    resource = environment.make_resource(app, env)
    tracer_provider = TracerProvider(
        resource=resource, shutdown_on_exit=False, sampler=environment.make_sampler(),
        id_generator=environment.make_id_generator(),
        span_limits=SpanLimits(max_attribute_length=SpanLimits.UNSET, max_span_attribute_length=SpanLimits.UNSET),
    )  # fmt: skip
    late = EvaluationSpanSink(tracer_provider, form, _GATHERING)
    telemetry = Telemetry(tracer_provider, NoOpLoggerProvider(), (), own=True, late=late, others=redact_others)
    quiet(NOISY)
    onward = _export_spans(telemetry, endpoint, spans_file, publisher)
    if onward is not None:
        telemetry.hold = telemetry.hold_around(onward, hold, form)
        tracer_provider.add_span_processor(telemetry.hold)
        telemetry.sinks += (telemetry.hold,)
    _export_events(telemetry, endpoint, resource, form)
    if not hasattr(otel.get_tracer_provider(), "add_span_processor"):
        otel.set_tracer_provider(tracer_provider)
    return telemetry


def _export_spans(
    telemetry: Telemetry, endpoint: str, spans_file: str | None, publisher: Callable[[], SpanExporter] | None
) -> SpanProcessor | None:
    """What sends spans to the endpoint, the broker, the file, or several of them; None without any."""
    exporters = environment.make_exporters("traces", endpoint)
    if publisher is not None:
        exporters.append(publisher())
    file = JsonLinesSpanExporter(spans_file) if spans_file else None
    if file is not None and not exporters:
        exporters, file = [file], None
    if not exporters:
        return None
    limits = SpanLimits()
    is_limited = limits.max_span_attribute_length is not None or limits.max_attribute_length is not None
    cut = partial(cut_copy, limits=limits) if is_limited else None
    telemetry.span_exporter = CountingExporter(environment.as_one(exporters), "spans", SpanExportResult.FAILURE)
    telemetry.span_exporter.prepare = cut
    telemetry.processors = (PacedSpanProcessor(telemetry.span_exporter),)
    if file is None:
        return telemetry.processors[0]
    telemetry.file_exporter = CountingExporter(file, f"spans for {spans_file}", SpanExportResult.FAILURE)
    telemetry.file_exporter.prepare = cut
    telemetry.processors += (PacedSpanProcessor(telemetry.file_exporter),)
    return ProcessorGroup(telemetry.processors)


def _export_events(telemetry: Telemetry, endpoint: str, resource: Resource, form: ScoreFormat | None) -> None:
    """Send events to the endpoint, or without one to those that the environment names."""
    exporters = [] if environment.is_off("logs") else environment.make_exporters("logs", endpoint)
    if not exporters:
        return
    failure = LogRecordExportResult.FAILURE
    exporter: CountingExporter[Any] = CountingExporter(environment.as_one(exporters), "events", failure, optional=True)
    telemetry.event_exporter = exporter
    telemetry.event_processor = PacedLogRecordProcessor(exporter)
    telemetry.logger_provider = LoggerProvider(resource=resource, shutdown_on_exit=False)
    telemetry.logger_provider.add_log_record_processor(telemetry.event_processor)
    telemetry.sinks += (EventSink(telemetry.logger_provider, form, lambda: not exporter.is_unsupported),)


def attach(
    tracer_provider: Any,
    *,
    hold: HoldLimits | None = None,
    form: ScoreFormat | None = None,
    logger_provider: Any = None,
    redact_others: Sanitizer | TextFilter | None = None,
    app: str = "",
) -> Telemetry:
    """Join a provider that the application has set up: its own exporters get the held spans and the events.

    Where the hold cannot be put around its processors, scores go out as evaluation spans and events alone. With
    OTEL_LOGS_EXPORTER=none there are no events. `app` names the service of a provider that the SDK calls
    `unknown_service`. `redact_others` redacts the spans of other libraries; raises SettingError where the provider's
    processors cannot be wrapped for it."""
    if app:
        _name_service(tracer_provider, app)
    late = EvaluationSpanSink(tracer_provider, form, _GATHERING)
    telemetry = Telemetry(tracer_provider, NoOpLoggerProvider(), (), late=late, others=redact_others)
    telemetry.hold, telemetry.undo = install_hold(
        tracer_provider, lambda inner: telemetry.hold_around(inner, hold, form)
    )
    if telemetry.hold is None and redact_others is not None:
        raise SettingError(
            "redact_others cannot be kept: the tracer provider has no span processor yet, or one of another kind than "
            "OpenTelemetry's SDK has; add the exporters to the provider first, then call ragtrace.init"
        )
    telemetry.sinks = (telemetry.hold or late,)
    if not environment.is_off("logs"):
        _join_events(telemetry, logger_provider or _logs.get_logger_provider(), form)
    return telemetry


def _join_events(telemetry: Telemetry, logger_provider: Any, form: ScoreFormat | None) -> None:
    """Send events to the application's logger provider. Where it has none and the environment asks for logs, to one of
    ragtrace's own."""
    resource = getattr(telemetry.tracer_provider, "resource", None)
    if not hasattr(logger_provider, "add_log_record_processor") and environment.asks_for_logs() and resource:
        quiet(NOISY)
        _export_events(telemetry, "", resource, form)
    if telemetry.event_exporter is None:
        telemetry.logger_provider = logger_provider
        telemetry.sinks += (EventSink(logger_provider, form),)


def _name_service(tracer_provider: Any, app: str) -> None:
    """Name the service in a resource that has no name, for the tracers that are made from now on."""
    resource = getattr(tracer_provider, "resource", None)
    is_unnamed = not environment.names_of(resource)[0]
    if isinstance(resource, Resource) and is_unnamed and hasattr(tracer_provider, "_resource"):
        tracer_provider._resource = resource.merge(Resource({environment.SERVICE: app}))  # there is no public way


def install_hold(
    tracer_provider: Any, make: Callable[[SpanProcessor], HoldProcessor]
) -> tuple[HoldProcessor | None, Callable[[], None] | None]:
    """Put a hold around all processors of an SDK provider, in place; the hold and how to take it out again.

    The SDK has no way to wrap a processor that is registered already, so this reaches into it, and does nothing where
    it looks different from what is known: (None, None)."""
    multi = getattr(tracer_provider, "_active_span_processor", None)
    processors = getattr(multi, "_span_processors", None)
    if multi is None or not isinstance(processors, tuple) or not processors:
        _log.info("ragtrace: the provider's processors cannot be wrapped; late scores go out as spans and events")
        return None, None
    holding = make(ProcessorGroup(processors))
    multi._span_processors = (holding,)

    def undo() -> None:
        present = multi._span_processors
        if present and present[0] is holding:
            multi._span_processors = (*processors, *present[1:])
            holding.force_flush()

    return holding, undo
