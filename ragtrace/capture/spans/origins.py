"""Who asked: session, user, tags and the application's metadata, from the spans of a request."""

from collections.abc import Mapping, Sequence
from typing import Any

from ragtrace import semconv
from ragtrace.capture.adapters import SESSION_KEYS
from ragtrace.capture.spans import dialects
from ragtrace.capture.spans.span_record import SpanRecord
from ragtrace.capture.spans.texts import first_value, plain
from ragtrace.text.sanitizer import identity_of

_PREFIXES = (
    dialects.LANGFUSE_TRACE_METADATA, dialects.LANGFUSE_METADATA, dialects.TRACELOOP_PROPERTY,
    dialects.VERCEL_METADATA, dialects.MLFLOW_TAG,
)  # fmt: skip


def origin(records: Sequence[SpanRecord]) -> dict[str, Any]:
    """The fields `session`, `user`, `tags`, `metadata` and `reference` of a `Request`. The first span that says
    something is believed; the first of `records` is the root."""
    metadata: dict[str, object] = {}
    session = user = None
    tags: list[str] = []
    for record in records:
        attributes = record.attributes
        own = _metadata(attributes)
        if not metadata:
            metadata = {key: value for key, value in own.items() if not key.startswith(dialects.FRAMEWORK_METADATA)}
        session = session or _session(attributes) or _named(own, SESSION_KEYS)
        user = user or _named(attributes, dialects.USERS) or _named(own, ("user_id",))
        tags = tags or _tags(attributes)
        if session and user and tags and metadata:
            break
    reference = metadata.get("reference")
    return {
        "session": session, "user": user, "tags": tags, "metadata": metadata,
        "reference": reference if isinstance(reference, str) else None,
    }  # fmt: skip


def _session(attributes: Mapping[str, Any]) -> str | None:
    """The session that a span names. Spring AI has one id for all conversations whose application names none."""
    value = _named(attributes, dialects.SESSIONS)
    is_none = value == dialects.SPRING_NO_SESSION and dialects.SPRING_SESSION in attributes
    return None if is_none else value


def _named(values: Mapping[str, Any], names: Sequence[str]) -> str | None:
    value = first_value(values, names)
    return None if value is None else identity_of(value)


def _tags(attributes: Mapping[str, Any]) -> list[str]:
    tags: Any = attributes.get(semconv.OI_TAGS) or attributes.get(dialects.LANGFUSE_TAGS)
    if tags is None and dialects.TRACELOOP_INPUT in attributes:
        envelope = plain(attributes[dialects.TRACELOOP_INPUT])
        tags = envelope.get("tags") if isinstance(envelope, Mapping) else None
    items = plain(tags)
    if not isinstance(items, (list, tuple)):
        return []
    return [identity_of(tag) for tag in items if not str(tag).startswith(dialects.FRAMEWORK_TAGS)]


def _metadata(attributes: Mapping[str, Any]) -> dict[str, object]:
    """OpenInference's JSON; Langfuse's and OpenLLMetry's single attributes, whose values may be JSON."""
    value = plain(attributes.get(semconv.OI_METADATA))
    metadata: dict[str, object] = dict(value) if isinstance(value, Mapping) else {}
    for key in [key for key in attributes if key.startswith(_PREFIXES)]:
        item = attributes[key]
        text = item[1:-1] if isinstance(item, str) and len(item) > 1 and item[0] == item[-1] == '"' else item
        prefix = next(each for each in _PREFIXES if key.startswith(each))
        metadata.setdefault(key[len(prefix) :], plain(text))
    for name in ("tags", "finish_reason"):
        metadata.pop(name, None)
    return metadata
