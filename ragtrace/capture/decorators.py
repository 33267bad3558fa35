"""`@ragtrace.retriever`, `@ragtrace.generation` and `@ragtrace.tool`: spans of the application's own functions.

A function is plain, asynchronous, a generator, an asynchronous generator, or returns a stream; what it returns and
raises passes through. Its span is the current one while its own code works, and not while its consumer's does.
"""

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar, overload

from ragtrace import semconv
from ragtrace.capture.function_calls import DecoratedFunction, begin, begin_stream
from ragtrace.capture.wrappers import wrapped
from ragtrace.text.sanitizer import sendable

_F = TypeVar("_F", bound=Callable[..., Any])


@overload
def retriever(function: _F, /) -> _F: ...
@overload
def retriever(*, name: str | None = None) -> Callable[[_F], _F]: ...
def retriever(function: Any = None, /, *, name: str | None = None) -> Any:
    """Make a function that searches a retrieval span: its query is the parameter of that name or the first one, its
    documents are what it returns or yields, in any form that `request.retrieved` takes."""
    return _decorate(function, semconv.OP_RETRIEVAL, name, None)


@overload
def generation(function: _F, /) -> _F: ...
@overload
def generation(*, name: str | None = None, model: str | None = None) -> Callable[[_F], _F]: ...
def generation(function: Any = None, /, *, name: str | None = None, model: str | None = None) -> Any:
    """Make a function that asks a model a model span: its messages are the parameter `messages` or `prompt` or the
    first one, its answer is the text, the client's reply or the stream that it returns, or what it yields. Tokens,
    model and finish reason are read from a client's reply. `model` names the model, as does a parameter `model`."""
    return _decorate(function, semconv.OP_CHAT, name, model)


@overload
def tool(function: _F, /) -> _F: ...
@overload
def tool(*, name: str | None = None) -> Callable[[_F], _F]: ...
def tool(function: Any = None, /, *, name: str | None = None) -> Any:
    """Make a function a tool span with its arguments and its result."""
    return _decorate(function, semconv.OP_TOOL, name, None)


def _decorate(function: Any, operation: str, name: str | None, model: str | None) -> Any:
    if function is None:
        return lambda bare: _decorate(bare, operation, name, model)
    title = name or getattr(function, "__name__", None) or type(function).__name__
    try:
        signature = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        signature = []
    parameters = tuple(p.name for p in signature if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD))
    if model is None:
        model = next((p.default for p in signature if p.name == "model" and isinstance(p.default, str)), None)
    skip = 1 if parameters[:1] in (("self",), ("cls",)) else 0
    decorated = DecoratedFunction(operation, sendable(title, 200), model, parameters, skip)
    is_stream = inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function)
    return wrapped(function, functools.partial(begin_stream if is_stream else begin, decorated))
