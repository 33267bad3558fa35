"""Runs the application's redaction function in a thread of its own, so that the request never waits long for it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from queue import SimpleQueue

from ragtrace import plugins
from ragtrace.base.background import after_fork
from ragtrace.base.lazy import LazyThread
from ragtrace.errors import SettingError
from ragtrace.text.redaction import MODES
from ragtrace.text.sanitizer import RedactionTimeoutError


def redaction_function(name: str, setting: str) -> Callable[[str], str]:
    """The application's function that a setting names as `module:attribute`. Raises SettingError for a name that is
    neither this nor a mode, and for what cannot be imported or called."""
    if ":" not in name:
        raise SettingError(f"{setting} is {name!r}; give one of {', '.join(MODES)}, or module:attribute of a function")
    function = plugins.resolve(name, setting)
    if not callable(function):
        raise SettingError(f"{setting} is {name!r}, which is not a function; give one from text to text")
    return function  # type: ignore[no-any-return]


class TimeLimited:
    """A redaction function of the application with a time limit for each text, called in a thread of its own.

    Raises RedactionTimeoutError where the function takes longer than `seconds`, or waits longer than four times that
    for other texts. While a call that took too long still runs, and for `pause` seconds after the third in a row,
    further texts fail at once: a function that hangs costs the application no more than these three.
    """

    def __init__(self, function: Callable[[str], str], seconds: float, pause: float = 30.0) -> None:
        self._function, self._seconds, self._pause = function, seconds, pause
        self._reset()
        after_fork(self._reset)

    def _reset(self) -> None:
        self._calls: SimpleQueue[_Call] = SimpleQueue()
        self._lock = threading.RLock()  # a finalizer may end a span while its thread has the lock
        self._thread = LazyThread("ragtrace-redact", self._work)
        self._running: _Call | None = None
        self._late = 0
        self._resume = 0.0

    def __call__(self, text: str) -> str:
        """The redacted text. Raises what the function raises, and RedactionTimeoutError."""
        if time.monotonic() < self._resume or self._hangs():
            raise RedactionTimeoutError
        call = _Call(text)
        if not self._thread.start():
            raise RedactionTimeoutError
        self._calls.put(call)
        if not self._wait(call):
            call.is_late = True
            self._note_late()
            raise RedactionTimeoutError
        self._late = 0
        if call.error is not None:
            raise call.error
        return call.result

    def _wait(self, call: _Call) -> bool:
        """Whether the call ends in time. Its own time begins when the thread takes it."""
        end = time.monotonic() + _PATIENCE * self._seconds
        remaining = self._seconds
        while not call.done.wait(remaining):
            now = time.monotonic()
            remaining = min(call.started + self._seconds if call.started else now + self._seconds, end) - now
            if remaining <= 0 or (not call.started and self._hangs()):
                return call.done.is_set()
        return True

    def _hangs(self) -> bool:
        running = self._running
        return running is not None and time.monotonic() - running.started > self._seconds

    def _note_late(self) -> None:
        with self._lock:
            self._late += 1
            if self._late >= _LATE:
                self._resume = time.monotonic() + self._pause

    def _work(self) -> None:
        while True:
            call = self._calls.get()
            if not call.is_late:
                call.started = time.monotonic()
                self._running = call
                try:
                    call.result = self._function(call.text)
                except BaseException as error:  # noqa: BLE001 the application's function; the caller gets it
                    call.error = error if isinstance(error, Exception) else RuntimeError(type(error).__name__)
                self._running = None
            call.done.set()


_PATIENCE = 4
_LATE = 3
"""Calls that are late in a row, after which the function is left alone for a while."""


@dataclass(slots=True)
class _Call:
    text: str
    result: str = ""
    started: float = 0.0
    """time.monotonic() when the thread took it; 0 before."""
    error: Exception | None = None
    is_late: bool = False
    done: threading.Event = field(default_factory=threading.Event)
