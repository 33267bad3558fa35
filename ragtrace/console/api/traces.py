"""Stored traces: lists and searches, one of them, what evaluators there are."""

from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, Field
from sqlalchemy import select

from ragtrace.console import visible_content
from ragtrace.console.access import Viewer, store_of
from ragtrace.console.api import shapes
from ragtrace.console.api.inputs import Body, Short, Thumbs, TracePath, Unix, Value, Words
from ragtrace.console.chatlogs import schema, search
from ragtrace.console.chatlogs.store_types import Filter

router = APIRouter(prefix="/api", tags=["traces"])


class Filters(Body):
    """Which stored traces; every filter that is given must hold."""

    text: Words = Field("", description='Words that query, answer or chunks contain; "words in quotes" are a phrase')
    app: Short = ""
    env: Short = ""
    model: Short = ""
    prompt_version: Short = ""
    tenant: Short = ""
    session_id: Short = ""
    user_id: Short = ""
    cause: Short = ""
    topic: Short = Field("", description="The id of the question's topic, or `none`: it fits no topic")
    since: Unix | None = Field(None, description="Of the request's start, in Unix seconds, inclusive")
    until: Unix | None = Field(None, description="Exclusive")
    evaluator: Short = Field("", description="The one that version, label, low and high speak of")
    version: Short = ""
    label: Literal["", "pass", "fail", "not_applicable", "refusal", "error"] = ""
    low: Value | None = Field(None, description="The least value, inclusive")
    high: Value | None = Field(None, description="The greatest value, inclusive")
    thumbs: Thumbs | None = None
    reviewed: bool | None = None
    errors: bool | None = Field(None, description="Requests that ended in an error")

    def filter(self) -> Filter:
        """As the store takes it."""
        return Filter(**{name: getattr(self, name) for name in Filters.model_fields})


class ListQuery(Filters):
    """And which part of them."""

    after: Annotated[str, Field(max_length=60, pattern=r"^[!-~]*$")] = Field("", description="`after` of the last page")
    limit: Annotated[int, Field(ge=1, le=200)] = 50
    order: Literal["newest", "worst"] = Field("newest", description="`worst`: by `evaluator`'s value, in steps of 0.01")


class EvaluatorOut(BaseModel):
    """A version of an evaluator that scored something here."""

    name: str
    version: str
    threshold: float | None
    direction: str
    method: str
    description: str | None
    first_seen: float


@router.get("/traces")
def list_traces(request: Request, user: Viewer, query: Annotated[ListQuery, Query()]) -> shapes.TracePage:
    """Stored traces, a page at a time."""
    after, limit, order = query.after or None, query.limit, query.order
    page = visible_content.find_traces(request, user, query.filter(), after=after, limit=limit, order=order)
    return shapes.page(page)


@router.get("/traces/{trace_id}")
def get_trace(request: Request, user: Viewer, trace_id: TracePath) -> shapes.TraceOut:
    """One trace with its documents, the newest score of each evaluator, and feedback."""
    return shapes.whole(visible_content.get_trace(request, user, trace_id))


@router.get("/traces/{trace_id}/scores")
def get_scores(request: Request, user: Viewer, trace_id: TracePath) -> list[shapes.DatedScore]:
    """Every score that was ever made of a trace, oldest first."""
    return shapes.history(visible_content.get_trace(request, user, trace_id))


@router.get("/choices")
def get_choices(request: Request, user: Viewer) -> dict[str, list[str]]:
    """What there is to filter by: known apps, models, versions, evaluators, labels."""
    return search.choices(store_of(request))


@router.get("/evaluators")
def list_evaluators(request: Request, user: Viewer) -> list[EvaluatorOut]:
    """Every version of every evaluator that scored something here."""
    table = schema.evaluators
    rows = store_of(request).rows(select(table).order_by(table.c.name, table.c.first_seen))
    return [EvaluatorOut(**row._asdict()) for row in rows]
