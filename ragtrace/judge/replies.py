"""From what a model wrote to the JSON that was asked for. Tolerant of form, strict in content."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

Schema = Mapping[str, Any]

_THOUGHT = re.compile(r"^\s*<think(?:ing)?>.*?</think(?:ing)?>", re.S)
_FENCE = re.compile(r"```[\w-]*\n?(.*?)```", re.S)
_WORDS = {"yes": True, "true": True, "no": False, "false": False}
_BARE = re.compile(r"^[\W_]*(?:(?:verdict|answer|result)\W+)?(yes|no|true|false)\b", re.I)
_REMARK = "reason"
"""The one field that a verdict does without."""
_CLOSING = {"{": "}", "[": "]"}


class UnreadableError(ValueError):
    """The text holds no JSON of the wanted form; the message says what is wrong with it."""


def read(text: str, schema: Schema) -> dict[str, Any]:
    """The object that a text holds, valid under a JSON schema of an object.

    Takes code fences, prose around it, trailing commas, single quotes, Python's constants, a bare array where the
    schema has one list, a bare yes or no where it has one verdict, and numbers and verdicts written as texts. A text
    that breaks off inside the JSON is not completed: half a list would be half a score. Raises UnreadableError.
    """
    bare = _THOUGHT.sub("", text)
    problem = "it holds no JSON"
    for candidate in _candidates(bare):
        try:
            return _valid(_fitted(_parse(candidate), schema), schema)
        except UnreadableError as error:
            problem = str(error)
    verdict = _verdict(bare, schema)
    if verdict is not None:
        return verdict
    raise UnreadableError(problem)


def _candidates(text: str) -> Iterator[str]:
    for block in _FENCE.findall(text):
        yield from _balanced(block)
    yield from _balanced(text)


def _balanced(text: str) -> Iterator[str]:
    """The outermost {…} and […] of a text that are closed, in order."""
    at = 0
    while (start := _first(text, at)) is not None:
        end = _end(text, start)
        if end is None:
            return
        yield text[start:end]
        at = end


def _first(text: str, at: int) -> int | None:
    places = [p for p in (text.find("{", at), text.find("[", at)) if p >= 0]
    return min(places) if places else None


def _end(text: str, start: int) -> int | None:
    waiting: list[str] = []
    quoted = False
    i = start
    while i < len(text):
        c = text[i]
        if quoted:
            if c == "\\":
                i += 1
            elif c == '"':
                quoted = False
        elif c == '"':
            quoted = True
        elif c in _CLOSING:
            waiting.append(_CLOSING[c])
        elif waiting and c == waiting[-1]:
            waiting.pop()
            if not waiting:
                return i + 1
        i += 1
    return None


def _parse(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        import json_repair

        value = json_repair.loads(text)
    if not isinstance(value, (dict, list)) or not value:
        raise UnreadableError("its JSON is broken")
    return value


def _fitted(value: Any, schema: Schema) -> Any:
    """A value bent to a schema where its meaning is plain."""
    properties: Schema = schema["properties"]
    if isinstance(value, list):
        lists = [name for name, inner in properties.items() if inner.get("type") == "array"]
        if len(lists) == 1 and len(schema["required"]) == 1:
            value = {lists[0]: value}
        elif len(value) == 1 and isinstance(value[0], dict):
            (value,) = value
    if not isinstance(value, dict):
        raise UnreadableError("its JSON is not an object")
    needed = set(schema["required"]) - {_REMARK}
    if not needed <= set(value):
        # {"result": {"claims": […]}}: one wrapper more than was asked for
        inner = [v for v in value.values() if isinstance(v, dict) and needed <= set(v)]
        value = inner[0] if len(inner) == 1 else value
    fields = {name: _bent(item, properties[name]) for name, item in value.items() if name in properties}
    if _REMARK in properties:
        fields.setdefault(_REMARK, "")
    return fields


def _bent(value: Any, schema: Schema) -> Any:
    kind = schema.get("type")
    if kind == "array" and isinstance(value, list):
        return [_bent(item, schema["items"]) for item in value]
    if kind == "object" and isinstance(value, dict):
        return {k: _bent(v, schema["properties"][k]) for k, v in value.items() if k in schema["properties"]}
    if not isinstance(value, str):
        return int(value) if kind == "integer" and isinstance(value, float) and value.is_integer() else value
    word = value.strip().lower()
    if kind == "boolean":
        return _WORDS.get(word, value)
    if kind == "integer" and re.fullmatch(r"[+-]?\d{1,6}", word):
        return int(word)
    return word if "enum" in schema and word in schema["enum"] else value


def _valid(value: dict[str, Any], schema: Schema) -> dict[str, Any]:
    import jsonschema

    try:
        jsonschema.validate(value, dict(schema))
    except jsonschema.ValidationError as error:
        where = "/".join(str(p) for p in error.absolute_path) or "the object"
        raise UnreadableError(f"{where}: {error.message}"[:300]) from None
    return value


def _verdict(text: str, schema: Schema) -> dict[str, Any] | None:
    """A bare yes or no, where one verdict is all that is needed."""
    required = schema["required"]
    if len(required) != 1 or schema["properties"][required[0]].get("type") != "boolean":
        return None
    match = _BARE.match(text)
    return {required[0]: _WORDS[match[1].lower()]} if match else None
