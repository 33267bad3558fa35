"""The review queue: which logs wait for people, and who holds which of them.

There are two independent ways into the queue. *The draw* takes each stored trace with a probability p that
`fill_queue.chances` computes; a hash of the trace id decides. `items.probability` is p for drawn traces and
None for the others. *The rules* of `policy.CERTAIN` pick by traces, scores and feedback, never by the draw: they are a
stratum that is taken with certainty. A trace that is both drawn and picked has the rule's reason, and p.

`ragtrace.console.review.weights` computes weights from this: the Horvitz-Thompson estimator for the union (D. G.
Horvitz, D. J. Thompson, A generalization of sampling without replacement from a finite universe, 1952; strata of
certainty: C.-E. Särndal, B. Swensson, J. Wretman, Model Assisted Survey Sampling, 1992, 3.7)."""

import time
from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Any

from sqlalchemy import ColumnElement, Connection, and_, exists, func, or_, select, update

from ragtrace.console.chatlogs.queue_schema import queues
from ragtrace.console.chatlogs.schema import items, reviews, trace_is, traces, users
from ragtrace.console.chatlogs.store import Store
from ragtrace.console.chatlogs.store_types import Task
from ragtrace.console.review.fill_queue import fill, filler
from ragtrace.console.review.named_queues import is_for
from ragtrace.console.review.policy import REASONS, Policy
from ragtrace.console.review.verdicts import submit
from ragtrace.console.review.weights import load_verdicts
from ragtrace.errors import DataError
from ragtrace.text.redaction import mask_pii

__all__ = [
    "LOCK", "REASONS", "Policy", "count_items", "count_waiting", "fill", "filler", "load_verdicts",
    "next_task", "previous_review", "release", "release_all", "skip", "submit",
]  # fmt: skip

LOCK = 900.0
"""Seconds for which a reviewer holds a log; a later review of it is still accepted."""
_TASK = select(
    items.c.id, items.c.trace, traces.c.trace_id, items.c.reason, items.c.slot, queues.c.name.label("queue")
).select_from(items.join(traces, traces.c.id == items.c.trace).outerjoin(queues, queues.c.id == items.c.queue))
_UNLOCKED = {"locked_by": None, "locked_until": None}


def next_task(
    store: Store, user: int, now: float | None = None, *, but: int | None = None, queue: str = ""
) -> Task | None:
    """Locks the next log for this reviewer for `LOCK` seconds; a log that they hold already comes first. None if
    nothing waits for them. `but` is an item to pass over: the console fetches the log after the one on screen. `queue`
    names the queue to take from; empty for all queues that are open to this reviewer.

    A reviewer never gets a log that somebody else holds, that they have reviewed, that they hold in its other slot, or
    whose queue is assigned to others."""
    now = time.time() if now is None else now
    with store.writing() as connection:
        # Two windows of one reviewer must not get both slots of a log at the same time.
        connection.execute(select(users.c.id).where(users.c.id == user).with_for_update(key_share=True))
        row = _held_item(connection, user, now, but, queue) or _free_item(connection, user, now, queue)
        if row is None:
            return None
        until = now + LOCK
        connection.execute(update(items).where(items.c.id == row.id).values(locked_by=user, locked_until=until))
    return Task(row.id, row.trace, row.trace_id, row.reason, until, row.slot, row.queue or "")


def _held_item(connection: Connection, user: int, now: float, but: int | None, queue: str) -> Any | None:
    query = _TASK.where(items.c.state == "open", items.c.locked_by == user, items.c.locked_until >= now, _is_new(user))
    if but is not None:
        query = query.where(items.c.id != but)
    if queue:
        query = query.where(queues.c.name == queue)
    return connection.execute(query.order_by(items.c.id).limit(1)).first()


def _is_new(user: int) -> ColumnElement[bool]:
    """The condition that an item is for this reviewer, who has neither reviewed nor skipped its log."""
    has_review = exists(select(reviews.c.id).where(reviews.c.trace == items.c.trace, reviews.c.user == user))
    other = items.alias("skipped")
    is_twin = and_(*(other.c[name] == items.c[name] for name in ("trace", "created", "reason")))
    is_own = (other.c.state == "skipped") & (other.c.locked_by == user)
    return and_(is_for(user), ~has_review, ~exists(select(other.c.id).where(is_twin, is_own)))


def _can_get(user: int, now: float) -> ColumnElement[bool]:
    """The condition that this reviewer may get an item."""
    other = items.alias("other")
    locked = (other.c.state == "open") & (other.c.locked_by == user) & (other.c.locked_until >= now)
    holds_other_slot = exists(
        select(other.c.id).where(other.c.trace == items.c.trace, other.c.id != items.c.id, locked)
    )
    is_free = or_(items.c.locked_until.is_(None), items.c.locked_until < now)
    return and_(items.c.state == "open", is_free, _is_new(user), ~holds_other_slot)


def _free_item(connection: Connection, user: int, now: float, queue: str) -> Any | None:
    query = (
        _TASK.where(_can_get(user, now), *([queues.c.name == queue] if queue else []))
        .order_by(items.c.priority.desc(), items.c.id.desc()) .limit(1) .with_for_update(of=items, skip_locked=True)
    )  # fmt: skip
    return connection.execute(query).first()


def skip(store: Store, item: int, user: int, reason: str, now: float | None = None) -> bool:
    """Takes a log out of the queue without a review, and keeps who did it: they do not get its other slot. False if it
    is not open, is for others, or somebody else holds it. Raises DataError without a reason; 200 characters stay."""
    if not reason.strip():
        raise DataError("the reason for skipping the log is empty; give a reason")
    now = time.time() if now is None else now
    is_free = or_(items.c.locked_by.is_(None), items.c.locked_by == user, items.c.locked_until < now)
    values = {**_UNLOCKED, "state": "skipped", "skip_reason": mask_pii(reason.strip())[:200], "locked_by": user}
    return _update(store, item, and_(items.c.state == "open", is_free, is_for(user)), values)


def log_of(store: Store, item: int) -> int | None:
    """The store's number of the log of this item; None for an item that is gone."""
    return store.scalar(select(items.c.trace).where(items.c.id == item))  # type: ignore[no-any-return]


def release(store: Store, item: int, user: int) -> bool:
    """Returns a log to the queue. False if this reviewer does not hold it."""
    return _update(store, item, and_(items.c.state == "open", items.c.locked_by == user), _UNLOCKED)


def release_all(store: Store, user: int) -> int:
    """Returns every log that this reviewer holds to its queue; the number of them."""
    own = (items.c.locked_by == user) & (items.c.state == "open")
    return store.execute(update(items).where(own).values(**_UNLOCKED))


def previous_review(store: Store, user: int, trace: str = "") -> int | None:
    """The store's number of the log that this person reviewed last; with a log (see `trace_is`) before that one. None
    without such a review."""
    query = select(traces.c.id, reviews.c.created).join(traces, traces.c.id == reviews.c.trace)
    query = query.where(reviews.c.user == user).order_by(reviews.c.created.desc(), reviews.c.id.desc()).limit(1)
    with store.reading() as connection:
        own = connection.execute(query.where(trace_is(trace))).first() if trace else None
        row = connection.execute(query if own is None else query.where(reviews.c.created < own.created)).first()
    return None if row is None else int(row.id)


def _update(store: Store, item: int, condition: ColumnElement[bool], values: Mapping[str, Any]) -> bool:
    return bool(store.execute(update(items).where(items.c.id == item, condition).values(**values)))


def count_waiting(store: Store, user: int, now: float | None = None) -> int:
    """Counts the logs that wait and that this reviewer could get; those that somebody holds are left out."""
    waiting = _can_get(user, time.time() if now is None else now)
    return int(store.scalar(select(func.count(func.distinct(items.c.trace))).where(waiting)) or 0)


def count_items(store: Store, now: float | None = None) -> dict[str, dict[str, int]]:
    """Counts the logs by reason and state: `open`, `locked`, `done`, `skipped`. Second reviews are included."""
    now = time.time() if now is None else now
    is_locked = and_(items.c.state == "open", items.c.locked_until >= now)
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    with store.reading() as connection:
        query = select(items.c.reason, items.c.state, func.count())
        for reason, state, count in connection.execute(query.group_by(items.c.reason, items.c.state)):
            counts[reason][state] += count
        query = select(items.c.reason, func.count()).where(is_locked)
        for reason, count in connection.execute(query.group_by(items.c.reason)):
            counts[reason]["locked"] += count
            counts[reason]["open"] -= count
    states = ("open", "locked", "done", "skipped")
    return {reason: {state: counts[reason][state] for state in states} for reason in REASONS if reason in counts}
