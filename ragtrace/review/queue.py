"""The review queue: which logs wait for people, who has which of them, and what they said.

**How likely a log comes to review.** Two ways lead into the queue, and they know nothing of each other.

*The draw.* Every stored trace is drawn with a probability p that is known before it is looked at: the day's share of
the quota over the number of traces of its time and of the day that ends with it. Whether it is drawn is decided by a
hash of its trace id (the smallest hashes of a stretch of time are a simple random sample of it), so that nothing of its
content or scores has a part in it. `items.probability` has p for what was drawn, and is None for what was not.

*The rules* of `policy.CERTAIN` pick the worst logs, those in doubt, those that users complained of. Which traces they
pick follows from traces, scores and feedback alone, never from the draw: in the sense of sampling theory they are a
stratum that is taken with certainty. A trace that was drawn and picked has the rule's reason, and p.

`weighing` makes weights of it: the Horvitz-Thompson estimator over the union (D. G. Horvitz, D. J. Thompson, A
generalization of sampling without replacement from a finite universe, 1952; strata of certainty: C.-E. Särndal,
B. Swensson, J. Wretman, Model Assisted Survey Sampling, 1992, 3.7).
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, and_, exists, func, or_, select, update

from ragtrace.chatlogs.records import Task
from ragtrace.chatlogs.schema import items, reviews, traces, users
from ragtrace.errors import DataError
from ragtrace.review.fill_queue import Filler, fill
from ragtrace.review.policy import REASONS, Policy
from ragtrace.review.verdicts import submit
from ragtrace.review.weights import load_verdicts

if TYPE_CHECKING:
    from ragtrace.chatlogs.store import Store

__all__ = [
    "LOCK",
    "REASONS",
    "Filler",
    "Policy",
    "assign",
    "count_items",
    "fill",
    "load_verdicts",
    "next_task",
    "release",
    "skip",
    "submit",
]

LOCK = 900.0
"""Seconds that a log is one reviewer's; who takes longer may still submit."""


def next_task(
    store: Store, user: int, now: float | None = None, *, lock: float = LOCK, but: int | None = None
) -> Task | None:
    """The log that this reviewer judges next, locked for `lock` seconds; the one that is locked for them already, where
    there is one. None if nothing waits for them. With `but`, the one after that item, which they are about to judge:
    the console fetches it in advance.

    Nobody gets a log that somebody else holds, nor one that they have reviewed or hold in its other slot.
    """
    now = time.time() if now is None else now
    with store.writing() as connection:
        # Two windows of one reviewer must not come by both slots of a log at once.
        connection.execute(select(users.c.id).where(users.c.id == user).with_for_update(key_share=True))
        row = _held(connection, user, now, but) or _free(connection, user, now)
        if row is None:
            return None
        until = now + lock
        connection.execute(update(items).where(items.c.id == row.id).values(locked_by=user, locked_until=until))
    return Task(row.id, row.trace, row.trace_id, row.reason, until, row.slot)


_TASK = (items.c.id, items.c.trace, traces.c.trace_id, items.c.reason, items.c.slot)


def _held(connection: Connection, user: int, now: float, but: int | None) -> Any | None:
    query = select(*_TASK).join(traces, traces.c.id == items.c.trace)
    mine = and_(items.c.state == "open", items.c.locked_by == user, items.c.locked_until >= now)
    if but is not None:
        mine &= items.c.id != but
    return connection.execute(query.where(mine).order_by(items.c.id).limit(1)).first()


def _free(connection: Connection, user: int, now: float) -> Any | None:
    other = items.alias("other")
    reviewed = exists(select(reviews.c.id).where(reviews.c.trace == items.c.trace, reviews.c.user == user))
    holds = exists(
        select(other.c.id).where(
            other.c.trace == items.c.trace,
            other.c.id != items.c.id,
            other.c.state == "open",
            other.c.locked_by == user,
            other.c.locked_until >= now,
        )
    )
    query = (
        select(*_TASK)
        .join(traces, traces.c.id == items.c.trace)
        .where(
            items.c.state == "open",
            or_(items.c.locked_until.is_(None), items.c.locked_until < now),
            or_(items.c.assigned.is_(None), items.c.assigned == user),
            ~reviewed,
            ~holds,
        )
        .order_by(items.c.priority.desc(), items.c.id.desc())
        .limit(1)
        .with_for_update(of=items, skip_locked=True)
    )
    return connection.execute(query).first()


def skip(store: Store, item: int, user: int, reason: str, now: float | None = None) -> bool:
    """Take a log out of the queue unjudged; False if it is not open, or somebody else holds it. Raises DataError
    without a reason; it is cut at 200 characters."""
    if not reason.strip():
        raise DataError("a log is skipped with a reason; the reason is empty")
    values = {"state": "skipped", "skip_reason": reason.strip()[:200], "locked_by": None, "locked_until": None}
    return _change(store, item, user, time.time() if now is None else now, values)


def release(store: Store, item: int, user: int) -> bool:
    """Give a log back to the queue; False if this reviewer does not hold it."""
    with store.writing() as connection:
        mine = (items.c.id == item) & (items.c.locked_by == user)
        done = connection.execute(update(items).where(mine).values(locked_by=None, locked_until=None))
        return bool(done.rowcount)


def assign(store: Store, item: int, user: int | None) -> bool:
    """Let a log wait for one reviewer alone; None for anybody. False if it is not open."""
    with store.writing() as connection:
        waits = (items.c.id == item) & (items.c.state == "open")
        return bool(connection.execute(update(items).where(waits).values(assigned=user)).rowcount)


def _change(store: Store, item: int, user: int, now: float, values: Mapping[str, Any]) -> bool:
    free = or_(items.c.locked_by.is_(None), items.c.locked_by == user, items.c.locked_until < now)
    with store.writing() as connection:
        mine = and_(items.c.id == item, items.c.state == "open", free)
        return bool(connection.execute(update(items).where(mine).values(**values)).rowcount)


def count_items(store: Store, now: float | None = None) -> dict[str, dict[str, int]]:
    """How many logs there are by reason and state: `open`, `locked`, `done`, `skipped`. Second reviews count, too."""
    now = time.time() if now is None else now
    held = and_(items.c.state == "open", items.c.locked_until >= now)
    found: defaultdict[str, Counter[str]] = defaultdict(Counter)
    with store.reading() as connection:
        for reason, state, count in connection.execute(
            select(items.c.reason, items.c.state, func.count()).group_by(items.c.reason, items.c.state)
        ):
            found[reason][state] += count
        for reason, count in connection.execute(
            select(items.c.reason, func.count()).where(held).group_by(items.c.reason)
        ):
            found[reason]["locked"] += count
            found[reason]["open"] -= count
    states = ("open", "locked", "done", "skipped")
    return {reason: {state: found[reason][state] for state in states} for reason in REASONS if reason in found}
