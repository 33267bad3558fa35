"""Traces every LlamaIndex call without a change in the application."""

from __future__ import annotations

import logging
import sys
from collections.abc import Collection
from typing import Any

from opentelemetry.instrumentation.instrumentor import BaseInstrumentor  # type: ignore[attr-defined]

from ragtrace.adapting import instrumented_by

_log = logging.getLogger(__name__)
_FRAMEWORK = "llama_index_instrumentation"
_OTHERS = (
    ("openinference.instrumentation.llama_index", "LlamaIndexInstrumentor"),
    ("opentelemetry.instrumentation.llamaindex", "LlamaIndexInstrumentor"),
    ("opentelemetry.instrumentation.genai.llama_index", "LlamaIndexInstrumentor"),
)


class RagtraceLlamaIndexInstrumentor(BaseInstrumentor):  # type: ignore[misc]
    """Adds a span handler and an event handler to LlamaIndex's root dispatcher.

    `instrument(tracer_provider=None, capture_content=None, capture=None, logger_provider=None)`: all optional;
    `capture_content` is True, False, a mode such as `SPAN_AND_EVENT`, or None for what
    OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT says.
    """

    _handlers: tuple[Any, Any] | None = None
    _wanted: dict[str, Any] | None = None

    def instrumentation_dependencies(self) -> Collection[str]:
        """The framework's core."""
        return ("llama-index-core >= 0.12, < 0.15",)

    def _instrument(self, **kwargs: Any) -> None:
        # An exception here would abort every other instrumentation of the process.
        try:
            other = instrumented_by(_OTHERS)
            if other:
                _log.warning(
                    "ragtrace: %s traces LlamaIndex already; ragtrace stays out so that nothing is recorded twice. "
                    "Disable it (OTEL_PYTHON_DISABLED_INSTRUMENTATIONS) to let ragtrace trace.",
                    other,
                )
                return
            self._wanted = kwargs
            if _FRAMEWORK in sys.modules:
                self._register()
            else:
                import wrapt

                wrapt.when_imported(_FRAMEWORK)(lambda _module: self._register())
        except Exception:  # noqa: BLE001 see above
            _log.warning("ragtrace: LlamaIndex could not be instrumented", exc_info=True)

    def _register(self) -> None:
        if self._wanted is None or self._handlers is not None:
            return  # uninstrumented before the framework was imported
        from llama_index_instrumentation import get_dispatcher

        from ragtrace_llama_index.handler import make_handlers

        known = ("tracer_provider", "capture_content", "capture", "logger_provider", "consumer")
        self._handlers = make_handlers(**{k: v for k, v in self._wanted.items() if k in known})
        root = get_dispatcher()
        root.add_span_handler(self._handlers[0])
        root.add_event_handler(self._handlers[1])

    def _uninstrument(self, **_kwargs: Any) -> None:
        self._wanted = None
        if self._handlers is None:
            return
        from llama_index_instrumentation import get_dispatcher

        spans, events = self._handlers
        self._handlers = None
        root = get_dispatcher()
        root.span_handlers = [h for h in root.span_handlers if h is not spans]
        root.event_handlers = [h for h in root.event_handlers if h is not events]
