"""Which content of a request leaves the process, and the attributes that carry it."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ragtrace import semconv
from ragtrace.records import Document
from ragtrace.text.sanitizer import Sanitizer, dumps

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
class ContentPolicy:
    """Which content leaves the process, and in which form. Evaluators always read the whole content in the process."""

    spans: bool = False
    """Queries, chunks and answers on spans."""
    events: bool = False
    """Messages of model calls as `gen_ai.client.inference.operation.details` events."""
    openinference: bool = True
    """OpenInference's attributes beside OpenTelemetry's."""
    tags: frozenset[str] = frozenset()
    """Keys of the application's metadata that are exported as `ragtrace.tag.<key>` even without content."""
    sanitizer: Sanitizer = field(default_factory=Sanitizer)
    """Prepares every text that leaves the process."""

    @staticmethod
    def of(content: bool | str | None = None, **fields: Any) -> ContentPolicy:
        """From `capture_content`: True, False, a mode such as SPAN_AND_EVENT, or None for the mode in the environment.

        Raises ValueError for an unknown mode given by argument; one in the environment is a warning and no content,
        since an instrumentor must never stop an application from starting.
        """
        if isinstance(content, bool):
            return ContentPolicy(spans=content, events=False, **fields)
        if content is not None:
            if content.upper() not in _MODES:
                raise ValueError(f"capture_content is {content!r}; give true, false or one of {', '.join(_MODES)}")
            spans, events = _MODES[content.upper()]
            return ContentPolicy(spans=spans, events=events, **fields)
        mode = os.environ.get(_VARIABLE, "NO_CONTENT").strip().upper() or "NO_CONTENT"
        if mode not in _MODES:
            _log.warning(
                "ragtrace: %s is %r, which is no mode; use one of %s. No content is captured.",
                _VARIABLE,
                mode,
                ", ".join(_MODES),
            )
        spans, events = _MODES.get(mode, (False, False))
        return ContentPolicy(spans=spans, events=events, **fields)

    def text(self, value: object) -> str:
        """A text as it leaves the process."""
        return self.sanitizer.text(value)


_quoted = json.encoder.encode_basestring_ascii

_DOCUMENT_KEYS = {
    prefix: tuple(
        tuple(f"{prefix}.{i}.document.{field}" for field in ("id", "score", "content", "metadata"))
        for i in range(MAX_DOCUMENTS)
    )
    for prefix in (semconv.OI_DOCUMENTS, semconv.OI_RERANK_IN, semconv.OI_RERANK_OUT)
}


def document_attributes(
    capture: ContentPolicy, documents: Sequence[Document], prefix: str = semconv.OI_DOCUMENTS
) -> Attributes:
    """Documents as OpenTelemetry's one JSON string and, beside it, as OpenInference's flat attributes."""
    attributes: Attributes = {}
    items = []
    keys = _DOCUMENT_KEYS[prefix] if capture.openinference else ()
    for i, document in enumerate(documents):
        # Written piece by piece: a chunk's text is escaped once, and its metadata written once for both forms.
        identity = capture.text(document.id)
        item = f'{{"id": {_quoted(identity)}'
        if document.score is not None:
            item += f', "score": {document.score!r}'
        flat = keys[i] if i < len(keys) else None
        if flat is not None:
            attributes[flat[0]] = identity
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


def _metadata(capture: ContentPolicy, document: Document) -> str:
    """A document's metadata as JSON; empty without metadata, or where it cannot be written."""
    text = capture.sanitizer.json(document.metadata) if document.metadata else "{}"
    return "" if text == "{}" else text


def structured_messages(capture: ContentPolicy, messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Messages in OpenTelemetry's shape: a role and its parts."""
    return [{"role": role, "parts": _parts(capture, content)} for role, content in messages]


def _parts(capture: ContentPolicy, content: str | Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    if isinstance(content, str):
        return [{"type": "text", "content": capture.text(content)}]
    # `type` is the framework's word; everything else may be content.
    return [{k: v if k == "type" else capture.text(v) for k, v in part.items()} for part in content]


def length(content: str | Sequence[Mapping[str, Any]]) -> int:
    """Characters of a message's text."""
    return len(content) if isinstance(content, str) else sum(len(str(part.get("content", ""))) for part in content)


def message_attributes(
    capture: ContentPolicy, messages: Sequence[Message], key: str, oi_prefix: str | None
) -> Attributes:
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
            pieces = _parts(capture, content)
            text = "".join(p.get("content", "") for p in pieces)
            parts = dumps(pieces)
        items.append(f'{{"role": {_quoted(role)}, "parts": {parts}}}')
        if capture.openinference and oi_prefix and i >= skipped:
            place = f"{oi_prefix}.{i - max(0, skipped)}.message"
            attributes[f"{place}.role"] = role
            attributes[f"{place}.content"] = text
    attributes[key] = f"[{', '.join(items)}]"
    return attributes


def io_attributes(capture: ContentPolicy, query: str | None, answer: str | None) -> Attributes:
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
    capture: ContentPolicy,
    session: str | None,
    user: str | None,
    tags: Sequence[str],
    metadata: Mapping[str, object],
) -> Attributes:
    """The attributes of every span of a request: conversation, user, tags."""
    attributes: Attributes = {}
    out = capture.sanitizer
    for key in capture.tags:
        if key in metadata:
            attributes[semconv.TAG_PREFIX + key] = out.text(metadata[key], 256)
    if capture.openinference:
        if tags:
            attributes[semconv.OI_TAGS] = tuple(out.text(tag, 256) for tag in tags)
        if metadata and capture.spans:
            attributes[semconv.OI_METADATA] = out.json(metadata)
    names = {semconv.OI_SESSION: session if capture.openinference else None}
    for name, value in (names | {semconv.CONVERSATION_ID: session, semconv.USER_ID: user}).items():
        if value is not None:
            attributes[name] = out.text(value, 256)
    return attributes
