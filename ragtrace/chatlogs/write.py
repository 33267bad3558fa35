"""From evaluations to rows, and the rows into the tables: each trace once, each score of a version once."""

from __future__ import annotations

import json
import math
import random
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, Table, insert, select, text, update
from sqlalchemy.exc import DBAPIError

from ragtrace.chatlogs import full_text, rollups
from ragtrace.chatlogs.encryption import clean
from ragtrace.chatlogs.schema import (
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

if TYPE_CHECKING:
    from ragtrace.chatlogs.store import Store

_LOCK = 7_236_871_042
"""PostgreSQL's advisory lock of those who store evaluations: one at a time, as SQLite has it by nature."""
_CHUNK = 400
_DETAILS = ("explanation", "evidence")


@dataclass(slots=True)
class Rows:
    """One trace as it will be stored, without ids."""

    own: tuple[str, str]
    """Trace id and span id: what it is known by."""
    trace: dict[str, Any]
    content: dict[str, Any]
    words: tuple[str, str, str] | None
    """None in a store with a key."""
    scores: list[tuple[dict[str, Any], dict[str, Any] | None]] = field(default_factory=list)
    """Each score with its details, where it has any."""


def prepared(store: Store, evaluations: Iterable[Evaluation], now: float) -> list[Rows]:
    """The rows of evaluations; a trace that comes twice is one. Everything dear happens here, without a lock."""
    found: dict[tuple[str, str], Rows] = {}
    for evaluation in evaluations:
        if evaluation.status == "dropped":
            continue
        rows = _rows(store, evaluation, now)
        known = found.setdefault(rows.own, rows)
        if known is not rows:
            known.scores += rows.scores
    for rows in found.values():
        rows.scores = list({(s["evaluator"], s["version"]): (s, d) for s, d in reversed(rows.scores)}.values())[::-1]
    return list(found.values())


def _rows(store: Store, evaluation: Evaluation, now: float) -> Rows:
    trace = evaluation.trace
    own = f"{trace.trace_id:032x}"
    documents = [{"id": d.id, "content": d.content, "score": d.score, "metadata": d.metadata} for d in trace.documents]
    texts = {
        "query": trace.query,
        "answer": trace.answer,
        "reference": trace.reference,
        "documents": _json(documents),
        "attributes": _json({"metadata": trace.attributes, "facts": facts_as_dict(trace.facts)}),
    }
    indexed = None
    if store.keys is None:
        indexed = full_text.index_words(0, trace.query, trace.answer, [d.content for d in trace.documents])[1:]
    size = sum(len(part.encode("utf-8", "surrogatepass")) for part in texts.values() if part)
    row = _trace_row(store, evaluation, own, now) | {"size": size}
    rows = Rows((own, row["span_id"]), row, store.seal(own, texts), indexed)
    rows.scores = [_score_rows(store, score, own, now) for score in evaluation.scores]
    return rows


def _trace_row(store: Store, evaluation: Evaluation, own: str, now: float) -> dict[str, Any]:
    trace, facts = evaluation.trace, evaluation.trace.facts
    return {
        "trace_id": own,
        "span_id": f"{trace.span_id:016x}",
        "started": trace.started if math.isfinite(trace.started) and trace.started > 0 else now,
        "duration": trace.duration if math.isfinite(trace.duration) else 0.0,
        "app": _word(facts.app) or "rag",
        "env": _word(facts.env) or "",
        **{name: _word(getattr(facts, name)) for name in ("model", "prompt_version", "session_id")},
        "user_key": store.hidden(facts.user_id) if facts.user_id else None,
        "error": _word(trace.error),
        "cause": _word(evaluation.cause, 40),
        "probability": _probability(trace.sampling_probability),
        "lag": evaluation.lag if math.isfinite(evaluation.lag) else None,
        "stored": now,
        "reviewed": False,
    }


def _score_rows(store: Store, score: Score, own: str, now: float) -> tuple[dict[str, Any], dict[str, Any] | None]:
    finite = score.value is None or math.isfinite(score.value)
    value = score.value if finite else None
    row = {
        "evaluator": _word(score.name, 100) or "",
        "version": _word(score.version, 100) or "",
        "value": value,
        "bucket": bucket(value),
        "label": _word(score.label, 40) if finite else None,
        "error": _word(score.error) if finite else "not_a_number",
        "method": _word(score.method, 20) or "",
        "cause": _word(score.cause, 40),
        "failures": _word(",".join(score.failures), 100),
        "probability": _probability(score.sampling_probability),
        "model": _word(score.model),
        "input_tokens": score.input_tokens,
        "output_tokens": score.output_tokens,
        "cost": score.cost,
        "scored": now,
    }
    if score.explanation is None and not score.evidence:
        return row, None
    evidence = _json([asdict(e) for e in score.evidence]) if score.evidence else None
    return row, store.seal(own, {"explanation": score.explanation, "evidence": evidence})


def _json(value: object) -> str:
    # Escaped to ASCII: both databases take it whatever stands in it.
    return json.dumps(value, default=_plain, skipkeys=True, separators=(",", ":"))


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    return sorted(map(str, value)) if isinstance(value, (set, frozenset)) else str(value)


def _word(value: object, most: int = 200) -> str | None:
    if isinstance(value, str) and value.isascii() and 0 < len(value) <= most and "\0" not in value:
        return value
    return (clean(str(value)) or "")[:most] if value not in (None, "") else None


def _probability(value: float) -> float:
    return value if 0.0 < value <= 1.0 else 1.0


# --- into the tables -----------------------------------------------------------------------------------------


def remember(connection: Connection, checks: Sequence[Evaluator], rows: Iterable[Rows]) -> None:
    """Write down which evaluators there are, and what their thresholds are."""
    wanted: dict[tuple[str, str], dict[str, Any]] = {}
    now = 0.0
    for each in rows:
        now = each.trace["stored"]
        for score, _ in each.scores:
            own = score["evaluator"], score["version"]
            if own not in wanted:
                wanted[own] = {"threshold": None, "direction": "higher", "method": score["method"], "description": None}
    for check in checks:
        wanted[check.name, check.version] = {
            "threshold": check.threshold,
            "direction": check.direction,
            "method": check.method,
            "description": (check.fn.__doc__ or "").strip().partition("\n")[0] or None,
        }
    told = {(check.name, check.version) for check in checks}
    known = {(r.name, r.version): (r.threshold, r.direction) for r in connection.execute(select(evaluators))}
    new = [own for own in wanted if own not in known]
    if new:
        connection.execute(
            insert(evaluators), [{"name": n, "version": v, "first_seen": now} | wanted[n, v] for n, v in new]
        )
    for own in told.intersection(known):
        if known[own] != (wanted[own]["threshold"], wanted[own]["direction"]):
            at = (evaluators.c.name == own[0]) & (evaluators.c.version == own[1])
            connection.execute(update(evaluators).where(at).values(**wanted[own]))


def write(connection: Connection, rows: Sequence[Rows]) -> int:
    """Insert what is not there; how many of `rows` brought something. The caller's transaction holds the lock on
    SQLite; on PostgreSQL it is taken here."""
    if not rows:
        return 0
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})
    known = _known(connection, rows)
    new = [each for each in rows if each.own not in known]
    ids = known | _ids(connection, new)
    if new:
        insert_many(connection, traces, [{"id": ids[each.own], **each.trace} for each in new])
        insert_many(connection, contents, [{"trace": ids[each.own], **each.content} for each in new])
        full_text.add(connection, [(ids[each.own], *each.words) for each in new if each.words is not None])
        _early_feedback(connection, [each.own[0] for each in new])
    there = _scored(connection, list(known.values()))
    fresh = [
        (each, [(s, d) for s, d in each.scores if (ids[each.own], s["evaluator"], s["version"]) not in there])
        for each in rows
    ]
    _insert_scores(connection, [(ids[each.own], s, d) for each, found in fresh for s, d in found])
    rollups.add(connection, [each.trace for each in new], [(each.trace, s) for each, found in fresh for s, _ in found])
    return sum(1 for each, found in fresh if found or each.own not in known)


def _chunks(given: Sequence[Any]) -> Iterable[Sequence[Any]]:
    return (given[i : i + _CHUNK] for i in range(0, len(given), _CHUNK))


def _known(connection: Connection, rows: Sequence[Rows]) -> dict[tuple[str, str], int]:
    """The ids of traces that are there already."""
    wanted = {each.own for each in rows}
    found = {}
    for chunk in _chunks(sorted({trace_id for trace_id, _ in wanted})):
        query = select(traces.c.trace_id, traces.c.span_id, traces.c.id).where(traces.c.trace_id.in_(chunk))
        found.update({(r[0], r[1]): r[2] for r in connection.execute(query) if (r[0], r[1]) in wanted})
    return found


def _ids(connection: Connection, new: Sequence[Rows]) -> dict[tuple[str, str], int]:
    """An id for each new trace, which nobody has."""
    wanted = {each.own: id_for(each.trace["started"], zlib.crc32("".join(each.own).encode())) for each in new}
    taken: set[int] = set()
    for chunk in _chunks(list(wanted.values())):
        taken.update(connection.scalars(select(traces.c.id).where(traces.c.id.in_(chunk))))
    found = {}
    for each in new:
        own = wanted[each.own]
        while own in taken:
            own = lowest_id(each.trace["started"]) | random.getrandbits(22)
            if own not in taken and connection.execute(select(traces.c.id).where(traces.c.id == own)).first():
                taken.add(own)
        taken.add(own)
        found[each.own] = own
    return found


def _scored(connection: Connection, known: Sequence[int]) -> set[tuple[int, str, str]]:
    found: set[tuple[int, str, str]] = set()
    for chunk in _chunks(known):
        query = select(scores.c.trace, scores.c.evaluator, scores.c.version).where(scores.c.trace.in_(chunk))
        found.update((r[0], r[1], r[2]) for r in connection.execute(query))
    return found


def _insert_scores(connection: Connection, given: Sequence[tuple[int, dict[str, Any], dict[str, Any] | None]]) -> None:
    if not given:
        return
    ids = _score_ids(connection, len(given))
    insert_many(connection, scores, [{"id": i, "trace": t, **s} for i, (t, s, _) in zip(ids, given, strict=True)])
    told = [{"score": i, **d} for i, (_, _, d) in zip(ids, given, strict=True) if d is not None]
    if told:
        insert_many(connection, details, told)


def insert_many(connection: Connection, table: Table, rows: Sequence[dict[str, Any]]) -> None:
    """Insert rows that all have the same columns in the same order: without SQLAlchemy's work for each of them, on
    PostgreSQL by COPY."""
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
    except psycopg.Error as error:  # past SQLAlchemy, so it is told here what it would have told
        raise DBAPIError.instance(
            "COPY", None, error, psycopg.Error, hide_parameters=True, dialect=connection.dialect
        ) from None


def _score_ids(connection: Connection, count: int) -> Sequence[int]:
    if connection.dialect.name == "sqlite":
        last = connection.scalar(text("SELECT max(id) FROM scores")) or 0
        return range(last + 1, last + 1 + count)
    query = text("SELECT nextval(pg_get_serial_sequence('scores', 'id')) FROM generate_series(1, :count)")
    return list(connection.scalars(query, {"count": count}))


def _early_feedback(connection: Connection, new: Sequence[str]) -> None:
    """Feedback that came before its trace."""
    for chunk in _chunks(new):
        query = select(feedback.c.trace_id, feedback.c.thumbs).where(feedback.c.trace_id.in_(chunk))
        found = {r[0]: r[1] for r in connection.execute(query.order_by(feedback.c.id)) if r[1] is not None}
        for trace_id, thumbs in found.items():
            connection.execute(update(traces).where(traces.c.trace_id == trace_id).values(thumbs=thumbs))
