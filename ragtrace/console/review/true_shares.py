"""Estimates from stored logs which share of the requests people would fail: from the reviewed logs and all scores of an
evaluator (`ragtrace.statistics.true_share`)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import and_, case, func, select

from ragtrace.console.chatlogs.filters import higher_is_better
from ragtrace.console.chatlogs.schema import in_period, reviews, scores, traces, verdicts
from ragtrace.console.chatlogs.store import Store
from ragtrace.console.chatlogs.store_types import ScoredVerdict
from ragtrace.console.review.consensus import ReviewedLog, group_by_log
from ragtrace.console.review.weights import load_verdicts
from ragtrace.statistics import Sums
from ragtrace.statistics.true_share import PRECISION, JudgedLog, TrueShare, true_share

MONTH = 30 * 86_400.0
LEAST = 10
"""Reviewed logs below which a share says nothing."""


def estimate(  # noqa: PLR0917 what is estimated
    store: Store, evaluator: str, since: float, until: float, app: str = "", version: str = "", **of: str
) -> TrueShare | None:
    """Estimates which share of the requests that started in [since, until) people would fail, by the question of one
    evaluator; None without a reviewed log that it scored.

    `app`, `version` (of the evaluator) and `of` (`model`, `prompt_version`, `env`) select requests; empty for all."""
    conditions = [*in_period(since, until, app), *(traces.c[name] == value for name, value in of.items() if value)]
    rows = load_verdicts(store, evaluator, None, None, *conditions)
    judged = verdicts_of(store, [row for row in rows if not version or row.version == version], evaluator)
    return true_share(judged, _sums(store, evaluator, version, conditions)) if judged else None


@dataclass(frozen=True, slots=True)
class JudgedEvaluator:
    """What people would say of an application's answers by the question of one evaluator."""

    app: str
    evaluator: str
    share: TrueShare


def estimates(store: Store, since: float, until: float, app: str = "", evaluator: str = "") -> list[JudgedEvaluator]:
    """Estimates the share for each application and evaluator with at least `LEAST` reviewed logs of the time."""
    logs = func.count(func.distinct(reviews.c.trace))
    query = select(traces.c.app, verdicts.c.evaluator).select_from(verdicts)
    query = query.join(reviews, reviews.c.id == verdicts.c.review).join(traces, traces.c.id == reviews.c.trace)
    query = query.where(*in_period(since, until, app), *([verdicts.c.evaluator == evaluator] if evaluator else []))
    query = query.group_by(traces.c.app, verdicts.c.evaluator).having(logs >= LEAST)
    pairs = store.rows(query.order_by(traces.c.app, verdicts.c.evaluator))
    shares = ((name, of, estimate(store, of, since, until, name)) for name, of in pairs)
    return [JudgedEvaluator(name, of, share) for name, of, share in shares if share and share.verdicts >= LEAST]


def verdicts_of(store: Store, rows: Sequence[ScoredVerdict], evaluator: str) -> list[JudgedLog]:
    """One verdict for each log that people and the evaluator judged; rows belong to this evaluator."""
    sign = badness_sign(store, evaluator)
    logs = [log for log in group_by_log(rows) if log.flagged is not None]
    return [JudgedLog(log.bad, _badness(log, sign), log.weight) for log in logs]


def badness_sign(store: Store, evaluator: str) -> float:
    """What makes a value of this evaluator one of which more is worse: -1 where high values are good, else 1."""
    with store.reading() as connection:
        return -1.0 if higher_is_better(connection, evaluator) else 1.0


def _badness(log: ReviewedLog, sign: float) -> float:
    if log.value is None or not math.isfinite(log.value):
        return float(bool(log.flagged))
    return sign * log.value


def _sums(store: Store, evaluator: str, version: str, conditions: Sequence[Any]) -> Sums:
    """The sums of the evaluator's newest score of each request, in the direction in which more is worse."""
    sign = badness_sign(store, evaluator)
    own = [scores.c.evaluator == evaluator, scores.c.label.in_(("pass", "fail"))]
    own += [scores.c.version == version] if version else []
    # Not joined: SQLite would search the scores of the whole period for each request.
    requests = scores.c.trace.in_(select(traces.c.id).where(*conditions))
    one = select(func.max(scores.c.id).label("id")).where(*own, requests).group_by(scores.c.trace).subquery()
    value = case(
        (scores.c.value.is_not(None), sign * scores.c.value), (scores.c.label == "fail", 1.0), else_=0.0
    )  # fmt: skip
    w = 1.0 / scores.c.probability
    parts: list[Any] = [func.count(), func.sum(w), func.sum(w * w), func.sum(w * value), func.sum(w * value * value)]
    (row,) = store.rows(select(*parts).join(one, and_(one.c.id == scores.c.id)))
    count, weight, squares, values, value_squares = (float(part or 0.0) for part in row)
    return Sums(count, 0.0, weight, squares, values, value_squares)


def sentence(share: TrueShare | None) -> str:
    """What people would say of the answers, in a sentence; empty without a verdict."""
    if share is None:
        return ""
    low, high = (f"{100 * bound:.0f}" for bound in share.interval)
    counts = f"{share.verdicts:,} verdicts and {share.scores:,} scores"
    if share.verdicts < LEAST:
        return f"People have judged {share.verdicts} of these answers; {LEAST} say which share they would fail."
    more = f"; {share.needed:,} more verdicts would make it ± {100 * PRECISION:.0f} points" if share.needed else ""
    return f"People would fail {100 * share.value:.0f} % ({low} to {high}; {counts}{more})."
