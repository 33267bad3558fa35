"""Reviews: the next log, a verdict, and how far evaluators and people agree."""

from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, Field

from ragtrace.console import audit, visible_content
from ragtrace.console.access import Admin, Reviewer, Viewer, settings_of, store_of
from ragtrace.console.api.inputs import Body, Evaluator, Id, Long, Short, TraceId, Unix, Value
from ragtrace.console.chatlogs.store_types import Review, Task, Verdict
from ragtrace.console.problems import Problem
from ragtrace.console.review import agreement as agreements
from ragtrace.console.review import named_queues
from ragtrace.console.review import queue as review_queue
from ragtrace.console.review.agreement import QuestionAgreement, measure_answers
from ragtrace.console.review.verdicts import MOST_MARKS
from ragtrace.records import Evidence

router = APIRouter(prefix="/api", tags=["reviews"])


class Next(BaseModel):
    """What waits for this reviewer."""

    task: Task | None


class MarkIn(Body):
    """A part of the answer that is wrong. Offsets are in Unicode code points of the answer that the API gives out."""

    start: Annotated[int, Field(ge=0, le=10_000_000)]
    end: Annotated[int, Field(ge=1, le=10_000_000, description="Exclusive")]
    verdict: Literal["unsupported", "contradicted"] = "unsupported"


class Submission(Body):
    """What a person says of one trace."""

    trace_id: TraceId
    item: Id | None = Field(None, description="The task's, where it came from the queue")
    verdicts: Annotated[dict[Evaluator, Literal["pass", "fail", "not_applicable", "unsure"]], Field(max_length=100)] = (
        Field(default_factory=dict, description="Evaluator → verdict")
    )
    comment: Long | None = None
    corrected: Long | None = Field(None, description="The answer as it should be")
    seconds: Annotated[float, Field(ge=0, le=86_400, allow_inf_nan=False)] | None = None
    answers: Annotated[dict[Evaluator, Value | Long], Field(max_length=100)] = Field(
        default_factory=dict, description="Question of one's own → category, number or text"
    )
    evidence: Annotated[list[MarkIn], Field(max_length=MOST_MARKS)] = Field(
        default_factory=list, description="The parts of the answer that are wrong"
    )


class Submitted(BaseModel):
    """The review that was kept."""

    review: int


class Skip(Body):
    """Why a log is left unjudged."""

    reason: Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[^\x00]*[^\s\x00][^\x00]*$")]


class Picked(BaseModel):
    """How many logs came into the queue."""

    picked: int


class AnswerPeriod(Body):
    """Of which reviews."""

    since: Unix | None = None
    until: Unix | None = None


class AgreementPeriod(AnswerPeriod):
    """The same, by the question of one evaluator."""

    evaluator: Short = ""
    weighted: bool = Field(True, description="For the whole traffic, or for the reviewed logs alone")


@router.get("/review/queue")
def get_queue(request: Request, user: Viewer) -> dict[str, dict[str, int]]:
    """How many logs wait, by reason and state."""
    return review_queue.count_items(store_of(request))


@router.post("/review/next")
def next_review(
    request: Request,
    user: Reviewer,
    queue: Annotated[Short, Query(description="A named queue; empty: all that are open to this reviewer")] = "",
) -> Next:
    """The log that this reviewer judges next, held for them for a quarter of an hour."""
    if queue:
        named_queues.find(store_of(request), queue)
    task = review_queue.next_task(store_of(request), user.id, queue=queue)
    audit.note(request, object=task.trace_id if task else None)
    return Next(task=task)


@router.post("/review/submit")
def submit_review(request: Request, user: Reviewer, payload: Submission) -> Submitted:
    """Keep a review. A person has one review of a trace; a second one replaces it."""
    audit.note(request, object=payload.trace_id, verdicts=len(payload.verdicts))
    comment, corrected = ((text or "").strip() or None for text in (payload.comment, payload.corrected))
    if not (payload.verdicts or comment or corrected or payload.answers or payload.evidence):
        raise Problem(422, "The review is empty", "Give verdicts, answers, evidence, a comment or a corrected answer.")
    stored = visible_content.get_trace(request, user, payload.trace_id)
    log = None if payload.item is None else review_queue.log_of(store_of(request), payload.item)
    if log is not None and log != stored.id:  # another request of the trace
        stored = visible_content.get_trace(request, user, log)
        if f"{stored.trace.trace_id:032x}" != payload.trace_id:
            raise Problem(409, "The verdict was not kept", "Its item belongs to another log.")
    review = Review(
        payload.trace_id, tuple(Verdict(name, label) for name, label in payload.verdicts.items()), comment, corrected,
        seconds=payload.seconds, source="api", answers=payload.answers,
        evidence=tuple(Evidence(mark.start, mark.end, mark.verdict) for mark in payload.evidence),
    )  # fmt: skip
    return Submitted(review=visible_content.submit_review(request, user, stored, review, payload.item))


@router.post("/review/{item}/skip", status_code=204)
def skip_review(request: Request, user: Reviewer, item: Id, why: Skip) -> None:
    """Take a log out of the queue unjudged."""
    if not review_queue.skip(store_of(request), item, user.id, why.reason):
        raise Problem(
            409, "The log was not skipped", "It is not open, or another reviewer holds it. Take the next one."
        )


@router.post("/review/{item}/release", status_code=204)
def release_review(request: Request, user: Reviewer, item: Id) -> None:
    """Give a log back to the queue."""
    if not review_queue.release(store_of(request), item, user.id):
        raise Problem(409, "The log was not released", "You do not hold it. Take the next one.")


@router.post("/review/fill")
def fill_queue(request: Request, user: Admin) -> Picked:
    """Bring logs into the queue now, instead of at the next hour."""
    picked = review_queue.fill(store_of(request), settings_of(request).policy)
    audit.note(request, picked=picked)
    return Picked(picked=picked)


@router.get("/agreement")
def get_agreement(request: Request, user: Viewer, query: Annotated[AgreementPeriod, Query()]) -> agreements.Agreement:
    """How far each evaluator agrees with people, and people with each other."""
    return agreements.agreement(store_of(request), query.evaluator, query.since, query.until, weighted=query.weighted)


@router.get("/agreement/answers")
def get_answers(request: Request, user: Viewer, query: Annotated[AnswerPeriod, Query()]) -> list[QuestionAgreement]:
    """How people answer questions of one's own, and how far they agree."""
    return measure_answers(store_of(request), query.since, query.until)
