"""What a data set's columns leave unread, which evaluators do not run for it, and the `--map` that would help."""

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from ragtrace import plugins
from ragtrace.base.rows import CONTENT, Row, as_list, field_of
from ragtrace.batch.selection import REFERENCE_EVALUATORS
from ragtrace.records import INPUTS, has_input

_HINTS: Mapping[str, tuple[str, ...]] = {
    "query": ("query", "question", "frage", "pregunta", "instruction", "request", "utterance", "user", "q"),
    "contexts": ("context", "ctx", "passage", "chunk", "doc", "retriev", "source", "evidence", "knowledge", "support"),
    "answer": ("answer", "antwort", "respuesta", "response", "prediction", "completion", "generat", "reply", "output"),
    "reference": ("reference", "gold", "expected", "truth", "target", "ideal", "label"),
}
"""Parts of column names, the most telling first, by the field that such a column may hold."""


def notes(names: Sequence[str], rows: Sequence[Row], unused: Mapping[str, Any]) -> list[str]:
    """Sentences on the columns that are not used, and on the evaluators that do not run for lack of an input.

    `names` are the evaluators that the user named, empty for those that suit the data; `rows` the first rows; `unused`
    the columns that no field is read from, with a value of each."""
    sentences = [f"these columns are not used: {', '.join(unused)}"] if unused else []
    if not rows and not unused:
        return []  # no line can be read, and each says why
    inputs = {field_of(name) for name in INPUTS for row in rows if has_input(row.trace, name)}
    for field in dict.fromkeys(map(field_of, INPUTS)):
        column = _column_for(field, unused)
        needs = [] if field in inputs else [name for name in INPUTS if field_of(name) == field]
        blocked = [each for name in needs for each in _that_need(name, names, column)]
        if blocked:
            advice = _advice(field, column, unused)
            evaluators = ", ".join(blocked)
            sentences.append(f"none of the first {len(rows)} rows has {field}, which {evaluators} need{advice}")
    return sentences


def _that_need(name: str, names: Sequence[str], column: str | None) -> list[str]:
    """The evaluators that need an input. Few data sets have references: without names, they are missed only where a
    column may hold them."""
    suite = REFERENCE_EVALUATORS if name == "reference" and column is not None else plugins.DEFAULT_SUITE
    checks = [plugins.load(candidate) for candidate in names or suite]
    return [check.name for check in checks if name in check.needs]


def _advice(field: str, column: str | None, unused: Mapping[str, Any]) -> str:
    if column is not None:
        return f". If the column {column!r} has it, add: --map {shlex.quote(f'{field}={column}')}"
    if unused:
        return f". If one of the columns that are not used has it, add: --map {field}=COLUMN"
    return ""


def _column_for(field: str, unused: Mapping[str, Any]) -> str | None:
    """The unused column that most likely holds a field: by its name, or for contexts the only one with lists."""
    for hint in _HINTS.get(field, ()):
        for column in unused:
            if hint == column.lower() or (len(hint) > 2 and hint in column.lower()):
                return column
    values = {column: as_list(value) if isinstance(value, str) else value for column, value in unused.items()}
    lists = [column for column, value in values.items() if isinstance(value, list) and not _are_rows(value)]
    return lists[0] if field == "contexts" and len(lists) == 1 else None


def _are_rows(items: list[Any]) -> bool:
    """Whether the items of a list are rows themselves, as in {"data": [{"question": …}]}."""
    return bool(items) and isinstance(items[0], dict) and not any(name in items[0] for name in CONTENT)
