"""Builds the attributes of a run's span, and the event of a model call."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from opentelemetry import context as otel_context
from opentelemetry import trace as otel
from opentelemetry.trace import INVALID_SPAN, Span, Status, StatusCode

from ragtrace import semconv
from ragtrace._version import __version__
from ragtrace.capture.content import (
    MAX_DOCUMENTS,
    Attributes,
    ContentPolicy,
    document_attributes,
    io_attributes,
    json_io,
    quoted,
)
from ragtrace.capture.message_attributes import message_texts, text_message, tool_attributes
from ragtrace.capture.model_messages import ModelMessage, PromptTemplate
from ragtrace.capture.provider_replies import USAGE_ATTRIBUTES
from ragtrace.capture.request import MODEL_CALLS, Run
from ragtrace.capture.span_writer import defer_attributes

_STRUCTURED = frozenset(
    {semconv.INPUT_MESSAGES, semconv.OUTPUT_MESSAGES, semconv.SYSTEM_INSTRUCTIONS, semconv.TOOL_DEFINITIONS}
)
"""Attributes that are JSON on a span and structured on an event."""
_WHOLE = frozenset({semconv.OP_WORKFLOW, semconv.OP_AGENT})
_MAX_VARIABLES = 10
_MAX_VARIABLE = 1_000
"""Characters of a prompt's variable: the context is in the messages, too, and there it is whole."""


def add_attributes(capture: ContentPolicy, run: Run, cancelled: bool, failed: Callable[[str], object]) -> None:
    """Give the span of a run that ends its attributes, which are made when somebody reads them. `failed` is called
    where they cannot be made: the span leaves without them. What is known only while the request is open is noted."""
    calls = run.request.model_calls
    if run.operation == semconv.OP_AGENT:
        run.attributes.update(_usage_of_agent(run))
    if calls and run.operation in _WHOLE and not run.failure and not cancelled:
        run.finish_reason = calls[-1].finish_reason
    if semconv.SAMPLED in run.attributes:  # the hold asks for it before the others are made
        run.span.set_attribute(semconv.SAMPLED, run.attributes[semconv.SAMPLED])
    # A copy: the run refers to its span, and what refers to itself waits for the garbage collector if nobody reads it.
    ended = replace(run, span=INVALID_SPAN)

    def make() -> Attributes:
        try:
            return span_attributes(capture, ended, cancelled)
        except Exception:  # noqa: BLE001 a value that cannot be written costs neither the span nor its request
            failed("attributes")
            return {}

    defer_attributes(run.span, make)


def span_attributes(capture: ContentPolicy, run: Run, cancelled: bool) -> Attributes:
    """In the order in which a span's limit would drop them: first what matters least."""
    attributes: Attributes = {}
    documents = None
    if run.documents is not None:
        prefix = semconv.OI_RERANK_OUT if run.operation == semconv.OP_RERANK else semconv.OI_DOCUMENTS
        attributes, documents = document_attributes(capture, run.documents, prefix)
    if run.candidates is not None:
        attributes.update(document_attributes(capture, run.candidates, semconv.OI_RERANK_IN)[0])
    attributes.update(capture.sanitizer.attributes(run.attributes))
    if run.first_chunk:
        attributes[semconv.REQUEST_STREAM] = True
        attributes[semconv.TIME_TO_FIRST_CHUNK] = max(0, run.first_chunk - run.started) / 1e9
    if cancelled:
        attributes[semconv.CANCELLED] = True
    attributes.update(run.request.common)
    attributes.update(_content(capture, run, cancelled, documents))
    if capture.openinference:
        if (call_id := attributes.get(semconv.TOOL_CALL_ID)) is not None:
            attributes[semconv.OI_TOOL_ID] = call_id
        attributes[semconv.OI_KIND] = semconv.OI_KINDS[run.operation]
    if run.candidates is not None:  # two lists of documents may pass a span's limit: what was set first goes first
        attributes[semconv.OPERATION] = run.operation
    return attributes


def _usage_of_agent(agent: Run) -> Attributes:
    """The tokens of all model calls below an agent, under OpenTelemetry's names alone: backends add up OpenInference's
    counts over all spans. Details such as cached tokens are among them: MLflow reads no span below one that has
    tokens."""
    sums: Attributes = {}
    for call in agent.request.model_calls:
        above: Run | None = call
        while above is not None and above is not agent:
            above = above.parent
        for name in USAGE_ATTRIBUTES if above is agent else ():
            value = call.attributes.get(name)
            if isinstance(value, int):
                sums[name] = sums.get(name, 0) + value
    return sums


def _content(capture: ContentPolicy, run: Run, cancelled: bool, documents: str | None) -> Attributes:
    """What a span was asked and what it answered, by its kind of operation."""
    answer = run.answer if run.answer is not None else "".join(run.chunks) or None
    if run.operation in MODEL_CALLS:
        return _model_call(capture, run, answer, cancelled)
    if run.operation == semconv.OP_EMBEDDINGS:
        return _embeddings(capture, run)
    attributes: Attributes = {}
    if capture.spans:
        attributes.update(_definitions(capture, run))
        attributes.update(_texts(capture, run, answer, cancelled))
    attributes.update(io_attributes(capture, run.query, answer))
    if capture.spans and run.reply and not answer:
        reply = message_texts(capture, run.reply, None, _reason(run, run.reply, cancelled)).json
        attributes[semconv.OUTPUT_MESSAGES] = reply
        attributes.update(json_io(capture, semconv.OI_OUTPUT, semconv.OI_OUTPUT_MIME, reply))
    if capture.spans and run.operation in {semconv.OP_RETRIEVAL, semconv.OP_RERANK}:
        attributes.update(json_io(capture, semconv.OI_OUTPUT, semconv.OI_OUTPUT_MIME, documents))
    return attributes


def _model_call(capture: ContentPolicy, run: Run, answer: str | None, cancelled: bool) -> Attributes:
    """The messages of a model call, or only their lengths in characters."""
    attributes: Attributes = {}
    if (workflow := _workflow_of(run)) is not None:
        attributes[semconv.WORKFLOW_NAME] = capture.text(workflow)
    if capture.openinference and run.finish_reason:
        attributes[semconv.OI_FINISH_REASON] = capture.text(run.finish_reason)
    if capture.openinference and (model := run.attributes.get(semconv.RESPONSE_MODEL)):
        # Backends know the price of this model, but not that of a deployment's name.
        attributes[semconv.OI_MODEL] = capture.text(model)
    if isinstance(version := run.request.prompt_version, (str, int, float)) and version != "":
        attributes[semconv.PROMPT_VERSION] = capture.sanitizer.text(version, 256)
        if capture.openinference:
            attributes[semconv.OI_PROMPT_VERSION] = attributes[semconv.PROMPT_VERSION]
    if not capture.spans:
        read = sum(len(message.text) for message in run.messages)
        return attributes | {semconv.INPUT_LENGTH: read, semconv.OUTPUT_LENGTH: len(answer or "")}
    attributes.update(_definitions(capture, run))
    prompt_texts = reply_texts = None
    if run.messages:
        prompt_texts = message_texts(capture, run.messages, semconv.OI_INPUT_MESSAGES)
        attributes.update(prompt_texts.flat)
        attributes[semconv.INPUT_MESSAGES] = prompt_texts.json
    reply = _reply(run, answer)
    if reply:
        reply_texts = message_texts(capture, reply, semconv.OI_OUTPUT_MESSAGES, _reason(run, reply, cancelled))
        attributes.update(reply_texts.flat)
        attributes[semconv.OUTPUT_MESSAGES] = reply_texts.json
    if run.parent is None and run.query is not None:
        attributes.update(io_attributes(capture, run.query, None))
    elif prompt_texts is not None:
        attributes.update(json_io(capture, semconv.OI_INPUT, semconv.OI_INPUT_MIME, prompt_texts.json))
    if len(reply) == 1 and (answer or isinstance(reply[0].content, str)) and not reply[0].calls:
        attributes.update(io_attributes(capture, None, answer))
    elif reply_texts is not None:
        attributes.update(json_io(capture, semconv.OI_OUTPUT, semconv.OI_OUTPUT_MIME, reply_texts.json))
    return attributes


def _workflow_of(run: Run) -> str | None:
    """The name of the workflow that a model call belongs to: OpenTelemetry has it on both spans."""
    above = run.parent
    while above is not None and above.parent is not None:
        above = above.parent
    name = above.attributes.get(semconv.WORKFLOW_NAME) if above is not None else None
    return name if isinstance(name, str) else None


def _reply(run: Run, answer: str | None) -> list[ModelMessage]:
    """What the model generated; the text so far where no more is known."""
    if run.reply:
        return list(run.reply)
    return [ModelMessage("assistant", answer)] if answer is not None else []


def _reason(run: Run, reply: Sequence[ModelMessage], cancelled: bool) -> str:
    """Why the run stopped where its model reports no reason: OpenTelemetry's schema requires one."""
    if run.finish_reason:
        return run.finish_reason
    if run.failure is not None:
        return "error"
    if cancelled:
        return "cancelled"
    return "tool_call" if any(message.calls for message in reply) else "stop"


def _definitions(capture: ContentPolicy, run: Run) -> Attributes:
    """The tools, the prompt's template and the system prompt of a model or an agent."""
    attributes: Attributes = {}
    if run.tools and run.operation != semconv.OP_TOOL:
        attributes.update(tool_attributes(capture, run.tools))
    if run.prompt is not None:
        attributes.update(_prompt(capture, run.prompt))
    if run.instructions:
        text = quoted(capture.text(run.instructions))
        attributes[semconv.SYSTEM_INSTRUCTIONS] = f'[{{"type": "text", "content": {text}}}]'
    return attributes


def _prompt(capture: ContentPolicy, prompt: PromptTemplate) -> Attributes:
    """The template of a model's messages and the values in it."""
    attributes: Attributes = {}
    variables = {
        capture.text(name): capture.sanitizer.text(value, _MAX_VARIABLE)
        for name, value in list((prompt.variables or {}).items())[:_MAX_VARIABLES]
    }
    for name, text in variables.items():
        attributes[f"{semconv.PROMPT_VARIABLE}{name}"] = text
    if capture.openinference:
        if prompt.template:
            attributes[semconv.OI_PROMPT_TEMPLATE] = capture.text(prompt.template)
        if variables:
            items = [f"{quoted(name)}: {quoted(text)}" for name, text in variables.items()]
            attributes[semconv.OI_PROMPT_VARIABLES] = f"{{{', '.join(items)}}}"
    return attributes


def _embeddings(capture: ContentPolicy, run: Run) -> Attributes:
    """The texts that were embedded, and how many vectors of which size they gave."""
    texts = run.embedded or ((run.query,) if run.query is not None else ())
    if not capture.spans:
        return {semconv.INPUT_LENGTH: sum(map(len, texts))} if texts else {}
    attributes: Attributes = {}
    if not texts or not capture.openinference:
        return attributes
    values = [capture.text(text) for text in texts[:MAX_DOCUMENTS]]
    for i, text in enumerate(values):
        attributes[f"{semconv.OI_EMBEDDINGS}.{i}.{semconv.OI_EMBEDDING_TEXT}"] = text
    if len(texts) == 1:
        attributes.update({semconv.OI_INPUT: values[0], semconv.OI_INPUT_MIME: semconv.MIME_TEXT})
    else:
        attributes.update(
            json_io(capture, semconv.OI_INPUT, semconv.OI_INPUT_MIME, json.dumps(values, ensure_ascii=False))
        )
    size = run.attributes.get(semconv.EMBEDDING_DIMENSIONS)
    if size is not None:
        result = json.dumps({"vectors": len(texts), "dimensions": size})
        attributes.update(json_io(capture, semconv.OI_OUTPUT, semconv.OI_OUTPUT_MIME, result))
    return attributes


def _texts(capture: ContentPolicy, run: Run, answer: str | None, cancelled: bool) -> Attributes:
    """What a span that is no model call was asked and what it answered, under OpenTelemetry's names."""
    query = run.query
    attributes: Attributes = {}
    if run.operation == semconv.OP_TOOL:
        attributes.update(_tool(capture, run, answer))
    if run.operation in {semconv.OP_RETRIEVAL, semconv.OP_RERANK}:
        if query:
            key = semconv.RETRIEVAL_QUERY if run.operation == semconv.OP_RETRIEVAL else semconv.OI_RERANK_QUERY
            attributes[key] = capture.text(query)
    elif run.operation == semconv.OP_AGENT or (run.parent is None and run.operation == semconv.OP_WORKFLOW):
        if query is not None:
            attributes[semconv.INPUT_MESSAGES] = text_message(capture, "user", query)
        if answer is not None:
            reason = _reason(run, (), cancelled)
            attributes[semconv.OUTPUT_MESSAGES] = text_message(capture, "assistant", answer, reason)
    return attributes


def _tool(capture: ContentPolicy, run: Run, answer: str | None) -> Attributes:
    """What a tool is for, and what it was called with. Its name is not content, and is written in any case."""
    attributes: Attributes = {}
    for key, text in ((semconv.TOOL_ARGUMENTS, run.query), (semconv.TOOL_RESULT, answer)):
        if text is not None:
            attributes[key] = capture.text(text)
    for tool in run.tools:
        if tool.description:
            attributes[semconv.TOOL_DESCRIPTION] = capture.text(tool.description)
            if capture.openinference:
                attributes[semconv.OI_TOOL_DESCRIPTION] = attributes[semconv.TOOL_DESCRIPTION]
        if tool.parameters is not None and capture.openinference:
            attributes[semconv.OI_TOOL_PARAMETERS] = capture.sanitizer.json(tool.parameters)
    return attributes


def emit_inference(capture: ContentPolicy, run: Run, logger_provider: Any) -> None:
    """Messages as an event: structured, and on no span."""
    from opentelemetry import _logs

    logger = _logs.get_logger("ragtrace", __version__, logger_provider)
    names = {key: value for key, value in run.attributes.items() if key.startswith(semconv.GENAI_PREFIX)}
    body: dict[str, Any] = {semconv.OPERATION: run.operation, **capture.sanitizer.attributes(names)}
    texts = {key: text for key, text in _definitions(capture, run).items() if key.startswith(semconv.GENAI_PREFIX)}
    if run.messages:
        texts[semconv.INPUT_MESSAGES] = message_texts(capture, run.messages, None).json
    reply = _reply(run, run.answer or "".join(run.chunks) or None)
    if reply:
        texts[semconv.OUTPUT_MESSAGES] = message_texts(capture, reply, None, _reason(run, reply, False)).json
    body.update({key: json.loads(text) if key in _STRUCTURED else text for key, text in texts.items()})
    logger.emit(
        _logs.LogRecord(
            timestamp=time.time_ns(),
            context=context_of(run.span),
            event_name=semconv.EVENT_INFERENCE,
            attributes=body,
        )
    )


def mark_failed(span: Span, error: BaseException | str, capture: ContentPolicy) -> str:
    """Set the status; returns `error.type`. The message and the stack trace often quote the input, so they leave only
    where content leaves, and through the same door."""
    name = error if isinstance(error, str) else type(error).__name__
    if capture.spans and not isinstance(error, str):
        span.set_status(Status(StatusCode.ERROR, capture.sanitizer.text(error, 500)))
        span.add_event("exception", capture.sanitizer.exception(error))
    else:
        span.set_status(Status(StatusCode.ERROR, name))
    return name


def context_of(span: Span) -> otel_context.Context:
    """A context with this span and nothing else."""
    return otel.set_span_in_context(span, otel_context.Context())
