"""Converts LlamaIndex's objects to ragtrace's records. Duck-typed: an object of an unknown shape is ignored.

Nothing here calls `str()` on a response: for a streaming response, that would read the whole stream."""

import contextlib
import functools
import re
from collections.abc import Mapping
from inspect import BoundArguments
from types import MappingProxyType
from typing import Any

from ragtrace.capture import adapters
from ragtrace.capture.reply_streams import is_stream
from ragtrace.records import Document
from ragtrace.text.sanitizer import fields_of, identity_of, sendable

_QUERY_KEYS = (
    "user_msg", "query", "question", "input", "message", "user_input", "user_query", "prompt", "text",
)  # fmt: skip
_RUN_OPTIONS = frozenset({"max_iterations", "early_stopping_method"})
"""Fields of an agent's start event that ask nothing."""
_ONLY_INPUT = frozenset({"0", "input"})
"""Names of a tool's only input: the first one without a name, or LlamaIndex's own name for it."""
_ANSWER_KEYS = ("answer", "response", "output", "result", "text", "content")
_CONTROL_FLOW = frozenset({"WorkflowDone", "WaitingForEvent"})
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
# In order: an agent is also a workflow.
_ROLES = (
    ("BaseWorkflowAgent", "agent"), ("BaseAgent", "agent"), ("Workflow", "workflow"),
    ("BaseChatEngine", "chat_engine"), ("BaseQueryEngine", "engine"), ("BaseSynthesizer", "synthesizer"),
    ("BaseRetriever", "retriever"), ("BaseNodePostprocessor", "postprocessor"), ("BaseLLM", "model"),
    ("BaseEmbedding", "embedding"), ("BaseSparseEmbedding", "embedding"), ("BaseTool", "tool"),
    ("NodeParser", "parser"), ("TransformComponent", "ingestion"), ("IngestionPipeline", "ingestion"),
)  # fmt: skip


@functools.lru_cache(maxsize=1024)
def role_of(kind: type) -> str | None:
    """Returns the role of a class, from the names of its bases; importing the bases would load LlamaIndex."""
    names = {base.__name__ for base in kind.__mro__}
    role = next((role for base, role in _ROLES if base in names), None)
    if role == "postprocessor":
        # Filters and reorderers are internal: the response holds the documents that remain.
        return "reranker" if any("rank" in name.lower() for name in names) else None
    return role


def has_base(value: Any, *names: str) -> bool:
    """Returns True when the class of a value, or one of its bases, has one of these names."""
    bases: frozenset[str] = _base_names(type(value))  # type: ignore[arg-type]
    return not bases.isdisjoint(names)


@functools.lru_cache(maxsize=1024)
def _base_names(kind: type) -> frozenset[str]:
    return frozenset(base.__name__ for base in kind.__mro__)


@functools.lru_cache(maxsize=1024)
def is_application(kind: type) -> bool:
    """Returns True for a class of the application, which inherits nothing from LlamaIndex."""
    return not any(base.__module__.split(".")[0].startswith(("llama_", "workflows")) for base in kind.__mro__)


def first_argument(bound: BoundArguments) -> Any:
    """Returns the first argument of a call, under any name that the application's subclass uses."""
    for value in bound.arguments.values():
        # `*args` and `**kwargs` of a decorated method are bound as one tuple and one dict.
        if not isinstance(value, (tuple, dict)):
            return value
        if value:
            return value[0] if isinstance(value, tuple) else next(iter(value.values()))
    return None


def argument(bound: BoundArguments, name: str) -> Any:
    """Returns a named argument of a call, or None."""
    value = bound.arguments.get(name)
    if value is None:
        value = (bound.arguments.get("kwargs") or {}).get(name)
    return value


def origin(tags: Any) -> dict[str, Any]:
    """Conversation, user, tags and metadata from `instrument_tags({...})`; the framework's own tags quote the input
    and are left out."""
    fields = tags if isinstance(tags, Mapping) else {}  # LlamaIndex checks nothing
    own = {k: v for k, v in fields.items() if isinstance(k, str) and not k.startswith("llamaindex.")}
    if not own:
        return {}
    session, user = adapters.session_and_user(own)
    return {"session": session, "user": user, "tags": adapters.labels_of(own.pop("tags", None)), "metadata": own}


# --- questions and answers -----------------------------------------------------------------------


def query_of(value: Any) -> str | None:
    """Returns the question in the input of an engine, a retriever or a workflow; None for what cannot be read."""
    try:
        if value is None or isinstance(value, str):
            return value
        if isinstance(value, (list, tuple)):
            return query_of(value[-1]) if value else None
        for name in ("query_str", "content"):
            text = getattr(value, name, None)
            if isinstance(text, str):
                return text
        fields = value if isinstance(value, Mapping) else _fields(value)
        for key in _QUERY_KEYS:
            if fields.get(key):
                return query_of(fields[key])
        texts = [v for v in fields.values() if isinstance(v, str) and v]
        return texts[0] if len(texts) == 1 else last_question(fields.get("chat_history"))
    except Exception:  # noqa: BLE001 an object of the application, whose properties may raise, or a list in itself
        return None


def last_question(messages: Any) -> str | None:
    """Returns the text of the last message of a user, or None."""
    if not isinstance(messages, (list, tuple)):
        return None
    return next((text_of(message) for message in reversed(messages) if _is_of_user(message)), None)


def _is_of_user(message: Any) -> bool:
    try:
        role = getattr(message, "role", None)
        return bool(getattr(role, "value", role) == "user")
    except Exception:  # noqa: BLE001 an application's object whose attributes raise
        return False


def request_text(event: Any) -> str | None:
    """Returns what an event asks: its question, else its fields as JSON, or the value of its only field."""
    return query_of(event) or _written(event if isinstance(event, Mapping) else _fields(event))


def _written(values: Mapping[str, Any]) -> str | None:
    """Returns a single value as text, several as JSON, or None without any."""
    present = {
        name: value
        for name, value in values.items()
        if value is not None and name not in _RUN_OPTIONS and is_application(type(value))  # type: ignore[arg-type]
    }
    if len(present) == 1:
        return text_of(next(iter(present.values())))
    return sendable(present) if present else None


def _fields(event: Any) -> dict[str, Any]:
    """Returns the declared and the dynamic fields of a workflow event."""
    return {**getattr(event, "__dict__", {}), **(getattr(event, "_data", None) or {})}


def unwrap(result: Any) -> Any:
    """Returns the result of a workflow, taken out of its stop event."""
    if has_base(result, "StopEvent"):
        inner = getattr(result, "result", None)
        return result if inner is None else inner
    return result


def answer_of(result: Any) -> str | None:
    """Returns the answer in a result, or None when there is no answer, or not yet."""
    if result is None or isinstance(result, str):
        return result
    # LlamaIndex's response with an object answers None for every name that it does not have.
    if getattr(result, "response_gen", None) is not None and not isinstance(getattr(result, "response", None), str):
        return getattr(result, "response_txt", None)
    if (own := _object_of(result)) is not None:
        return sendable(own)
    if getattr(result, "structured_response", None) is not None:
        return sendable(result.structured_response)
    if hasattr(result, "response"):
        return text_of(result.response)
    fields = result if isinstance(result, Mapping) else _fields(result)
    for key in _ANSWER_KEYS:
        if isinstance(fields.get(key), str):
            return str(fields[key])
    if isinstance(result, Mapping):
        return sendable(dict(result))
    return _written(fields) if has_base(result, "StopEvent") else text_of(result)


def _object_of(result: Any) -> object | None:
    """Returns the object of the application in a tool's result, or in the response to a call of one tool; LlamaIndex
    writes it as Python does."""
    sources = getattr(result, "sources", None)
    output = sources[0] if isinstance(sources, list) and len(sources) == 1 else result
    own = getattr(output, "raw_output", None)
    is_text = output is not result and getattr(result, "response", None) != getattr(output, "content", None)
    return own if not is_text and fields_of(own) is not None else None


def text_of(value: Any) -> str | None:
    """Returns the text of a message, of a pydantic answer or of a plain value; None for a stream."""
    if value is None or isinstance(value, str):
        return value
    if is_stream(value):
        return None
    with contextlib.suppress(Exception):  # as above
        blocks = getattr(value, "blocks", None)
        if isinstance(blocks, list):
            text = "\n".join(b.text for b in blocks if isinstance(getattr(b, "text", None), str))
            return text or adapters.refusal_of(getattr(value, "additional_kwargs", None))
    return sendable(value)


# --- documents -----------------------------------------------------------------------------------


def documents_of(nodes: Any) -> list[Document]:
    """Converts nodes, in rank order. A node that cannot be read is left out; the others are kept."""
    return adapters.convert_each(nodes, _document_of)


def _document_of(item: Any) -> Document | None:
    node = getattr(item, "node", item)
    content = _content_of(node)
    if content is None:
        return None
    raw = getattr(node, "metadata", None)
    metadata = dict(raw) if isinstance(raw, Mapping) else {}
    identity = _identity_of(node)
    identity = identity_of(identity) if identity else adapters.content_id(content)
    return Document(identity, content, adapters.number(getattr(item, "score", None)), metadata)


def _identity_of(node: Any) -> Any:
    """Returns a node's id; of a node that LlamaIndex numbered itself the id that the application gave its document,
    with the place of the node in it."""
    node_id = getattr(node, "node_id", None)
    if not isinstance(node_id, str) or not _is_random(node_id):
        return node_id
    document_id = getattr(node, "ref_doc_id", None)
    if not isinstance(document_id, str) or not document_id or _is_random(document_id):
        return node_id
    neighbours = {str(getattr(name, "name", name)) for name in getattr(node, "relationships", None) or ()}
    if neighbours.isdisjoint({"PREVIOUS", "NEXT"}):
        return document_id
    start = getattr(node, "start_char_idx", None)
    return f"{document_id}#{start if isinstance(start, int) else node_id}"


def _is_random(identity: str) -> bool:
    """Returns True for a UUID, which LlamaIndex gives to whatever has no id."""
    return len(identity) == 36 and identity.count("-") == 4 and _UUID.fullmatch(identity) is not None


def _content_of(node: Any) -> str | None:
    """Returns a node's text, without the metadata that LlamaIndex adds for the model."""
    content = getattr(node, "text", None)
    if not isinstance(content, str):
        try:
            content = node.get_content()
        except Exception:  # noqa: BLE001 an application's node class
            return None
    return content if isinstance(content, str) else sendable(content)


def sources_of(result: Any, by_node: Mapping[int, Document] = MappingProxyType({})) -> list[Document] | None:
    """Returns the documents that the model received, or None when the response does not name them. `by_node` are those
    that were read before, by the identity of their nodes.

    A chat engine that does not retrieve has an empty list, which means nothing."""
    nodes = getattr(result, "source_nodes", None)
    if not isinstance(nodes, list):
        return None
    sources = getattr(result, "sources", None)
    if nodes or sources is None:
        return adapters.convert_each(nodes, lambda item: _known_document(item, by_node) or _document_of(item))
    return [] if any(isinstance(getattr(s, "raw_output", None), list) for s in sources) else None


def _known_document(item: Any, by_node: Mapping[int, Document]) -> Document | None:
    """Returns the document that was read from this node before, or None if the application has changed the node."""
    document, node = by_node.get(id(item)), getattr(item, "node", None)
    if document is None or node is None or getattr(item, "score", None) != document.score:
        return None
    is_same = node.metadata == document.metadata and getattr(node, "text", None) == document.content
    return document if is_same else None


def documents_within(value: Any) -> list[Document]:
    """Returns the documents that a step, a tool or a function returned: a list of nodes, or such a list in a mapping or
    in an event."""
    if isinstance(value, (list, tuple)):
        return documents_of(value) if value and has_base(value[0], "NodeWithScore", "BaseNode") else []
    if isinstance(value, Mapping):
        fields: Mapping[str, Any] = value
    elif hasattr(value, "_data") or has_base(value, "StopEvent"):
        inner = getattr(value, "result", None)
        fields = {**_fields(value), "result": None if isinstance(inner, Mapping) else inner}
    else:
        return []
    groups = (documents_within(item) for item in fields.values() if isinstance(item, (list, tuple)))
    return [document for group in groups for document in group]


# --- tools and signals ---------------------------------------------------------------------------


def tool_input(bound: BoundArguments) -> str:
    """Returns the input of a tool: its arguments as JSON, or the text that is its only input."""
    values: dict[str, Any] = {}
    for name, value in bound.arguments.items():
        if isinstance(value, dict) and name == "kwargs":
            values.update(value)
        elif isinstance(value, tuple):
            values.update((str(i), item) for i, item in enumerate(value))
        else:
            values[name] = value
    # An agent passes its own context to a tool that requests it.
    values = {k: v for k, v in values.items() if type(v).__name__ != "Context"}
    if len(values) == 1:
        name, only = next(iter(values.items()))
        if isinstance(only, str) and name in _ONLY_INPUT:
            return only
    return sendable(values)


def tool_output(result: Any) -> str | None:
    """Returns a tool's result: its text, or its object as JSON."""
    own = _object_of(result)
    return text_of(result) if own is None else sendable(own)


def is_control_flow(error: BaseException) -> bool:
    """Returns True for an exception that workflows use as a signal, not as an error."""
    return type(error).__name__ in _CONTROL_FLOW


def number_of(instance: Any, *names: str) -> int | None:
    """Returns the first of these fields of a component that is a whole number, or None."""
    fields = getattr(instance, "__dict__", {})
    return next((fields[n] for n in names if isinstance(fields.get(n), int) and not isinstance(fields[n], bool)), None)


def embedding_size(result: Any) -> int | None:
    """Returns the number of dimensions of an embedding, or of the first one of a batch; None for sparse ones, which are
    mappings of their entries alone."""
    try:  # lists, or numpy's arrays
        if isinstance(result, Mapping) or isinstance(result[0], Mapping):
            return None
        return len(result[0]) if hasattr(result[0], "__len__") else len(result)
    except Exception:  # noqa: BLE001 no sequence, an empty one, or an application's object whose methods raise
        return None
