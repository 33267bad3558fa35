"""Answers that come piece by piece: proxies that see them pass and notice their end, however it comes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

from llama_index_instrumentation.span import active_span_id

from ragtrace.adapting import is_cancellation

End = Callable[[str, BaseException | None, bool], None]
"""Called once with the text so far, the error if one ended it, and whether the consumer walked away."""


class _Stream:
    """What both proxies share. While the inner generator runs, the request's span is the active one: its model call
    starts only now, when the framework's own span of the request is long over."""

    def __init__(self, inner: Any, key: str, end: End) -> None:
        self._inner = inner
        self._key = key
        self._end = end
        self._parts: list[str] = []
        self._ended = False

    def _add(self, piece: Any) -> None:
        self._parts.append(piece if isinstance(piece, str) else str(getattr(piece, "delta", piece) or ""))

    def _finish(self, error: BaseException | None = None, cancelled: bool = False) -> None:
        if not self._ended:
            self._ended = True
            self._end("".join(self._parts), error, cancelled)

    def __del__(self) -> None:
        self._finish(cancelled=True)  # nobody will ask for the rest


class SyncStream(_Stream):
    """Stands for a generator of text."""

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        token = active_span_id.set(self._key)
        try:
            piece = next(self._inner)
        except StopIteration:
            self._finish()
            raise
        except BaseException as error:
            self._finish(None if is_cancellation(error) else error, is_cancellation(error))
            raise
        finally:
            active_span_id.reset(token)
        self._add(piece)
        return piece

    def close(self) -> None:
        """As a generator's: the consumer wants no more."""
        close = getattr(self._inner, "close", None)
        if close is not None:
            close()
        self._finish(cancelled=True)


class AsyncStream(_Stream):
    """Stands for an asynchronous generator of text."""

    def __aiter__(self) -> AsyncIterator[Any]:
        return self

    async def __anext__(self) -> Any:
        token = active_span_id.set(self._key)
        try:
            piece = await self._inner.__anext__()
        except StopAsyncIteration:
            self._finish()
            raise
        except BaseException as error:
            self._finish(None if is_cancellation(error) else error, is_cancellation(error))
            raise
        finally:
            active_span_id.reset(token)
        self._add(piece)
        return piece

    async def aclose(self) -> None:
        """As an asynchronous generator's: the consumer wants no more."""
        close = getattr(self._inner, "aclose", None)
        if close is not None:
            await close()
        self._finish(cancelled=True)
