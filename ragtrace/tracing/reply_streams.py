"""Streams that a decorated function returned: their pieces are read on their way to the consumer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Protocol


class StreamReader(Protocol):
    """The call whose stream is read."""

    def enter(self, function: Callable[[], Any]) -> Any:
        """Enter a manager."""

    async def aenter(self, function: Callable[[], Awaitable[Any]]) -> Any:
        """Enter an asynchronous manager."""

    def step(self, step: Callable[[Any], Any], value: Any) -> Any:
        """The next piece."""

    async def astep(self, step: Callable[[Any], Awaitable[Any]], value: Any) -> Any:
        """The next piece of an asynchronous stream."""

    def drop(self) -> None:
        """End a stream that its consumer left."""


def is_stream(value: Any) -> bool:
    """Whether this gives pieces, one after the other. Never raises: it runs between the application and its result."""
    try:
        return hasattr(value, "__next__") or hasattr(value, "__anext__")
    except Exception:  # noqa: BLE001 an object whose attributes raise, e.g. a proxy of what is closed
        return False


class _Substitute:
    """Takes the place of an object that a function returned: it looks like that object, and ends the call once."""

    _inner: Any
    _call: StreamReader | None

    def __init__(self, inner: Any, call: StreamReader) -> None:
        object.__setattr__(self, "_inner", inner)
        object.__setattr__(self, "_call", call)

    @property  # type: ignore[misc]
    def __class__(self) -> Any:  # the application may ask for the client's class
        return type(self._inner)

    def __exit__(self, *exception: Any) -> Any:
        self._drop()
        return self._inner.__exit__(*exception)

    async def __aexit__(self, *exception: Any) -> Any:
        self._drop()
        return await self._inner.__aexit__(*exception)

    def __getattr__(self, name: str) -> Any:
        if name in ("_inner", "_call"):
            raise AttributeError(name)
        return getattr(self._inner, name)

    # What the application sets, or asks with an operator, is the object's own: a cursor has rows and a row factory.

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._inner, name, value)

    def __delattr__(self, name: str) -> None:
        delattr(self._inner, name)

    def __len__(self) -> int:
        return len(self._inner)

    def __bool__(self) -> bool:
        return bool(self._inner)

    def __getitem__(self, key: Any) -> Any:
        return self._inner[key]

    def __contains__(self, item: Any) -> bool:
        return item in self._inner

    def __repr__(self) -> str:
        return repr(self._inner)

    def _drop(self) -> None:
        call = getattr(self, "_call", None)
        object.__setattr__(self, "_call", None)
        if call is not None:
            call.drop()

    __del__ = _drop


class ReplyStream(_Substitute):
    """In place of a stream, e.g. of a client's: reads it with the consumer."""

    def __iter__(self) -> ReplyStream:
        return self

    def __next__(self) -> Any:
        call = self._call
        if call is None:
            return next(self._inner)
        return call.step(lambda _: next(self._inner), None)

    def __aiter__(self) -> ReplyStream:
        return self

    async def __anext__(self) -> Any:
        call = self._call
        if call is None:
            return await self._inner.__anext__()
        return await call.astep(lambda _: self._inner.__anext__(), None)

    def __enter__(self) -> ReplyStream:
        self._inner.__enter__()
        return self

    async def __aenter__(self) -> ReplyStream:
        await self._inner.__aenter__()
        return self

    def close(self) -> Any:
        """Close the stream."""
        self._drop()
        return self._inner.close()

    def aclose(self) -> Any:
        """Close the asynchronous stream."""
        self._drop()
        return self._inner.aclose()


class ReplyManager(_Substitute):
    """In place of a manager whose stream begins where it is entered: Anthropic's `messages.stream`, OpenAI's
    `chat.completions.stream` and `responses.stream`."""

    def __enter__(self) -> Any:
        call = self._call
        return self._inner.__enter__() if call is None else call.enter(self._inner.__enter__)

    async def __aenter__(self) -> Any:
        call = self._call
        return await (self._inner.__aenter__() if call is None else call.aenter(self._inner.__aenter__))
