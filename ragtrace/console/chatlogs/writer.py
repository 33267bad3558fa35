"""Writes evaluations into the tables: each trace once, each score of an evaluator's version once."""

import math
import random
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from sqlalchemy import Connection, Table, delete, insert, select, text, update
from sqlalchemy.exc import DBAPIError

from ragtrace.console.chatlogs import full_text, rollups
from ragtrace.console.chatlogs.encryption import Keys, clean, seal_columns, user_keys
from ragtrace.console.chatlogs.engine import among, lock
from ragtrace.console.chatlogs.evaluation_json import dumps
from ragtrace.console.chatlogs.schema import (
    bucket,
    contents,
    details,
    evaluators,
    feedback,
    id_for,
    lowest_id,
    scores,
    traces,
)
from ragtrace.evaluation import Evaluator
from ragtrace.records import Evaluation, Score, facts_as_dict

_LOCK = 7_236_871_042
"""PostgreSQL's advisory lock for storing evaluations: one transaction at a time, as on SQLite."""

Span = tuple[str, str]
"""Trace id and span id: what identifies a stored trace."""
ScoreRows = tuple[dict[str, Any], dict[str, Any] | None]
"""A score, and its details if it has any."""


@dataclass(slots=True)
class Rows:
    """The rows of one trace, without the store's ids."""

    span: Span
    trace: dict[str, Any]
    content: dict[str, Any]
    words: tuple[str, str, str] | None
    """None in a store with a key."""
    scores: list[ScoreRows]
    is_late: bool = False
    """Further scores of a trace that is stored already; without one they are left out."""


def prepare_rows(keys: Keys | None, evaluations: Iterable[Evaluation], now: float) -> list[Rows]:
    """Converts evaluations to rows; evaluations of the same span are merged. All expensive work is done here, before
    the lock is taken."""
    by_span: dict[Span, Rows] = {}
    for evaluation in evaluations:
        if evaluation.status == "dropped":
            continue
        rows = _rows(keys, evaluation, now)
        first = by_span.setdefault(rows.span, rows)
        if first.is_late and not rows.is_late:
            rows.scores += first.scores
            by_span[rows.span] = rows
        elif first is not rows:
            first.scores += rows.scores
    for rows in by_span.values():  # of several scores of the same version the first counts
        rows.scores = list({(s["evaluator"], s["version"]): (s, d) for s, d in reversed(rows.scores)}.values())[::-1]
    return list(by_span.values())


def _rows(keys: Keys | None, evaluation: Evaluation, now: float) -> Rows:
    trace = evaluation.trace
    trace_id = f"{trace.trace_id:032x}"
    names = ("id", "content", "score", "metadata", "source")
    documents = [{name: getattr(d, name) for name in names} for d in trace.documents]
    texts = {
        "query": trace.query, "answer": trace.answer, "reference": trace.reference, "documents": dumps(documents),
        "attributes": dumps({"metadata": trace.attributes, "facts": facts_as_dict(trace.facts)}),
    }  # fmt: skip
    words = None
    if keys is None:
        words = full_text.index_row({"trace": 0, **texts})[1:]  # as they are read when the trace is deleted
    size = sum(len(part.encode("utf-8", "surrogatepass")) for part in texts.values() if part)
    row = _trace_row(keys, evaluation, trace_id, now) | {"size": size}
    # A score of the application's code is given to each request, and is here for the stored ones alone.
    most = trace.sampling_probability
    scored = [replace(s, sampling_probability=min(s.sampling_probability, most)) for s in evaluation.scores]
    new_scores = [_score_rows(keys, score, trace_id, now) for score in scored]
    content = seal_columns(keys, trace_id, texts)
    return Rows((trace_id, row["span_id"]), row, content, words, new_scores, evaluation.is_late)


def _trace_row(keys: Keys | None, evaluation: Evaluation, trace_id: str, now: float) -> dict[str, Any]:
    trace, facts = evaluation.trace, evaluation.trace.facts
    return {
        "trace_id": trace_id, "span_id": f"{trace.span_id:016x}",
        "started": trace.started if math.isfinite(trace.started) and trace.started > 0 else now,
        "duration": trace.duration if math.isfinite(trace.duration) else 0.0, "app": _label(facts.app) or "rag",
        "env": _label(facts.env) or "",
        **{name: _label(getattr(facts, name)) for name in ("model", "prompt_version", "tenant", "session_id")},
        "user_key": user_keys(keys, facts.user_id)[0] if facts.user_id else None, "error": _label(trace.error),
        "cause": _label(evaluation.cause, 40), "probability": _probability(trace.sampling_probability),
        "lag": evaluation.lag if math.isfinite(evaluation.lag) else None, "cost": facts.cost, "stored": now,
        "searched": bool(facts.retrievals or trace.chunks), "reviewed": False,
    }  # fmt: skip


def _score_rows(keys: Keys | None, score: Score, trace_id: str, now: float) -> ScoreRows:
    is_finite = score.value is None or math.isfinite(score.value)
    value = score.value if is_finite else None
    row = {
        "evaluator": _label(score.name, 100) or "", "version": _label(score.version, 100) or "", "value": value,
        "bucket": bucket(value), "label": _label(score.label, 40) if is_finite else None,
        "error": _label(score.error) if is_finite else "not_a_number", "method": _label(score.method, 20) or "",
        "cause": _label(score.cause, 40), "failures": _label(",".join(score.failures), 100),
        "probability": _probability(score.sampling_probability), "model": _label(score.model),
        "input_tokens": score.input_tokens, "output_tokens": score.output_tokens, "cost": score.cost, "scored": now,
    }  # fmt: skip
    if score.explanation is None and not score.evidence:
        return row, None
    evidence = dumps([asdict(e) for e in score.evidence]) if score.evidence else None
    return row, seal_columns(keys, trace_id, {"explanation": score.explanation, "evidence": evidence})


def _label(value: object, length: int = 200) -> str | None:
    """A short text that fits into its column; None for an empty one."""
    if isinstance(value, str) and value.isascii() and 0 < len(value) <= length and "\0" not in value:
        return value
    return (clean(str(value)) or "")[:length] if value not in (None, "") else None


def _probability(value: float) -> float:
    return value if 0.0 < value <= 1.0 else 1.0


# --- into the tables -----------------------------------------------------------------------------------------


def write_evaluators(connection: Connection, checks: Sequence[Evaluator], rows: Iterable[Rows]) -> None:
    """Writes the evaluators of the rows into their table, and the thresholds and directions of `checks`."""
    new: dict[tuple[str, str], dict[str, Any]] = {}
    now = 0.0
    for each in rows:
        now = each.trace["stored"]
        for score, _ in each.scores:
            default = {"threshold": None, "direction": "higher", "method": score["method"], "description": None}
            new.setdefault((score["evaluator"], score["version"]), default)
    for check in checks:
        new[check.name, check.version] = {
            "threshold": check.threshold, "direction": check.direction, "method": check.method,
            "description": (check.fn.__doc__ or "").strip().partition("\n")[0] or None,
        }  # fmt: skip
    stored = {(r.name, r.version): (r.threshold, r.direction) for r in connection.execute(select(evaluators))}
    inserts = [{"name": n, "version": v, "first_seen": now} | new[n, v] for n, v in new if (n, v) not in stored]
    if inserts:
        connection.execute(insert(evaluators), inserts)
    for check in checks:
        values = new[check.name, check.version]
        current = values["threshold"], values["direction"]
        if stored.get((check.name, check.version), current) != current:
            same = (evaluators.c.name == check.name) & (evaluators.c.version == check.version)
            connection.execute(update(evaluators).where(same).values(**values))


def write_rows(connection: Connection, rows: Sequence[Rows]) -> int:
    """Inserts traces and scores that are not stored yet. Returns how many of `rows` had any. The caller's transaction
    holds the lock on SQLite; on PostgreSQL this takes it."""
    if not rows:
        return 0
    lock(connection, _LOCK)
    spans = _stored_spans(connection, rows)
    rows = _without_strays(rows, spans)
    stored = {each.span: spans[each.span] for each in rows if each.span in spans}
    new = [each for each in rows if each.span not in stored]
    ids = stored | _new_ids(connection, new)
    if new:
        insert_many(connection, traces, [{"id": ids[each.span], **each.trace} for each in new])
        insert_many(connection, contents, [{"trace": ids[each.span], **each.content} for each in new])
        full_text.add(connection, [(ids[each.span], *each.words) for each in new if each.words is not None])
        _apply_early_feedback(connection, [each.span[0] for each in new])
    existing = _stored_scores(connection, list(stored.values()))
    late = {ids[each.span]: each.scores for each in rows if each.is_late}
    sampled = select(traces.c.id, traces.c.probability).where(among(connection, traces.c.id, late))
    for trace, probability in connection.execute(sampled) if late else ():
        for score, _ in late[trace]:
            score["probability"] = min(score["probability"], probability)
    new_scores = [
        (each, [(s, d) for s, d in each.scores if _is_new(s, (ids[each.span], s["evaluator"], s["version"]), existing)])
        for each in rows
    ]
    added = [(ids[each.span], s, d) for each, pairs in new_scores for s, d in pairs]
    for trace, s, _ in added:
        if (trace, s["evaluator"], s["version"]) in existing:  # it failed before
            own = [scores.c.trace == trace, scores.c.evaluator == s["evaluator"], scores.c.version == s["version"]]
            connection.execute(delete(scores).where(*own))
    _insert_scores(connection, added)
    judged = {(trace, name) for (trace, name, _), error in existing.items() if error is None}
    # A request counts once for each evaluator: with its first verdict, whatever further versions say of it.
    to_sum = [
        (each.trace, {**s, **rollups.NO_VERDICT} if (ids[each.span], s["evaluator"]) in judged else s)
        for each, pairs in new_scores
        for s, _ in pairs
    ]
    rollups.add(connection, [each.trace for each in new], to_sum)
    return sum(1 for each, pairs in new_scores if pairs or each.span not in stored)


def _is_new(score: Mapping[str, Any], key: tuple[int, str, str], existing: Mapping[Any, str | None]) -> bool:
    """Whether nothing is stored of this evaluator in this version, or only that it failed before."""
    return key not in existing or (existing[key] is not None and score["error"] is None)


def _stored_spans(connection: Connection, rows: Sequence[Rows]) -> dict[Span, int]:
    """The ids of all stored spans of these traces; of each trace in the order of ids."""
    own = among(connection, traces.c.trace_id, {each.span[0] for each in rows})
    query = select(traces.c.trace_id, traces.c.span_id, traces.c.id).where(own).order_by(traces.c.id)
    return {(r[0], r[1]): r[2] for r in connection.execute(query)}


def _without_strays(rows: Sequence[Rows], spans: Mapping[Span, int]) -> list[Rows]:
    """The rows without late ones whose trace is not stored. A late one without a span id gets that of its trace."""
    newest = dict(spans.keys())
    stored_rows = []
    for each in rows:
        trace_id, span_id = each.span
        if each.is_late and each.span not in spans:
            if span_id.strip("0") or trace_id not in newest:
                continue
            each.span = (trace_id, newest[trace_id])
        stored_rows.append(each)
    return stored_rows


def _new_ids(connection: Connection, new: Sequence[Rows]) -> dict[Span, int]:
    """An unused id for each new trace."""
    first_choices = {each.span: id_for(each.trace["started"], zlib.crc32("".join(each.span).encode())) for each in new}
    query = select(traces.c.id).where(among(connection, traces.c.id, first_choices.values()))
    used_ids = set(connection.scalars(query))
    ids = {}
    for each in new:
        trace = first_choices[each.span]
        while trace in used_ids:
            trace = lowest_id(each.trace["started"]) | random.getrandbits(22)
            if trace not in used_ids and connection.execute(select(traces.c.id).where(traces.c.id == trace)).first():
                used_ids.add(trace)
        used_ids.add(trace)
        ids[each.span] = trace
    return ids


def _stored_scores(connection: Connection, ids: Sequence[int]) -> dict[tuple[int, str, str], str | None]:
    """The error of each stored score of these traces, by trace, evaluator and version."""
    query = select(scores.c.trace, scores.c.evaluator, scores.c.version, scores.c.error)
    rows = connection.execute(query.where(among(connection, scores.c.trace, ids)))
    return {(r[0], r[1], r[2]): r[3] for r in rows}


def _insert_scores(connection: Connection, new: Sequence[tuple[int, dict[str, Any], dict[str, Any] | None]]) -> None:
    if not new:
        return
    ids = _score_ids(connection, len(new))
    insert_many(connection, scores, [{"id": i, "trace": t, **s} for i, (t, s, _) in zip(ids, new, strict=True)])
    rows = [{"score": i, **d} for i, (_, _, d) in zip(ids, new, strict=True) if d is not None]
    if rows:
        insert_many(connection, details, rows)


def insert_many(connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
    """Inserts rows that all have the same columns in the same order. Avoids SQLAlchemy's work for each row; uses COPY
    on PostgreSQL. Raises SQLAlchemy's DBAPIError."""
    names = ", ".join(f'"{name}"' for name in rows[0])
    if connection.dialect.name == "sqlite":
        holders = ", ".join("?" * len(rows[0]))
        connection.exec_driver_sql(
            f"INSERT INTO {table.name} ({names}) VALUES ({holders})", [tuple(row.values()) for row in rows]
        )
        return
    import psycopg

    try:
        driver: Any = connection.connection
        with driver.cursor() as cursor, cursor.copy(f"COPY {table.name} ({names}) FROM STDIN") as copy:
            for row in rows:
                copy.write_row(tuple(row.values()))
    except psycopg.Error as error:  # COPY bypasses SQLAlchemy, which would raise this error
        raise DBAPIError.instance(
            "COPY", None, error, psycopg.Error, hide_parameters=True, dialect=connection.dialect
        ) from None


def _score_ids(connection: Connection, count: int) -> Sequence[int]:
    if connection.dialect.name == "sqlite":
        last = connection.scalar(text("SELECT max(id) FROM scores")) or 0
        return range(last + 1, last + 1 + count)
    query = text("SELECT nextval(pg_get_serial_sequence('scores', 'id')) FROM generate_series(1, :count)")
    return list(connection.scalars(query, {"count": count}))


def _apply_early_feedback(connection: Connection, trace_ids: Sequence[str]) -> None:
    """Applies feedback that was stored before its trace."""
    query = select(feedback.c.trace_id, feedback.c.thumbs).where(among(connection, feedback.c.trace_id, trace_ids))
    thumbs = {r[0]: r[1] for r in connection.execute(query.order_by(feedback.c.id)) if r[1] is not None}
    for trace_id, value in thumbs.items():
        connection.execute(update(traces).where(traces.c.trace_id == trace_id).values(thumbs=value))
