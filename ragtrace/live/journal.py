"""The journal: a file with one line of JSON for each evaluation, for `ragtrace report`. Scores and ids, no texts."""

import fcntl
import json
import logging
import math
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ragtrace.base.background import after_fork
from ragtrace.base.private_file import ends_inside_line, private_opener
from ragtrace.errors import DataError, SettingError
from ragtrace.evaluation import Evaluator
from ragtrace.records import Evaluation, Score
from ragtrace.text.sanitizer import Sanitizer

_log = logging.getLogger(__name__)
SIZE = 64 * 1024 * 1024
"""Bytes of the two files together: the current one, and the one before it, `<name>.1`."""
_WORD = 200
"""Characters of a name that are kept: the application chooses its length."""


class Journal:
    """A sink that appends each evaluation to a file.

    Every line is one write in append mode, in the pipeline's thread: a process that is killed loses no line, and
    several processes may share the file. A line that the disk does not take is counted and logged once; nothing is
    raised. Dropped requests are counted and written with the next line: many of them must not push the history out."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        app: str = "rag",
        env: str = "dev",
        evaluators: Iterable[Evaluator] = (),
        size: int = SIZE,
        sanitizer: Sanitizer | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`app` is used for traces that name no application. `evaluators` say which direction is worse. `sanitizer`
        prepares the texts. Raises SettingError if the file cannot be written."""
        self._path = Path(path)
        self._app, self._env = app, env
        self._lower = frozenset(check.name for check in evaluators if check.direction == "lower")
        self._half = size // 2
        self._sanitizer = sanitizer or Sanitizer()
        self._clock = clock
        self._line_is_incomplete = False
        self._reset()
        self.lost = 0
        """Lines that could not be written."""
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._file = self._opened()
        except OSError as error:
            raise SettingError(f"report_file {os.fspath(path)!r} cannot be written: {error}") from error
        after_fork(self._reset)

    def _reset(self) -> None:
        # Also for a forked child: what was dropped so far is written by the parent.
        self._lock = threading.Lock()
        self._dropped: Counter[str] = Counter()

    def __call__(self, evaluation: Evaluation) -> None:
        """Append an evaluation. Never raises."""
        try:
            with self._lock:
                if evaluation.is_late:
                    return  # a line is a request
                if evaluation.status == "dropped":
                    self._dropped[evaluation.reason or "unknown"] += 1
                else:
                    self._append(_line(self._fields(evaluation)))
                    self._dropped.clear()
        except (OSError, ValueError) as error:
            self.lost += 1
            if self.lost == 1:
                _log.warning(
                    "ragtrace: a line of %s was lost (%s). Further lost lines are only counted.", self._path, error
                )

    def close(self) -> None:
        """Write the counts of dropped requests that are left, and close the file. Safe to call twice."""
        with self._lock:
            if self._file < 0:
                return
            try:
                if self._dropped:
                    self._append(_line(self._head(self._clock(), self._app)))
                os.close(self._file)
            except OSError:
                self.lost += 1
            self._file = -1

    # --- the file ----------------------------------------------------------------------------------------

    def _append(self, line: bytes) -> None:
        if self._file < 0:
            raise ValueError("the journal is closed")
        state = os.fstat(self._file)
        if state.st_nlink == 0 or state.st_size + len(line) > self._half:
            self._rotate()
        if self._line_is_incomplete:  # what follows half a line must not become its end
            line = b"\n" + line
        written = os.write(self._file, line)
        self._line_is_incomplete = written < len(line)
        if self._line_is_incomplete:
            raise OSError(f"only {written} of {len(line)} bytes were written")

    def _rotate(self) -> None:
        """Start a new file, unless another process has done so: then the name belongs to another file already."""
        fcntl.flock(self._file, fcntl.LOCK_EX)
        try:
            state = os.fstat(self._file)
            with suppress(FileNotFoundError):
                if state.st_size and os.path.samestat(self._path.stat(), state):
                    self._path.replace(before(self._path))
        finally:
            fcntl.flock(self._file, fcntl.LOCK_UN)
        old, self._file = self._file, self._opened()
        os.close(old)

    def _opened(self) -> int:
        file = private_opener(str(self._path), os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        self._line_is_incomplete = ends_inside_line(self._path)
        return file

    # --- the line ----------------------------------------------------------------------------------------

    def _head(self, moment: float, app: str) -> dict[str, Any]:
        head: dict[str, Any] = {"time": round(moment, 3), "app": app, "env": self._env}
        if self._dropped:
            head["dropped"] = dict(self._dropped)
        return head

    def _fields(self, evaluation: Evaluation) -> dict[str, Any]:
        trace = evaluation.trace
        line = self._head(trace.started or self._clock(), self._word(trace.facts.app) or self._app)
        line["trace"] = f"{trace.trace_id:032x}"
        for name in ("model", "prompt_version"):
            if word := self._word(getattr(trace.facts, name)):
                line[name] = word
        line["probability"] = trace.sampling_probability
        if evaluation.cause is not None:
            line["cause"] = evaluation.cause
        line["scores"] = [self._score(score, trace.sampling_probability) for score in evaluation.scores]
        return line

    def _word(self, value: str | None) -> str | None:
        return self._sanitizer.text(value, _WORD) if value else None

    def _score(self, score: Score, most: float) -> dict[str, Any]:
        """The fields that differ from their defaults, so that a line stays short."""
        fields: dict[str, Any] = {"name": score.name, "version": score.version, "method": score.method}
        for name, value in (
            ("value", _finite(score.value)),
            ("label", self._word(score.label)),
            ("error", self._word(score.error)),
            ("failures", list(map(self._word, score.failures))),
            ("cost", score.cost),
            ("lower_is_better", score.name in self._lower),
        ):
            if value not in (None, [], 0.0, False) or (name == "value" and value is not None):
                fields[name] = value
        # A score of the application's code is given to each request, and is here for the evaluated ones alone.
        fields["probability"] = min(score.sampling_probability, most)
        return fields


def before(path: Path) -> Path:
    """The file with the lines before those of `path`."""
    return path.parent / f"{path.name}.1"


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def _line(fields: Mapping[str, Any]) -> bytes:
    # Escaped to ASCII: a lone surrogate in a name does no harm, and there is no line end inside.
    return json.dumps(fields, separators=(",", ":"), allow_nan=False).encode() + b"\n"


# --- reading -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class JournalEntry:
    """One line: an evaluation with its scores, or (without a trace id) the number of dropped requests."""

    time: float
    """Unix time of the request."""
    app: str
    env: str
    trace_id: str
    model: str
    prompt_version: str
    probability: float
    """Probability with which the request was sampled, in (0, 1]."""
    cause: str | None
    scores: tuple[Score, ...]
    lower_is_better: frozenset[str]
    dropped: Mapping[str, int]


@dataclass(slots=True)
class Reading:
    """Counts of problems while reading, and the files that were read."""

    damaged: int = 0
    """Lines that are not lines of a journal."""
    not_numbers: int = 0
    """Scores whose value was not a finite number; they count as errors."""
    files: list[Path] = field(default_factory=list)


def read(path: str | os.PathLike[str], reading: Reading | None = None) -> Iterator[JournalEntry]:
    """The entries of a journal, the older file first. The last line is left out as long as it is not finished; others
    that cannot be read are counted in `reading`. Raises DataError if there is no such file."""
    reading = Reading() if reading is None else reading
    path = Path(path)
    for file in (before(path), path):
        try:
            with file.open("rb") as lines:
                reading.files.append(file)
                for line in lines:
                    if line.endswith(b"\n") and line.strip() and (entry := _entry(line, reading)) is not None:
                        yield entry
        except FileNotFoundError:
            continue
        except OSError as error:
            raise DataError(f"{file} cannot be read: {error}") from error
    if not reading.files:
        raise DataError(f"the journal {path} does not exist; the setting `report_file` makes ragtrace write one")


def _entry(line: bytes, reading: Reading) -> JournalEntry | None:
    try:
        fields = json.loads(line)
        moment = float(fields["time"])
        if not math.isfinite(moment):
            raise ValueError("the time is not finite")
        scores = fields.get("scores", [])
        return JournalEntry(
            moment, str(fields["app"]), str(fields.get("env", "")), str(fields.get("trace", "")),
            str(fields.get("model", "")), str(fields.get("prompt_version", "")),
            _probability(fields.get("probability", 1.0)), fields.get("cause"),
            tuple(_score_of(score, reading) for score in scores),
            frozenset(str(score["name"]) for score in scores if score.get("lower_is_better")),
            {str(reason): int(count) for reason, count in fields.get("dropped", {}).items()},
        )  # fmt: skip
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError):
        reading.damaged += 1
        return None


def _score_of(fields: Mapping[str, Any], reading: Reading) -> Score:
    value, error, label = fields.get("value"), fields.get("error"), fields.get("label")
    if value is not None and not math.isfinite(float(value)):
        reading.not_numbers += 1
        value, error, label = None, "not_a_number", None
    return Score(
        str(fields["name"]), None if value is None else float(value), None if label is None else str(label),
        error=None if error is None else str(error), failures=tuple(str(kind) for kind in fields.get("failures", ())),
        version=str(fields.get("version", "")), method=str(fields.get("method", "")),
        cost=float(fields.get("cost", 0.0)), sampling_probability=_probability(fields.get("probability", 1.0)),
    )  # fmt: skip


def _probability(value: Any) -> float:
    probability = float(value)
    if not 0.0 < probability <= 1.0:
        raise ValueError(f"{probability} is not in (0, 1]")
    return probability
