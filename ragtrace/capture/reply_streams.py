"""Streams of replies: their pieces are read on their way to the consumer. Those that nobody reads are ended."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Awaitable, Callable
from functools import lru_cache
from queue import SimpleQueue
from typing import Any

from ragtrace.base.background import after_fork
from ragtrace.base.lazy import LazyThread
from ragtrace.capture.recorder import Recorder


def is_stream(value: Any) -> bool:
    """Whether this gives pieces, one after the other. Never raises: it runs between the application and its result."""
    return _has_method(value, "__next__") or _has_method(value, "__anext__")


def is_coroutine(value: Any) -> bool:
    """Whether this is awaited for the result. Never raises, as above."""
    try:
        return inspect.iscoroutine(value)
    except Exception:  # noqa: BLE001 a proxy asks for the class of an object that is not there
        return False


def substitute_stream(inner: Any, call: Any) -> Any:
    """What takes the place of a stream, e.g. of a client's: reads it with the consumer. The call has `step(step,
    value)` and `astep(step, value)` for the next piece, and `drop(at_once)` for a stream that its consumer left."""
    return _substitute(inner, call, _StreamMethods)


def substitute_manager(inner: Any, call: Any) -> Any:
    """What takes the place of a manager whose stream begins where it is entered: Anthropic's `messages.stream`,
    OpenAI's `chat.completions.stream` and `responses.stream`. The call has `enter(function)` and `aenter(function)`."""
    return _substitute(inner, call, _ManagerMethods)


def _substitute(inner: Any, call: Any, methods: type) -> Any:
    """It has only those methods that the object has, too: frameworks ask whether a stream is asynchronous."""
    names = frozenset(name for name in _names_of(methods) if _has_method(inner, name))
    return _class_with(methods, names)(inner, call)


def _has_method(value: Any, name: str) -> bool:
    """Whether the object's class has it, where Python looks for operators. An attribute of a proxy could raise."""
    return next((vars(kind)[name] for kind in type(value).__mro__ if name in vars(kind)), None) is not None


@lru_cache
def _names_of(methods: type) -> frozenset[str]:
    return frozenset(dir(methods)).difference(dir(_Substitute))


@lru_cache
def _class_with(methods: type, names: frozenset[str]) -> type[_Substitute]:
    return type("ReplyStream", (_Substitute,), {name: getattr(methods, name) for name in names})


class _Substitute:
    """Takes the place of an object that a function returned: it looks like that object, and ends the call once."""

    _inner: Any
    _call: Any

    def __init__(self, inner: Any, call: Any) -> None:
        object.__setattr__(self, "_inner", inner)
        object.__setattr__(self, "_call", call)

    @property  # type: ignore[misc]
    def __class__(self) -> Any:  # the application may ask for the client's class
        return self._inner.__class__

    def __getattr__(self, name: str) -> Any:
        if name in ("_inner", "_call"):
            raise AttributeError(name)
        return getattr(self._inner, name)

    # What the application sets is the object's own: a cursor has a row factory.

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._inner, name, value)

    def __delattr__(self, name: str) -> None:
        delattr(self._inner, name)

    def __repr__(self) -> str:
        return repr(self._inner)

    def __reduce_ex__(self, protocol: Any) -> Any:  # a copy is one of the object
        return self._inner.__reduce_ex__(protocol)

    def _step(self, step: Callable[[Any], Any], value: Any = None) -> Any:
        call = self._call
        return step(value) if call is None else call.step(step, value)

    async def _astep(self, step: Callable[[Any], Awaitable[Any]], value: Any = None) -> Any:
        call = self._call
        return await (step(value) if call is None else call.astep(step, value))

    def _drop(self, at_once: bool = False) -> None:
        call = getattr(self, "_call", None)
        object.__setattr__(self, "_call", None)
        if call is not None:
            call.drop(at_once)

    __del__ = _drop


class _Methods(_Substitute):
    """What both substitutes may have."""

    def __exit__(self, *exception: Any) -> Any:
        self._drop()
        return self._inner.__exit__(*exception)

    async def __aexit__(self, *exception: Any) -> Any:
        self._drop()
        return await self._inner.__aexit__(*exception)

    def __len__(self) -> int:
        return len(self._inner)

    def __bool__(self) -> bool:
        return bool(self._inner)

    def __getitem__(self, key: Any) -> Any:
        return self._inner[key]

    def __contains__(self, item: Any) -> bool:
        return item in self._inner


class _StreamMethods(_Methods):
    def __iter__(self) -> Any:
        return self

    def __next__(self) -> Any:
        return self._step(lambda _: next(self._inner))

    def send(self, value: Any) -> Any:
        """The next piece of a generator, which reads a value."""
        return self._step(self._inner.send, value)

    def throw(self, *error: Any) -> Any:
        """The next piece of a generator, which handles an exception."""
        return self._step(lambda _: self._inner.throw(*error))

    def __aiter__(self) -> Any:
        return self

    def __anext__(self) -> Any:
        return self._astep(lambda _: self._inner.__anext__())

    def asend(self, value: Any) -> Any:
        """The next piece of an asynchronous generator, which reads a value."""
        return self._astep(self._inner.asend, value)

    def athrow(self, *error: Any) -> Any:
        """The next piece of an asynchronous generator, which handles an exception."""
        return self._astep(lambda _: self._inner.athrow(*error))

    def __enter__(self) -> Any:
        self._inner.__enter__()
        return self

    async def __aenter__(self) -> Any:
        await self._inner.__aenter__()
        return self

    def close(self) -> Any:
        """Close the stream."""
        try:
            return self._inner.close()
        finally:
            self._drop(at_once=True)

    async def aclose(self) -> Any:
        """Close the asynchronous stream."""
        try:
            return await self._inner.aclose()
        finally:
            self._drop(at_once=True)


class _ManagerMethods(_Methods):
    def __enter__(self) -> Any:
        call = self._call
        return self._inner.__enter__() if call is None else call.enter(self._inner.__enter__)

    async def __aenter__(self) -> Any:
        call = self._call
        return await (self._inner.__aenter__() if call is None else call.aenter(self._inner.__aenter__))


class Reaper:
    """Ends requests whose stream was garbage-collected, in a thread of its own.

    A generator can be collected at any point of the program, even while a thread holds the lock that is needed to end a
    span. `SimpleQueue.put` is the one operation that is safe there."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Starts again with an empty queue and no thread."""
        self._dropped: SimpleQueue[tuple[Recorder | None, Callable[[], None]]] = SimpleQueue()
        self._thread = LazyThread("ragtrace-streams", self._run)

    def start(self) -> None:
        """Starts the thread, unless it is running. Where the system gives none, the next call tries again."""
        if not self._thread.is_alive:
            self._thread.start()

    def drop(self, recorder: Recorder, end: Callable[[], None]) -> None:
        """Schedules a call of `end`. May be called from a finalizer."""
        self._dropped.put((recorder, end))

    def settle(self, timeout: float) -> bool:
        """Waits until everything dropped so far has ended; False if that takes more than `timeout` seconds."""
        if not self._thread.is_alive:
            return True
        done = threading.Event()
        self._dropped.put((None, done.set))
        return done.wait(timeout)

    def _run(self) -> None:
        while True:
            recorder, end = self._dropped.get()
            try:
                end()
            except Exception:  # noqa: BLE001 counted; the thread continues
                if recorder is not None:
                    recorder.failed("dropped stream")
            del recorder, end


reaper = Reaper()
after_fork(reaper.reset)  # the parent process ends what it dropped
