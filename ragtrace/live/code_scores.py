"""Brings scores that the application's code gives (`ragtrace.score`) to their requests.

A score that comes before its request is evaluated leaves with that evaluation: on the root span, as an event, in the
metrics and the store. A later one, and one of a request that is not evaluated, leaves alone."""

import math
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

from opentelemetry import trace as otel

from ragtrace.base.background import Background, Bounds, after_fork
from ragtrace.records import Evaluation, Facts, Score, Trace
from ragtrace.sampling import Decision

_REQUESTS = 10_000
"""Requests that are remembered, the latest."""
_SCORES = 10_000
"""Scores that wait at most."""
_WAIT = 30.0
"""Seconds that a score waits at most for the evaluation of its request; one that is given inside of it: an hour."""

_LABEL_FACTS = ("app", "env", "prompt_version", "model", "response_id", "unrecorded")
"""The facts that metrics and events show. The others, e.g. steps and spans, would keep a request's memory alive."""
_label_facts: Callable[[Facts], tuple[Any, ...]] = attrgetter(*_LABEL_FACTS)

_Request = tuple[int, float, tuple[Any, ...], bool]
"""Span id of the root, start in Unix seconds, `_LABEL_FACTS`, and whether the request is to be evaluated."""


@dataclass(slots=True)
class _Waiting:
    until: float
    scores: list[Score] = field(default_factory=list)


class CodeScores:
    """The scores that wait for their requests' evaluations, by trace id."""

    def __init__(self, deliver: Callable[[Evaluation], None]) -> None:
        """`deliver` gets the evaluations of scores that leave alone, in a thread of this object's own."""
        self._deliver = deliver
        self._reset()
        self._queue: Background[None] = Background("ragtrace-scores", self._work, Bounds(items=_SCORES, batch=_SCORES))
        after_fork(self._reset)

    def _reset(self) -> None:
        self._lock = threading.RLock()  # a finalizer may give a score while its thread has the lock
        self._requests: dict[int, _Request] = {}
        self._waiting: dict[int, _Waiting] = {}
        self._count = 0
        self._flushing = self._closing = False

    def observe(self, trace: Trace, decision: Decision) -> None:
        """Remember a finished request. Runs in its thread: a few single operations on a dictionary."""
        self._requests[trace.trace_id] = (trace.span_id, trace.started, _label_facts(trace.facts), decision.keep)
        while len(self._requests) > _REQUESTS:
            with suppress(KeyError, RuntimeError, StopIteration):  # another thread was faster
                del self._requests[next(iter(self._requests))]
        if not decision.keep and trace.trace_id in self._waiting:
            self._queue.wake()

    def add(self, trace_id: int, score: Score) -> bool:
        """Take a score; False if too many wait, or after `close`. Never waits."""
        is_inside = otel.get_current_span().get_span_context().trace_id == trace_id
        with self._lock:
            if self._count >= _SCORES or self._queue.closed:
                return False
            self._count += 1
            until = time.monotonic() + (3_600.0 if is_inside else _WAIT)
            self._waiting.setdefault(trace_id, _Waiting(until)).scores.append(score)
        return self._queue.put(None) is None

    def take(self, trace_id: int) -> Sequence[Score]:
        """The scores that leave with the evaluation of this request; later ones leave alone."""
        with self._lock:
            request = self._requests.get(trace_id)
            if request is not None:
                self._requests[trace_id] = (*request[:3], False)
            return self._pop(trace_id)

    def _pop(self, trace_id: int) -> list[Score]:
        waiting = self._waiting.pop(trace_id, None)
        scores = waiting.scores if waiting is not None else []
        self._count -= len(scores)
        return scores

    def _work(self, _items: Sequence[None]) -> float | None:
        """Deliver what no evaluation will take with it; seconds until the next score has waited long enough."""
        now = time.monotonic()
        due: list[tuple[int, list[Score]]] = []
        with self._lock:
            for trace_id, waiting in list(self._waiting.items()):
                request = self._requests.get(trace_id)
                is_free = request is not None and (self._flushing or not request[3])
                if is_free or self._closing or waiting.until <= now:
                    due.append((trace_id, self._pop(trace_id)))
            soonest = min((waiting.until for waiting in list(self._waiting.values())), default=math.inf)
        for trace_id, scores in due:
            self._deliver(Evaluation(self._trace(trace_id), tuple(scores), is_late=True))
        return None if soonest == math.inf else max(0.0, soonest - now)

    def _trace(self, trace_id: int) -> Trace:
        """The request without its texts. Without a span id where another process has answered it."""
        span_id, started, values, _ = self._requests.get(trace_id, (0, 0.0, (), False))
        facts = Facts(**dict(zip(_LABEL_FACTS, values, strict=bool(values))))
        return Trace(trace_id, span_id, "", (), "", started=started, facts=facts)

    def flush(self, timeout: float = 10.0) -> bool:
        """Deliver the scores of all finished requests; False after `timeout` seconds."""
        if not self._waiting and not self._queue.waiting and not self._queue.running:
            return True  # starts no thread where no score was given
        self._flushing = True
        try:
            self._queue.wake()
            return self._queue.flush(timeout)
        finally:
            self._flushing = False

    def close(self, timeout: float = 5.0) -> None:
        """Deliver all scores. Safe to call twice."""
        self._closing = True
        if self._waiting:
            self.flush(timeout)
        self._queue.close(timeout)
