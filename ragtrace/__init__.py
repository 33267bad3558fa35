"""ragtrace watches live RAG applications: spans, background evaluation, scores. Start with `ragtrace.init()`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ragtrace._version import __version__
from ragtrace.errors import MissingExtraError, RagtraceError, SettingError
from ragtrace.evaluation import Evaluator, evaluator
from ragtrace.records import Document, Evaluation, Evidence, Score, Trace

if TYPE_CHECKING:
    from ragtrace.config import Runtime, init

__all__ = [
    "Document",
    "Evaluation",
    "Evaluator",
    "Evidence",
    "MissingExtraError",
    "RagtraceError",
    "Runtime",
    "Score",
    "SettingError",
    "Trace",
    "__version__",
    "evaluator",
    "init",
]


def __getattr__(name: str) -> Any:
    # The configuration knows everything else; a program that only defines an evaluator need not load it.
    if name in ("init", "Runtime"):
        from ragtrace import config

        return getattr(config, name)
    raise AttributeError(f"module 'ragtrace' has no attribute {name!r}")
