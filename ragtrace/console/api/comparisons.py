"""Two prompt versions, models, periods or evaluator versions side by side."""

from typing import Annotated

from fastapi import APIRouter, Query, Request
from pydantic import Field

from ragtrace.console.access import Viewer, store_of
from ragtrace.console.api.inputs import Short, Unix
from ragtrace.console.api.summary import Period
from ragtrace.console.chatlogs.side_by_side import SideBySide, compare_sides
from ragtrace.console.comparison_sides import Kind, SideChoice, choices, two_sides, with_defaults

router = APIRouter(prefix="/api", tags=["comparison"])
_WEEK = 7 * 86_400.0


class CompareQuery(Period):
    """What is compared."""

    kind: Kind = "prompt_version"
    a: Short = Field("", description="A name; of a period its start. Default: the one before `b`")
    b: Short = Field("", description="Default: the newest one")
    since: Unix | None = Field(
        None, description="Unix seconds; default: seven days before `until`. Two periods have this length"
    )
    evaluator: Short = Field("", description="Default: all; needed for `evaluator_version`")


@router.get("/compare")
def compare(request: Request, user: Viewer, query: Annotated[CompareQuery, Query()]) -> SideBySide:
    """The difference of the shares of failures in points with its interval and n, in pairs where the same request or
    question is on both sides; ids of requests that changed."""
    choice = SideChoice(query.kind, query.a, query.b, *query.times(_WEEK), query.app, query.evaluator)
    store = store_of(request)
    return compare_sides(store, *two_sides(with_defaults(choice, choices(store, choice))), query.evaluator)
