"""`@ragtrace.retriever`, `@ragtrace.generation` and `@ragtrace.tool`: spans of the application's own functions.

A function is plain, asynchronous, a generator, an asynchronous generator, or returns a stream; what it returns and
raises passes through. Its span is the current one while its own code works, and not while its consumer's does.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import AsyncGenerator, Callable, Generator
from typing import Any, TypeVar, overload

from ragtrace import semconv
from ragtrace.capture.adapters import hidden_step
from ragtrace.capture.function_calls import DecoratedFunction, begin
from ragtrace.capture.reaper import reaper
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
    if inspect.isasyncgenfunction(function):
        return _async_generator(function, decorated)
    if inspect.isgeneratorfunction(function):
        return _generator(function, decorated)
    return _coroutine(function, decorated) if inspect.iscoroutinefunction(function) else _plain(function, decorated)


# --- the four kinds of functions -------------------------------------------------------------------------


def _plain(function: Callable[..., Any], decorated: DecoratedFunction) -> Callable[..., Any]:
    @functools.wraps(function)
    def traced(*args: Any, **kwargs: Any) -> Any:
        call = begin(decorated, args, kwargs)
        return function(*args, **kwargs) if call is None else call.result_of(function, args, kwargs)

    return traced


def _coroutine(function: Callable[..., Any], decorated: DecoratedFunction) -> Callable[..., Any]:
    @functools.wraps(function)
    async def traced(*args: Any, **kwargs: Any) -> Any:
        call = begin(decorated, args, kwargs)
        if call is None:
            return await function(*args, **kwargs)
        return await call.awaited(function(*args, **kwargs))

    return traced


def _generator(function: Callable[..., Any], decorated: DecoratedFunction) -> Callable[..., Any]:
    @functools.wraps(function)
    def traced(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        call = begin(decorated, args, kwargs)
        inner = function(*args, **kwargs)
        if call is None:
            return (yield from inner)
        return (yield from call.relay(inner))

    return traced


def _async_generator(function: Callable[..., Any], decorated: DecoratedFunction) -> Callable[..., Any]:
    @functools.wraps(function)
    async def traced(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
        call = begin(decorated, args, kwargs)
        inner = function(*args, **kwargs)
        if call is not None:
            reaper.start()
        step, value = functools.partial(hidden_step, inner.asend), None
        while True:
            try:
                chunk = await (step(value) if call is None else call.astep(step, value))
            except StopAsyncIteration:
                return
            try:
                step, value = inner.asend, (yield chunk)
            except GeneratorExit:
                try:
                    await inner.aclose()
                finally:
                    if call is not None:
                        call.drop()
                raise
            except BaseException as error:  # noqa: BLE001 the function decides how it is handled
                step, value = inner.athrow, error

    return traced
