"""A running ragtrace: its counters, its parts, and how it is closed."""

from __future__ import annotations

import atexit
import contextlib
import importlib
import importlib.util
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ragtrace.base.background import after_fork
from ragtrace.capture import manual, recorder
from ragtrace.capture.adapters import failures
from ragtrace.capture.content import ContentPolicy
from ragtrace.capture.reply_streams import reaper
from ragtrace.evaluation import Evaluator
from ragtrace.live.counts import Counts
from ragtrace.live.pipeline import Pipeline
from ragtrace.records import Feedback, Score
from ragtrace.settings import Settings

_current: Runtime | None = None
_LOADING = 30.0
"""Seconds that the models may still take to load at the end, where a request waits for them."""
_QUIET = 1.0
"""Seconds of waiting at the end of the process before a sentence says why."""
_LEAST = 0.5
_STEP = 1.0
"""Seconds of one wait at the end of the process."""
_ADAPTERS = (
    ("langchain", "langchain_core", "ragtrace_langchain", "RagtraceLangChainInstrumentor"),
    ("llama_index", "llama_index_instrumentation", "ragtrace_llama_index", "RagtraceLlamaIndexInstrumentor"),
)


@dataclass(frozen=True, slots=True)
class Parts:
    """What runs beside the pipeline; None for what the settings leave out."""

    telemetry: Any = None
    """Has `tracer_provider`, `logger_provider`, `stats()`; waits like the others."""
    metrics: Any = None
    """Has `url`, `observe_feedback(value, score, category)`, `close()`."""
    journal: Any = None
    """Has `lost`, `close()`."""
    store: Any = None
    """Has `undelivered`, `flush(seconds)`, `close(seconds)`, as all that waits."""
    feedback: Any = None
    """Takes each `Feedback`; waits like the store."""
    source: Any = None
    """Other libraries' spans: has `flush(seconds)`, `close(seconds)`, `stats()`."""
    deliveries: Sequence[Any] = ()
    """To Phoenix, MLflow and Langfuse; each has `name` and `stats()`, and waits like the store."""


class Runtime:
    """A running ragtrace, as `init` returns it. It runs without a reference to this object; keep one to stop it or to
    read its counters."""

    def __init__(self, settings: Settings, pipeline: Pipeline, parts: Parts) -> None:
        self.settings = settings
        self.pipeline = pipeline
        self.telemetry = parts.telemetry
        self.store: Any = parts.store
        """The sink of the setting `store`, with its counters; None without."""
        self.capture: ContentPolicy | None = None
        """What the instrumentation may put on spans."""
        self.adopt: Callable[[Sequence[Evaluator]], None] | None = None
        """Set while a test records (see `ragtrace.testing.record`): `init` gives its evaluators here, and starts
        nothing."""
        self.init_request: Any = None
        """What `init` was asked for; None for a runtime that it did not start."""
        self.take_score: Callable[[int, Score], bool] = pipeline.code_scores.add
        """Takes a score that code gives; False if it is lost."""
        self._parts = parts
        self.is_closed = False
        self._closing_thread: int | None = None
        self._close_ended = threading.Event()
        self._close_result = True
        self._after_close: Callable[[], None] | None = None
        self._ends_the_process = False
        self.at_close: Callable[[], None] | None = None
        """Called when everything has stopped."""
        self._reset()
        after_fork(self._reset)

    def _reset(self) -> None:
        # In a forked child all counts begin at 0.
        self._reported = failures.count  # of earlier runtimes

    @property
    def tracer_provider(self) -> Any:
        """The provider that spans go to; None where there is no OpenTelemetry SDK."""
        return getattr(self.telemetry, "tracer_provider", None)

    @property
    def metrics_url(self) -> str | None:
        """Where /metrics is served, or None."""
        return self._parts.metrics.url if self._parts.metrics is not None else None

    @property
    def export(self) -> Any:
        """Counters of the exporters: exported and lost items; None without an OpenTelemetry SDK."""
        return self.telemetry.stats() if self.telemetry is not None else None

    @property
    def spans(self) -> Any:
        """Counters of the spans of other libraries: requests found in them, traces that are open, and traces given up;
        None where no such spans are read."""
        return self._parts.source.stats() if self._parts.source is not None else None

    @property
    def deliveries(self) -> Mapping[str, Any]:
        """Counters of the scores for Phoenix, MLflow and Langfuse, by `phoenix`, `mlflow` and `langfuse`: `accepted =
        delivered + replaced + waiting + sum(lost)`."""
        return {delivery.name: delivery.stats() for delivery in self._parts.deliveries}

    def counts(self) -> Mapping[str, Counts]:
        """Per evaluator the number of this process's requests by outcome: `eligible = sampled_out + scored + failed +
        dropped`. Requests that still wait are in none of them. See `ragtrace.live.counts.Counts`."""
        return self.pipeline.counts()

    def flush(self, timeout: float = 10.0) -> bool:
        """Wait until the requests that have ended are evaluated, and their spans, events and stored rows have arrived.

        False if that takes more than `timeout` seconds, or if something since the last `flush` did not arrive: an
        endpoint that does not take it, a full queue, an evaluator that did not end, a sink or a store that fails. Waits
        in the calling thread alone."""
        until = time.monotonic() + timeout
        done = reaper.settle(timeout)
        source = None if self.is_closed else self._parts.source
        done = (source is None or source.flush(max(0.0, until - time.monotonic()))) and done
        done = (self.is_closed or self.pipeline.flush(max(0.0, until - time.monotonic()))) and done
        for part in () if self.is_closed else self._waiting():
            done = part.flush(max(0.0, until - time.monotonic())) and done
        if self.store is not None and not self.is_closed:
            done = self.store.wait_for_spill(max(0.0, until - time.monotonic())) and done
        return self._report_losses() == 0 and done

    def _report_losses(self) -> int:
        """How many items were lost since the last report."""
        journal = self._parts.journal
        before, self._reported = self._reported, self.pipeline.stats().undelivered
        self._reported += sum(part.undelivered for part in self._waiting()) + (journal.lost if journal else 0)
        self._reported += failures.count
        return max(0, self._reported - before)

    def _waiting(self) -> Iterator[Any]:
        """The parts that have queues, in the order in which they are flushed and closed."""
        # The deliveries come after the telemetry: a backend takes a score when it has its span.
        for part in (self._parts.telemetry, self._parts.store, self._parts.feedback, *self._parts.deliveries):
            if part is not None:
                yield part

    def feedback(self, message: Feedback) -> bool:
        """Record a user's feedback. Without a store it is a score `user_feedback` of the request, beside its metric.
        False if nothing records it, or the runtime is closed. See `ragtrace.feedback`, which never raises."""
        if self.is_closed:
            return False
        metrics, sink = self._parts.metrics, self._parts.feedback
        if metrics is not None:
            value = {1: "up", -1: "down"}.get(message.thumbs or 0, "other")
            category = message.category
            if category and self.capture is not None:
                category = self.capture.text(category)  # a label leaves the process
            metrics.observe_feedback(value, message.score, category)
        if sink is not None:
            sink(message)
        elif score := _as_score(message):
            return self.take_score(int(message.trace_id, 16), score) or metrics is not None
        return metrics is not None or sink is not None

    def score(self, trace_id: int, score: Score) -> bool:
        """Take a score from code. False if too many wait, or the runtime is closed. See `ragtrace.score`."""
        return not self.is_closed and self.take_score(trace_id, score)

    def close(self, timeout: float | None = None) -> bool:
        """Stop: remove the instrumentation, end open requests, evaluate waiting requests for up to `timeout` seconds,
        and send the rest without scores. None stands for the setting `exit_seconds`, counted from when the models of
        the evaluators are loaded, and at most 30 seconds more.

        False if something since the last `flush` did not arrive; see there. Safe to call twice."""
        if self.is_closed:
            return self._wait_until_closed(timeout)
        self.is_closed = True
        self._closing_thread = threading.get_ident()
        try:
            self._close_result = self._close(timeout)
            return self._close_result
        finally:
            self._close_ended.set()
            self._closing_thread = None
            if self._after_close is not None:
                self._after_close()

    def _wait_until_closed(self, timeout: float | None) -> bool:
        """Wait for another thread of this process that closes; what its `close` returns, False if it takes longer."""
        if self._closing_thread != threading.get_ident() and self._closing_thread in sys._current_frames():
            seconds = self.settings.exit_seconds + _LOADING + 3.0 if timeout is None else timeout
            return self._close_ended.wait(seconds) and self._close_result
        return self._close_result

    def close_for_signal(self, end: Callable[[], None]) -> None:
        """Close, and call `end`, which ends the process: called by a signal's handler in the main thread. Where `close`
        is under way it is finished first: one signal may follow another, and a child of a pool is terminated while it
        exits."""
        if self._closing_thread == threading.get_ident():
            self._after_close = end  # the main thread itself closes, and goes on when the handler returns
            return
        seconds = self.settings.exit_seconds
        if not self.is_closed:
            # In a thread of its own: this one may hold a lock that closing needs.
            threading.Thread(target=self.close, args=(seconds,), daemon=True).start()
        self._close_ended.wait(seconds + 3.0)
        end()

    def _close(self, timeout: float | None) -> bool:
        instrument(self, False)
        for each in recorder.all_recorders():
            each.expire()
        seconds = self.settings.exit_seconds if timeout is None else timeout
        if self._parts.source is not None:
            self._parts.source.close(seconds)
        if recorder.current_consumer() is self.pipeline:
            recorder.set_consumer(None)
        interrupt = self._evaluate_rest(seconds, 0.0 if timeout is not None else _LOADING)
        for ended in (self._parts.metrics, self._parts.journal):
            if ended is not None:
                ended.close()
        until = time.monotonic() + max(seconds, 1.0)  # for all together: each may have an endpoint that is silent
        for left, part in reversed([*enumerate(reversed([*self._waiting()]))]):
            part.close(max(_LEAST, until - time.monotonic() - left * _LEAST))  # something is left for the others
        if self.at_close is not None:
            self.at_close()
        forget(self)
        if interrupt is not None:
            raise interrupt
        return self._report_losses() == 0

    def _evaluate_rest(self, seconds: float, loading: float) -> KeyboardInterrupt | None:
        """Evaluate what waits. A Ctrl-C ends the wait, and is returned: what is there is sent before it is raised."""
        try:
            if loading:
                until = time.monotonic() + seconds
                if not self.pipeline.flush(min(_QUIET, seconds)) and self._ends_the_process:
                    self._say_what_is_waited_for()
                if not self.pipeline.is_loaded and _wait_in_steps(self.pipeline.wait_until_loaded, loading):
                    until = time.monotonic() + seconds
                _wait_in_steps(self.pipeline.flush, max(0.0, until - time.monotonic()))
                seconds = max(0.0, until - time.monotonic())
            self.pipeline.close(seconds)
        except KeyboardInterrupt as interrupt:
            self.pipeline.close(0.0)
            return interrupt
        return None

    def _say_what_is_waited_for(self) -> None:
        stats = self.pipeline.stats()
        if sys.stderr is not None:
            print(
                f"ragtrace waits until {stats.queued + stats.running} request(s) are evaluated, for up to "
                f"{self.settings.exit_seconds:g} s once the models are loaded (setting exit_seconds). Ctrl-C ends the "
                "wait; what has no scores by then is sent without them.",
                file=sys.stderr,
            )

    def close_at_exit(self) -> None:
        """Close at the end of the process: says what is waited for, and a Ctrl-C only ends the wait."""
        self._ends_the_process = True
        with contextlib.suppress(KeyboardInterrupt):
            self.close()


def _wait_in_steps(wait: Callable[[float], bool], timeout: float) -> bool:
    """The result of `wait(timeout)`. Python can see a Ctrl-C that comes just before a wait only after it, so that no
    wait lasts long."""
    end = time.monotonic() + timeout
    while not wait(min(_STEP, max(0.0, end - time.monotonic()))):
        if time.monotonic() >= end:
            return False
    return True


def instrument(runtime: Runtime, on: bool, capture: ContentPolicy | None = None) -> None:
    """Instrument the frameworks that the settings name and that are there, and record by hand, or undo both."""
    runtime.capture = capture or runtime.capture
    providers: dict[str, Any] = {
        "tracer_provider": runtime.tracer_provider,
        "logger_provider": getattr(runtime.telemetry, "logger_provider", None),
    }
    manual.set_recorder(recorder.open_recorder("ragtrace", capture=capture, **providers) if on else None)
    for name, framework, module, attribute in _ADAPTERS:
        if (
            name not in runtime.settings.frameworks
            or runtime.settings.source == "spans"
            or importlib.util.find_spec(framework) is None
        ):
            continue
        instrumentor = getattr(importlib.import_module(module), attribute)()
        if instrumentor.is_instrumented_by_opentelemetry:
            instrumentor.uninstrument()
        if on:
            instrumentor.instrument(capture=runtime.capture, **providers)


def traces_itself() -> bool:
    """Whether an adapter of ragtrace traces a framework that the application has loaded."""
    for _, _, module, attribute in _ADAPTERS:
        instrumentor = getattr(sys.modules.get(module), attribute, None)
        if instrumentor is not None and instrumentor().is_tracing:
            return True
    return False


def current() -> Runtime | None:
    """The runtime of this process, if `init` was called."""
    return _current


def set_current(runtime: Runtime | None) -> None:
    """Make it the one of this process; None for no one."""
    global _current  # noqa: PLW0603 one runtime per process
    _current = runtime


def forget(runtime: Runtime) -> None:
    """Undo `set_current`, and do not close it at the end of the process: it is closed."""
    global _current  # noqa: PLW0603 one runtime per process
    atexit.unregister(runtime.close_at_exit)
    if _current is runtime:
        _current = None


def _as_score(message: Feedback) -> Score | None:
    """Feedback without its comment, for what shows scores; None where it has a comment or a category alone."""
    label = {1: "pass", -1: "fail"}.get(message.thumbs or 0)
    value = message.score if message.score is not None else {"pass": 1.0, "fail": 0.0}.get(label or "")
    return None if value is None else Score("user_feedback", value, label, method="human")
