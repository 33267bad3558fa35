"""Reads data files line by line: JSON lines, JSON arrays, CSV, Parquet, and Hugging Face data sets on disk."""

import csv
import gzip
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from typing import Any

from ragtrace.errors import DataError, package

_CELL = 64 * 1024 * 1024
"""Most characters of a CSV cell."""

_FORMS = {
    b"PK\x03\x04": "an Excel workbook or another archive: save its rows as CSV or JSON lines",
    b"\xd0\xcf\x11\xe0": "an Excel workbook: save its rows as CSV or JSON lines",
    b"%PDF": "a PDF: save its rows as CSV or JSON lines",
    b"PAR1": "Parquet, which needs a name that ends with .parquet",
    b"\xff\xfe": "UTF-16: save it as UTF-8",
    b"\xfe\xff": "UTF-16: save it as UTF-8",
}
"""What a file is that begins with these bytes."""

_SEPARATOR = re.compile(r"sep=([,;\t|])\r?\n?")
"""A first line by which Excel knows what separates the columns."""
_QUOTED = re.compile(r"\"[^\"]*\"")

Record = tuple[int, Mapping[str, Any] | ValueError]
"""The number of a line, from 1, and its fields or the error that says why they are unusable."""


def records(path: Path) -> Iterator[Record]:
    """The lines of a file or folder. Raises DataError or OSError if the file itself cannot be read."""
    kinds = [s.lower() for s in path.suffixes if s.lower() != ".gz"]
    kind = kinds[-1] if kinds else ""
    if path.is_dir():
        yield from _dataset(path)
    elif kind == ".parquet":
        yield from _parquet(path)
    elif kind in (".csv", ".tsv"):
        yield from _csv(path, kind)
    else:
        yield from _json(path)


def _lines(path: Path) -> Iterator[bytes]:
    """The lines of a plain or gzipped file."""
    with ExitStack() as stack:
        raw: Any = stack.enter_context(path.open("rb"))
        begin = raw.read(4)
        if form := next((form for mark, form in _FORMS.items() if begin.startswith(mark)), ""):
            raise DataError(f"{path} is {form}")
        raw.seek(0)
        yield from stack.enter_context(gzip.open(raw)) if begin.startswith(b"\x1f\x8b") else raw


def _json(path: Path) -> Iterator[Record]:
    lines = ((number, line) for number, line in enumerate(_lines(path), 1) if line.strip())
    start, first = next(lines, (1, b""))
    if first.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"[") and _begins_array(first):
        yield from _array(path)
        return
    for number, line in chain([(start, first)] if first else [], lines):
        yield number, _object(line, number)


def _begins_array(line: bytes) -> bool:
    """Whether a line that starts with [ is an array of objects, or the beginning of one; not a list of other values."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return True
    return all(isinstance(item, dict) for item in value)


def _array(path: Path) -> Iterator[Record]:
    """A JSON array that may span many lines; the number of an element serves as its line number."""
    try:
        items = json.loads(b"".join(_lines(path)).decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path} starts like a JSON array, but is not valid JSON: {error}") from error
    for number, item in enumerate(items, 1):
        yield number, item if isinstance(item, dict) else ValueError("the element is not an object")


def _object(line: bytes, number: int) -> Mapping[str, Any] | ValueError:
    try:
        fields = json.loads(line.decode("utf-8-sig" if number == 1 else "utf-8"))
    except (ValueError, RecursionError) as error:
        is_bytes = isinstance(error, UnicodeDecodeError)
        return ValueError("the line is not UTF-8" if is_bytes else f"the line is not JSON: {error}")
    return fields if isinstance(fields, dict) else ValueError("the line is not an object")


def delimiter(head: str, kind: str) -> str:
    """What separates the column names of a first line: most often a comma."""
    return "\t" if kind == ".tsv" and "\t" in head else max(",;\t|", key=_QUOTED.sub("", head).count)


def _csv(path: Path, kind: str) -> Iterator[Record]:
    # Invalid UTF-8 becomes surrogates here, and an error of its row in _cells, not of the whole file.
    text = (line.decode("utf-8-sig" if i == 0 else "utf-8", "surrogateescape") for i, line in enumerate(_lines(path)))
    csv.field_size_limit(_CELL)
    head = next(text, "")
    announced = _SEPARATOR.fullmatch(head)
    raw: list[str] = []  # the lines of the record that is read
    lines = (raw.append(line) or line for line in (text if announced else chain([head], text)))  # type: ignore[func-returns-value]
    reader = csv.reader(lines, delimiter=announced[1] if announced else delimiter(head, kind))
    try:
        header = next(reader, [])
    except csv.Error as error:
        raise DataError(f"{path}, line 1: the column names cannot be read: {error}") from error
    names = [name for name in header if name.strip()]  # Excel writes empty columns, pandas its index without a name
    if not names:
        raise DataError(f"{path}, line 1: the file has no column names")
    if len(set(names)) < len(names):
        raise DataError(f"{path}, line 1: a column name appears twice")
    while True:
        line = reader.line_num + 1
        raw.clear()
        try:
            cells = next(reader, None)
            if len(raw) > 1 and "".join(raw).count('"') % 2:
                raise csv.Error("the file ends inside quotes")
        except csv.Error as error:
            yield line, ValueError(str(error))
            continue
        if cells is None:
            return
        if cells:
            yield line, _cells(header, cells)


def _cells(header: list[str], cells: list[str]) -> Mapping[str, Any] | ValueError:
    if len(cells) != len(header):
        return ValueError(f"the line has {len(cells)} columns, the first line has {len(header)}")
    if any("\udc80" <= c <= "\udcff" for cell in cells if not cell.isascii() for c in cell):
        return ValueError("the line is not UTF-8")
    return {name: cell for name, cell in zip(header, cells, strict=True) if cell and name.strip()}


def _parquet(path: Path) -> Iterator[Record]:
    pyarrow, parquet = (package(name, "eval", f"Reading {path}") for name in ("pyarrow", "pyarrow.parquet"))
    try:
        with parquet.ParquetFile(path) as file:
            batches = file.iter_batches(batch_size=256)
            yield from enumerate((fields for batch in batches for fields in _plain_rows(batch)), 1)
    except (pyarrow.ArrowException, UnicodeDecodeError) as error:
        raise DataError(f"{path} cannot be read: {error}") from error


def _plain_rows(batch: Any) -> list[Mapping[str, Any] | ValueError]:
    """The rows of a batch; a ValueError for one with a value that Python does not have, e.g. a time after year 9999."""
    try:
        return list(batch.to_pylist())
    except (ValueError, OverflowError) as error:
        if batch.num_rows == 1:
            return [ValueError(f"a value cannot be read: {error}")]
    return [row for i in range(batch.num_rows) for row in _plain_rows(batch.slice(i, 1))]


def _dataset(path: Path) -> Iterator[Record]:
    shards = sorted((path / "data").glob("*.parquet"))
    if shards:  # the layout of Hugging Face's hub, as `ragtrace export` writes it
        yield from enumerate((fields for shard in shards for _, fields in _parquet(shard)), 1)
        return
    datasets = package("datasets", "eval", f"Reading the folder {path}")
    try:
        dataset = datasets.load_from_disk(str(path))
    except (OSError, ValueError) as error:
        raise DataError(f"{path} is not a data set of `save_to_disk`: {error}") from error
    if isinstance(dataset, datasets.DatasetDict):
        splits = ", ".join(dataset)
        raise DataError(f"{path} contains several splits ({splits}): use the folder of one of them")
    yield from enumerate(dataset, 1)
