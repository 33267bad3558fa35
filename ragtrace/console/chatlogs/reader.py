"""Reads one stored trace from its rows."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection, select

from ragtrace.console.chatlogs.encryption import Keys, unseal_columns
from ragtrace.console.chatlogs.engine import chunks
from ragtrace.console.chatlogs.schema import contents, details, feedback, scores, trace_is, traces
from ragtrace.console.chatlogs.store_types import StoredTrace
from ragtrace.errors import DataError
from ragtrace.evaluation import NOT_APPLICABLE
from ragtrace.records import Document, Evaluation, Evidence, Facts, Feedback, Score, Trace, facts_from_dict

QUESTION_LENGTH = 500
"""Characters of a question that `read_questions` reads."""
CONTENT = ("query", "answer", "reference", "documents", "attributes")
DETAILS = ("explanation", "evidence")
REVIEW = ("comment", "corrected", "answers", "evidence")
TOPIC = ("name", "centre")
TOPIC_SEAL = "topics"
"""What the content of topics is bound to when it is encrypted, in the place of a trace id."""


def read_trace(connection: Connection, keys: Keys | None, trace_id: str | int) -> StoredTrace | None:
    """Reads the trace with this id: 32 hexadecimal digits (the newest of several spans), or the store's number. None if
    it is not stored. Raises StoreError if its content cannot be decrypted."""
    if isinstance(trace_id, int) and not 0 <= trace_id < 2**63:
        return None
    query = select(traces, contents).join(contents, contents.c.trace == traces.c.id).where(trace_is(trace_id))
    row = connection.execute(query.order_by(traces.c.id.desc()).limit(1)).mappings().first()
    if row is None:
        return None
    history = _history(connection, keys, row)
    newest = {score.name: score for _, score in history}
    evaluation = Evaluation(
        _trace(row, unseal_columns(keys, row["trace_id"], row, CONTENT)),
        tuple(newest[name] for name in sorted(newest)), _status(newest), row["cause"], row["lag"] or 0.0,
    )  # fmt: skip
    messages = _feedback(connection, keys, row["trace_id"])
    return StoredTrace(row["id"], evaluation, history, row["stored"], row["thumbs"], bool(row["reviewed"]), messages)


def read_traces(connection: Connection, keys: Keys | None, ids: Sequence[int]) -> dict[int, Trace]:
    """Reads the requests of these ids of the store, without scores. A request has the application and the model of its
    row. Raises StoreError as `read_trace`, and DataError for content that is damaged."""
    query = select(traces, contents).join(contents, contents.c.trace == traces.c.id)
    result = {}
    for part in chunks(ids):
        for row in connection.execute(query.where(traces.c.id.in_(part))).mappings():
            texts = unseal_columns(keys, row["trace_id"], row, CONTENT)
            try:
                trace = _trace(row, texts)
            except (ValueError, TypeError, KeyError, AttributeError) as error:
                raise DataError(f"the log {row['trace_id']} is damaged: {type(error).__name__}") from error
            facts = replace(trace.facts, app=row["app"], env=row["env"], model=row["model"])
            result[row["id"]] = replace(trace, facts=facts)
    return result


def read_request(connection: Connection, keys: Keys | None, trace_id: str, span_id: str) -> Trace | None:
    """Reads the request of these ids (32 and 16 hexadecimal digits), without scores; None if it is not stored. Raises
    what `read_traces` raises."""
    is_request = (traces.c.trace_id == trace_id) & (traces.c.span_id == span_id)
    ids = connection.scalars(select(traces.c.id).where(is_request)).all()
    return next(iter(read_traces(connection, keys, ids).values()), None)


def read_questions(connection: Connection, keys: Keys | None, ids: Sequence[int]) -> dict[int, str]:
    """Reads the first `QUESTION_LENGTH` characters of the questions of traces, by the store's ids. Raises StoreError as
    `read_trace`."""
    query = select(traces.c.id, traces.c.trace_id, contents.c.query, contents.c.sealed, contents.c.key)
    query = query.join(contents, contents.c.trace == traces.c.id)
    questions = {}
    for part in chunks(ids):
        for row in connection.execute(query.where(traces.c.id.in_(part))).mappings():
            texts = unseal_columns(keys, row["trace_id"], row, ("query",))
            questions[row["id"]] = (texts["query"] or "")[:QUESTION_LENGTH]
    return questions


def parse_attributes(text: str | None) -> tuple[Mapping[str, Any], Facts]:
    """Reads the column `attributes`: the application's metadata, and the facts."""
    values = json.loads(text or "{}")
    return values.get("metadata", {}), facts_from_dict(values.get("facts", {}))


def _status(newest: Mapping[str, Score]) -> str:
    usable = [score for score in newest.values() if score.label != NOT_APPLICABLE]
    return "error" if usable and all(score.error is not None for score in usable) else "scored"


def _trace(row: Mapping[Any, Any], texts: Mapping[str, str | None]) -> Trace:
    metadata, facts = parse_attributes(texts["attributes"])
    return Trace(
        trace_id=int(row["trace_id"], 16), span_id=int(row["span_id"], 16), query=texts["query"] or "",
        documents=tuple(Document(**fields) for fields in json.loads(texts["documents"] or "[]")),
        answer=texts["answer"] or "", reference=texts["reference"], started=row["started"], duration=row["duration"],
        error=row["error"], sampling_probability=row["probability"], attributes=metadata, facts=facts,
    )  # fmt: skip


def _history(connection: Connection, keys: Keys | None, row: Mapping[Any, Any]) -> tuple[tuple[float, Score], ...]:
    query = select(scores, details.c.explanation, details.c.evidence, details.c.sealed, details.c.key)
    query = query.outerjoin(details, details.c.score == scores.c.id).where(scores.c.trace == row["id"])
    return tuple(
        (each["scored"], _score(each, unseal_columns(keys, row["trace_id"], each, DETAILS)))
        for each in connection.execute(query.order_by(scores.c.id)).mappings()
    )


def _score(row: Mapping[Any, Any], texts: Mapping[str, str | None]) -> Score:
    names = ("value", "label", "cause", "error", "version", "method", "model", "input_tokens", "output_tokens", "cost")
    return Score(
        name=row["evaluator"], explanation=texts["explanation"],
        evidence=tuple(Evidence(**fields) for fields in json.loads(texts["evidence"] or "[]")),
        sampling_probability=row["probability"], failures=tuple(filter(None, (row["failures"] or "").split(","))),
        **{name: row[name] for name in names},
    )  # fmt: skip


def _feedback(connection: Connection, keys: Keys | None, trace_id: str) -> tuple[Feedback, ...]:
    query = select(feedback).where(feedback.c.trace_id == trace_id).order_by(feedback.c.id)
    messages = []
    for row in connection.execute(query).mappings():
        comment = unseal_columns(keys, trace_id, row, ("comment",))["comment"]
        values = {name: row[name] for name in ("thumbs", "source", "created", "score", "category")}
        messages.append(Feedback(trace_id, comment=comment, **values))
    return tuple(messages)
