"""From what a model wrote to the JSON that was asked for. Tolerant of form, strict in content."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ragtrace.text.markup import CLOSE, OPEN, REASONING_TAG

Schema = Mapping[str, Any]

_THOUGHT = re.compile(
    rf"^\s*{OPEN}(?P<tag>{REASONING_TAG}){CLOSE}(?P<thought>.*?)(?:{OPEN}/(?P=tag){CLOSE}|\Z)", re.S | re.I
)
_THOUGHT_END = re.compile(rf"{OPEN}/{REASONING_TAG}{CLOSE}|<\|channel\|>final<\|message\|>", re.I)
_FENCE = re.compile(r"```[\w-]*\n?(.*?)```", re.S)
_BROKEN = re.compile(r"\{\s*[\"'}]|\[\s*[\[{\"'\d]")
"""How JSON begins that is more than a bracket of prose."""
_SPACE = re.compile(r"\s+")
_WORDS = dict.fromkeys(("yes", "true", "1", "ja", "oui", "sí", "si", "sim"), True)
_WORDS |= dict.fromkeys(("no", "false", "0", "nein", "non", "não", "nee"), False)
_DECORATION = " \t\r\n*_`\"'"
"""What a model puts around a verdict: `"**Supported.**"`."""
_BARE = re.compile(r"^(?:_|[^\w{\[])*(?:(?:final\W+)?(?:verdict|answer|result)\W+)?(yes|no|true|false)\b", re.I)
_REMARK = "reason"
"""The one field that a verdict does without."""
_CLOSING = {"{": "}", "[": "]"}


class UnreadableError(ValueError):
    """The text holds no JSON of the wanted form; the message says what is wrong with it."""


def read(text: str, schema: Schema, quotable: Iterable[str] = ()) -> dict[str, Any]:
    """The object that a text holds, valid under a JSON schema of an object.

    Takes code fences, prose around it, trailing commas, single quotes, Python's constants, a bare array where the
    schema has one list, a bare yes or no where it has one verdict, and numbers and verdicts written as texts. A text
    that breaks off inside the JSON is not completed: half a list would be half a score.

    The model's reasoning is not read. After it, the last complete object counts; objects with different contents (a
    draft and its correction, a quotation and a verdict) are no verdict. `quotable` are the texts of the prompt: an
    object that occurs in one of them counts only if the model wrote nothing else. Raises UnreadableError.
    """
    bare = _without_reasoning(text)
    candidates, is_broken = _candidates(bare)
    problem = "it breaks off inside the JSON" if is_broken else "it holds no JSON"
    objects: list[dict[str, Any]] = []
    arrays: list[dict[str, Any]] = []
    for candidate in [] if is_broken else _not_quoted(candidates, bare, quotable):
        try:
            value = _valid(_fitted(_parse(candidate), schema), schema)
        except UnreadableError as error:
            problem = str(error)
            continue
        (objects if candidate.startswith("{") else arrays).append(value)
    values = objects or arrays  # in prose, [1] is a citation
    if any(_verdicts(value) != _verdicts(values[-1]) for value in values):
        raise UnreadableError("it holds several JSON objects with different contents; give the final one alone")
    if values:
        return values[-1]
    verdict = None if is_broken else _verdict(bare, schema)
    if verdict is not None:
        return verdict
    raise UnreadableError(problem)


def _verdicts(value: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of an answer without the remark, which may be worded in two ways."""
    return {name: item for name, item in value.items() if name != _REMARK}


def _without_reasoning(text: str) -> str:
    """The text after the model's reasoning. Some servers leave out the tag that opens it. A tag inside of an object is
    a part of what the object says."""
    match = _THOUGHT.match(text)
    text = text[match.end() :] if match else text
    inside = [(start, end) for start, end in _balanced(text) if end is not None]
    ends = [m.end() for m in _THOUGHT_END.finditer(text) if not any(a < m.start() < b for a, b in inside)]
    return text[ends[-1] :] if ends else text


def _not_quoted(candidates: Sequence[str], text: str, quotable: Iterable[str]) -> list[str]:
    """The candidates that are not quoted from what the model was given."""
    if len(candidates) == 1 and _FENCE.sub(r"\1", text).strip() == candidates[0]:
        return list(candidates)
    sources = [_SPACE.sub("", quote) for quote in quotable] if candidates else []
    return [c for c in candidates if not any(_SPACE.sub("", c) in quote for quote in sources)]


def _candidates(text: str) -> tuple[list[str], bool]:
    """The texts that may be JSON, in order, and whether the last one breaks off."""
    ranges = _balanced(text)
    rest = text[ranges[-1][0] :] if ranges and ranges[-1][1] is None else ""
    if not rest:
        return [text[start:end] for start, end in ranges], False
    # A bracket of prose that nothing closes hides what follows; a fence says where JSON begins.
    blocks = [block[a:b] for block in _FENCE.findall(text) for a, b in _balanced(block) if b is not None]
    if blocks:
        return blocks, False
    return [text[start:end] for start, end in ranges[:-1]], bool(_BROKEN.match(rest))


def _balanced(text: str) -> list[tuple[int, int | None]]:
    """Start and end of the outermost {…} and […] of a text, in order; the last has no end where nothing closes it."""
    ranges: list[tuple[int, int | None]] = []
    at: int | None = 0
    while at is not None and (start := _first(text, at)) is not None:
        at = _end(text, start)
        ranges.append((start, at))
    return ranges


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
        return json.loads(text, object_pairs_hook=_unique)
    except UnreadableError:
        raise
    except ValueError:
        import json_repair

        value = json_repair.loads(text)
    if not isinstance(value, (dict, list)) or not value:
        raise UnreadableError("its JSON is broken")
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of these fields. JSON allows a name twice; two values for one are no answer."""
    fields: dict[str, Any] = {}
    for name, value in pairs:
        if fields.setdefault(name, value) != value:
            raise UnreadableError(f"it gives {name[:50]!r} two values")
    return fields


def _fitted(value: Any, schema: Schema) -> Any:
    """A value bent to a schema where its meaning is plain."""
    properties: Schema = schema["properties"]
    if isinstance(value, list):
        is_whole = len(value) == 1 and isinstance(value[0], dict) and set(schema["required"]) <= set(value[0])
        lists = [name for name, inner in properties.items() if inner.get("type") == "array"]
        if not is_whole and len(lists) == 1 and len(schema["required"]) == 1:
            value = {lists[0]: value}
        elif len(value) == 1 and isinstance(value[0], dict):
            (value,) = value
    if not isinstance(value, dict):
        raise UnreadableError("its JSON is not an object")
    value = _named(value, properties)
    needed = set(schema["required"]) - {_REMARK}
    if not needed <= set(value):
        # {"result": {"claims": […]}}: one wrapper more than was asked for
        inner = [_named(v, properties) for v in value.values() if isinstance(v, dict)]
        whole = [fields for fields in inner if needed <= set(fields)]
        value = whole[0] if len(whole) == 1 else value
    fields = {name: _bent(item, properties[name]) for name, item in value.items() if name in properties}
    if _REMARK in properties:
        fields.setdefault(_REMARK, "")
    return fields


def _named(value: dict[str, Any], properties: Schema) -> dict[str, Any]:
    """The fields with their names as the schema writes them: "Verdict" is "verdict"."""
    plain = {name: name.strip().lower() for name in value}
    return _unique([(plain[name] if plain[name] in properties else name, item) for name, item in value.items()])


def _bent(value: Any, schema: Schema) -> Any:
    kind = schema.get("type")
    if kind == "array" and isinstance(value, list):
        return [_bent(item, schema["items"]) for item in value]
    if kind == "object" and isinstance(value, dict):
        value = _named(value, schema["properties"])
        return {k: _bent(v, schema["properties"][k]) for k, v in value.items() if k in schema["properties"]}
    if kind == "boolean" and value in (0, 1):
        return bool(value)
    if not isinstance(value, str):
        return int(value) if kind == "integer" and isinstance(value, float) and value.is_integer() else value
    word = value.lstrip(_DECORATION).rstrip(_DECORATION + ".").lower()
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
