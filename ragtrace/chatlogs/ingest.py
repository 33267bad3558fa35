"""Scored rows into the store: what `ragtrace eval` wrote, and any JSON lines of the same form."""

from __future__ import annotations

import hashlib
import json
import math
import re
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from ragtrace import plugins
from ragtrace.errors import DataError, RagtraceError
from ragtrace.offline.readers import records
from ragtrace.offline.rows import COLUMNS, row_of
from ragtrace.records import Evaluation, Evidence, Score, Trace, facts_as_dict, facts_from_dict

if TYPE_CHECKING:
    from ragtrace.chatlogs.store import Store
    from ragtrace.evaluation import Evaluator

_BATCH = 500
_KNOWN = ("app", "env", "model", "prompt_version", "session_id", "user_id")
_HEX = re.compile(r"[0-9a-f]{32}\Z")


@dataclass(frozen=True, slots=True)
class IngestResult:
    """What came of a file."""

    done: int
    """Lines that are in the store now."""
    new: int
    """Those of them that brought a trace or a score."""
    errors: tuple[DataError, ...]


def ingest(
    path: Path,
    store: Store,
    *,
    data: Path | None = None,
    app: str = "",
    errors: IO[str] | None = None,
    now: float | None = None,
) -> IngestResult:
    """Store the lines of a file: objects with `id` and `scores` (`{name: {value, label, explanation, error}}`, where
    `version`, `method`, `cause`, `failures` and `evidence` may stand, too), and of the request what is known of
    `query`, `contexts`, `answer`, `reference`, `started` (Unix time or ISO 8601), `duration`, `app`, `env`, `model`,
    `prompt_version`, `session_id`, `user_id`, `trace_id`. `ragtrace eval` writes scores alone: `data` is the file that
    it scored, from which the texts are taken by `id`.

    Without a `trace_id` (32 hexadecimal digits) a line's own is derived from application, model and id, so that the
    same file again stores nothing twice. `app` is that of lines without one. Lines that cannot be used are named on
    `errors`, standard error by default; the others are stored. Raises DataError if a file cannot be read, StoreError as
    the store does.
    """
    lines = _Lines(path, _texts(data) if data is not None else {}, app, time.time() if now is None else now, errors)
    checks: dict[str, Evaluator] = {}
    done = new = 0
    try:
        evaluations = lines.evaluations()
        while batch := list(islice(evaluations, _BATCH)):
            batch = [_versioned(each, checks) for each in batch]
            new += store.write(batch, list(checks.values()))
            done += len(batch)
    except (OSError, EOFError) as error:
        raise DataError(f"{path} cannot be read: {error}") from error
    return IngestResult(done, new, tuple(lines.bad))


def _texts(path: Path) -> dict[str, Mapping[str, Any]]:
    """The lines of the file that was scored, by id."""
    found = {}
    try:
        for number, fields in records(path):
            if not isinstance(fields, ValueError):
                own = fields.get("id")
                found[_own(number if own is None else own)] = fields
    except (OSError, EOFError) as error:
        raise DataError(f"{path} cannot be read: {error}") from error
    return found


def _own(given: object) -> str:
    return json.dumps(given)


class _Lines:
    """The lines of a file as evaluations; those that are none are kept apart."""

    def __init__(
        self, path: Path, texts: Mapping[str, Mapping[str, Any]], app: str, now: float, out: IO[str] | None
    ) -> None:
        self._path, self._texts, self._app, self._now = path, texts, app, now
        self._out = out or sys.stderr
        self.bad: list[DataError] = []

    def evaluations(self) -> Iterator[Evaluation]:
        for number, fields in records(self._path):
            try:
                if isinstance(fields, ValueError):
                    raise fields
                yield self._evaluation(fields, number)
            except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError) as error:
                said = f"there is no {error}" if isinstance(error, KeyError) else str(error)
                self.bad.append(DataError(f"{self._path}, line {number}: {said}"))
                print(f"ragtrace ingest: {self.bad[-1]}", file=self._out)

    def _evaluation(self, fields: Mapping[str, Any], number: int) -> Evaluation:
        given = fields.get("scores")
        if not isinstance(given, dict):
            raise ValueError("there is no object `scores`")
        own = fields.get("id")
        known = {**self._texts.get(_own(own), {}), **fields}
        trace = self._trace(known, number)
        scores = tuple(_score(name, each) for name, each in given.items())
        failed = bool(scores) and all(score.error is not None for score in scores)
        return Evaluation(trace, scores, "error" if failed else "scored", _text(known, "cause"))

    def _trace(self, known: Mapping[str, Any], number: int) -> Trace:
        # Scores may stand alone: then the texts are empty.
        has_text = any(name in known for wanted in ("query", "contexts", "answer") for name in COLUMNS[wanted])
        row = row_of(known if has_text else {**known, "query": ""}, number)
        about = {name: str(known[name]) for name in _KNOWN if known.get(name) not in (None, "")}
        about.setdefault("app", self._app or "ingest")
        own = _text(known, "trace_id") or ""
        if not _HEX.match(own):
            if own:
                raise ValueError(f"trace_id is {own[:40]!r}; give 32 lower-case hexadecimal digits")
            text = json.dumps([about["app"], row.model, row.id])
            own = hashlib.sha256(text.encode()).hexdigest()[:32]
        return replace(
            row.trace,
            trace_id=int(own, 16),
            span_id=int(own[:16], 16) or 1,
            # A microsecond apart: their order in the file is their order in time.
            started=_started(known) or self._now + number * 1e-6,
            duration=row.duration or 0.0,
            error=_text(known, "error"),
            facts=facts_from_dict({**facts_as_dict(row.trace.facts), **about}),
        )


def _text(known: Mapping[str, Any], name: str) -> str | None:
    value = known.get(name)
    return None if value in (None, "") else str(value)


def _started(known: Mapping[str, Any]) -> float | None:
    value = known.get("started")
    if value is None:
        return None
    if isinstance(value, str):
        moment = datetime.fromisoformat(value)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    number = float(value)
    if not (math.isfinite(number) and number > 0):
        raise ValueError(f"started is {value!r}; give Unix time in seconds, or ISO 8601")
    return number


def _score(name: str, given: Any) -> Score:
    if not isinstance(given, dict):
        raise ValueError(f"the score {name[:100]!r} is no object")
    value = given.get("value")
    if value is not None and (isinstance(value, bool) or not math.isfinite(float(value))):
        raise ValueError(f"the score {name[:100]!r} has the value {value!r}, which is no number")
    return Score(
        name,
        None if value is None else float(value),
        _text(given, "label"),
        explanation=_text(given, "explanation"),
        cause=_text(given, "cause"),
        evidence=tuple(Evidence(**each) for each in given.get("evidence") or ()),
        error=_text(given, "error"),
        version=_text(given, "version") or "",
        method=_text(given, "method") or "",
        failures=tuple(map(str, given.get("failures") or ())),
    )


def _versioned(evaluation: Evaluation, checks: dict[str, Evaluator]) -> Evaluation:
    """With version and method of the evaluators that are known here, where a line does not say its own."""
    made = []
    for score in evaluation.scores:
        check = _check(score.name, checks)
        made.append(
            replace(
                score,
                version=score.version or (check.version if check else "1"),
                method=score.method or (check.method if check else "code"),
            )
        )
    return replace(evaluation, scores=tuple(made))


def _check(name: str, checks: dict[str, Evaluator]) -> Evaluator | None:
    if name not in checks and name in plugins.BUILT_IN:
        try:
            checks[name] = plugins.load(name)
        except (RagtraceError, ImportError):  # it ran elsewhere
            return None
    return checks.get(name)
