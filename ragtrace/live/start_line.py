"""The line that `init` logs: what runs, what leaves, and where to look."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ragtrace.evaluation import Evaluator

if TYPE_CHECKING:
    from ragtrace.live.runtime import Runtime

_log = logging.getLogger("ragtrace")
_ASKS = frozenset({"reference", "constraints"})


def log_start(runtime: Runtime, checks: Sequence[Evaluator], *, has_sinks: bool) -> None:
    """Log it; a warning where the scores would reach nobody."""
    settings, telemetry, capture = runtime.settings, runtime.telemetry, runtime.capture
    places = [settings.transport, settings.spans_file, settings.store, settings.report_file, runtime.metrics_url]
    places += [settings.phoenix_url, settings.mlflow_url, settings.langfuse_url, settings.otlp_endpoint]
    if not getattr(telemetry, "own", True):
        places.append("the application's TracerProvider")
    elif getattr(telemetry, "span_exporter", None) is not None and not (
        settings.spans_file or settings.transport or settings.otlp_endpoint
    ):
        places.append("the endpoint in the environment")
    targets = [without_secrets(place) for place in places if place]
    if not targets and not has_sinks:
        _log.warning("ragtrace: scores reach nobody; set otlp_endpoint, spans_file, store or prometheus_port")
        return
    has_texts = capture is not None and (capture.spans or capture.events)
    redacted = ", redacted" if has_texts and settings.redact not in ("", "off") else ""
    has_models = any(check.method == "model" for check in checks)
    asking = [check.name for check in checks if check.needs & _ASKS]
    _log.info(
        "ragtrace: %s (%s): evaluators: %d; %s; texts %s%s%s%s", settings.app, settings.env, len(checks),
        ", ".join(targets) or "to sinks", "leave" if has_texts else "stay", redacted,
        "; the first scores come when the models are loaded, after some 20 s" if has_models else "",
        f"; these need a request's reference or constraints: {', '.join(asking)}" if asking else "",
    )  # fmt: skip


def without_secrets(place: str) -> str:
    """A file as it is, and an address, also one without a scheme (`//HOST`), without user, password and parameters."""
    scheme, mark, rest = place.partition("//")
    return f"{scheme}{mark}{rest.rpartition('@')[2].partition('?')[0]}" if mark else place
