"""Functions that the adapters of all frameworks share."""

import asyncio
import hashlib
import logging
import math
import sys
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, TypeVar

from ragtrace.base.background import after_fork
from ragtrace.capture.on_off import is_on
from ragtrace.text.sanitizer import identity_of

T = TypeVar("T")
_log = logging.getLogger(__name__)
OPTIONS = ("tracer_provider", "capture_content", "capture", "logger_provider", "consumer")
"""The options of every instrumentor of ours."""
SESSION_KEYS = ("session_id", "thread_id", "conversation_id")
"""Names under which applications pass the conversation, the first one first."""


def session_and_user(fields: Mapping[str, Any]) -> tuple[str | None, str | None]:
    """Returns the ids of the conversation and of the user in an application's fields, None for one that is missing."""
    session = next((fields[key] for key in SESSION_KEYS if fields.get(key) is not None), None)
    user = fields.get("user_id")
    return None if session is None else identity_of(session), None if user is None else identity_of(user)


def labels_of(tags: Any) -> list[str]:
    """Returns an application's tags, or its only one, as texts; [] for what cannot be read."""
    try:
        return [identity_of(tag) for tag in ([tags] if isinstance(tags, str) else tags or ())]
    except Exception:  # noqa: BLE001 no list, or an application's object: the request is recorded without tags
        return []


def refusal_of(extra: Any) -> str:
    """Returns OpenAI's refusal to answer: frameworks pass it in the fields beside the content, which is empty then."""
    refusal = extra.get("refusal") if isinstance(extra, Mapping) else None
    return refusal if isinstance(refusal, str) else ""


def convert_each(items: Any, convert: Callable[[Any], T | None]) -> list[T]:
    """Converts documents or messages, in their order. One that cannot be read is left out; the others are kept."""
    converted: list[T] = []
    for item in items if isinstance(items, Iterable) else ():
        try:
            value = convert(item)
        except Exception:  # noqa: BLE001 a class of the application, e.g. metadata whose methods raise
            continue
        if value is not None:
            converted.append(value)
    return converted


def content_id(content: str) -> str:
    """Returns an id for a chunk without one. A backend drops the whole list if one document has no id."""
    return hashlib.sha1(content.encode("utf-8", "replace"), usedforsecurity=False).hexdigest()[:16]


def number(value: Any) -> float | None:
    """Returns a finite number, or None: retrievers return scores as Python's or numpy's numbers, or other objects."""
    if value is None or isinstance(value, (bool, str)) or not hasattr(value, "__float__"):
        return None
    result = float(value)
    return result if math.isfinite(result) else None


def is_cancellation(error: BaseException | None) -> bool:
    """Returns True when the consumer closed the stream, or the task or LlamaIndex's workflow was cancelled."""
    is_of_user = type(error).__name__ == "WorkflowCancelledByUser"
    return is_of_user or isinstance(error, (GeneratorExit, asyncio.CancelledError))


def hidden_step(step: Callable[..., Awaitable[Any]], *args: Any) -> Awaitable[Any]:
    """Takes the first step of an asynchronous generator that another generator wraps and closes.

    The event loop does not learn of it then. Otherwise the end of the loop closes both at the same time, and the second
    of the two calls raises RuntimeError: "asynchronous generator is already running"."""
    hooks = sys.get_asyncgen_hooks()
    sys.set_asyncgen_hooks(None, None)
    try:
        return step(*args)
    finally:
        sys.set_asyncgen_hooks(*hooks)


def instrumented_by(candidates: Iterable[tuple[str, str]]) -> str | None:
    """Returns the module of the first active instrumentor of `candidates` (module, class). Imports nothing."""
    for module, name in candidates:
        loaded = sys.modules.get(module)
        if loaded is None:  # nearly always, and this is asked before every run
            continue
        instance = getattr(getattr(loaded, name, None), "_instance", None)
        if getattr(instance, "_is_instrumented_by_opentelemetry", False):
            return module
    return None


def instrument(
    framework: str, module: str, candidates: Iterable[tuple[str, str]], register: Callable[[], None]
) -> None:
    """Calls `register` as soon as the framework's `module` is imported, at once if it already is.

    Does nothing where ragtrace is switched off. Does nothing, and logs a warning, when another instrumentor of
    `candidates` (module, class) traces the framework.
    Never raises: an exception here would abort every other instrumentation of the process. A failure is logged."""
    try:
        if not is_on():
            return
        other = instrumented_by(candidates)
        if other:
            warn_of_other(framework, other)
        elif module in sys.modules:
            register()
        else:
            import wrapt

            # The import of a framework takes half a second, which an application that never uses it must not pay.
            wrapt.when_imported(module)(lambda _module: register())
    except Exception:  # noqa: BLE001 see above
        _log.warning("ragtrace could not instrument %s; its calls are not traced", framework, exc_info=True)


def warn_of_other(framework: str, other: str) -> None:
    """Logs that ragtrace does not trace a framework because another library does."""
    _log.warning(
        "ragtrace does not trace %s, because %s already traces it and every call would be recorded twice. "
        "ragtrace.init evaluates the spans of the other one. "
        "To let ragtrace trace, disable the other one with OTEL_PYTHON_DISABLED_INSTRUMENTATIONS.", framework, other,
    )  # fmt: skip


class RecordingFailures:
    """The failures inside ragtrace while it records, of all recorders. The application never sees them."""

    count = 0

    def reset(self) -> None:
        """Starts again at 0."""
        self.count = 0


failures = RecordingFailures()
after_fork(failures.reset)
