"""What comes from other systems and goes to them: feedback, alerts, labels, data sets."""

from __future__ import annotations

import shutil
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, Field, model_validator
from starlette.background import BackgroundTask
from starlette.concurrency import run_in_threadpool
from starlette.responses import FileResponse

from ragtrace.console import audit, visible_content
from ragtrace.console.access import Admin, GivesFeedback, Reviewer, User, settings_of, store_of
from ragtrace.console.api.inputs import Body, Thumbs, TraceId, Unix
from ragtrace.console.api.reviews import Picked
from ragtrace.console.problems import Problem
from ragtrace.console.review import alerts, dataset_export, feedback, label_import
from ragtrace.errors import DataError
from ragtrace.records import Feedback

router = APIRouter(prefix="/api", tags=["in and out"])
_LABELS = {
    "requestBody": {
        "required": True,
        "description": "One JSON object a line: trace_id, evaluator, label (pass, fail, not_applicable, unsure), and "
        "optionally reviewer, comment, corrected. Or the same as CSV with a header.",
        "content": {"application/x-ndjson": {"schema": {"type": "string"}}, "text/csv": {"schema": {"type": "string"}}},
    }
}
_FILES = {"jsonl": "application/x-ndjson", "jsonl.gz": "application/gzip", "parquet": "application/vnd.apache.parquet"}
_ANSWER: dict[str, dict[str, object]] = {kind: {} for kind in _FILES.values()}


class FeedbackIn(Body):
    """What a user of the application said of an answer: at least one of thumbs, score, category and comment."""

    trace_id: TraceId
    thumbs: Thumbs | None = None
    score: Annotated[float, Field(allow_inf_nan=False, strict=True)] | None = None
    category: Annotated[str, Field(max_length=100, pattern=r"^[^\x00]*$")] | None = None
    comment: Annotated[str, Field(max_length=10_000, pattern=r"^[^\x00]*$")] | None = None
    source: Annotated[str, Field(max_length=100, pattern=r"^[^\x00]*$")] | None = None

    @model_validator(mode="after")
    def _says_something(self) -> FeedbackIn:
        has_words = (self.comment or "").strip() or (self.category or "").strip()
        if self.thumbs is None and self.score is None and not has_words:
            raise ValueError("give thumbs, a score, a category or a comment")
        return self


class Kept(BaseModel):
    """Feedback is kept in any case; a trace that comes later finds it."""

    stored: bool
    """Whether its trace is stored."""


class LabelsOut(BaseModel):
    """What came of an import."""

    labels: int
    logs: int
    refused: int
    errors: list[label_import.LineError]
    """The first hundred."""


class ExportQuery(Body):
    """What goes out, and under what terms."""

    format: Literal["jsonl", "jsonl.gz", "parquet"] = "jsonl"
    license: Annotated[str, Field(max_length=100, pattern=r"^[A-Za-z0-9 .+-]*$")] = ""
    consent: Annotated[str, Field(max_length=200, pattern=r"^[^\x00-\x1f]*$")] = ""
    require_consent: bool = False
    mask: bool = Field(False, description="Mask personal data; always done for roles that do not see it")
    since: Unix | None = None
    until: Unix | None = None


@router.post("/feedback", status_code=201)
def give_feedback(request: Request, user: GivesFeedback, payload: FeedbackIn) -> Kept:
    """Keep what a user of the application said. Needs a token with the scope `feedback`."""
    audit.note(request, object=payload.trace_id, thumbs=payload.thumbs)
    entry = Feedback(**payload.model_dump(exclude={"source"}), source=payload.source or user.name)
    policy = settings_of(request).policy
    return Kept(stored=feedback.add_feedback(store_of(request), entry, policy=policy))


@router.post("/alerts", include_in_schema=False)  # the same under a shorter name
@router.post("/webhooks/alertmanager")
def take_alerts(request: Request, user: Reviewer, payload: alerts.Alerts) -> Picked:
    """Bring the worst logs that alerts are about into the review queue. Needs a token with the scope `review`."""
    policy = settings_of(request).policy
    picked = alerts.review_items_from_alert(store_of(request), payload, policy=policy)
    audit.note(request, alerts=len(payload.alerts), picked=picked)
    return Picked(picked=picked)


@router.post("/labels", openapi_extra=_LABELS)
async def import_labels(
    request: Request, user: Admin, probability: Annotated[float, Query(gt=0, le=1)] | None = None
) -> LabelsOut:
    """Take labels that people gave elsewhere. For admins: a label may stand for any reviewer."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind not in {"application/x-ndjson", "text/csv"}:
        raise Problem(422, "The content type is wrong", "Send application/x-ndjson or text/csv.")
    with tempfile.TemporaryDirectory(prefix="ragtrace-") as folder:
        path = Path(folder) / ("labels.csv" if kind == "text/csv" else "labels.jsonl")
        with path.open("wb") as file:
            async for part in request.stream():
                await run_in_threadpool(file.write, part)
        with path.open("rb") as file:
            if file.read(2) == b"\x1f\x8b":  # a body of 20 MB could be a file of 20 GB
                raise Problem(422, "The labels are compressed", "Send them as plain text.")
        result = await run_in_threadpool(_import, request, path, probability)
    audit.note(request, labels=result.labels, refused=result.refused)
    return result


def _import(request: Request, path: Path, probability: float | None) -> LabelsOut:
    try:
        result = label_import.import_labels(store_of(request), path, probability=probability)
    except DataError as error:
        raise Problem(422, "The labels cannot be read", str(error).removeprefix(str(path)).lstrip(", ")) from None
    errors = list(result.errors[:100])
    return LabelsOut(labels=result.labels, logs=result.logs, refused=len(result.errors), errors=errors)


@router.get("/export", response_class=FileResponse, responses={200: {"content": _ANSWER}})
def export(request: Request, user: Reviewer, query: Annotated[ExportQuery, Query()]) -> FileResponse:
    """The reviewed logs as a data set that `ragtrace eval` reads."""
    options = dataset_export.Options(
        **query.model_dump(include={"license", "consent", "require_consent", "since", "until"})
    )
    return send_file(request, user, options, query.format, mask=query.mask)


def send_file(
    request: Request, user: User, options: dataset_export.Options, format: str, *, mask: bool = False
) -> FileResponse:
    """An export as a file, which is deleted after it is sent."""
    with ExitStack() as undo:
        folder = Path(tempfile.mkdtemp(prefix="ragtrace-"))  # readable by this process's user alone
        undo.callback(shutil.rmtree, folder, ignore_errors=True)
        file = folder / f"reviewed.{format}"
        result, masked = visible_content.export_reviewed(request, user, file, options, mask=mask)
        audit.note(request, rows=result.rows, format=format, masked=masked)
        removal = BackgroundTask(undo.pop_all().close)  # after it is sent
    return FileResponse(result.path, media_type=_FILES[format], filename=result.path.name, background=removal)
