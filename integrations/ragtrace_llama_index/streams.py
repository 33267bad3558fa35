"""Answers that are still being made when their call returns: the request stays open until they end.

LlamaIndex returns from `query(streaming=True)` before it asks the model; the model's span then has no parent. The
proxies here stand in for the response's generator: while it runs, and only then, the request is LlamaIndex's active
span.
"""

from __future__ import annotations

import os
import threading
from collections.abc import AsyncGenerator, Callable, Generator
from contextvars import ContextVar
from queue import SimpleQueue
from typing import Any

from ragtrace.tracing.recorder import Recorder
from ragtrace.tracing.request import Run
from ragtrace_llama_index import conversion


def finish(recorder: Recorder, run: Run, error: BaseException | None = None, cancelled: bool = False) -> None:
    """End a request whose text came in pieces. Safe to call twice."""
    if recorder.get(run.key) is not run:
        return
    if run.answer is None and run.chunks:
        run.answer = "".join(run.chunks)
    if error is not None and conversion.is_cancellation(error):
        error, cancelled = None, True
    recorder.end(run.key, error=error, cancelled=cancelled)


class Halves:
    """A streaming chat ends when both its call has returned and its writer is done, in whatever order."""

    __slots__ = ("_first", "cancelled", "error")

    def __init__(self) -> None:
        self._first: dict[str, object] = {}
        self.error: BaseException | None = None
        self.cancelled = False

    def complete(self) -> bool:
        """Note that one half is done; True if it was the second."""
        mine = object()
        return self._first.setdefault("", mine) is not mine  # atomic: the halves run in different threads


class Reaper:
    """Ends requests whose stream was dropped, on a thread of its own.

    A generator is collected wherever the interpreter happens to be, which may be inside the very lock that ending a
    span takes. `SimpleQueue.put` alone is made to be called there.
    """

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Begin anew."""
        self._dropped: SimpleQueue[tuple[Recorder, Callable[[], None]]] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    def start(self) -> None:
        """Make sure that the thread runs."""
        if self._thread is not None and self._thread.is_alive():
            return
        with self._lock:
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._run, name="ragtrace-streams", daemon=True)
                self._thread.start()

    def drop(self, recorder: Recorder, end: Callable[[], None]) -> None:
        """Have `end` called soon. May be called from a finaliser."""
        self._dropped.put((recorder, end))

    def _run(self) -> None:
        while True:
            recorder, end = self._dropped.get()
            try:
                end()
            except Exception:  # noqa: BLE001 counted; the thread lives on
                recorder.failed("dropped stream")
            del recorder, end


reaper = Reaper()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=reaper.reset)  # what the parent dropped, the parent ends


def drop_run(recorder: Recorder, run: Run) -> None:
    """End a run whose stream nobody reads any more; from a finaliser."""
    reaper.drop(recorder, lambda: finish(recorder, run, cancelled=True))


class _Stream:
    """What the sync and the async proxy share: the text so far, and one end."""

    _inner: Any

    def __init__(self, inner: Any, recorder: Recorder, run: Run, active: ContextVar[str | None]) -> None:
        self._inner, self._recorder, self._active = inner, recorder, active
        self._run: Run | None = run
        reaper.start()

    def _enter(self) -> Any:
        return self._active.set(str(self._run.key)) if self._run is not None else None

    def _leave(self, token: Any) -> None:
        if token is not None:
            self._active.reset(token)

    def _heard(self, piece: Any) -> None:
        if self._run is None:
            return
        text = piece if isinstance(piece, str) else getattr(piece, "delta", None)
        if isinstance(text, str):
            self._recorder.chunk(self._run, text)

    def _over(self, error: BaseException | None = None, cancelled: bool = False) -> None:
        run, self._run = self._run, None
        if run is None:
            return
        try:
            finish(self._recorder, run, error, cancelled)
        except Exception:  # noqa: BLE001 nothing of ours may reach the application
            self._recorder.failed("stream")

    def forget(self) -> None:
        """Not used after all: somebody else ends the request."""
        self._run = None

    def __getattr__(self, name: str) -> Any:
        if name == "_inner":
            raise AttributeError(name)
        return getattr(self._inner, name)

    def __del__(self) -> None:
        run, self._run = getattr(self, "_run", None), None
        if run is not None:
            drop_run(self._recorder, run)


class TextStream(_Stream, Generator[Any, Any, Any]):
    """Stands in for a response's generator."""

    def send(self, value: Any) -> Any:
        """The next piece."""
        token = self._enter()
        try:
            piece = next(self._inner) if value is None else self._inner.send(value)
        except StopIteration:
            self._over()
            raise
        except BaseException as error:
            self._over(error)
            raise
        finally:
            self._leave(token)
        self._heard(piece)
        return piece

    def throw(self, *args: Any) -> Any:
        """Raise inside the generator."""
        try:
            return self._inner.throw(*args)
        except BaseException as error:
            self._over(error)
            raise

    def close(self) -> None:
        """The consumer walks away."""
        try:
            if hasattr(self._inner, "close"):
                self._inner.close()
        finally:
            self._over(cancelled=True)


class AsyncTextStream(_Stream, AsyncGenerator[Any, Any]):
    """Stands in for a response's asynchronous generator."""

    async def asend(self, value: Any) -> Any:
        """The next piece."""
        previous = self._active.get()
        self._enter()
        try:
            piece = await (self._inner.__anext__() if value is None else self._inner.asend(value))
        except StopAsyncIteration:
            self._over()
            raise
        except BaseException as error:
            self._over(error)
            raise
        finally:
            # Not by the token: a step that is thrown away is closed in another context.
            self._active.set(previous)
        self._heard(piece)
        return piece

    async def athrow(self, *args: Any) -> Any:
        """Raise inside the generator."""
        try:
            return await self._inner.athrow(*args)
        except BaseException as error:
            self._over(error)
            raise

    async def aclose(self) -> None:
        """The consumer walks away."""
        try:
            if hasattr(self._inner, "aclose"):
                await self._inner.aclose()
        finally:
            self._over(cancelled=True)


def watch(response: Any, attribute: str, recorder: Recorder, run: Run, active: ContextVar[str | None]) -> bool:
    """Put a proxy in place of a response's generator; False where there is none to watch."""
    inner = getattr(response, attribute, None)
    if hasattr(inner, "__anext__"):
        proxy: _Stream = AsyncTextStream(inner, recorder, run, active)
    elif hasattr(inner, "__next__"):
        proxy = TextStream(inner, recorder, run, active)
    else:
        return False
    try:
        setattr(response, attribute, proxy)
    except Exception:  # noqa: BLE001 an application's response class may refuse
        proxy.forget()
        return False
    return True
