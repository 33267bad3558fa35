"""Traces LlamaIndex applications through the framework's own instrumentation dispatcher."""

from ragtrace_llama_index.instrumentor import RagtraceLlamaIndexInstrumentor

__all__ = ["RagtraceLlamaIndexInstrumentor"]
