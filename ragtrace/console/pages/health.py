"""`/health`: whether traces come in, checks work, the queue moves and the database has room."""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fastapi import APIRouter, Request
from sqlalchemy import Connection, func, select, text
from starlette.responses import Response

from ragtrace._version import __version__
from ragtrace.console.access import Viewer, store_of
from ragtrace.console.chatlogs import schema_upgrade
from ragtrace.console.chatlogs.schema import sums, traces
from ragtrace.console.chatlogs.store import Store
from ragtrace.console.pages.questions import REASONS
from ragtrace.console.pages.template_filters import render
from ragtrace.console.review import queue

router = APIRouter()
_DAY, _HOUR = 86_400, 3_600
_QUIET = 3_600.0
"""Seconds without a new trace after which the page warns."""
_FAILING = 0.05
"""Share of failed checks above which the page warns."""
_LOW_DISK = 0.05


@dataclass(frozen=True, slots=True)
class Database:
    """The state of the database."""

    kind: str
    name: str
    version: str
    bytes: int | None
    free: int | None
    """Bytes left on its disk, where it is a file."""
    low: bool
    sealed: bool
    traces: float
    oldest: float | None
    newest: float | None
    stored: float | None
    """When the last trace came in."""


@dataclass(frozen=True, slots=True)
class HealthCheck:
    """One evaluator's checks of the last day."""

    name: str
    done: float
    failed: float
    cost: float

    @property
    def share(self) -> float:
        """Failed ones among all, in [0, 1]."""
        return self.failed / self.done if self.done else 0.0

    @property
    def bad(self) -> bool:
        """Whether too many of its checks fail."""
        return self.share > _FAILING


@router.get("/health")
def health(request: Request, user: Viewer) -> Response:
    """The page."""
    store, now = store_of(request), time.time()
    database = _database(store)
    with store.reading() as connection:
        checks = _checks(connection, now)
        day = _requests(connection, now - _DAY, _HOUR)
        lag = _lag(connection)
    reasons = [(REASONS.get(reason, reason), states) for reason, states in queue.count_items(store, now).items()]
    quiet = database.stored is not None and now - database.stored > _QUIET
    return render(
        request,
        "health.html.j2",
        version=__version__,
        database=database,
        checks=checks,
        day=day,
        lag=lag,
        queue=reasons,
        waiting=sum(states["open"] + states["locked"] for _, states in reasons),
        quiet=quiet,
        problems=_problems(database, checks, quiet),
    )


def _problems(database: Database, checks: Sequence[HealthCheck], quiet: bool) -> list[str]:
    messages = []
    if quiet:
        messages.append("No trace has come in for more than an hour: does the application run, and does it store here?")
    if database.low:
        messages.append("The store's disk is nearly full: shorten store_days or store_bytes, or make room.")
    failing = [check for check in checks if check.bad]
    messages += [
        f"{check.name}: {check.failed:.0f} of {check.done:.0f} checks failed to run today" for check in failing
    ]
    return messages


def _database(store: Store) -> Database:
    size, free, low = _room(store)
    with store.reading() as connection:
        count = connection.scalar(select(func.sum(sums.c.count)).where(sums.c.kind == "request", sums.c.step == _DAY))
        oldest = connection.scalar(select(traces.c.started).order_by(traces.c.id).limit(1))
        newest = connection.scalar(select(traces.c.started).order_by(traces.c.id.desc()).limit(1))
        stored = connection.scalar(select(traces.c.stored).order_by(traces.c.id.desc()).limit(1))
    kind = "SQLite" if store.sqlite else "PostgreSQL"
    return Database(
        kind, store.name, schema_upgrade.HEAD, size, free, low, store.keys is not None, float(count or 0), oldest,
        newest, stored,
    )  # fmt: skip


def _room(store: Store) -> tuple[int | None, int | None, bool]:
    """Bytes it takes and bytes left; the latter is unknown of another machine's disk."""
    if not store.sqlite:
        with store.reading() as connection:
            return int(connection.scalar(text("SELECT pg_database_size(current_database())")) or 0), None, False
    path = Path(store.engine.url.database or "")
    parts = [Path(f"{path}{end}") for end in ("", "-wal", "-shm")]
    try:
        size = sum(part.stat().st_size for part in parts if part.exists())
        disk = shutil.disk_usage(path.parent)
    except OSError:
        return None, None, False
    return size, disk.free, disk.free < _LOW_DISK * disk.total


def _requests(connection: Connection, since: float, step: int) -> float:
    query = select(func.sum(sums.c.count)).where(sums.c.kind == "request", sums.c.step == step, sums.c.start >= since)
    return float(connection.scalar(query) or 0.0)


def _lag(connection: Connection) -> float | None:
    """Seconds from answer to scores, the median of the last thousand."""
    query = select(traces.c.lag).where(traces.c.lag.is_not(None)).order_by(traces.c.id.desc()).limit(1_000)
    lags = sorted(connection.scalars(query))
    return lags[len(lags) // 2] if lags else None


def _checks(connection: Connection, now: float) -> list[HealthCheck]:
    kinds = ("rate", "value", "error", "cost")
    query = (
        select(sums.c.name, sums.c.kind, func.sum(sums.c.count), func.sum(sums.c.wv))
        .where(sums.c.kind.in_(kinds), sums.c.step == _HOUR, sums.c.start >= now - _DAY)
        .group_by(sums.c.name, sums.c.kind)
    )
    by_name: dict[str, dict[str, tuple[float, float]]] = {}
    for name, kind, count, total in connection.execute(query):
        by_name.setdefault(name, {})[kind] = (count, total)
    checks = []
    for name, of in sorted(by_name.items()):
        verdicts, values, failed, cost = (of.get(kind, (0.0, 0.0)) for kind in kinds)
        done = verdicts[0] + values[0] + failed[0]
        checks.append(HealthCheck(name, done, failed[0], cost[1]))
    return sorted(checks, key=lambda check: -check.share)
