"""From what a model wrote to the JSON that was asked for. Tolerant of form, strict in content."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from ragtrace.text.marks import CLOSE, OPEN, REASONING_TAG

Schema = Mapping[str, Any]

_THOUGHT = re.compile(
    rf"^\s*{OPEN}(?P<tag>{REASONING_TAG}){CLOSE}(?P<thought>.*?)(?:{OPEN}/(?P=tag){CLOSE}|\Z)", re.S | re.I
)
_THOUGHT_END = re.compile(
    rf"{OPEN}/{REASONING_TAG}{CLOSE}|<\|END_THINKING\|>|<\|channel\|>final<\|message\|>|assistantfinal(?=\W)", re.I
)
_FENCE = re.compile(r"```[\w-]*\n?(.*?)```", re.S)
_BROKEN = re.compile(r"\{\s*[\"'}]|\[\s*[\[{\"'\d]")
"""How JSON begins that is more than a bracket of prose."""
_MEMBER = re.compile(r"[{,]\s*[\"'“]?(\w+)[\"'”]?\s*:")
"""The name of a value in an object, where the quotes may be missing."""
_SPACE = re.compile(r"[\s\\]+")
"""What a model may change in what it quotes: white space, and the backslashes of an escape."""
_WORDS = dict.fromkeys(("yes", "true", "1", "ja", "oui", "sí", "si", "sim"), True)
_WORDS |= dict.fromkeys(("no", "false", "0", "nein", "non", "não", "nee"), False)
_DECORATION = re.compile(r"\A(?:_|[^\w+-])+|[\W_]+\Z")
"""What a model puts around a verdict: `"**Supported.**"`."""
_NUMBER = re.compile(r"[^\w+-]*([+-]?\d{1,6})\W*")
_BARE_WORD = (
    r"(yes|no|true|false)\b(?!\. ?\d)"
    r"(?=[*_`\"']*\s*(?:$|[.,;:!)\n\u2013\u2014-]|(?:because|since|as|it|the|this|that|there|they)\b))"
)
"""A verdict that is a word of its own: not that of "no problem", "yes and no" and "true/false"."""
_BARE = re.compile(rf"^(?:_|[^\w{{\[])*(?:(?:final\W+)?(?:verdict|answer|result)\W+)?{_BARE_WORD}", re.I)
_LATER = re.compile(rf"[\n.,;:!?][\s*_\"']*{_BARE_WORD}", re.I)
_REMARK = "reason"
"""The one field that a verdict does without."""
_DASHES = re.compile(r"[\W_]+")
_OPENING, _CLOSING = re.compile(r"[{\[]"), {"{": "}", "[": "]"}


class UnreadableError(ValueError):
    """The text holds no JSON of the wanted form; the message says what is wrong with it."""


def read(text: str, schema: Schema, quotable: Iterable[str] = ()) -> dict[str, Any]:
    """The object that a text holds, valid under a JSON schema of an object.

    Takes code fences, prose around it, trailing commas, single quotes, Python's constants, a bare array where the
    schema has one list and no sentence is around it, a bare yes or no where it has one verdict, and numbers and
    verdicts written as texts. A text that breaks off inside the JSON is not completed: half a list would be half a
    score.

    The model's reasoning is not read. After it, the last complete object counts; objects with different contents (a
    draft and its correction, a quotation and a verdict) are no verdict. `quotable` are the texts of the prompt: an
    object that occurs in one of them counts only if the model wrote nothing else. Raises UnreadableError."""
    bare = without_reasoning(text)
    candidates, is_broken = _candidates(bare)
    problem = "it breaks off inside the JSON" if is_broken else "it holds no JSON"
    objects: list[dict[str, Any]] = []
    arrays: list[dict[str, Any]] = []
    for candidate in [] if is_broken else _not_quoted(candidates, bare, quotable):
        if candidate.startswith("[") and not _is_alone(candidate, bare):  # in prose, [1] is a citation
            continue
        try:
            value = _valid(_fitted(_parse(candidate), schema), schema)
        except UnreadableError as error:
            problem = str(error)
            continue
        (objects if candidate.startswith("{") else arrays).append(value)
    values = objects or arrays
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


def without_reasoning(text: str) -> str:
    """The text after the model's reasoning. Some servers leave out the tag that opens it. A tag inside of an object is
    a part of what the object says."""
    match = _THOUGHT.match(text)
    text = text[match.end() :] if match else text
    inside = [(start, end) for start, end in _balanced(text) if end is not None]
    ends = [m.end() for m in _THOUGHT_END.finditer(text) if not any(a < m.start() < b for a, b in inside)]
    return text[ends[-1] :] if ends else text


def _is_alone(array: str, text: str) -> bool:
    """Whether an array has lines of its own, or follows a colon: "Relevant: [1, 2]."."""
    start = text.find(array)
    before, after = text[:start].rstrip(" \t*_`\"'"), text[start + len(array) :].lstrip(" \t*_`\"'.;")
    return (not before or before.endswith(("\n", ":", ">"))) and (not after or after.startswith(("\n", "<")))


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
    while at is not None and (opening := _OPENING.search(text, at)) is not None:
        at = _end(text, opening.start())
        ranges.append((opening.start(), at))
    return ranges


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
    except RecursionError:
        raise UnreadableError("its JSON nests too deeply") from None
    except ValueError:
        return _repaired(text)


_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
_LEFT_OUT = re.compile(r"\.\.\.|…|(?<!:)//|/\*")


def _repaired(text: str) -> Any:
    """What is meant by JSON with small faults of form. Repairing keeps the last of two values under one name."""
    import json_repair

    if _LEFT_OUT.search(_STRING.sub("", text)):  # a repair would drop it, and what is left would look whole
        raise UnreadableError("its JSON leaves something out")
    try:
        value: Any = json_repair.loads(text)
        names = list(_names(value))
    except (ValueError, RecursionError):
        raise UnreadableError("its JSON is broken") from None
    if not isinstance(value, (dict, list)) or not value:
        raise UnreadableError("its JSON is broken")
    fields = set(names)
    if sum(name in fields for name in _MEMBER.findall(text)) > len(names):
        raise UnreadableError("its JSON is broken, and may give a name two values")
    return value


def _names(value: Any) -> Iterator[str]:
    """The names of all values in an object or array."""
    if isinstance(value, dict):
        yield from value
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _names(inner)


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
    if _REMARK in properties and not isinstance(fields.get(_REMARK), str):
        remark = fields.get(_REMARK)
        fields[_REMARK] = "" if remark is None else json.dumps(remark, ensure_ascii=False)
    return fields


def _named(value: dict[str, Any], properties: Schema) -> dict[str, Any]:
    """The fields with their names as the schema writes them: "Verdict" is "verdict", "answerFails" "answer_fails"."""
    plain = {_DASHES.sub("", name).lower(): name for name in properties}
    return _unique([(plain.get(_DASHES.sub("", name).lower(), name), item) for name, item in value.items()])


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
    word = _DECORATION.sub("", value).lower()
    if kind == "boolean":
        return _WORDS.get(word, value)
    if kind == "integer" and (number := _NUMBER.fullmatch(value)) is not None:
        return int(number[1])
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
    """A bare yes or no, where one verdict is all that is needed and no other one follows."""
    required = schema["required"]
    if len(required) != 1 or schema["properties"][required[0]].get("type") != "boolean":
        return None
    match = _BARE.match(text)
    if match is None:
        return None
    verdict = _WORDS[match[1].lower()]
    is_certain = all(_WORDS[later[1].lower()] == verdict for later in _LATER.finditer(text, match.end(1)))
    return {required[0]: verdict} if is_certain else None
