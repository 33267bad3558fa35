"""LlamaIndex's objects as ragtrace's records. Duck-typed: the framework is not imported here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ragtrace import semconv
from ragtrace.adapting import content_id, number
from ragtrace.capture import Attributes, Message, sendable
from ragtrace.recorder import Run
from ragtrace.records import Document

_QUERY_NAMES = (
    "str_or_query_bundle",
    "query",
    "query_bundle",
    "message",
    "user_msg",
    "query_str",
    "input",
    "question",
)
_SESSION_KEYS = ("session_id", "thread_id", "conversation_id")


def origin(tags: Any) -> dict[str, Any]:
    """Conversation, user and tags from LlamaIndex's `instrument_tags`; the framework's own are left out."""
    if not isinstance(tags, Mapping) or not tags:
        return {}
    own = {k: v for k, v in tags.items() if isinstance(k, str) and not k.startswith("llamaindex.")}
    session = next((own[key] for key in _SESSION_KEYS if own.get(key) is not None), None)
    user = own.get("user_id")
    listed = own.get("tags")
    return {
        "session": None if session is None else sendable(session, 256),
        "user": None if user is None else sendable(user, 256),
        "tags": [str(tag) for tag in listed] if isinstance(listed, (list, tuple, set)) else [],
        "metadata": {k: v for k, v in own.items() if k != "tags"},
    }


def arguments_of(bound: Any) -> Mapping[str, Any]:
    """The arguments of a call by name, those in **kwargs with them."""
    found = getattr(bound, "arguments", None) or {}
    more = found.get("kwargs")
    return {**more, **found} if isinstance(more, Mapping) else found


def query_of(arguments: Mapping[str, Any]) -> str | None:
    """The question among a call's arguments."""
    for name in _QUERY_NAMES:
        value = arguments.get(name)
        if value is not None:
            return text_of(value)
    start = arguments.get("start_event")
    if start is not None:
        return query_of({name: getattr(start, name, None) for name in _QUERY_NAMES})
    return None


def text_of(value: Any) -> str:
    """The text of a query bundle, a chat message, an event's result, or anything else."""
    if isinstance(value, str):
        return value
    for name in ("query_str", "content", "text", "response", "result", "message"):
        inner = getattr(value, name, None)
        if inner is not None and inner is not value and not callable(inner):
            return text_of(inner)
    return "" if value is None else sendable(value)


def answer_of(result: Any) -> str | None:
    """The answer in what a root call returned."""
    if result is None:
        return None
    for name in ("response", "result", "message"):  # Response, StopEvent, ChatResponse
        inner = getattr(result, name, None)
        if inner is not None and not callable(inner):
            return text_of(inner)
    if isinstance(result, Mapping):
        return sendable(dict(result))
    return "" if hasattr(result, "source_nodes") else text_of(result)


def sources_of(result: Any) -> list[Document] | None:
    """The nodes that a response was made from; None where the response does not say."""
    nodes = getattr(result, "source_nodes", None)
    return documents_of(nodes) if isinstance(nodes, (list, tuple)) else None


def documents_of(nodes: Any) -> list[Document]:
    """Nodes in rank order. One that cannot be read is left out; it must not hide its neighbours."""
    found = []
    for item in nodes if isinstance(nodes, (list, tuple)) else ():
        document = _document_of(item)
        if document is not None:
            found.append(document)
    return found


def _document_of(item: Any) -> Document | None:
    node = getattr(item, "node", item)
    try:
        content = node.get_content()
    except Exception:  # noqa: BLE001 an application's own node class
        content = getattr(node, "text", None)
    if content is None:
        return None
    if not isinstance(content, str):
        content = sendable(content)
    identity = getattr(node, "node_id", None) or getattr(node, "id_", None)
    raw = getattr(node, "metadata", None)
    return Document(
        sendable(identity, 256) if identity else content_id(content),
        content,
        number(getattr(item, "score", None)),
        dict(raw) if isinstance(raw, Mapping) else {},
    )


def messages_of(arguments: Mapping[str, Any]) -> list[Message]:
    """What a model was asked."""
    messages = arguments.get("messages")
    if isinstance(messages, (list, tuple)):
        return [(_role(m), text_of(getattr(m, "content", m)) if m is not None else "") for m in messages]
    prompt = arguments.get("prompt")
    return [("user", text_of(prompt))] if prompt is not None else []


def _role(message: Any) -> str:
    role = getattr(message, "role", "user")
    return str(getattr(role, "value", role))


def model_attributes(instance: Any, openinference: bool) -> Attributes:
    """Which model it is. Only its name is read: its other fields may hold credentials."""
    try:
        model = instance.metadata.model_name
    except Exception:  # noqa: BLE001 an application's own model class
        model = getattr(instance, "model", None)
    attributes: Attributes = {semconv.PROVIDER: type(instance).__name__.lower()}
    if isinstance(model, str) and model and model != "unknown":
        attributes[semconv.REQUEST_MODEL] = model
        if openinference:
            attributes[semconv.OI_MODEL] = model
    return attributes


def read_reply(run: Run, response: Any, openinference: bool) -> None:
    """What a ChatResponse or CompletionResponse says: text, tokens, finish reason."""
    message = getattr(response, "message", None)
    run.answer = text_of(message if message is not None else response)
    extra = getattr(response, "additional_kwargs", None)
    raw = getattr(response, "raw", None)
    usage = _get(raw, "usage")
    for name, oi_name, keys in (
        (semconv.INPUT_TOKENS, semconv.OI_TOKENS_PROMPT, ("prompt_tokens", "input_tokens")),
        (semconv.OUTPUT_TOKENS, semconv.OI_TOKENS_COMPLETION, ("completion_tokens", "output_tokens")),
    ):
        value = next((v for key in keys for v in (_get(usage, key), _get(extra, key)) if isinstance(v, int)), None)
        if value is not None:
            run.attributes[name] = value
            if openinference:
                run.attributes[oi_name] = value
    model = _get(raw, "model")
    if isinstance(model, str):
        run.attributes[semconv.RESPONSE_MODEL] = model
    choices = _get(raw, "choices")
    first = choices[0] if isinstance(choices, Sequence) and choices else None
    reason = _get(first, "finish_reason") or _get(raw, "stop_reason") or _get(extra, "finish_reason")
    if isinstance(reason, str):
        run.finish_reason = reason
        run.attributes[semconv.FINISH_REASONS] = (reason,)


def _get(value: Any, key: str) -> Any:
    return value.get(key) if isinstance(value, Mapping) else getattr(value, key, None)
