"""Traces every LlamaIndex call; the application needs no change."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from opentelemetry.instrumentation.instrumentor import BaseInstrumentor  # type: ignore[attr-defined]

from ragtrace.capture.adapters import OPTIONS, instrument, instrumented_by

if TYPE_CHECKING:
    from ragtrace_llama_index.handler import Handlers

_FRAMEWORK = "llama_index_instrumentation"
"""Not `llama_index.core`: its import takes ten times as long, and it uses the same root dispatcher."""
_OTHERS = (
    ("openinference.instrumentation.llama_index", "LlamaIndexInstrumentor"),
    ("opentelemetry.instrumentation.llamaindex", "LlamaIndexInstrumentor"),
    ("opentelemetry.instrumentation.genai.llama_index", "LlamaIndexInstrumentor"),
)


class RagtraceLlamaIndexInstrumentor(BaseInstrumentor):  # type: ignore[misc]
    """Adds one span handler and one event handler to LlamaIndex's root dispatcher.

    `instrument(tracer_provider=None, capture_content=None, capture=None, logger_provider=None, consumer=None)`: all
    optional. `tracer_provider` defaults to OpenTelemetry's global one. `capture_content` puts queries, chunks and
    answers on spans: True, False, a mode such as `SPAN_AND_EVENT`, or None for what
    OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT says (no content when unset). `capture` sets more than that.
    Never raises: a failure is logged, and nothing is traced."""

    _options: dict[str, Any] | None = None
    """The options while instrumented, None otherwise. An import hook cannot be removed, so it looks here."""
    _handlers: Handlers | None = None

    def instrumentation_dependencies(self) -> Collection[str]:
        """Returns the framework's core distribution."""
        return ("llama-index-core >= 0.12.45, < 0.15",)

    @property
    def is_tracing(self) -> bool:
        """Whether LlamaIndex is loaded and no other library traces it."""
        return self._handlers is not None and instrumented_by(_OTHERS) is None

    def _instrument(self, **kwargs: Any) -> None:
        self._options = {k: v for k, v in kwargs.items() if k in OPTIONS}
        instrument("LlamaIndex", _FRAMEWORK, _OTHERS, self._register)

    def _register(self) -> None:
        if self._options is None or self._handlers is not None:
            return
        from ragtrace_llama_index.handler import Handlers

        self._handlers = Handlers(**self._options)

    def _uninstrument(self, **_kwargs: Any) -> None:
        self._options = None
        handlers, self._handlers = self._handlers, None
        if handlers is not None:
            handlers.unregister()
