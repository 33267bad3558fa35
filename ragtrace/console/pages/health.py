"""`/health`: whether traces come in, checks work, the queue moves and the database has room."""

import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fastapi import APIRouter, Request
from sqlalchemy import func, select
from starlette.responses import Response

from ragtrace.console.access import Viewer, store_of
from ragtrace.console.api.summary import get_health
from ragtrace.console.chatlogs.schema import sums, traces
from ragtrace.console.chatlogs.store import Store
from ragtrace.console.pages.questions import REASONS
from ragtrace.console.pages.template_filters import render

router = APIRouter()
_DAY, _HOUR = 86_400, 3_600
_QUIET = 3_600.0
"""Seconds without a new trace after which the page warns."""
_FAILING = 0.05
"""Share of failed checks above which the page warns."""
_LOW_DISK = 0.05


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
    store, now, state = store_of(request), time.time(), get_health(request, user)
    free, low = _room(store)
    checks = _checks(store, now)
    reasons = [(REASONS.get(reason, reason), states) for reason, states in state.queue.items()]
    quiet = now - (state.last_stored or 0.0) > _QUIET
    day = float(store.scalar(select(func.count()).where(traces.c.stored >= now - _DAY)) or 0.0)
    problems = _problems(low, checks, quiet, unscored=day > 0 and not checks)
    first = select(traces.c.started).limit(1)
    return render(
        request, "health.html.j2", state=state, address=store.name, free=free, low=low,
        oldest=store.scalar(first.order_by(traces.c.id)), newest=store.scalar(first.order_by(traces.c.id.desc())),
        checks=checks, day=day, lag=_lag(store), queue=reasons,
        waiting=sum(states["open"] + states["locked"] for _, states in reasons),
        quiet=quiet, problems=[*problems, *([] if quiet else _silent(store, checks, now))],
    )  # fmt: skip


def _problems(low: bool, checks: Sequence[HealthCheck], quiet: bool, *, unscored: bool) -> list[str]:
    messages = []
    if quiet:
        messages.append("No trace has come in for more than an hour: does the application run, and does it store here?")
    if unscored:
        messages.append("Logs came in today, and no evaluator scored any: see `evaluators` and `sample`.")
    if low:
        messages.append("The store's disk is nearly full: shorten store_days or store_bytes, or make room.")
    failed = ((check.name, f"{check.failed:.0f} of {check.done:.0f}") for check in checks if check.bad)
    return [*messages, *(f"{name}: {counts} checks failed to run today" for name, counts in failed)]


def _silent(store: Store, checks: Sequence[HealthCheck], now: float) -> list[str]:
    """Says which evaluators scored in many hours of the last week and not today, while requests come in."""
    week = sums.c.kind.in_(("rate", "value")) & (sums.c.step == _HOUR) & (sums.c.start >= now - 7 * _DAY)
    often = func.count(func.distinct(sums.c.start)) >= _DAY / _HOUR
    query = select(sums.c.name).where(week).group_by(sums.c.name).having(often)
    names = {name for (name,) in store.rows(query) if name}
    silent = sorted(names - {check.name for check in checks})
    return [f"{name}: no score today, but in many hours of the last week" for name in silent]


def _room(store: Store) -> tuple[int | None, bool]:
    """Bytes left on the disk of a file, and whether they are few; the former is unknown of another machine's disk."""
    try:
        disk = shutil.disk_usage(Path(store.engine.url.database or "").parent) if store.sqlite else None
    except OSError:
        disk = None
    return (disk.free, disk.free < _LOW_DISK * disk.total) if disk else (None, False)


def _lag(store: Store) -> float | None:
    """Seconds from answer to scores, the median of the last thousand."""
    query = select(traces.c.lag).where(traces.c.lag.is_not(None)).order_by(traces.c.id.desc()).limit(1_000)
    lags = sorted(lag for (lag,) in store.rows(query))
    return lags[len(lags) // 2] if lags else None


def _checks(store: Store, now: float) -> list[HealthCheck]:
    kinds = ("rate", "value", "error", "cost")
    query = (
        select(sums.c.name, sums.c.kind, func.sum(sums.c.count), func.sum(sums.c.wv))
        .where(sums.c.kind.in_(kinds), sums.c.step == _HOUR, sums.c.start >= now - _DAY)
        .group_by(sums.c.name, sums.c.kind)
    )
    by_name: dict[str, dict[str, tuple[float, float]]] = {}
    for name, kind, count, total in store.rows(query):
        by_name.setdefault(name, {})[kind] = (count, total)
    checks = []
    for name, of in sorted(by_name.items()):
        verdicts, values, failed, cost = (of.get(kind, (0.0, 0.0)) for kind in kinds)
        done = verdicts[0] + values[0] + failed[0]
        checks.append(HealthCheck(name, done, failed[0], cost[1]))
    return sorted(checks, key=lambda check: -check.share)
