"""The pages: one module for each, all of them rendered here, none of them needing script."""

from fastapi import APIRouter

from ragtrace.console.pages import (
    agreement,
    comparisons,
    evaluator_pages,
    health,
    overview,
    people,
    review,
    review_form,
    review_setup,
    topics,
    traces,
)

router = APIRouter(include_in_schema=False)
_REVIEW = (review, review_form, review_setup, agreement)
for _module in (overview, traces, topics, comparisons, *_REVIEW, evaluator_pages, health, people):
    router.include_router(_module.router)
