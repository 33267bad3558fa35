"""Writes messages and tool definitions in both dialects: OpenTelemetry's JSON, and OpenInference's flat attributes.

Each text passes through the sanitizer once, and both dialects are written from the result.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from ragtrace import semconv
from ragtrace.capture.content import Attributes, ContentPolicy, quoted
from ragtrace.capture.model_messages import (
    MediaPart,
    ModelMessage,
    Part,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    ToolDefinition,
    ToolResultPart,
)

_MAX_FLAT = {semconv.OI_INPUT_MESSAGES: 56, semconv.OI_OUTPUT_MESSAGES: 24}
"""Flat attributes of a span's messages at most: a span keeps 128 attributes. The last messages are written, for they
say what was asked; the JSON holds all."""
_MAX_TOOLS = 10
"""Tools that are written flat."""


class MessageTexts(NamedTuple):
    """Messages as they are written on a span."""

    json: str
    """OpenTelemetry's form: a JSON list."""
    flat: Attributes
    """OpenInference's form: one attribute for each value."""


class _PartTexts(NamedTuple):
    """One part in both dialects."""

    json: str
    kind: str
    """Where OpenInference has it: `content`, `call`, or `message` for attributes of the message itself."""
    flat: Attributes


def message_texts(
    capture: ContentPolicy, messages: Sequence[ModelMessage], oi_prefix: str | None, default_reason: str | None = None
) -> MessageTexts:
    """Returns messages in both dialects; without OpenInference's form where `oi_prefix` is None.

    With `default_reason` they are a model's output, which needs a finish reason: this one where none was reported.
    """
    items: list[str] = []
    flat_messages: list[Attributes] = []
    flat = capture.openinference and oi_prefix is not None
    for message in messages:
        if type(message.content) is str and not message.name:  # nearly every message
            role, content = capture.text(message.role), capture.text(message.content)
            text = f'{{"role": {quoted(role)}, "parts": [{{"type": "text", "content": {quoted(content)}}}]}}'
            attributes: Attributes = {semconv.OI_MESSAGE_ROLE: role, semconv.OI_MESSAGE_CONTENT: content}
        else:
            text, attributes = _message(capture, message, flat)
        if default_reason is not None:
            reason = capture.text(message.finish_reason or default_reason)
            text = f'{text[:-1]}, "finish_reason": {quoted(reason)}}}'
        items.append(text)
        flat_messages.append(attributes)
    values = _numbered(flat_messages, oi_prefix) if flat and oi_prefix is not None else {}
    return MessageTexts(f"[{', '.join(items)}]", values)


def text_message(capture: ContentPolicy, role: str, text: str, finish_reason: str | None = None) -> str:
    """Returns a list of one message of text in OpenTelemetry's form; with `finish_reason` it is an output message."""
    reason = f', "finish_reason": {quoted(capture.text(finish_reason))}' if finish_reason is not None else ""
    return f'[{{"role": "{role}", "parts": [{{"type": "text", "content": {quoted(capture.text(text))}}}]{reason}}}]'


def _numbered(messages: Sequence[Attributes], prefix: str) -> Attributes:
    """Numbers the flat attributes of the last messages, as many as a span has room for; of the last one, always."""
    room, first = _MAX_FLAT[prefix], len(messages)
    while first and (first == len(messages) or len(messages[first - 1]) <= room):
        first -= 1
        room -= len(messages[first])
    return {
        f"{prefix}.{i}.{key}": value for i, message in enumerate(messages[first:]) for key, value in message.items()
    }


def _message(capture: ContentPolicy, message: ModelMessage, flat: bool) -> tuple[str, Attributes]:
    role = capture.text(message.role)
    attributes: Attributes = {semconv.OI_MESSAGE_ROLE: role}
    name = ""
    if message.name:
        attributes[semconv.OI_MESSAGE_NAME] = capture.text(message.name)
        name = f', "name": {quoted(attributes[semconv.OI_MESSAGE_NAME])}'
    if isinstance(message.content, str):
        text = capture.text(message.content)
        attributes[semconv.OI_MESSAGE_CONTENT] = text
        parts = f'{{"type": "text", "content": {quoted(text)}}}'
    else:
        texts = [_part(capture, part) for part in message.content]
        parts = ", ".join(part.json for part in texts)
        if flat:
            attributes.update(_flat_parts(texts))
    return f'{{"role": {quoted(role)}, "parts": [{parts}]{name}}}', attributes


def _flat_parts(parts: Sequence[_PartTexts]) -> Attributes:
    """A text alone is the message's content; several contents, and contents that are no text, are a list."""
    attributes: Attributes = {}
    contents = [part.flat for part in parts if part.kind == "content"]
    if len(contents) == 1 and contents[0].get(semconv.OI_CONTENT_TYPE) == "text":
        attributes[semconv.OI_MESSAGE_CONTENT] = contents[0][semconv.OI_CONTENT_TEXT]
    else:
        for i, content in enumerate(contents):
            attributes.update({f"{semconv.OI_MESSAGE_CONTENTS}.{i}.{key}": value for key, value in content.items()})
    calls = [part.flat for part in parts if part.kind == "call"]
    for i, call in enumerate(calls):
        attributes.update({f"{semconv.OI_MESSAGE_TOOL_CALLS}.{i}.{key}": value for key, value in call.items()})
    for part in parts:
        if part.kind == "message":
            attributes.update(part.flat)
    return attributes


# --- parts ---------------------------------------------------------------------------------------


def _part(capture: ContentPolicy, part: Part) -> _PartTexts:
    return _WRITERS[type(part)](capture, part)


def _text(capture: ContentPolicy, part: TextPart) -> _PartTexts:
    text = capture.text(part.text)
    flat = {semconv.OI_CONTENT_TYPE: "text", semconv.OI_CONTENT_TEXT: text}
    return _PartTexts(f'{{"type": "text", "content": {quoted(text)}}}', "content", flat)


def _reasoning(capture: ContentPolicy, part: ReasoningPart) -> _PartTexts:
    text = capture.text(part.text)
    flat: Attributes = {semconv.OI_CONTENT_TYPE: "reasoning"}
    if text:
        flat[semconv.OI_CONTENT_TEXT] = text
    for key, value in (
        (semconv.OI_CONTENT_ID, part.id),
        (semconv.OI_CONTENT_SIGNATURE, part.signature),
        (semconv.OI_CONTENT_DATA, part.redacted),
    ):
        if value:
            flat[key] = capture.text(value)
    return _PartTexts(f'{{"type": "reasoning", "content": {quoted(text)}}}', "content", flat)


def _call(capture: ContentPolicy, part: ToolCallPart) -> _PartTexts:
    name, arguments = capture.text(part.name), _arguments(capture, part.arguments)
    error = f', "error": {quoted(capture.text(part.error))}' if part.error else ""
    identity = f'"id": {quoted(capture.text(part.id))}, ' if part.id else ""
    if part.kind == "server":
        detail = f'{{"type": {quoted(name)}, "arguments": {arguments}}}'
        text = f'{{"type": "server_tool_call", {identity}"name": {quoted(name)}, "server_tool_call": {detail}}}'
    else:
        text = f'{{"type": "tool_call", {identity}"name": {quoted(name)}, "arguments": {arguments}{error}}}'
    flat_arguments = json.loads(arguments) if arguments.startswith('"') else arguments
    if part.kind == "function":
        flat = {semconv.OI_MESSAGE_FUNCTION_NAME: name, semconv.OI_MESSAGE_FUNCTION_ARGUMENTS: flat_arguments}
        return _PartTexts(text, "message", flat)
    flat = {semconv.OI_TOOL_CALL_ID: capture.text(part.id)} if part.id else {}
    flat |= {semconv.OI_TOOL_CALL_NAME: name, semconv.OI_TOOL_CALL_ARGUMENTS: flat_arguments}
    return _PartTexts(text, "call", flat)


def _result(capture: ContentPolicy, part: ToolResultPart) -> _PartTexts:
    content = part.content
    attributes: Attributes = {semconv.OI_MESSAGE_TOOL_CALL_ID: capture.text(part.id)} if part.id else {}
    if isinstance(content, (list, tuple)) and all(isinstance(item, Part) for item in content):
        texts = [_part(capture, item) for item in content]
        response = f"[{', '.join(item.json for item in texts)}]"
        attributes |= _flat_parts(texts)
    else:
        response = _value(capture, content)
        attributes[semconv.OI_MESSAGE_CONTENT] = json.loads(response) if response.startswith('"') else response
    identity = f'"id": {quoted(attributes[semconv.OI_MESSAGE_TOOL_CALL_ID])}, ' if part.id else ""
    if part.kind == "server":
        detail = f'{{"type": "result", "content": {response}}}'
        return _PartTexts(
            f'{{"type": "server_tool_call_response", {identity}"server_tool_call_response": {detail}}}', "server", {}
        )
    return _PartTexts(f'{{"type": "tool_call_response", {identity}"response": {response}}}', "message", attributes)


def _media(capture: ContentPolicy, part: MediaPart) -> _PartTexts:
    fields: dict[str, str | None] = {"modality": part.modality}
    uri = None
    if part.data is not None:
        data = _data(capture, part.data)
        fields |= {"type": "blob", "content": data}
        uri = f"data:{part.mime_type or 'application/octet-stream'};base64,{data}" if data else None
    elif part.file_id is not None and part.uri is None:
        fields |= {"type": "file", "file_id": capture.text(part.file_id)}
    else:
        uri = capture.text(part.uri or "")
        fields |= {"type": "uri", "uri": uri}
    for key, value in (("mime_type", part.mime_type), ("name", part.name), ("transcript", part.transcript)):
        if value:
            fields[key] = capture.text(value)
    return _PartTexts(json.dumps(fields, ensure_ascii=False), "content", _flat_media(fields, uri))


def _flat_media(fields: Mapping[str, str | None], uri: str | None) -> Attributes:
    modality = fields["modality"]
    place = f"{semconv.OI_CONTENT_PREFIX}.{modality}.{modality}"
    flat: Attributes = {semconv.OI_CONTENT_TYPE: modality}
    values = {"url": uri}
    if modality == "audio":
        values |= {"mime_type": fields.get("mime_type"), "transcript": fields.get("transcript")}
    elif modality == "document":
        values |= {"mime_type": fields.get("mime_type"), "name": fields.get("name"), "id": fields.get("file_id")}
    return flat | {f"{place}.{key}": value for key, value in values.items() if value}


_WRITERS: dict[type, Callable[[ContentPolicy, Any], _PartTexts]] = {
    TextPart: _text,
    ReasoningPart: _reasoning,
    ToolCallPart: _call,
    ToolResultPart: _result,
    MediaPart: _media,
}


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


def tool_attributes(capture: ContentPolicy, tools: Sequence[ToolDefinition]) -> Attributes:
    """Returns the definitions of the tools that a model may call, in both dialects."""
    attributes: Attributes = {}
    items = []
    for i, tool in enumerate(tools):
        kind, name = capture.text(tool.type), capture.text(tool.name)
        fields = f'"name": {quoted(name)}'
        if tool.description:
            fields += f', "description": {quoted(capture.text(tool.description))}'
        if tool.parameters is not None:
            fields += f', "parameters": {_value(capture, tool.parameters)}'
        items.append(f'{{"type": {quoted(kind)}, {fields}}}')
        if capture.openinference and i < _MAX_TOOLS:
            schema = f'{{"type": {quoted(kind)}, "function": {{{fields}}}}}'
            attributes[f"{semconv.OI_TOOLS}.{i}.{semconv.OI_TOOL_SCHEMA}"] = schema
    attributes[semconv.TOOL_DEFINITIONS] = f"[{', '.join(items)}]"
    return attributes
