"""Turns alerts into logs for review."""

import time
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated

from pydantic import BaseModel, Field
from sqlalchemy import Connection, or_, select

from ragtrace.console.chatlogs.schema import lowest_id, scores, traces
from ragtrace.console.chatlogs.store import Store
from ragtrace.console.review.fill_queue import count_today, enqueue
from ragtrace.console.review.policy import Policy
from ragtrace.console.review.rules import StoredEvaluator, is_newest, load_evaluators, not_picked

_BEFORE = 3600.0
"""Seconds before an alert fired that it refers to."""
_ALERTS = 50


class Alert(BaseModel):
    """One of Alertmanager's alerts."""

    status: Annotated[str, Field(max_length=20)] = "firing"
    labels: Annotated[dict[str, Annotated[str, Field(max_length=1_000, pattern=r"^[^\x00]*$")]], Field(max_length=100)]
    startsAt: Annotated[str, Field(max_length=60)] = ""  # noqa: N815 Alertmanager's name


class Alerts(BaseModel):
    """What Alertmanager posts to a webhook, version 4; what else it says is not looked at."""

    alerts: Annotated[list[Alert], Field(max_length=1_000)]


def review_items_from_alert(
    store: Store, payload: Alerts, now: float | None = None, *, policy: Policy | None = None, limit: int = 10
) -> int:
    """Brings the worst logs that alerts are about into the review queue, with the reason `alert`; returns the number of
    new ones.

    `payload` comes to the console's `POST /api/alerts`; see grafana/alertmanager/alertmanager.yml. Of each of the first
    firing alerts, the labels `app` and `evaluator` and the time `startsAt` are used: it brings up to `limit` failures
    of that evaluator (of any one without that label) in that application since one hour before, worst first. All alerts
    of a day together bring at most the policy's quota. An alert that is sent again brings later failures."""
    now = time.time() if now is None else now
    policy = policy or Policy()
    ids: list[int] = []
    with store.reading() as connection:
        checks = load_evaluators(connection)
        room = policy.quota - count_today(connection, now).get("alert", 0)
        for alert in payload.alerts[:_ALERTS]:
            if alert.status == "firing":
                start = min(now, _parse_time(alert.startsAt, now))
                ids += _failures(connection, checks, alert.labels, lowest_id(start - _BEFORE), limit)
    ids = list(dict.fromkeys(ids))[: max(0, room)]
    if not ids:
        return 0
    with store.writing() as connection:
        return enqueue(connection, "alert", ids, policy, now)


def _parse_time(value: str, default: float) -> float:
    try:
        return datetime.fromisoformat(value).timestamp()
    except (ValueError, OverflowError):
        return default


def _failures(
    connection: Connection, checks: Mapping[str, StoredEvaluator], labels: Mapping[str, str], low: int, limit: int
) -> list[int]:
    query = select(scores.c.trace, scores.c.evaluator, scores.c.value).join(traces, traces.c.id == scores.c.trace)
    query = query.where(scores.c.label == "fail", scores.c.trace >= low, not_picked(scores.c.trace), is_newest())
    if labels.get("evaluator"):
        query = query.where(scores.c.evaluator == labels["evaluator"])
    if labels.get("app"):
        query = query.where(traces.c.app == labels["app"])
    if labels.get("env"):  # traces from a file have no environment
        query = query.where(or_(traces.c.env == labels["env"], traces.c.env == ""))
    rows = connection.execute(query.order_by(scores.c.trace.desc()).limit(50 * limit)).all()
    rows = sorted(rows, key=lambda row: -checks[row.evaluator].fails(row.value))
    return list(dict.fromkeys(int(row.trace) for row in rows))[:limit]
