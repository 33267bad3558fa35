"""Traces searches in a vector store that no retriever makes: LangChain has no callbacks for them.

The methods of every vector store are wrapped once. A wrapper that finds no handler calls the method and does nothing.
"""

import inspect
import logging
import sys
from contextvars import ContextVar
from typing import Any
from uuid import UUID, uuid4

import wrapt

from ragtrace.capture import current
from ragtrace.capture.request import Run
from ragtrace.capture.wrappers import Watch, wrapped_call
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
                setattr(cls, name, wrapped_call(method, _begin))
    except Exception:  # noqa: BLE001 e.g. a metaclass that refuses
        _log.warning("ragtrace: searches of the vector store %s are not traced", cls.__name__, exc_info=True)


class _Search(Watch):
    """A search in progress."""

    def __init__(self, handler: Any, key: UUID, outer: Run | None) -> None:
        """`outer` is the retrieval around it."""
        self._handler, self._key, self._outer = handler, key, outer
        self._token = current.attach(handler.recorder.get(key))

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        current_retrieval.set(self._outer)
        current.detach(self._token)
        if error is None:
            self._handler.on_retriever_end(self.result, run_id=self._key)
        else:
            self._handler.on_retriever_error(error, run_id=self._key)


def _begin(args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Search | None:
    """Starts a retrieval; None where none is recorded: inside of a retriever, or without a handler. Never raises."""
    try:
        outer = current_retrieval.get()
        if outer is not None and outer.key in outer.request.open:
            return None
        handler, parent = _handler()
        if handler is None or any(part in sys._getframe(2).f_globals.get("__name__", "") for part in _OTHER_USES):
            return None
        query = args[1] if len(args) > 1 else kwargs.get("query", "")
        name, key = type(args[0]).__name__, uuid4()
        metadata = {"ls_vector_store_provider": name}
        query = query if isinstance(query, str) else ""
        handler.on_retriever_start(None, query, run_id=key, parent_run_id=parent, name=name, metadata=metadata)
        return _Search(handler, key, outer)
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
