"""From a finished request to its scores: a bounded queue, worker threads, micro-batches, sinks.

The request's thread does one thing here: `submit`, a bounded append under a short lock. Everything else happens in
worker threads. Whatever fails there is counted, never raised."""

import inspect
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import NamedTuple

from ragtrace.base.background import Background, Bounds, after_fork, step_aside
from ragtrace.capture.child_thread import suppress_tracing
from ragtrace.errors import log_failure
from ragtrace.evaluation import NOT_APPLICABLE, Evaluator, under
from ragtrace.live.breaker import Breaker, Runners
from ragtrace.live.code_scores import CodeScores
from ragtrace.live.counts import Counts, Stats, Tally, inputs_of
from ragtrace.records import Evaluation, Score, Trace
from ragtrace.sampling import Decision, Sampler, joint, ratio

Sink = Callable[[Evaluation], None]
Adjust = Callable[[Sequence[Evaluator]], Sequence[Evaluator]]
"""The evaluators with their current thresholds and versions, in the same order; called before each batch."""
Observer = Callable[[Trace, Decision], None]
"""Called with every finished request, sampled or not, in the request's thread: it must take only microseconds."""

_FIRST, _SHORT, _LONG = 4, 1.0, 4.0
"""Requests that are evaluated and delivered together at first. Twice as many, up to `Limits.batch`, if that takes less
than `_SHORT` seconds; half as many if it takes longer than `_LONG`."""
_CUT = 1.0
"""Seconds that `close` waits at most for a thread that has taken a batch and not begun it."""
_STEP_BYTES = 1_000
"""About how many bytes a captured tool call takes at most: its texts are cut."""


@dataclass(frozen=True, slots=True)
class Limits(Bounds):
    """What the pipeline may use. Traces above `items` are dropped as `queue_full`, above `bytes` as `queue_bytes`."""

    items: int = 2_000
    bytes: float = 64 * 1024 * 1024
    """Bytes of text that wait at most."""
    batch: int = 16
    """Traces evaluated together."""
    wait: float = 0.25
    workers: int = 1
    """Threads. One suits local evaluators; judges that wait for a network gain from more."""


class _Item(NamedTuple):
    trace: Trace
    decision: Decision
    since: float


class _Notice(NamedTuple):
    """Notice that a sampled trace was dropped. Holds no text, so it needs no byte limit; cheap to make, because a full
    queue makes many, in the requests' threads."""

    trace_id: int
    span_id: int
    probability: float
    reason: str

    def evaluation(self) -> Evaluation:
        """What the sinks get: an evaluation without texts and scores."""
        trace = Trace(self.trace_id, self.span_id, "", (), "", sampling_probability=self.probability)
        return Evaluation(trace, (), "dropped", reason=self.reason)


class Pipeline:
    """Samples, queues and evaluates traces, and hands each evaluation to the sinks."""

    def __init__(
        self, evaluators: Sequence[Evaluator], sinks: Sequence[Sink] = (), *, sampler: Sampler | None = None,
        limits: Limits | None = None, observers: Sequence[Observer] = (),
        cause: Callable[[Trace, Sequence[Score]], str | None] | None = None,
        observe_duration: Callable[[str, float], None] | None = None, isolated_names: Iterable[str] = (),
        environment: Mapping[str, str] | None = None, adjust: Adjust | None = None,
        on_loaded: Callable[[], None] | None = None,
    ) -> None:  # fmt: skip
        """`sampler` defaults to all traces; `cause` names the cause of a bad answer from its scores. `observe_duration`
        is called for each trace and evaluator with the evaluator's name and its seconds for that trace.
        `isolated_names` are the evaluators that run in a child process (see `child_process.can_isolate`), and
        `environment` is set in it. `adjust` may give evaluators other thresholds and versions while they run: they run
        unchanged, and their scores are labelled again here, where those of child processes and threads come
        together. `on_loaded` is called in a worker thread when it has loaded its models and begins to evaluate."""
        self._evaluators = tuple(evaluators)
        self._adjust = adjust
        self.evaluators = self._adjusted_evaluators()
        """The evaluators with their current thresholds and versions."""
        self.limits = limits or Limits()
        self._sinks = tuple(sinks)
        self._observers = tuple(observers)
        self._sampler, self._sampler_failed = sampler or ratio(1.0), False
        self._cause = cause
        self._observe_duration = observe_duration
        isolated = frozenset(isolated_names)
        self._isolated = tuple(check for check in self._evaluators if check.name in isolated)
        self._on_loaded = on_loaded
        # A judge and a coroutine wait for all requests of a batch at the same time: a smaller batch is not faster.
        self._may_divide = not any(check.asks_judge or inspect.iscoroutinefunction(check.fn) for check in evaluators)
        self._environment = dict(environment or {})
        self._queue = Background("ragtrace-worker", self._work, self.limits, session=self._open_runners)
        self.code_scores = CodeScores(self._deliver)
        """The scores that the application's code gives."""
        self._reset()
        after_fork(self._reset)

    def _reset(self) -> None:
        self._tally = Tally()
        self._loaded = threading.Event()
        self._notices: deque[_Notice] = deque(maxlen=max(20_000, self.limits.items))
        self._breakers = {check.name: Breaker() for check in self._evaluators}
        self._portion = min(_FIRST, self.limits.batch) if self._may_divide else self.limits.batch
        self._runners: dict[int, Runners] = {}  # by thread
        self._batches: dict[int, Sequence[_Item]] = {}
        """The batch of each thread that evaluates. `close` takes away those that are not done in time."""
        self._is_cut = False
        """Whether `close` has taken the batches away: a batch that begins later is dropped too."""

    def start(self) -> None:
        """Start the workers now, so that the first request does not wait for it. Otherwise `submit` does it."""
        self._queue.start()

    # --- the request's thread --------------------------------------------------------------------

    def sample(self, trace: Trace) -> Decision:
        """Whether to evaluate this trace. Never raises: a sampler that does, or decides wrongly, keeps nothing."""
        try:
            decision = self._sampler(trace)
            if isinstance(decision.reason, str) and (not decision.keep or 0.0 < decision.probability <= 1.0):
                return decision
        except BaseException as error:
            if _is_interrupt(error):
                raise
            if not self._sampler_failed:
                self._sampler_failed = True
                log_failure(__name__, "ragtrace: the sampler failed; its requests are not evaluated")
        return Decision(False, 0.0, "sampler_error")

    def submit(self, trace: Trace, decision: Decision | None = None) -> bool:
        """Queue a trace for evaluation; True if it was accepted. Never blocks, never raises.

        `decision` is the result of `sample`, where the caller has it already."""
        try:
            return self._submit(trace, decision or self.sample(trace))
        except Exception:  # noqa: BLE001 the last line of defence in the request's thread
            self._tally.internal_errors += 1
            return False

    def _submit(self, trace: Trace, decision: Decision) -> bool:
        for observe in self._observers:
            observe(trace, decision)
        self.code_scores.observe(trace, decision)
        inputs = inputs_of(trace)
        size = _size_of(trace) if decision.keep else 0
        with self._queue.lock:
            tally = self._tally
            tally.decisions[decision.reason, decision.keep] += 1
            if not decision.keep:
                tally.sampled_out[inputs] += 1
                return False
            loss = self._queue.put(_Item(trace, decision, time.monotonic()), size)
            if loss is not None:
                tally.dropped[inputs] += 1
                if loss != "shutdown":  # the next batch delivers it; after `close` no batch follows
                    self._notices.append(_Notice(trace.trace_id, trace.span_id, decision.probability, loss))
        self._queue.start()
        return loss is None

    # --- the worker threads ----------------------------------------------------------------------

    @contextmanager
    def _open_runners(self) -> Iterator[None]:
        suppress_tracing()  # a sink may call an instrumented chain
        runners = self._runners[threading.get_ident()] = Runners(self._isolated, self._environment)
        try:
            runners.start()
            self._loaded.set()
            if self._on_loaded is not None:
                self._on_loaded()
            yield
        finally:
            runners.thread.stop()
            runners.process.stop()

    def _work(self, items: Sequence[_Item]) -> None:
        thread = threading.get_ident()
        with self._queue.lock:
            if not (is_cut := self._is_cut):
                self._batches[thread] = items
        if is_cut:
            for item in items:
                self._drop(item, "shutdown")
            self._queue.settle(len(items), "shutdown")
            return
        try:
            self._deliver_notices()
            while rest := self._batches.get(thread):
                self._evaluate_portion(rest, self._runners[thread])
        except BaseException:  # counted as dropped before the queue logs it: the counts must add up
            for item in self._batches.pop(thread, ()):
                self._drop(item, "internal")
            raise
        finally:
            self._batches.pop(thread, None)

    def _evaluate_portion(self, items: Sequence[_Item], runners: Runners) -> None:
        """Evaluate the first of these items: fewer of them where that takes long, because they are delivered together,
        and their root spans are held only for so long."""
        started = time.monotonic()
        portion = self._portion
        self._evaluate(items[:portion], items[portion:], runners)
        seconds = time.monotonic() - started
        if self._may_divide and seconds > _LONG:
            self._portion = max(1, portion // 2)
        elif seconds < _SHORT:
            self._portion = min(2 * portion, self.limits.batch)

    def _evaluate(self, items: Sequence[_Item], rest: Sequence[_Item], runners: Runners) -> None:
        traces = [replace(item.trace, sampling_probability=item.decision.probability) for item in items]
        scores: list[list[Score]] = [[] for _ in items]
        outcomes, errors = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
        left_out: set[int] = set()
        self.evaluators = self._adjusted_evaluators()
        for check, adjusted in zip(self._evaluators, self.evaluators, strict=True):
            probabilities, sampled_out = _sample(check, items)
            outcomes[check.name, "sampled_out"] += len(sampled_out)
            left_out.update(sampled_out)
            started = time.perf_counter()
            step_aside()
            results = self._breakers[check.name].run(check, traces, list(probabilities), runners)
            self._record_duration(check.name, time.perf_counter() - started, len(probabilities))
            for (i, probability), result in zip(probabilities.items(), results, strict=True):
                if adjusted is not check:
                    result = [under(adjusted, score) for score in result]  # noqa: PLW2901 the same scores, relabelled
                scores[i].extend(replace(score, sampling_probability=probability) for score in result)
                reasons = [score.error for score in result if score.error is not None]
                outcomes[check.name, "failed" if len(reasons) == len(result) else "scored"] += 1
                errors.update((check.name, reason) for reason in reasons)
        self._tally.log_new(errors)
        with self._queue.lock:
            if self._batches.pop(threading.get_ident(), None) is None:
                return  # `close` did not wait: these requests are dropped already
            self._batches[threading.get_ident()] = rest
            self._tally.outcomes.update(outcomes)
            self._tally.errors.update(errors)
        for i, (item, trace) in enumerate(zip(items, traces, strict=True)):
            step_aside()
            evaluation = self._conclude(item, trace, tuple(scores[i]))
            self._deliver(replace(evaluation, status="sampled_out") if i in left_out and not scores[i] else evaluation)
        self._queue.settle(len(items))

    def _adjusted_evaluators(self) -> tuple[Evaluator, ...]:
        return self._evaluators if self._adjust is None else tuple(self._adjust(self._evaluators))

    def _record_duration(self, name: str, seconds: float, traces: int) -> None:
        with self._queue.lock:
            self._tally.busy[name] = self._tally.busy.get(name, 0.0) + seconds
        try:
            for _ in range(traces if self._observe_duration is not None else 0):
                self._observe_duration(name, seconds / traces)  # type: ignore[misc]  # not None in this loop
        except Exception:  # noqa: BLE001 a metric's failure is counted, and costs no score
            self._count_internal_error()

    def _conclude(self, item: _Item, trace: Trace, scores: tuple[Score, ...]) -> Evaluation:
        lag = time.monotonic() - item.since
        applicable = [score for score in scores if score.label != NOT_APPLICABLE]
        failed = applicable and all(score.error is not None for score in applicable)
        cause = None
        try:
            cause = self._cause(trace, scores) if self._cause is not None else None
        except BaseException:  # noqa: BLE001 an error in the cause rule must not cost the scores
            log_failure(__name__, "ragtrace: finding the cause of trace %032x failed", trace.trace_id)
            self._count_internal_error()
        scores = (*scores, *self.code_scores.take(trace.trace_id))
        return Evaluation(trace, scores, "error" if failed else "scored", cause, lag)

    def _deliver(self, evaluation: Evaluation) -> None:
        for sink in self._sinks:
            try:
                sink(evaluation)
            except BaseException as error:
                if _is_interrupt(error):
                    raise
                name = sink.__qualname__ if inspect.isroutine(sink) else type(sink).__name__
                with self._queue.lock:
                    self._tally.sink_errors[name] += 1
                    first = self._tally.sink_errors[name] == 1
                if first:  # once: a broken sink would fill the log with every trace
                    log_failure(
                        __name__, "ragtrace: the sink %s failed; further failures are only counted", name, is_error=True
                    )

    def _deliver_notices(self) -> None:
        with self._queue.lock:
            notices = list(self._notices)
            self._notices.clear()
        for notice in notices:
            self._deliver(notice.evaluation())

    def _drop(self, item: _Item, reason: str) -> None:
        trace = item.trace
        with self._queue.lock:
            self._tally.dropped[inputs_of(trace)] += 1
        self._deliver(_Notice(trace.trace_id, trace.span_id, item.decision.probability, reason).evaluation())

    def _count_internal_error(self) -> None:
        with self._queue.lock:
            self._tally.internal_errors += 1

    # --- control ---------------------------------------------------------------------------------

    def flush(self, timeout: float = 10.0) -> bool:
        """Wait until everything accepted so far is evaluated and delivered; False after `timeout` seconds."""
        until = time.monotonic() + timeout
        return self._queue.flush(timeout) and self.code_scores.flush(max(0.0, until - time.monotonic()))

    @property
    def is_loaded(self) -> bool:
        """Whether a worker has loaded its models."""
        return self._loaded.is_set()

    def wait_until_loaded(self, timeout: float) -> bool:
        """Wait until a worker has loaded its models; False after `timeout` seconds. True where nothing waits for it."""
        return not (self._queue.waiting or self._queue.running) or self._loaded.wait(timeout)

    def close(self, timeout: float = 5.0) -> bool:
        """Take no further traces, evaluate what waits for up to `timeout` seconds, drop the rest as `shutdown`.

        True if nothing had to be dropped. Safe to call twice."""
        rest = self._queue.close(timeout)
        with self._queue.lock:
            for thread, items in self._batches.items():
                self._queue.settle(len(items), "shutdown", thread=thread)
            unfinished = [item for items in self._batches.values() for item in items]
            beginning = self._queue.running_threads - self._batches.keys()
            self._batches.clear()
            self._is_cut = True
        self._queue.wait_for(beginning, _CUT)  # they drop what they took; the sinks close next
        self._deliver_notices()
        for item in (*unfinished, *rest):
            self._drop(item, "shutdown")
        self.code_scores.close()
        return not unfinished and not rest

    def counts(self) -> Mapping[str, Counts]:
        """Per evaluator, from one snapshot. What waits or runs is not in it yet."""
        with self._queue.lock:
            return {check.name: self._tally.counts_of(check) for check in self._evaluators}

    def stats(self) -> Stats:
        """The pipeline's own state, from one snapshot."""
        with self._queue.lock:
            return self._tally.stats(self._queue.stats())


def _is_interrupt(error: BaseException) -> bool:
    """Whether it is the Ctrl-C of somebody who ends the program: Python raises it in the main thread alone."""
    return isinstance(error, KeyboardInterrupt) and threading.current_thread() is threading.main_thread()


def _sample(check: Evaluator, items: Sequence[_Item]) -> tuple[dict[int, float], list[int]]:
    """The items that an evaluator scores, as {index: probability}, and those that its own sampler has left out."""
    probabilities: dict[int, float] = {}
    sampled_out: list[int] = []
    for i, item in enumerate(items):
        if not check.applies(item.trace):
            continue
        decision = item.decision
        if check.sampler:
            try:
                decision = joint(decision, check.sampler(item.trace))
            except BaseException:  # noqa: BLE001 a user's sampler: it keeps nothing, and other evaluators do
                decision = Decision(False, 0.0, "sampler_error")
        if decision.keep:
            probabilities[i] = decision.probability
        else:
            sampled_out.append(i)
    return probabilities, sampled_out


def _size_of(trace: Trace) -> int:
    """About how many bytes of text the trace keeps alive."""
    size = 500 + sys.getsizeof(trace.query) + sys.getsizeof(trace.answer)
    for document in trace.documents:
        size += 300 + sys.getsizeof(document.content)
    for metadata in (trace.attributes, *(document.metadata for document in trace.documents)):
        size += sum(len(value) for value in metadata.values() if isinstance(value, str))
    return size + len(trace.steps) * _STEP_BYTES
