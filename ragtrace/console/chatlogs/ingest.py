"""Stores scored rows: what `ragtrace eval` writes, and any JSON lines of the same form."""

from __future__ import annotations

import hashlib
import json
import math
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragtrace import plugins
from ragtrace.base.readers import records
from ragtrace.base.rows import COLUMNS, row_of
from ragtrace.console.chatlogs.store_types import is_trace_id
from ragtrace.errors import DataError, RagtraceError
from ragtrace.records import Evaluation, Evidence, Score, Trace, facts_as_dict, facts_from_dict

if TYPE_CHECKING:
    from ragtrace.console.chatlogs.store import Store
    from ragtrace.evaluation import Evaluator

_BATCH = 500
_FACTS = ("app", "env", "model", "prompt_version", "tenant", "session_id", "user_id")


@dataclass(frozen=True, slots=True)
class IngestResult:
    """The result of storing a file."""

    done: int
    """Lines that are in the store now."""
    new: int
    """Those of them that added a trace or a score."""
    errors: tuple[DataError, ...]
    """One for each line that could not be used; the message names the line."""


def ingest(path: Path, store: Store, *, data: Path | None = None, app: str = "") -> IngestResult:
    """Stores the lines of a file: objects with `id` and `scores` (`{name: {value, label, explanation, error}}`, with
    optional `version`, `method`, `cause`, `failures` and `evidence`), and optional fields of the request: `query`,
    `contexts`, `answer`, `reference`, `started` (Unix time or ISO 8601), `duration`, `app`, `env`, `model`,
    `prompt_version`, `tenant`, `session_id`, `user_id`, `trace_id`. `ragtrace eval` writes only scores: `data` is the
    file that it scored, which has the texts by `id`.

    A line without a `trace_id` (32 hexadecimal digits) gets one that is derived from application, model and id, so
    storing a file twice adds nothing. `app` is the application of lines without one. Unusable lines are reported on
    standard error; the others are stored. Raises DataError if a file cannot be read, StoreError as the store does."""
    lines = _Lines(path, data, app)
    checks: dict[str, Evaluator] = {}
    done = new = 0
    with _readable(path):
        evaluations = lines.evaluations()
        while batch := list(islice(evaluations, _BATCH)):
            batch = [_with_versions(each, checks) for each in batch]
            new += store.write(batch, list(checks.values()))
            done += len(batch)
    return IngestResult(done, new, tuple(lines.errors))


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, EOFError) as error:
        raise DataError(f"{path} cannot be read: {error}") from error


class _Lines:
    """Reads the lines of a file as evaluations, and collects the errors of the others."""

    def __init__(self, path: Path, data: Path | None, app: str) -> None:
        self._path, self._data, self._app, self._now = path, data, app, time.time()
        self.errors: list[DataError] = []
        self._texts: dict[str, Mapping[str, Any]] = {}
        """The lines of the scored file, by the JSON of their ids."""
        if data is not None:
            with _readable(data):
                for number, fields in records(data):
                    if isinstance(fields, ValueError):
                        self._report(data, number, fields)
                    else:
                        row_id = fields.get("id")
                        self._texts[json.dumps(number if row_id is None else row_id)] = fields

    def _report(self, path: Path, number: int, problem: object) -> None:
        self.errors.append(DataError(f"{path}, line {number}: {problem}"))
        print(f"ragtrace ingest: {self.errors[-1]}", file=sys.stderr)

    def evaluations(self) -> Iterator[Evaluation]:
        for number, fields in records(self._path):
            try:
                if isinstance(fields, ValueError):
                    raise fields
                yield self._evaluation(fields, number)
            except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError) as error:
                self._report(self._path, number, f"there is no {error}" if isinstance(error, KeyError) else error)

    def _evaluation(self, fields: Mapping[str, Any], number: int) -> Evaluation:
        by_name = fields.get("scores")
        if not isinstance(by_name, dict):
            raise ValueError("there is no object `scores`")
        texts = self._texts.get(json.dumps(fields.get("id")))
        if texts is None and self._data is not None:
            raise ValueError(f"{self._data} has no row with the id {fields.get('id')!r}")
        fields = {**(texts or {}), **fields}
        trace = self._trace(fields, number)
        scores = tuple(_score(name, each) for name, each in by_name.items())
        has_failed = bool(scores) and all(score.error is not None for score in scores)
        return Evaluation(trace, scores, "error" if has_failed else "scored", _text(fields, "cause"))

    def _trace(self, fields: Mapping[str, Any], number: int) -> Trace:
        # A line may have scores alone: then the texts are empty.
        has_text = any(name in fields for kind in ("query", "contexts", "answer") for name in COLUMNS[kind])
        row = row_of(fields if has_text else {**fields, "query": ""}, number)
        facts = {name: str(fields[name]) for name in _FACTS if fields.get(name) not in (None, "")}
        facts.setdefault("app", self._app or "ingest")
        trace_id = _text(fields, "trace_id") or ""
        if not trace_id:
            # The number of a line is the same in another file: its texts are not.
            texts = [] if _text(fields, "id") else [row.trace.query, row.trace.answer]
            source = json.dumps([facts["app"], row.model, row.id, *texts])
            trace_id = hashlib.sha256(source.encode()).hexdigest()[:32]
        elif not is_trace_id(trace_id):
            raise ValueError(f"trace_id is {trace_id[:40]!r}; expected 32 lower-case hexadecimal digits")
        return replace(
            row.trace,
            trace_id=int(trace_id, 16),
            span_id=int(trace_id[:16], 16) or 1,
            # One microsecond apart: their order in time is their order in the file.
            started=_started(fields) or self._now + number * 1e-6,
            duration=row.duration or 0.0,
            error=_text(fields, "error"),
            facts=facts_from_dict({**facts_as_dict(row.trace.facts), **facts}),
        )


def _text(fields: Mapping[str, Any], name: str) -> str | None:
    value = fields.get(name)
    return None if value in (None, "") else str(value)


def _started(fields: Mapping[str, Any]) -> float | None:
    value = fields.get("started")
    if value is None:
        return None
    if isinstance(value, str):
        moment = datetime.fromisoformat(value)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    number = float(value)
    if not (math.isfinite(number) and number > 0):
        raise ValueError(f"started is {value!r}; expected Unix time in seconds, or ISO 8601")
    return number


def _score(name: str, fields: Any) -> Score:
    if not isinstance(fields, dict):
        raise ValueError(f"the score {name[:100]!r} is not an object")
    value = fields.get("value")
    if value is not None and (isinstance(value, bool) or not math.isfinite(float(value))):
        raise ValueError(f"the score {name[:100]!r} has the value {value!r}, which is not a finite number")
    return Score(
        name, None if value is None else float(value), _text(fields, "label"),
        explanation=_text(fields, "explanation"), cause=_text(fields, "cause"), error=_text(fields, "error"),
        evidence=tuple(Evidence(**each) for each in fields.get("evidence") or ()),
        version=_text(fields, "version") or "", method=_text(fields, "method") or "",
        failures=tuple(map(str, fields.get("failures") or ())),
    )  # fmt: skip


def _with_versions(evaluation: Evaluation, checks: dict[str, Evaluator]) -> Evaluation:
    """Adds the version and method of built-in evaluators to scores that have none."""
    scores = []
    for score in evaluation.scores:
        check = _check(score.name, checks)
        version = score.version or (check.version if check else "1")
        scores.append(replace(score, version=version, method=score.method or (check.method if check else "code")))
    return replace(evaluation, scores=tuple(scores))


def _check(name: str, checks: dict[str, Evaluator]) -> Evaluator | None:
    if name not in checks and name in plugins.BUILT_IN:
        try:
            checks[name] = plugins.load(name)
        except (RagtraceError, ImportError):  # the evaluator ran on another machine
            return None
    return checks.get(name)
