"""Rows of a data set: the fields of each line as a trace, under the id that the file gives it."""

import ast
import gzip
import json
import math
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

from ragtrace.base.readers import records
from ragtrace.errors import DataError
from ragtrace.records import INPUTS, Document, Facts, Trace


def field_of(name: str) -> str:
    """The field of a row that holds this input of `records.INPUTS`."""
    return "contexts" if name in ("documents", "context") else name


_ALIASES: Mapping[str, tuple[str, ...]] = {
    "query": ("query", "question", "user_input", "input", "prompt"),
    "contexts": ("contexts", "context", "retrieved_contexts", "retrieval_context", "documents"),
    "answer": ("answer", "response", "actual_answer", "actual_output", "output", "generated_answer"),
    "reference": ("reference", "expected_answer", "expected_output", "ground_truth", "reference_answer"),
    "constraints": ("constraints", "output_constraints"),
}
COLUMNS: Mapping[str, tuple[str, ...]] = {
    "id": ("id",),
    **{field: _ALIASES.get(field, (field,)) for field in map(field_of, INPUTS)},
    "model": ("model", "app", "prompt_version"), "duration": ("duration", "latency"), "cost": ("cost",),
}  # fmt: skip
"""The fields of a row and the column names that are tried for them, in order. Every input of `records.INPUTS` is a
field."""
_MAIN = ("query", "answer", "contexts", "steps")
"""A row needs at least one of these fields."""


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the input: a trace under the id that the file gives it."""

    id: Any
    trace: Trace
    model: str = ""
    """The group to compare: a model, an application or a prompt version."""
    duration: float | None = None
    """Seconds that the application needed for the answer."""
    cost: float | None = None
    """US dollars that the answer cost."""
    perturbation: str | None = None
    original: Any = None
    """The id of the original row of a perturbed one."""
    evaluators: frozenset[str] | None = None
    """Names of the evaluators that score it; None for all of the run."""


Item = Row | DataError


def read(
    path: str | os.PathLike[str], columns: Mapping[str, str] | None = None, *, unused: dict[str, Any] | None = None
) -> Iterator[Item]:
    """The rows of a file or folder. For a line that cannot be used, the error that says why.

    Reads plain or gzipped JSON lines, or one JSON array; `.csv` and `.tsv`, plain or gzipped, whose cells may contain
    lists; `.parquet`; a folder written by `datasets.save_to_disk`. `columns` maps fields to column names; for other
    fields the names in COLUMNS are tried, then those of texts in any case. Fields: `id` (default: the number of the
    line), `query`, `contexts` (texts, or objects with `content`, `text` or `page_content` and optionally `id`, `score`,
    `metadata`; or a list of these as JSON or Python writes it), `answer`, and optionally `reference`, `constraints`,
    `steps`, `model`, `duration`, `cost`. A line with the id and model of an earlier line is an error.
    `unused` receives the columns from which no field is read, with the first value of each.
    Raises DataError if the file itself cannot be read."""
    name = os.fspath(path)
    mapping = dict(columns or {})
    if unknown := sorted(set(mapping) - set(COLUMNS)):
        raise DataError(f"{name}: there is no field {', '.join(unknown)} to map; fields are {', '.join(COLUMNS)}")
    lines: dict[tuple[str, str], int] = {}
    try:
        for number, fields in records(Path(path)):
            try:
                if isinstance(fields, ValueError):
                    raise fields
                if unused is not None:
                    used = set(_columns(fields, mapping).values())
                    unused |= {name: value for name, value in fields.items() if name not in used | set(unused)}
                row = row_of(fields, number, mapping)
                first = lines.setdefault((str(row.id), row.model), number)
                if first != number:
                    raise ValueError(f"line {first} has the same id {row.id!r}")
                yield row
            except (ValueError, TypeError, RecursionError) as error:
                yield DataError(f"{name}, line {number}: {error}")
    except (OSError, EOFError, gzip.BadGzipFile) as error:
        raise DataError(f"{name} cannot be read: {error}") from error


def row_of(fields: Mapping[str, Any], number: int, columns: Mapping[str, str] | None = None) -> Row:
    """The row of one line. `number` is its id if it has none. Raises ValueError or TypeError with what is wrong."""
    values = {field: fields[column] for field, column in _columns(fields, columns or {}).items()}
    if not any(key in values for key in _MAIN):
        names = ", ".join(fields)[:300]
        raise ValueError(f"the row has neither query nor contexts nor answer; its columns are {names or 'none'}")
    id = _id(values.get("id"))
    steps = _list_or_text(values.get("steps"))
    steps = tuple(steps) if isinstance(steps, (list, tuple)) else ()
    contexts, calls = _documents(values.get("contexts")), [s for s in steps if isinstance(s, Mapping)]
    texts = [(f"{s.get('tool')} #{n}", str(s.get("result") or "")) for n, s in enumerate(calls, 1)]
    results = [Document(*t, source="tool") for t in texts if t[1] and not any(t[1] in d.content for d in contexts)]
    model = None if values.get("model") is None else str(values["model"])
    is_empty = _list_or_text(values.get("contexts")) == []  # a retrieval ran and returned nothing
    trace = Trace(
        trace_id=number,
        span_id=number,
        query=_text(values, "query"),
        documents=(*contexts, *results),
        answer=_text(values, "answer"),
        reference=_text(values, "reference") or None,
        attributes={name: _list_or_text(values[name]) for name in ("constraints",) if values.get(name) is not None},
        facts=Facts(model=model, steps=steps, retrievals=int(is_empty)),
    )
    return Row(number if id is None else id, trace, model or "", _number(values, "duration"), _number(values, "cost"))


def _columns(fields: Mapping[str, Any], columns: Mapping[str, str]) -> dict[str, str]:
    """The column of a line that holds each field of a row."""
    used = {}
    plain = {_plain(column): column for column in reversed(list(fields))}
    for field, names in COLUMNS.items():
        if field in columns and columns[field] not in fields:
            raise ValueError(f"there is no column {columns[field]!r} for {field}; there are {', '.join(fields)}"[:500])
        own = [name for name in names if name in fields]
        filled = (name for name in own if fields[name] is not None and fields[name] == fields[name])  # no NaN
        column = columns.get(field) or next(filled, own[0] if own else None)
        if column is None and field in _ALIASES:
            column = next((plain[name] for name in names if name in plain), None)
        if column is not None:
            used[field] = column
    return used


def _plain(column: str) -> str:
    """The name of a column in the form of COLUMNS: "User Input" is "user_input"."""
    return column.strip().lower().replace(" ", "_").replace("-", "_")


def _id(value: Any) -> Any:
    """An id that JSON has: a text or a number; None for one that is missing, as NaN is in pandas."""
    if isinstance(value, (list, dict, bytes)):
        raise ValueError(f"id is a {type(value).__name__}, neither a text nor a number")
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if value is None or isinstance(value, (str, int, float)) else str(value)  # a time, a UUID


def as_list(text: str, parse: Callable[[str], Any] = json.loads) -> list[Any] | None:
    """The list that a text holds in the form that `parse` reads, or None."""
    try:
        value = parse(text) if text.startswith("[") else None
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None
    return value if isinstance(value, list) else None


def _list_or_text(value: Any) -> Any:
    """The list that a cell holds as JSON, or the value as it is."""
    items = as_list(value) if isinstance(value, str) else None
    return value if items is None else items


def _number(values: Mapping[str, Any], key: str) -> float | None:
    value = values.get(key)
    if value is None or value == "":
        return None
    if isinstance(value, timedelta):
        value = value.total_seconds()
    if isinstance(value, bool) or not isinstance(value, (int, float, str, Decimal)):
        raise ValueError(f"{key} is a {type(value).__name__}, not a number")
    try:
        number = float(value)
    except OverflowError:
        raise ValueError(f"{key} is too large for a number") from None
    except ValueError:
        raise ValueError(f"{key} is {str(value)[:50]!r}, not a number") from None
    return number if math.isfinite(number) else None


def _text(values: Mapping[str, Any], key: str) -> str:
    value = values.get(key)
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, (int, float, Decimal)) and not isinstance(value, bool):
        return str(int(value) if isinstance(value, float) and value.is_integer() else value)  # pandas makes 42.0 of 42
    if not isinstance(value, str):
        raise ValueError(f"{key} is a {type(value).__name__}, not a text")
    return value


def _documents(contexts: Any) -> tuple[Document, ...]:
    if isinstance(contexts, str) and contexts:
        contexts = _listed(contexts)
    contexts = contexts or []
    if not isinstance(contexts, list):
        raise ValueError("contexts is not a list")
    return tuple(_document(context, i) for i, context in enumerate(contexts))


CONTENT = ("content", "text", "page_content")
"""The names under which an object of `contexts` may have its text."""


_LITERAL = r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\""
_ARRAY = re.compile(rf"\[\s*(?:{_LITERAL})(?:\s+(?:{_LITERAL}))*\s*\]", re.S)
"""An array of numpy, which has no commas: Python would join its texts."""


def _listed(text: str) -> list[Any]:
    """The chunks of a text: a list as JSON, Python or numpy writes it (`DataFrame.to_csv`), or the text alone."""
    items = as_list(text)
    if items is None:
        items = as_list(text, _array if _ARRAY.fullmatch(text) else ast.literal_eval)
    is_list = items is not None and all(isinstance(item, (str, dict)) for item in items)
    return items if items is not None and is_list else [text]  # "[1]" is a citation


def _array(text: str) -> list[Any]:
    return [ast.literal_eval(literal) for literal in re.findall(_LITERAL, text, re.S)]


def _document(context: Any, rank: int) -> Document:
    if isinstance(context, str):
        return Document(str(rank), context)
    if not isinstance(context, dict):
        raise ValueError(f"contexts[{rank}] is neither a text nor an object")
    if isinstance(node := context.get("node"), dict):  # LlamaIndex's NodeWithScore
        context = {"id": node.get("id_", rank), **node, **context}
    content = next((context[name] for name in CONTENT if name in context), None)
    if not isinstance(content, str):
        keys = ", ".join(map(str, context))[:200]
        raise ValueError(
            f"contexts[{rank}] has no text in `content`, `text` or `page_content`; it has {keys or 'nothing'}"
        )
    score, metadata = context.get("score"), context.get("metadata")
    return Document(
        str(context.get("id", rank)), content, float(score) if isinstance(score, (int, float)) else None,
        metadata if isinstance(metadata, dict) else {},
        source if (source := context.get("source")) in ("tool", "prompt") else "",
    )  # fmt: skip
