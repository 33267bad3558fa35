"""From a finished request to its scores: a bounded queue, daemon workers, micro-batches, sinks.

The request's thread does one thing here: `submit`, a bounded append under a short lock. Everything else happens in
threads of our own, and whatever goes wrong there is counted, never raised.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
import weakref
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from ragtrace.evaluation import NOT_APPLICABLE, Evaluator, under
from ragtrace.online.breaker import Breaker, Runners
from ragtrace.online.counts import Counts, Stats, counted, inputs_of
from ragtrace.records import Evaluation, Score, Trace
from ragtrace.sampling import Decision, Sampler, joint, ratio

_log = logging.getLogger(__name__)

Sink = Callable[[Evaluation], None]
Adjust = Callable[[Sequence[Evaluator]], Sequence[Evaluator]]
"""Evaluators under the thresholds and versions of this moment, in their order; asked before each batch."""
Observer = Callable[[Trace, Decision], None]
"""Told of every finished request, sampled or not, in the request's thread: it must cost microseconds."""

_STEP_BYTES = 1_000
"""What a captured tool call takes at most, about: its texts are cut."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What the pipeline may use."""

    items: int = 2_000
    """Traces that wait at most; a further one is dropped as `queue_full`."""
    bytes: int = 64 * 1024 * 1024
    """Text that waits at most, in bytes; a further trace is dropped as `queue_bytes`."""
    batch: int = 16
    """Traces evaluated together."""
    wait: float = 0.25
    """Seconds that a trace waits for company at most."""
    workers: int = 1
    """Threads. One suits local evaluators; judges that wait on a network gain from more."""


@dataclass(frozen=True, slots=True)
class _Item:
    trace: Trace
    decision: Decision
    size: int
    since: float


_Notice = tuple[int, int, float, str]
"""That a sampled trace was dropped: its ids, its probability, the reason. Without texts, which would escape the byte
bound, and cheap to make: a full queue makes many, in the requests' threads."""


class Pipeline:
    """Samples, queues and evaluates traces, and hands each evaluation to the sinks."""

    def __init__(
        self,
        evaluators: Sequence[Evaluator],
        sinks: Sequence[Sink] = (),
        *,
        sampler: Sampler | None = None,
        limits: Limits | None = None,
        observers: Sequence[Observer] = (),
        cause: Callable[[Trace, Sequence[Score]], str | None] | None = None,
        timed: Callable[[str, float], None] | None = None,
        isolated: Iterable[str] = (),
        environment: Mapping[str, str] | None = None,
        adjust: Adjust | None = None,
    ) -> None:
        """`sampler` defaults to all; `cause` names the cause of a bad answer from its scores. `timed` is told, for each
        trace that an evaluator was given, the evaluator's name and its seconds for that trace. `isolated` are the
        evaluators that run in a child process; they must be loadable there by their names. `environment` is set in
        it. `adjust` may give evaluators other thresholds and versions while they run: they run as they were given, and
        their scores are labelled anew here, where those of child processes and threads come together."""
        self._given = tuple(evaluators)
        self._adjust = adjust
        self.evaluators = self._adjusted()
        """As they label now."""
        self.limits = limits or Limits()
        self._sinks = tuple(sinks)
        self._observers = tuple(observers)
        self._sampler = sampler or ratio(1.0)
        self._cause = cause
        self._timed = timed
        self._isolated = frozenset(isolated)
        self._environment = dict(environment or {})
        self._closed = False
        self._reset()
        _reset_in_children(self)

    def _reset(self) -> None:
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._full = threading.Event()
        self._idle = threading.Condition(self._lock)
        self._queue: deque[_Item] = deque()
        self._notices: deque[_Notice] = deque(maxlen=self.limits.items)
        self._bytes = 0
        self._running = 0
        self._flushing = 0
        self._threads: list[threading.Thread] = []
        self._runners: list[Runners] = []
        self._sampled_out: Counter[int] = Counter()
        self._dropped_inputs: Counter[int] = Counter()
        self._dropped: Counter[str] = Counter()
        self._decisions: Counter[tuple[str, bool]] = Counter()
        self._outcomes: Counter[tuple[str, str]] = Counter()
        self._errors: Counter[tuple[str, str]] = Counter()
        self._busy: defaultdict[str, float] = defaultdict(float)
        self._sink_errors: Counter[str] = Counter()
        self._offered = 0
        self._settled = 0
        self._internal_errors = 0
        self._breakers = {check.name: Breaker() for check in self.evaluators}

    def start(self) -> None:
        """Start the workers now, so that the first request does not pay for it. `submit` does it where nobody did."""
        with self._lock:
            if not self._threads and not self._closed:
                self._start()

    # --- the request's thread --------------------------------------------------------------------

    def sample(self, trace: Trace) -> Decision:
        """Whether this trace is to be evaluated. Never raises: a sampler that does keeps nothing, and is counted."""
        try:
            return self._sampler(trace)
        except Exception:  # noqa: BLE001 a user's sampler runs in the request's thread
            return Decision(False, 0.0, "sampler_error")

    def submit(self, trace: Trace, decision: Decision | None = None) -> bool:
        """Queue a trace for evaluation; True if it was accepted. Never blocks, never raises.

        `decision` is what `sample` said of it, where the caller asked already.
        """
        try:
            return self._submit(trace, decision or self.sample(trace))
        except Exception:  # noqa: BLE001 the last line of defence in the request's thread
            self._internal_errors += 1
            return False

    def _submit(self, trace: Trace, decision: Decision) -> bool:
        for observe in self._observers:
            observe(trace, decision)
        inputs = inputs_of(trace)
        if not decision.keep:
            with self._lock:
                self._offered += 1
                self._decisions[decision.reason, False] += 1
                self._sampled_out[inputs] += 1
            return False
        size = _size_of(trace)
        with self._lock:
            self._offered += 1
            self._decisions[decision.reason, True] += 1
            waiting = len(self._queue)
            refused = self._refusal(waiting, size)
            if refused is None:
                self._queue.append(_Item(trace, decision, size, time.monotonic()))
                self._bytes += size
                if not self._threads:
                    self._start()
            else:
                self._dropped[refused] += 1
                self._dropped_inputs[inputs] += 1
                if not self._closed:  # nobody is left to deliver it
                    self._notices.append((trace.trace_id, trace.span_id, decision.probability, refused))
        if waiting == 0:
            self._wake.set()
        if waiting + 1 >= self.limits.batch:
            self._full.set()
        return refused is None

    def _refusal(self, waiting: int, size: int) -> str | None:
        if self._closed:
            return "shutdown"
        if waiting >= self.limits.items:
            return "queue_full"
        # One trace larger than the whole bound is taken when nothing else waits: else it never could be.
        if waiting and self._bytes + size > self.limits.bytes:
            return "queue_bytes"
        return None

    def _start(self) -> None:
        for i in range(self.limits.workers):
            thread = threading.Thread(target=self._work, name=f"ragtrace-worker-{i}", daemon=True)
            self._threads.append(thread)
            thread.start()

    # --- our own threads -------------------------------------------------------------------------

    def _work(self) -> None:
        runners = Runners(self._isolated, self._environment)
        self._runners.append(runners)
        try:
            runners.start()
        except OSError:  # no process to be had: each evaluation will say so
            _log.warning("ragtrace: the evaluating process could not be started", exc_info=True)
        lock = self._lock  # a forked child has another one: its workers are not this thread
        while lock is self._lock:
            self._await_batch()
            items, notices = self._take()
            try:
                for notice in notices:
                    self._deliver(_dropped(notice))
                if items:
                    self._evaluate(items, runners)
            except Exception:  # noqa: BLE001 a worker that dies would take all later evaluations with it
                _log.exception("ragtrace: a batch of %d traces was not evaluated", len(items))
                self._lose(items)
            finally:
                self._done(items)
            if self._closed and not self._queue:
                runners.process.stop()
                return

    def _await_batch(self) -> None:
        self._wake.wait()
        if not self._flushing and not self._closed:
            self._full.wait(self.limits.wait)

    def _take(self) -> tuple[list[_Item], list[_Notice]]:
        with self._lock:
            items = [self._queue.popleft() for _ in range(min(self.limits.batch, len(self._queue)))]
            self._bytes -= sum(item.size for item in items)
            self._running += len(items)
            notices = list(self._notices)
            self._notices.clear()
            if not self._queue and not self._closed:
                self._wake.clear()
            if len(self._queue) < self.limits.batch:
                self._full.clear()
        return items, notices

    def _evaluate(self, items: Sequence[_Item], runners: Runners) -> None:
        traces = [replace(item.trace, sampling_probability=item.decision.probability) for item in items]
        scores: list[list[Score]] = [[] for _ in items]
        tally: Counter[tuple[str, str]] = Counter()
        errors: Counter[tuple[str, str]] = Counter()
        self.evaluators = now = self._adjusted()
        for check, labelling in zip(self._given, now, strict=True):
            chosen = []
            for i, item in enumerate(items):
                if not check.applies(traces[i]):
                    continue
                decision = joint(item.decision, check.sampler(item.trace)) if check.sampler else item.decision
                if decision.keep:
                    chosen.append((i, decision.probability))
                else:
                    tally[check.name, "sampled_out"] += 1
            started = time.perf_counter()
            results = self._breakers[check.name].run(check, traces, [i for i, _ in chosen], runners)
            self._clock(check.name, time.perf_counter() - started, len(chosen))
            if labelling is not check:
                results = [[under(labelling, score) for score in found] for found in results]
            for (i, probability), found in zip(chosen, results, strict=True):
                scores[i].extend(replace(s, sampling_probability=probability) for s in found)
                failed = [s for s in found if s.error is not None]
                tally[check.name, "failed" if len(failed) == len(found) else "scored"] += 1
                errors.update((check.name, str(s.error)) for s in failed)
        with self._lock:
            self._outcomes.update(tally)
            self._errors.update(errors)
        for item, trace, found in zip(items, traces, scores, strict=True):
            self._deliver(self._conclude(item, trace, tuple(found)))

    def _adjusted(self) -> tuple[Evaluator, ...]:
        return self._given if self._adjust is None else tuple(self._adjust(self._given))

    def _clock(self, name: str, seconds: float, traces: int) -> None:
        self._busy[name] += seconds
        if self._timed is None:
            return
        for _ in range(traces):
            try:
                self._timed(name, seconds / traces)
            except Exception:  # noqa: BLE001 a metric's failure is counted, and costs no score
                self._internal_errors += 1
                return

    def _conclude(self, item: _Item, trace: Trace, scores: tuple[Score, ...]) -> Evaluation:
        lag = time.monotonic() - item.since
        usable = tuple(s for s in scores if s.label != NOT_APPLICABLE)
        status = "error" if usable and all(s.error is not None for s in usable) else "scored"
        cause = None
        if self._cause is not None:
            try:
                cause = self._cause(trace, scores)
            except Exception:  # noqa: BLE001 a wrong cause rule must not cost the scores
                _log.exception("ragtrace: the cause of trace %032x could not be told", trace.trace_id)
                self._internal_errors += 1
        return Evaluation(trace, scores, status, cause, lag)

    def _deliver(self, evaluation: Evaluation) -> None:
        for sink in self._sinks:
            try:
                sink(evaluation)
            except Exception:  # noqa: BLE001 one broken destination never breaks another
                name = getattr(sink, "__qualname__", type(sink).__name__)
                with self._lock:
                    self._sink_errors[name] += 1
                    first = self._sink_errors[name] == 1
                if first:  # once: a broken sink would fill the log with every trace
                    _log.exception("ragtrace: the sink %s failed; further failures are only counted", name)

    def _lose(self, items: Sequence[_Item]) -> None:
        with self._lock:
            self._internal_errors += 1
        for item in items:
            self._drop(item, "internal")

    def _drop(self, item: _Item, reason: str) -> None:
        with self._lock:
            self._dropped[reason] += 1
            self._dropped_inputs[inputs_of(item.trace)] += 1
            self._settled -= 1  # `_done` counts it as settled; it is dropped instead
        self._deliver(_dropped((item.trace.trace_id, item.trace.span_id, item.decision.probability, reason)))

    def _done(self, items: Sequence[_Item]) -> None:
        with self._idle:
            self._running -= len(items)
            self._settled += len(items)
            self._idle.notify_all()

    # --- control ---------------------------------------------------------------------------------

    def flush(self, timeout: float = 10.0) -> bool:
        """Wait until everything accepted so far is evaluated and delivered; False if `timeout` seconds did not do."""
        with self._idle:
            self._flushing += 1
            self._wake.set()
            self._full.set()
            try:
                return self._idle.wait_for(lambda: not self._queue and not self._running and not self._notices, timeout)
            finally:
                self._flushing -= 1

    def close(self, timeout: float = 5.0) -> bool:
        """Take nothing more, evaluate what waits for up to `timeout` seconds, drop the rest as `shutdown`.

        True if nothing had to be dropped. Safe to call twice.
        """
        with self._lock:
            self._closed = True
            started = bool(self._threads)
        in_time = self.flush(timeout) if started else True
        with self._lock:
            left = list(self._queue)
            self._queue.clear()
            self._bytes = 0
            self._settled += len(left)
            notices = list(self._notices)
            self._notices.clear()
        self._wake.set()
        self._full.set()
        for notice in notices:
            self._deliver(_dropped(notice))
        for item in left:
            self._drop(item, "shutdown")
        return in_time and not left

    def counts(self) -> Mapping[str, Counts]:
        """Per evaluator, from one snapshot. What waits or runs is not in it yet."""
        with self._lock:
            out, dropped, outcomes = self._sampled_out.copy(), self._dropped_inputs.copy(), self._outcomes.copy()
        return {check.name: counted(check, out, dropped, outcomes) for check in self.evaluators}

    def stats(self) -> Stats:
        """The pipeline's own state, from one snapshot."""
        with self._lock:
            return Stats(
                offered=self._offered,
                sampled_out=sum(self._sampled_out.values()),
                settled=self._settled,
                queued=len(self._queue),
                queued_bytes=self._bytes,
                running=self._running,
                oldest_age=time.monotonic() - self._queue[0].since if self._queue else 0.0,
                dropped=dict(self._dropped),
                decisions=dict(self._decisions),
                errors=dict(self._errors),
                busy=dict(self._busy),
                sink_errors=dict(self._sink_errors),
                internal_errors=self._internal_errors,
            )


def _reset_in_children(pipeline: Pipeline) -> None:
    """A forked child starts empty: what waited belongs to the parent, and any lock may have been held at the fork."""
    reference = weakref.ref(pipeline)

    def reset() -> None:
        if (alive := reference()) is not None:
            alive._reset()

    os.register_at_fork(after_in_child=reset)


def _size_of(trace: Trace) -> int:
    """Bytes of text that the trace keeps alive, about."""
    size = 500 + sys.getsizeof(trace.query) + sys.getsizeof(trace.answer)
    for document in trace.documents:
        size += 300 + sys.getsizeof(document.content)
    return size + len(trace.steps) * _STEP_BYTES


def _dropped(notice: _Notice) -> Evaluation:
    """What sinks are told of a sampled trace that will have no scores."""
    trace_id, span_id, probability, reason = notice
    bare = Trace(trace_id, span_id, "", (), "", sampling_probability=probability)
    return Evaluation(bare, (), "dropped", reason=reason)
