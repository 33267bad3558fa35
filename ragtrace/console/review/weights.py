"""Loads verdicts with their weights: how many requests of the whole traffic each of them stands for.

A drawn log (see `ragtrace.console.review.queue`) stands for 1/p logs. A log that a rule of `policy.CERTAIN` picked
stands for itself alone. The estimator of Horvitz and Thompson for the union of both is the sum over the picked logs
plus the sum of 1/p over the logs that were drawn and not picked. It is valid for each day whose picked logs are all
done; while some of them wait, a picked log counts only if it was drawn too.

Not every drawn log is reviewed in time, or can be: the reviewed ones stand for the rest of their day (weighting
classes: C.-E. Särndal, B. Swensson, J. Wretman, Model Assisted Survey Sampling, 1992, 15.6). The draw and the queue of
drawn logs are in random order, so the part that is reviewed first is not special.

A log that was reviewed outside of the queue, perhaps because it looked bad, stands for the 1/p logs of its draw alone,
where others of its day were reviewed from the queue; those stand for the rest.

A weight of 0 means that the log stands for no known number of requests: it was neither drawn nor picked by such a rule,
for example a log of a new topic, or one that somebody opened because it looked bad."""

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Integer, case, cast, exists, func, select

from ragtrace.console.chatlogs.schema import items, reviews, scores, traces, users, verdicts
from ragtrace.console.chatlogs.store import Store
from ragtrace.console.chatlogs.store_types import ScoredVerdict
from ragtrace.console.review.policy import CERTAIN, IMPORTED

_DAY = 86_400
_OF_ITEM = reviews.alias("of_item")
_FROM_QUEUE = exists().where(_OF_ITEM.c.trace == traces.c.id, _OF_ITEM.c.item.is_not(None))
"""Whether somebody got the log from the queue, in either slot, and reviewed it."""


@dataclass(slots=True)
class DayCounts:
    """Counts of the queued logs that were stored on one day, by state."""

    certain: Counter[str]
    """Logs that a rule of `policy.CERTAIN` picked."""
    random: Counter[str]
    """Logs that were drawn."""
    rest: Counter[str]
    """Logs that were drawn and not picked."""

    def weight(self, certain: bool, probability: float | None, *, by_hand: bool = False) -> float:
        """Weight of a log that is done. `probability` is that of the draw; None if the log was not drawn."""
        if by_hand:
            return 1.0 / probability if probability and self.random["done"] else 0.0
        if not self.certain["open"]:
            if certain:
                # Without a reviewed log of the draw, nothing represents the logs that were not picked.
                return _share(self.certain) if self.rest["done"] or not self.rest.total() else 0.0
            return 0.0 if probability is None else _share(self.rest) / probability
        return 0.0 if probability is None else _share(self.random) / probability


def _share(states: Counter[str]) -> float:
    """How many logs each reviewed one stands for."""
    return (states.total() - states["by hand"]) / max(1, states["done"])


def count_by_day(connection: Connection) -> Mapping[int, DayCounts]:
    """Counts the queued logs by day of storing (days since 1970, UTC)."""
    day = cast(func.floor(traces.c.stored / _DAY), Integer)
    certain = items.c.reason.in_(CERTAIN)
    random = items.c.probability.is_not(None) & (items.c.reason != IMPORTED)
    reviewed = case((_FROM_QUEUE, "done"), else_="by hand")
    state = case((traces.c.reviewed, reviewed), (items.c.state == "skipped", "skipped"), else_="open")
    query = (
        select(day, certain, random, state, func.count()) .select_from(items)
        .join(traces, traces.c.id == items.c.trace) .where(items.c.slot == 0) .group_by(day, certain, random, state)
    )  # fmt: skip
    by_day: defaultdict[int, DayCounts] = defaultdict(lambda: DayCounts(Counter(), Counter(), Counter()))
    for number, is_picked, is_drawn, status, count in connection.execute(query):
        cell = by_day[number]
        if is_picked:
            cell.certain[status] += count
        if is_drawn:
            cell.random[status] += count
            if not is_picked:
                cell.rest[status] += count
    return by_day


def load_verdicts(
    store: Store, evaluator: str = "", since: float | None = None, until: float | None = None, *conditions: Any
) -> list[ScoredVerdict]:
    """Loads each verdict with the evaluator's newest score of the same log, in the order of the reviews; optionally of
    one evaluator, of reviews in [since, until), or of traces that meet conditions on the table `traces`. A failed check
    has neither value nor label, and an evaluator without a score has no version either."""
    with store.reading() as connection:
        weights = count_by_day(connection)
        query = _query(evaluator, since, until).where(*conditions)
        return [_scored_verdict(row, weights) for row in connection.execute(query)]


def _query(evaluator: str, since: float | None, until: float | None) -> Any:
    of = scores.alias("of")
    newest = (
        select(func.max(of.c.id)) .where(of.c.trace == reviews.c.trace, of.c.evaluator == verdicts.c.evaluator)
        .correlate(reviews, verdicts) .scalar_subquery()
    )  # fmt: skip
    columns = (
        reviews.c.trace, verdicts.c.evaluator, scores.c.version, scores.c.value, scores.c.label,
        verdicts.c.label.label("verdict"), reviews.c.user, users.c.name, reviews.c.created, traces.c.stored,
        func.coalesce(scores.c.probability, traces.c.probability).label("evaluated"), items.c.reason,
        items.c.probability.label("drawn"), _FROM_QUEUE.label("from_queue"),
    )  # fmt: skip
    query = (
        select(*columns) .select_from(verdicts) .join(reviews, reviews.c.id == verdicts.c.review)
        .join(traces, traces.c.id == reviews.c.trace) .outerjoin(scores, scores.c.id == newest)
        .outerjoin(users, users.c.id == reviews.c.user)
        .outerjoin(items, (items.c.trace == reviews.c.trace) & (items.c.slot == 0))
        .order_by(reviews.c.created, reviews.c.id, verdicts.c.evaluator)
    )  # fmt: skip
    if evaluator:
        query = query.where(verdicts.c.evaluator == evaluator)
    if since is not None:
        query = query.where(reviews.c.created >= since)
    return query if until is None else query.where(reviews.c.created < until)


def _scored_verdict(row: Any, weights: Mapping[int, DayCounts]) -> ScoredVerdict:
    return ScoredVerdict(
        trace=row.trace, evaluator=row.evaluator, version=row.version or "", value=row.value, label=row.label,
        verdict=row.verdict, reviewer=row.name or ("" if row.user is None else f"user {row.user}"),
        weight=_weight(row, weights) / row.evaluated, created=row.created,
    )  # fmt: skip


def _weight(row: Any, weights: Mapping[int, DayCounts]) -> float:
    if row.reason is None:
        return 0.0
    if row.reason == IMPORTED:
        return 1.0 / row.drawn if row.drawn else 0.0
    return weights[int(row.stored // _DAY)].weight(row.reason in CERTAIN, row.drawn, by_hand=not row.from_queue)
