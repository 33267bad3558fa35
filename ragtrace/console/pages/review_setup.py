"""`/review/queues`, for admins: named queues and questions of one's own. And logs that are sent to a queue."""

from typing import Annotated

from fastapi import APIRouter, Request
from starlette.responses import RedirectResponse, Response

from ragtrace.console import accounts, audit, visible_content
from ragtrace.console.access import Admin, Reviewer, store_of
from ragtrace.console.api import exchange
from ragtrace.console.api.inputs import Form, form_of
from ragtrace.console.chatlogs import search
from ragtrace.console.chatlogs.store_types import Filter, Review, Verdict
from ragtrace.console.pages.filters import finite_number
from ragtrace.console.pages.template_filters import render
from ragtrace.console.pages.traces import LABELS
from ragtrace.console.problems import Problem
from ragtrace.console.review import named_queues, own_questions
from ragtrace.console.review.dataset_export import Options
from ragtrace.console.review.own_questions import Category, OwnQuestion
from ragtrace.console.review.verdicts import submit
from ragtrace.errors import DataError

router = APIRouter()
_SETUP = "/review/queues"
ListForm = Annotated[Form, form_of(2 * named_queues.MOST + 20)]
"""A list of logs of which some may be ticked."""


@router.get("/review/queues")
def setup(request: Request, user: Admin) -> Response:
    """All queues, and a form for a new one."""
    store = store_of(request)
    people = [one.name for one in accounts.everybody(store) if not one.disabled and one.role != "viewer"]
    return render(
        request, "review_setup.html.j2", queues=named_queues.load(store), people=people,
        choices=search.choices(store), labels=LABELS, filter_fields=named_queues.FILTER_FIELDS,
        questions=own_questions.load(store, closed=True), kinds=own_questions.KINDS, keys=own_questions.KEYS,
    )  # fmt: skip


@router.post("/review/queues")
def save_queue(request: Request, user: Admin, form: Annotated[Form, form_of(300)]) -> Response:
    """A new queue, or a change of one that is there."""
    store, name, do = store_of(request), form.get("name", "").strip(), form.get("do", "add")
    audit.note(request, object=name[:100], did=do[:10])
    if do in ("close", "open"):
        named_queues.change(store, name, closed=do == "close")
        return RedirectResponse(_SETUP, 303)
    values = {field: value for field in named_queues.FILTER_FIELDS if (value := form.get(field))}
    save = named_queues.change if do == "change" else named_queues.create
    save(
        store,
        name,
        instructions=form.get("instructions", ""),
        filter=Filter(**values),  # type: ignore[arg-type]  # they are texts
        assignees=form.getlist("assignee"),
    )
    return RedirectResponse(_SETUP, 303)


@router.post("/review/questions")
def save_question(request: Request, user: Admin, form: Annotated[Form, form_of(20)]) -> Response:
    """A new question of one's own; or the end of one, or its return."""
    store, name, do = store_of(request), form.get("name", "").strip(), form.get("do", "add")
    audit.note(request, object=name[:60], did=do[:10])
    if do in ("close", "open"):
        own_questions.close(store, name, closed=do == "close")
        return RedirectResponse(_SETUP, 303)
    low, high = (_bound(form.get(bound, "")) for bound in ("low", "high"))
    categories = tuple(map(_category, filter(str.strip, form.get("categories", "").splitlines())))
    text, kind, queue = (form.get(field, "").strip() for field in ("text", "kind", "queue"))
    own_questions.create(store, OwnQuestion(name, text, kind, queue, categories, low, high))
    return RedirectResponse(_SETUP, 303)


def _category(line: str) -> Category:
    """A line of the form: the category, and after `=` its hot key."""
    label, sign, key = line.strip().rpartition("=")
    return Category(label.strip(), key.strip()) if sign and len(key.strip()) == 1 else Category(line.strip())


def _bound(text: str) -> float | None:
    if not text.strip():
        return None
    number = finite_number(text)
    if number is None:
        raise Problem(422, "The bound is not a number", "Give a number, or leave the field empty.")
    return number


@router.post("/review/send")
def send(request: Request, user: Reviewer, form: ListForm) -> Response:
    """Puts the logs of a list that were chosen (without any, all of them), or the one of a page, into a queue."""
    queue = form.get("queue", "")
    if not queue:
        raise Problem(422, "No queue was chosen", "Go back and choose the queue that the logs are for.")
    sent = named_queues.send(store_of(request), queue, _logs(form))
    audit.note(request, object=queue, sent=sent)
    return _back(form)


@router.post("/traces/export")
def export(request: Request, user: Reviewer, form: ListForm) -> Response:
    """The logs of a list that were chosen (without any, all of them) as a data set that `ragtrace eval` reads."""
    return exchange.send_file(request, user, Options(traces=tuple(_logs(form)) or ("",)), "jsonl")


def _logs(form: Form) -> list[str]:
    return (form.getlist("trace") or form.getlist("row"))[: named_queues.MOST]


@router.post("/review/bulk")
def judge(request: Request, user: Reviewer, form: ListForm) -> Response:
    """Gives the logs of a list that were chosen one verdict; each keeps what this person said of it otherwise."""
    traces = form.getlist("trace")
    evaluator, label = form.get("question", ""), form.get("verdict", "")
    if not evaluator or not traces:
        raise Problem(422, "Nothing was chosen", "Go back, tick the logs, and choose a question and a verdict.")
    for done, trace in enumerate(traces[: named_queues.MOST]):
        try:
            if (stored := visible_content.find_trace(request, user, trace)) is None:
                raise DataError("the log is not in the store any more")
            review = Review(f"{stored.trace.trace_id:032x}", (Verdict(evaluator, label),))
            submit(store_of(request), stored.id, review, user.id, merge=True)
        except DataError as error:
            audit.note(request, object=evaluator, verdict=label[:20], logs=done)
            raise Problem(409, "Not all have the verdict", f"{done} logs have it, and then: {error}.") from error
    audit.note(request, object=evaluator, verdict=label[:20], logs=len(traces))
    return _back(form)


def _back(form: Form) -> Response:
    return RedirectResponse(form.get("back", "") if _is_own(form.get("back", "")) else "/review", 303)


def _is_own(address: str) -> bool:
    """Whether an address is one of the list's or of a trace's pages."""
    return address.startswith(("/traces?", "/traces/")) and "\\" not in address and address.isprintable()
