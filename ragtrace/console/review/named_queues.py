"""Named queues: logs that certain reviewers judge, with instructions and questions of their own.

A log is in one queue: a named one, or that of everybody. It comes into a named queue by the queue's filter (see
`route`, which `fill_queue.fill` calls), or because somebody sends it there (`send`). The queue does not change why a
log was picked, nor with what probability, so it does not change the weights of `ragtrace.console.review.weights`."""

import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, delete, exists, func, insert, or_, select, update

from ragtrace.console.chatlogs.encryption import clean
from ragtrace.console.chatlogs.filters import parse_filter
from ragtrace.console.chatlogs.queue_schema import members, queues
from ragtrace.console.chatlogs.schema import items, reviews, trace_is, traces, users, verdicts
from ragtrace.console.chatlogs.store import Store
from ragtrace.console.chatlogs.store_types import Filter
from ragtrace.console.review.consensus import USABLE
from ragtrace.console.review.policy import CONFLICT, REQUESTED
from ragtrace.errors import DataError

FILTER_FIELDS = ("app", "env", "model", "prompt_version", "cause", "evaluator", "label")
"""Fields of `Filter` that a queue may have: none of them depends on texts or on who asked."""
MOST = 500
"""Logs that `send` takes at once."""
_INSTRUCTIONS = 2_000
"""Characters of instructions."""
CONFLICTS = "conflicts"
"""The queue of the logs whose two reviewers contradict each other: a third one decides."""
_PRIORITY = 1.5
"""Of a log that a person sends: between complaints and the logs that rules pick."""


@dataclass(frozen=True, slots=True)
class NamedQueue:
    """A named queue with its reviewers and the numbers of its logs."""

    name: str
    instructions: str
    filter: Filter
    """Waiting logs that match come into the queue; none of the fields set: only logs that somebody sends."""
    assignees: tuple[str, ...]
    """Names of its reviewers; empty for every reviewer."""
    closed: bool
    waiting: int
    """Reviews that wait, locked ones included."""
    done: int


def create(
    store: Store,
    name: str,
    *,
    instructions: str = "",
    filter: Filter | None = None,
    assignees: Sequence[str] = (),
    now: float | None = None,
) -> NamedQueue:
    """Creates a queue. Raises DataError for a name that is invalid or taken, for a filter with other fields than
    `FILTER_FIELDS`, and for assignees who may not review."""
    name = name.strip()
    if not 0 < len(name) <= 100 or clean(name) != name or not name.isprintable() or "/" in name:
        raise DataError("the name of the queue is invalid; give 1 to 100 printable characters without /")
    now = time.time() if now is None else now
    row = {"name": name, "closed": False, "created": now}
    with store.writing() as connection:
        if connection.scalar(select(queues.c.id).where(queues.c.name == name)) is not None:
            raise DataError(f"there is a queue {name!r} already; give another name, or change that one")
        values = {**_checked(instructions, filter or Filter()), **row}
        number = connection.execute(insert(queues).values(**values).returning(queues.c.id)).scalar_one()
        _set_assignees(connection, number, assignees)
        _route_into(store, connection, number, filter or Filter(), now)
    return find(store, name)


def change(
    store: Store,
    name: str,
    *,
    instructions: str | None = None,
    filter: Filter | None = None,
    assignees: Sequence[str] | None = None,
    closed: bool | None = None,
) -> NamedQueue:
    """Changes what is not None. The waiting logs of a closed queue are everybody's again. Raises DataError as `create`,
    and for a queue that does not exist."""
    before = find(store, name)
    instructions = before.instructions if instructions is None else instructions
    filter = before.filter if filter is None else filter
    with store.writing() as connection:
        number = _number(connection, name)
        values = _checked(instructions, filter)
        if closed is not None:
            values["closed"] = closed
        connection.execute(update(queues).where(queues.c.id == number).values(**values))
        if assignees is not None:
            _set_assignees(connection, number, assignees)
        if closed:
            own = (items.c.queue == number) & (items.c.state == "open")
            connection.execute(update(items).where(own).values(queue=None))
        elif closed is False or not before.closed:
            _route_into(store, connection, number, filter, time.time())
    return find(store, name)


def _checked(instructions: str, filter: Filter) -> dict[str, Any]:
    fields = {name: value for name, value in asdict(filter).items() if value not in ("", None)}
    if other := sorted(set(fields).difference(FILTER_FIELDS)):
        raise DataError(f"a queue cannot filter by {', '.join(other)}; use {', '.join(FILTER_FIELDS)}")
    if "label" in fields and "evaluator" not in fields:
        raise DataError("the queue's filter has a label without an evaluator; name the evaluator")
    if len(instructions) > _INSTRUCTIONS:
        raise DataError(f"the instructions have {len(instructions)} characters; at most {_INSTRUCTIONS} are allowed")
    return {"instructions": clean(instructions.strip()) or None, "filter": json.dumps(fields)}


def _set_assignees(connection: Connection, queue: int, names: Sequence[str]) -> None:
    query = select(users.c.name, users.c.id).where(users.c.role != "viewer", ~users.c.disabled)
    ids = {row.name: row.id for row in connection.execute(query.where(users.c.name.in_(names)))}
    if missing := sorted(set(names).difference(ids)):
        raise DataError(f"{missing[0]!r} cannot review: assign users with the role reviewer or admin")
    connection.execute(delete(members).where(members.c.queue == queue))
    if ids:
        connection.execute(insert(members), [{"queue": queue, "user": user} for user in ids.values()])


def find(store: Store, name: str) -> NamedQueue:
    """The queue of that name. Raises DataError if no queue has it."""
    for queue in load(store):
        if queue.name == name:
            return queue
    raise DataError(f"there is no queue {name[:100]!r}")


def load(store: Store, user: int | None = None) -> tuple[NamedQueue, ...]:
    """All queues by name; with `user` the open ones that this person may review."""
    with store.reading() as connection:
        query = select(members.c.queue, users.c.id, users.c.name).join(users, users.c.id == members.c.user)
        people: dict[int, dict[int, str]] = {}
        for queue, number, name in connection.execute(query.order_by(users.c.name)):
            people.setdefault(queue, {})[number] = name
        count = select(items.c.queue, items.c.state, func.count()).where(items.c.queue.is_not(None))
        counts = {(queue, state): n for queue, state, n in connection.execute(count.group_by("queue", "state"))}
        rows = connection.execute(select(queues).order_by(queues.c.name)).all()
    return tuple(
        NamedQueue(
            row.name,
            row.instructions or "",
            Filter(**json.loads(row.filter)),
            tuple(people.get(row.id, {}).values()),
            row.closed,
            counts.get((row.id, "open"), 0),
            counts.get((row.id, "done"), 0),
        )
        for row in rows
        if user is None or (not row.closed and user in people.get(row.id, {user: ""}))
    )


def _number(connection: Connection, name: str) -> int:
    number = connection.scalar(select(queues.c.id).where(queues.c.name == name))
    if number is None:
        raise DataError(f"there is no queue {name[:100]!r}")
    return int(number)


def is_for(user: int) -> ColumnElement[bool]:
    """The condition that this person may review a row of `items`."""
    of_queue = select(members.c.user).where(members.c.queue == items.c.queue)
    return or_(items.c.queue.is_(None), exists(of_queue.where(members.c.user == user)), ~exists(of_queue))


def queue_names(connection: Connection, trace: int) -> frozenset[str]:
    """The open queues that a trace is in, by its id in the store."""
    query = select(queues.c.name).join(items, items.c.queue == queues.c.id)
    return frozenset(connection.scalars(query.where(items.c.trace == trace, ~queues.c.closed)))


# --- logs come into a queue -------------------------------------------------------------------------------------------


def route(store: Store, connection: Connection, now: float) -> None:
    """Moves the waiting logs of everybody that match a queue's filter into that queue; the oldest queue comes first."""
    for row in connection.execute(select(queues).where(~queues.c.closed).order_by(queues.c.id)).all():
        _route_into(store, connection, row.id, Filter(**json.loads(row.filter)), now)


def _route_into(store: Store, connection: Connection, queue: int, filter: Filter, now: float) -> None:
    if filter == Filter():
        return
    conditions = [condition.where for condition in parse_filter(store, connection, filter)]
    waiting = items.c.queue.is_(None) & (items.c.state == "open") & _is_free(now)
    matching = select(traces.c.id).where(traces.c.id == items.c.trace, *conditions)
    connection.execute(update(items).where(waiting, matching.exists()).values(queue=queue))


def _is_free(now: float) -> ColumnElement[bool]:
    return or_(items.c.locked_until.is_(None), items.c.locked_until < now)


def send(store: Store, name: str, trace_ids: Sequence[str], now: float | None = None) -> int:
    """Puts stored logs (`MOST` at most; see `trace_is`) into a queue; returns how many wait there because
    of it. A log that waits already moves there. A log that was reviewed or skipped waits for one more review, by
    somebody who has not reviewed it. Raises DataError for a queue that does not exist or is closed."""
    if len(trace_ids) > MOST:
        raise DataError(f"{len(trace_ids)} logs cannot be sent at once; send at most {MOST}")
    now, count = time.time() if now is None else now, 0
    with store.writing() as connection:
        number = _number(connection, name)
        if connection.scalar(select(queues.c.closed).where(queues.c.id == number)):
            raise DataError(f"the queue {name!r} is closed; open it again, or send the logs to another one")
        for trace in list(connection.scalars(select(traces.c.id).where(trace_is(*trace_ids)))):
            count += _send_one(connection, number, trace, now)
    return count


def _send_one(connection: Connection, queue: int, trace: int, now: float) -> bool:
    rows = connection.execute(select(items).where(items.c.trace == trace).with_for_update()).all()
    waiting = [row.id for row in rows if row.state == "open"]
    if waiting:
        moved = update(items).where(items.c.id.in_(waiting), or_(items.c.queue.is_(None), items.c.queue != queue))
        return bool(connection.execute(moved.values(queue=queue)).rowcount)
    # Slot 0 says how the log was picked, and that it is done: the weights need it as it is.
    slot = max((row.slot for row in rows), default=-1) + 1
    row = {"trace": trace, "slot": slot, "reason": REQUESTED, "priority": _PRIORITY, "state": "open", "created": now}
    connection.execute(insert(items).values(**row, queue=queue))
    return True


def add_conflicts(connection: Connection, since: float, now: float) -> int:
    """Puts the logs whose two verdicts on one question contradict each other, the later one since then, into the queue
    `CONFLICTS`, once each; it is made with the first one, and where it is closed, they are everybody's. Returns how
    many there were. A waiting log leaves it when a person changed the verdict and the two agree."""
    labels = func.count(func.distinct(verdicts.c.label))
    query = select(reviews.c.trace).join(verdicts, verdicts.c.review == reviews.c.id)
    query = query.where(verdicts.c.label.in_(USABLE)).group_by(reviews.c.trace, verdicts.c.evaluator)
    disputed = query.having(labels == 2)
    waiting = (items.c.reason == CONFLICT) & (items.c.state == "open") & _is_free(now)
    is_over = ~disputed.where(reviews.c.trace == items.c.trace).correlate(items).exists()
    connection.execute(delete(items).where(waiting, is_over))
    is_there = exists().where(items.c.trace == reviews.c.trace, items.c.reason == CONFLICT)
    disputed = disputed.having(func.count() == 2, func.max(reviews.c.created) >= since).where(~is_there)
    conflicts = sorted(set(connection.scalars(disputed)))
    if not conflicts:
        return 0
    number, is_closed = connection.execute(
        select(queues.c.id, queues.c.closed).where(queues.c.name == CONFLICTS)
    ).first() or (0, False)
    if not number:
        row = {"name": CONFLICTS, "filter": "{}", "closed": False, "created": now}
        number = connection.execute(insert(queues).values(**row).returning(queues.c.id)).scalar_one()
    for trace in conflicts:
        slot = (connection.scalar(select(func.max(items.c.slot)).where(items.c.trace == trace)) or 0) + 1
        values = {"trace": trace, "slot": slot, "reason": CONFLICT, "priority": _PRIORITY, "state": "open"}
        connection.execute(insert(items).values(**values, created=now, queue=None if is_closed else number))
    return len(conflicts)
