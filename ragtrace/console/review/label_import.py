"""Imports labels that people gave elsewhere."""

from __future__ import annotations

import csv
import json
import os
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import insert, select, update

from ragtrace.base.readers import delimiter, records
from ragtrace.console.chatlogs.encryption import clean
from ragtrace.console.chatlogs.schema import items, trace_is, traces, users
from ragtrace.console.chatlogs.store_types import Review, Verdict, is_trace_id
from ragtrace.console.review.policy import IMPORTED
from ragtrace.console.review.verdicts import LABELS, write_review
from ragtrace.errors import DataError
from ragtrace_backends.person_labels import PersonLabel, StoredRequest

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from ragtrace.console.chatlogs.store import Store

_ALIASES = {
    **dict.fromkeys(("good", "true", "1", "1.0", "yes", "correct", "👍"), "pass"),
    **dict.fromkeys(("bad", "false", "0", "0.0", "no", "incorrect", "👎"), "fail"),
    "n/a": "not_applicable",
}
_BATCH = 500
_MOST_ERRORS = 10_000
"""Lines that cannot be used, after which an import ends: the file is another kind of file."""
_TEXT = 10_000
"""Characters of a comment or corrected answer that are stored."""


@dataclass(frozen=True, slots=True, order=True)
class LineError:
    """A line of a file, or a label of another tool, that could not be used."""

    line: int
    why: str


@dataclass(frozen=True, slots=True)
class ImportResult:
    """The result of importing a file of labels."""

    labels: int
    """Lines whose label is in the store now."""
    logs: int
    errors: tuple[LineError, ...]


@dataclass(frozen=True, slots=True)
class _Label:
    line: int
    trace_id: str
    verdict: Verdict
    reviewer: str
    comment: str | None
    corrected: str | None


def import_labels(
    store: Store, path: str | os.PathLike[str], *, probability: float | None = None, now: float | None = None
) -> ImportResult:
    """Imports labels from JSON lines, CSV or TSV with `trace_id` (32 hexadecimal digits), `evaluator`, `label` (`pass`,
    `fail`, `not_applicable`, `unsure`), and optionally `reviewer`, `comment`, `corrected`. A second label of a reviewer
    for the same log and evaluator replaces the first, so importing a file twice changes nothing. The file is read in
    parts, and an import ends after 10,000 lines that cannot be used; what was read before stays.

    A reviewer whom the console does not know becomes a user who cannot log in. `probability` is the probability in
    (0, 1] with which a stored trace was labelled, if the labelled traces are a random sample (1 for all traces): only
    then do the labels allow estimates. Raises DataError for an unreadable file and an invalid probability."""
    errors: list[LineError] = []
    return _import(store, _labels(Path(path), errors), errors, probability, now)


@dataclass(frozen=True, slots=True)
class LabelWords:
    """How the words of another tool are read."""

    labels: Mapping[str, str] = field(default_factory=dict)
    """The label of a word; others are read as in a file."""
    evaluators: Mapping[str, str] = field(default_factory=dict)
    """The evaluator that a name of the tool stands for; others stand for themselves."""
    pass_at: float | None = None
    """Numbers from this one on are `pass`, lower ones `fail`; None where only 0 and 1 are labels."""


def import_from_tool(
    store: Store,
    read: Callable[[Sequence[StoredRequest]], Iterable[PersonLabel]],
    words: LabelWords | None = None,
    probability: float | None = None,
) -> ImportResult:
    """Imports what people said of stored requests in another tool, which `read` reads; see `import_labels`. An import
    that is repeated changes nothing, except what people have changed in the tool meanwhile."""
    rows = store.rows(select(traces.c.trace_id, traces.c.span_id).order_by(traces.c.id))
    errors: list[LineError] = []
    labels = _labels_of(read([StoredRequest(*row) for row in rows]), words or LabelWords(), errors)
    return _import(store, labels, errors, probability)


def _import(
    store: Store, labels: Iterator[_Label], errors: list[LineError], probability: float | None, now: float | None = None
) -> ImportResult:
    if probability is not None and not 0.0 < probability <= 1.0:
        raise DataError(f"the probability is {probability!r}; give a number above 0, at most 1")
    now = time.time() if now is None else now
    stored: set[tuple[str, str, str]] = set()
    while batch := list(islice(labels, _BATCH)):
        by_review: defaultdict[tuple[str, str], dict[str, _Label]] = defaultdict(dict)
        for label in batch:
            by_review[label.trace_id, label.reviewer][label.verdict.evaluator] = label
        with store.writing() as connection:
            for group in [list(own.values()) for own in by_review.values()]:
                trace_id = group[0].trace_id
                query = select(traces.c.id).where(trace_is(trace_id)).order_by(traces.c.id.desc()).limit(1)
                trace = connection.scalar(query)
                if trace is None:
                    errors += [LineError(label.line, f"the trace {trace_id} is not in the store") for label in group]
                    continue
                if probability is not None:
                    _set_probability(connection, trace, probability, now)
                _write(store, connection, group, now)
                stored.update((trace_id, label.reviewer, label.verdict.evaluator) for label in group)
    return ImportResult(len(stored), len({trace_id for trace_id, _, _ in stored}), tuple(sorted(errors)))


def _write(store: Store, connection: Connection, group: Sequence[_Label], now: float) -> None:
    """Stores one reviewer's labels of one log."""
    first = group[0]
    comments = dict.fromkeys(label.comment for label in group if label.comment)
    corrected = next((label.corrected for label in reversed(group) if label.corrected), None)
    new = tuple(label.verdict for label in group)
    review = Review(first.trace_id, new, "\n".join(comments) or None, corrected, source="import")
    write_review(store, connection, first.trace_id, review, _user(connection, first.reviewer, now), now, merge=True)


def _set_probability(connection: Connection, trace: int, probability: float, now: float) -> None:
    """Records the probability of the label in an item of the queue. An item with another reason stays as it is."""
    if connection.execute(select(items.c.id).where(items.c.trace == trace, items.c.slot == 0)).first() is None:
        row = {"trace": trace, "slot": 0, "reason": IMPORTED, "probability": probability, "priority": 0.0}
        connection.execute(insert(items).values(**row, state="done", created=now))
    else:
        same = (items.c.trace == trace) & (items.c.reason == IMPORTED)
        connection.execute(update(items).where(same).values(probability=probability))


def _user(connection: Connection, name: str, now: float) -> int:
    user = connection.scalar(select(users.c.id).where(users.c.name == name))
    if user is not None:
        return int(user)
    query = insert(users).values(name=name, role="reviewer", disabled=True, created=now).returning(users.c.id)
    return int(connection.execute(query).scalar_one())


# --- lines ------------------------------------------------------------------------------------------------------------


def _labels(path: Path, errors: list[LineError]) -> Iterator[_Label]:
    """The labels of a file; adds a line number and a problem to `errors` for each line that cannot be used."""
    try:
        _check_header(path)
        for line, fields in records(path):
            try:
                if isinstance(fields, ValueError):
                    raise fields
                yield _label(line, fields)
            except ValueError as error:
                errors.append(LineError(line, str(error)))
            if len(errors) >= _MOST_ERRORS:
                why = f"the import ends here, after {_MOST_ERRORS} lines that cannot be used"
                errors.append(LineError(line + 1, why))
                return
    except (OSError, EOFError) as error:
        raise DataError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from error


def _labels_of(people: Iterable[PersonLabel], words: LabelWords, errors: list[LineError]) -> Iterator[_Label]:
    """The labels of another tool; adds a number and a problem to `errors` for each that cannot be used."""
    for number, one in enumerate(people, start=1):
        fields = {"trace_id": one.trace_id, "evaluator": words.evaluators.get(one.name, one.name)}
        fields.update(label=_word(one.value, words), reviewer=one.reviewer, comment=one.comment or "")
        try:
            yield _label(number, fields)
        except ValueError as error:
            errors.append(LineError(number, f"{one.name}: {error}"))


def _word(value: str | float | bool | None, words: LabelWords) -> str:
    if isinstance(value, (int, float)) and not isinstance(value, bool) and words.pass_at is not None:
        return "pass" if value >= words.pass_at else "fail"
    word = str(value).strip()
    return words.labels.get(word, word)


def _check_header(path: Path) -> None:
    if path.suffix.lower() not in (".csv", ".tsv"):
        return
    with path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
        head = file.readline()
    header = next(csv.reader([head], delimiter=delimiter(head, path.suffix.lower())), [])
    if missing := {"trace_id", "evaluator", "label"}.difference(header):
        raise DataError(f"{path}, line 1: there is no column {', '.join(sorted(missing))}")


def _label(line: int, fields: Mapping[str, Any]) -> _Label:
    if any(isinstance(value, str) and clean(value) != value for value in fields.values()):
        raise ValueError("the line is not UTF-8, or contains NUL")
    trace_id = str(fields.get("trace_id", "")).strip().lower()
    if not is_trace_id(trace_id):
        raise ValueError(f"`trace_id` is {trace_id[:40]!r}; expected 32 hexadecimal digits")
    evaluator = str(fields.get("evaluator") or "").strip()
    if not 0 < len(evaluator) <= 100:
        raise ValueError("`evaluator` is missing or longer than 100 characters")
    word = str(fields.get("label", "")).strip().lower()
    label = _ALIASES.get(word, word)
    if label not in LABELS:
        raise ValueError(f"`label` is {word[:40]!r}; use one of {', '.join(LABELS)}")
    reviewer = str(fields.get("reviewer") or "import").strip()[:200]
    return _Label(
        line, trace_id, Verdict(evaluator, label), reviewer, _text(fields, "comment"), _text(fields, "corrected")
    )


def _text(fields: Mapping[str, Any], name: str) -> str | None:
    value = fields.get(name)
    if not value:
        return None
    return (value if isinstance(value, str) else json.dumps(value))[:_TEXT]
