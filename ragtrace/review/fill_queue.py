"""Filling the review queue: by the rules, and by the draw. See `reviewing` for what follows from each."""

from __future__ import annotations

import heapq
import json
import logging
import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, func, insert, select, text, update

from ragtrace.chatlogs.schema import items, meta, reviews, traces
from ragtrace.review import topics
from ragtrace.review.policy import CERTAIN, RANDOM, TOPIC, Policy, draw, in_force
from ragtrace.review.rules import pick_traces

if TYPE_CHECKING:
    from ragtrace.chatlogs.store import Store

_log = logging.getLogger(__name__)
_DAY = 86_400.0
_LATE = 5.0
"""Seconds after which nothing is stored any more with an earlier time of storing."""
_LOCK = 7_236_871_043
"""PostgreSQL's advisory lock under which the queue is filled."""
_WATERMARK = "review:drawn"
_CHUNK = 400


def fill(store: Store, policy: Policy | None = None, now: float | None = None) -> int:
    """Bring logs into the queue; how many are new there. Without a policy it is the one that the environment says.

    Call it every minute or so: a call with nothing to do costs milliseconds. Any number of processes may. Raises
    StoreError as the store does."""
    policy, now = policy or in_force(), time.time() if now is None else now
    wanted = _wanted(store, policy, now)
    found = pick_traces(store, policy, now, wanted)
    found[TOPIC] = topics.pick_new_topics(store, policy, now, wanted.get(TOPIC, 0))
    drawn = _drawn(store, policy, now)
    with store.writing() as connection:
        if connection.dialect.name == "postgresql":
            connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})
        count = sum(enqueue(connection, reason, given, policy, now) for reason, given in found.items())
        if drawn is not None and _watermark(connection) == drawn.since:  # else somebody else has drawn meanwhile
            count += enqueue(connection, RANDOM, drawn.traces, policy, now, drawn.probability)
            _set_watermark(connection, drawn.until)
    return count


class Filler:
    """Fills the queue from a thread of its own for as long as it is entered: `with Filler(store): …`."""

    def __init__(self, store: Store, policy: Policy | None = None, *, every: float = 60.0) -> None:
        self._store = store
        self._policy = policy or in_force()
        self._every = every
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, name="ragtrace-review-queue", daemon=True)

    def _work(self) -> None:
        told = False
        while True:
            try:
                fill(self._store, self._policy)
            except Exception as error:  # noqa: BLE001 a database that is away comes back
                if not told:  # once: it is tried every minute
                    _log.warning("ragtrace: the review queue could not be filled: %s", type(error).__name__)
                told = True
            if self._stop.wait(self._every):
                return

    def __enter__(self) -> Filler:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(5.0)


def _wanted(store: Store, policy: Policy, now: float) -> dict[str, int]:
    """How many logs each rule may pick now."""
    with store.reading() as connection:
        query = select(items.c.reason, func.count()).where(items.c.slot == 0, items.c.created >= now - now % _DAY)
        made = {row[0]: row[1] for row in connection.execute(query.group_by(items.c.reason))}
    return {reason: count - made.get(reason, 0) for reason, count in policy.allowed(now).items()}


@dataclass(frozen=True, slots=True)
class _Draw:
    traces: list[int]
    probability: float
    since: float | None
    until: float


def _drawn(store: Store, policy: Policy, now: float) -> _Draw | None:
    """The draw over what was stored since the last one; None if it is not time for one, or nothing was stored."""
    expected = policy.quota * policy.random
    with store.reading() as connection:
        since = _watermark(connection)
        until = now - _LATE
        start = now - policy.days * _DAY if since is None else since
        if not expected or (since is not None and until - since < policy.window):
            return None
        stored = (traces.c.stored > start) & (traces.c.stored <= until)
        count = int(connection.scalar(select(func.count()).select_from(traces).where(stored)) or 0)
        if not count:
            return None
        day = (traces.c.stored > until - _DAY) & (traces.c.stored <= start)
        before = int(connection.scalar(select(func.count()).select_from(traces).where(day)) or 0)
        # Of counts alone: nothing that a trace holds has a part in it.
        probability = min(1.0, expected / (before + count))
        size = probability * count
        # As many as expected, up or down by chance: each trace is among them with the probability that was said.
        size = int(size) + (draw(repr(until), "size") < size - int(size))
        rows = connection.execute(
            select(traces.c.id, traces.c.trace_id).where(stored), execution_options={"yield_per": 10_000}
        )
        chances = heapq.nsmallest(int(size), ((draw(row.trace_id, RANDOM), row.id) for row in rows))
    return _Draw([trace for _, trace in chances], probability, since, until)


def _watermark(connection: Connection) -> float | None:
    found = connection.scalar(select(meta.c.value).where(meta.c.name == _WATERMARK))
    return None if found is None else float(json.loads(found))


def _set_watermark(connection: Connection, until: float) -> None:
    value = json.dumps(until)
    if not connection.execute(update(meta).where(meta.c.name == _WATERMARK).values(value=value)).rowcount:
        connection.execute(insert(meta).values(name=_WATERMARK, value=value))


def enqueue(  # noqa: PLR0917 a row's columns
    connection: Connection,
    reason: str,
    given: Sequence[int],
    policy: Policy,
    now: float,
    probability: float | None = None,
) -> int:
    """Put traces into the queue, in this order; how many are new there. What was there already keeps its place: a
    rule's reason replaces that of the draw, and the draw's probability is added to what a rule has picked."""
    there = _items_of(connection, given)
    alive = _alive(connection, given)
    seen = _reviewed(connection, given)
    new = []
    for rank, trace in enumerate(given):
        if trace not in alive:  # deleted since it was picked
            continue
        if trace in there:
            _joined(connection, there[trace], reason, probability)
            continue
        row = {
            "trace": trace,
            "reason": reason,
            "probability": probability,
            "priority": _priority(reason, rank, len(given)),
            "created": now,
        }
        new.append({**row, "slot": 0, "state": "done" if trace in seen else "open"})
        if draw(alive[trace], "second") < policy.double:
            new.append({**row, "slot": 1, "state": "open"})
    if new:
        connection.execute(insert(items), new)
    return sum(row["slot"] == 0 and row["state"] == "open" for row in new)


def _priority(reason: str, rank: int, count: int) -> float:
    """Complaints first; all others by turns, so that an hour of review has its part of each."""
    position = 1.0 - (rank + 0.5) / count
    return position + (1.0 if reason in ("alert", "feedback") else 0.0)


def _joined(connection: Connection, item: Any, reason: str, probability: float | None) -> None:
    changed: dict[str, Any] = {}
    if reason in CERTAIN and item.reason not in CERTAIN:
        changed["reason"] = reason
    if probability is not None and item.probability is None:
        changed["probability"] = probability
    if changed:
        connection.execute(update(items).where(items.c.trace == item.trace).values(**changed))


def _items_of(connection: Connection, given: Sequence[int]) -> dict[int, Any]:
    found = {}
    for chunk in _chunks(given):
        query = select(items.c.trace, items.c.reason, items.c.probability).where(items.c.slot == 0)
        found.update({row.trace: row for row in connection.execute(query.where(items.c.trace.in_(chunk)))})
    return found


def _alive(connection: Connection, given: Sequence[int]) -> dict[int, str]:
    found: dict[int, str] = {}
    for chunk in _chunks(given):
        query = select(traces.c.id, traces.c.trace_id).where(traces.c.id.in_(chunk))
        found.update({row.id: row.trace_id for row in connection.execute(query.with_for_update(key_share=True))})
    return found


def _reviewed(connection: Connection, given: Sequence[int]) -> set[int]:
    found: set[int] = set()
    for chunk in _chunks(given):
        found.update(connection.scalars(select(reviews.c.trace).where(reviews.c.trace.in_(chunk))))
    return found


def _chunks(given: Sequence[int]) -> Iterable[Sequence[int]]:
    return (given[i : i + _CHUNK] for i in range(0, len(given), _CHUNK))
