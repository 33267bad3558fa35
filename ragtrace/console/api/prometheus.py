"""The review's figures for Prometheus."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from ragtrace.console.access import Viewer, store_of

router = APIRouter(prefix="/api", tags=["health"])


@router.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}})
def metrics(request: Request, _user: Viewer) -> Response:
    """What waits for review and how far evaluators agree with people, in Prometheus' text format; figures are up to a
    minute old, those of topics up to five minutes. Scrape it with a token of the scope read."""
    from prometheus_client import exposition

    return Response(exposition.generate_latest(_registry(request)), media_type=exposition.CONTENT_TYPE_LATEST)


def _registry(request: Request) -> Any:
    from prometheus_client import CollectorRegistry

    from ragtrace.console.metrics import ReviewCollector

    state = request.app.state
    if not hasattr(state, "registry"):  # two requests at once make two, and the last one stays
        state.registry = CollectorRegistry(auto_describe=False)
        state.registry.register(ReviewCollector(store_of(request)))
    return state.registry
