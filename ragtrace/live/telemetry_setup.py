"""Connects ragtrace to OpenTelemetry: to the application's provider, or to providers of ragtrace's own."""

from __future__ import annotations

import importlib.util
import logging
import os
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from ragtrace.capture.content import ContentPolicy
from ragtrace.errors import MissingExtraError, SettingError
from ragtrace.live import runtime as running
from ragtrace.settings import Settings
from ragtrace.text.sanitizer import Sanitizer

if TYPE_CHECKING:
    from opentelemetry.sdk.trace.export import SpanExporter
    from opentelemetry.trace import TracerProvider

    from ragtrace_otlp import SpanSource, Telemetry

_log = logging.getLogger(__name__)
_STORE_SECONDS = 10.0
DEFAULT_NAMES = ("rag", "dev")
"""Of an application and its environment that nobody has named."""


def connect(
    settings: Settings, capture: ContentPolicy, tracer_provider: TracerProvider | None
) -> tuple[Telemetry | None, Settings]:
    """The telemetry, and the settings with the application's name and environment that it has.

    `tracer_provider` comes first, then an endpoint or a file in the settings, then the application's global provider,
    then OpenTelemetry's environment variables. None where the SDK is not installed. Raises MissingExtraError for a
    setting that needs a package that is not installed."""
    telemetry = _telemetry(settings, capture, tracer_provider)
    app, env = (os.environ.get("OTEL_SERVICE_NAME", ""), "") if telemetry is None else telemetry.names
    app, env = settings.app or app or DEFAULT_NAMES[0], settings.env or env or DEFAULT_NAMES[1]
    return telemetry, replace(settings, app=app, env=env)


def _telemetry(settings: Settings, capture: ContentPolicy, tracer_provider: TracerProvider | None) -> Telemetry | None:
    has_destination = bool(settings.otlp_endpoint or settings.spans_file or settings.transport)
    if importlib.util.find_spec("opentelemetry.sdk") is None:
        if has_destination:
            raise MissingExtraError("opentelemetry-sdk", "otlp", "Exporting spans")
        _log.info("ragtrace: no OpenTelemetry SDK is installed, so no spans are exported; scores go to the sinks.")
        return None
    if settings.transport and tracer_provider is not None:
        raise SettingError(
            "transport and tracer_provider exclude one another: published spans are of ragtrace's provider"
        )
    from ragtrace_otlp import HoldLimits, ScoreFormat, attach, set_up
    from ragtrace_otlp.provider import current_provider
    from ragtrace_otlp.text_filter import text_filter_for

    options: dict[str, Any] = {
        "hold": HoldLimits(seconds=settings.hold_seconds),
        "form": ScoreFormat(settings.openinference, settings.explanations, capture.sanitizer),
    }
    existing = tracer_provider or (None if has_destination else current_provider())
    options["redact_others"] = text_filter_for(capture, settings.redact_others, is_ours=existing is None)
    if existing is not None:
        return attach(existing, app=settings.app, **options)
    return set_up(
        app=settings.app, env=settings.env, endpoint=settings.otlp_endpoint, spans_file=settings.spans_file or None,
        publisher=_publisher(settings), **options,
    )  # fmt: skip


def _publisher(settings: Settings) -> Callable[[], SpanExporter] | None:
    """What makes the exporter for the broker of the setting `transport`."""
    if not settings.transport:
        return None
    from ragtrace_brokers.address import parse_address
    from ragtrace_brokers.broker_adapters import open_publisher, require_client
    from ragtrace_brokers.seal import keys_to_publish
    from ragtrace_otlp.transport_exporter import TransportSpanExporter

    address = parse_address(settings.transport, "transport")
    require_client(address)
    is_claim = settings.transport_privacy == "claim_check"
    if is_claim and not settings.store:
        raise SettingError("transport_privacy is 'claim_check', which keeps texts in the store; set store, too")
    if not is_claim and settings.redact not in ("", "off"):
        _log.warning(
            "ragtrace: workers evaluate what is published, redacted as redact = %r says: pii_leakage and "
            "sensitive_data_leakage find nothing there; transport_privacy = 'claim_check' gives them the store's texts",
            settings.redact,
        )
    opener = partial(open_publisher, address, keys_to_publish(settings))
    return partial(TransportSpanExporter, opener, _settle_store if is_claim else None)


def _settle_store() -> None:
    """Wait until the store of what runs has what it was given."""
    if (runtime := running.current()) is not None and runtime.store is not None:
        runtime.store.flush(_STORE_SECONDS)


def span_source(settings: Settings, sanitizer: Sanitizer, telemetry: Telemetry | None) -> SpanSource | None:
    """What reads the spans of other libraries; None where the settings leave it out, and without an SDK.

    Raises MissingExtraError without an SDK for the setting `source = "spans"`."""
    if telemetry is None and settings.source == "spans":
        raise MissingExtraError("opentelemetry-sdk", "otlp", "The setting source")
    if telemetry is None or settings.source == "callbacks":
        return None
    from ragtrace.capture.spans import dialects
    from ragtrace_otlp import SpanSource

    def reads(scope: str) -> bool:
        # Langfuse's callback handler works beside ragtrace's. Where any other library traces LangChain or LlamaIndex,
        # ragtrace's adapter does not.
        return settings.source == "spans" or scope != dialects.LANGFUSE_SCOPE or not running.traces_itself()

    source = telemetry.source = SpanSource(reads=reads, sanitizer=sanitizer)
    source.attach(telemetry.tracer_provider, telemetry.hold)
    return source
