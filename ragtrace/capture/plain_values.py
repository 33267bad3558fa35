"""Reads what an application's own functions take and return: documents, messages, replies and chunks of replies.

Duck-typed: the objects of OpenAI's, Anthropic's and other clients, of LangChain and LlamaIndex, dictionaries and plain
texts. An object of an unknown shape is written as text."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from ragtrace.capture.adapters import content_id, convert_each, number
from ragtrace.capture.content_blocks import parts_of, result_content, text_or_parts
from ragtrace.capture.model_messages import ModelMessage, Part, ToolCallPart, ToolResultPart
from ragtrace.capture.provider_replies import finish_reason
from ragtrace.records import Document
from ragtrace.text.sanitizer import identity_of, sendable

_TEXT_KEYS = ("page_content", "content", "text", "chunk", "document", "passage", "body")
_ID_KEYS = ("id", "doc_id", "document_id", "chunk_id", "id_", "node_id")
_SCORE_KEYS = ("score", "relevance_score", "similarity", "_score")
_ANSWER_KEYS = ("answer", "text", "output", "content", "response", "result")
_ROLES = {"human": "user", "ai": "assistant"}
RESULT_ROLES = ("tool", "function")  # a result that is older, or Ollama's, has the tool's name and no id of its call
_MAX_DOCUMENTS = 1_000
"""Documents of one retrieval that are read."""


def field_of(source: Any, *names: str) -> Any:
    """The first of these fields of a mapping or an object that is not None; None without one that can be read."""
    try:
        values = (source.get(name) if isinstance(source, Mapping) else getattr(source, name, None) for name in names)
        return next((value for value in values if value is not None), None)
    except Exception:  # noqa: BLE001 its methods raise
        return None


# --- documents -------------------------------------------------------------------------------------------


def documents_of(values: Any) -> list[Document]:
    """Documents of texts, mappings, (document, score) pairs, and Documents and nodes of ragtrace, LangChain and
    LlamaIndex, in their order. What cannot be read is left out."""
    try:
        if isinstance(values, (str, Mapping, Document)) or not isinstance(values, Iterable):
            values = field_of(values, "documents", "results", "matches", "hits") or [values]
            if isinstance(values, (str, Mapping)) or not isinstance(values, Iterable):
                return []
        return convert_each(islice(_flat(values), _MAX_DOCUMENTS), _document_of)
    except Exception:  # noqa: BLE001 an application's object whose methods raise
        return []


def _flat(values: Iterable[Any]) -> Iterator[Any]:
    """The items, and those of lists among them that have no number: a list of documents for each question."""
    for value in values:
        try:
            is_group = isinstance(value, (list, tuple)) and all(number(each) is None for each in value)
        except Exception:  # noqa: BLE001 an application's object
            is_group = False
        yield from value if is_group else (value,)


def _document_of(value: Any) -> Document | None:
    if isinstance(value, Document):
        return value
    if isinstance(value, str):
        return Document(content_id(value), value)
    score = None
    if isinstance(value, (list, tuple)):
        score = next(each for each in value if number(each) is not None)
        rest = [each for each in value if number(each) is None]
        texts = sorted((each for each in rest if isinstance(each, str)), key=len)
        if texts:
            return Document(texts[0] if len(texts) > 1 else content_id(texts[0]), texts[-1], number(score))
        value = rest[0] if rest else None
    score = score if score is not None else field_of(value, *_SCORE_KEYS)
    node = field_of(value, "node") or value
    content = field_of(node, *_TEXT_KEYS)
    if content is None or isinstance(node, (int, float, bytes)):
        return None
    content = content if isinstance(content, str) else sendable(content)
    raw = field_of(node, "metadata")
    metadata = {str(key): item for key, item in raw.items()} if isinstance(raw, Mapping) else {}
    identity = field_of(node, *_ID_KEYS) or metadata.get("id") or metadata.get("doc_id")
    score = number(score) if score is not None else number(metadata.get("score"))
    return Document(identity_of(identity) if identity else content_id(content), content, score, metadata)


# --- messages to a model ---------------------------------------------------------------------------------


def messages_of(value: Any) -> list[ModelMessage]:
    """The messages of a model call: a text is the user's one message."""
    if value is None:
        return []
    if isinstance(value, str):
        return [ModelMessage("user", value)]
    items: Sequence[Any] = value if isinstance(value, (list, tuple)) else [value]
    return convert_each(items, _message_of)


def _message_of(value: Any) -> ModelMessage:
    if isinstance(value, str):
        return ModelMessage("user", value)
    if isinstance(value, tuple) and len(value) == 2:
        return ModelMessage(identity_of(value[0]), text_or_parts(value[1]))
    role = field_of(value, "role", "type") or "user"
    role = identity_of(getattr(role, "value", role))
    if role.startswith("function_call"):  # items of OpenAI's Responses API
        return ModelMessage("tool" if role.endswith("_output") else "assistant", parts_of([_fields(value)]))
    content, call_id = field_of(value, "content", "blocks", "parts", "text"), field_of(value, "tool_call_id")
    if call_id is not None or role in RESULT_ROLES:
        name = field_of(value, "name", "tool_name") or None
        part = ToolResultPart(result_content(content), None if call_id is None else identity_of(call_id))
        return ModelMessage("tool", [part], name and identity_of(name))
    calls = raw_calls(value)
    if calls:
        return ModelMessage(_ROLES.get(role, role), [*parts_of(_plain(content)), *calls])
    return ModelMessage(_ROLES.get(role, role), text_or_parts(_plain(content)) if content is not None else "")


def _plain(content: Any) -> Any:
    """Content whose parts are mappings: clients have objects for them."""
    if isinstance(content, (list, tuple)):
        return [_fields(part) for part in content]
    return content


def _fields(part: Any) -> Any:
    dump = None if isinstance(part, (str, Mapping)) else getattr(part, "model_dump", None)
    return dump(exclude_none=True) if callable(dump) else part


def raw_calls(message: Any) -> list[ToolCallPart]:
    """The tool calls of a message, or beside a framework's message, in OpenAI's, Anthropic's or Cohere's format."""
    calls, older = field_of(message, "tool_calls"), field_of(message, "function_call")
    parts = [_call(call) for call in calls] if isinstance(calls, (list, tuple)) else []
    return [*parts, _call(older)] if isinstance(field_of(older, "name"), str) else parts


def _call(call: Any) -> ToolCallPart:
    function = field_of(call, "function") or call
    identity = field_of(call, "id", "call_id")
    name, arguments = field_of(function, "name"), field_of(function, "arguments", "args", "input", "parameters")
    return ToolCallPart(identity_of(name or ""), arguments, None if identity is None else identity_of(identity))


# --- what a model replied --------------------------------------------------------------------------------


def reply_of(reply: Any) -> ModelMessage | None:
    """What a model replied, as a message; None for nothing."""
    if reply is None or isinstance(reply, str):
        return None if reply is None else ModelMessage("assistant", reply)
    if isinstance(reply, tuple) and reply:  # an answer with something beside it
        return reply_of(reply[0])
    reason = finish_reason(reply)
    choices = field_of(reply, "choices")
    first = choices[0] if isinstance(choices, (list, tuple)) and choices else reply
    message = field_of(first, "message") or first
    calls = raw_calls(message)
    content = field_of(message, "output_text") if not calls else None
    content = content if isinstance(content, str) and content else field_of(message, "content", *_ANSWER_KEYS)
    if isinstance(content, str) and not calls:
        return ModelMessage("assistant", content, finish_reason=reason)
    parts: list[Part] = [*parts_of(_plain(content)), *calls]
    if not parts:
        return ModelMessage("assistant", sendable(reply), finish_reason=reason)
    return ModelMessage("assistant", parts, finish_reason=reason)


def chunk_text(chunk: Any) -> str:
    """The text of a piece of a streamed reply; empty for a piece without one."""
    if isinstance(chunk, str):
        return chunk
    choices = field_of(chunk, "choices")
    if isinstance(choices, (list, tuple)):
        chunk = choices[0] if choices else None
    delta = field_of(chunk, "delta") if chunk is not None else None
    kind = field_of(chunk, "type") if chunk is not None else None
    if isinstance(kind, str) and kind.startswith("response."):  # OpenAI's Responses API names each event
        return delta if isinstance(delta, str) and kind.endswith("text.delta") else ""
    if isinstance(delta, str):
        return delta
    if isinstance(kind, str) and kind.endswith(".done"):
        return ""  # OpenAI's helper says again what the events before it said
    if kind == "text" and field_of(chunk, "snapshot") is not None:
        return ""  # Anthropic's helper says again what the event before it said
    piece = delta if delta is not None else chunk
    text = field_of(piece, "content", "text", "message") if piece is not None else None
    if not isinstance(text, str) and text is not None:
        text = field_of(text, "content", "text")
    return text if isinstance(text, str) else ""
