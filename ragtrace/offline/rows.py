"""Rows of a data set: JSON lines, CSV, Parquet, or a Hugging Face data set on disk, each a trace under its own id."""

from __future__ import annotations

import csv
import gzip
import importlib.util
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ragtrace.errors import DataError, MissingExtraError
from ragtrace.records import Document, Facts, Trace

COLUMNS: Mapping[str, tuple[str, ...]] = {
    "id": ("id",),
    "query": ("query", "question", "user_input", "input", "prompt"),
    "contexts": ("contexts", "context", "retrieved_contexts", "retrieval_context", "documents"),
    "answer": ("answer", "response", "actual_answer", "actual_output", "output", "generated_answer"),
    "reference": ("reference", "expected_answer", "expected_output", "ground_truth", "reference_answer"),
    "constraints": ("constraints", "output_constraints"),
    "steps": ("steps",),
    "model": ("model", "app", "prompt_version"),
    "duration": ("duration", "latency"),
    "cost": ("cost",),
}
"""A row's fields and the names under which they are found where none is given, the first that is there."""

_WANTED = ("query", "answer", "contexts", "steps")
_CELL = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the input: a trace under the caller's own id."""

    id: Any
    trace: Trace
    model: str = ""
    """What rows are compared by."""
    duration: float | None = None
    """Seconds that the application took."""
    cost: float | None = None
    """US dollars that the answer cost."""
    perturbation: str | None = None
    original: Any = None
    """The id of the row that this one perturbs."""


Item = Row | DataError


def read(path: str | os.PathLike[str], columns: Mapping[str, str] | None = None) -> Iterator[Item]:
    """The rows of a file or folder. A line that cannot be used comes as the error that says why.

    Plain or gzipped JSON lines, or one JSON array; `.csv` and `.tsv`, plain or gzipped, whose cells may hold JSON
    lists; `.parquet`; a folder written by `datasets.save_to_disk`. `columns` maps fields to the names that they have
    there; without it the names of COLUMNS are tried. Fields: `id` (the line's number by default), `query`, `contexts`
    (texts, or objects with `content` and optionally `id`, `score`, `metadata`), `answer`, and optionally `reference`,
    `constraints`, `steps`, `model`, `duration`, `cost`. An id that was on an earlier line of the same model is an
    error of the later line. Raises DataError if the file itself cannot be read.
    """
    name = os.fspath(path)
    given = dict(columns or {})
    if unknown := sorted(set(given) - set(COLUMNS)):
        raise DataError(f"{name}: there is no field {', '.join(unknown)} to map; fields are {', '.join(COLUMNS)}")
    seen: dict[tuple[str, str], int] = {}
    try:
        for number, fields in records(Path(path)):
            yield _row(fields, number, name, given, seen)
    except (OSError, EOFError, gzip.BadGzipFile) as error:
        raise DataError(f"{name} cannot be read: {error}") from error


def row_of(fields: Mapping[str, Any], number: int, columns: Mapping[str, str] | None = None) -> Row:
    """A line's fields as a row. Raises ValueError or TypeError with what is wrong."""
    return _made(_named(fields, columns or {}), number)


def _row(
    fields: Mapping[str, Any] | ValueError, number: int, name: str, given: Mapping[str, str], seen: dict[Any, int]
) -> Item:
    try:
        if isinstance(fields, ValueError):
            raise fields
        row = row_of(fields, number, given)
        key = (json.dumps(row.id), row.model)
        if key in seen:
            raise ValueError(f"the id {row.id!r} was on line {seen[key]} already")
        seen[key] = number
        return row
    except (ValueError, TypeError, RecursionError) as error:
        return DataError(f"{name}, line {number}: {error}")


def _named(fields: Mapping[str, Any], given: Mapping[str, str]) -> dict[str, Any]:
    """The row's fields under our names."""
    found = {}
    for field, names in COLUMNS.items():
        if field in given:
            if given[field] not in fields:
                raise ValueError(
                    f"there is no column {given[field]!r} for {field}; there are {', '.join(fields)}"[:500]
                )
            found[field] = fields[given[field]]
        else:
            column = next((n for n in names if n in fields), None)
            if column is not None:
                found[field] = fields[column]
    return found


def _made(fields: Mapping[str, Any], number: int) -> Row:
    if not any(key in fields for key in _WANTED):
        raise ValueError("there is neither query nor contexts nor answer")
    own = fields.get("id")
    if own is not None and not isinstance(own, (str, int, float)):
        raise ValueError(f"id is a {type(own).__name__}, neither a text nor a number")
    contexts = fields.get("contexts")
    contexts = [contexts] if isinstance(contexts, str) and contexts else contexts or []
    if not isinstance(contexts, list):
        raise ValueError("contexts is not a list")
    model = fields.get("model")
    trace = Trace(
        trace_id=number,
        span_id=number,
        query=_text(fields, "query"),
        documents=tuple(_document(context, i) for i, context in enumerate(contexts)),
        answer=_text(fields, "answer"),
        reference=_text(fields, "reference") or None,
        attributes={"constraints": fields["constraints"]} if fields.get("constraints") is not None else {},
        facts=Facts(model=None if model is None else str(model), steps=_steps(fields)),
    )
    return Row(
        number if own is None else own,
        trace,
        "" if model is None else str(model),
        _amount(fields, "duration"),
        _amount(fields, "cost"),
    )


def _steps(fields: Mapping[str, Any]) -> tuple[Any, ...]:
    steps = fields.get("steps")
    return tuple(steps) if isinstance(steps, (list, tuple)) else ()


def _amount(fields: Mapping[str, Any], key: str) -> float | None:
    value = fields.get(key)
    if value is None or value == "":
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise ValueError(f"{key} is a {type(value).__name__}, not a number")
    return float(value)


def _text(fields: Mapping[str, Any], key: str) -> str:
    value = fields.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise ValueError(f"{key} is a {type(value).__name__}, not a text")
    return value


def _document(context: Any, rank: int) -> Document:
    if isinstance(context, str):
        return Document(str(rank), context)
    if not isinstance(context, dict):
        raise ValueError(f"contexts[{rank}] is neither a text nor an object")
    content = context.get("content", context.get("text"))
    if not isinstance(content, str):
        raise ValueError(f"contexts[{rank}] has no text in `content`")
    score, metadata = context.get("score"), context.get("metadata")
    return Document(
        str(context.get("id", rank)),
        content,
        float(score) if isinstance(score, (int, float)) else None,
        metadata if isinstance(metadata, dict) else {},
    )


_Record = tuple[int, Mapping[str, Any] | ValueError]
"""A line's number, from 1, and its fields or what is wrong with it."""


def records(path: Path) -> Iterator[_Record]:
    """The lines of a file or folder, each with its number, as fields or the error that says why not. Raises DataError
    or OSError if the file itself cannot be read."""
    kinds = [s.lower() for s in path.suffixes if s.lower() != ".gz"]
    kind = kinds[-1] if kinds else ""
    if path.is_dir():
        yield from _dataset(path)
    elif kind == ".parquet":
        yield from _parquet(path)
    elif kind in (".csv", ".tsv"):
        yield from _table(path, "\t" if kind == ".tsv" else ",")
    else:
        yield from _json(path)


def _lines(path: Path) -> Iterator[bytes]:
    """The lines of a plain or gzipped file."""
    with ExitStack() as stack:
        raw: Any = stack.enter_context(path.open("rb"))
        packed = raw.read(2) == b"\x1f\x8b"
        raw.seek(0)
        yield from stack.enter_context(gzip.open(raw)) if packed else raw


def _json(path: Path) -> Iterator[_Record]:
    lines = _lines(path)
    first = next(lines, b"")
    if first.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"[") and _begins_array(first):
        yield from _array(path)
        return
    for number, line in enumerate(_before(first, lines), 1):
        if line.strip():
            yield number, _object(line, number)


def _before(first: bytes, rest: Iterator[bytes]) -> Iterator[bytes]:
    yield first
    yield from rest


def _begins_array(line: bytes) -> bool:
    """Whether a line that starts with [ is an array of rows, or the beginning of one; not a stray list."""
    try:
        found = json.loads(line)
    except ValueError:
        return True
    return bool(found) and all(isinstance(item, dict) for item in found)


def _array(path: Path) -> Iterator[_Record]:
    """A JSON array over many lines; an element's number stands for its line."""
    try:
        found = json.loads(b"".join(_lines(path)).decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path} begins like a JSON array, but is none: {error}") from error
    for number, item in enumerate(found, 1):
        yield number, item if isinstance(item, dict) else ValueError("the element is not an object")


def _object(line: bytes, number: int) -> Mapping[str, Any] | ValueError:
    try:
        fields = json.loads(line.decode("utf-8-sig" if number == 1 else "utf-8"))
    except (ValueError, RecursionError) as error:
        return ValueError(str(error))
    return fields if isinstance(fields, dict) else ValueError("the line is not an object")


def _table(path: Path, delimiter: str) -> Iterator[_Record]:
    # Bytes that are no UTF-8 become surrogates here and an error of their own row below, not of the whole file.
    text = (line.decode("utf-8-sig" if i == 0 else "utf-8", "surrogateescape") for i, line in enumerate(_lines(path)))
    csv.field_size_limit(_CELL)
    reader = csv.reader(text, delimiter=delimiter)
    header = next(reader, [])
    if not header or len(set(header)) < len(header):
        raise DataError(f"{path}, line 1: {'a column stands twice' if header else 'there are no column names'}")
    line = reader.line_num + 1
    while True:
        try:
            cells = next(reader, None)
        except csv.Error as error:
            yield line, ValueError(str(error))
            line = reader.line_num + 1
            continue
        if cells is None:
            return
        if cells:
            yield line, _cells(header, cells)
        line = reader.line_num + 1


def _cells(header: list[str], cells: list[str]) -> Mapping[str, Any] | ValueError:
    if len(cells) != len(header):
        return ValueError(f"the line has {len(cells)} columns, the first line has {len(header)}")
    if any("\udc80" <= c <= "\udcff" for cell in cells if not cell.isascii() for c in cell):
        return ValueError("the line is not UTF-8")
    found: dict[str, Any] = {}
    for name, cell in zip(header, cells, strict=True):
        if cell:
            found[name] = _listed(cell) if cell.startswith("[") else cell
    return found


def _listed(cell: str) -> Any:
    """A cell that holds a JSON list as that list; any other text as it is."""
    try:
        found = json.loads(cell)
    except ValueError:
        return cell
    return found if isinstance(found, list) else cell


def _parquet(path: Path) -> Iterator[_Record]:
    if importlib.util.find_spec("pyarrow") is None:
        raise MissingExtraError("pyarrow", "eval", f"Reading {path}")
    import pyarrow
    import pyarrow.parquet

    number = 0
    try:
        with pyarrow.parquet.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=256):
                for fields in batch.to_pylist():
                    number += 1
                    yield number, fields
    except pyarrow.ArrowException as error:
        raise DataError(f"{path} cannot be read: {error}") from error


def _dataset(path: Path) -> Iterator[_Record]:
    shards = sorted((path / "data").glob("*.parquet"))
    if shards:  # the layout of Hugging Face's hub, as `ragtrace export` writes it
        numbered = enumerate(fields for shard in shards for _, fields in _parquet(shard))
        yield from ((number + 1, fields) for number, fields in numbered)
        return
    if importlib.util.find_spec("datasets") is None:
        raise MissingExtraError("datasets", "eval", f"Reading the folder {path}")
    import datasets

    try:
        found = datasets.load_from_disk(str(path))
    except (OSError, ValueError) as error:
        raise DataError(f"{path} is no data set that `save_to_disk` wrote: {error}") from error
    if isinstance(found, datasets.DatasetDict):
        splits = ", ".join(found)
        raise DataError(f"{path} holds several splits ({splits}); name the folder of one of them")
    yield from enumerate(found, 1)
