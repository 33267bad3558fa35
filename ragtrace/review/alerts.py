"""From an alert to logs that people look at."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, func, or_, select

from ragtrace.chatlogs.schema import items, lowest_id, scores, traces
from ragtrace.errors import DataError
from ragtrace.review.fill_queue import enqueue
from ragtrace.review.policy import Policy
from ragtrace.review.rules import StoredEvaluator, load_evaluators, not_certain

if TYPE_CHECKING:
    from ragtrace.chatlogs.store import Store

_BEFORE = 3600.0
"""An alert speaks of up to an hour before it fired."""
_ALERTS = 50
_DAY = 86_400.0


def review_items_from_alert(
    store: Store, payload: object, now: float | None = None, *, policy: Policy | None = None, limit: int = 10
) -> int:
    """Bring the worst logs that an alert is about into the review queue, with the reason `alert`; how many are new.

    `payload` is the JSON that Alertmanager posts to a webhook (version 4): the console's `POST /api/alerts` gives it
    here, see grafana/alertmanager/alertmanager.yml. Of each alert that fires, the labels `app` and `evaluator` count,
    and `startsAt`: up to `limit` failures of that evaluator (of any one, without that label) in that application since
    an hour before, worst first. All alerts of a day together bring as many logs as the policy's quota at most. An alert
    that is sent again brings what has failed since. Raises DataError for what is no such payload.
    """
    now = time.time() if now is None else now
    policy = policy or Policy()
    picked: list[int] = []
    with store.reading() as connection:
        checks = load_evaluators(connection)
        left = policy.quota - _today(connection, now)
        for labels, begun in _firing(payload, now):
            low = lowest_id(begun - _BEFORE)
            picked += _failures(connection, checks, labels, low, limit)
    picked = list(dict.fromkeys(picked))[: max(0, left)]
    if not picked:
        return 0
    with store.writing() as connection:
        return enqueue(connection, "alert", picked, policy, now)


def _firing(payload: object, now: float) -> Iterable[tuple[Mapping[str, str], float]]:
    alerts = payload.get("alerts") if isinstance(payload, Mapping) else None
    if not isinstance(alerts, list):
        raise DataError("this is no webhook of Alertmanager: it has no list `alerts`")
    found = []
    for alert in alerts[:_ALERTS]:
        labels = alert.get("labels") if isinstance(alert, Mapping) else None
        if not isinstance(labels, Mapping):
            raise DataError("this is no webhook of Alertmanager: an alert has no `labels`")
        if alert.get("status", "firing") == "firing":
            found.append(({str(k): str(v) for k, v in labels.items()}, min(now, _time(alert.get("startsAt"), now))))
    return found


def _time(given: Any, now: float) -> float:
    try:
        return datetime.fromisoformat(str(given)).timestamp()
    except (ValueError, OverflowError):
        return now


def _today(connection: Connection, now: float) -> int:
    today = (items.c.reason == "alert") & (items.c.slot == 0) & (items.c.created >= now - now % _DAY)
    return int(connection.scalar(select(func.count()).select_from(items).where(today)) or 0)


def _failures(
    connection: Connection, checks: Mapping[str, StoredEvaluator], labels: Mapping[str, str], low: int, limit: int
) -> list[int]:
    query = select(scores.c.trace, scores.c.evaluator, scores.c.value).join(traces, traces.c.id == scores.c.trace)
    query = query.where(scores.c.label == "fail", scores.c.trace >= low, not_certain())
    if labels.get("evaluator"):
        query = query.where(scores.c.evaluator == labels["evaluator"])
    for name in ("app", "env"):
        if labels.get(name):
            # A store that was filled from a file knows no environment.
            column = traces.c[name]
            query = query.where(column == labels[name] if name == "app" else or_(column == labels[name], column == ""))
    rows = connection.execute(query.order_by(scores.c.trace.desc()).limit(50 * limit)).all()
    rows = sorted(rows, key=lambda row: -_badness(checks.get(row.evaluator), row.value))
    return list(dict.fromkeys(int(row.trace) for row in rows))[:limit]


def _badness(check: StoredEvaluator | None, value: float | None) -> float:
    return 0.0 if check is None or value is None else check.fails(value)
