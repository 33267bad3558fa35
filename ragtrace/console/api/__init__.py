"""The API, under /api: a module for each subject. `description` adds what all of them share."""

from fastapi import APIRouter, Depends

from ragtrace.console import access
from ragtrace.console.api import (
    admin,
    calibrations,
    comparisons,
    exchange,
    queues,
    reviews,
    summary,
    topics,
    traces,
    views,
)
from ragtrace.console.api.description import described, only_known_parameters

__all__ = ["described", "router"]

# Each module has the prefix: FastAPI's routes of an included router do not know the prefix of the outer one.
router = APIRouter(dependencies=[Depends(access.known), Depends(only_known_parameters)])
_MODULES = (traces, summary, topics, comparisons, reviews, queues, calibrations, exchange, views, admin)
for _module in _MODULES:
    router.include_router(_module.router)
