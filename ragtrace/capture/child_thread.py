"""A thread that makes calls for a worker, so that the worker can stop waiting for one."""

import contextvars
import itertools
import queue
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Generic, TypeVar

from opentelemetry import context

T = TypeVar("T")


class ThreadRunner(Generic[T]):
    """Makes one call at a time in a daemon thread.

    Python cannot stop a thread. One whose call takes longer than its timeout is left behind: it ends by itself when the
    call returns, and, being a daemon, never keeps the process alive."""

    def __init__(self) -> None:
        self._calls: queue.SimpleQueue[Callable[[], None] | None] | None = None

    def call(self, work: Callable[[], T], timeout: float) -> T:
        """The result of `work`, or what it raises. Raises TimeoutError if it takes longer than `timeout` seconds."""
        results: queue.SimpleQueue[tuple[T | None, BaseException | None]] = queue.SimpleQueue()

        def run() -> None:
            try:
                results.put((work(), None))
            except BaseException as error:  # noqa: BLE001 raised again in the worker, which waits for it
                results.put((None, error))

        if self._calls is None:
            self._calls = queue.SimpleQueue()
            threading.Thread(target=_make_calls, args=(self._calls,), name="ragtrace-runner", daemon=True).start()
        self._calls.put(run)
        try:
            result, error = results.get(timeout=timeout)
        except queue.Empty:
            self._calls.put(None)
            self._calls = None
            raise TimeoutError(f"the evaluator gave no answer within {timeout:g} s") from None
        if error is not None:
            raise error
        return result  # type: ignore[return-value]  # without an error it is what `work` returned

    def stop(self) -> None:
        """End the thread, unless a call hangs in it."""
        if self._calls is not None:
            self._calls.put(None)


def _make_calls(calls: queue.SimpleQueue[Callable[[], None] | None]) -> None:
    suppress_tracing()
    while (call := calls.get()) is not None:
        call()
        del call  # it holds the requests


_own = threading.local()


def suppress_tracing() -> None:
    """Trace nothing that this thread does, nor what it hands to other threads and thread pools.

    An evaluator or a sink may call a chain that is instrumented: if that were a request, it would be evaluated, and so
    on without end. A new thread begins with an empty context, so it is given this one's."""
    context.attach(context.set_value(context._SUPPRESS_INSTRUMENTATION_KEY, True))
    _own.is_suppressed = True
    if next(_calls) == 0:  # once, on top of others' patches; a lock could be left locked by a fork
        _originals[:] = _thread.start, _pool.submit
        _thread.start, _pool.submit = _start_thread, _submit


_calls = itertools.count()
_thread: Any = threading.Thread
_pool: Any = ThreadPoolExecutor
_originals: list[Any] = []


def _start_thread(thread: threading.Thread) -> None:
    """`Thread.start`; a thread that an evaluator's thread starts is suppressed, too."""
    if getattr(_own, "is_suppressed", False):
        run = thread.run

        def run_suppressed() -> None:
            suppress_tracing()
            run()

        thread.run = run_suppressed  # type: ignore[method-assign]
    _originals[0](thread)


def _submit(pool: ThreadPoolExecutor, function: Callable[..., T], /, *args: object, **kwargs: object) -> Any:
    """`ThreadPoolExecutor.submit`; what an evaluator's thread submits runs in a copy of its context."""
    if getattr(_own, "is_suppressed", False):
        # The pool may be the application's: a thread that it starts now must not stay suppressed.
        _own.is_suppressed = False
        try:
            return _originals[1](pool, contextvars.copy_context().run, function, *args, **kwargs)
        finally:
            _own.is_suppressed = True
    return _originals[1](pool, function, *args, **kwargs)
