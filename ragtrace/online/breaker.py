"""How long an evaluator may take and what happens when it fails again and again."""

from __future__ import annotations

import inspect
import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence

from opentelemetry import context

from ragtrace import evaluation
from ragtrace.evaluation import Evaluator
from ragtrace.online.child_process import ProcessRunner
from ragtrace.records import Score, Trace

_FAILURES = 5
"""Failed calls in a row after which an evaluator rests."""
_REST = 30.0
"""Seconds that it rests."""
_HUNG = 2
"""Calls that may hang at the same time; each holds a thread that nothing can stop."""

Results = list[list[Score]]


class ThreadRunner:
    """A daemon thread that makes calls for a worker, so that the worker can stop waiting for one.

    Python cannot stop a thread. One whose call outlasts its time is left behind: it ends by itself when the call
    returns, and, being a daemon, never keeps the process alive.
    """

    def __init__(self) -> None:
        self._calls: queue.SimpleQueue[Callable[[], None]] | None = None

    def call(self, work: Callable[[], Results], timeout: float) -> Results | None:
        """The result of `work`, or None if it takes longer than `timeout` seconds."""
        result: queue.SimpleQueue[Results | BaseException] = queue.SimpleQueue()

        def run() -> None:
            try:
                result.put(work())
            except BaseException as error:  # noqa: BLE001 handed to the worker, which is waiting for it
                result.put(error)

        if self._calls is None:
            self._calls = queue.SimpleQueue()
            threading.Thread(target=_serve, args=(self._calls,), name="ragtrace-runner", daemon=True).start()
        self._calls.put(run)
        try:
            outcome = result.get(timeout=timeout)
        except queue.Empty:
            self._calls.put(_leave)
            self._calls = None
            return None
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome


class _LeaveError(Exception):
    """Ends a runner's thread."""


def _leave() -> None:
    raise _LeaveError


def _serve(calls: queue.SimpleQueue[Callable[[], None]]) -> None:
    # A judge may itself be an instrumented chain: it must be neither traced nor evaluated.
    context.attach(context.set_value(context._SUPPRESS_INSTRUMENTATION_KEY, True))
    try:
        while True:
            calls.get()()
    except _LeaveError:
        return


class Runners:
    """What one worker runs its evaluators with."""

    def __init__(self, isolated: frozenset[str], environment: Mapping[str, str] | None = None) -> None:
        """`isolated` are the names of the evaluators that run in the child process, `environment` is set in it."""
        self.isolated = isolated
        self.thread = ThreadRunner()
        self.process = ProcessRunner(environment)

    def start(self) -> None:
        """Start the child process, if there is use for one."""
        if self.isolated:
            self.process.start()


class Breaker:
    """Keeps a failing or hanging evaluator from costing more than it must. One for each evaluator."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._failures = 0
        self._until = 0.0
        self._hung = 0

    def run(self, check: Evaluator, batch: Sequence[Trace], wanted: Sequence[int], runners: Runners) -> Results:
        """The scores of those traces of the batch whose indexes are wanted, in their order."""
        if not wanted:
            return []
        isolated = check.name in runners.isolated
        together = isolated or check.batch or inspect.iscoroutinefunction(check.fn)
        groups = [list(wanted)] if together else [[i] for i in wanted]
        results: Results = []
        for group in groups:
            found = self._attempt(check, batch, group, runners)
            if found is None and isolated and len(group) > 1:
                # Which of them hangs? Each by itself; the breaker bounds how long that can take.
                found = [s for i in group for s in self._attempt(check, batch, [i], runners) or _timed_out(check, 1)]
            results.extend(found if found is not None else _timed_out(check, len(group)))
        return results

    def _attempt(
        self, check: Evaluator, batch: Sequence[Trace], group: Sequence[int], runners: Runners
    ) -> Results | None:
        if not self._allowed():
            return _failed(check, len(group), "circuit_open")
        if check.name in runners.isolated:
            found = self._in_process(check, batch, group, runners.process)
        else:
            found = self._in_thread(check, [batch[i] for i in group], runners.thread)
        self._note(failed=found is None or all(s.error is not None for scores in found for s in scores))
        return found

    def _in_process(
        self, check: Evaluator, batch: Sequence[Trace], group: Sequence[int], runner: ProcessRunner
    ) -> Results | None:
        try:
            return runner.evaluate(check, batch, group, check.timeout)
        except Exception as error:  # noqa: BLE001 a child that died, an evaluator that could not be loaded there
            return _failed(check, len(group), type(error).__name__, str(error)[:300])

    def _in_thread(self, check: Evaluator, traces: Sequence[Trace], runner: ThreadRunner) -> Results | None:
        with self._lock:
            self._hung += 1

        def work() -> Results:
            try:
                return evaluation.run(check, traces)
            finally:
                with self._lock:
                    self._hung -= 1

        return runner.call(work, check.timeout)

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


def _timed_out(check: Evaluator, count: int) -> Results:
    return _failed(check, count, "timeout")


def _failed(check: Evaluator, count: int, reason: str, explanation: str | None = None) -> Results:
    score = Score(check.name, error=reason, explanation=explanation, version=check.version, method=check.method)
    return [[score] for _ in range(count)]
