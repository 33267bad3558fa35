"""Labels that people gave elsewhere, into the store."""

from __future__ import annotations

import csv
import json
import os
import re
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import insert, select, update

from ragtrace.chatlogs.encryption import clean
from ragtrace.chatlogs.records import Review, Verdict
from ragtrace.chatlogs.schema import items, traces, users
from ragtrace.errors import DataError
from ragtrace.review.policy import IMPORTED
from ragtrace.review.verdicts import LABELS, write_review

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from ragtrace.chatlogs.store import Store

_HEX = re.compile(r"[0-9a-f]{32}\Z")
_ALIASES = {
    "good": "pass",
    "true": "pass",
    "1": "pass",
    "bad": "fail",
    "false": "fail",
    "0": "fail",
    "n/a": "not_applicable",
}
_BATCH = 200
_TEXT = 10_000


@dataclass(frozen=True, slots=True)
class ImportResult:
    """What came of a file of labels."""

    labels: int
    """Lines whose label is in the store now."""
    logs: int
    errors: tuple[DataError, ...]
    """One for each line that could not be used; it names the line."""


@dataclass(frozen=True, slots=True)
class _Label:
    line: int
    trace_id: str
    verdict: Verdict
    reviewer: str
    comment: str | None
    corrected: str | None


def import_labels(
    store: Store,
    path: str | os.PathLike[str],
    *,
    probability: float | None = None,
    now: float | None = None,
) -> ImportResult:
    """Take labels from JSON lines or CSV: `trace_id` (32 hexadecimal digits), `evaluator`, `label` (`pass`, `fail`,
    `not_applicable`, `unsure`), and optionally `reviewer`, `comment`, `corrected`. The same file twice is the same as
    once; a label of the same reviewer for the same log and evaluator is replaced.

    A reviewer whom the console does not know becomes a user who cannot log in. `probability` is that with which a
    stored trace came to be labelled, where the labelled ones are a random part of all (1 for all of them): only then
    can estimates be made from them. Raises DataError if the file cannot be read, and for a probability that is none.
    """
    if probability is not None and not 0.0 < probability <= 1.0:
        raise DataError(f"{probability!r} is no probability; it lies in (0, 1]")
    now = time.time() if now is None else now
    errors: list[DataError] = []
    found: defaultdict[tuple[str, str], dict[str, _Label]] = defaultdict(dict)
    for label in _labels(Path(path), errors):
        found[label.trace_id, label.reviewer][label.verdict.evaluator] = label
    labels, logs = 0, set()
    groups = list(found.values())
    for start in range(0, len(groups), _BATCH):
        with store.writing() as connection:
            for group in groups[start : start + _BATCH]:
                given = list(group.values())
                if not _stored(connection, given[0].trace_id):
                    errors += [_error(path, g.line, "the trace is not stored") for g in given]
                    continue
                _keep(store, connection, given, probability, now)
                labels += len(given)
                logs.add(given[0].trace_id)
    errors.sort(key=lambda error: int(re.findall(r"line (\d+)", str(error))[0]))
    return ImportResult(labels, len(logs), tuple(errors))


def _keep(store: Store, connection: Connection, given: list[_Label], probability: float | None, now: float) -> None:
    trace = given[0].trace_id
    if probability is not None:
        _queued(connection, trace, probability, now)
    comments = dict.fromkeys(g.comment for g in given if g.comment)
    corrected = next((g.corrected for g in reversed(given) if g.corrected), None)
    review = Review(trace, tuple(g.verdict for g in given), "\n".join(comments) or None, corrected, source="import")
    write_review(store, connection, trace, review, _user(connection, given[0].reviewer, now), now, merge=True)


def _queued(connection: Connection, trace_id: str, probability: float, now: float) -> None:
    """An item that tells with what probability the label came; what was in the queue before stays as it was."""
    query = select(traces.c.id).where(traces.c.trace_id == trace_id).order_by(traces.c.id.desc()).limit(1)
    trace = connection.execute(query).scalar_one()
    if connection.execute(select(items.c.id).where(items.c.trace == trace, items.c.slot == 0)).first() is None:
        row = {"trace": trace, "slot": 0, "reason": IMPORTED, "probability": probability, "priority": 0.0}
        connection.execute(insert(items).values(**row, state="done", created=now))
    else:
        same = (items.c.trace == trace) & (items.c.reason == IMPORTED)
        connection.execute(update(items).where(same).values(probability=probability))


def _stored(connection: Connection, trace_id: str) -> bool:
    return connection.execute(select(traces.c.id).where(traces.c.trace_id == trace_id).limit(1)).first() is not None


def _user(connection: Connection, name: str, now: float) -> int:
    found = connection.scalar(select(users.c.id).where(users.c.name == name))
    if found is not None:
        return int(found)
    made = insert(users).values(name=name, role="reviewer", disabled=True, created=now).returning(users.c.id)
    return int(connection.execute(made).scalar_one())


# --- lines ------------------------------------------------------------------------------------------------------------


def _error(path: str | os.PathLike[str], line: int, said: str) -> DataError:
    return DataError(f"{os.fspath(path)}, line {line}: {said}")


def _labels(path: Path, errors: list[DataError]) -> Iterator[_Label]:
    for line, given in _read(path):
        try:
            if isinstance(given, ValueError):
                raise given
            yield _label(line, given)
        except ValueError as error:
            errors.append(_error(path, line, str(error)))


def _label(line: int, given: Mapping[str, Any]) -> _Label:
    if any(isinstance(value, str) and clean(value) != value for value in given.values()):
        raise ValueError("the line is not UTF-8, or holds NUL")
    trace_id = str(given.get("trace_id", "")).strip().lower()
    if not _HEX.match(trace_id):
        raise ValueError("`trace_id` is not 32 hexadecimal digits")
    evaluator = str(given.get("evaluator") or "").strip()
    if not 0 < len(evaluator) <= 100:
        raise ValueError("`evaluator` is missing")
    word = str(given.get("label", "")).strip().lower()
    label = _ALIASES.get(word, word)
    if label not in LABELS:
        raise ValueError(f"`label` is {word[:40]!r}; give one of {', '.join(LABELS)}")
    reviewer = str(given.get("reviewer") or "import").strip()[:200]
    texts = [str(given[name])[:_TEXT] if given.get(name) else None for name in ("comment", "corrected")]
    return _Label(line, trace_id, Verdict(evaluator, label), reviewer, *texts)


def _read(path: Path) -> Iterator[tuple[int, Mapping[str, Any] | ValueError]]:
    try:
        with path.open(encoding="utf-8-sig", errors="surrogateescape", newline="") as file:
            yield from _table(file, path) if path.suffix.lower() in (".csv", ".tsv") else _objects(file)
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}") from error


def _objects(file: Any) -> Iterator[tuple[int, Mapping[str, Any] | ValueError]]:
    for number, line in enumerate(file, 1):
        if not line.strip():
            continue
        try:
            found = json.loads(line)
        except (ValueError, RecursionError):
            yield number, ValueError("the line is not JSON")
            continue
        yield number, found if isinstance(found, dict) else ValueError("the line is not an object")


def _table(file: Any, path: Path) -> Iterator[tuple[int, Mapping[str, Any] | ValueError]]:
    reader = csv.reader(file, delimiter="\t" if path.suffix.lower() == ".tsv" else ",")
    header = next(reader, [])
    if missing := {"trace_id", "evaluator", "label"}.difference(header):
        raise DataError(f"{path}, line 1: there is no column {', '.join(sorted(missing))}")
    while True:
        line = reader.line_num + 1
        try:
            cells = next(reader, None)
        except csv.Error as error:
            yield line, ValueError(str(error))
            continue
        if cells is None:
            return
        if not cells:
            continue
        wrong = len(cells) != len(header)
        said = f"the line has {len(cells)} columns, the first line has {len(header)}"
        yield line, ValueError(said) if wrong else dict(zip(header, cells, strict=True))
