"""`/evaluators`: what is asked of answers, and for each evaluator its threshold with consequences on reviewed logs, its
calibration, versions and cost."""

import time
from collections.abc import Sequence
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Form, Query, Request
from pydantic import BaseModel
from sqlalchemy import Row, func, select
from starlette.responses import RedirectResponse, Response

from ragtrace.console import audit
from ragtrace.console.access import Admin, User, Viewer, settings_of, store_of
from ragtrace.console.api.calibrations import CalibrationOut, get_calibration_file, get_evaluator, list_calibrations
from ragtrace.console.chatlogs import schema
from ragtrace.console.chatlogs.overview import ordered, pass_rates
from ragtrace.console.chatlogs.store import Store
from ragtrace.console.chatlogs.store_types import ScoredVerdict
from ragtrace.console.pages.filters import finite_number
from ragtrace.console.pages.questions import question
from ragtrace.console.pages.template_filters import render
from ragtrace.console.pages.thresholds import board, reliability
from ragtrace.console.review import calibration, queue
from ragtrace.console.review.curves import curve_from_json
from ragtrace.console.review.rules import load_evaluators
from ragtrace.errors import DataError

router = APIRouter()
_VERSIONS = 50


class Asked(BaseModel):
    """What an address asks for; what makes no sense in it is left out."""

    threshold: str = ""
    at: str = ""
    view: str = ""

    @property
    def number(self) -> float | None:
        """The threshold."""
        return finite_number(self.threshold)

    @property
    def place(self) -> int | None:
        """Its place among the candidates."""
        return int(self.at) if self.at.isascii() and self.at.isdigit() and len(self.at) < 6 else None


@router.get("/evaluators")
def evaluators(request: Request, user: Viewer) -> Response:
    """The list."""
    store, now = store_of(request), time.time()
    with store.reading() as connection:
        stored = load_evaluators(connection)
        table = schema.evaluators
        about = {row.name: row for row in connection.execute(select(table).order_by(table.c.first_seen))}
        column = schema.verdicts.c.evaluator
        counts = {row[0]: row[1] for row in connection.execute(select(column, func.count()).group_by(column))}
        active = set(connection.scalars(select(schema.calibrations.c.evaluator).where(schema.calibrations.c.active)))
    rows = [
        {
            "evaluator": stored[name],
            "question": question(name, about[name].description or ""),
            "method": about[name].method,
            "judged": counts.get(name, 0),
            "calibrated": name in active,
        }
        for name in ordered(list(stored))
    ]
    return render(request, "evaluators.html.j2", rows=rows, rates=pass_rates(store, now - 7 * 86_400, now))


@router.get("/evaluators/{name}")
def evaluator(request: Request, user: Viewer, name: str, query: Annotated[Asked, Query()]) -> Response:
    """One evaluator, with a candidate threshold: as a number, or by its place among the candidates."""
    return _page(request, user, name, query)


def _page(request: Request, user: User, name: str, query: Asked, proposal: object = None) -> Response:
    store, weighted = store_of(request), query.view != "reviewed"
    about = get_evaluator(store, name)
    judged = queue.load_verdicts(store, name)
    direction = about.direction
    board_ = board(judged, about.threshold, direction, query.number, query.place, weighted=weighted)
    versions, history = _versions(store, name), list_calibrations(request, user, name)[:_VERSIONS]
    description = next((row.description for row in versions if row.description is not None), "")
    active = next((entry for entry in history if entry.active), None)
    return render(
        request, "evaluator.html.j2", name=name, about=about, description=description,
        question=question(name, description), direction=direction, versions=versions[:_VERSIONS],
        board=board_, weighted=weighted, judged=len({row.trace for row in judged}),
        reliability=_reliability(judged, active, weighted), calibrated=active is not None, history=history,
        proposal=proposal, least=calibration.LEAST, file=settings_of(request).calibration_file, cost=_cost(store, name),
        figures=figures_of,
    )  # fmt: skip


def _reliability(judged: Sequence[ScoredVerdict], active: CalibrationOut | None, weighted: bool) -> str:
    fields = active.content.get("curve") if active is not None else None
    try:
        curve = curve_from_json(fields) if isinstance(fields, dict) and fields else None
    except DataError:  # of a later release
        curve = None
    return reliability(judged, curve, weighted=weighted)


def _versions(store: Store, name: str) -> Sequence[Row[*tuple[Any, ...]]]:
    """The rows of an evaluator's versions that have scored something, newest first."""
    table = schema.evaluators
    query = select(table).where(table.c.name == name).order_by(table.c.first_seen.desc())
    return store.rows(query)


def _cost(store: Store, name: str) -> float:
    """US dollars, of all that is stored."""
    table = schema.sums
    query = select(func.sum(table.c.wv)).where(
        table.c.kind == "cost", table.c.name == name, table.c.step == select(func.max(table.c.step)).scalar_subquery()
    )
    return float(store.scalar(query) or 0.0)


@router.post("/evaluators/{name}/calibrations")
def calibrate(
    request: Request,
    user: Admin,
    name: str,
    do: Annotated[Literal["fit", "save"], Form()] = "fit",
    view: Annotated[str, Form(max_length=20)] = "",
) -> Response:
    """Fit a calibration and show it, or put it in force."""
    store = store_of(request)
    about = get_evaluator(store, name)
    judged = queue.load_verdicts(store, name)
    try:
        result = calibration.fit(judged, about.threshold, about.direction, weighted=view != "reviewed")
    except DataError as error:
        return _page(request, user, name, Asked(view=view), str(error))
    if do == "fit":
        return _page(request, user, name, Asked(threshold=str(result.threshold), view=view), result)
    (entry,) = calibration.save(get_calibration_file(request), [result], store=store, user=user.name)
    audit.note(request, object=name, number=entry.number, threshold=entry.threshold)
    return RedirectResponse(f"/evaluators/{name}", 303)


def figures_of(calibration: Any) -> list[tuple[str, Any, Any, str]]:
    """(name, before, after, what it says) of a calibration."""
    names = (
        ("balanced_accuracy", "balanced accuracy", "mean of the shares of bad and of good answers that it tells right"),
        ("f1", "F1", "high only where it finds much of what is bad and its alarms are right"),
        ("brier", "Brier score", "mean squared error of its probabilities; lower is better"),
        ("ece", "calibration error", "mean distance of its probabilities from what came true; lower is better"),
    )
    before, after = calibration.before, calibration.after
    return [(title, getattr(before, name, None), getattr(after, name), text) for name, title, text in names]
