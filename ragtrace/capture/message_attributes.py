"""Writes messages and tool definitions as OpenTelemetry's JSON."""

import json
from collections.abc import Callable, Sequence
from typing import Any

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


def messages_json(capture: ContentPolicy, messages: Sequence[ModelMessage], default_reason: str | None = None) -> str:
    """Returns messages as a JSON list. With `default_reason` they are a model's output, which needs a finish reason:
    this one where none was reported."""
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


def _part(capture: ContentPolicy, part: Part) -> str:
    return _WRITERS[type(part)](capture, part)


def _words(capture: ContentPolicy, kind: str, text: str) -> str:
    return f'{{"type": "{kind}", "content": {quoted(capture.text(text))}}}'


def _call(capture: ContentPolicy, part: ToolCallPart) -> str:
    name, arguments = quoted(capture.text(part.name)), _arguments(capture, part.arguments)
    error = f', "error": {quoted(capture.text(part.error))}' if part.error else ""
    identity = f'"id": {quoted(capture.text(part.id))}, ' if part.id else ""
    if part.kind == "server":
        detail = f'{{"type": {name}, "arguments": {arguments}}}'
        return f'{{"type": "server_tool_call", {identity}"name": {name}, "server_tool_call": {detail}}}'
    return f'{{"type": "tool_call", {identity}"name": {name}, "arguments": {arguments}{error}}}'


def _result(capture: ContentPolicy, part: ToolResultPart) -> str:
    content = part.content
    if isinstance(content, (list, tuple)) and all(isinstance(item, Part) for item in content):
        response = f"[{', '.join(_part(capture, item) for item in content)}]"
    else:
        response = _value(capture, content)
    identity = f'"id": {quoted(capture.text(part.id))}, ' if part.id else ""
    if part.kind == "server":
        detail = f'{{"type": "result", "content": {response}}}'
        return f'{{"type": "server_tool_call_response", {identity}"server_tool_call_response": {detail}}}'
    return f'{{"type": "tool_call_response", {identity}"response": {response}}}'


def _media(capture: ContentPolicy, part: MediaPart) -> str:
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
    TextPart: lambda capture, part: _words(capture, "text", part.text),
    ReasoningPart: lambda capture, part: _words(capture, "reasoning", part.text),
    ToolCallPart: _call, ToolResultPart: _result, MediaPart: _media,
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


def tool_attributes(capture: ContentPolicy, tools: Sequence[ToolDefinition]) -> Attributes:
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
