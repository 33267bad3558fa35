"""The pages: one module for each, all of them rendered here, none of them needing script."""

from __future__ import annotations

from fastapi import APIRouter

from ragtrace.console.pages.traces import router as _traces

router = APIRouter(include_in_schema=False)
for _part in (_traces,):
    router.include_router(_part)
