"""The calibration file: thresholds that people's verdicts have set, for evaluators that run.

JSON, schema 1:

    {"format": "ragtrace-calibration", "schema": 1,
     "evaluators": {
       "faithfulness": {"version": "3", "number": 2, "threshold": 0.62, "direction": "higher", "made": 1767225600.0,
                        "curve": {"kind": "platt", "a": -6.1, "b": 3.2}, "figures": {...}}}}

`version` is the evaluator's own one that the verdicts were about: another version is not touched. `number` counts the
calibrations of this evaluator from 1 on; with it scores have the version `3+c2`. `threshold` is in the score's own
unit, a value that equals it passes. `curve` and `figures` are for people: see `ragtrace.review.calibration`.

Whoever evaluates asks a `File` before each batch; it looks at the disk every few seconds at most. A file that is gone
or cannot be read leaves what was last read in force: to go back, write one whose `evaluators` is `{}`.
"""

from __future__ import annotations

import json
import logging
import math
import os
import re
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, cast

from ragtrace.errors import DataError
from ragtrace.evaluation import Direction, Evaluator

_log = logging.getLogger(__name__)
_FORMAT = "ragtrace-calibration"
SCHEMA = 1
_EVERY = 2.0
"""Seconds between two looks at the disk, at least."""
_SUFFIX = re.compile(r"\+c\d+\Z")


@dataclass(frozen=True, slots=True)
class Calibrated:
    """One evaluator's entry."""

    evaluator: str
    version: str
    """The evaluator's own."""
    number: int
    """From 1 on."""
    threshold: float
    direction: Direction
    made: float
    """Unix seconds."""
    curve: Mapping[str, Any] = field(default_factory=dict)
    figures: Mapping[str, Any] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """The version that scores have under it."""
        return f"{self.version}+c{self.number}"


def own(version: str) -> str:
    """An evaluator's own version: `3` of `3+c2`."""
    return _SUFFIX.sub("", version)


def applied(check: Evaluator, calibrated: Calibrated | None) -> Evaluator:
    """The evaluator under its calibration; unchanged where that is of another version or direction."""
    if calibrated is None or calibrated.version != own(check.version) or calibrated.direction != check.direction:
        return check
    return replace(check, threshold=calibrated.threshold, version=calibrated.label)


def load(path: str | os.PathLike[str]) -> dict[str, Calibrated]:
    """The entries by evaluator. Raises DataError that names the file, the evaluator and what is wrong with it."""
    try:
        found = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"the calibration file {os.fspath(path)} cannot be read: {error}") from error
    try:
        return _entries(found)
    except ValueError as error:
        raise DataError(f"the calibration file {os.fspath(path)}: {error}") from None


def save(path: str | os.PathLike[str], entries: Iterable[Calibrated]) -> None:
    """Write a file with these entries and no others; who reads meanwhile sees the old one or the new one, whole.

    Raises DataError if it cannot be written.
    """
    path = Path(path)
    content = {"format": _FORMAT, "schema": SCHEMA, "evaluators": {e.evaluator: as_json(e) for e in entries}}
    _entries(content)
    try:
        handle, name = tempfile.mkstemp(dir=path.parent or ".", prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                json.dump(content, file, indent=1, allow_nan=False)
                file.write("\n")
                file.flush()
                os.fsync(file.fileno())
            os.chmod(name, 0o644)  # a temporary file is its owner's alone; the pipeline may run as somebody else
            os.replace(name, path)
        finally:
            Path(name).unlink(missing_ok=True)  # where it has not become the file
    except (OSError, ValueError) as error:
        raise DataError(f"the calibration file {path} cannot be written: {error}") from error


def as_json(entry: Calibrated) -> dict[str, Any]:
    """The entry as the file has it, under its evaluator's name."""
    return {
        "version": entry.version,
        "number": entry.number,
        "threshold": entry.threshold,
        "direction": entry.direction,
        "made": entry.made,
        "curve": dict(entry.curve),
        "figures": dict(entry.figures),
    }


def _entries(content: Any) -> dict[str, Calibrated]:
    if not isinstance(content, dict) or content.get("format") != _FORMAT:
        raise ValueError(f'it is no calibration file; those begin with "format": "{_FORMAT}"')
    if content.get("schema") != SCHEMA:
        raise ValueError(f"its schema is {content.get('schema')!r}; this release reads {SCHEMA}")
    given = content.get("evaluators")
    if not isinstance(given, dict):
        raise ValueError("`evaluators` is not an object")
    return {name: entry(name, fields) for name, fields in given.items()}


def entry(name: str, fields: Any) -> Calibrated:
    """An entry from its JSON. Raises ValueError that names the evaluator and the field."""
    if not isinstance(fields, dict):
        raise ValueError(f"{name} is not an object")

    def get(key: str, kind: type | tuple[type, ...], right: Callable[[Any], bool], what: str) -> Any:
        value = fields.get(key)
        if isinstance(value, bool) or not isinstance(value, kind) or not right(value):
            raise ValueError(f"{name}: `{key}` is {value!r}; give {what}")
        return value

    return Calibrated(
        name,
        get("version", str, lambda v: bool(v) and own(v) == v, "the evaluator's own version"),
        get("number", int, lambda v: v >= 1, "a whole number from 1 on"),
        float(get("threshold", (int, float), math.isfinite, "a number")),
        cast("Direction", get("direction", str, lambda v: v in ("higher", "lower"), "higher or lower")),
        float(get("made", (int, float), math.isfinite, "Unix seconds")),
        get("curve", dict, lambda _: True, "an object") if "curve" in fields else {},
        get("figures", dict, lambda _: True, "an object") if "figures" in fields else {},
    )


_State = tuple[int, int, int] | Literal["absent"] | None


class File:
    """A calibration file that may change while evaluators run. Any thread may ask."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        every: float = _EVERY,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Reads the file. One that is not there yet is none; raises DataError for one that cannot be used."""
        self._path = Path(path)
        self._every = every
        self._clock = clock
        self._state = self._seen()
        self._looked = clock()
        self._entries = load(path) if self._state != "absent" else {}
        self._told: set[tuple[str, str]] = set()

    def __call__(self, checks: Sequence[Evaluator]) -> tuple[Evaluator, ...]:
        """These evaluators under what the file says now. Never raises: a broken file is logged once, and what was last
        read stays in force."""
        entries = self._current()
        found = tuple(applied(check, entries.get(check.name)) for check in checks)
        for before, after in zip(checks, found, strict=True):
            if after is before and before.name in entries:
                self._tell(before, entries[before.name])
        return found

    def _current(self) -> Mapping[str, Calibrated]:
        # No lock: two workers that look at once read the same, and a fork must not find it held.
        if self._clock() - self._looked >= self._every:
            self._looked = self._clock()
            self._look()
        return self._entries

    def _look(self) -> None:
        state = self._seen()
        if state == self._state:
            return
        self._state = state
        try:
            self._entries = load(self._path)
            self._told.clear()
        except DataError as error:
            _log.warning("ragtrace: %s; the thresholds stay as they are", error)

    def _seen(self) -> _State:
        try:
            found = self._path.stat()
        except FileNotFoundError:
            return "absent"
        except OSError:
            return None
        return found.st_mtime_ns, found.st_size, found.st_ino

    def _tell(self, check: Evaluator, entry: Calibrated) -> None:
        key = (check.name, check.version)
        if key not in self._told and own(check.version) != entry.version:
            self._told.add(key)
            _log.warning(
                "ragtrace: the calibration of %s is of version %s, and version %s runs: it keeps its own threshold",
                check.name, entry.version, check.version,
            )  # fmt: skip
