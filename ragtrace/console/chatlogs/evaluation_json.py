"""Writes evaluations as JSON, for the spill file, and reads them."""

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

from ragtrace.records import Document, Evaluation, Evidence, Score, Trace, facts_from_dict


def dumps(value: object) -> str:
    """Returns a value as one line of ASCII, which both databases can store. A mapping becomes an object, a set a sorted
    list of texts; any other foreign value becomes its text."""
    try:
        return _encode(value)
    except Exception:  # noqa: BLE001 objects that contain themselves, nest deeply, or are numbers of too many digits
        return _encode(_shallow(value, 0))


def from_json(line: str | bytes) -> Evaluation:
    """Reads an evaluation that `dumps` wrote. Raises ValueError, KeyError or TypeError for anything else."""
    fields = json.loads(line)
    trace = fields["trace"]
    trace["documents"] = tuple(Document(**each) for each in trace["documents"])
    trace["facts"] = facts_from_dict(trace["facts"])
    fields["trace"] = Trace(**trace)
    fields["scores"] = tuple(_score(each) for each in fields["scores"])
    return Evaluation(**fields)


def _score(fields: dict[str, Any]) -> Score:
    fields["evidence"] = tuple(Evidence(**each) for each in fields["evidence"])
    fields["failures"] = tuple(fields["failures"])
    return Score(**fields)


def _plain(value: object) -> object:
    """For json: an object that it cannot write. The application's may raise anything when it is read."""
    try:
        if isinstance(value, Mapping):
            return dict(value)
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        return sorted(map(str, value)) if isinstance(value, (set, frozenset)) else str(value)
    except BaseException:  # noqa: BLE001 it costs itself, not the evaluation
        return f"<{type(value).__name__}>"


_encode = json.JSONEncoder(default=_plain, skipkeys=True, separators=(",", ":")).encode


def _shallow(value: Any, depth: int) -> Any:
    """The value with at most `_MAX_DEPTH` levels. What is deeper, or cannot be written, is named by its type."""
    if value is None or isinstance(value, (str, bool, float)):
        return value
    plain = value if isinstance(value, (dict, list, tuple, int)) else _plain(value)
    try:
        if isinstance(plain, dict) and depth < _MAX_DEPTH:
            return {key: _shallow(part, depth + 1) for key, part in plain.items() if isinstance(key, str)}
        if isinstance(plain, (list, tuple)) and depth < _MAX_DEPTH:
            return [_shallow(part, depth + 1) for part in plain]
        if isinstance(plain, (str, int)) and _encode(plain):
            return plain
    except Exception:  # noqa: BLE001 a number of more digits than Python writes, a mapping that raises
        return f"<{type(value).__name__}>"
    return f"<{type(value).__name__}>"


_MAX_DEPTH = 12
"""An evaluation's own values have six levels."""
