"""Keeps a request open until its streamed answer ends.

LlamaIndex returns from `query(streaming=True)` before it calls the model, so the model's span would have no parent. The
response's generator is replaced: while it runs, and only then, the request is LlamaIndex's active span."""

import contextlib
import sys
import weakref
from collections import deque
from collections.abc import Awaitable, Callable, Hashable
from contextvars import ContextVar, Token
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

from ragtrace.capture import current, manual
from ragtrace.capture.recorder import Recorder
from ragtrace.capture.reply_streams import reaper
from ragtrace.capture.request import Run


def finish(recorder: Recorder, run: Run, error: BaseException | None = None, cancelled: bool = False) -> None:
    """Ends a request with a streamed answer. A second call does nothing."""
    if recorder.get(run.key) is not run:
        return
    if isinstance(run.state, ModelCall) and run.state.stream not in (None, run.key):
        recorder.end(run.state.stream)
    if run.answer is None and run.chunks:
        run.answer = "".join(run.chunks)
    manual.end_run(recorder, run, error, cancelled)


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

    __slots__ = ("_first", "error")

    def __init__(self) -> None:
        self._first: dict[str, object] = {}
        self.error: BaseException | None = None

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
    it belongs."""

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


class ResponseReader:
    """Reads a response's stream: the text so far, and one end."""

    def __init__(self, recorder: Recorder, run: Run, active: ContextVar[str | None]) -> None:
        self._recorder, self._active = recorder, active
        self.run: Run | None = run
        """The request; None after its end."""
        self._entered: tuple[Token[str | None], current.Attachment | None] | None = None

    def __enter__(self) -> None:
        if self.run is not None:
            self._entered = self._active.set(str(self.run.key)), current.attach(self.run)

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        if self._entered is not None:
            current.detach(self._entered[1])
            with contextlib.suppress(ValueError):  # an abandoned step is closed in another context
                self._active.reset(self._entered[0])
            self._entered = None
        if error is not None:
            self._end(None if isinstance(error, StopIteration | StopAsyncIteration) else error)

    def step(self, step: Callable[[Any], Any], value: Any) -> Any:
        """Returns the next chunk."""
        with self:
            chunk = step(value)
        return self._record(chunk)

    async def astep(self, step: Callable[[Any], Awaitable[Any]], value: Any) -> Any:
        """Returns the next chunk of an asynchronous stream."""
        with self:
            chunk = await step(value)
        return self._record(chunk)

    def drop(self, at_once: bool = False) -> None:
        """Ends the request as cancelled. Without `at_once` it may be called from a finalizer."""
        if at_once:
            return self._end(None, cancelled=True)
        run, self.run = self.run, None
        if run is not None:
            drop_run(self._recorder, run)

    def _record(self, chunk: Any) -> Any:
        text = chunk if isinstance(chunk, str) else getattr(chunk, "delta", None)
        if self.run is not None and isinstance(text, str):
            self._recorder.chunk(self.run, text)
        return chunk

    def _end(self, error: BaseException | None, cancelled: bool = False) -> None:
        run, self.run = self.run, None
        if run is not None:
            with self._recorder.guard("stream"):
                finish(self._recorder, run, error, cancelled)
