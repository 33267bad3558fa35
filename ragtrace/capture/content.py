"""Which content of a request leaves the process, and the attributes that carry it."""

import functools
import json
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ragtrace import semconv
from ragtrace.records import Document
from ragtrace.text.sanitizer import Sanitizer

_log = logging.getLogger(__name__)
_VARIABLE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
_MODES = {
    "NO_CONTENT": (False, False), "SPAN_ONLY": (True, False),
    "EVENT_ONLY": (False, True), "SPAN_AND_EVENT": (True, True),
}  # fmt: skip
MAX_DOCUMENTS = 20
"""Documents written out one attribute each: with more, a span's limit of 128 attributes would drop other things."""

Attributes = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ContentPolicy:
    """Which content leaves the process, and in which form. Evaluators always read the whole content in the process."""

    spans: bool = False
    """Queries, chunks and answers on spans."""
    events: bool = False
    """Messages of model calls as `gen_ai.client.inference.operation.details` events."""
    openinference: bool = False
    """OpenInference's attributes beside OpenTelemetry's."""
    tags: frozenset[str] = frozenset()
    """Keys of the application's metadata that are exported as `ragtrace.tag.<key>` even without content."""
    sanitizer: Sanitizer = field(default_factory=Sanitizer)
    """Prepares every text that leaves the process."""
    others: Any = None
    """A `TextFilter` for what other code writes on ragtrace's spans, where the sanitizer redacts nothing."""
    text: Callable[[object], str] = field(init=False, repr=False, compare=False)
    """A text as it leaves the process: the sanitizer's own method, which saves a call for each text."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", self.sanitizer.text)

    @staticmethod
    def of(content: bool | str | None = None, **fields: Any) -> "ContentPolicy":
        """From `capture_content`: True, False, a mode such as SPAN_AND_EVENT, or None for the mode in the environment.

        Raises ValueError for an unknown mode given by argument; one in the environment is a warning and no content,
        since an instrumentor must never stop an application from starting."""
        if isinstance(content, bool):
            return ContentPolicy(spans=content, **fields)
        mode = (os.environ.get(_VARIABLE, "").strip() or "NO_CONTENT" if content is None else content).upper()
        if mode not in _MODES and content is not None:
            raise ValueError(f"capture_content is {content!r}; give true, false or one of {', '.join(_MODES)}")
        if mode not in _MODES:
            _log.warning(
                "ragtrace: %s is %r, which is no mode; use one of %s. No content is captured.", _VARIABLE, mode,
                ", ".join(_MODES),
            )  # fmt: skip
        spans, events = _MODES.get(mode, (False, False))
        return ContentPolicy(spans=spans, events=events, **fields)


_SHORT = 24
"""Characters up to which `json` is faster."""


def quoted(text: str) -> str:
    """A text as a JSON string, in its own letters: they can be read and searched in a backend, and take less room.

    `orjson`, which LangChain installs, reads sixteen characters at a time; `json` reads each one twice."""
    encode = _encoder() if len(text) > _SHORT else None
    if encode is not None:
        try:
            return encode(text).decode()
        except TypeError:  # a lone surrogate
            pass
    return json.encoder.encode_basestring(text)


@functools.cache
def _encoder() -> Callable[[str], bytes] | None:
    try:
        import orjson
    except ImportError:
        return None
    return orjson.dumps


def document_attributes(capture: ContentPolicy, documents: Sequence[Document]) -> Attributes:
    """Documents as OpenTelemetry's one JSON string, and their number."""
    items = []
    clean = capture.text
    for document in documents:
        item = f'{{"id": {quoted(clean(document.id))}'
        if document.score is not None:
            item += f', "score": {document.score!r}'
        if capture.spans:
            item += f', "content": {quoted(clean(document.content))}'
            metadata = capture.sanitizer.json(document.metadata) if document.metadata else "{}"
            if metadata != "{}":  # as it is where it cannot be written
                item += f', "metadata": {metadata}'
        items.append(item + "}")
    return {semconv.RETRIEVAL_DOCUMENTS: f"[{', '.join(items)}]", semconv.DOCUMENTS_COUNT: len(documents)}


def mime_type(text: str) -> str:
    """`application/json` for a JSON object or list, `text/plain` for every other text."""
    if text.startswith(("{", "[")) and text.rstrip()[-1:] in {"}", "]"}:
        try:
            json.loads(text)
        except (ValueError, RecursionError):
            return semconv.MIME_TEXT
        return semconv.MIME_JSON
    return semconv.MIME_TEXT


def tag_attributes(
    capture: ContentPolicy, session: str | None, user: str | None, metadata: Mapping[str, object]
) -> Attributes:
    """The attributes of every span of a request: conversation, user, and the metadata that are let out."""
    attributes: Attributes = {}
    out = capture.sanitizer
    for key in capture.tags:
        if key in metadata:
            attributes[semconv.TAG_PREFIX + key] = out.value_of(key, metadata[key], lambda tag: out.text(tag, 256))
    if out.identify is not None and metadata.get("tenant"):  # with a key alone: the names of tenants are few
        attributes[semconv.TENANT] = out.identifier(metadata["tenant"])
    for name, value in ((semconv.CONVERSATION_ID, session), (semconv.USER_ID, user)):
        if value is not None:
            attributes[name] = out.identifier(value)
    return attributes
