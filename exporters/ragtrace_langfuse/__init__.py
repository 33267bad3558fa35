"""Scores of traces in Langfuse, and people's scores back."""

from ragtrace_langfuse.trace_scores import LangfuseScores

__all__ = ["LangfuseScores"]
