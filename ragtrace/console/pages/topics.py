"""`/questions`: which questions fail, by topic, and which ones the documents do not answer."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel
from starlette.responses import Response

from ragtrace.console import visible_content
from ragtrace.console.access import Viewer, store_of
from ragtrace.console.chatlogs import search
from ragtrace.console.chatlogs.filters import NO_TOPIC
from ragtrace.console.chatlogs.overview import ordered, pass_rates
from ragtrace.console.chatlogs.store import Store
from ragtrace.console.pages import page_charts
from ragtrace.console.pages.filters import RANGE_NAMES, RANGES, range_or_default
from ragtrace.console.pages.overview import cached
from ragtrace.console.pages.template_filters import percent, render
from ragtrace.console.problems import Problem
from ragtrace.console.topics.grouper import progress
from ragtrace.console.topics.topic_figures import TopicReport, TopicRow, TopicStep, topic_history, topic_report

router = APIRouter()
_WORST, _WORST_OF_TOPIC = 3, 20
_SHOWN_GAPS = 5
_LISTED_GAPS = 200
_MOST_NAMES = 3
"""Topics that the first sentence names."""


class TopicChoices(BaseModel):
    """What an address asks for."""

    range: str = ""
    app: str = ""
    evaluator: str = ""


@dataclass(frozen=True, slots=True)
class Selection:
    """What is shown: what an address asks for, with defaults in the place of what makes no sense."""

    range: str
    app: str
    evaluator: str
    """Empty where no evaluator gave a verdict."""
    evaluators: tuple[str, ...]
    now: float

    @property
    def since(self) -> float:
        """Where the period begins, in Unix seconds."""
        return self.now - RANGES[self.range]

    @property
    def query(self) -> str:
        """As the address of another page of this kind has it."""
        values = {"range": self.range, "app": self.app, "evaluator": self.evaluator}
        return urlencode({name: value for name, value in values.items() if value})

    @property
    def period(self) -> str:
        """Time and application, as the API has them."""
        return urlencode({"since": int(self.since), **({"app": self.app} if self.app else {})})


def _selection(store: Store, query: TopicChoices) -> Selection:
    now = time.time()
    range = range_or_default(query.range, store, now)
    app = query.app[:200]
    rates = pass_rates(store, now - RANGES[range], now, app)
    names = tuple(ordered([name for name, rate in rates.items() if rate is not None]))
    evaluator = query.evaluator if query.evaluator in names else next(iter(names), "")
    return Selection(range, app, evaluator, names, now)


def _context(request: Request, selection: Selection) -> dict[str, Any]:
    """What all pages of this kind show."""
    return {
        "chosen": selection, "ranges": RANGE_NAMES, "apps": search.choices(store_of(request)).get("app", []),
        "period": dict(RANGE_NAMES)[selection.range],
    }  # fmt: skip


@router.get("/questions")
def questions(request: Request, user: Viewer, query: Annotated[TopicChoices, Query()]) -> Response:
    """The topics, worst first."""
    from ragtrace.evaluate.models.embedding import is_installed

    store = store_of(request)
    selection = _selection(store, query)
    report: TopicReport | None = None
    if selection.evaluator:
        report = _cached(request, selection, topic_report, worst=_WORST)
    ids = [trace for row in report.topics for trace in row.worst] if report else []
    gaps = visible_content.find_gaps(request, user, selection.since, selection.now, selection.app)
    return render(
        request, "questions.html.j2", **_context(request, selection), report=report,
        note=_note(report, dict(RANGE_NAMES)[selection.range]) if report else "",
        logs={row.id: row for row in visible_content.find_summaries(request, user, ids)}, gaps=gaps[:_SHOWN_GAPS],
        gap_count=len(gaps), progress=progress(store, selection.now), installed=is_installed(),
    )  # fmt: skip


@router.get("/questions/gaps")
def knowledge_gaps(request: Request, user: Viewer, query: Annotated[TopicChoices, Query()]) -> Response:
    """The questions that the documents do not answer."""
    selection = _selection(store_of(request), query)
    gaps = visible_content.find_gaps(request, user, selection.since, selection.now, selection.app)
    context = _context(request, selection)
    return render(request, "gaps.html.j2", **context, gaps=gaps[:_LISTED_GAPS], gap_count=len(gaps))


@router.get("/questions/{topic}")
def topic(request: Request, user: Viewer, topic: str, query: Annotated[TopicChoices, Query()]) -> Response:
    """One topic with its worst logs and its gaps."""
    selection = _selection(store_of(request), query)
    report: TopicReport = _cached(request, selection, topic_report, worst=_WORST_OF_TOPIC)
    row = next((row for row in report.topics if str(row.id or NO_TOPIC) == topic), None)
    if row is None:
        detail = f"It has no question in the {dict(RANGE_NAMES)[selection.range]}, or it ended. Choose a longer time."
        raise Problem(404, "There is no such topic", detail)
    period = {"range": selection.range, "app": selection.app}
    return render(
        request,
        "topic.html.j2",
        **_context(request, selection),
        report=report,
        topic=row,
        logs=visible_content.find_summaries(request, user, row.worst),
        causes=page_charts.shares(row.causes[:8]),
        steps=(steps := _cached(request, selection, topic_history, topic=row.id)),
        chart=_chart(steps, row.name),
        failing="/traces?" + urlencode({"topic": topic, "evaluator": selection.evaluator, "label": "fail", **period}),
        gaps=visible_content.find_gaps(request, user, selection.since, selection.now, selection.app, topic=row.id)[
            :_LISTED_GAPS
        ],
    )


def _cached(request: Request, selection: Selection, compute: Callable[..., Any], **of: int | None) -> Any:
    """Figures of a selection, at most a minute old; while questions are grouped, they are new each time."""
    own = {"evaluator": selection.evaluator, "app": selection.app, **of}
    return cached(
        request, (compute.__name__, selection.range, *own.values()),
        lambda store: compute(store, since=selection.since, until=selection.now, **own),
        lambda: progress(store_of(request), selection.now).waiting == 0,
    )  # fmt: skip


def _chart(steps: Sequence[TopicStep], name: str) -> str:
    """The topic's share of failures over time, and that of all questions."""
    points = [page_charts.share(step.start, step.failures) for step in steps]
    others = [page_charts.share(step.start, step.total) for step in steps]
    return page_charts.lines(points, others, f"Share of failures of {name[:60]} over time, and of all questions")


def _note(report: TopicReport, period: str) -> str:
    """The first sentences of the page: where most failures are, and which topics became worse."""
    candidates = [(row, row.failures) for row in report.topics if row.id is not None and row.failures is not None]
    if not candidates or report.total is None:
        return ""
    usual = report.total.value
    above = [(row, fails) for row, fails in candidates if fails.interval and fails.interval[0] > usual]
    if above:
        most, fails = max(above, key=lambda item: item[0].part)
        text = f"{percent(most.part, 0)} of all failures in the {period} are questions of “{most.name}”: "
        sentences = [f"{text}{percent(fails.value, 0)} of them fail, {percent(usual, 0)} of all questions do."]
    else:
        sentences = [f"No topic fails clearly more often than all questions, of which {percent(usual, 0)} fail."]
    if worse := [row for row, _ in candidates if row.verdict == "worse"]:
        sentences.append(f"{len(worse)} topic{'s' if len(worse) > 1 else ''} became worse: {_listed(worse)}.")
    elif any(row.change for row, _ in candidates):
        sentences.append("No topic became worse beyond chance.")
    return " ".join(sentences)


def _listed(rows: list[TopicRow]) -> str:
    names = "; ".join(f"“{row.name}”" for row in rows[:_MOST_NAMES])
    return names + (f"; and {len(rows) - _MOST_NAMES} more" if len(rows) > _MOST_NAMES else "")
