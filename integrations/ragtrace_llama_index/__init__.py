"""Traces LlamaIndex applications: an instrumentor that adds handlers to LlamaIndex's own dispatcher."""

from ragtrace_llama_index.instrumentor import RagtraceLlamaIndexInstrumentor

__all__ = ["RagtraceLlamaIndexInstrumentor"]
