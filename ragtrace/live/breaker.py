"""How long an evaluator may take, and what happens when it fails again and again."""

import inspect
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence

from ragtrace import evaluation
from ragtrace.capture.child_thread import ThreadRunner
from ragtrace.evaluation import Evaluator
from ragtrace.live.child_process import ChildDiedError, ProcessRunner, Results
from ragtrace.records import MAX_CHARS, Score, Trace

_log = logging.getLogger(__name__)
_WINDOW = 20
"""Calls whose outcomes are remembered. An evaluator rests when half of them failed."""
_FAILURES, _SOURCES = 5, 3
"""But not before so many failed, with requests of so many sources (users or sessions, where requests name them): a few
expensive requests of one user fail themselves, and not the evaluator for others."""
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
        self._outcomes: deque[frozenset[object] | None] = deque(maxlen=_WINDOW)
        """For each of the last calls the sources of its requests if it failed, None if it did not."""
        self._is_on_trial = False
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
            traces = [batch[i] for i in indexes]
            return self._attempt(check, traces, lambda: process.evaluate(check, batch, indexes, check.timeout))
        except (TimeoutError, ChildDiedError) as error:
            if len(indexes) == 1:
                return _failed(check, 1, error)
        # Which trace is the cause? Each one is tried alone; the breaker bounds how long that takes.
        return [scores for i in indexes for scores in self._run_isolated(check, batch, [i], process)]

    def _run_in_thread(
        self, check: Evaluator, batch: Sequence[Trace], indexes: Sequence[int], thread: ThreadRunner[Results]
    ) -> Results:
        is_left_behind = has_ended = False
        traces = [batch[i] for i in indexes]

        def work() -> Results:
            nonlocal has_ended
            try:
                return evaluation.run(check, traces, check.timeout)
            finally:
                with self._lock:
                    has_ended = True
                    self._hanging -= is_left_behind

        try:
            # A coroutine's own limit comes first.
            limit = check.timeout + inspect.iscoroutinefunction(check.fn)
            return self._attempt(check, traces, lambda: thread.call(work, limit))
        except TimeoutError as error:
            with self._lock:
                is_left_behind = not has_ended
                self._hanging += is_left_behind
            return _failed(check, len(indexes), error)

    def _attempt(self, check: Evaluator, traces: Sequence[Trace], call: Callable[[], Results]) -> Results:
        """Make the call if the evaluator does not rest. Raises TimeoutError and ChildDiedError; any other exception is
        the error of each trace's score."""
        with self._lock:
            if self._hanging >= _HANGING or self._clock() < self._rests_until:
                return _failed(check, len(traces), None)
        has_failed = True
        try:
            results = call()
            has_failed = all(score.error is not None for scores in results for score in scores)
        except (TimeoutError, ChildDiedError):
            raise
        except BaseException as error:  # noqa: BLE001 an evaluator may raise SystemExit; the worker goes on
            results = _failed(check, len(traces), error)
        finally:
            self._count(frozenset(map(_source_of, traces)) if has_failed else None)
        return results

    def _count(self, failed_sources: frozenset[object] | None) -> None:
        with self._lock:
            outcomes = self._outcomes
            outcomes.append(failed_sources)
            failures = [sources for sources in outcomes if sources is not None]
            is_failing = (
                len(failures) >= _FAILURES
                and 2 * len(failures) >= len(outcomes)
                and len(frozenset().union(*failures)) >= _SOURCES
            )
            # After the rest one call may try; if that fails, too, the next rest begins at once.
            if failed_sources is not None and (is_failing or self._is_on_trial):
                self._rests_until = self._clock() + _REST
                self._is_on_trial = True
                outcomes.clear()
            elif failed_sources is None:
                self._is_on_trial = False


def _source_of(trace: Trace) -> object:
    """Who sent a request: its user or session, or the request itself where it names neither."""
    return trace.facts.user_id or trace.facts.session_id or (trace.trace_id, trace.span_id)


def _failed(check: Evaluator, count: int, error: BaseException | None) -> Results:
    """A score with `error` for each of `count` traces; without an error the evaluator was not called."""
    if error is None:
        reason, explanation = "circuit_open", None
    elif isinstance(error, TimeoutError):
        reason, explanation = "timeout", None
    else:
        kind = ConnectionError if isinstance(error, ConnectionError) else type(error)
        reason, explanation = kind.__name__, str(error)[:MAX_CHARS]
    score = Score(check.name, error=reason, explanation=explanation, version=check.version, method=check.method)
    return [[score] for _ in range(count)]
