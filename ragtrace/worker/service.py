"""A running worker: receivers, buffer, assembler, evaluation and what sends, and how they start and end."""

import logging
import os
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

from ragtrace.capture.content import ContentPolicy
from ragtrace.capture.spans.pieces import divide
from ragtrace.errors import MissingExtraError, SettingError
from ragtrace.live.init import start_evaluation
from ragtrace.live.pipeline import Sink
from ragtrace.settings import Settings
from ragtrace.settings.section import is_loopback
from ragtrace.settings.value_forms import check_address
from ragtrace.worker.assembler import Assembler
from ragtrace.worker.buffer import Buffer, DiskBuffer
from ragtrace.worker.forwarder import Forwarder, Onward
from ragtrace.worker.intake import Intake
from ragtrace.worker.message_buffer import MessageBuffer
from ragtrace.worker.message_source import MessageSource
from ragtrace.worker.open_traces import OpenTraces
from ragtrace.worker.outcomes import EndedTrace
from ragtrace.worker.score_outbox import ScoreOutbox
from ragtrace.worker.span_counts import SpanCounts, WorkerStats
from ragtrace.worker.stored_contents import StoredContents
from ragtrace.worker.worker_settings import GRPC, HTTP, Senders, WorkerSettings, load_senders, split_address
from ragtrace_brokers.address import is_transport, parse_address
from ragtrace_brokers.broker_adapters import open_publisher, open_transport
from ragtrace_brokers.message import HEADER_SCHEMA, SCHEMA, Publisher, TraceMessage, TransportOptions
from ragtrace_brokers.seal import keys_to_publish, keys_to_read
from ragtrace_otlp.batch import ExportStats
from ragtrace_otlp.destination import Destination, SendResult, make_destination
from ragtrace_otlp.environment import is_off
from ragtrace_otlp.provider import TelemetryStats
from ragtrace_otlp.scores import ScoreFormat


class WorkerTelemetry:
    """Brings evaluations to the assembler. It has no providers, and sends nothing itself."""

    hold = None
    source = None
    tracer_provider: Any = None
    logger_provider: Any = None
    undelivered = 0

    def __init__(self, sink: Sink, stats: Callable[[], WorkerStats], unready_reason: Callable[[], str], counts: bool):
        """`unready_reason` says why the worker takes no requests; an empty text if it does. `counts` is false where
        those who publish requests count them."""
        self.sinks, self.counts_requests = (sink,), counts
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


_log = logging.getLogger("ragtrace.worker")
_APP = "ragtrace-worker"


class Worker:
    """A worker from `start` to `stop`."""

    def __init__(self, options: WorkerSettings, settings: Settings) -> None:
        """Binds the addresses and opens the buffer. Raises SettingError and MissingExtraError for settings that cannot
        be used."""
        if not (options.grpc or options.http or options.source):
            options = replace(options, grpc=GRPC, http=HTTP)
        self.options = options
        self.ledger = SpanCounts()
        self._traces = OpenTraces(options)
        senders = load_senders(options)
        self._buffer = self._open_buffer()
        self._outbox = ScoreOutbox(self._buffer)
        self._intake = Intake(
            options, self._buffer, self._traces, self.ledger,
            lambda late: self._forwarder(EndedTrace(late, is_late=True)),
        )  # fmt: skip
        self._receivers: list[Any] = []
        self._source: MessageSource | None = None
        try:
            self.grpc_port, self.http_port = self._bind(senders)
            self._check_destination(settings)
            if is_transport(settings.otlp_endpoint):
                settings = replace(settings, transport=settings.otlp_endpoint, otlp_endpoint="")
            self.runtime = start_evaluation(settings, self._connect, self._outbox.connect)
            """The evaluation's runtime, with its counters."""
        except BaseException:  # whatever ends the start: the file's lock is for the next worker
            self._buffer.close()
            raise
        self._say_who_may_send(senders)

    def _open_buffer(self) -> Buffer:
        options = self.options
        if not options.source:
            return DiskBuffer(options.buffer) if options.buffer else Buffer()
        reading = TransportOptions(options.group, options.visibility_seconds)
        self._transport = open_transport(parse_address(options.source), reading)
        return MessageBuffer(self._transport, options.visibility_seconds)

    def _bind(self, senders: Senders) -> tuple[int | None, int | None]:
        grpc_port = http_port = None
        if self.options.grpc:
            try:
                from ragtrace.worker.grpc_receiver import GrpcReceiver
            except ModuleNotFoundError as error:
                raise MissingExtraError(error.name or "grpcio", "otlp", "The worker's gRPC receiver") from error
            receiver = GrpcReceiver(self.options, senders, self._intake)
            self._receivers.append(receiver)
            grpc_port = receiver.port
        if self.options.http:
            try:
                from ragtrace.worker.http_receiver import HttpReceiver
            except ModuleNotFoundError as error:
                raise MissingExtraError(error.name or "uvicorn", "serve", "The worker's HTTP receiver") from error
            http = HttpReceiver(self.options, senders, self._intake, self.unready_reason)
            self._receivers.append(http)
            http_port = http.port
        return grpc_port, http_port

    def _check_destination(self, settings: Settings) -> None:
        """Raises SettingError where the worker would send to itself, or from one broker to another."""
        if self.options.source and is_transport(settings.otlp_endpoint):
            raise SettingError("a worker with --from evaluates; give an OTLP endpoint as --to, not a broker")
        if is_transport(settings.otlp_endpoint) and not self.options.spans:
            raise SettingError(
                "--to is a broker, which gets the spans; set spans = false of [worker] for workers behind it"
            )
        for name in ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"):
            endpoint = settings.otlp_endpoint or os.environ.get(name, "")
            check_address(endpoint, name)
            if is_transport(endpoint):
                continue
            parts = urlsplit(endpoint if "://" in endpoint else f"//{endpoint}")
            for own in filter(None, (self.options.grpc, self.options.http)):
                host, port = split_address(own)
                same = parts.hostname == host or (is_loopback(host) and is_loopback(parts.hostname or ""))
                if port and parts.port == port and same:
                    raise SettingError(f"the worker would send to itself: {endpoint} is where it receives; set --to")

    def _connect(self, settings: Settings, capture: ContentPolicy) -> tuple[WorkerTelemetry, Settings]:
        """What brings the evaluations to the spans."""
        form = ScoreFormat(settings.openinference, settings.explanations, capture.sanitizer)
        if settings.redact_others and capture.sanitizer.redact is None:
            raise SettingError("redact_others is true, but redact is off; set redact to pii, for example")
        is_relay = bool(settings.transport)
        receives = make_destination("traces", settings.otlp_endpoint) if self.options.spans and not is_relay else None
        spans: Destination | None = _publisher(settings) if is_relay else receives
        onward = Onward(
            spans, None if is_relay or is_off("logs") else make_destination("logs", settings.otlp_endpoint),
            self._outbox, form,
            capture.sanitizer if settings.redact_others or (is_relay and capture.sanitizer.redact) else None,
            "no_endpoint" if self.options.spans else "spans_off",
        )  # fmt: skip
        if onward.spans is None and self.options.spans:
            _log.warning("ragtrace worker: no endpoint is set (--to), so spans are evaluated and sent nowhere")
        self._forwarder = Forwarder(onward, self._buffer, self.ledger, self._traces, self._settle_store)
        assembler = Assembler(
            self.options, self._traces, self.ledger, capture.sanitizer, self._forwarder, is_relay=is_relay
        )
        if isinstance(self._buffer, MessageBuffer):
            self._contents = StoredContents(settings)
            self._source = MessageSource(
                self._transport, self.options, self._buffer, self.ledger, take=assembler.take,
                is_idle=lambda: assembler.is_idle, keys=keys_to_read(settings), contents=self._contents,
            )  # fmt: skip
        self._assembler = assembler
        telemetry = WorkerTelemetry(assembler, self.stats, self.unready_reason, not self.options.source)
        return telemetry, replace(settings, app=settings.app or _APP, env=settings.env or "dev")

    def _settle_store(self) -> None:
        """Wait until what was evaluated is in the store. What it cannot take it keeps in a file of its own."""
        if self.runtime.store is not None:
            self.runtime.store.flush(30.0)

    def _say_who_may_send(self, senders: Senders) -> None:
        options = self.options
        if senders.tokens:
            who = f"those with a token ({', '.join(senders.tokens)})"
        elif options.tls_client_ca:
            who = "those with a certificate"
        else:
            who = "everybody who reaches it"
        for name, address, port in (("gRPC", options.grpc, self.grpc_port), ("HTTP", options.http, self.http_port)):
            if address:
                host = split_address(address)[0]
                _log.info("ragtrace worker: OTLP over %s at %s:%s; %s may send", name, host, port, who)
                if not is_loopback(host) and not senders.tokens and not options.tls_client_ca:
                    _log.warning("ragtrace worker: other machines can send to %s; set tokens in [worker]", address)
        if options.source:
            _log.info("ragtrace worker: fetches from %s, group %s", parse_address(options.source), options.group)
        elif not options.buffer:
            _log.info("ragtrace worker: spans are held in memory: without --buffer a crash loses what has not left")

    # --- from start to stop ----------------------------------------------------------------------

    def start(self) -> None:
        """Take what the buffer holds, and begin to answer."""
        outcomes = self._buffer.outcomes()
        self._intake.restore()
        for trace_id, outcome in outcomes.items():
            trace = self._traces.take_one(trace_id)
            if trace is not None:
                self._forwarder(EndedTrace(trace, outcome=outcome))
            else:  # it was sent, its scores were not
                self._outbox.deliver({trace_id: outcome.annotations})
        self._assembler.start(self.runtime.pipeline)
        self._intake.is_open = True
        if self._source is not None:
            self._source.start()
        for receiver in self._receivers:
            receiver.start()

    def unready_reason(self) -> str:
        """Why no requests are taken at present; an empty text if they are. An endpoint that is away is no reason while
        there is room: the spans wait."""
        if not self._intake.is_open:
            return "the worker starts or stops"
        if self.ledger.bytes >= self.options.bytes:
            return f"the worker holds {self.ledger.bytes} bytes of spans, and may hold {self.options.bytes}"
        return self._buffer.error()

    def stats(self) -> WorkerStats:
        """The worker's counts."""
        return self.ledger.stats(
            len(self._traces), self._buffer.counts if isinstance(self._buffer, MessageBuffer) else None
        )

    def stop(self, seconds: float | None = None) -> WorkerStats:
        """Take no further requests, finish for up to `seconds` (the setting `exit_seconds`) what is open, and end.

        What is not finished by then stays in the buffer; without one it is sent without scores, and what the endpoint
        does not take is counted as `shutdown`."""
        until = time.monotonic() + (self.options.exit_seconds if seconds is None else seconds)
        keep = self._buffer.is_durable
        self._intake.is_open = False
        if self._source is not None:
            self._source.stop(max(0.0, until - time.monotonic()))
            self._contents.close()
        for receiver in self._receivers:
            receiver.stop(min(2.0, max(0.0, until - time.monotonic())))
        self._assembler.finish(keep, max(0.0, until - time.monotonic()))
        if not keep:
            self._assembler.let_go()
        self._forwarder.close(max(1.0, until - time.monotonic()))
        self._outbox.close(max(1.0, until - time.monotonic()))
        self.runtime.close(0.5)
        self._buffer.close()
        stats = self.stats()
        _log.info(
            "ragtrace worker: %d spans received, %d sent, %d dropped, %d left in the buffer", stats.received,
            stats.sent, sum(stats.dropped.values()), stats.open,
        )  # fmt: skip
        return stats


def _publisher(settings: Settings) -> MessageDestination:
    if settings.transport_privacy == "claim_check":
        raise SettingError("transport_privacy is 'claim_check'; a worker publishes spans: give it inline or sealed")
    keys = keys_to_publish(settings)
    return MessageDestination(open_publisher(parse_address(settings.transport, "--to"), keys))
