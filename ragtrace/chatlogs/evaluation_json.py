"""Writes evaluations as JSON, for the spill file, and reads them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from ragtrace.records import Document, Evaluation, Evidence, Score, Trace, facts_from_dict


def dumps(value: object) -> str:
    """Returns a value as one line of ASCII, which both databases can store. A mapping becomes an object, a set a sorted
    list of texts; any other foreign value becomes its text."""
    return json.dumps(value, default=_plain, skipkeys=True, separators=(",", ":"))


def to_json(evaluation: Evaluation) -> str:
    """Returns an evaluation as one line of ASCII."""
    return dumps(asdict(evaluation))


def from_json(line: str | bytes) -> Evaluation:
    """Reads what `to_json` wrote. Raises ValueError, KeyError or TypeError for anything else."""
    fields = json.loads(line)
    trace = fields["trace"]
    trace["documents"] = tuple(Document(**each) for each in trace["documents"])
    # Earlier versions wrote the facts among the attributes.
    trace["facts"] = facts_from_dict(trace["facts"] if "facts" in trace else trace["attributes"])
    fields["trace"] = Trace(**trace)
    fields["scores"] = tuple(_score(each) for each in fields["scores"])
    return Evaluation(**fields)


def _score(fields: dict[str, Any]) -> Score:
    fields["evidence"] = tuple(Evidence(**each) for each in fields["evidence"])
    fields["failures"] = tuple(fields["failures"])
    return Score(**fields)


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    return sorted(map(str, value)) if isinstance(value, (set, frozenset)) else str(value)
