"""Verdicts with their weights: how many requests of the whole traffic each of them stands for.

A log that was drawn (see `reviewing`) stands for 1/p others. A log that a rule of certainty picked stands for itself;
it would be wrong to let it stand for more, and as wrong to leave it out. The union of both is estimated by Horvitz and
Thompson: the sum over what was picked plus the sum of 1/p over what was drawn and not picked. It holds for each day on
which all that was picked is done; while some of it still waits, what was picked counts only where it was drawn, too.

Not all that was drawn is judged in time, or can be: what is stands for the rest of its day (weighting classes:
C.-E. Särndal, B. Swensson, J. Wretman, Model Assisted Survey Sampling, 1992, 15.6). The draw is in random order, and so
is the queue of what was drawn, so that a part that was done first is none that is special.

A weight of 0 says that nothing is known: nobody drew it and no rule of certainty picked it, such as a log of a new
topic, or one that somebody opened because it looked bad. Such verdicts count for nothing but themselves.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, Integer, case, cast, func, select

from ragtrace.chatlogs.records import ScoredVerdict
from ragtrace.chatlogs.schema import items, reviews, scores, traces, users, verdicts
from ragtrace.review.policy import CERTAIN, IMPORTED

if TYPE_CHECKING:
    from ragtrace.chatlogs.store import Store

_DAY = 86_400


@dataclass(slots=True)
class Cell:
    """What became of the logs in the queue that were stored on one day."""

    certain: Counter[str]
    """States of those that a rule of certainty picked."""
    drawn: Counter[str]
    """Of those that were drawn."""
    rest: Counter[str]
    """Of those that were drawn and not picked."""

    def weight(self, certain: bool, probability: float | None) -> float:
        """Of a log that is done. `probability` is that of the draw; None where it was not drawn."""
        if not self.certain["open"]:
            if certain:
                # If nothing of the draw is done, nobody speaks for what was not picked.
                return _all(self.certain) if self.rest["done"] or not _size(self.rest) else 0.0
            return 0.0 if probability is None else _all(self.rest) / probability
        return 0.0 if probability is None else _all(self.drawn) / probability


def _size(states: Counter[str]) -> int:
    return sum(states.values())


def _all(states: Counter[str]) -> float:
    """What one that is done stands for among all."""
    return _size(states) / max(1, states["done"])


def cells(connection: Connection) -> Mapping[int, Cell]:
    """By day (UTC, since 1970) of storing."""
    day = cast(func.floor(traces.c.stored / _DAY), Integer)
    certain = items.c.reason.in_(CERTAIN)
    drawn = items.c.probability.is_not(None) & (items.c.reason != IMPORTED)
    # By either slot, or by hand: a log that somebody judged is done.
    state = case((traces.c.reviewed, "done"), (items.c.state == "skipped", "skipped"), else_="open")
    query = (
        select(day, certain, drawn, state, func.count())
        .select_from(items)
        .join(traces, traces.c.id == items.c.trace)
        .where(items.c.slot == 0)
        .group_by(day, certain, drawn, state)
    )
    found: defaultdict[int, Cell] = defaultdict(lambda: Cell(Counter(), Counter(), Counter()))
    for number, picked, by_draw, done, count in connection.execute(query):
        cell = found[number]
        if picked:
            cell.certain[done] += count
        if by_draw:
            cell.drawn[done] += count
            if not picked:
                cell.rest[done] += count
    return found


def load_verdicts(
    store: Store, evaluator: str = "", since: float | None = None, until: float | None = None
) -> list[ScoredVerdict]:
    """Each verdict beside the evaluator's newest score of the same log, in the order of the reviews; those of one
    evaluator, or of reviews in [since, until), where that is given. A check that failed has neither value nor label."""
    with store.reading() as connection:
        weights = cells(connection)
        return [_judged(row, weights) for row in connection.execute(_query(evaluator, since, until))]


def _query(evaluator: str, since: float | None, until: float | None) -> Any:
    of = scores.alias("of")
    newest = (
        select(func.max(of.c.id))
        .where(of.c.trace == reviews.c.trace, of.c.evaluator == verdicts.c.evaluator)
        .correlate(reviews, verdicts)
        .scalar_subquery()
    )
    query = (
        select(
            reviews.c.trace,
            verdicts.c.evaluator,
            scores.c.version,
            scores.c.value,
            scores.c.label,
            verdicts.c.label.label("verdict"),
            reviews.c.user,
            users.c.name,
            reviews.c.created,
            traces.c.stored,
            scores.c.probability.label("evaluated"),
            items.c.reason,
            items.c.probability.label("drawn"),
        )
        .select_from(verdicts)
        .join(reviews, reviews.c.id == verdicts.c.review)
        .join(traces, traces.c.id == reviews.c.trace)
        .join(scores, scores.c.id == newest)
        .outerjoin(users, users.c.id == reviews.c.user)
        .outerjoin(items, (items.c.trace == reviews.c.trace) & (items.c.slot == 0))
        .order_by(reviews.c.created, reviews.c.id, verdicts.c.evaluator)
    )
    if evaluator:
        query = query.where(verdicts.c.evaluator == evaluator)
    if since is not None:
        query = query.where(reviews.c.created >= since)
    return query if until is None else query.where(reviews.c.created < until)


def _judged(row: Any, weights: Mapping[int, Cell]) -> ScoredVerdict:
    return ScoredVerdict(
        trace=row.trace,
        evaluator=row.evaluator,
        version=row.version,
        value=row.value,
        label=row.label,
        verdict=row.verdict,
        reviewer=row.name or ("" if row.user is None else f"user {row.user}"),
        weight=_weight(row, weights) / row.evaluated,
        uniform=row.drawn is not None,
        created=row.created,
    )


def _weight(row: Any, weights: Mapping[int, Cell]) -> float:
    if row.reason is None:
        return 0.0
    if row.reason == IMPORTED:
        return 1.0 / row.drawn if row.drawn else 0.0
    return weights[int(row.stored // _DAY)].weight(row.reason in CERTAIN, row.drawn)
