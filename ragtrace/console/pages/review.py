"""`/review`: one log at a time. The form works by itself; script fetches the next log in advance, and sends verdicts
while that one is already shown."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter, Request
from sqlalchemy import func, select
from starlette.datastructures import FormData
from starlette.responses import JSONResponse, RedirectResponse, Response

from ragtrace.chatlogs import schema
from ragtrace.chatlogs.store import Store
from ragtrace.chatlogs.store_types import Review, StoredTrace, Task, Verdict, is_trace_id
from ragtrace.console import audit, visible_content
from ragtrace.console.access import Admin, Reviewer, User, settings_of, store_of
from ragtrace.console.pages import trace_view as cases
from ragtrace.console.pages.questions import CHOICES, REASONS, SKIP_REASONS, asks
from ragtrace.console.pages.template_filters import render
from ragtrace.console.pages.traces import load_limits
from ragtrace.console.problems import Problem
from ragtrace.errors import DataError
from ragtrace.review import queue

router = APIRouter()
_DAY = 86_400.0
_LONGEST = 100_000
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
def review(request: Request, user: Reviewer, trace: str = "", main: str = "", last: str = "") -> Response:
    """The log that comes next, or one that was chosen."""
    store, now = store_of(request), time.time()
    task, stored = (None, visible_content.get_trace(request, user, trace)) if trace else _next(request, user, now)
    context: dict[str, Any] = {"case": None, "task": None}
    if stored is not None:
        context = _context(request, user, task, stored, main)
    if last and not trace and is_trace_id(last):
        context["before"] = last
    context = {"before": "", "why_empty": _why_empty(store), "progress": _progress(request, user, now), **context}
    return render(request, "review.html.j2", **context)


@router.get("/review/next")
def following(request: Request, user: Reviewer, skip: int, main: str = "") -> Response:
    """The log after the one that is shown, as a part of a page."""
    task, stored = _next(request, user, time.time(), skip)
    if stored is None:
        return render(request, "review_end.html.j2")
    return render(request, "review_task.html.j2", **_context(request, user, task, stored, main))


def _next(request: Request, user: User, now: float, but: int | None = None) -> tuple[Task | None, StoredTrace | None]:
    task = queue.next_task(store_of(request), user.id, now, but=but)
    if task is not None and task.item == but:  # its lock has expired, and nothing else waits
        task = None
    return task, visible_content.find_trace(request, user, task.trace) if task is not None else None


def _context(request: Request, user: User, task: Task | None, stored: StoredTrace, main: str) -> dict[str, Any]:
    store = store_of(request)
    trace_id = f"{stored.trace.trace_id:032x}"
    audit.note(request, object=trace_id)
    review_ = visible_content.find_own_review(request, user, stored)
    questions = asks(stored, main, review_, _descriptions(store))
    return {
        "task": task,
        "trace_id": trace_id,
        "reviewing": True,
        "case": cases.blind_case(stored),
        "question": cases.plain_text(stored.trace.query),
        "reference": cases.plain_text(stored.trace.reference or ""),
        "asks": questions,
        "main": main,
        "given": review_ or Review(trace_id, ()),
        "choices": CHOICES,
        "skip_reasons": SKIP_REASONS,
        "folded_from": FOLDED_FROM,
        "open": any(ask.earlier_label for ask in questions[FOLDED_FROM - 1 :]),
        "shown_at": f"{time.time():.3f}",
    }


@router.get("/review/evaluators")
def evaluators_view(request: Request, user: Reviewer, trace: str, main: str = "", reason: str = "") -> Response:
    """What the evaluators said of a log, for the reviewer who asks: its texts with evidence, and the scores, as two
    parts of a page."""
    stored = visible_content.get_trace(request, user, trace)
    questions = asks(stored, main, None, {})
    return render(
        request,
        "review_evaluators.html.j2",
        case=cases.case(stored, questions[0].evaluator if questions else "", load_limits(store_of(request), stored)),
        question=cases.plain_text(stored.trace.query),
        reference=cases.plain_text(stored.trace.reference or ""),
        reason=REASONS.get(reason, ""),
        reviewing=True,
    )


def _descriptions(store: Store) -> dict[str, str]:
    table = schema.evaluators
    with store.reading() as connection:
        return {
            row.name: row.description or "" for row in connection.execute(select(table.c.name, table.c.description))
        }


def _progress(request: Request, user: User, now: float) -> Progress:
    store = store_of(request)
    waiting = sum(states["open"] for states in queue.count_items(store, now).values())
    reviews = schema.reviews.c
    query = select(func.count(), func.count().filter(reviews.user == user.id)).where(
        reviews.created >= now - now % _DAY
    )
    with store.reading() as connection:
        everybody, own = connection.execute(query).one()
    return Progress(everybody, own, settings_of(request).policy.quota, waiting)


def _why_empty(store: Store) -> str:
    with store.reading() as connection:
        some = connection.execute(select(schema.traces.c.id).limit(1)).first()
    if some is None:
        return "No log is stored yet. Point an application at this store, or fill it with ragtrace ingest."
    return "All picked logs are judged, or other reviewers hold them. More logs are picked as traffic comes in."


@router.post("/review")
async def judge(request: Request, user: Reviewer) -> Response:
    """Keep a verdict, skip a log, or give it back."""
    from starlette.concurrency import run_in_threadpool

    form = await request.form(max_fields=300, max_files=0)
    return await run_in_threadpool(_judge, request, user, form)


def _judge(request: Request, user: User, form: FormData) -> Response:
    store, action = store_of(request), _field(form, "do")
    trace_id, item = _field(form, "trace"), _number(_field(form, "item"))
    audit.note(request, object=trace_id if is_trace_id(trace_id) else None, did=action[:10])
    if action == "release" and item is not None:
        queue.release(store, item, user.id)
        return JSONResponse({"released": True})
    if action == "skip" and item is not None:
        if not queue.skip(store, item, user.id, _field(form, "reason")):
            raise Problem(409, "The log was not skipped", "Another reviewer holds it now. Take the next one.")
        return _done(request, "skipped", "")
    stored = visible_content.get_trace(request, user, trace_id)
    task: Task | str = trace_id
    if item is not None:
        task = Task(item, stored.id, trace_id, "", 0.0)
    queue.submit(store, task, _review(trace_id, form), user.id)
    return _done(request, "saved", trace_id)


def _review(trace_id: str, form: FormData) -> Review:
    verdicts = tuple(
        Verdict(name[2:], value)
        for name, value in form.multi_items()
        if name.startswith("v-") and isinstance(value, str)
    )
    comment, corrected = _field(form, "comment").strip() or None, _field(form, "corrected").strip() or None
    if not (verdicts or comment or corrected):
        raise DataError("nothing was said of this log: choose pass or fail, or write something")
    return Review(trace_id, verdicts, comment, corrected, seconds=_seconds(form))


def _seconds(form: FormData) -> float | None:
    """From sight to verdict: as the page measured it, else since it was made."""
    measured, start = _number(_field(form, "seconds"), float), _number(_field(form, "shown"), float)
    seconds = measured if measured is not None else time.time() - start if start is not None else None
    return seconds if seconds is not None and math.isfinite(seconds) and 0 <= seconds < _DAY else None


def _field(form: FormData, name: str) -> str:
    value = form.get(name)
    return value[:_LONGEST] if isinstance(value, str) else ""


def _number(text: str, kind: type[Any] = int) -> Any:
    try:
        return kind(text)
    except ValueError:
        return None


def _done(request: Request, what: str, trace_id: str) -> Response:
    if "application/json" in request.headers.get("accept", ""):
        return JSONResponse({what: trace_id})
    return RedirectResponse(f"/review?last={trace_id}" if trace_id else "/review", 303)


@router.post("/review/fill")
def pick(request: Request, user: Admin) -> Response:
    """Bring logs into the queue now."""
    audit.note(request, picked=queue.fill(store_of(request), settings_of(request).policy))
    return RedirectResponse("/review", 303)
