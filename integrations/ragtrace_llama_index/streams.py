"""Keeps a request open until its streamed answer ends.

LlamaIndex returns from `query(streaming=True)` before it calls the model, so the model's span would have no parent. The
proxies here replace the response's generator: while it runs, and only then, the request is LlamaIndex's active span.
"""

from __future__ import annotations

import contextlib
import sys
import weakref
from collections import deque
from collections.abc import AsyncGenerator, Generator, Hashable
from contextvars import ContextVar, Token
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

from ragtrace.capture import current
from ragtrace.capture.reaper import reaper
from ragtrace.capture.recorder import Recorder
from ragtrace.capture.request import Run
from ragtrace_llama_index import conversion

_Entered = tuple[Token[str | None], current.Attachment | None]


def finish(recorder: Recorder, run: Run, error: BaseException | None = None, cancelled: bool = False) -> None:
    """Ends a request with a streamed answer. A second call does nothing."""
    if recorder.get(run.key) is not run:
        return
    if isinstance(run.state, ModelCall) and run.state.stream not in (None, run.key):
        recorder.end(run.state.stream)
    if run.answer is None and run.chunks:
        run.answer = "".join(run.chunks)
    if error is not None and conversion.is_cancellation(error):
        error, cancelled = None, True
    recorder.end(run.key, error=error, cancelled=cancelled)


@dataclass(slots=True)
class ModelCall:
    """What is kept of a model call in progress."""

    stream: Hashable = None
    """The key under which LlamaIndex reports the chunks: the call's own, or that of a call inside it."""
    chunks: deque[Any] = field(default_factory=lambda: deque(maxlen=4))
    """The latest chunks of the stream. The reason of its end and its usage can be in different ones of the last."""
    is_object: bool = False
    """The call streams an object of the application: the arguments of the tool that it calls are its answer."""
    inner: Hashable = None
    """The call that started last inside this one."""


class Halves:
    """A streaming chat ends when its call has returned and its writer has finished, in any order."""

    __slots__ = ("_first", "cancelled", "error")

    def __init__(self) -> None:
        self._first: dict[str, object] = {}
        self.error: BaseException | None = None
        self.cancelled = False

    def complete(self) -> bool:
        """Marks one half as complete; returns True for the second one."""
        token = object()
        return self._first.setdefault("", token) is not token  # atomic: the halves run in different threads


def drop_run(recorder: Recorder, run: Run) -> None:
    """Ends a run whose stream is no longer read. May be called from a finalizer."""
    reaper.drop(recorder, lambda: finish(recorder, run, cancelled=True))


class OpenStreams:
    """Streams of models that have been returned and may not have begun, by the frame that produces them.

    A model's `stream_chat` can be a generator that calls `super().stream_chat()` or another model, and an asynchronous
    stream can be made of a synchronous one. The inner call then begins when the first chunk is requested, below
    whatever is active there; the frame of the outer generator, among those that are being executed, says to which call
    it belongs.
    """

    _DEPTH = 40
    """Frames between a generator and the model call inside it: LlamaIndex's decorators, and the application's."""

    def __init__(self) -> None:
        self._open: dict[int, tuple[Run, weakref.ref[Any]]] = {}

    def add(self, stream: Any, run: Run, recorder: Recorder) -> bool:
        """Enters the stream that a model call returned, and ends the call when nobody refers to the stream any more.

        Returns False when the stream supports no weak references: its end cannot be seen."""
        key = id(_frame_of(stream) or stream)

        def end() -> None:
            finish(recorder, run, cancelled=run.reports_end)

        def drop(_reference: object) -> None:  # may run in a finalizer
            self._open.pop(key, None)
            reaper.drop(recorder, end)

        try:
            self._open[key] = (run, weakref.ref(stream, drop))
        except TypeError:
            return False
        reaper.start()
        return True

    def around(self) -> Run | None:
        """Returns the run whose stream is being produced in this thread at this moment, or None."""
        frame: FrameType | None = sys._getframe(1) if self._open else None
        for _ in range(self._DEPTH):
            if frame is None:
                return None
            run, stream = self._open.get(id(frame), (None, None))
            if stream is not None and _frame_of(stream()) is frame:
                return run
            frame = frame.f_back
        return None


def _frame_of(stream: Any) -> FrameType | None:
    """Returns the frame of a generator that has not ended, or None."""
    frame: FrameType | None = getattr(stream, "gi_frame", None) or getattr(stream, "ag_frame", None)
    return frame


class _Stream:
    """The common part of the sync and the async proxy: the text so far, and one end."""

    _inner: Any

    def __init__(self, inner: Any, recorder: Recorder, run: Run, active: ContextVar[str | None]) -> None:
        self._inner, self._recorder, self._active = inner, recorder, active
        self._run: Run | None = run
        reaper.start()

    def _enter(self) -> _Entered | None:
        if self._run is None:
            return None
        return self._active.set(str(self._run.key)), current.attach(self._run)

    def _leave(self, entered: _Entered | None) -> None:
        if entered is not None:
            current.detach(entered[1])
            with contextlib.suppress(ValueError):  # an abandoned step is closed in another context
                self._active.reset(entered[0])

    def _record(self, chunk: Any) -> None:
        if self._run is None:
            return
        text = chunk if isinstance(chunk, str) else getattr(chunk, "delta", None)
        if isinstance(text, str):
            self._recorder.chunk(self._run, text)

    def _end(self, error: BaseException | None = None, cancelled: bool = False) -> None:
        run, self._run = self._run, None
        if run is None:
            return
        try:
            finish(self._recorder, run, error, cancelled)
        except Exception:  # noqa: BLE001 nothing of ours may reach the application
            self._recorder.failed("stream")

    def forget(self) -> None:
        """Detaches the proxy from its run; the caller ends the request."""
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
    """Replaces a response's generator."""

    def send(self, value: Any) -> Any:
        """Returns the next chunk."""
        entered = self._enter()
        try:
            chunk = next(self._inner) if value is None else self._inner.send(value)
        except StopIteration:
            self._end()
            raise
        except BaseException as error:
            self._end(error)
            raise
        finally:
            self._leave(entered)
        self._record(chunk)
        return chunk

    def throw(self, *args: Any) -> Any:
        """Raises an exception inside the generator."""
        try:
            return self._inner.throw(*args)
        except BaseException as error:
            self._end(error)
            raise

    def close(self) -> None:
        """Closes the generator and ends the request as cancelled."""
        try:
            if hasattr(self._inner, "close"):
                self._inner.close()
        finally:
            self._end(cancelled=True)


class AsyncTextStream(_Stream, AsyncGenerator[Any, Any]):
    """Replaces a response's asynchronous generator."""

    async def asend(self, value: Any) -> Any:
        """Returns the next chunk."""
        entered = self._enter()
        try:
            chunk = await (self._inner.__anext__() if value is None else self._inner.asend(value))
        except StopAsyncIteration:
            self._end()
            raise
        except BaseException as error:
            self._end(error)
            raise
        finally:
            self._leave(entered)
        self._record(chunk)
        return chunk

    async def athrow(self, *args: Any) -> Any:
        """Raises an exception inside the generator."""
        try:
            return await self._inner.athrow(*args)
        except BaseException as error:
            self._end(error)
            raise

    async def aclose(self) -> None:
        """Closes the generator and ends the request as cancelled."""
        try:
            if hasattr(self._inner, "aclose"):
                await self._inner.aclose()
        finally:
            self._end(cancelled=True)


def watch(response: Any, attribute: str, recorder: Recorder, run: Run, active: ContextVar[str | None]) -> bool:
    """Replaces a response's generator by a proxy; returns False when the response has no generator."""
    inner = getattr(response, attribute, None)
    if hasattr(inner, "__anext__"):
        proxy: _Stream = AsyncTextStream(inner, recorder, run, active)
    elif hasattr(inner, "__next__"):
        proxy = TextStream(inner, recorder, run, active)
    else:
        return False
    try:
        setattr(response, attribute, proxy)
    except Exception:  # noqa: BLE001 an application's response class may be read-only
        proxy.forget()
        return False
    return True
