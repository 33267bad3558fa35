"""What a person said of a log, into the store: once for each person, whenever it comes."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, delete, insert, select, update
from sqlalchemy.exc import IntegrityError

from ragtrace.chatlogs.encryption import clean
from ragtrace.chatlogs.records import Review, Task, Verdict
from ragtrace.chatlogs.schema import items, reviews, scores, traces, verdicts
from ragtrace.errors import DataError
from ragtrace.review.notices import notify

if TYPE_CHECKING:
    from ragtrace.chatlogs.store import Store

LABELS = ("pass", "fail", "not_applicable", "unsure")


def submit(
    store: Store,
    task: Task | str | int,
    review: Review,
    user: int | None,
    now: float | None = None,
    *,
    merge: bool = False,
) -> int:
    """Keep a review; its id. `task` is what `next_task` gave, or a stored trace by its 32 hexadecimal digits or its id.

    A person has one review of a log: a second one replaces the first, or with `merge` is added to it. It closes the
    task; where that is no longer open (the lock expired and somebody else reviewed) it is a further review of the log,
    and closes the log's other slot, if nobody holds that. `user` is None for a source that is nobody's.

    When this returns, the review survives a kill. Raises DataError for a trace that is not stored and for a label that
    is none.
    """
    _check(review.verdicts)
    now = time.time() if now is None else now
    try:
        with store.writing() as connection:
            own = write_review(store, connection, task, review, user, now, merge=merge)
    except IntegrityError:  # PostgreSQL: the same person's other window was faster
        with store.writing() as connection:
            own = write_review(store, connection, task, review, user, now, merge=merge)
    said = {verdict.evaluator: verdict.label for verdict in review.verdicts}
    texts = {"comment": review.comment, "corrected": review.corrected}
    trace_id = task.trace_id if isinstance(task, Task) else review.trace_id
    notify(
        store,
        "review.submitted",
        {"trace_id": trace_id, "review": own, "reviewer": user, "verdicts": said, **texts},
    )
    return own


def write_review(  # noqa: PLR0917 as above, and where
    store: Store,
    connection: Connection,
    task: Task | str | int,
    review: Review,
    user: int | None,
    now: float,
    *,
    merge: bool = False,
) -> int:
    """As `submit`, in a transaction that writes."""
    trace = _trace(connection, task)
    waiting = connection.execute(
        select(items).where(items.c.trace == trace.id).order_by(items.c.slot).with_for_update()
    ).all()
    known = None
    if user is not None:
        mine = (reviews.c.trace == trace.id) & (reviews.c.user == user)
        known = connection.execute(select(reviews).where(mine).with_for_update()).mappings().first()
    texts: dict[str, str | None] = {"comment": review.comment, "corrected": review.corrected}
    if known is not None and merge:
        before = store.unseal(trace.trace_id, known, tuple(texts))
        texts = {name: texts[name] or before[name] for name in texts}
    row = {
        **store.seal(trace.trace_id, texts),
        "source": review.source[:100],
        "seconds": review.seconds,
        "created": review.created or now,
    }
    if known is not None:
        own = int(known["id"])
        connection.execute(update(reviews).where(reviews.c.id == own).values(**row))
    else:
        item = _closed(waiting, task, user, now)
        made = insert(reviews).values(trace=trace.id, user=user, item=item, **row).returning(reviews.c.id)
        own = int(connection.execute(made).scalar_one())
        if item is not None:
            done = {"state": "done", "locked_by": None, "locked_until": None}
            connection.execute(update(items).where(items.c.id == item).values(**done))
    _judge(connection, own, trace.id, review.verdicts, keep=merge)
    connection.execute(update(traces).where(traces.c.id == trace.id, ~traces.c.reviewed).values(reviewed=True))
    return own


def _check(given: Sequence[Verdict]) -> None:
    names = [verdict.evaluator for verdict in given]
    for verdict in given:
        if verdict.label not in LABELS:
            raise DataError(f"{verdict.label!r} is no verdict; give one of {', '.join(LABELS)}")
        if not 0 < len(verdict.evaluator) <= 100 or clean(verdict.evaluator) != verdict.evaluator:
            raise DataError("a verdict names no evaluator")
        if names.count(verdict.evaluator) > 1:
            raise DataError(f"{verdict.evaluator} has two verdicts in one review")


def _trace(connection: Connection, task: Task | str | int) -> Any:
    given = task.trace if isinstance(task, Task) else task
    own = traces.c.id == given if isinstance(given, int) else traces.c.trace_id == given.lower()
    query = select(traces.c.id, traces.c.trace_id).where(own).order_by(traces.c.id.desc()).limit(1)
    found = connection.execute(query.with_for_update(key_share=True)).first()
    if found is None:
        raise DataError("the trace is not stored (any more): nothing can be said of it")
    return found


def _closed(waiting: Sequence[Any], task: Task | str | int, user: int | None, now: float) -> int | None:
    """The item that this review closes: the task's own, if it is open still, else one of the log that nobody holds."""
    first = task.item if isinstance(task, Task) else None
    for item in sorted(waiting, key=lambda i: (i.id != first, i.slot)):
        held = item.locked_by is not None and item.locked_by != user and (item.locked_until or 0.0) >= now
        if item.state == "open" and (item.id == first or not held):
            return int(item.id)
    return None


def _judge(connection: Connection, review: int, trace: int, given: Sequence[Verdict], *, keep: bool) -> None:
    """The verdicts, each with the score that was there to see."""
    stale = verdicts.c.review == review
    if keep:
        stale &= verdicts.c.evaluator.in_([verdict.evaluator for verdict in given])
    connection.execute(delete(verdicts).where(stale))
    shown = _shown(connection, trace)
    rows = [
        {
            "review": review,
            "evaluator": verdict.evaluator,
            "label": verdict.label,
            "version": shown.get(verdict.evaluator, {}).get("version"),
            "value": shown.get(verdict.evaluator, {}).get("value"),
        }
        for verdict in given
    ]
    if rows:
        connection.execute(insert(verdicts), rows)


def _shown(connection: Connection, trace: int) -> dict[str, Any]:
    """The newest score of each evaluator."""
    query = select(scores.c.evaluator, scores.c.version, scores.c.value).where(scores.c.trace == trace)
    return {row["evaluator"]: row for row in connection.execute(query.order_by(scores.c.id)).mappings()}
