"""Topics of questions with their shares of failures, and the questions that the documents do not answer."""

import csv
import io
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request
from pydantic import Field
from starlette.responses import Response

from ragtrace.console import visible_content
from ragtrace.console.access import Viewer, store_of
from ragtrace.console.api import shapes
from ragtrace.console.api.inputs import Evaluator
from ragtrace.console.api.summary import Period
from ragtrace.console.topics import topic_figures
from ragtrace.console.topics.topic_figures import KnowledgeGap

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


@dataclass(frozen=True, slots=True)
class GapOut(KnowledgeGap):
    """A question that the documents do not answer."""

    latest: str  # type: ignore[assignment]
    """ISO 8601, UTC."""


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
    if query.format == "csv":
        content = _csv(rows)
    elif query.format == "jsonl":
        content = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    else:
        return Response(json.dumps(rows, ensure_ascii=False), media_type=_KINDS["json"])
    return Response(content, media_type=_KINDS[query.format], headers=headers)


def _row(gap: KnowledgeGap) -> dict[str, object]:
    texts = {name: shapes.clean(getattr(gap, name)) for name in ("question", "topic", "app", "document")}
    return {**asdict(gap), **texts, "latest": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(gap.latest))}


def _csv(rows: Sequence[Mapping[str, object]]) -> str:
    """A text that a spreadsheet would take for a formula gets an apostrophe."""
    file = io.StringIO()
    writer = csv.writer(file)
    writer.writerow(GapOut.__dataclass_fields__)
    for row in rows:
        writer.writerow(
            f"'{each}" if isinstance(each, str) and each.startswith(_FORMULA) else each for each in row.values()
        )
    return file.getvalue()
