"""What the store says in sum: the overview, and how the store itself is."""

import time
from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, Field
from sqlalchemy import func, select, text
from starlette.responses import Response

from ragtrace._version import __version__
from ragtrace.console.access import Viewer, store_of
from ragtrace.console.api.inputs import Body, Short, Unix
from ragtrace.console.chatlogs import costs, overview, schema_upgrade
from ragtrace.console.chatlogs.schema import sums, traces
from ragtrace.console.chatlogs.store import Store
from ragtrace.console.review import anchors, queue, true_shares
from ragtrace.console.visible_content import may_read_personal_data

router = APIRouter(prefix="/api", tags=["overview"])
_DAY = 86_400


class Period(Body):
    """Of which time and application."""

    since: Unix | None = Field(
        None, description="Unix seconds; default: a day before `until`; for topics 7, true shares 30"
    )
    until: Unix | None = Field(None, description="Default: now")
    app: Short = ""

    def times(self, length: float = _DAY) -> tuple[float, float]:
        """The begin and the end, in Unix seconds."""
        until = time.time() if self.until is None else self.until
        return until - length if self.since is None else self.since, until


class OverviewPeriod(Period):
    """The same, with points of time."""

    buckets: Annotated[int, Field(ge=1, le=200, description="Points of time at most")] = 48


class CostPeriod(Period):
    """The same, with how many users and sessions."""

    most: Annotated[int, Field(ge=1, le=1_000)] = 10


class JudgedPeriod(Period):
    """The same, by the question of one evaluator."""

    evaluator: Short = Field("", description="Default: all with at least ten reviewed logs")


class Health(BaseModel):
    """How the store is."""

    version: str
    """Of ragtrace."""
    database: str
    schema_version: str
    sealed: bool
    """Whether its content is encrypted."""
    bytes: int | None
    traces: int
    """Ever stored, also those that were deleted since."""
    last_stored: float | None
    """When the last trace came in."""
    queue: dict[str, dict[str, int]]
    """Logs for review, by reason and state."""


@router.get("/overview")
def get_overview(request: Request, user: Viewer, query: Annotated[OverviewPeriod, Query()]) -> overview.Overview:
    """Requests, pass rates with their intervals over time, causes, and where it is worst."""
    return overview.overview(store_of(request), *query.times(), query.app, query.buckets)


@router.get("/true-shares")
def get_true_shares(
    request: Request, user: Viewer, query: Annotated[JudgedPeriod, Query()]
) -> list[true_shares.JudgedEvaluator]:
    """The share of requests that people would fail, with its 95 % interval, from their verdicts and all scores."""
    return true_shares.estimates(store_of(request), *query.times(true_shares.MONTH), query.app, query.evaluator)


@router.get("/anchors")
def get_anchors(request: Request, user: Viewer) -> list[anchors.Drift]:
    """What reviewed logs that are scored again say of each evaluator: whether it changed."""
    return anchors.drifts(store_of(request))


@router.get("/costs")
def get_costs(request: Request, user: Viewer, query: Annotated[CostPeriod, Query()]) -> costs.Costs:
    """What the models cost, and for which users and sessions; these only for roles that see texts unmasked."""
    most = query.most if may_read_personal_data(request, user) else 0
    return costs.costs(store_of(request), *query.times(), query.app, most=most)


@router.get("/health")
def get_health(request: Request, user: Viewer) -> Health:
    """How the store is, and what waits for people."""
    store = store_of(request)
    count = select(func.sum(sums.c.count)).where(sums.c.kind == "request", sums.c.step == _DAY)
    return Health(
        version=__version__, database=store.engine.dialect.name, schema_version=str(schema_upgrade.HEAD),
        sealed=store.keys is not None, bytes=_database_bytes(store), traces=int(store.scalar(count) or 0),
        last_stored=store.scalar(select(func.max(traces.c.stored))), queue=queue.count_items(store),
    )  # fmt: skip


@router.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}}, tags=["health"])
def metrics(request: Request, _user: Viewer) -> Response:
    """What waits for review and how far evaluators agree with people, in Prometheus' text format; figures are up to a
    minute old, those of topics up to five minutes. Scrape it with a token of the scope read."""
    from prometheus_client import CollectorRegistry, exposition

    from ragtrace.console.metrics import ReviewCollector

    state = request.app.state
    if not hasattr(state, "registry"):  # two requests at once make two, and the last one stays
        state.registry = CollectorRegistry(auto_describe=False)
        state.registry.register(ReviewCollector(store_of(request)))
    return Response(exposition.generate_latest(state.registry), media_type=exposition.CONTENT_TYPE_LATEST)


def _database_bytes(store: Store) -> int | None:
    if not store.sqlite:
        return int(store.scalar(text("SELECT pg_database_size(current_database())")) or 0)
    path = str(store.engine.url.database)
    try:
        return sum(part.stat().st_size for end in ("", "-wal", "-shm") if (part := Path(path + end)).exists())
    except OSError:
        return None
