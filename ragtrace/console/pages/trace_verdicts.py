"""What people said of a log, read for its page."""

from __future__ import annotations

from sqlalchemy import func, select

from ragtrace.chatlogs.records import Review, StoredTrace, Verdict
from ragtrace.chatlogs.schema import reviews, users, verdicts
from ragtrace.chatlogs.store import Store


def reviews_of(store: Store, stored: StoredTrace, user: int | None = None) -> tuple[Review, ...]:
    """The reviews of a stored trace, oldest first; those of one person where one is named."""
    trace_id = f"{stored.trace.trace_id:032x}"
    query = select(reviews, users.c.name).outerjoin(users, users.c.id == reviews.c.user)
    query = query.where(reviews.c.trace == stored.id).order_by(reviews.c.created)
    if user is not None:
        query = query.where(reviews.c.user == user)
    with store.reading() as connection:
        rows = connection.execute(query).mappings().all()
        judged = connection.execute(select(verdicts).where(verdicts.c.review.in_([row["id"] for row in rows]))).all()
    made = []
    for row in rows:
        texts = store.unseal(trace_id, row, ("comment", "corrected"))
        own = tuple(Verdict(v.evaluator, v.label) for v in judged if v.review == row["id"])
        made.append(
            Review(
                trace_id, own, texts["comment"], texts["corrected"], row["name"], row["seconds"], row["created"],
                row["source"],
            )
        )  # fmt: skip
    return tuple(made)


def reviewed_since(store: Store, since: float, user: int) -> tuple[int, int]:
    """How many reviews were made since a Unix time, by everybody and by one person."""
    query = select(func.count(), func.count().filter(reviews.c.user == user)).where(reviews.c.created >= since)
    with store.reading() as connection:
        everybody, own = connection.execute(query).one()
    return int(everybody), int(own)
