"""Makes the span of a run the current one while LangChain runs the code of a chain, tool, retriever or model.

A callback cannot do that: an asynchronous one ends in another task than it started, and a stream leaves between two
chunks. So the functions in which LangChain itself enters a run are wrapped:

- `_set_config_context` prepares the copied context in which a step, a tool or a node of a graph runs. Nothing has to be
  undone: the copy is dropped.
- `_generate_with_cache`, `_generate_helper` and their asynchronous forms call a model whose run has started.
- The retriever's `invoke` and the models' `stream` start the run themselves. The wrapper says in the
  context that it expects one, the callback attaches the span, and the wrapper restores the context after each step.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import logging
from collections.abc import AsyncGenerator, Callable, Generator
from typing import Any

from opentelemetry import context as otel_context
from opentelemetry.context import Context

from ragtrace.capture import current
from ragtrace.capture.adapters import hidden_step
from ragtrace_langchain.conversion import key_of
from ragtrace_langchain.switch import switch

_log = logging.getLogger(__name__)
_Function = Callable[..., Any]
_Hook = Callable[[Any], bool]
"""Wraps what a module defines; False where it does not define it."""
_Attach = Callable[[tuple[Any, ...], dict[str, Any]], current.Attachment | None]
"""Prepares the context for a call with these arguments; what it returns is detached after the call."""
# Before 0.3.30 the second has the function's name itself, as the next two have.
_CONFIG_MODULES = (
    "langchain_core.runnables.config", "langchain_core.runnables.base", "langchain_core.runnables.fallbacks",
    "langchain_core.tools.base", "langgraph._internal._runnable", "langgraph.utils.runnable",
)  # fmt: skip
_METHODS = (
    ("langchain_core.retrievers", "BaseRetriever", ("invoke", "ainvoke")),
    ("langchain_core.language_models.chat_models", "BaseChatModel",
     ("_generate_with_cache", "_agenerate_with_cache", "stream", "astream")),
    ("langchain_core.language_models.llms", "BaseLLM", ("_generate_helper", "_agenerate_helper", "stream", "astream")),
)  # fmt: skip


def wrap_runs() -> None:
    """Wrap the functions, once, now or when their modules are imported. A wrapper without a handler does nothing."""
    import wrapt

    hooks: list[tuple[str, _Hook]] = [(name, _wrap_config_context) for name in _CONFIG_MODULES]
    for name, class_name, methods in _METHODS:
        hooks.append((name, functools.partial(_wrap_methods, class_name=class_name, methods=methods)))
    for name, hook in hooks:
        wrapt.when_imported(name)(functools.partial(_try, hook))


def _try(hook: _Hook, module: Any) -> None:
    """Wrap what a module defines; before the first run where it is just being imported. Never raises."""
    try:
        if not hook(module):
            switch.at_first_run.append(functools.partial(_try_again, hook, module))
    except Exception:  # noqa: BLE001 see above
        _log.warning("ragtrace: spans of HTTP clients will not hang below those of %s", module.__name__, exc_info=True)


def _try_again(hook: _Hook, module: Any) -> None:
    with contextlib.suppress(Exception):
        hook(module)


def _wrap_config_context(module: Any) -> bool:
    original = getattr(module, "_set_config_context", None)
    if original is None or getattr(original, "_is_ragtrace", False):
        return original is not None

    @functools.wraps(original)
    def set_config_context(config: Any, *args: Any) -> Any:
        result = original(config, *args)
        handler = switch.handler
        if handler is not None:
            try:
                run_id = getattr(config.get("callbacks"), "parent_run_id", None)
                if run_id is not None:
                    current.attach(handler.recorder.near(key_of(run_id)))
            except Exception:  # noqa: BLE001 nothing of ours may reach the application
                handler.recorder.failed("set_config_context")
        return result

    set_config_context._is_ragtrace = True  # type: ignore[attr-defined]
    module._set_config_context = set_config_context
    return True


def _wrap_methods(module: Any, *, class_name: str, methods: tuple[str, ...]) -> bool:
    owner = getattr(module, class_name, None)
    if owner is None:
        return False
    for name in methods:
        original = vars(owner).get(name)
        if original is not None:
            setattr(owner, name, _wrapped(name, original))
    return True


def _wrapped(name: str, original: _Function) -> _Function:
    if inspect.isasyncgenfunction(original):
        return _entered_async_stream(original)
    if inspect.isgeneratorfunction(original):
        return _entered_stream(original)
    return _entered(original, _attach_run if name.startswith("_") else _expect_start)


# --- a run that has started: its manager is an argument ------------------------------------------------


def _attach_run(args: tuple[Any, ...], kwargs: dict[str, Any]) -> current.Attachment | None:
    if (handler := switch.handler) is None:
        return None
    try:
        manager = kwargs.get("run_manager") or kwargs.get("run_managers") or (args[2] if len(args) > 2 else None)
        if isinstance(manager, list):  # several prompts in one call of a text-completion model
            manager = manager[0] if manager else None
        run_id = getattr(manager, "run_id", None)
        return None if run_id is None else current.attach(handler.recorder.get(key_of(run_id)))
    except Exception:  # noqa: BLE001 nothing of ours may reach the application
        handler.recorder.failed("attach")
        return None


# --- a run that the function itself starts -------------------------------------------------------------


def _expect_start(*_arguments: object) -> current.Attachment | None:
    return current.expect_start() if switch.handler is not None else None


# --- the wrappers --------------------------------------------------------------------------------------


def _entered(original: _Function, attach: _Attach) -> _Function:
    if inspect.iscoroutinefunction(original):

        @functools.wraps(original)
        async def aentered(self: Any, *args: Any, **kwargs: Any) -> Any:
            token = attach(args, kwargs)
            try:
                return await original(self, *args, **kwargs)
            finally:
                current.detach(token)

        return aentered

    @functools.wraps(original)
    def entered(self: Any, *args: Any, **kwargs: Any) -> Any:
        token = attach(args, kwargs)
        try:
            return original(self, *args, **kwargs)
        finally:
            current.detach(token)

    return entered


class _Steps:
    """The context of a stream: the marked one until its run has started, and then the run's, during each step."""

    __slots__ = ("_context",)

    def __init__(self) -> None:
        self._context: Context | None = None

    def enter(self) -> current.Attachment | None:
        """Begin a step."""
        return _expect_start() if self._context is None else otel_context.attach(self._context)

    def leave(self, token: current.Attachment | None) -> None:
        """End a step."""
        if token is not None:
            self._context = current.current_context()
            current.detach(token)


def _entered_stream(original: _Function) -> _Function:
    @functools.wraps(original)
    def stream(self: Any, *args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        inner = original(self, *args, **kwargs)
        steps = _Steps()
        try:
            while True:
                token = steps.enter()
                try:
                    chunk = next(inner)
                except StopIteration as stop:
                    return stop.value
                finally:
                    steps.leave(token)
                yield chunk
        finally:
            inner.close()

    return stream


def _entered_async_stream(original: _Function) -> _Function:
    @functools.wraps(original)
    async def stream(self: Any, *args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
        inner = original(self, *args, **kwargs)
        steps, step = _Steps(), functools.partial(hidden_step, inner.__anext__)
        try:
            while True:
                token = steps.enter()
                try:
                    chunk = await step()
                except StopAsyncIteration:
                    return
                finally:
                    steps.leave(token)
                step = inner.__anext__
                yield chunk
        finally:
            await inner.aclose()

    return stream
