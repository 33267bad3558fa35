"""Traces every LangChain call; the application needs no change."""

from collections.abc import Collection
from typing import Any

from opentelemetry.instrumentation.instrumentor import BaseInstrumentor  # type: ignore[attr-defined]

from ragtrace.capture.adapters import OPTIONS, instrument
from ragtrace_langchain.switch import OTHERS, switch

_FRAMEWORK = "langchain_core.callbacks.manager"
_registered = False
"""LangChain cannot remove a hook: it is registered once, and switched on and off."""


class RagtraceLangChainInstrumentor(BaseInstrumentor):  # type: ignore[misc]
    """Registers one handler with LangChain for all calls of the process.

    `instrument(tracer_provider=None, capture_content=None, capture=None, logger_provider=None)`: all optional;
    `capture_content` as for RagtraceCallbackHandler."""

    def instrumentation_dependencies(self) -> Collection[str]:
        """Returns the framework's core distribution; applications that use only langchain-core are traced too."""
        return ("langchain-core >= 0.3, < 2",)

    @property
    def is_tracing(self) -> bool:
        """Whether LangChain is loaded and no other library traces it."""
        return switch.get() is not None

    def _instrument(self, **kwargs: Any) -> None:
        instrument("LangChain", _FRAMEWORK, OTHERS, lambda: _register(kwargs))

    def _uninstrument(self, **_kwargs: Any) -> None:
        switch.handler = None


def _register(options: dict[str, Any]) -> None:
    global _registered  # noqa: PLW0603 one registration per process
    from langchain_core.tracers.context import register_configure_hook

    from ragtrace_langchain.current_span import wrap_runs
    from ragtrace_langchain.handler import RagtraceCallbackHandler

    switch.handler = RagtraceCallbackHandler(**{k: v for k, v in options.items() if k in OPTIONS})
    if not _registered:
        register_configure_hook(switch, True, RagtraceCallbackHandler)  # type: ignore[arg-type]
        wrap_runs()
        _registered = True
