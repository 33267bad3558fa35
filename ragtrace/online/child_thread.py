"""A thread that makes calls for a worker, so that the worker can stop waiting for one."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from opentelemetry import context

T = TypeVar("T")


class ThreadRunner(Generic[T]):
    """Makes one call at a time in a daemon thread.

    Python cannot stop a thread. One whose call takes longer than its timeout is left behind: it ends by itself when the
    call returns, and, being a daemon, never keeps the process alive.
    """

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


def _make_calls(calls: queue.SimpleQueue[Callable[[], None] | None]) -> None:
    # A judge may itself be an instrumented chain: it must be neither traced nor evaluated.
    context.attach(context.set_value(context._SUPPRESS_INSTRUMENTATION_KEY, True))
    while (call := calls.get()) is not None:
        call()
