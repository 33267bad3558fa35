"""Fills the review queue by the rules and by the random draw; see `ragtrace.console.review.queue`.

A share is known best where the draw follows Neyman (J. Neyman, On the two different aspects of the representative
method, 1934): logs are drawn in proportion to the requests that they stand for and to the spread of people's verdicts
among logs with such scores. Where scores are good nearly all verdicts are *pass*, and few of them are needed."""

import heapq
import json
import math
import time
from bisect import bisect
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from sqlalchemy import Connection, func, insert, select, update

from ragtrace.console.chatlogs.engine import among, lock
from ragtrace.console.chatlogs.overview import ordered
from ragtrace.console.chatlogs.schema import evaluators, items, meta, scores, traces
from ragtrace.console.chatlogs.store import Store
from ragtrace.console.regular import Regular
from ragtrace.console.review import named_queues, topics
from ragtrace.console.review.policy import CERTAIN, DAYS, RANDOM, TOPIC, WINDOW, Policy, draw, load_policy
from ragtrace.console.review.rules import pick_traces
from ragtrace.console.review.true_shares import MONTH, badness_sign, verdicts_of
from ragtrace.console.review.weights import load_verdicts
from ragtrace.statistics.true_share import JudgedLog

FLOOR = 0.3
"""Part of the draw in which all logs have the same probability: a kind of failure that the evaluator cannot see is
found there. It also bounds a weight at about three times that of an equal draw."""
_CUTS = (0.5, 0.8, 0.95)
"""The strata are the better half of the scores, and three parts of the worse one."""


def chances(rows: Sequence[tuple[float | None, float]], count: float, past: Sequence[JudgedLog]) -> list[float]:
    """Returns a probability in (0, 1] for each row; their sum is at most `count`.

    A row has the evaluator's score (higher is worse; None without one) and its weight, the requests that it stands for.
    `past` are verdicts of an earlier time with scores of the same kind. Without them only weights count."""
    scores = sorted(score for score, _ in rows if score is not None)
    cuts = [scores[int(q * len(scores))] for q in _CUTS] if scores else []
    mean = (sum(log.bad for log in past) + 1.0) / (len(past) + 2.0)
    verdicts = [[mean] for _ in range(len(cuts) + 1)]  # each part begins with one verdict of the mean share
    for log in past:
        verdicts[bisect(cuts, log.score)].append(log.bad)
    shares = [min(0.98, max(0.02, sum(part) / len(part))) for part in (*verdicts, [mean])]
    spread = [math.sqrt(share * (1 - share)) for share in shares]
    sizes = [weight * spread[-1 if score is None else bisect(cuts, score)] for score, weight in rows]
    total = sum(sizes) or 1.0
    parts = ((1 - FLOOR) * size / total + FLOOR / len(rows) for size in sizes)
    return [round(min(1.0, count * part), 12) for part in parts]


_DAY = 86_400.0
_LATE = 5.0
"""Seconds after which no trace is stored any more with an earlier time of storing."""
_LOCK = 7_236_871_043
"""PostgreSQL's advisory lock for filling the queue."""
_WATERMARK = "review:drawn"


def fill(store: Store, policy: Policy | None = None, now: float | None = None) -> int:
    """Adds logs to the queue; returns the number of new ones. The default policy is that of the settings.

    Call it about once a minute, from any number of processes: a call with nothing to do takes milliseconds. Raises
    StoreError as the store does."""
    policy, now = policy or load_policy(), time.time() if now is None else now
    with store.reading() as connection:
        counts = count_today(connection, now)
    limits = {reason: count - counts.get(reason, 0) for reason, count in policy.allowed(now).items()}
    picks = pick_traces(store, policy, now, limits)
    picks[TOPIC] = topics.pick_new_topics(store, now, limits.get(TOPIC, 0))
    sample = _draw_sample(store, policy, now)
    with store.writing() as connection:
        lock(connection, _LOCK)
        count = sum(enqueue(connection, reason, ids, policy, now) for reason, ids in picks.items())
        if sample is not None:
            chance_of, since = sample
            if _watermark(connection) == since:  # else another process has drawn meanwhile
                count += enqueue(connection, RANDOM, list(chance_of), policy, now, chance_of)
                value = json.dumps(now - _LATE)
                if not connection.execute(update(meta).where(meta.c.name == _WATERMARK).values(value=value)).rowcount:
                    connection.execute(insert(meta).values(name=_WATERMARK, value=value))
        count += named_queues.add_conflicts(connection, now - DAYS * _DAY, now)
        named_queues.route(store, connection, now)
    return count


def count_today(connection: Connection, now: float) -> dict[str, int]:
    """Counts the logs that came into the queue since midnight (UTC), by reason."""
    query = select(items.c.reason, func.count()).where(items.c.slot == 0, items.c.created >= now - now % _DAY)
    return {row[0]: row[1] for row in connection.execute(query.group_by(items.c.reason))}


def filler(store: Store, policy: Policy, *, every: float = 60.0) -> Regular:
    """Fills the queue regularly: `with filler(store, policy): …`."""
    return Regular("the review queue was not filled", lambda: fill(store, policy), every=every)


# --- the draw ---------------------------------------------------------------------------------------------------------


def _draw_sample(store: Store, policy: Policy, now: float) -> tuple[dict[int, float], float | None] | None:
    """Draws from the traces stored since the last draw: the drawn ones, with what probability each was drawn, and when
    the last draw was. None if no draw is due, or nothing was stored."""
    expected = policy.quota * policy.shares.get(RANDOM, 0.0)
    with store.reading() as connection:
        since = _watermark(connection)
        until = now - _LATE
        start = now - DAYS * _DAY if since is None else since
        if not expected or (since is not None and until - since < WINDOW):
            return None
        count = _count_stored(connection, start, until)
        if not count:
            return None
        # As large as traffic is beside that of a day.
        size = count * min(1.0, expected / (_count_stored(connection, until - _DAY, start) + count))
        evaluator = _main_evaluator(connection, policy)
        query = (
            select(traces.c.id, traces.c.trace_id, traces.c.probability, scores.c.value)
            .outerjoin(scores, (scores.c.trace == traces.c.id) & (scores.c.evaluator == evaluator))
            .where(traces.c.error.is_(None), traces.c.stored > start, traces.c.stored <= until)
            .order_by(traces.c.id, scores.c.id)
        )
        rows = {row.id: tuple(row) for row in connection.execute(query)}
    past = [row for row in load_verdicts(store, evaluator, now - MONTH) if row.value is not None] if evaluator else []
    sign = badness_sign(store, evaluator)
    parts = chances(
        [(None if value is None else sign * value, 1.0 / p) for _, _, p, value in rows.values()],
        size,
        verdicts_of(store, past, evaluator),
    )
    # Rounded up or down at random, and the smallest of u / p (E. Ohlsson, Sequential Poisson sampling, 1998): the size
    # is fixed, and each trace is drawn with its probability.
    whole = sum(parts)
    size = int(whole) + (draw(repr(until), "size") < whole % 1)
    keys = ((draw(row[1], RANDOM) / p, row[0], p) for row, p in zip(rows.values(), parts, strict=True))
    return {id: p for _, id, p in heapq.nsmallest(size, keys)}, since


def _main_evaluator(connection: Connection, policy: Policy) -> str:
    """The evaluator whose true share the draw narrows; empty where none has a score."""
    names = list(connection.scalars(select(evaluators.c.name).distinct()))
    return next(iter(ordered([name for name in names if not policy.evaluators or name in policy.evaluators])), "")


def _count_stored(connection: Connection, after: float, until: float) -> int:
    """How many traces have an answer; of an aborted one there is nothing to judge."""
    query = select(func.count()).select_from(traces)
    query = query.where(traces.c.error.is_(None), traces.c.stored > after, traces.c.stored <= until)
    return int(connection.scalar(query) or 0)


def _watermark(connection: Connection) -> float | None:
    value = connection.scalar(select(meta.c.value).where(meta.c.name == _WATERMARK))
    return None if value is None else float(json.loads(value))


# --- into the queue ---------------------------------------------------------------------------------------------------


def enqueue(  # noqa: PLR0917 a row's columns
    connection: Connection,
    reason: str,
    ids: Sequence[int],
    policy: Policy,
    now: float,
    chance_of: Mapping[int, float] = MappingProxyType({}),
) -> int:
    """Puts traces into the queue, in this order; returns the number of new ones. `chance_of` has the probability of
    those that were drawn. A trace that is in the queue keeps its place: a rule's reason replaces that of the draw, and
    the draw's probability is added to a trace that a rule picked."""
    stored = _stored_traces(connection, ids)
    rows = []
    for rank, trace in enumerate(ids):
        if trace not in stored:  # deleted since it was picked
            continue
        if stored[trace].reason is not None:
            _merge(connection, stored[trace], reason, chance_of.get(trace))
            continue
        row = {"trace": trace, "reason": reason, "probability": chance_of.get(trace), "created": now}
        row["priority"] = _priority(reason, rank, len(ids))
        rows.append({**row, "slot": 0, "state": "done" if stored[trace].reviewed else "open"})
        if draw(stored[trace].trace_id, "second") < policy.double:
            rows.append({**row, "slot": 1, "state": "open"})
    if rows:
        connection.execute(insert(items), rows)
    return sum(row["slot"] == 0 and row["state"] == "open" for row in rows)


def _priority(reason: str, rank: int, count: int) -> float:
    """Complaints first; the other reasons alternate, so that an hour of review has a part of each."""
    position = 1.0 - (rank + 0.5) / count
    return position + (1.0 if reason in ("alert", "feedback") else 0.0)


def _merge(connection: Connection, item: Any, reason: str, probability: float | None) -> None:
    values: dict[str, Any] = {}
    if reason in CERTAIN and item.reason not in CERTAIN:
        values["reason"] = reason
    if probability is not None and item.probability is None:
        values["probability"] = probability
    if values:
        connection.execute(update(items).where(items.c.trace == item.id).values(**values))


def _stored_traces(connection: Connection, ids: Sequence[int]) -> dict[int, Any]:
    """The traces by the store's ids, with their place in the queue; locked, so that none is deleted before it is
    queued."""
    columns = (traces.c.id, traces.c.trace_id, traces.c.reviewed, items.c.reason, items.c.probability)
    query = select(*columns).outerjoin(items, (items.c.trace == traces.c.id) & (items.c.slot == 0))
    query = query.where(among(connection, traces.c.id, ids)).with_for_update(key_share=True, of=traces)
    return {row.id: row for row in connection.execute(query)}
