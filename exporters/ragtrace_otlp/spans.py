"""Late scores as spans of their own: queryable in trace backends that show no events."""

import contextlib
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from opentelemetry import trace as otel
from opentelemetry.context import Context
from opentelemetry.trace import Link, NonRecordingSpan, SpanKind, Status, StatusCode, set_span_in_context

from ragtrace import semconv
from ragtrace._version import __version__
from ragtrace.base.background import Background, Bounds
from ragtrace.evaluation import NOT_APPLICABLE
from ragtrace.records import Evaluation
from ragtrace_otlp.events import root_context
from ragtrace_otlp.scores import ScoreFormat, score_attributes, without_content


class EvaluationSpanSink:
    """Makes one span `evaluation` for the scores of a request: a child of the root span that carries exactly one link
    to it, as OpenInference asks of feedback that comes after the span's end. The scores have the names that they have
    on a root span."""

    def __init__(self, tracer_provider: Any = None, form: ScoreFormat | None = None, gather: float = 0.0) -> None:
        """`tracer_provider` defaults to the global one. Scores of one request that come within `gather` seconds leave
        in one span, which a thread of the sink's own makes; with 0 each evaluation has its span at once."""
        self._tracer = otel.get_tracer("ragtrace", __version__, tracer_provider)
        self._form = form or ScoreFormat()
        bounds = Bounds(items=2_000, batch=2_000, wait=gather)
        self._queue = Background("ragtrace-late", self._work, bounds) if gather else None

    def __call__(self, evaluation: Evaluation) -> None:
        """Take the scores of one evaluation."""
        if not evaluation.trace.span_id:  # another process has answered the request: there is nothing to link to
            return
        if all(score.label == NOT_APPLICABLE for score in evaluation.scores):
            return
        if self._queue is None:
            self._make_span(evaluation)
        else:
            self._queue.put(without_content(evaluation))

    @property
    def undelivered(self) -> int:
        """Evaluations for which there was no room."""
        return sum(self._queue.stats().dropped.values()) if self._queue is not None else 0

    def flush(self, timeout: float = 10.0) -> bool:
        """Make the spans of what was gathered; False after `timeout` seconds."""
        return self._queue is None or self._queue.flush(timeout)

    def _work(self, batch: Sequence[Evaluation]) -> None:
        by_root: dict[tuple[int, int], Evaluation] = {}
        for evaluation in batch:
            key = (evaluation.trace.trace_id, evaluation.trace.span_id)
            before = by_root.get(key)
            if before is not None:
                evaluation = replace(  # noqa: PLW2901 both together
                    evaluation, scores=before.scores + evaluation.scores, cause=evaluation.cause or before.cause
                )
            by_root[key] = evaluation
        for evaluation in by_root.values():
            self._make_span(evaluation)

    def _make_span(self, evaluation: Evaluation) -> None:
        root = root_context(evaluation)
        now = time.time_ns()
        span = self._tracer.start_span(
            semconv.OP_EVALUATION, set_span_in_context(NonRecordingSpan(root), Context()), SpanKind.INTERNAL,
            links=[Link(root)], start_time=now,
        )  # fmt: skip
        with contextlib.suppress(AttributeError):  # as on the root span: else the first of many scores are lost
            span._attributes.maxlen = None  # type: ignore[attr-defined]  # of the SDK's spans
        span.set_attributes(score_attributes(evaluation, self._form))
        span.set_attribute(semconv.PROBABILITY, evaluation.trace.sampling_probability)
        span.set_attribute(semconv.OPERATION, semconv.OP_EVALUATION)
        if self._form.openinference:
            span.set_attribute(semconv.OI_KIND, semconv.OI_KINDS[semconv.OP_EVALUATION])
        errors = [score.error for score in evaluation.scores if score.label != NOT_APPLICABLE]
        if all(errors):
            span.set_status(Status(StatusCode.ERROR, self._form.sanitizer.text(str(errors[0]), 256)))
        span.end(now)
