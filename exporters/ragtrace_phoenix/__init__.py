"""Scores as annotations of spans in Phoenix, and people's annotations back."""

from ragtrace_phoenix.span_annotations import PhoenixAnnotations

__all__ = ["PhoenixAnnotations"]
