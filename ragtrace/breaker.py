"""How long an evaluator may take and what happens when it fails again and again."""

from __future__ import annotations

import inspect
import queue
import threading
import time
from collections.abc import Callable, Sequence

from opentelemetry import context

from ragtrace import evaluation
from ragtrace.evaluation import Evaluator
from ragtrace.records import Score, Trace

_FAILURES = 5
"""Failed calls in a row after which an evaluator rests."""
_REST = 30.0
"""Seconds that it rests."""
_HUNG = 2
"""Calls that may hang at the same time; each holds a thread that nothing can stop."""


class Runner:
    """A daemon thread that makes calls for a worker, so that the worker can stop waiting for one.

    Python cannot stop a thread. One whose call outlasts its time is left behind: it ends by itself when the call
    returns, and, being a daemon, never keeps the process alive.
    """

    def __init__(self) -> None:
        self._calls: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def call(self, work: Callable[[], list[list[Score]]], timeout: float) -> list[list[Score]] | None:
        """The result of `work`, or None if it takes longer than `timeout` seconds: then this runner is used up."""
        result: queue.SimpleQueue[list[list[Score]] | BaseException] = queue.SimpleQueue()

        def run() -> None:
            try:
                result.put(work())
            except BaseException as error:  # noqa: BLE001 handed to the worker, which is waiting for it
                result.put(error)

        if self._thread is None:
            self._thread = threading.Thread(target=self._loop, name="ragtrace-runner", daemon=True)
            self._thread.start()
        self._calls.put(run)
        try:
            outcome = result.get(timeout=timeout)
        except queue.Empty:
            self._calls.put(None)
            return None
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    def _loop(self) -> None:
        # A judge may itself be an instrumented chain: it must be neither traced nor evaluated.
        context.attach(context.set_value(context._SUPPRESS_INSTRUMENTATION_KEY, True))
        while (call := self._calls.get()) is not None:
            call()


class Breaker:
    """Keeps a failing or hanging evaluator from costing more than it must. One for each evaluator."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._failures = 0
        self._until = 0.0
        self._hung = 0

    def run(self, check: Evaluator, traces: Sequence[Trace], runner: Runner) -> tuple[list[list[Score]], Runner]:
        """The scores of each trace, and the runner to go on with (another one if this one hangs)."""
        together = check.batch or inspect.iscoroutinefunction(check.fn)
        groups = [traces] if together and traces else [[trace] for trace in traces]
        results: list[list[Score]] = []
        for group in groups:
            found, runner = self._attempt(check, group, runner)
            results.extend(found)
        return results, runner

    def _attempt(self, check: Evaluator, group: Sequence[Trace], runner: Runner) -> tuple[list[list[Score]], Runner]:
        if not self._allowed():
            return _failed(check, group, "circuit_open"), runner
        with self._lock:
            self._hung += 1

        def work() -> list[list[Score]]:
            try:
                return evaluation.run(check, group)
            finally:
                with self._lock:
                    self._hung -= 1

        found = runner.call(work, check.timeout)
        if found is None:
            self._note(failed=True)
            return _failed(check, group, "timeout"), Runner()
        self._note(failed=all(s.error is not None for scores in found for s in scores))
        return found, runner

    def _allowed(self) -> bool:
        with self._lock:
            return self._hung < _HUNG and self._clock() >= self._until

    def _note(self, *, failed: bool) -> None:
        with self._lock:
            self._failures = self._failures + 1 if failed else 0
            if self._failures >= _FAILURES:
                # After its rest one call may try; the next failure sends it back at once.
                self._until = self._clock() + _REST
                self._failures = _FAILURES - 1


def _failed(check: Evaluator, traces: Sequence[Trace], reason: str) -> list[list[Score]]:
    score = Score(check.name, error=reason, version=check.version, method=check.method)
    return [[score] for _ in traces]
