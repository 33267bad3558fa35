"""The pages: one module for each, all of them rendered here, none of them needing script."""

from __future__ import annotations

from fastapi import APIRouter

from ragtrace.console.pages.agreement import router as _agreement
from ragtrace.console.pages.comparisons import router as _comparisons
from ragtrace.console.pages.evaluator_pages import router as _evaluators
from ragtrace.console.pages.health import router as _health
from ragtrace.console.pages.overview import router as _overview
from ragtrace.console.pages.people import router as _people
from ragtrace.console.pages.review import router as _review
from ragtrace.console.pages.review_form import router as _review_form
from ragtrace.console.pages.review_setup import router as _review_setup
from ragtrace.console.pages.topics import router as _topics
from ragtrace.console.pages.traces import router as _traces

router = APIRouter(include_in_schema=False)
for _part in (
    _overview,
    _traces,
    _topics,
    _comparisons,
    _review,
    _review_form,
    _review_setup,
    _agreement,
    _evaluators,
    _health,
    _people,
):
    router.include_router(_part)
