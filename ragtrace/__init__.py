"""ragtrace watches live RAG applications: spans, background evaluation, scores. Start with `ragtrace.init()`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ragtrace._version import __version__
from ragtrace.errors import MissingExtraError, RagtraceError, SettingError
from ragtrace.evaluation import Evaluator, evaluator
from ragtrace.records import Document, Evaluation, Evidence, Score, Trace

if TYPE_CHECKING:
    from ragtrace.capture.function_calls import generation, retriever, tool
    from ragtrace.capture.manual import request
    from ragtrace.live.assessments import feedback, score
    from ragtrace.live.init import init
    from ragtrace.live.runtime import Runtime

__all__ = [
    "Document", "Evaluation", "Evaluator", "Evidence", "MissingExtraError", "RagtraceError", "Runtime", "Score",
    "SettingError", "Trace", "__version__", "evaluator", "feedback", "flush", "generation", "init", "request",
    "retriever", "score", "shutdown", "tool",
]  # fmt: skip


_LATE = {
    "Runtime": "ragtrace.live.init", "feedback": "ragtrace.live.assessments",
    "generation": "ragtrace.capture.function_calls", "init": "ragtrace.live.init", "request": "ragtrace.capture.manual",
    "retriever": "ragtrace.capture.function_calls", "score": "ragtrace.live.assessments",
    "tool": "ragtrace.capture.function_calls",
}  # fmt: skip


def flush(timeout: float = 10.0) -> bool:
    """Wait until the requests that have ended are evaluated, and their spans, events and stored rows have arrived.

    Waits in the calling thread, for up to `timeout` seconds. False if the time was too short, or if something since the
    last call did not arrive: an endpoint that does not take it, a full queue, an evaluator that did not end, a sink or
    a store that fails. True without `init`. Never raises.
    """
    return _with_runtime(lambda runtime: runtime.flush(timeout))


def shutdown(timeout: float | None = None) -> bool:
    """Stop what `init` started: no further request is recorded, waiting requests are evaluated for up to `timeout`
    seconds (None: the setting `exit_seconds`), and everything is sent.

    False if something since the last `flush` did not arrive. True without `init`; a second call waits for the first.
    The end of the process does the same by itself. `init` may be called again afterwards. Never raises.
    """
    return _with_runtime(lambda runtime: runtime.close(timeout))


def _with_runtime(action: Callable[[Runtime], bool]) -> bool:
    try:
        from ragtrace.live.runtime import current

        runtime = current()
        return runtime is None or action(runtime)
    except Exception:  # the end of an application must not fail because of what watches it; False and the log say so
        import logging

        logging.getLogger(__name__).warning("ragtrace: flush or shutdown failed", exc_info=True)
        return False


def __getattr__(name: str) -> Any:
    # The configuration knows everything else; a program that only defines an evaluator need not load it.
    if name in _LATE:
        import importlib

        return getattr(importlib.import_module(_LATE[name]), name)
    raise AttributeError(f"module 'ragtrace' has no attribute {name!r}")
