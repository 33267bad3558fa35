"""Traces every LangChain call; the application needs no change."""

from __future__ import annotations

import logging
import sys
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from opentelemetry.instrumentation.instrumentor import BaseInstrumentor  # type: ignore[attr-defined]

from ragtrace.tracing.adapters import OPTIONS, is_traced_by_another

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
"""LangChain cannot remove a hook: it is registered once, and switched on and off."""


class _Switch:
    """Takes the place of a ContextVar, of which LangChain calls only `get`: holds the handler while instrumented."""

    handler: RagtraceCallbackHandler | None = None

    def get(self) -> RagtraceCallbackHandler | None:
        """Returns the handler, the same one in every thread and task. LangChain calls this before every run."""
        return self.handler


_switch = _Switch()


class RagtraceLangChainInstrumentor(BaseInstrumentor):  # type: ignore[misc]
    """Registers one handler with LangChain for all calls of the process.

    `instrument(tracer_provider=None, capture_content=None, capture=None, logger_provider=None)`: all optional;
    `capture_content` as for RagtraceCallbackHandler.
    """

    def instrumentation_dependencies(self) -> Collection[str]:
        """Returns the framework's core distribution; applications that use only langchain-core are traced too."""
        return ("langchain-core >= 0.3, < 2",)

    def _instrument(self, **kwargs: Any) -> None:
        # An exception here would abort every other instrumentation of the process.
        try:
            if is_traced_by_another("LangChain", _OTHERS):
                return
            if _FRAMEWORK in sys.modules:
                _register(kwargs)
            else:
                import wrapt

                # The import of LangChain takes half a second, which an application that never uses it must not pay.
                wrapt.when_imported(_FRAMEWORK)(lambda _module: _register(kwargs))
        except Exception:  # noqa: BLE001 see above
            _log.warning("ragtrace could not instrument LangChain; its calls are not traced", exc_info=True)

    def _uninstrument(self, **_kwargs: Any) -> None:
        _switch.handler = None


def _register(options: dict[str, Any]) -> None:
    global _registered  # noqa: PLW0603 one registration per process
    from langchain_core.tracers.context import register_configure_hook

    from ragtrace_langchain.handler import RagtraceCallbackHandler

    _switch.handler = RagtraceCallbackHandler(**{k: v for k, v in options.items() if k in OPTIONS})
    if not _registered:
        register_configure_hook(_switch, True, RagtraceCallbackHandler)  # type: ignore[arg-type]
        _registered = True
