"""Finds documents in what retrievers, steps and tools return. Duck-typed: an object of an unknown shape is ignored."""

import ast
import json
from collections.abc import Iterable, Mapping
from typing import Any

from ragtrace.capture.adapters import content_id, convert_each, number
from ragtrace.records import Document
from ragtrace.text.sanitizer import identity_of, sendable

_SCORE_KEYS = ("score", "relevance_score", "similarity_score", "_score", "similarity")
_TEXT_KEYS = ("page_content", "content", "text")
_SOURCE_KEYS = frozenset(
    {"metadata", "source", "url", "title", "id", "doc_id", "document_id", "chunk_id", *_SCORE_KEYS}
)
"""Keys of which a passage in a tool's JSON has at least one; without them it may be anything, e.g. a chat message."""
_MAX_DEPTH = 5
"""Levels of a value that are searched: a command's update, its messages, their artifact, its list."""
_MAX_TEXT = 500_000
"""Characters of a tool's result that are searched for documents."""


def documents_of(documents: Any) -> list[Document]:
    """Converts documents, in rank order. A document that cannot be read is left out; the others are kept."""
    return convert_each(documents, _converted)


def documents_in(value: Any) -> list[Document]:
    """Returns the documents in what a step takes or returns: a document, a list of documents or of (document, score),
    a state with such lists, a message with them as its artifact, a command with such an update; [] without any."""
    raw: list[Any] = []
    try:  # `contextlib.suppress` takes longer than the search, and every step comes here
        _collect(value, raw, 0)
    except Exception:  # noqa: BLE001 an object of the application, whose properties may raise
        return documents_of(raw)
    return documents_of(raw) if raw else []


def documents_of_state(state: Any) -> list[Document]:
    """Returns the documents in what a whole chain or graph takes or returns. Its messages are left out: they are the
    whole conversation, with the documents of earlier turns."""
    if isinstance(state, Mapping):
        return documents_in({key: value for key, value in state.items() if key != "messages"})
    return documents_in(state) if _kind(state) != _MESSAGES else []


def documents_of_tool(output: Any) -> list[Document]:
    """Returns the documents in a tool's output: as objects or in its artifact, else written in its text as JSON or as
    Python writes a list of documents."""
    return documents_in(output) or _documents_in_text(getattr(output, "content", output))


_NOTHING, _MAPPING, _SEQUENCE, _DOCUMENT, _MESSAGE, _MESSAGES, _COMMAND, _OBJECT, _UNREADABLE = range(9)
_kinds: dict[type, int] = {
    **dict.fromkeys((str, bytes, int, float, bool, type(None)), _NOTHING), dict: _MAPPING, list: _SEQUENCE
}  # fmt: skip
"""Kind by type: to ask a pydantic object for an attribute that it lacks costs microseconds."""


def _kind(value: Any) -> int:
    kind = _kinds.get(type(value))
    if kind is None:
        try:
            kind = _classify(value)
        except Exception:  # noqa: BLE001 an application's object: it must not hide its neighbours
            kind = _UNREADABLE
        if len(_kinds) < 1_000:  # an application may make classes without end
            _kinds[type(value)] = kind
    return kind


def _classify(value: Any) -> int:
    if isinstance(value, Mapping):
        return _MAPPING
    if isinstance(value, (list, tuple)):
        return _SEQUENCE
    if hasattr(value, "to_messages"):
        return _MESSAGES
    if hasattr(value, "page_content"):
        return _DOCUMENT
    if hasattr(value, "content"):
        return _MESSAGE if hasattr(value, "artifact") else _NOTHING
    if hasattr(value, "update") and hasattr(value, "goto"):  # LangGraph's Command
        return _COMMAND
    return _OBJECT if hasattr(value, "__dict__") and not callable(value) else _NOTHING


def _collect(value: Any, raw: list[Any], depth: int) -> None:
    """Appends the documents in `value` to `raw`. Every step of a request passes here."""
    kind = _kind(value)
    if kind in (_NOTHING, _MESSAGES, _UNREADABLE) or depth > _MAX_DEPTH:
        return
    if kind == _MAPPING:
        for each in value.values():
            if type(each) is not str:
                _collect(each, raw, depth + 1)
    elif kind == _SEQUENCE:
        _collect_from_list(value, raw, depth)
    elif kind == _DOCUMENT:
        raw.append(value)
    elif kind == _MESSAGE:
        _collect(value.artifact, raw, depth + 1)
    else:  # a state that is a dataclass or a pydantic object
        _collect(value.update if kind == _COMMAND else vars(value), raw, depth + 1)


def _collect_from_list(values: Any, raw: list[Any], depth: int) -> None:
    first = values[0] if values else None
    if _is_document(first[0] if isinstance(first, tuple) and first else first):
        raw += values
    elif _kind(first) != _NOTHING or hasattr(first, "content"):
        for each in values:
            _collect(each, raw, depth + 1)


def _is_document(value: Any) -> bool:
    return isinstance(value.get("page_content"), str) if isinstance(value, dict) else _kind(value) == _DOCUMENT


def _converted(document: Any) -> Document | None:
    """Converts one document, also one with its score beside it, or as a dictionary; None for anything else."""
    score = None
    if isinstance(document, tuple) and len(document) == 2:
        document, score = document[0], number(document[1])
    if isinstance(document, dict):
        document = _Fields(document)
    if _kind(document) != _DOCUMENT:
        return None
    content = document.page_content
    if not isinstance(content, str):
        content = sendable(content)
    # To ask a pydantic object for an attribute that it lacks costs microseconds.
    fields = getattr(document, "__dict__", {})
    raw = fields.get("metadata")
    metadata = dict(raw) if type(raw) is dict or isinstance(raw, Mapping) else {}
    identity, own = _identity(fields, metadata) or content_id(content), _score_of(fields, metadata)
    return Document(identity, content, score if own is None else own, metadata)


class _Fields:
    """The attributes of a document that is a dictionary."""

    def __init__(self, fields: Mapping[str, Any]) -> None:
        self.page_content = next((fields[key] for key in _TEXT_KEYS if isinstance(fields.get(key), str)), "")
        self.id = fields.get("id") or fields.get("doc_id") or fields.get("url") or fields.get("source")
        self.score = next((fields[key] for key in _SCORE_KEYS if key in fields), None)
        own = fields.get("metadata")
        rest = {key: value for key, value in fields.items() if key not in _TEXT_KEYS and key not in ("type", "id")}
        self.metadata = own if isinstance(own, Mapping) else rest


def _identity(fields: Mapping[str, Any], metadata: Mapping[str, Any]) -> str | None:
    for value in (fields.get("id"), metadata.get("id"), metadata.get("doc_id")):
        if isinstance(value, str):
            if value:
                return identity_of(value)
        # pandas.NA and arrays of numpy have no truth.
        elif value is not None and type(value).__name__ != "NAType":
            return identity_of(value)
    return None


def _score_of(fields: Mapping[str, Any], metadata: Mapping[str, Any]) -> float | None:
    value = fields.get("score")
    for key in _SCORE_KEYS:
        if value is not None:
            break
        value = metadata.get(key)
    try:
        return number(value)
    except Exception:  # noqa: BLE001 e.g. 10**400, which is no float
        return None


def _documents_in_text(text: Any) -> list[Document]:
    if not isinstance(text, str) or len(text) > _MAX_TEXT or text[:1] not in ("[", "{", "D"):
        return []
    if text.startswith(("[Document(", "Document(")):
        return documents_of(_written_by_python(text))
    if text[0] == "D" or not any(f'"{key}"' in text for key in _TEXT_KEYS):
        return []
    try:
        return documents_of(_passages(json.loads(text)))
    except (ValueError, RecursionError):
        return []


def _passages(value: Any) -> list[dict[str, Any]]:
    """Returns the passages of a tool's JSON: a list of them, or an object with such a list, e.g. under `results`."""
    if isinstance(value, dict) and not _is_passage(value):
        lists = [each for each in value.values() if isinstance(each, list) and each and _is_passage(each[0])]
        return lists[0] if lists else []
    items: Iterable[Any] = value if isinstance(value, list) else [value]
    return [item.get("kwargs", item) for item in items if _is_passage(item)]


def _is_passage(value: Any) -> bool:
    if not isinstance(value, dict):
        return False
    if "lc" in value and isinstance(value.get("kwargs"), dict):  # written by LangChain's own `dumps`
        value = value["kwargs"]
    if isinstance(value.get("page_content"), str):
        return True
    has_text = any(isinstance(value.get(key), str) and value[key] for key in _TEXT_KEYS)
    return has_text and "role" not in value and not _SOURCE_KEYS.isdisjoint(value)


def _written_by_python(text: str) -> list[dict[str, Any]]:
    """Reads `[Document(id=…, metadata=…, page_content=…), …]`: LangChain gives a model a tool's documents like this."""
    try:
        tree = ast.parse(text, mode="eval").body
        calls = tree.elts if isinstance(tree, ast.List) else [tree]
        return [
            {word.arg: ast.literal_eval(word.value) for word in call.keywords if word.arg}
            for call in calls
            if isinstance(call, ast.Call)
        ]
    except (SyntaxError, ValueError, MemoryError, RecursionError):  # metadata that Python does not write as a literal
        return []
