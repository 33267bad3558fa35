"""Computes what the models of a period cost, and for whom."""

from dataclasses import dataclass

from sqlalchemy import func, select

from ragtrace.console.chatlogs.schema import in_period, traces
from ragtrace.console.chatlogs.store import Store

MOST = 100_000
"""The latest requests that are looked at: a long period of much traffic must not keep a page waiting."""


@dataclass(frozen=True, slots=True)
class Spender:
    """A user or a session. In a store with a key, users have pseudonyms."""

    name: str
    requests: float
    """Estimated number: the sum of 1/p over the stored ones."""
    cost: float
    """US dollars, estimated alike."""


@dataclass(frozen=True, slots=True)
class Costs:
    """What the models cost, in US dollars, estimated for all requests from the stored ones."""

    stored: int
    """Stored requests that were looked at, the latest ones."""
    total: float
    unpriced: float
    """Estimated number of requests whose cost is not known."""
    users: tuple[Spender, ...]
    """The most expensive ones first."""
    sessions: tuple[Spender, ...]


def costs(store: Store, since: float, until: float, app: str = "", *, most: int = 10) -> Costs:
    """Returns the costs of the latest 100,000 stored requests in [since, until), in Unix seconds."""
    columns = (traces.c.user_key, traces.c.session_id, traces.c.cost, traces.c.probability)
    rows = select(*columns).where(*in_period(since, until, app)).order_by(traces.c.id.desc()).limit(MOST).subquery()
    weight, cost = 1.0 / rows.c.probability, rows.c.cost / rows.c.probability
    is_unpriced = rows.c.cost.is_(None)
    totals = select(func.count(), func.sum(cost), func.sum(weight).filter(is_unpriced)).select_from(rows)
    with store.reading() as connection:
        stored, total, unpriced = connection.execute(totals).one()
        spenders = []
        for name in (rows.c.user_key, rows.c.session_id):
            sums = select(name, func.sum(weight), func.sum(cost).label("cost")).where(name.is_not(None), ~is_unpriced)
            highest = connection.execute(sums.group_by(name).order_by(func.sum(cost).desc(), name).limit(most))
            spenders.append(tuple(Spender(*row) for row in highest))
    return Costs(stored, float(total or 0.0), float(unpriced or 0.0), *spenders)
