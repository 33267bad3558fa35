"""How long an evaluator may take, and what happens when it fails again and again."""

from __future__ import annotations

import inspect
import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence

from ragtrace import evaluation
from ragtrace.evaluation import Evaluator
from ragtrace.online.child_process import ChildDiedError, ProcessRunner, Results
from ragtrace.online.child_thread import ThreadRunner
from ragtrace.records import Score, Trace

_log = logging.getLogger(__name__)
_FAILURES = 5
"""Failed calls in a row after which an evaluator rests."""
_REST = 30.0
"""Seconds that it rests."""
_HANGING = 2
"""Calls that may hang, each in a thread that cannot be stopped, before the evaluator is not called any more."""


class Runners:
    """What one worker runs its evaluators with."""

    def __init__(self, isolated: Sequence[Evaluator] = (), environment: Mapping[str, str] | None = None) -> None:
        """`isolated` are the evaluators that run in the child process; `environment` is set in it."""
        self._isolated_names = frozenset(check.name for check in isolated)
        self.thread: ThreadRunner[Results] = ThreadRunner()
        names = [check.importable_name or check.name for check in isolated]
        self.process = ProcessRunner(environment, names=names)

    def is_isolated(self, check: Evaluator) -> bool:
        """Whether the evaluator runs in the child process."""
        return check.name in self._isolated_names

    def start(self) -> None:
        """Start the child process if an evaluator needs it, and wait until its models are loaded."""
        try:
            if self._isolated_names:
                self.process.wait_until_ready()
        except OSError:  # each evaluation tries again, and has the error in its scores
            _log.warning("ragtrace: the evaluating process could not be started", exc_info=True)


class Breaker:
    """Keeps a failing or hanging evaluator from costing more than it must. One for each evaluator."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._failures = 0
        self._rests_until = 0.0
        self._hanging = 0

    def run(self, check: Evaluator, batch: Sequence[Trace], indexes: Sequence[int], runners: Runners) -> Results:
        """The scores of the traces at `indexes` in the batch, in their order. Failures are scores with `error`."""
        if not indexes:
            return []
        if runners.is_isolated(check):
            return self._run_isolated(check, batch, indexes, runners.process)
        together = check.batch or inspect.iscoroutinefunction(check.fn)
        groups = [list(indexes)] if together else [[i] for i in indexes]
        return [scores for group in groups for scores in self._run_in_thread(check, batch, group, runners.thread)]

    def _run_isolated(
        self, check: Evaluator, batch: Sequence[Trace], indexes: Sequence[int], process: ProcessRunner
    ) -> Results:
        try:
            return self._attempt(check, len(indexes), lambda: process.evaluate(check, batch, indexes, check.timeout))
        except (TimeoutError, ChildDiedError) as error:
            if len(indexes) == 1:
                return _failed(check, 1, error)
        # Which trace is the cause? Each one is tried alone; the breaker bounds how long that takes.
        return [scores for i in indexes for scores in self._run_isolated(check, batch, [i], process)]

    def _run_in_thread(
        self, check: Evaluator, batch: Sequence[Trace], indexes: Sequence[int], thread: ThreadRunner[Results]
    ) -> Results:
        is_left_behind = has_ended = False

        def work() -> Results:
            nonlocal has_ended
            try:
                return evaluation.run(check, [batch[i] for i in indexes])
            finally:
                with self._lock:
                    has_ended = True
                    self._hanging -= is_left_behind

        try:
            return self._attempt(check, len(indexes), lambda: thread.call(work, check.timeout))
        except TimeoutError as error:
            with self._lock:
                is_left_behind = not has_ended
                self._hanging += is_left_behind
            return _failed(check, len(indexes), error)

    def _attempt(self, check: Evaluator, count: int, call: Callable[[], Results]) -> Results:
        """Make the call if the evaluator does not rest. Raises TimeoutError and ChildDiedError; any other exception is
        the error of `count` scores."""
        with self._lock:
            if self._hanging >= _HANGING or self._clock() < self._rests_until:
                return _failed(check, count, None)
        has_failed = True
        try:
            results = call()
            has_failed = all(score.error is not None for scores in results for score in scores)
        except (TimeoutError, ChildDiedError):
            raise
        except BaseException as error:  # noqa: BLE001 an evaluator may raise SystemExit; the worker goes on
            results = _failed(check, count, error)
        finally:
            self._count(has_failed)
        return results

    def _count(self, has_failed: bool) -> None:
        with self._lock:
            self._failures = self._failures + 1 if has_failed else 0
            if self._failures >= _FAILURES:
                # After the rest one call may try; if that fails, too, the next rest begins at once.
                self._rests_until = self._clock() + _REST
                self._failures = _FAILURES - 1


def _failed(check: Evaluator, count: int, error: BaseException | None) -> Results:
    """A score with `error` for each of `count` traces; without an error the evaluator was not called."""
    if error is None:
        reason, explanation = "circuit_open", None
    elif isinstance(error, TimeoutError):
        reason, explanation = "timeout", None
    else:
        kind = ConnectionError if isinstance(error, ConnectionError) else type(error)
        reason, explanation = kind.__name__, str(error)[:300]
    score = Score(check.name, error=reason, explanation=explanation, version=check.version, method=check.method)
    return [[score] for _ in range(count)]
