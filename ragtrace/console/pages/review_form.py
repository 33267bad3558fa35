"""What the form of `/review` sends: a verdict, a log that is skipped or given back, or the end of the day's work."""

import time
from collections.abc import Container
from typing import Annotated
from urllib.parse import urlencode

from fastapi import APIRouter, Request
from starlette.responses import JSONResponse, RedirectResponse, Response

from ragtrace.console import audit, visible_content
from ragtrace.console.access import Reviewer, store_of
from ragtrace.console.api.inputs import Form, form_of
from ragtrace.console.chatlogs.store_types import Review, Verdict
from ragtrace.console.pages.evidence import parse_marks
from ragtrace.console.pages.filters import finite_number
from ragtrace.console.problems import Problem
from ragtrace.console.review import own_questions, queue
from ragtrace.errors import DataError

router = APIRouter()
_DAY = 86_400.0
_LONGEST = 100_000


@router.post("/review")
def judge(request: Request, user: Reviewer, form: Annotated[Form, form_of(500)]) -> Response:
    """Keep a verdict, skip a log, give it back, or end the day's work."""
    store, action = store_of(request), form.get("do", "")
    trace, text = form.get("trace", ""), form.get("item", "")
    item = int(text) if text.isascii() and text.isdigit() and len(text) < 16 else None
    audit.note(request, did=action[:10])
    if action == "done":
        queue.release_all(store, user.id)
        return RedirectResponse("/review/done", 303)
    if action == "release" and item is not None:
        queue.release(store, item, user.id)
        return JSONResponse({"released": True})
    if action == "skip" and item is not None:
        if not queue.skip(store, item, user.id, form.get("reason", "")):
            raise Problem(409, "The log was not skipped", "Another reviewer holds it now. Take the next one.")
        return _next_page(request, form, {"skipped": ""})
    stored = visible_content.get_trace(request, user, trace)
    audit.note(request, object=(trace_id := f"{stored.trace.trace_id:032x}"))
    review = _review(trace_id, form, {one.name for one in own_questions.load(store) if one.kind == "number"})
    if item is not None and queue.log_of(store, item) not in (stored.id, None):
        raise Problem(409, "The verdict was not kept", "It belongs to another log. Load the page again.")
    visible_content.submit_review(request, user, stored, review, item, since=finite_number(form.get("shown", "")))
    return _next_page(request, form, {"saved": trace})


def _review(trace_id: str, form: Form, numbers: Container[str]) -> Review:
    fields = form.multi_items()
    verdicts = tuple(Verdict(name[2:], value) for name, value in fields if name.startswith("v-"))
    own = {name[2:]: value.strip()[:_LONGEST] for name, value in fields if name.startswith("q-") and value.strip()}
    answers = {name: _answer(name, value) if name in numbers else value for name, value in own.items()}
    marks = parse_marks(form.getlist("mark"))
    comment, corrected = (form.get(name, "")[:_LONGEST].strip() or None for name in ("comment", "corrected"))
    if not (verdicts or comment or corrected or answers or marks):
        raise DataError("the review of this log is empty: choose pass or fail, or write something")
    more = {"answers": answers, "evidence": tuple(marks)}
    return Review(trace_id, verdicts, comment, corrected, seconds=_seconds(form), **more)  # type: ignore[arg-type]


def _answer(question: str, text: str) -> float:
    number = finite_number(text)
    if number is None:
        raise DataError(f"the answer to {question[:60]} is not a number")
    return number


def _seconds(form: Form) -> float | None:
    """From sight to verdict: as the page measured it, else since it was made."""
    measured, start = (finite_number(form.get(name, "")) for name in ("seconds", "shown"))
    seconds = measured if measured is not None else time.time() - start if start is not None else None
    return seconds if seconds is not None and 0 <= seconds < _DAY else None


def _next_page(request: Request, form: Form, result: dict[str, str]) -> Response:
    if "application/json" in request.headers.get("accept", ""):
        return JSONResponse(result)
    query = urlencode({name: value for name in ("queue", "main") if (value := form.get(name, ""))})
    return RedirectResponse(f"/review?{query}" if query else "/review", 303)
