"""Traces LangChain applications: a callback handler, and an instrumentor that passes it to every call."""

from typing import TYPE_CHECKING, Any

from ragtrace.errors import package
from ragtrace_langchain.instrumentor import RagtraceLangChainInstrumentor

if TYPE_CHECKING:
    from ragtrace_langchain.handler import RagtraceCallbackHandler

__all__ = ["RagtraceCallbackHandler", "RagtraceLangChainInstrumentor"]


def __getattr__(name: str) -> Any:
    # The handler's base class is LangChain's: importing it here would load LangChain in every application that is
    # auto-instrumented.
    if name == "RagtraceCallbackHandler":
        package("langchain_core", "langchain", "Tracing LangChain")
        from ragtrace_langchain.handler import RagtraceCallbackHandler

        return RagtraceCallbackHandler
    raise AttributeError(name)
