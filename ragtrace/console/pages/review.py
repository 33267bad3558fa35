"""`/review`: one log at a time, of all queues or of one. The form works by itself; script fetches the next log in
advance, and sends verdicts while that one is already shown."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from fastapi import APIRouter, Request
from sqlalchemy import func, select
from starlette.responses import RedirectResponse, Response

from ragtrace.console import audit, visible_content
from ragtrace.console.access import Admin, Reviewer, User, settings_of, store_of
from ragtrace.console.api.inputs import Id
from ragtrace.console.chatlogs import schema
from ragtrace.console.chatlogs.store import Store
from ragtrace.console.chatlogs.store_types import Review, StoredTrace, Task
from ragtrace.console.pages import trace_view as cases
from ragtrace.console.pages.evidence import answer_marks
from ragtrace.console.pages.questions import CHOICES, REASONS, SKIP_REASONS, asked_evaluators, asks
from ragtrace.console.pages.template_filters import render
from ragtrace.console.pages.traces import load_limits
from ragtrace.console.problems import Problem
from ragtrace.console.review import named_queues, own_questions
from ragtrace.console.review import queue as review_queue
from ragtrace.console.review.named_queues import NamedQueue
from ragtrace.console.review.own_questions import OwnQuestion

router = APIRouter()
_DAY = 86_400.0
FOLDED_FROM = 5
"""The question from which on they are folded away."""


@dataclass(frozen=True, slots=True)
class Progress:
    """Today's reviews (UTC)."""

    done: int
    own: int
    quota: int
    waiting: int

    @property
    def share(self) -> float:
        """Percent of the quota, up to 100."""
        return min(100.0, 100.0 * self.done / self.quota) if self.quota else 0.0


@router.get("/review")
def review(request: Request, user: Reviewer, trace: str = "", main: str = "", queue: str = "") -> Response:
    """The log that comes next, of all queues or of one; or a log that was chosen."""
    store = store_of(request)
    queues = named_queues.load(store, user.id)
    if queue and queue not in {one.name for one in queues}:
        raise Problem(404, "There is no such queue for you", "It does not exist, is closed, or has other reviewers.")
    task, stored = (None, visible_content.get_trace(request, user, trace)) if trace else _next(request, user, queue)
    context: dict[str, Any] = {"case": None, "task": None}
    if stored is not None:
        context = _context(request, user, task, stored, main, queues)
    return render(
        request, "review.html.j2", **context, before=review_queue.previous_review(store, user.id, trace.lower()),
        why_empty=_why_empty(store), progress=_progress(request, user, time.time()), queues=queues, queue=queue,
        query=urlencode({name: value for name, value in (("queue", queue), ("main", main)) if value}),
    )  # fmt: skip


@router.get("/review/next")
def following(request: Request, user: Reviewer, skip: Id, main: str = "", queue: str = "") -> Response:
    """The log after the one that is shown, as a part of a page."""
    task, stored = _next(request, user, queue, skip)
    if stored is None:
        return render(request, "review_end.html.j2", queue=queue)
    queues = named_queues.load(store_of(request), user.id)
    context = _context(request, user, task, stored, main, queues)
    return render(request, "review_task.html.j2", **context, queue=queue)


def _next(request: Request, user: User, queue: str, but: int | None = None) -> tuple[Task | None, StoredTrace | None]:
    task = review_queue.next_task(store_of(request), user.id, but=but, queue=queue)
    if task is not None and task.item == but:  # its lock has expired, and nothing else waits
        task = None
    return task, visible_content.find_trace(request, user, task.trace) if task is not None else None


def _context(  # noqa: PLR0917 what the page shows
    request: Request, user: User, task: Task | None, stored: StoredTrace, main: str, queues: Sequence[NamedQueue]
) -> dict[str, Any]:
    store = store_of(request)
    trace_id = f"{stored.trace.trace_id:032x}"
    audit.note(request, object=trace_id)
    review_ = visible_content.find_own_review(request, user, stored)
    own = _own_questions(store, stored)
    table = schema.evaluators
    descriptions = {row.name: row.description or "" for row in store.rows(select(table.c.name, table.c.description))}
    questions = asks(stored, main, review_, descriptions, own)
    folded_from = max(FOLDED_FROM, len(own) + 2)
    return {
        **answer_marks(stored.trace.answer, review_.evidence if review_ else ()), "task": task, "log": stored.id,
        "reviewing": True, "case": cases.blind_case(stored), "question": cases.plain_text(stored.trace.query),
        "reference": cases.plain_text(stored.trace.reference or ""), "asks": questions, "main": main,
        "given": review_ or Review(trace_id, ()), "skip_reasons": SKIP_REASONS, "folded_from": folded_from,
        "open": any(ask.earlier for ask in questions[folded_from - 1 :]), "shown_at": f"{time.time():.3f}",
        "instructions": next((one.instructions for one in queues if task and one.name == task.queue), ""),
    }  # fmt: skip


@router.get("/review/evaluators")
def evaluators_view(request: Request, user: Reviewer, trace: str, main: str = "", reason: str = "") -> Response:
    """The results of the evaluators for a log, for the reviewer who asks: its texts with evidence, and the
    scores, as two parts of a page."""
    stored = visible_content.get_trace(request, user, trace)
    first = next(iter(asked_evaluators(stored, main)), "")
    return render(
        request, "review_evaluators.html.j2", case=cases.case(stored, first, load_limits(store_of(request), stored)),
        question=cases.plain_text(stored.trace.query), reference=cases.plain_text(stored.trace.reference or ""),
        reason=REASONS.get(reason, ""), reviewing=True,
    )  # fmt: skip


def _own_questions(store: Store, stored: StoredTrace) -> list[OwnQuestion]:
    """Those that are asked of every log, and those of the queues that this one is in."""
    questions = own_questions.load(store)
    if not any(one.queue for one in questions):
        return list(questions)
    with store.reading() as connection:
        queues = named_queues.queue_names(connection, stored.id)
    return [one for one in questions if not one.queue or one.queue in queues]


def _progress(request: Request, user: User, now: float) -> Progress:
    store = store_of(request)
    waiting = review_queue.count_waiting(store, user.id, now)
    reviews = schema.reviews.c
    query = select(func.count(), func.count().filter(reviews.user == user.id))
    query = query.where(reviews.created >= now - now % _DAY)
    ((everybody, own),) = store.rows(query)
    return Progress(everybody, own, settings_of(request).policy.quota, waiting)


def _why_empty(store: Store) -> str:
    if store.scalar(select(schema.traces.c.id).limit(1)) is None:
        return "No log is stored yet. Point an application at this store, or fill it with ragtrace ingest."
    return "All picked logs are judged, or other reviewers hold them. More logs are picked as traffic comes in."


@router.post("/review/fill")
def pick(request: Request, user: Admin) -> Response:
    """Bring logs into the queue now."""
    audit.note(request, picked=review_queue.fill(store_of(request), settings_of(request).policy))
    return RedirectResponse("/review", 303)


# --- done for today ---------------------------------------------------------------------------------------------------


@router.get("/review/done")
def done(request: Request, user: Reviewer) -> Response:
    """What this person reviewed today, and what still waits."""
    now = time.time()
    reviews, traces = schema.reviews, schema.traces
    query = select(traces.c.id.label("trace"), traces.c.trace_id, reviews.c.seconds, reviews.c.created, reviews.c.id)
    query = query.join(traces, traces.c.id == reviews.c.trace)
    query = query.where(reviews.c.user == user.id, reviews.c.created >= now - now % _DAY)
    with store_of(request).reading() as connection:
        rows = connection.execute(query.order_by(reviews.c.created.desc(), reviews.c.id.desc())).all()
        table = schema.verdicts
        count = select(table.c.label, func.count()).where(table.c.review.in_([row.id for row in rows]))
        labels = {row[0]: row[1] for row in connection.execute(count.group_by(table.c.label))}
    return render(
        request,
        "review_done.html.j2",
        rows=rows[:100],
        asked={
            row.id: row.query for row in visible_content.find_summaries(request, user, [r.trace for r in rows[:100]])
        },
        seconds=sum(row.seconds or 0.0 for row in rows),
        timed=sum(bool(row.seconds) for row in rows),
        labels=[(name, sign, text, labels[name]) for name, sign, text in CHOICES if name in labels],
        progress=_progress(request, user, now),
    )
