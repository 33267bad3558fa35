"""Builds the attributes of a run's span and the event of a model call, and writes messages as OpenTelemetry's JSON."""

import json
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any
from weakref import WeakMethod

from opentelemetry import context as otel_context
from opentelemetry import trace as otel
from opentelemetry.trace import INVALID_SPAN, Span, Status, StatusCode

from ragtrace import semconv
from ragtrace._version import __version__
from ragtrace.capture import model_messages
from ragtrace.capture.content import Attributes, ContentPolicy, document_attributes, quoted
from ragtrace.capture.openinference import openinference
from ragtrace.capture.provider_replies import OI_COUNTS
from ragtrace.capture.request import MODEL_CALLS, Run
from ragtrace.capture.span_writer import defer_attributes

_OPT_IN = "OTEL_SEMCONV_STABILITY_OPT_IN"
_WHOLE = frozenset({semconv.OP_WORKFLOW, semconv.OP_AGENT})


def add_attributes(capture: ContentPolicy, run: Run, cancelled: bool, failed: Callable[[str], object]) -> None:
    """Give the span of a run that ends its attributes. They are made when somebody reads them, so this copies into the
    run what the request's end removes. Where they cannot be made, the function `failed` is called."""
    calls = run.request.model_calls
    if run.operation == semconv.OP_AGENT:
        run.attributes.update(_usage_of_agent(run))
    if calls and run.operation in _WHOLE and not run.failure and not cancelled:
        run.finish_reason = calls[-1].finish_reason
    if semconv.SAMPLED in run.attributes:  # the hold asks for it before the others are made
        run.span.set_attribute(semconv.SAMPLED, run.attributes[semconv.SAMPLED])
    # A copy: the run refers to its span, and what refers to itself waits for the garbage collector if nobody reads it.
    ended, note = replace(run, span=INVALID_SPAN), WeakMethod(failed)

    def make() -> Attributes:
        try:
            return span_attributes(capture, ended, cancelled)
        except Exception:  # noqa: BLE001 a value that cannot be written costs neither the span nor its request
            if (live := note()) is not None:
                live("attributes")
            return {}

    defer_attributes(run.span, make)


def span_attributes(capture: ContentPolicy, run: Run, cancelled: bool) -> Attributes:
    """In the order in which a span's limit would drop them: first what matters least."""
    answer = run.answer if run.answer is not None else "".join(run.chunks) or None
    standard = document_attributes(capture, run.documents) if run.documents is not None else {}
    standard.update(capture.sanitizer.attributes(run.attributes))
    if run.first_chunk:
        standard[semconv.REQUEST_STREAM] = True
        standard[semconv.TIME_TO_FIRST_CHUNK] = max(0, run.first_chunk - run.started) / 1e9
    if cancelled:
        standard[semconv.CANCELLED] = True
    standard.update(run.request.common)
    standard.update(_content(capture, run, answer, cancelled))
    standard[semconv.OPERATION] = run.operation
    _follow_release(standard)
    return {**openinference(capture, run, standard, answer), **standard} if capture.openinference else standard


def _follow_release(standard: Attributes) -> None:
    """Rename what the conventions v0.1.0 renamed, where the environment asks for new names or (`gen_ai/dup`) both."""
    wishes = {word.strip() for word in os.environ.get(_OPT_IN, "").split(",")}
    if wishes.isdisjoint({"gen_ai", "gen_ai_latest_experimental", "gen_ai/dup"}):
        return
    if (workflow := standard.get(semconv.WORKFLOW_NAME)) is not None:
        standard.setdefault(semconv.AGENT_NAME, workflow)
        if "gen_ai/dup" not in wishes:
            del standard[semconv.WORKFLOW_NAME]
    if isinstance(top_k := standard.get(semconv.REQUEST_TOP_K), (int, float)):  # a redacted number is a text
        standard[semconv.REQUEST_TOP_K] = int(top_k)


def _usage_of_agent(agent: Run) -> Attributes:
    """The tokens of all model calls below an agent, under OpenTelemetry's names alone: backends add up OpenInference's
    counts over all spans. Details such as cached tokens are among them: MLflow reads none below one with tokens."""
    sums: Attributes = {}
    for call in agent.request.model_calls:
        for name in OI_COUNTS if agent in call.above() else ():
            value = call.attributes.get(name)
            if isinstance(value, int):
                sums[name] = sums.get(name, 0) + value
    return sums


def _content(capture: ContentPolicy, run: Run, answer: str | None, cancelled: bool) -> Attributes:
    """What a span was asked and what it answered, by its kind of operation; only lengths where content stays in."""
    if run.operation == semconv.OP_EMBEDDINGS:
        embedded = run.embedded or ((run.query,) if run.query is not None else ())
        return {semconv.INPUT_LENGTH: sum(map(len, embedded))} if embedded and not capture.spans else {}
    is_model_call = run.operation in MODEL_CALLS
    attributes = _model_call(capture, run) if is_model_call else {}
    if not capture.spans:
        if is_model_call:
            read = sum(len(message.text) for message in run.messages)
            return attributes | {semconv.INPUT_LENGTH: read, semconv.OUTPUT_LENGTH: len(answer or "")}
        texts = {semconv.INPUT_LENGTH: run.query, semconv.OUTPUT_LENGTH: answer}
        return {key: len(text) for key, text in texts.items() if text is not None}
    attributes.update(_definitions(capture, run))
    if not is_model_call:
        attributes.update(_texts(capture, run, answer, cancelled))
    elif run.messages:
        attributes[semconv.INPUT_MESSAGES] = messages_json(capture, run.messages)
    reply = _reply(run, answer) if is_model_call else run.reply if not answer else ()
    if reply:
        attributes[semconv.OUTPUT_MESSAGES] = messages_json(capture, reply, _reason(run, reply, cancelled))
    return attributes


def _model_call(capture: ContentPolicy, run: Run) -> Attributes:
    """The workflow and the prompt's version of a model call."""
    attributes: Attributes = {}
    *_, root = (run, *run.above())
    if root is not run and isinstance(workflow := root.attributes.get(semconv.WORKFLOW_NAME), str):
        attributes[semconv.WORKFLOW_NAME] = capture.text(workflow)  # OpenTelemetry has it on both spans
    if isinstance(version := run.request.prompt_version, (str, int, float)) and version != "":
        attributes[semconv.PROMPT_VERSION] = capture.sanitizer.text(version, 256)
    return attributes


def _reply(run: Run, answer: str | None) -> list[model_messages.ModelMessage]:
    """What the model generated; the text so far where no more is known."""
    if run.reply:
        return list(run.reply)
    return [model_messages.ModelMessage("assistant", answer)] if answer is not None else []


def _reason(run: Run, reply: Sequence[model_messages.ModelMessage], cancelled: bool) -> str:
    """Why the run stopped where its model reports no reason: OpenTelemetry's schema requires one."""
    if run.finish_reason:
        return run.finish_reason
    if run.failure is not None:
        return "error"
    if cancelled:
        return "cancelled"
    return "tool_call" if any(message.calls for message in reply) else "stop"


def _definitions(capture: ContentPolicy, run: Run) -> Attributes:
    """The tools and the system prompt of a model or an agent."""
    attributes: Attributes = {}
    if run.tools and run.operation != semconv.OP_TOOL:
        attributes.update(tool_attributes(capture, run.tools))
    if run.instructions:
        text = quoted(capture.text(run.instructions))
        attributes[semconv.SYSTEM_INSTRUCTIONS] = f'[{{"type": "text", "content": {text}}}]'
    return attributes


def _texts(capture: ContentPolicy, run: Run, answer: str | None, cancelled: bool) -> Attributes:
    """What a span that is no model call was asked and what it answered, under OpenTelemetry's names."""
    query = run.query
    attributes: Attributes = {}
    if run.operation == semconv.OP_TOOL:
        attributes.update(_tool(capture, run, answer))
    if run.operation == semconv.OP_RETRIEVAL:
        if query:
            attributes[semconv.RETRIEVAL_QUERY] = capture.text(query)
    elif run.operation == semconv.OP_AGENT or (run.parent is None and run.operation == semconv.OP_WORKFLOW):
        if query is not None:
            attributes[semconv.INPUT_MESSAGES] = messages_json(capture, [model_messages.ModelMessage("user", query)])
        if answer is not None:
            reply = [model_messages.ModelMessage("assistant", answer)]
            attributes[semconv.OUTPUT_MESSAGES] = messages_json(capture, reply, _reason(run, (), cancelled))
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
    return attributes


def emit_inference(capture: ContentPolicy, run: Run, logger_provider: Any) -> None:
    """Messages as an event: structured, and on no span."""
    from opentelemetry import _logs

    logger = _logs.get_logger("ragtrace", __version__, logger_provider)
    names = {key: value for key, value in run.attributes.items() if key.startswith(semconv.GENAI_PREFIX)}
    body: dict[str, Any] = {semconv.OPERATION: run.operation, **capture.sanitizer.attributes(names)}
    texts = _definitions(capture, run)
    if run.messages:
        texts[semconv.INPUT_MESSAGES] = messages_json(capture, run.messages)
    reply = _reply(run, run.answer or "".join(run.chunks) or None)
    if reply:
        texts[semconv.OUTPUT_MESSAGES] = messages_json(capture, reply, _reason(run, reply, False))
    body.update({key: json.loads(text) for key, text in texts.items()})  # JSON on a span, structured on an event
    context = otel.set_span_in_context(run.span, otel_context.Context())  # this span and nothing else
    logger.emit(
        _logs.LogRecord(timestamp=time.time_ns(), context=context, event_name=semconv.EVENT_INFERENCE, attributes=body)
    )


def mark_failed(span: Span, error: BaseException | str, capture: ContentPolicy) -> str:
    """Set the status; returns `error.type`. Message and stack trace, which quote the input, leave as content does."""
    name = error if isinstance(error, str) else type(error).__name__
    if capture.spans and not isinstance(error, str):
        span.set_status(Status(StatusCode.ERROR, capture.sanitizer.text(error, 500)))
        span.add_event("exception", capture.sanitizer.exception(error))
    else:
        span.set_status(Status(StatusCode.ERROR, name))
    return name


def messages_json(
    capture: ContentPolicy, messages: Sequence[model_messages.ModelMessage], default_reason: str | None = None
) -> str:
    """Returns messages as a JSON list: with `default_reason` a model's output, of which each needs a finish reason."""
    items: list[str] = []
    for message in messages:
        name = f', "name": {quoted(capture.text(message.name))}' if message.name else ""
        if isinstance(message.content, str):
            parts = _words(capture, "text", message.content)
        else:
            parts = ", ".join(_part(capture, part) for part in message.content)
        text = f'{{"role": {quoted(capture.text(message.role))}, "parts": [{parts}]{name}}}'
        if default_reason is not None:
            reason = capture.text(message.finish_reason or default_reason)
            text = f'{text[:-1]}, "finish_reason": {quoted(reason)}}}'
        items.append(text)
    return f"[{', '.join(items)}]"


# --- parts ---------------------------------------------------------------------------------------


def _part(capture: ContentPolicy, part: model_messages.Part) -> str:
    return _WRITERS[type(part)](capture, part)


def _words(capture: ContentPolicy, kind: str, text: str) -> str:
    return f'{{"type": "{kind}", "content": {quoted(capture.text(text))}}}'


def _call(capture: ContentPolicy, part: model_messages.ToolCallPart) -> str:
    name, arguments = quoted(capture.text(part.name)), _arguments(capture, part.arguments)
    error = f', "error": {quoted(capture.text(part.error))}' if part.error else ""
    identity = f'"id": {quoted(capture.text(part.id))}, ' if part.id else ""
    if part.kind == "server":
        detail = f'{{"type": {name}, "arguments": {arguments}}}'
        return f'{{"type": "server_tool_call", {identity}"name": {name}, "server_tool_call": {detail}}}'
    return f'{{"type": "tool_call", {identity}"name": {name}, "arguments": {arguments}{error}}}'


def _result(capture: ContentPolicy, part: model_messages.ToolResultPart) -> str:
    content = part.content
    if isinstance(content, (list, tuple)) and all(isinstance(item, model_messages.Part) for item in content):
        response = f"[{', '.join(_part(capture, item) for item in content)}]"
    else:
        response = _value(capture, content)
    identity = f'"id": {quoted(capture.text(part.id))}, ' if part.id else ""
    if part.kind == "server":
        detail = f'{{"type": "result", "content": {response}}}'
        return f'{{"type": "server_tool_call_response", {identity}"server_tool_call_response": {detail}}}'
    return f'{{"type": "tool_call_response", {identity}"response": {response}}}'


def _media(capture: ContentPolicy, part: model_messages.MediaPart) -> str:
    fields: dict[str, str | None] = {"modality": part.modality}
    if part.data is not None:
        fields |= {"type": "blob", "content": _data(capture, part.data)}
    elif part.file_id is not None and part.uri is None:
        fields |= {"type": "file", "file_id": capture.text(part.file_id)}
    else:
        fields |= {"type": "uri", "uri": capture.text(part.uri or "")}
    for key, value in (("mime_type", part.mime_type), ("name", part.name), ("transcript", part.transcript)):
        if value:
            fields[key] = capture.text(value)
    return json.dumps(fields, ensure_ascii=False)


_WRITERS: dict[type, Callable[[ContentPolicy, Any], str]] = {
    model_messages.TextPart: lambda capture, part: _words(capture, "text", part.text),
    model_messages.ReasoningPart: lambda capture, part: _words(capture, "reasoning", part.text),
    model_messages.ToolCallPart: _call, model_messages.ToolResultPart: _result, model_messages.MediaPart: _media,
}  # fmt: skip


def _data(capture: ContentPolicy, data: str) -> str:
    """Binary content in base64, or nothing: half an image shows nothing, and no redaction can read one."""
    sanitizer = capture.sanitizer
    return data if sanitizer.redact is None and len(data) <= sanitizer.max_chars else ""


def _arguments(capture: ContentPolicy, arguments: object) -> str:
    """A tool call's arguments as JSON: an object wherever they can be read as one."""
    if isinstance(arguments, str):
        try:
            value = json.loads(arguments) if arguments.strip() else {}
        except (ValueError, RecursionError):
            value = arguments
        arguments = value if isinstance(value, dict) else arguments
    return _value(capture, {} if arguments is None else arguments)


def _value(capture: ContentPolicy, value: object) -> str:
    """Any value as JSON; what is too long is text that is cut."""
    if isinstance(value, str):
        return quoted(capture.text(value))
    text = capture.sanitizer.json(value, capture.sanitizer.max_chars)
    return quoted(capture.text(value)) if text == "{}" and value else text


# --- tools ---------------------------------------------------------------------------------------


def tool_attributes(capture: ContentPolicy, tools: Sequence[model_messages.ToolDefinition]) -> Attributes:
    """Returns the definitions of the tools that a model may call."""
    items = []
    for tool in tools:
        kind, name = capture.text(tool.type), capture.text(tool.name)
        fields = f'"name": {quoted(name)}'
        if tool.description:
            fields += f', "description": {quoted(capture.text(tool.description))}'
        if tool.parameters is not None:
            fields += f', "parameters": {_value(capture, tool.parameters)}'
        items.append(f'{{"type": {quoted(kind)}, {fields}}}')
    return {semconv.TOOL_DEFINITIONS: f"[{', '.join(items)}]"}
