"""Makes the span of a run the current one while LangChain runs the code of a chain, tool, retriever or model.

A callback cannot do that: an asynchronous one ends in another task than it started, and a stream leaves between two
chunks. So the functions in which LangChain itself enters a run are wrapped:

- `_set_config_context` prepares the copied context in which a step, a tool or a node of a graph runs. Nothing has to be
  undone: the copy is dropped.
- `_generate_with_cache`, `_generate_helper` and their asynchronous forms call a model whose run has started.
- The retriever's `invoke` and the models' `stream` start the run themselves. The wrapper says in the
  context that it expects one, the callback attaches the span, and the wrapper restores the context after each step."""

import contextlib
import functools
import logging
from collections.abc import Callable
from typing import Any

from opentelemetry import context as otel_context
from opentelemetry.context import Context

from ragtrace.capture import current
from ragtrace.capture.wrappers import Watch, wrapped
from ragtrace_langchain.conversion import key_of
from ragtrace_langchain.switch import switch

_log = logging.getLogger(__name__)
_Function = Callable[..., Any]
_Hook = Callable[[Any], bool]
"""Wraps what a module defines; False where it does not define it."""
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
_STREAMS = ("stream", "astream")


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
            begin = _attach_run if name.startswith("_") else _Steps if name in _STREAMS else _expect_start
            setattr(owner, name, wrapped(original, begin))
    return True


# --- a run that has started: its manager is an argument ------------------------------------------------


class _Attached(Watch):
    """A call of a function, inside of which a run is attached."""

    def __init__(self, token: current.Attachment) -> None:
        self._token = token

    def __exit__(self, *_exception: object) -> None:
        current.detach(self._token)


def _attach_run(args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Attached | None:
    if (handler := switch.handler) is None:
        return None
    try:
        manager = kwargs.get("run_manager") or kwargs.get("run_managers") or (args[3] if len(args) > 3 else None)
        if isinstance(manager, list):  # several prompts in one call of a text-completion model
            manager = manager[0] if manager else None
        run_id = getattr(manager, "run_id", None)
        token = None if run_id is None else current.attach(handler.recorder.get(key_of(run_id)))
        return None if token is None else _Attached(token)
    except Exception:  # noqa: BLE001 nothing of ours may reach the application
        handler.recorder.failed("attach")
        return None


# --- a run that the function itself starts -------------------------------------------------------------


def _expect_start(_args: tuple[Any, ...], _kwargs: dict[str, Any]) -> _Attached | None:
    return _Attached(current.expect_start()) if switch.handler is not None else None


class _Steps(Watch):
    """The context of a stream: the marked one until its run has started, and then the run's, during each step."""

    def __init__(self, _args: tuple[Any, ...], _kwargs: dict[str, Any]) -> None:
        self._context: Context | None = None
        self._token: current.Attachment | None = None

    def __enter__(self) -> None:
        if self._context is not None:
            self._token = otel_context.attach(self._context)
        elif switch.handler is not None:
            self._token = current.expect_start()

    def __exit__(self, *_exception: object) -> None:
        token, self._token = self._token, None
        if token is not None:
            self._context = current.current_context()
            current.detach(token)
