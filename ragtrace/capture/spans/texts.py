"""Questions, answers and documents in the plain values that libraries write on spans: texts and JSON."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from ragtrace.capture.adapters import content_id, number
from ragtrace.capture.spans import dialects
from ragtrace.records import Document
from ragtrace.text.sanitizer import identity_of, sendable

USERS = ("user", "human", "HumanMessage")
ASSISTANTS = ("assistant", "ai", "AIMessage", "AIMessageChunk")
_DEPTH = 12
TEXT_PARTS = frozenset({"text", "input_text", "output_text"})
_OTHERS = "audio blob file function_call image image_url input_audio input_file input_image reasoning redacted_thinking"
_TOOLS = "server_tool_call server_tool_call_response thinking tool_call tool_call_response tool_result tool_use uri"
OTHER_PARTS = frozenset(f"{_OTHERS} {_TOOLS}".split())


def plain(value: Any) -> Any:
    """A text of JSON (an object or a list) as a value; any other value as it is."""
    return from_json(value) if isinstance(value, str) and value[:1] in ("{", "[") else value


def first_value(attributes: Mapping[str, Any], names: Iterable[str]) -> Any:
    """The value of the first of these names that has one."""
    for name in names:  # asked of every span several times
        value = attributes.get(name)
        if value is not None and value != "":
            return value
    return None


def as_text(value: Any) -> str | None:
    """The value as a text; None stays None."""
    return value if value is None or isinstance(value, str) else str(value)


def as_list(value: Any) -> Any:
    """Structured attributes are tuples; JSON has lists."""
    return list(value) if isinstance(value, tuple) else value


def from_json(value: Any) -> Any:
    """A text of JSON as a value, a quoted text too; any other value as it is."""
    if isinstance(value, str):
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            return value
    return value


def quoted_texts(value: Any) -> list[str]:
    """The texts of a JSON list; also of one whose texts are not escaped: `["one", "two"]`, as Spring AI writes it."""
    items = plain(as_list(value))
    if isinstance(items, list):
        return [item for item in items if isinstance(item, str)]
    if isinstance(items, str) and items.startswith('["') and items.endswith('"]'):
        return items[2:-2].split('", "')
    return [items] if isinstance(items, str) and items else []


def question_in(value: Any, depth: int = 0) -> str | None:
    """The question in a request's input; None where it is missing."""
    value = plain(value)
    if isinstance(value, str):
        return value if value.strip() and not dialects.NO_TEXT.match(value) else None
    if depth > _DEPTH:
        return None
    if isinstance(value, Mapping):
        if messages := value.get("messages"):
            return messages if isinstance(messages, str) else message_text(messages, USERS)
        for key in dialects.QUESTION_KEYS:
            if value.get(key):
                return question_in(value[key], depth + 1)
        texts = [v for v in value.values() if isinstance(v, str) and v]
        if len(texts) == 1:
            return question_in(texts[0], depth + 1)
        return question_in(value.get("args"), depth + 1) or question_in(value.get("kwargs"), depth + 1)
    if isinstance(value, (list, tuple)) and value:
        text = message_text(value, USERS)
        return text if text is not None else question_in(value[0], depth + 1) if len(value) == 1 else None
    return None


def answer_in(value: Any, depth: int = 0) -> str | None:
    """The answer in a request's or a tool's output; None where it is missing."""
    value = plain(value)
    if isinstance(value, str):
        return None if dialects.NO_TEXT.match(value) else value
    if depth > _DEPTH:
        return None
    if isinstance(value, Mapping):
        if value.get("messages"):
            return message_text(value["messages"], ASSISTANTS)
        if value.get("role") in ASSISTANTS:
            return message_text(value, ASSISTANTS)
        for key in ("kwargs", "data", "message"):  # serialised messages
            if isinstance(value.get(key), Mapping) and "content" in value[key]:
                return answer_in(value[key], depth + 1)
        for key in dialects.ANSWER_KEYS:
            if value.get(key) is not None:
                return answer_in(value[key], depth + 1)
        return None if "response_gen" in value else sendable(dict(value))
    if isinstance(value, (list, tuple)) and value:
        text = message_text(value, ASSISTANTS)
        return text if text is not None else _joined(value)
    return None if value is None or value == [] else str(value)


def message_text(messages: Any, roles: Sequence[str]) -> str | None:
    """The text of the last message of one of these roles, in any library's shape."""
    items = messages if isinstance(messages, (list, tuple)) else [messages]
    for item in reversed(items):
        if isinstance(item, (list, tuple)):
            is_pair = len(item) == 2 and isinstance(item[1], str) and item[0] in roles  # as LangChain takes it
            text = item[1] if is_pair else message_text(item, roles)
            if text is not None:
                return text
        if isinstance(item, Mapping):
            role, content = _message(item)
            if role in roles:
                text = _joined(content)
                if text or roles is not USERS or isinstance(content, str):  # else a tool's result, or a picture
                    return text
    return None


def _message(item: Mapping[str, Any]) -> tuple[str, Any]:
    """Role and content of a message: OpenAI's and OpenTelemetry's shape, and both of LangChain's serialised ones."""
    for key in ("data", "kwargs"):
        inner = item.get(key)
        if isinstance(inner, Mapping) and "content" in inner:
            identity = item.get("id")
            role = inner.get("type") or (identity[-1] if isinstance(identity, list) and identity else item.get("type"))
            return str(role), inner["content"]
    content = item.get("parts") or item.get("blocks") or item.get("content")
    return str(item.get("role") or item.get("type") or ""), content


def _joined(content: Any) -> str | None:
    """The text of a message's content: a text, or parts of which some are texts."""
    if isinstance(content, str):
        return content
    if not isinstance(content, (list, tuple)):
        return None
    texts = [part if isinstance(part, str) else _part_text(part) for part in content]
    return "".join(text for text in texts if isinstance(text, str)) if texts else None


def _part_text(part: Any) -> Any:
    """The text of a message's part; None for a tool's call or result, a model's thoughts, and a picture."""
    if not isinstance(part, Mapping) or "response" in part or part.get("type") in OTHER_PARTS:
        return None
    return part.get("text") or part.get("content")


def user_text(messages: Any) -> str | None:
    """The last thing that the user said in a list of messages, or in JSON with one; None where it is missing."""
    value = plain(messages)
    if isinstance(value, Mapping):
        value = value.get("messages") or value.get("input")
    return value if isinstance(value, str) else message_text(value, USERS) if value else None


def assistant_text(messages: Any) -> str | None:
    """The model's answer in a list of messages; "" for one that only calls tools."""
    value = plain(messages)
    items = value if isinstance(value, (list, tuple)) else [value]
    text = message_text(items, ASSISTANTS)
    return text if text is not None or not any(isinstance(item, Mapping) for item in items) else ""


def strings_in(value: Any, depth: int = 0) -> Iterator[str]:
    """All texts in a value, JSON or not."""
    value = plain(value)
    if isinstance(value, str):
        yield value
    elif depth < _DEPTH and isinstance(value, (Mapping, list, tuple)):
        for item in value.values() if isinstance(value, Mapping) else value:
            yield from strings_in(item, depth + 1)


def documents_in(value: Any) -> tuple[Document, ...] | None:
    """The documents in a retriever's output, in rank order; None where it holds none."""
    value = plain(value)
    if isinstance(value, Mapping):
        value = value.get("documents", value.get("outputs"))
    if not isinstance(value, list):
        return None
    documents = [document_of(item) for item in map(plain, value) if isinstance(item, Mapping)]
    return tuple(document for document in documents if document is not None) or (() if not value else None)


def document_of(item: Mapping[str, Any]) -> Document | None:
    """A document from its JSON: LangChain's, LlamaIndex's with its node, or OpenTelemetry's. It may have no text."""
    for key in ("node", "kwargs", "document"):
        if isinstance(item.get(key), Mapping):
            return document_of({**item[key], **({"score": item["score"]} if "score" in item else {})})
    text = next((item[key] for key in dialects.DOCUMENT_TEXTS if isinstance(item.get(key), str)), "")
    metadata = plain(item.get("metadata"))
    metadata = dict(metadata) if isinstance(metadata, Mapping) else {}
    own_id = None if isinstance(item.get("id"), list) else item.get("id")  # LangChain's serialised form has a path
    identities = (item.get("id_"), item.get("node_id"), own_id, metadata.get("id"), metadata.get("doc_id"))
    identity = next(filter(None, identities), None)
    if not text and identity is None:
        return None
    score = number(item.get("score"))
    if score is None:
        score = next((number(metadata[key]) for key in dialects.SCORES if metadata.get(key) is not None), None)
    return Document(identity_of(identity) if identity else content_id(text), text, score, metadata)
