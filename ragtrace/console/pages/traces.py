"""`/traces`: search and filters with their state in the address, saved views; `/traces/{trace_id}`: one of them."""

import time
from dataclasses import dataclass
from typing import Annotated
from urllib.parse import parse_qsl

from fastapi import APIRouter, Form, Query, Request
from sqlalchemy import delete, select
from sqlalchemy.exc import IntegrityError
from starlette.responses import RedirectResponse, Response

from ragtrace.console import visible_content
from ragtrace.console.access import User, Viewer, settings_of, store_of
from ragtrace.console.api.inputs import Id
from ragtrace.console.chatlogs import schema, search
from ragtrace.console.chatlogs.filters import NO_TOPIC
from ragtrace.console.chatlogs.overview import ordered
from ragtrace.console.chatlogs.store import Store
from ragtrace.console.chatlogs.store_types import Filter, Page, StoredTrace, TraceSummary
from ragtrace.console.pages import trace_view as cases
from ragtrace.console.pages.evidence import NAMES as MARK_NAMES
from ragtrace.console.pages.filters import RANGE_NAMES, chosen
from ragtrace.console.pages.template_filters import render
from ragtrace.console.problems import Problem
from ragtrace.console.review import named_queues
from ragtrace.console.review.named_queues import NamedQueue
from ragtrace.console.topics.grouper import load_names
from ragtrace.console.topics.topic_figures import UNFIT
from ragtrace.errors import SettingError

router = APIRouter()
LABELS = (
    ("fail", "fail"), ("pass", "pass"), ("error", "check failed"), ("refusal", "refusal"),
    ("not_applicable", "not applicable"),
)  # fmt: skip
_VIEWS = 50


@dataclass(frozen=True, slots=True)
class TraceLine:
    """A row of the list."""

    row: TraceSummary
    main: tuple[str, float | None, str | None] | None
    """The evaluator that matters most, with its value and label."""
    failed: tuple[str, ...]
    """The others that fail."""


@router.get("/traces")
def traces(request: Request, user: Viewer) -> Response:
    """The list."""
    store = store_of(request)
    choices, problem = search.choices(store), ""
    query = chosen(request.query_params, time.time(), next(iter(ordered(choices.get("evaluator", []))), ""))
    try:
        page = visible_content.find_traces(request, user, query.filter, after=query.after, order=query.order)
    except SettingError as error:  # for example, an encrypted store cannot be searched
        page, problem = Page((), None, 0), str(error)
    table = schema.views
    views = select(table).where(table.c.user == user.id).order_by(table.c.name).limit(_VIEWS)
    return render(
        request, "traces.html.j2", asked=query, page=page,
        lines=[_line(row, query.filter.evaluator) for row in page.rows], choices=choices, topics=_topics(store),
        problem=problem, views=[(row.id, row.name, row.query) for row in store.rows(views)], ranges=RANGE_NAMES,
        labels=LABELS, queues=_open_queues(store, user), may_review=user.may("reviewer"),
    )  # fmt: skip


def _topics(store: Store) -> dict[str, str]:
    """The names of topics by id, as the filter `topic` has them; empty where there is no topic."""
    names = {str(topic): name for topic, name in load_names(store).items()}
    return dict(sorted(names.items(), key=lambda item: item[1])) | {NO_TOPIC: UNFIT} if names else {}


def _line(row: TraceSummary, evaluator: str) -> TraceLine:
    names = ordered(list(row.scores))
    judged = [name for name in names if row.scores[name][1] in ("pass", "fail")]
    main = evaluator if evaluator in row.scores else next(iter(judged), "")
    failed = tuple(name for name in judged if name != main and row.scores[name][1] == "fail")
    return TraceLine(row, (main, *row.scores[main]) if main else None, failed)


@router.get("/traces/{trace_id}")
def trace(request: Request, user: Viewer, trace_id: str, evidence: str = "") -> Response:
    """One trace."""
    stored = visible_content.get_trace(request, user, trace_id)
    return render(
        request, "trace.html.j2", trace_id=f"{stored.trace.trace_id:032x}", log=stored.id,
        case=cases.case(stored, evidence, load_limits(store_of(request), stored)), known=_link_facts(stored),
        lists_people=visible_content.may_read_personal_data(request, user),
        question=cases.plain_text(stored.trace.query), reference=cases.plain_text(stored.trace.reference or ""),
        reviews=visible_content.find_reviews(request, user, stored), mark_names=MARK_NAMES,
        backend=cases.trace_link(settings_of(request).trace_url, f"{stored.trace.trace_id:032x}"),
        may_review=user.may("reviewer"), queues=_open_queues(store_of(request), user),
    )  # fmt: skip


@router.get("/conversation")
def conversation(request: Request, user: Viewer, session: Annotated[str, Query(min_length=1)]) -> Response:
    """The requests of one session in their order, at most the newest hundred."""
    own = Filter(session_id=session[:200])
    rows = visible_content.find_traces(request, user, own, after=None, order="newest", limit=100).rows
    turns = [(_line(row, ""), visible_content.get_trace(request, user, row.id).trace) for row in reversed(rows)]
    return render(request, "conversation.html.j2", session=session, turns=turns)


def _open_queues(store: Store, user: User) -> list[NamedQueue]:
    """The queues that this user may send logs to."""
    return [queue for queue in named_queues.load(store) if not queue.closed] if user.may("reviewer") else []


def _link_facts(stored: StoredTrace) -> dict[str, str]:
    """The facts that lead to the list of traces that share them."""
    keys = ("app", "env", "model", "prompt_version", "session_id", "user_id")
    return {key: (getattr(stored.trace.facts, key) or "")[:200] for key in keys}


def load_limits(store: Store, stored: StoredTrace) -> dict[tuple[str, str], tuple[float | None, str]]:
    """Threshold and direction of every evaluator that scored a trace, by name and version."""
    table = schema.evaluators
    names = {score.name for _, score in stored.history} | {score.name for score in stored.evaluation.scores}
    rows = store.rows(select(table).where(table.c.name.in_(names)))
    return {(row.name, row.version): (row.threshold, row.direction) for row in rows}


@router.post("/views")
def save_view(
    request: Request, user: Viewer, name: Annotated[str, Form()], query: Annotated[str, Form()] = ""
) -> Response:
    """Keep the list's state under a name; an existing one of that name is replaced."""
    name, table, store = name.strip()[:100], schema.views, store_of(request)
    if not name:
        raise Problem(422, "The view has no name", "Give the view a name.")
    query = chosen(dict(parse_qsl(query[:4_000], max_num_fields=50)), time.time()).query
    mine = (table.c.user == user.id) & (table.c.name == name)
    try:
        with store.writing() as connection:
            connection.execute(delete(table).where(mine))
            connection.execute(table.insert().values(user=user.id, name=name, query=query))
    except IntegrityError:
        raise Problem(409, "The view was just saved elsewhere", "Load the page again.") from None
    return RedirectResponse(f"/traces?{query}", 303)


@router.post("/views/{view}/delete")
def delete_view(request: Request, user: Viewer, view: Id) -> Response:
    """Forget one of one's own views."""
    table = schema.views
    store_of(request).execute(delete(table).where((table.c.id == view) & (table.c.user == user.id)))
    return RedirectResponse("/traces", 303)
