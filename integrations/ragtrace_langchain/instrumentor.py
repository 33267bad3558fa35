"""Traces every LangChain call without a change in the application."""

from __future__ import annotations

import logging
import sys
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from opentelemetry.instrumentation.instrumentor import BaseInstrumentor  # type: ignore[attr-defined]

from ragtrace.tracing.adapters import instrumented_by

if TYPE_CHECKING:
    from ragtrace_langchain.handler import RagtraceCallbackHandler

_log = logging.getLogger(__name__)
_FRAMEWORK = "langchain_core.callbacks.manager"
_OTHERS = (
    ("openinference.instrumentation.langchain", "LangChainInstrumentor"),
    ("opentelemetry.instrumentation.langchain", "LangchainInstrumentor"),
    ("opentelemetry.instrumentation.genai.langchain", "LangChainInstrumentor"),
)
_registered = False
"""LangChain knows no way to unregister: the hook is registered once and switched on and off."""


class _Switch:
    """Stands where LangChain expects a ContextVar, of which it uses `get` alone: the handler while instrumented."""

    handler: RagtraceCallbackHandler | None = None

    def get(self) -> RagtraceCallbackHandler | None:
        """As ContextVar.get: LangChain asks before every run. The same answer in every thread and task."""
        return self.handler


_switch = _Switch()


class RagtraceLangChainInstrumentor(BaseInstrumentor):  # type: ignore[misc]
    """Registers one handler with LangChain for all calls of the process.

    `instrument(tracer_provider=None, capture_content=None, capture=None, logger_provider=None)`: all optional;
    `capture_content` as for RagtraceCallbackHandler.
    """

    def instrumentation_dependencies(self) -> Collection[str]:
        """The framework's own distribution: applications on langchain-core alone are traced, too."""
        return ("langchain-core >= 0.3, < 2",)

    def _instrument(self, **kwargs: Any) -> None:
        # An exception here would abort every other instrumentation of the process.
        try:
            other = instrumented_by(_OTHERS)
            if other:
                _log.warning(
                    "ragtrace: %s traces LangChain already; ragtrace stays out so that nothing is recorded twice. "
                    "Disable it (OTEL_PYTHON_DISABLED_INSTRUMENTATIONS) to let ragtrace trace.",
                    other,
                )
                return
            if _FRAMEWORK in sys.modules:
                _register(kwargs)
            else:
                import wrapt

                # LangChain takes half a second to import; an application that never does shall not pay for it.
                wrapt.when_imported(_FRAMEWORK)(lambda _module: _register(kwargs))
        except Exception:  # noqa: BLE001 see above
            _log.warning("ragtrace: LangChain could not be instrumented", exc_info=True)

    def _uninstrument(self, **_kwargs: Any) -> None:
        _switch.handler = None


def _register(options: dict[str, Any]) -> None:
    global _registered  # noqa: PLW0603 one registration per process
    from langchain_core.tracers.context import register_configure_hook

    from ragtrace_langchain.handler import RagtraceCallbackHandler

    known = ("tracer_provider", "capture_content", "capture", "logger_provider", "consumer")
    _switch.handler = RagtraceCallbackHandler(**{k: v for k, v in options.items() if k in known})
    if not _registered:
        register_configure_hook(_switch, True, RagtraceCallbackHandler)  # type: ignore[arg-type]
        _registered = True
