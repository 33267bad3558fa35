"""Evaluation of a file: JSON lines in, JSON lines out, in the same order."""

from __future__ import annotations

import gzip
import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import IO, Any

from ragtrace import plugins
from ragtrace.errors import DataError
from ragtrace.evaluation import Evaluator, run
from ragtrace.records import Document, Score, Trace

_BATCH = 32
_WORTH_PROCESSES = 256
"""Rows from which on loading the models once more for each process pays."""


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the input: a trace under the caller's own id."""

    id: Any
    trace: Trace


def read(path: str | os.PathLike[str]) -> Iterator[Row | DataError]:
    """The rows of a file of JSON lines, plain or gzipped. A line that cannot be used comes as the error that says why.

    Fields: `id` (the line's number by default), `query`, `contexts` (texts, or objects with `content` and optionally
    `id`, `score`, `metadata`), `answer`, and optionally `reference`, `constraints`. Raises DataError if the file
    itself cannot be read.
    """
    name = os.fspath(path)
    try:
        with ExitStack() as stack:
            raw: Any = stack.enter_context(Path(path).open("rb"))
            if raw.read(2) == b"\x1f\x8b":
                raw.seek(0)
                raw = stack.enter_context(gzip.open(raw))
            else:
                raw.seek(0)
            for number, line in enumerate(raw, 1):
                if line.strip():
                    yield _parse(line, number, name)
    except (OSError, EOFError) as error:
        raise DataError(f"{name} cannot be read: {error}") from error


def _parse(line: bytes, number: int, name: str) -> Row | DataError:
    try:
        fields = json.loads(line.decode("utf-8-sig" if number == 1 else "utf-8"))
        if not isinstance(fields, dict):
            raise ValueError("the line is not an object")
        return Row(fields.get("id", number), _trace(fields, number))
    except (ValueError, TypeError, RecursionError) as error:
        return DataError(f"{name}, line {number}: {error}")


def _trace(fields: Mapping[str, Any], number: int) -> Trace:
    if not any(key in fields for key in ("query", "answer", "contexts")):
        raise ValueError("there is neither query nor contexts nor answer")
    contexts = fields.get("contexts") or []
    if not isinstance(contexts, list):
        raise ValueError("contexts is not a list")
    return Trace(
        trace_id=number,
        span_id=number,
        query=_text(fields, "query"),
        documents=tuple(_document(context, i) for i, context in enumerate(contexts)),
        answer=_text(fields, "answer"),
        reference=_text(fields, "reference") or None,
        attributes={key: fields[key] for key in ("constraints", "model", "steps") if key in fields},
    )


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


def evaluate(
    path: str | os.PathLike[str],
    names: Sequence[str],
    out: IO[str],
    *,
    jobs: int = 0,
    strict: bool = False,
    errors: IO[str] | None = None,
) -> tuple[int, int]:
    """Write one line `{"id", "scores": {name: {value, label, explanation, error}}}` for each usable row.

    `jobs` is the number of processes, 0 for one for each core where the file is long enough. Returns how many rows
    were evaluated and how many lines could not be used; each of these is named on `errors`, standard error by
    default. With `strict` the first one raises DataError. Raises SettingError for an unknown evaluator before
    anything is read.
    """
    checks = [plugins.load(name) for name in names]
    done = bad = 0
    with ExitStack() as stack:
        batches = _batches(path)
        head = [batch for _, batch in zip(range(_WORTH_PROCESSES // _BATCH), batches, strict=False)]
        workers = jobs or (os.cpu_count() or 1)
        long = len(head) == _WORTH_PROCESSES // _BATCH
        pool = None
        if workers > 1 and (long or jobs > 1):
            pool = stack.enter_context(ProcessPoolExecutor(workers, mp_context=get_context("spawn")))
        for batch, results in _results(pool, workers, _chain(head, batches), names, checks):
            for item, scores in zip(batch, results, strict=True):
                if isinstance(item, DataError):
                    if strict:
                        raise item
                    bad += 1
                    print(f"ragtrace eval: {item}", file=errors or sys.stderr)
                else:
                    done += 1
                    out.write(json.dumps({"id": item.id, "scores": scores}, ensure_ascii=False) + "\n")
    return done, bad


_Batch = list[Row | DataError]
_Scores = dict[str, dict[str, Any]]


def _batches(path: str | os.PathLike[str]) -> Iterator[_Batch]:
    batch: _Batch = []
    for item in read(path):
        batch.append(item)
        if len(batch) == _BATCH:
            yield batch
            batch = []
    if batch:
        yield batch


def _chain(head: Sequence[_Batch], rest: Iterator[_Batch]) -> Iterator[_Batch]:
    yield from head
    yield from rest


def _results(
    pool: ProcessPoolExecutor | None,
    workers: int,
    batches: Iterator[_Batch],
    names: Sequence[str],
    checks: Sequence[Evaluator],
) -> Iterator[tuple[_Batch, list[_Scores]]]:
    """Batches with their scores, in order; with processes, a few batches ahead, so that memory stays flat."""
    if pool is None:
        for batch in batches:
            yield batch, _score(checks, batch)
        return
    ahead: list[tuple[_Batch, Future[list[_Scores]]]] = []
    for batch in batches:
        ahead.append((batch, pool.submit(_score_by_name, tuple(names), batch)))
        if len(ahead) > 2 * workers:
            first, future = ahead.pop(0)
            yield first, future.result()
    for batch, future in ahead:
        yield batch, future.result()


def _score_by_name(names: Sequence[str], batch: _Batch) -> list[_Scores]:
    return _score([plugins.load(name) for name in names], batch)


def _score(checks: Sequence[Evaluator], batch: _Batch) -> list[_Scores]:
    rows = [item for item in batch if isinstance(item, Row)]
    found: list[_Scores] = [{} for _ in rows]
    for check in checks:
        for scores, of_row in zip(run(check, [row.trace for row in rows]), found, strict=True):
            of_row.update((score.name, as_dict(score)) for score in scores)
    usable = iter(found)
    return [next(usable) if isinstance(item, Row) else {} for item in batch]


def as_dict(score: Score) -> dict[str, Any]:
    """A score as it stands in the output file."""
    return {
        "value": score.value,
        "label": score.label,
        "explanation": score.explanation,
        "error": score.error,
    }
