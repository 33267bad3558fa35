"""Late scores as spans of their own: queryable in trace backends that show no events."""

from __future__ import annotations

import time
from typing import Any

from opentelemetry import trace as otel
from opentelemetry.context import Context
from opentelemetry.trace import Link, NonRecordingSpan, SpanKind, Status, StatusCode, set_span_in_context

from ragtrace import semconv
from ragtrace._version import __version__
from ragtrace.evaluation import NOT_APPLICABLE
from ragtrace.records import Evaluation
from ragtrace_otlp.events import event_attributes, root_context
from ragtrace_otlp.scores import ScoreFormat


class EvaluationSpanSink:
    """Makes a span `evaluation <name>` for each score: a child of the root span that carries exactly one link to it,
    as OpenInference asks of feedback that comes after the span's end."""

    def __init__(self, tracer_provider: Any = None, form: ScoreFormat | None = None) -> None:
        """`tracer_provider` defaults to the global one."""
        self._tracer = otel.get_tracer("ragtrace", __version__, tracer_provider)
        self._form = form or ScoreFormat()

    def __call__(self, evaluation: Evaluation) -> None:
        """Make the spans of one evaluation."""
        root = root_context(evaluation)
        context = set_span_in_context(NonRecordingSpan(root), Context())
        now = time.time_ns()
        for score in evaluation.scores:
            if score.label == NOT_APPLICABLE:
                continue
            attributes = event_attributes(evaluation, score, self._form)
            attributes[semconv.OPERATION] = semconv.OP_EVALUATION
            attributes[semconv.OI_KIND] = semconv.OI_KINDS[semconv.OP_EVALUATION]
            if evaluation.cause is not None:
                attributes[semconv.FAILURE_CAUSE] = evaluation.cause
            span = self._tracer.start_span(
                f"{semconv.OP_EVALUATION} {score.name}",
                context,
                SpanKind.INTERNAL,
                attributes,
                links=(Link(root),),
                start_time=now,
            )
            if score.error is not None:
                span.set_status(Status(StatusCode.ERROR, self._form.sanitizer.text(score.error, 256)))
            span.end(now)
