"""Traces LangChain applications: a callback handler, and an instrumentor that passes it to every call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ragtrace_langchain.instrumentor import RagtraceLangChainInstrumentor

if TYPE_CHECKING:
    from ragtrace_langchain.handler import RagtraceCallbackHandler

__all__ = ["RagtraceCallbackHandler", "RagtraceLangChainInstrumentor"]


def __getattr__(name: str) -> Any:
    # The handler's base class is LangChain's: importing it here would load LangChain in every application that is
    # auto-instrumented.
    if name == "RagtraceCallbackHandler":
        try:
            from ragtrace_langchain.handler import RagtraceCallbackHandler
        except ModuleNotFoundError as error:
            if (error.name or "").split(".")[0] != "langchain_core":
                raise
            from ragtrace.errors import MissingExtraError

            raise MissingExtraError("langchain-core", "langchain", "Tracing LangChain") from error
        return RagtraceCallbackHandler
    raise AttributeError(name)
