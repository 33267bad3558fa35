"""Builds the attributes of a run's span, and the event of a model call."""

from __future__ import annotations

import json
import time
from typing import Any

from opentelemetry import context as otel_context
from opentelemetry import trace as otel
from opentelemetry.trace import Span

from ragtrace import semconv
from ragtrace._version import __version__
from ragtrace.tracing.content import (
    Attributes,
    ContentPolicy,
    document_attributes,
    io_attributes,
    length,
    message_attributes,
    structured_messages,
)
from ragtrace.tracing.request import MODEL_CALLS, Run


def span_attributes(capture: ContentPolicy, run: Run, cancelled: bool) -> Attributes:
    """In the order in which a span's limit would drop them: first what matters least."""
    attributes: Attributes = {}
    if run.documents is not None:
        prefix = semconv.OI_RERANK_OUT if run.operation == semconv.OP_RERANK else semconv.OI_DOCUMENTS
        attributes.update(document_attributes(capture, run.documents, prefix))
    if run.candidates is not None:
        attributes.update(document_attributes(capture, run.candidates, semconv.OI_RERANK_IN))
    attributes.update(capture.sanitizer.attributes(run.attributes))
    if run.first_chunk:
        attributes[semconv.REQUEST_STREAM] = True
        attributes[semconv.TIME_TO_FIRST_CHUNK] = max(0, run.first_chunk - run.started) / 1e9
    if cancelled:
        attributes[semconv.CANCELLED] = True
    attributes.update(run.request.common)
    attributes.update(_content(capture, run))
    if capture.openinference:
        attributes[semconv.OI_KIND] = semconv.OI_KINDS[run.operation]
    if run.candidates is not None:  # two lists of documents may pass a span's limit: what was set first goes first
        attributes[semconv.OPERATION] = run.operation
    return attributes


def _content(capture: ContentPolicy, run: Run) -> Attributes:
    """Query, messages and answer of a span, by its kind of operation."""
    answer = run.answer if run.answer is not None else "".join(run.chunks) or None
    attributes: Attributes = {}
    if run.operation in MODEL_CALLS:
        attributes.update(_messages(capture, run, answer))
        if run.parent is not None:
            return attributes
    elif capture.spans:
        attributes.update(_texts(capture, run, answer))
    attributes.update(io_attributes(capture, run.query, answer))
    return attributes


def _messages(capture: ContentPolicy, run: Run, answer: str | None) -> Attributes:
    """The messages of a model call, or only their lengths in characters."""
    if not capture.spans:
        read = sum(length(content) for _, content in run.messages)
        return {semconv.INPUT_LENGTH: read, semconv.OUTPUT_LENGTH: len(answer or "")}
    attributes: Attributes = {}
    if run.instructions:
        parts = [{"type": "text", "content": capture.text(run.instructions)}]
        attributes[semconv.SYSTEM_INSTRUCTIONS] = json.dumps(parts)
    if run.messages:
        attributes.update(message_attributes(capture, run.messages, semconv.INPUT_MESSAGES, semconv.OI_INPUT_MESSAGES))
    reply = run.reply or ([("assistant", answer)] if answer is not None else ())
    if reply:
        attributes.update(message_attributes(capture, reply, semconv.OUTPUT_MESSAGES, semconv.OI_OUTPUT_MESSAGES))
    return attributes


def _texts(capture: ContentPolicy, run: Run, answer: str | None) -> Attributes:
    """What a span that is no model call was asked and what it answered, under OpenTelemetry's names."""
    query = run.query
    attributes: Attributes = {}
    if run.operation == semconv.OP_TOOL:
        for key, text in ((semconv.TOOL_ARGUMENTS, query), (semconv.TOOL_RESULT, answer)):
            if text is not None:
                attributes[key] = capture.text(text)
    if run.operation in (semconv.OP_RETRIEVAL, semconv.OP_RERANK) and query:
        key = semconv.RETRIEVAL_QUERY if run.operation == semconv.OP_RETRIEVAL else semconv.OI_RERANK_QUERY
        attributes[key] = capture.text(query)
    elif run.parent is None:
        for key, role, text in (
            (semconv.INPUT_MESSAGES, "user", query), (semconv.OUTPUT_MESSAGES, "assistant", answer),
        ):  # fmt: skip
            if text is not None:
                attributes.update(message_attributes(capture, [(role, text)], key, None))
    return attributes


def emit_inference(capture: ContentPolicy, run: Run, logger_provider: Any) -> None:
    """Messages as an event: structured, and on no span."""
    from opentelemetry import _logs

    logger = _logs.get_logger("ragtrace", __version__, logger_provider)
    body: dict[str, Any] = {semconv.OPERATION: run.operation}
    if run.messages:
        body[semconv.INPUT_MESSAGES] = structured_messages(capture, run.messages)
    answer = run.answer or "".join(run.chunks)
    reply = run.reply or ([("assistant", answer)] if answer else ())
    if reply:
        body[semconv.OUTPUT_MESSAGES] = structured_messages(capture, reply)
    names: Attributes = {
        name: run.attributes[name] for name in (semconv.REQUEST_MODEL, semconv.PROVIDER) if name in run.attributes
    }
    body.update(capture.sanitizer.attributes(names))
    logger.emit(
        _logs.LogRecord(
            timestamp=time.time_ns(),
            context=context_of(run.span),
            event_name=semconv.EVENT_INFERENCE,
            attributes=body,
        )
    )


def context_of(span: Span) -> otel_context.Context:
    """A context with this span and nothing else."""
    return otel.set_span_in_context(span, otel_context.Context())
