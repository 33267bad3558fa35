"""From rows to one stored trace."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, select

from ragtrace.chatlogs.records import StoredTrace
from ragtrace.chatlogs.schema import contents, details, feedback, scores, traces
from ragtrace.evaluation import NOT_APPLICABLE
from ragtrace.records import Document, Evaluation, Evidence, Feedback, Score, Trace, facts_from_dict

if TYPE_CHECKING:
    from ragtrace.chatlogs.store import Store

CONTENT = ("query", "answer", "reference", "documents", "attributes")
DETAILS = ("explanation", "evidence")


def stored(store: Store, connection: Connection, trace_id: str | int) -> StoredTrace | None:
    """The trace of this id, as 32 hexadecimal digits (of several spans the newest) or as a number; or None."""
    own = traces.c.id == trace_id if isinstance(trace_id, int) else traces.c.trace_id == trace_id.lower()
    if isinstance(trace_id, int) and not 0 <= trace_id < 2**63:
        return None
    query = select(traces, contents).join(contents, contents.c.trace == traces.c.id).where(own)
    row = connection.execute(query.order_by(traces.c.id.desc()).limit(1)).mappings().first()
    if row is None:
        return None
    history = _history(store, connection, row)
    newest = {score.name: score for _, score in history}
    evaluation = Evaluation(
        _trace(row, store.unseal(row["trace_id"], row, CONTENT)),
        tuple(newest[name] for name in sorted(newest)),
        _status(newest),
        row["cause"],
        row["lag"] or 0.0,
    )
    said = _feedback(store, connection, row["trace_id"])
    return StoredTrace(row["id"], evaluation, history, row["stored"], row["thumbs"], bool(row["reviewed"]), said)


def _status(newest: Mapping[str, Score]) -> str:
    usable = [score for score in newest.values() if score.label != NOT_APPLICABLE]
    return "error" if usable and all(score.error is not None for score in usable) else "scored"


def _trace(row: Mapping[Any, Any], texts: Mapping[str, str | None]) -> Trace:
    attributes = json.loads(texts["attributes"] or "{}")
    return Trace(
        trace_id=int(row["trace_id"], 16),
        span_id=int(row["span_id"], 16),
        query=texts["query"] or "",
        documents=tuple(Document(**given) for given in json.loads(texts["documents"] or "[]")),
        answer=texts["answer"] or "",
        reference=texts["reference"],
        started=row["started"],
        duration=row["duration"],
        error=row["error"],
        sampling_probability=row["probability"],
        attributes=attributes.get("metadata", {}),
        facts=facts_from_dict(attributes.get("facts", {})),
    )


def _history(store: Store, connection: Connection, row: Mapping[Any, Any]) -> tuple[tuple[float, Score], ...]:
    query = select(scores, details.c.explanation, details.c.evidence, details.c.sealed, details.c.key)
    query = query.outerjoin(details, details.c.score == scores.c.id).where(scores.c.trace == row["id"])
    found = connection.execute(query.order_by(scores.c.id)).mappings()
    return tuple((each["scored"], _score(each, store.unseal(row["trace_id"], each, DETAILS))) for each in found)


def _score(row: Mapping[Any, Any], texts: Mapping[str, str | None]) -> Score:
    return Score(
        name=row["evaluator"],
        value=row["value"],
        label=row["label"],
        explanation=texts["explanation"],
        cause=row["cause"],
        evidence=tuple(Evidence(**given) for given in json.loads(texts["evidence"] or "[]")),
        error=row["error"],
        version=row["version"],
        method=row["method"],
        sampling_probability=row["probability"],
        failures=tuple(filter(None, (row["failures"] or "").split(","))),
        model=row["model"],
        input_tokens=row["input_tokens"],
        output_tokens=row["output_tokens"],
        cost=row["cost"],
    )


def _feedback(store: Store, connection: Connection, trace_id: str) -> tuple[Feedback, ...]:
    query = select(feedback).where(feedback.c.trace_id == trace_id).order_by(feedback.c.id)
    return tuple(
        Feedback(
            trace_id, row["thumbs"], store.unseal(trace_id, row, ("comment",))["comment"], row["source"], row["created"]
        )
        for row in connection.execute(query).mappings()
    )
