"""What of a request's content goes out, and in which shape: cleaned, truncated, redacted."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ragtrace import semconv
from ragtrace.records import Document

_log = logging.getLogger(__name__)
_VARIABLE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
_MODES = {
    "NO_CONTENT": (False, False),
    "SPAN_ONLY": (True, False),
    "EVENT_ONLY": (False, True),
    "SPAN_AND_EVENT": (True, True),
}
MAX_DOCUMENTS = 20
"""Documents written out one attribute each: with more, a span's limit of 128 attributes would drop other things."""

Attributes = dict[str, Any]
Message = tuple[str, str | Sequence[Mapping[str, Any]]]
"""Role (`system`, `user`, `assistant`, `tool`) and text, or parts in OpenTelemetry's shape where it is not all text."""


@dataclass(frozen=True, slots=True)
class Capture:
    """Settings of what goes out. Evaluators read the content in the process, whatever stands here."""

    spans: bool = False
    """Queries, chunks and answers on spans."""
    events: bool = False
    """Messages of model calls as `gen_ai.client.inference.operation.details` events."""
    openinference: bool = True
    """OpenInference's attributes beside OpenTelemetry's."""
    max_chars: int = 16_384
    """Characters of one text (a chunk, a message) that are kept."""
    tags: frozenset[str] = frozenset()
    """Keys of the application's metadata that go out as `ragtrace.tag.<key>` even without content."""
    redact: Callable[[str], str] | None = None
    """Applied to every text that goes out. It runs in the request's thread."""

    @staticmethod
    def of(content: bool | str | None = None, **fields: Any) -> Capture:
        """From `capture_content`: True, False, a mode such as SPAN_AND_EVENT, or None for the environment's word.

        Raises ValueError for an unknown mode given by argument; one in the environment is a warning and no content,
        since an instrumentor must never stop an application from starting.
        """
        if isinstance(content, bool):
            return Capture(spans=content, events=False, **fields)
        if content is not None:
            if content.upper() not in _MODES:
                raise ValueError(f"capture_content is {content!r}; give true, false or one of {', '.join(_MODES)}")
            spans, events = _MODES[content.upper()]
            return Capture(spans=spans, events=events, **fields)
        mode = os.environ.get(_VARIABLE, "NO_CONTENT").strip().upper() or "NO_CONTENT"
        if mode not in _MODES:
            _log.warning("%s is %r; known are %s. No content is captured.", _VARIABLE, mode, ", ".join(_MODES))
        spans, events = _MODES.get(mode, (False, False))
        return Capture(spans=spans, events=events, **fields)

    def text(self, value: object) -> str:
        """A text as it may go out: a string that every encoder takes, cut, redacted."""
        clean = sendable(value, self.max_chars)
        if self.redact is None:
            return clean
        try:
            return sendable(self.redact(clean), self.max_chars)
        except Exception:  # noqa: BLE001 a user's function; what it could not clear does not leave
            return "[redaction failed]"


def sendable(value: object, limit: int = 1_000_000) -> str:
    """Any object as a string of at most `limit` characters that UTF-8 can encode and that holds no NUL. Never raises.

    A lone surrogate makes protobuf refuse the whole batch, and NUL is refused by databases behind many backends.
    """
    if not isinstance(value, str):
        value = _as_text(value)
    if len(value) > limit:
        value = f"{value[:limit]}… [{len(value) - limit} characters cut]"
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            value = value.encode("utf-8", "replace").decode("utf-8")
    return value.replace("\0", "�") if "\0" in value else value


def _as_text(value: object) -> str:
    try:
        if isinstance(value, (dict, list, tuple)):
            return json.dumps(value, ensure_ascii=False, default=_fallback)
        return str(value)
    except Exception:  # noqa: BLE001 cycles, objects whose repr raises: a name is better than nothing
        return f"<{type(value).__name__}>"


def _fallback(value: object) -> str:
    """For json: whatever it cannot write. An object without a working repr is named by its type."""
    try:
        return str(value)
    except Exception:  # noqa: BLE001 an application's __str__
        return f"<{type(value).__name__}>"


def as_json(value: object, limit: int = 16_384) -> str:
    """A mapping as JSON, or `{}` where it cannot be written or is longer than `limit` characters (half a JSON text
    is none)."""
    try:
        text = _dumps(value)
    except Exception:  # noqa: BLE001 cycles, keys of odd types
        return "{}"
    return text if len(text) <= limit else "{}"


_dumps = json.JSONEncoder(default=_fallback).encode  # json.dumps makes an encoder anew for each call with a default
_quoted = json.encoder.encode_basestring_ascii

_DOCUMENT_KEYS = {
    prefix: tuple(
        tuple(f"{prefix}.{i}.document.{field}" for field in ("id", "score", "content", "metadata"))
        for i in range(MAX_DOCUMENTS)
    )
    for prefix in (semconv.OI_DOCUMENTS, semconv.OI_RERANK_IN, semconv.OI_RERANK_OUT)
}


def document_attributes(
    capture: Capture, documents: Sequence[Document], prefix: str = semconv.OI_DOCUMENTS
) -> Attributes:
    """Documents as OpenTelemetry's one JSON string and, beside it, as OpenInference's flat attributes."""
    attributes: Attributes = {}
    items = []
    keys = _DOCUMENT_KEYS[prefix] if capture.openinference else ()
    for i, document in enumerate(documents):
        # Written piece by piece: a chunk's text is escaped once, and its metadata written once for both forms.
        item = f'{{"id": {_quoted(document.id)}'
        if document.score is not None:
            item += f', "score": {document.score!r}'
        flat = keys[i] if i < len(keys) else None
        if flat is not None:
            attributes[flat[0]] = document.id
            if document.score is not None:
                attributes[flat[1]] = document.score
        if capture.spans:
            text = capture.text(document.content)
            item += f', "content": {_quoted(text)}'
            metadata = _metadata(capture, document)
            if metadata:
                item += f', "metadata": {metadata}'
            if flat is not None:
                attributes[flat[2]] = text
                if metadata:
                    attributes[flat[3]] = metadata
        items.append(item + "}")
    if prefix != semconv.OI_RERANK_IN:
        attributes[semconv.RETRIEVAL_DOCUMENTS] = f"[{', '.join(items)}]"
        attributes[semconv.DOCUMENTS_COUNT] = len(documents)
    return attributes


def _metadata(capture: Capture, document: Document) -> str:
    """A document's metadata as JSON; empty where there is none, or none that may or can be written."""
    if not document.metadata:
        return ""
    text = as_json(document.metadata)
    if text == "{}" or capture.redact is None:
        return "" if text == "{}" else text
    redacted = capture.text(text)
    return redacted if _is_json(redacted) else _quoted(redacted)


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def structured_messages(capture: Capture, messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Messages in OpenTelemetry's shape: a role and its parts."""
    return [{"role": role, "parts": _parts(capture, content)} for role, content in messages]


def _parts(capture: Capture, content: str | Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    if isinstance(content, str):
        return [{"type": "text", "content": capture.text(content)}]
    # `type`, `id` and `name` are the framework's words; everything else is somebody's content.
    return [{k: v if k in ("type", "id", "name") else capture.text(v) for k, v in part.items()} for part in content]


def length(content: str | Sequence[Mapping[str, Any]]) -> int:
    """Characters of a message's text."""
    return len(content) if isinstance(content, str) else sum(len(str(part.get("content", ""))) for part in content)


def message_attributes(capture: Capture, messages: Sequence[Message], key: str, oi_prefix: str | None) -> Attributes:
    """Messages as OpenTelemetry's JSON string and, beside it, as OpenInference's flat attributes."""
    attributes: Attributes = {}
    items = []
    # Of a long conversation the last messages are written flat: they are what was asked.
    skipped = len(messages) - MAX_DOCUMENTS
    for i, (role, content) in enumerate(messages):
        if isinstance(content, str):
            text = capture.text(content)
            parts = f'[{{"type": "text", "content": {_quoted(text)}}}]'
        else:
            made = _parts(capture, content)
            text = "".join(p.get("content", "") for p in made)
            parts = _dumps(made)
        items.append(f'{{"role": {_quoted(role)}, "parts": {parts}}}')
        if capture.openinference and oi_prefix and i >= skipped:
            place = f"{oi_prefix}.{i - max(0, skipped)}.message"
            attributes[f"{place}.role"] = role
            attributes[f"{place}.content"] = text
    attributes[key] = f"[{', '.join(items)}]"
    return attributes


def io_attributes(capture: Capture, query: str | None, answer: str | None) -> Attributes:
    """OpenInference's input and output of a span, or only their lengths, in characters, where content stays in."""
    attributes: Attributes = {}
    if not capture.spans:
        if query is not None:
            attributes[semconv.INPUT_LENGTH] = len(query)
        if answer is not None:
            attributes[semconv.OUTPUT_LENGTH] = len(answer)
    elif capture.openinference:
        if query is not None:
            attributes[semconv.OI_INPUT] = capture.text(query)
            attributes[semconv.OI_INPUT_MIME] = semconv.MIME_TEXT
        if answer is not None:
            attributes[semconv.OI_OUTPUT] = capture.text(answer)
            attributes[semconv.OI_OUTPUT_MIME] = semconv.MIME_TEXT
    return attributes


def tag_attributes(
    capture: Capture,
    session: str | None,
    user: str | None,
    tags: Sequence[str],
    metadata: Mapping[str, object],
) -> Attributes:
    """What every span of a request carries: conversation, user, tags."""
    attributes: Attributes = {}
    for key in capture.tags:
        if key in metadata:
            attributes[semconv.TAG_PREFIX + key] = sendable(metadata[key], 256)
    if capture.openinference:
        if tags:
            attributes[semconv.OI_TAGS] = tuple(sendable(tag, 256) for tag in tags)
        if metadata and capture.spans:
            attributes[semconv.OI_METADATA] = capture.text(as_json(metadata))
        if session is not None:
            attributes[semconv.OI_SESSION] = session
    if session is not None:
        attributes[semconv.CONVERSATION_ID] = session
    if user is not None:
        attributes[semconv.USER_ID] = user
    return attributes
