"""Converts LlamaIndex's messages and their content blocks. Duck-typed: a block of an unknown shape is left out."""

import base64
from collections.abc import Mapping
from typing import Any

from ragtrace.capture import model_messages
from ragtrace.capture.adapters import refusal_of
from ragtrace.capture.content_blocks import reasoning_beside
from ragtrace.capture.plain_values import raw_calls
from ragtrace.text.sanitizer import sendable

_MODALITIES = {"image": "image", "audio": "audio", "video": "video", "document": "data"}
"""The field with the content, by a block's type."""


def messages_of(messages: Any) -> list[model_messages.ModelMessage]:
    """Converts a prompt or chat messages."""
    if isinstance(messages, (list, tuple)):
        return [message_of(message) for message in messages]
    if messages is None:
        return []
    return [model_messages.ModelMessage("user", messages if isinstance(messages, str) else sendable(messages))]


def message_of(message: Any, finish_reason: str | None = None) -> model_messages.ModelMessage:
    """Converts a message. Most are text alone, which costs no more than its role."""
    role = "user"
    try:
        role = getattr(message, "role", role)
        role = str(getattr(role, "value", role))
        role = {"human": "user", "chatbot": "assistant", "model": "assistant"}.get(role, role)
        extra = getattr(message, "additional_kwargs", None) or {}
        name = extra.get("name")
        name = name if isinstance(name, str) else None
        parts = _parts(message, extra)
        if role in {"tool", "function"}:
            identity = extra.get("tool_call_id")
            return model_messages.ModelMessage(
                role, [model_messages.ToolResultPart(_single_text(parts), str(identity or "") or None)], name
            )
        return model_messages.ModelMessage(role, _single_text(parts), name, finish_reason)
    except Exception:  # noqa: BLE001 an application's object that raises costs its own message alone
        return model_messages.ModelMessage(
            role if isinstance(role, str) else "user", sendable(message), finish_reason=finish_reason
        )


def _single_text(parts: list[model_messages.Part]) -> str | list[model_messages.Part]:
    if not parts:
        return ""
    return parts[0].text if len(parts) == 1 and isinstance(parts[0], model_messages.TextPart) else parts


def _parts(message: Any, extra: Mapping[str, Any]) -> list[model_messages.Part]:
    blocks = getattr(message, "blocks", None)
    if not isinstance(blocks, list):
        content = getattr(message, "content", None)
        blocks = [content] if isinstance(content, str) and content else []
    parts = [part for block in blocks for part in _block(block)]
    if not parts and (refusal := refusal_of(extra)):
        parts = [model_messages.TextPart(refusal)]  # of OpenAI's Responses API
    if not any(isinstance(part, model_messages.ReasoningPart) for part in parts):
        parts = [*reasoning_beside(extra, "reasoning_content", "thinking", "thinking_delta"), *parts]
    if not any(isinstance(part, model_messages.ToolCallPart) for part in parts):
        parts.extend(raw_calls(extra))
    return parts


def _block(block: Any) -> list[model_messages.Part]:
    kind = getattr(block, "block_type", None)
    if isinstance(block, str):
        return [model_messages.TextPart(block)]
    if kind in _MODALITIES:
        part = _media(block, kind)
        return [part] if part is not None else []
    if kind == "thinking":
        return [model_messages.ReasoningPart(block.content or "")]
    if hasattr(block, "tool_name"):
        return [model_messages.ToolCallPart(block.tool_name, getattr(block, "tool_kwargs", None), block.tool_call_id)]
    inner = getattr(block, "content", None)
    if kind == "citable" and isinstance(inner, list):
        return [part for item in inner for part in _block(item)]
    text = getattr(block, "text", None)
    return [model_messages.TextPart(text)] if isinstance(text, str) and text else []


def _media(block: Any, kind: str) -> model_messages.MediaPart | None:
    """Returns an image, a sound, a video or a file. LlamaIndex keeps its bytes in base64; a stream is not read."""
    names = (f"{kind}_mimetype", "format")
    mime = next((m for name in names if isinstance(m := getattr(block, name, None), str)), None)
    if kind == "audio" and mime is not None:
        mime = f"audio/{mime}"
    modality = model_messages.modality_of(mime) if kind == "document" else kind
    title = getattr(block, "title", None)
    data = getattr(block, _MODALITIES[kind], None)
    if isinstance(data, bytes):
        return model_messages.MediaPart(modality, data=_base64(data), mime_type=mime, name=title)
    place = getattr(block, "url", None) or getattr(block, "path", None)
    return model_messages.media_part(modality, str(place), mime, title) if place is not None else None


def _base64(data: bytes) -> str:
    """Returns bytes in base64. They are so already, unless the block was built without validation."""
    try:
        base64.b64decode(data[:64], validate=True)  # the whole of a large image would take a millisecond
        return data.decode()
    except ValueError:
        return base64.b64encode(data).decode()
