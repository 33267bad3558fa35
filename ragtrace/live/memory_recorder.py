"""Records requests in memory for tests: spans, traces and scores, with no thread, no file and no network."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from opentelemetry import context

from ragtrace import sampling
from ragtrace.capture import on_off, recorder
from ragtrace.capture.content import ContentPolicy
from ragtrace.capture.seen_context import forget_sessions
from ragtrace.errors import require
from ragtrace.evaluation import NOT_APPLICABLE, Evaluator, run
from ragtrace.live import runtime as running
from ragtrace.live.pipeline import Pipeline
from ragtrace.live.runtime import Parts, Runtime
from ragtrace.records import Evaluation, Feedback, Score, Trace
from ragtrace.sampling import Decision
from ragtrace.settings import Settings
from ragtrace.text.sanitizer import Sanitizer

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan, TracerProvider

_lock = threading.Lock()


class Recording:
    """What a test's requests left. Requests are evaluated where `scores`, `evaluations` or `spans` is read, in the
    thread that reads it."""

    def __init__(self, evaluators: Sequence[str | Evaluator] = ()) -> None:
        """`evaluators` are names, `module:attribute` or objects, as for `ragtrace.init`."""
        from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

        self._evaluators = _load(evaluators)
        self._exporter = InMemorySpanExporter()
        self._traces: list[Trace] = []
        self._evaluations: dict[int, Evaluation] = {}
        """By the trace's place."""
        self._code_scores: dict[int, list[Score]] = {}
        """By trace id: what `ragtrace.score` gave."""
        self.feedback: list[Feedback] = []
        """What calls of `ragtrace.feedback` gave."""

    # --- what a request leaves -------------------------------------------------------------------

    def sample(self, _trace: Trace) -> Decision:
        """Every request is evaluated."""
        return Decision(True, 1.0, "ratio")

    def submit(self, trace: Trace, _decision: Decision | None = None) -> bool:
        """Keep a finished request."""
        with _lock:
            self._traces.append(trace)
        return True

    def add_score(self, trace_id: int, score: Score) -> bool:
        """Keep a score that the application's code gives."""
        with _lock:
            self._code_scores.setdefault(trace_id, []).append(score)
        return True

    def use(self, evaluators: Sequence[str | Evaluator]) -> None:
        """Evaluate with these from now on. `ragtrace.init` calls it with its own while a recording is active."""
        self._evaluators = _load(evaluators)
        self._evaluations.clear()

    def clear(self) -> None:
        """Forget everything, the chunks of sessions too."""
        forget_sessions()
        with _lock:
            self._exporter.clear()
            self._traces.clear()
            self._evaluations.clear()
            self._code_scores.clear()
            self.feedback.clear()

    # --- what a test reads -----------------------------------------------------------------------

    @property
    def traces(self) -> list[Trace]:
        """The requests that have ended, in the order of their ends: question, documents, answer and facts."""
        with _lock:
            return list(self._traces)

    @property
    def evaluations(self) -> list[Evaluation]:
        """The evaluation of each request, with the scores that code gave it."""
        for place, trace in enumerate(self.traces):
            if place not in self._evaluations:
                checks = () if trace.facts.waiting else self._evaluators
                self._evaluations[place] = evaluate_now(trace, checks)
        own = self._code_scores
        return [replace(e, scores=(*e.scores, *own.get(e.trace.trace_id, ()))) for e in self._evaluations.values()]

    @property
    def scores(self) -> list[Score]:
        """The scores of all requests; those that do not apply are left out."""
        return [s for evaluation in self.evaluations for s in evaluation.scores if s.label != NOT_APPLICABLE]

    @property
    def spans(self) -> list[ReadableSpan]:
        """The spans that have ended, in the order of their ends. Roots have their scores as attributes."""
        from ragtrace_otlp.hold import with_attributes
        from ragtrace_otlp.scores import ScoreFormat, score_attributes

        form = ScoreFormat(explanations=True)
        by_root = {(e.trace.trace_id, e.trace.span_id): e for e in self.evaluations if e.scores}
        spans: list[ReadableSpan] = []
        for span in self._exporter.get_finished_spans():
            ids = span.get_span_context()
            evaluation = by_root.get((ids.trace_id, ids.span_id)) if ids is not None else None
            spans.append(span if evaluation is None else with_attributes(span, score_attributes(evaluation, form)))
        return spans


@contextlib.contextmanager
def record(
    evaluators: Sequence[str | Evaluator] = (), *, langchain: bool = True, llama_index: bool = True
) -> Iterator[Recording]:
    """Record the requests of the block in memory, with their content, and evaluate them on demand.

    The frameworks are instrumented for the block, also with RAGTRACE_ENABLED=false. A call of `ragtrace.init` in the
    block starts nothing and gives its evaluators to the recording. A ragtrace that runs already rests meanwhile. Raises
    MissingExtraError without the OpenTelemetry SDK."""
    require("opentelemetry.sdk", "otlp", "ragtrace.testing.record")
    recording = Recording(evaluators)
    recording.clear()
    frameworks = ("langchain",) * langchain + ("llama_index",) * llama_index
    settings = Settings(app="test", env="test", frameworks=frameworks)
    capture = ContentPolicy.of(True, sanitizer=Sanitizer(None))
    memory = _Memory(_provider(recording), recording.feedback)
    parts = Parts(telemetry=memory, feedback=memory)
    runtime = Runtime(settings, Pipeline((), sampler=sampling.ratio(0.0)), parts)
    runtime.adopt, runtime.take_score = recording.use, recording.add_score
    before, consumer, was_on = running.current(), recorder.current_consumer(), on_off.switch(True)
    running.instrument(runtime, True, capture)
    recorder.set_consumer(recording)
    running.set_current(runtime)
    try:
        yield recording
    finally:
        running.instrument(runtime, False)
        recorder.set_consumer(consumer)
        running.set_current(before)
        on_off.switch(was_on)
        if before is not None and before.settings.enabled:
            running.instrument(before, True)


def _load(evaluators: Sequence[str | Evaluator]) -> list[Evaluator]:
    from ragtrace.live.suite import make_suite

    return make_suite(Settings(evaluators=tuple(evaluators))) if evaluators else []


def _provider(recording: Recording) -> TracerProvider:
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.sampling import ALWAYS_ON

    disabled = os.environ.pop("OTEL_SDK_DISABLED", None)  # usual in tests; the provider reads it when it is made
    try:
        # Not Resource.create, which asks its detectors in threads.
        resource = Resource({"service.name": "test"})
        provider = TracerProvider(resource=resource, sampler=ALWAYS_ON, shutdown_on_exit=False)
    finally:
        if disabled is not None:
            os.environ["OTEL_SDK_DISABLED"] = disabled
    provider.add_span_processor(SimpleSpanProcessor(recording._exporter))
    return provider


def evaluate_now(trace: Trace, evaluators: Sequence[Evaluator]) -> Evaluation:
    """Evaluate a request in this thread, which waits; the evaluators are neither traced nor evaluated."""
    from ragtrace.evaluate.causes import cause

    # A judge may itself be an instrumented chain: it must be neither traced nor evaluated.
    token = context.attach(context.set_value(context._SUPPRESS_INSTRUMENTATION_KEY, True))
    try:
        scores = tuple(score for check in evaluators for score in run(check, [trace])[0])
        applicable = [score for score in scores if score.label != NOT_APPLICABLE]
        status = "error" if applicable and all(score.error is not None for score in applicable) else "scored"
        scores = tuple(replace(score, sampling_probability=1.0) for score in scores)
        return Evaluation(trace, scores, status, cause(trace, scores))
    finally:
        context.detach(token)


class _Memory:
    """Telemetry that has nothing to send, and feedback that goes into a list."""

    logger_provider = None
    undelivered = 0

    def __init__(self, tracer_provider: TracerProvider, messages: list[Feedback]) -> None:
        self.tracer_provider, self.stats = tracer_provider, dict
        self._messages = messages

    def __call__(self, message: Feedback, /) -> None:
        self._messages.append(message)

    def flush(self, timeout: float = 0.0) -> bool:
        """Nothing waits."""
        return True

    def close(self, timeout: float = 0.0) -> None:
        """Do nothing."""
