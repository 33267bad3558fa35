"""Wraps a function so that something watches each of its calls. A wrapper is of the function's own kind: plain,
asynchronous, a generator or an asynchronous generator; what the function returns and raises passes through."""

import functools
import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from typing import Any

from ragtrace.capture.adapters import hidden_step

Begin = Callable[[tuple[Any, ...], dict[str, Any]], Any]
"""Called with the arguments of a call; gives what watches it (see `Watch`), or None."""


class Watch:
    """Watches a call: it is entered and left around the function's own code."""

    result: Any = None
    """What the function returned."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        pass

    def result_of(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call the function."""
        with self:
            self.result = function(*args, **kwargs)
        return self.result

    async def awaited(self, awaitable: Awaitable[Any]) -> Any:
        """Await the function's result."""
        with self:
            self.result = await awaitable
        return self.result

    def step(self, step: Callable[[Any], Any], value: Any) -> Any:
        """Make a step of a generator."""
        with self:
            return step(value)

    async def astep(self, step: Callable[[Any], Awaitable[Any]], value: Any) -> Any:
        """Make a step of an asynchronous generator."""
        with self:
            return await step(value)

    def drop(self) -> None:
        """Called where the consumer of a generator has left it."""


def wrapped(function: Callable[..., Any], begin: Begin) -> Callable[..., Any]:
    """The wrapper of a function of any kind."""
    if inspect.isasyncgenfunction(function):
        return _async_generator(function, begin)
    return _generator(function, begin) if inspect.isgeneratorfunction(function) else wrapped_call(function, begin)


def wrapped_call(function: Callable[..., Any], begin: Begin) -> Callable[..., Any]:
    """The wrapper of a plain or an asynchronous function."""
    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def awaited(*args: Any, **kwargs: Any) -> Any:
            call = begin(args, kwargs)
            if call is None:
                return await function(*args, **kwargs)
            return await call.awaited(function(*args, **kwargs))

        return awaited

    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        call = begin(args, kwargs)
        return function(*args, **kwargs) if call is None else call.result_of(function, args, kwargs)

    return called


def _generator(function: Callable[..., Any], begin: Begin) -> Callable[..., Any]:
    @functools.wraps(function)
    def generator(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        call = begin(args, kwargs)
        inner = function(*args, **kwargs)
        return (yield from inner if call is None else _relay(inner, call))

    return generator


def _relay(inner: Generator[Any, Any, Any], call: Any) -> Generator[Any, Any, Any]:
    """Pass a generator through; what is sent and thrown reaches it."""
    step: Callable[[Any], Any] = inner.send
    value: Any = None
    while True:
        try:
            chunk = call.step(step, value)
        except StopIteration as stop:
            return stop.value
        try:
            step, value = inner.send, (yield chunk)
        except GeneratorExit:
            try:
                inner.close()
            finally:
                call.drop()
            raise
        except BaseException as error:  # noqa: BLE001 the function decides how it is handled
            step, value = inner.throw, error


def _async_generator(function: Callable[..., Any], begin: Begin) -> Callable[..., Any]:
    @functools.wraps(function)
    async def generator(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
        call = begin(args, kwargs)
        inner = function(*args, **kwargs)
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

    return generator
