"""Stores the reviews of people: one for each person and log."""

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from sqlalchemy import Connection, delete, insert, select, true, update
from sqlalchemy.exc import IntegrityError

from ragtrace import plugins
from ragtrace.console.chatlogs.encryption import clean
from ragtrace.console.chatlogs.evaluation_json import dumps
from ragtrace.console.chatlogs.reader import REVIEW
from ragtrace.console.chatlogs.schema import evaluators, items, reviews, scores, trace_is, traces, users, verdicts
from ragtrace.console.chatlogs.store import Store
from ragtrace.console.chatlogs.store_types import Review, StoredTrace, Task, Verdict
from ragtrace.console.review import own_questions
from ragtrace.console.review.named_queues import is_for
from ragtrace.console.review.notices import notify
from ragtrace.errors import DataError
from ragtrace.records import Evidence

ANY = "correctness"
"""The question that is asked of every log, whatever was scored."""
LABELS = ("pass", "fail", "not_applicable", "unsure")
MARKS = ("unsupported", "contradicted")
"""Verdicts of a part of an answer that a person marks as wrong: nothing says so, or something says otherwise."""
MOST_MARKS = 200
"""Parts of one answer that a person may mark."""


def submit(
    store: Store,
    task: Task | str | int,
    review: Review,
    user: int | None,
    now: float | None = None,
    *,
    merge: bool = False,
) -> int:
    """Stores a review and returns its id. `task` comes from `next_task`, or is the id of a stored trace: 32 hexadecimal
    digits, or the store's number.

    A person has one review of a log: a second one replaces the first, or with `merge` is added to it. The review closes
    the task. If the task is no longer open (the lock expired and somebody else reviewed the log), the review is a
    further one and closes the log's other slot, unless somebody holds it. `user` is None for a source without a person.

    The review is durable when this returns. Raises DataError for a trace that is not stored, for an invalid label, and
    for an evaluator that is neither built in nor has scored a log of the store."""
    _check(review.verdicts)
    _check_names(store, [verdict.evaluator for verdict in review.verdicts])
    check_evidence(review.evidence)
    if review.answers:
        review = replace(review, answers=own_questions.check_answers(own_questions.load(store), review.answers))
    now = time.time() if now is None else now

    def write() -> int:
        with store.writing() as connection:
            return write_review(store, connection, task, review, user, now, merge=merge)

    try:
        review_id = write()
    except IntegrityError:  # PostgreSQL: the same person submitted in another window at the same time
        review_id = write()
    event = {
        "trace_id": task.trace_id if isinstance(task, Task) else review.trace_id, "review": review_id, "reviewer": user,
        "verdicts": {verdict.evaluator: verdict.label for verdict in review.verdicts}, "comment": review.comment,
        "corrected": review.corrected, "answers": dict(review.answers), "marks": len(review.evidence),
    }  # fmt: skip
    notify(store, "review.submitted", event)
    return review_id


def write_review(  # noqa: PLR0917 the arguments of `submit`, and the connection
    store: Store,
    connection: Connection,
    task: Task | str | int,
    review: Review,
    user: int | None,
    now: float,
    *,
    merge: bool = False,
) -> int:
    """Does the work of `submit` in the caller's transaction, without the event."""
    trace = _trace(connection, task)
    open_to_user = is_for(user) if user is not None else true()
    of_trace = select(items).where(items.c.trace == trace.id, open_to_user).order_by(items.c.slot)
    waiting = connection.execute(of_trace.with_for_update()).all()
    existing = None
    if user is not None:
        mine = (reviews.c.trace == trace.id) & (reviews.c.user == user)
        existing = connection.execute(select(reviews).where(mine).with_for_update()).mappings().first()
    if existing is not None and merge:
        before = read_content(store, trace.trace_id, existing)
        review = _merged(review, before)
        stored = connection.execute(select(verdicts).where(verdicts.c.review == existing["id"]))
        is_new = not set(review.verdicts) <= {Verdict(each.evaluator, each.label) for each in stored}
        if not is_new and _texts(review) == _texts(before):
            return int(existing["id"])  # an import that is repeated changes nothing
    row = {
        **store.seal(trace.trace_id, _texts(review)), "source": review.source[:100], "seconds": review.seconds,
        "created": review.created or now,
    }  # fmt: skip
    if existing is not None:
        review_id = int(existing["id"])
        connection.execute(update(reviews).where(reviews.c.id == review_id).values(**row))
    else:
        item = _item_to_close(waiting, task, user, now)
        values = {"trace": trace.id, "user": user, "item": item if isinstance(task, Task) else None, **row}
        query = insert(reviews).values(**values).returning(reviews.c.id)
        review_id = int(connection.execute(query).scalar_one())
        if item is not None:
            done = {"state": "done", "locked_by": None, "locked_until": None}
            connection.execute(update(items).where(items.c.id == item).values(**done))
    _write_verdicts(connection, review_id, trace.id, review.verdicts, keep=merge)
    connection.execute(update(traces).where(traces.c.id == trace.id, ~traces.c.reviewed).values(reviewed=True))
    return review_id


def root_span(store: Store, trace_id: str) -> str:
    """Returns the id of a request's root span, 16 hexadecimal digits; empty for a trace that is not stored. Of several
    requests in one trace it is the latest, to which a review by the trace's id belongs."""
    query = select(traces.c.span_id).where(trace_is(trace_id)).order_by(traces.c.id.desc()).limit(1)
    return store.scalar(query) or ""


def _texts(review: Review) -> dict[str, str | None]:
    """The columns of `reader.REVIEW`."""
    answers = dumps(dict(review.answers)) if review.answers else None
    evidence = dumps([asdict(one) for one in review.evidence]) if review.evidence else None
    return {"comment": review.comment, "corrected": review.corrected, "answers": answers, "evidence": evidence}


def read_content(store: Store, trace_id: str, row: Mapping[Any, Any]) -> Review:
    """Reads what a person wrote, answered and marked, from a row of `reviews`; without verdicts. Raises StoreError if
    it cannot be decrypted."""
    texts = store.unseal(trace_id, row, REVIEW)
    evidence = tuple(Evidence(**one) for one in json.loads(texts["evidence"] or "[]"))
    answers = json.loads(texts["answers"] or "{}")
    return Review(trace_id, (), texts["comment"], texts["corrected"], answers=answers, evidence=evidence)


def read_reviews(store: Store, stored: StoredTrace, user: int | None = None) -> list[tuple[int | None, Review]]:
    """Reads the reviews of a log with their verdicts, oldest first, each with the number of its user; with `user` only
    those of that person."""
    query = select(reviews, users.c.name).outerjoin(users, users.c.id == reviews.c.user)
    query = query.where(reviews.c.trace == stored.id).order_by(reviews.c.created, reviews.c.id)
    if user is not None:
        query = query.where(reviews.c.user == user)
    with store.reading() as connection:
        rows = connection.execute(query).mappings().all()
        labels = connection.execute(select(verdicts).where(verdicts.c.review.in_([row["id"] for row in rows]))).all()
    result = []
    for row in rows:
        own = tuple(Verdict(label.evaluator, label.label) for label in labels if label.review == row["id"])
        facts = {name: row[name] for name in ("seconds", "created", "source")}
        content = read_content(store, f"{stored.trace.trace_id:032x}", row)
        result.append((row["user"], replace(content, verdicts=own, reviewer=row["name"], **facts)))
    return result


def _merged(review: Review, before: Review) -> Review:
    old, new = before.comment or "", review.comment or ""
    return replace(
        review, comment=(new if old in new else "\n".join(filter(None, (old, new)))) or None,
        corrected=review.corrected or before.corrected, answers={**before.answers, **review.answers},
        evidence=review.evidence or before.evidence,
    )  # fmt: skip


def check_evidence(evidence: Sequence[Evidence], length: int | None = None) -> None:
    """Raises DataError for a mark that is not a part of an answer of that many characters, or has another verdict than
    `unsupported` and `contradicted`, and for more than `MOST_MARKS`."""
    if len(evidence) > MOST_MARKS:
        raise DataError(f"{len(evidence)} parts of the answer are marked; mark {MOST_MARKS} at most")
    for one in evidence:
        if not 0 <= one.start < one.end or (length is not None and one.end > length):
            raise DataError(f"the mark from {one.start} to {one.end} is not a part of the answer")
        if one.verdict not in MARKS:
            raise DataError(f"the mark's verdict is {one.verdict[:40]!r}; use one of {', '.join(MARKS)}")


def _check(new: Sequence[Verdict]) -> None:
    names = [verdict.evaluator for verdict in new]
    for verdict in new:
        if verdict.label not in LABELS:
            raise DataError(f"the verdict {verdict.label!r} is invalid; use one of {', '.join(LABELS)}")
        if not 0 < len(verdict.evaluator) <= 100 or clean(verdict.evaluator) != verdict.evaluator:
            raise DataError("a verdict names no evaluator; give a name of 1 to 100 characters")
        if names.count(verdict.evaluator) > 1:
            raise DataError(f"the review has two verdicts on {verdict.evaluator}; give one")


def _check_names(store: Store, names: Sequence[str]) -> None:
    unknown = set(names).difference(plugins.BUILT_IN, [ANY])
    if unknown:
        unknown -= {name for (name,) in store.rows(select(evaluators.c.name).where(evaluators.c.name.in_(unknown)))}
    for name in sorted(unknown):
        similar = ", ".join(plugins.similar_names(name, plugins.BUILT_IN))
        raise DataError(f"no log has a score of {name!r}" + (f"; similar: {similar}" if similar else ""))


def _trace(connection: Connection, task: Task | str | int) -> Any:
    is_trace = trace_is(task.trace if isinstance(task, Task) else task)
    query = select(traces.c.id, traces.c.trace_id).where(is_trace).order_by(traces.c.id.desc()).limit(1)
    row = connection.execute(query.with_for_update(key_share=True)).first()
    if row is None:
        raise DataError("the trace is not in the store (any more), so it cannot be reviewed")
    return row


def _item_to_close(waiting: Sequence[Any], task: Task | str | int, user: int | None, now: float) -> int | None:
    """The item that this review closes: the task's own if it is still open, else one of the log that nobody holds."""
    first = task.item if isinstance(task, Task) else None
    for item in sorted(waiting, key=lambda i: (i.id != first, i.slot)):
        is_held = item.locked_by is not None and item.locked_by != user and (item.locked_until or 0.0) >= now
        if item.state == "open" and (item.id == first or not is_held):
            return int(item.id)
    return None


def _write_verdicts(connection: Connection, review: int, trace: int, new: Sequence[Verdict], *, keep: bool) -> None:
    """Stores the verdicts, each with the newest score of its evaluator, which the reviewer saw."""
    stale = verdicts.c.review == review
    if keep:
        stale &= verdicts.c.evaluator.in_([verdict.evaluator for verdict in new])
    connection.execute(delete(verdicts).where(stale))
    query = select(scores.c.evaluator, scores.c.version, scores.c.value).where(scores.c.trace == trace)
    newest = {name: (version, value) for name, version, value in connection.execute(query.order_by(scores.c.id))}
    rows = []
    for verdict in new:
        version, value = newest.get(verdict.evaluator, (None, None))
        row = {"evaluator": verdict.evaluator, "label": verdict.label, "version": version, "value": value}
        rows.append({"review": review, **row})
    if rows:
        connection.execute(insert(verdicts), rows)
