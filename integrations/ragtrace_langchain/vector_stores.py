"""Traces searches in a vector store that no retriever makes: LangChain has no callbacks for them.

The methods of every vector store are wrapped once. A wrapper that finds no handler calls the method and does nothing.
"""

from __future__ import annotations

import functools
import inspect
import logging
import sys
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any
from uuid import UUID, uuid4

import wrapt

from ragtrace.capture import current
from ragtrace.capture.request import Run
from ragtrace_langchain.switch import switch

_log = logging.getLogger(__name__)
_SEARCHES = (
    "similarity_search", "similarity_search_by_vector", "similarity_search_with_score",
    "similarity_search_with_relevance_scores", "max_marginal_relevance_search",
    "max_marginal_relevance_search_by_vector",
)  # fmt: skip
_METHODS = frozenset(f"{prefix}{name}" for prefix in ("", "a") for name in _SEARCHES)
_OTHER_USES = ("example_selectors", "cache")
"""Parts of modules that search for something else than documents: for examples of a prompt, for an earlier answer."""

current_retrieval: ContextVar[Run | None] = ContextVar("ragtrace_retrieval", default=None)
"""The retriever's run in this thread or task, which may have ended: LangChain reports the end in another context."""
_wrapped = False


def wrap_vector_stores() -> None:
    """Wraps the search methods of all vector stores, once, as soon as LangChain's base class of them is imported."""
    global _wrapped  # noqa: PLW0603 once per process
    if not _wrapped:
        _wrapped = True
        wrapt.when_imported("langchain_core.vectorstores.base")(lambda module: _wrap_classes(module.VectorStore))


def _wrap_classes(base: Any) -> None:
    def wrap_new_class(cls: Any, /, **options: Any) -> None:
        super(base, cls).__init_subclass__(**options)
        _wrap_methods(cls)

    base.__init_subclass__ = classmethod(wrap_new_class)
    classes = [base]
    while classes:
        cls = classes.pop()
        _wrap_methods(cls)
        classes += cls.__subclasses__()


def _wrap_methods(cls: type) -> None:
    """Wraps what a class defines itself. An application's class is defined in any case."""
    try:
        for name in _METHODS & cls.__dict__.keys():
            method = cls.__dict__[name]
            if inspect.isfunction(method) and not getattr(method, "__isabstractmethod__", False):
                setattr(cls, name, _traced_async(method) if inspect.iscoroutinefunction(method) else _traced(method))
    except Exception:  # noqa: BLE001 e.g. a metaclass that refuses
        _log.warning("ragtrace: searches of the vector store %s are not traced", cls.__name__, exc_info=True)


def _traced(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def search(self: Any, *args: Any, **kwargs: Any) -> Any:
        call = _begin(self, args, kwargs)
        if call is None:
            return method(self, *args, **kwargs)
        try:
            documents = method(self, *args, **kwargs)
        except BaseException as error:
            _end(call, error=error)
            raise
        _end(call, documents)
        return documents

    return search


def _traced_async(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    async def search(self: Any, *args: Any, **kwargs: Any) -> Any:
        call = _begin(self, args, kwargs)
        if call is None:
            return await method(self, *args, **kwargs)
        try:
            documents = await method(self, *args, **kwargs)
        except BaseException as error:
            _end(call, error=error)
            raise
        _end(call, documents)
        return documents

    return search


_Call = tuple[Any, UUID, Run | None, current.Attachment | None]
"""Handler, key of the retrieval, the retrieval around it, and what makes the retrieval's span the current one."""


def _begin(store: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Call | None:
    """Starts a retrieval; None where none is recorded: inside of a retriever, or without a handler. Never raises."""
    try:
        outer = current_retrieval.get()
        if outer is not None and outer.key in outer.request.open:
            return None
        handler, parent = _handler()
        if handler is None or any(part in sys._getframe(2).f_globals.get("__name__", "") for part in _OTHER_USES):
            return None
        query = args[0] if args else kwargs.get("query", "")
        name, key = type(store).__name__, uuid4()
        metadata = {"ls_vector_store_provider": name}
        query = query if isinstance(query, str) else ""
        handler.on_retriever_start(None, query, run_id=key, parent_run_id=parent, name=name, metadata=metadata)
        return handler, key, outer, current.attach(handler.recorder.get(key))
    except Exception:  # noqa: BLE001 nothing of ours may reach the application
        return None


def _handler() -> tuple[Any, UUID | None]:
    """Returns the handler of the chain, graph or tool that is running, and its run; else the instrumentor's."""
    from langchain_core.runnables.config import var_child_runnable_config

    manager = (var_child_runnable_config.get() or {}).get("callbacks")
    parent: UUID | None = getattr(manager, "parent_run_id", None)
    for handler in getattr(manager, "handlers", None) or ():
        if getattr(handler, "records_searches", False):
            return handler, parent
    return switch.get(), parent


def _end(call: _Call, documents: Any = None, error: BaseException | None = None) -> None:
    handler, key, outer, token = call
    current_retrieval.set(outer)
    current.detach(token)
    if error is None:
        handler.on_retriever_end(documents, run_id=key)
    else:
        handler.on_retriever_error(error, run_id=key)
