"""Two prompt versions, models, periods or evaluator versions side by side."""

from __future__ import annotations

import time
from typing import Annotated

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, ConfigDict, Field

from ragtrace.console.access import Viewer, store_of
from ragtrace.console.api.inputs import Short, Unix
from ragtrace.console.chatlogs.side_by_side import SideBySide, compare_sides
from ragtrace.console.comparison_sides import Kind, SideChoice, choices, two_sides, with_defaults

router = APIRouter(prefix="/api", tags=["comparison"])
_WEEK = 7 * 86_400.0


class CompareQuery(BaseModel):
    """What is compared."""

    model_config = ConfigDict(extra="forbid")
    kind: Kind = "prompt_version"
    a: Short = Field("", description="A name; of a period its start. Default: the one before `b`")
    b: Short = Field("", description="Default: the newest one")
    since: Unix | None = Field(None, description="Unix seconds; default: seven days before `until`")
    until: Unix | None = Field(None, description="Default: now. Two periods have this length")
    app: Short = ""
    evaluator: Short = Field("", description="Default: all; needed for `evaluator_version`")


@router.get("/compare")
def compare(request: Request, user: Viewer, query: Annotated[CompareQuery, Query()]) -> SideBySide:
    """The difference of the shares of failures in points with its interval and n, in pairs where the same request or
    question is on both sides; ids of requests that changed."""
    until = time.time() if query.until is None else query.until
    since = until - _WEEK if query.since is None else query.since
    choice = SideChoice(query.kind, query.a, query.b, since, until, query.app, query.evaluator)
    store = store_of(request)
    return compare_sides(store, *two_sides(with_defaults(choice, choices(store, choice))), query.evaluator)
