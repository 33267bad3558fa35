"""Scores as `gen_ai.evaluation.result` events: OpenTelemetry's form, which works at any time after the request."""

import time
from collections.abc import Callable
from typing import Any

from opentelemetry import _logs
from opentelemetry.context import Context
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, set_span_in_context

from ragtrace import semconv
from ragtrace._version import __version__
from ragtrace.evaluation import NOT_APPLICABLE
from ragtrace.records import Evaluation, Score
from ragtrace_otlp.scores import ScoreFormat


def root_context(evaluation: Evaluation) -> SpanContext:
    """The context of the request's root span, sampled if the span is."""
    trace = evaluation.trace
    flags = TraceFlags.DEFAULT if trace.facts.unrecorded else TraceFlags.SAMPLED
    return SpanContext(trace.trace_id, trace.span_id, is_remote=False, trace_flags=TraceFlags(flags))


class EventSink:
    """Emits one log record for each score that there is."""

    def __init__(
        self, logger_provider: Any = None, form: ScoreFormat | None = None, is_on: Callable[[], bool] = lambda: True
    ) -> None:
        """`logger_provider` defaults to the global one. Nothing is emitted once `is_on` returns False."""
        self._is_on = is_on
        self._logger = _logs.get_logger("ragtrace", __version__, logger_provider)
        self._form = form or ScoreFormat()

    def __call__(self, evaluation: Evaluation) -> None:
        """Emit the scores of one evaluation, below its root span."""
        scores = [s for s in evaluation.scores if s.label != NOT_APPLICABLE]
        if not scores or not self._is_on():
            return
        context = set_span_in_context(NonRecordingSpan(root_context(evaluation)), Context())
        for score in scores:
            self._logger.emit(
                _logs.LogRecord(
                    timestamp=time.time_ns(),
                    observed_timestamp=time.time_ns(),
                    context=context,
                    severity_number=_logs.SeverityNumber.WARN if score.error else _logs.SeverityNumber.INFO,
                    event_name=semconv.EVENT_EVALUATION,
                    attributes=event_attributes(evaluation, score, self._form),
                )
            )


def event_attributes(evaluation: Evaluation, score: Score, form: ScoreFormat) -> dict[str, Any]:
    """One score's attributes on its event."""
    attributes: dict[str, Any] = {
        semconv.EVALUATION_NAME: score.name, semconv.EVALUATOR_ID: score.name,
        semconv.EVALUATOR_VERSION: score.version, semconv.EVALUATOR_TYPE: score.method,
        semconv.PROBABILITY: score.sampling_probability,
    }  # fmt: skip
    response = evaluation.trace.facts.response_id
    if response is not None:
        attributes[semconv.RESPONSE_ID] = form.sanitizer.text(response, 256)
    if score.error is not None:
        attributes[semconv.ERROR_TYPE] = form.sanitizer.text(score.error, 256)
        return attributes
    if score.value is not None:
        attributes[semconv.EVALUATION_SCORE_VALUE] = float(score.value)
    if score.label is not None:
        attributes[semconv.EVALUATION_SCORE_LABEL] = form.label(score)
    if explanation := form.explanation(score):
        attributes[semconv.EVALUATION_EXPLANATION] = explanation
    return attributes
