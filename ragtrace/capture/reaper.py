"""Ends runs whose stream nobody reads any more."""

import threading
from collections.abc import Callable
from queue import SimpleQueue

from ragtrace.base.background import after_fork
from ragtrace.base.lazy import LazyThread
from ragtrace.capture.recorder import Recorder


class Reaper:
    """Ends requests whose stream was garbage-collected, in a thread of its own.

    A generator can be collected at any point of the program, even while a thread holds the lock that is needed to end a
    span. `SimpleQueue.put` is the one operation that is safe there.
    """

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Starts again with an empty queue and no thread."""
        self._dropped: SimpleQueue[tuple[Recorder | None, Callable[[], None]]] = SimpleQueue()
        self._thread = LazyThread("ragtrace-streams", self._run)

    def start(self) -> None:
        """Starts the thread, unless it is running. Where the system gives none, the next call tries again: until then
        requests whose stream is left stay open, and end when they expire."""
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
