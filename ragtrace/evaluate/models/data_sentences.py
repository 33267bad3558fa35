"""Data as sentences: objects of JSON and lines of `key: value`, so that a model of prose can read them.

A record is one text: "id: SO-1; status: shipped; shipped at: 2025-03-04." So a value stays with its key, and no
value is read as one of another record. The parser is our own, because results of tools are often cut off, and because
each record needs its place in the text; `json` gives neither."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple

from ragtrace.text.sentences import split

_SENTENCES = 4_000
_KEY = re.compile(r"""["'][\w .-]{1,40}["']\s*:""")
_BEGIN = re.compile(r"""[{\[](?=\s*(?:[{\[]|["'][\w .-]{1,40}["']\s*:))""")
_TOKEN = re.compile(
    r""""(?:[^"\\]|\\.)*+"?|(?<!\w)'(?:[^'\\]|\\.|(?<=\w)'(?=\w))*+'?|[{}\[\],:]|[^\s{}\[\],:"'][^{}\[\],"\n]*+"""
)
_PAIR = re.compile(r"[ \t]*(?:- )?([A-Za-z][\w .()/%-]{0,39}?)[ \t]*[:=][ \t]+(\S.*)")
_STATE = re.compile(r"[A-Z]+(?:_[A-Z]+)+|[A-Z]{4,}")
_PROSE = 160
"""Characters from which a value is prose: its sentences are read one by one."""
_PATH = 80
"""Characters of the keys around a value that are kept, the last ones."""


class ChunkPart(NamedTuple):
    """A sentence, or a record."""

    start: int
    end: int
    """Characters of the chunk, end exclusive."""
    text: str
    """What the reader reads."""
    parent: int | None = None
    """The number of the part that says what this one is about: an object, or the first row of a table."""


def divide(chunk: str) -> list[ChunkPart]:
    """The sentences and records of a chunk in their order, at most 4,000. Linear in its length."""
    out: list[ChunkPart] = []
    at = 0
    if len(list(islice(_KEY.finditer(chunk), 3))) == 3:
        while begin := _BEGIN.search(chunk, at):
            _read_lines(chunk, at, begin.start(), out)
            at = _read_object(chunk, begin.start(), out)
    _read_lines(chunk, at, len(chunk), out)
    return out[:_SENTENCES]


def _name(key: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])|_+", " ", key).strip()


def _value(token: str) -> str:
    """Without quotes; a state in capitals in small letters, which are fewer word pieces."""
    token = token.strip()
    if token[:1] in {'"', "'"}:
        token = token[1:].removesuffix(token[0])
        try:
            token = str(json.loads(f'"{token}"')) if "\\" in token else token
        except ValueError:
            token = token.replace("\\n", " ")
    return _name(token.lower()) if _STATE.fullmatch(token) else token


@dataclass(slots=True)
class _Record:
    """An object of a list, or of no other. What is in it, but for lists of objects, is part of it."""

    number: int
    name: str
    start: int
    parent: int | None
    fields: list[str] = field(default_factory=list)


@dataclass(slots=True)
class _Bracket:
    """One that is not closed yet."""

    record: _Record | None
    name: str
    """The keys before it, within its record."""
    start: int
    is_list: bool
    is_record: bool
    values: list[str] = field(default_factory=list)


def _read_object(chunk: str, start: int, out: list[ChunkPart]) -> int:
    """Read data as far as its first bracket is closed, or the chunk ends; returns where."""
    stack: list[_Bracket] = []
    key = ""
    for token in _TOKEN.finditer(chunk, start):
        mark, top = token.group(), stack[-1] if stack else None
        if mark in "{[":
            record, name = (top.record, top.name if top.is_list else _path(top, key)) if top else (None, "")
            if is_record := mark == "{" and (top is None or top.is_list):
                record = _Record(len(out), name, token.start(), record.number if record else None)
                out.append(ChunkPart(token.start(), token.start(), "", record.parent))
                name = ""
            stack.append(_Bracket(record, name, token.start(), mark == "[", is_record))
            key = ""
        elif mark in "}]":
            _close(stack.pop(), token.end(), out)
            if not stack:
                return token.end()
        elif mark not in ",:" and top is not None:
            text = _value(mark)
            if not top.is_list and not key and chunk[token.end() : token.end() + 4].lstrip().startswith(":"):
                key = _name(text)
                continue
            if len(mark) > _PROSE:
                first = mark[0] in "\"'"
                inner = mark[first : len(mark) - (first and mark[-1] == mark[0])]
                at, parent = token.start() + first, top.record.number if top.record else None
                out.extend(
                    ChunkPart(at + a, at + b, _value(f'"{inner[a:b]}"'), parent) for a, b in split(inner, _SENTENCES)
                )
            elif top.is_list or top.record is None:
                top.values.append(text)
            else:
                top.record.fields.append(f"{_path(top, key)}: {text}".strip(" :"))
            key = ""
    while stack:
        _close(stack.pop(), len(chunk), out)
    return len(chunk)


def _path(bracket: _Bracket, key: str) -> str:
    return f"{bracket.name} {key}".strip()[-_PATH:]


def _close(bracket: _Bracket, end: int, out: list[ChunkPart]) -> None:
    record, values = bracket.record, bracket.values
    if bracket.is_list and values:
        text = f"{bracket.name}: {', '.join(values)}".strip(" :")
        if record is None:
            out.append(ChunkPart(bracket.start, end, f"{text}."))
        else:
            record.fields.append(text)
    elif record and record.fields and bracket.is_record:
        text = f"{record.name}: {'; '.join(record.fields)}.".removeprefix(": ")
        out[record.number] = ChunkPart(record.start, end, text, record.parent)


def _read_lines(chunk: str, start: int, end: int, out: list[ChunkPart]) -> None:
    """Lines of `key: value`, and the prose between them."""
    matches = re.finditer(r"[^\n]+", chunk[start:end])
    lines = [ChunkPart(start + m.start(), start + m.end(), m.group()) for m in matches]
    at = prose = 0
    while at < len(lines):
        fields = _pairs(lines, at)
        if len(fields) >= 3:
            _read_prose(chunk, lines[prose:at], out)
            text = "; ".join(f"{_name(key)}: {_value(value)}" for key, value in fields.items())
            at = prose = at + len(fields)
            out.append(ChunkPart(lines[at - len(fields)].start, lines[at - 1].end, f"{text}."))
        else:
            at += 1
    _read_prose(chunk, lines[prose:], out)


def _read_prose(chunk: str, lines: Sequence[ChunkPart], out: list[ChunkPart]) -> None:
    table = None
    start = lines[0].start if lines else 0
    for a, b in split(chunk[start : lines[-1].end], _SENTENCES) if lines else ():
        row = chunk[start + a] == "|"
        out.append(ChunkPart(start + a, start + b, chunk[start + a : start + b], table if row else None))
        table = (len(out) - 1 if table is None else table) if row else None


def _pairs(lines: Sequence[ChunkPart], at: int) -> dict[str, str]:
    """The lines of `key: value` from a line on, as far as a key comes again, or a line is empty or of another form."""
    fields: dict[str, str] = {}
    for number in range(at, len(lines)):
        line = lines[number]
        pair = _PAIR.fullmatch(line.text) if len(line.text) <= _PROSE else None
        if pair is None or pair[1] in fields or (fields and line.start > lines[number - 1].end + 1):
            break
        fields[pair[1]] = pair[2]
    return fields
