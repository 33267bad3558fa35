"""Topics of questions with their shares of failures, and the questions that the documents do not answer."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, Field
from starlette.responses import Response

from ragtrace.console import visible_content
from ragtrace.console.access import Viewer, store_of
from ragtrace.console.api import shapes
from ragtrace.console.api.inputs import Evaluator
from ragtrace.console.api.summary import Period
from ragtrace.console.topics import topic_figures
from ragtrace.console.topics.knowledge_gaps import KnowledgeGap

router = APIRouter(prefix="/api", tags=["questions"])
_WEEK = 7 * 86_400.0
_KINDS = {"json": "application/json", "jsonl": "application/x-ndjson", "csv": "text/csv"}
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""With these a spreadsheet begins a formula."""


class TopicQuery(Period):
    """Of which time, and by which verdicts."""

    evaluator: Evaluator
    worst: Annotated[int, Field(ge=0, le=50, description="Failures to name for each topic")] = 3


class GapQuery(Period):
    """Of which time, and in which form."""

    format: Literal["json", "jsonl", "csv"] = "json"


class GapOut(BaseModel):
    """A question that the documents do not answer."""

    question: str
    topic: str
    times: int
    requests: float
    cause: str
    app: str
    latest: str
    """ISO 8601, UTC."""
    trace_id: str
    document: str


@router.get("/topics")
def get_topics(request: Request, user: Viewer, query: Annotated[TopicQuery, Query()]) -> topic_figures.TopicReport:
    """How often the questions of each topic fail, why, and how that moved against as long a time before."""
    since, until = query.times(_WEEK)
    return topic_figures.topic_report(store_of(request), since, until, query.evaluator, query.app, worst=query.worst)


@router.get(
    "/knowledge-gaps", response_model=list[GapOut], responses={200: {"content": {kind: {} for kind in _KINDS.values()}}}
)
def get_knowledge_gaps(request: Request, user: Viewer, query: Annotated[GapQuery, Query()]) -> Response:
    """The questions to which the retrieval found nothing that answers, for the people who write the documents. Texts
    are masked for roles that may not read personal data."""
    gaps = visible_content.find_gaps(request, user, *query.times(_WEEK), query.app)
    rows = [_row(gap) for gap in gaps]
    headers = {"Content-Disposition": f'attachment; filename="knowledge-gaps.{query.format}"'}
    content = {"json": _json, "jsonl": _json_lines, "csv": _csv}[query.format](rows)
    return Response(content, media_type=_KINDS[query.format], headers=headers if query.format != "json" else None)


def _row(gap: KnowledgeGap) -> GapOut:
    latest = datetime.fromtimestamp(gap.latest, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    texts = {name: shapes.clean(getattr(gap, name)) for name in ("question", "topic", "app", "document")}
    return GapOut(
        **texts, times=gap.times, requests=gap.requests, cause=gap.cause, latest=latest, trace_id=gap.trace_id
    )


def _json(rows: Sequence[GapOut]) -> str:
    return json.dumps([row.model_dump() for row in rows], ensure_ascii=False)


def _json_lines(rows: Sequence[GapOut]) -> str:
    return "".join(json.dumps(row.model_dump(), ensure_ascii=False) + "\n" for row in rows)


def _csv(rows: Sequence[GapOut]) -> str:
    file = io.StringIO()
    writer = csv.writer(file)
    writer.writerow(GapOut.model_fields)
    writer.writerows(_cells(row) for row in rows)
    return file.getvalue()


def _cells(row: GapOut) -> Iterator[object]:
    """The values of a row; a text that a spreadsheet would take for a formula gets an apostrophe."""
    for value in row.model_dump().values():
        yield f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value
