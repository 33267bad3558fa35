"""Evaluations as JSON and back: what waits in the spill file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from ragtrace.records import Document, Evaluation, Evidence, Score, Trace, facts_from_dict


def to_json(evaluation: Evaluation) -> str:
    """One line of ASCII."""
    return json.dumps(asdict(evaluation), default=_plain, skipkeys=True, separators=(",", ":"))


def from_json(line: str | bytes) -> Evaluation:
    """The evaluation that `to_json` wrote. Raises ValueError, KeyError or TypeError for anything else."""
    given = json.loads(line)
    trace = given["trace"]
    trace["documents"] = tuple(Document(**each) for each in trace["documents"])
    trace["facts"] = facts_from_dict(trace["facts"])
    given["trace"] = Trace(**trace)
    given["scores"] = tuple(_score(each) for each in given["scores"])
    return Evaluation(**given)


def _score(given: dict[str, Any]) -> Score:
    given["evidence"] = tuple(Evidence(**each) for each in given["evidence"])
    given["failures"] = tuple(given["failures"])
    return Score(**given)


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    return sorted(map(str, value)) if isinstance(value, (set, frozenset)) else str(value)
