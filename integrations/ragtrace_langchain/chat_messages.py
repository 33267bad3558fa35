"""Converts LangChain's messages, generations and prompts. Duck-typed: an object of an unknown shape is ignored."""

import contextlib
from collections.abc import Mapping
from typing import Any

from ragtrace.capture.adapters import refusal_of
from ragtrace.capture.content_blocks import parts_of, reasoning_beside, result_content, text_or_parts
from ragtrace.capture.model_messages import ModelMessage, Part, ReasoningPart, TextPart, ToolCallPart, ToolResultPart
from ragtrace.capture.plain_values import RESULT_ROLES, raw_calls
from ragtrace.capture.provider_replies import finish_reason
from ragtrace.text.sanitizer import sendable

ROLES = {"human": "user", "ai": "assistant", "AIMessageChunk": "assistant", "HumanMessageChunk": "user"}
"""Standard roles by LangChain's types of messages."""


def message_of(message: Any, finish_reason: str | None = None) -> ModelMessage:
    """Converts a message. Most are text alone, which costs no more than its role."""
    # Not by getattr: pydantic takes three microseconds to say that a message has no such field.
    fields = getattr(message, "__dict__", None)
    if fields is None or "content" not in fields:
        return ModelMessage("user", message if isinstance(message, str) else sendable(message))
    role, content = "user", fields["content"]
    try:
        kind, name = fields.get("type", "user"), fields.get("name")
        role = fields.get("role") or ROLES.get(kind, kind)
        if (call_id := fields.get("tool_call_id")) is not None or role in RESULT_ROLES:
            return ModelMessage(role, [ToolResultPart(result_content(content), call_id and str(call_id))], name)
        extra = fields.get("additional_kwargs")
        calls = fields.get("tool_calls") or fields.get("invalid_tool_calls")
        if isinstance(content, str) and not extra and not calls:
            return ModelMessage(role, content, name, finish_reason)
        return ModelMessage(role, _content(message, content, extra), name, finish_reason)
    except Exception:  # noqa: BLE001 an application's object that raises costs its own message alone
        return ModelMessage(role, sendable(content), finish_reason=finish_reason)


def _content(message: Any, content: Any, extra: Any) -> str | list[Part]:
    extra = extra if isinstance(extra, Mapping) else {}
    calls = _calls(message, extra)
    parts = parts_of(content)
    if any(part.kind == "tool" for part in calls):
        # Anthropic's content holds the calls that LangChain lists again in its own form.
        parts = [part for part in parts if not isinstance(part, ToolCallPart) or part.kind == "server"]
    reasoning: list[Part] = []
    if not any(isinstance(part, ReasoningPart) for part in parts):
        reasoning = reasoning_beside(extra, "reasoning_content", "reasoning")  # DeepSeek's, Groq's, OpenAI's
    audio = parts_of({"type": "audio", **extra["audio"]}) if isinstance(extra.get("audio"), Mapping) else []
    if not parts and (refusal := refusal_of(extra)):
        content, parts = refusal, [TextPart(refusal)]
    if not reasoning and not audio and not calls:
        if not parts and content and not isinstance(content, (str, list)):
            return sendable(content)
        return text_or_parts(content)
    return [*reasoning, *parts, *audio, *calls]


def _calls(message: Any, extra: Mapping[str, Any]) -> list[ToolCallPart]:
    """Returns the calls that a message asks for, those that LangChain could not read, and OpenAI's older form."""
    calls = [
        ToolCallPart(str(call.get("name") or ""), call.get("args"), call.get("id"), error=call.get("error"))
        for field in ("tool_calls", "invalid_tool_calls")
        for call in getattr(message, field, None) or ()
        if isinstance(call, Mapping)
    ]
    return [*calls, *raw_calls({**extra, "tool_calls": None} if calls else extra)]


def replies_of(response: Any) -> list[ModelMessage]:
    """Returns all generations of an LLMResult, each with its finish reason."""
    generations = getattr(response, "generations", None)
    output = getattr(response, "llm_output", None)
    return [_reply_of(g, output) for choices in generations or () for g in choices or ()]


def _reply_of(generation: Any, output: Any) -> ModelMessage:
    message = getattr(generation, "message", None)
    places = (getattr(generation, "generation_info", None), getattr(message, "response_metadata", None), output)
    reason = None
    with contextlib.suppress(Exception):  # an application's mapping that raises
        reason = next((word for place in places if place and (word := finish_reason(place))), None)
    if message is None:
        return ModelMessage("assistant", str(getattr(generation, "text", "") or ""), finish_reason=reason)
    return message_of(message, reason)
