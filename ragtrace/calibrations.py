"""The calibration file: thresholds from people's verdicts, for running evaluators.

JSON, schema 1:

    {"format": "ragtrace-calibration", "schema": 1,
     "evaluators": {
       "faithfulness": {"version": "3", "number": 2, "threshold": 0.62, "direction": "higher", "made": 1767225600.0,
                        "curve": {"kind": "platt", "a": -6.1, "b": 3.2}, "figures": {...}}}}

`version` is the evaluator's own version that people judged; other versions do not change. `number` counts the
calibrations of this evaluator from 1; with this one, scores have the version `3+c2`. `threshold` has the unit of the
score, and a value equal to it passes. `made` is a Unix time in seconds. `curve` and `figures` are for people: see
`ragtrace.console.review.calibration`.

The pipeline calls a `File` before each batch; it checks the disk every two seconds at most. If the file is missing or
unreadable, the last calibrations remain active. To remove them, write a file whose `evaluators` is `{}`.
"""

import json
import logging
import math
import os
import re
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, cast

from ragtrace.errors import DataError
from ragtrace.evaluation import Direction, Evaluator

_log = logging.getLogger(__name__)
_FORMAT = "ragtrace-calibration"
SCHEMA = 1
_SUFFIX = re.compile(r"\+c\d+\Z")


@dataclass(frozen=True, slots=True)
class Calibrated:
    """The calibration of one evaluator."""

    evaluator: str
    version: str
    """The evaluator's own version."""
    number: int
    """From 1."""
    threshold: float
    direction: Direction
    made: float
    """Unix time in seconds."""
    curve: Mapping[str, Any] = field(default_factory=dict)
    figures: Mapping[str, Any] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """The version of scores with this calibration."""
        return f"{self.version}+c{self.number}"


def own_version(version: str) -> str:
    """The evaluator's own version: `3` for `3+c2`."""
    return _SUFFIX.sub("", version)


def apply(check: Evaluator, calibration: Calibrated | None) -> Evaluator:
    """The evaluator with its calibration; unchanged if the calibration has another version or direction."""
    key = (own_version(check.version), check.direction)
    if calibration is None or (calibration.version, calibration.direction) != key:
        return check
    return replace(check, threshold=calibration.threshold, version=calibration.label)


def load(path: str | os.PathLike[str]) -> dict[str, Calibrated]:
    """The calibrations by evaluator. Raises DataError with the file, the evaluator and the problem."""
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"the calibration file {os.fspath(path)} cannot be read: {error}") from error
    try:
        return _entries(content)
    except ValueError as error:
        raise DataError(f"the calibration file {os.fspath(path)} is invalid: {error}") from None


def save(path: str | os.PathLike[str], entries: Iterable[Calibrated]) -> None:
    """Write a file with these calibrations only. A concurrent reader gets the complete old or the complete new file.

    Raises DataError if the file cannot be written.
    """
    path = Path(path)
    content = {"format": _FORMAT, "schema": SCHEMA, "evaluators": {e.evaluator: as_json(e) for e in entries}}
    _entries(content)
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                json.dump(content, file, indent=1, allow_nan=False)
                file.write("\n")
                file.flush()
                os.fsync(file.fileno())
            os.chmod(name, 0o644)  # only its owner can read a temporary file, and the pipeline may run as another user
            os.replace(name, path)
        finally:
            Path(name).unlink(missing_ok=True)  # if it was not renamed
    except (OSError, ValueError) as error:
        raise DataError(f"the calibration file {path} cannot be written: {error}") from error


def as_json(entry: Calibrated) -> dict[str, Any]:
    """The calibration as the file contains it, under the name of its evaluator."""
    return {name: value for name, value in asdict(entry).items() if name != "evaluator"}


def _entries(content: Any) -> dict[str, Calibrated]:
    if not isinstance(content, dict) or content.get("format") != _FORMAT:
        raise ValueError(f'it is no calibration file, because it has no "format": "{_FORMAT}"')
    if content.get("schema") != SCHEMA:
        raise ValueError(f"its schema is {content.get('schema')!r}, and this release reads {SCHEMA}")
    entries = content.get("evaluators")
    if not isinstance(entries, dict):
        raise ValueError("`evaluators` is not an object")
    return {name: entry(name, fields) for name, fields in entries.items()}


def entry(name: str, fields: Any) -> Calibrated:
    """The calibration from its JSON. Raises ValueError with the evaluator and the field."""
    if not isinstance(fields, dict):
        raise ValueError(f"{name} is not an object")

    def get(key: str, kind: type | tuple[type, ...], is_valid: Callable[[Any], bool], expected: str) -> Any:
        value = fields.get(key)
        if isinstance(value, bool) or not isinstance(value, kind) or not is_valid(value):
            raise ValueError(f"{name}: `{key}` is {value!r}; it must be {expected}")
        return value

    return Calibrated(
        name,
        get("version", str, lambda v: bool(v) and own_version(v) == v, "the evaluator's own version"),
        get("number", int, lambda v: v >= 1, "a whole number of at least 1"),
        float(get("threshold", (int, float), math.isfinite, "a number")),
        cast("Direction", get("direction", str, lambda v: v in ("higher", "lower"), "higher or lower")),
        float(get("made", (int, float), math.isfinite, "a Unix time in seconds")),
        get("curve", dict, lambda _: True, "an object") if "curve" in fields else {},
        get("figures", dict, lambda _: True, "an object") if "figures" in fields else {},
    )


_State = tuple[int, int, int] | Literal["absent"] | None


class File:
    """A calibration file that may change while evaluators run. Thread-safe."""

    def __init__(
        self, path: str | os.PathLike[str], *, every: float = 2.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Reads the file. A missing file is empty; raises DataError for an invalid one. `every` is the least number of
        seconds between two checks of the disk."""
        self._path = Path(path)
        self._every = every
        self._clock = clock
        self._state = self._stat()
        self._last_check = clock()
        self._entries = load(path) if self._state != "absent" else {}
        self._warnings: set[tuple[str, str]] = set()

    def __call__(self, checks: Sequence[Evaluator]) -> tuple[Evaluator, ...]:
        """The evaluators with the current calibrations. Never raises: a broken file is logged once, and the last
        calibrations remain active."""
        entries = self._current()
        results = tuple(apply(check, entries.get(check.name)) for check in checks)
        for before, after in zip(checks, results, strict=True):
            if after is before and before.name in entries:
                self._warn(before, entries[before.name])
        return results

    def _current(self) -> Mapping[str, Calibrated]:
        # No lock: two workers may read the file at once, and a lock that another thread holds would block a forked
        # child.
        if self._clock() - self._last_check >= self._every:
            self._last_check = self._clock()
            before, self._state = self._state, self._stat()
            if self._state != before:
                try:
                    self._entries = load(self._path)
                    self._warnings.clear()
                except DataError as error:
                    _log.warning("ragtrace: %s; the thresholds do not change", error)
        return self._entries

    def _stat(self) -> _State:
        try:
            stat = self._path.stat()
        except FileNotFoundError:
            return "absent"
        except OSError:
            return None
        return stat.st_mtime_ns, stat.st_size, stat.st_ino

    def _warn(self, check: Evaluator, entry: Calibrated) -> None:
        key = (check.name, check.version)
        if key not in self._warnings and own_version(check.version) != entry.version:
            self._warnings.add(key)
            _log.warning(
                "ragtrace: the calibration of %s is for version %s, but version %s runs: it keeps its own threshold",
                check.name, entry.version, check.version,
            )  # fmt: skip
