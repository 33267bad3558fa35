"""`/evaluators`: what is asked of answers, and for each evaluator its threshold with consequences on reviewed logs, its
calibration, versions and cost."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Form, Query, Request
from pydantic import BaseModel
from sqlalchemy import Row, func, select
from starlette.responses import RedirectResponse, Response

from ragtrace.base import svg
from ragtrace.console import audit
from ragtrace.console.access import Admin, User, Viewer, settings_of, store_of
from ragtrace.console.api.calibrations import CalibrationOut, get_calibration_file, get_evaluator, list_calibrations
from ragtrace.console.chatlogs import schema
from ragtrace.console.chatlogs.overview import ordered, pass_rates
from ragtrace.console.chatlogs.store import Store
from ragtrace.console.chatlogs.store_types import ScoredVerdict
from ragtrace.console.pages import page_charts
from ragtrace.console.pages.filters import finite_number
from ragtrace.console.pages.page_charts import Point
from ragtrace.console.pages.questions import question
from ragtrace.console.pages.template_filters import percent, range_percent, render
from ragtrace.console.review import calibration, queue
from ragtrace.console.review.consensus import ReviewedLog, group_scored, newest_version, weighted_rate
from ragtrace.console.review.curves import Curve, curve_from_json
from ragtrace.console.review.rules import load_evaluators
from ragtrace.console.review.threshold_effects import ThresholdEffect, measure_thresholds
from ragtrace.errors import DataError
from ragtrace.evaluation import Direction

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


@router.get("/evaluators/{name:path}")
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
        reliability=_reliability(judged, active, direction, weighted), calibrated=active is not None, history=history,
        proposal=proposal, least=calibration.LEAST, file=settings_of(request).calibration_file, cost=_cost(store, name),
        figures=figures_of,
    )  # fmt: skip


def _reliability(
    judged: Sequence[ScoredVerdict], active: CalibrationOut | None, direction: Direction, weighted: bool
) -> str:
    fields = active.content.get("curve") if active is not None else None
    try:
        curve = curve_from_json(fields) if isinstance(fields, dict) and fields else None
    except DataError:  # of a later release
        curve = None
    return reliability(judged, curve, direction, weighted=weighted)


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


@router.post("/evaluators/{name:path}/calibrations")
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


BINS = 20
_PARTS = 10


@dataclass(frozen=True, slots=True)
class Board:
    """All that hangs on the threshold, with one of the candidates chosen."""

    steps: tuple[ThresholdEffect, ...]
    """By threshold, ascending."""
    at: int
    """The chosen one among them."""
    now: ThresholdEffect | None
    """What the threshold in force does."""
    picture: str
    place: tuple[float, float, float, float]
    """Left and right edge of the picture's axis, and the scores that they stand for."""
    logs: int
    """That weigh anything."""
    judged: int

    @property
    def chosen(self) -> ThresholdEffect:
        """The candidate that is shown."""
        return self.steps[self.at]


def board(
    judged: Sequence[ScoredVerdict],
    threshold: float | None,
    direction: Direction,
    candidate: float | None,
    place: int | None,
    *,
    weighted: bool,
) -> Board | None:
    """The board, with the step at `place`, or else the one nearest to `candidate` or to the threshold in force; None
    where no reviewed log has a score that weighs anything."""
    steps = measure_thresholds(judged, None, direction, weighted=weighted)
    if not steps:
        return None
    now = None
    if threshold is not None:
        (now,) = measure_thresholds(judged, [threshold], direction, weighted=weighted)
        if all(step.threshold != threshold for step in steps):
            steps.append(now)
    steps.sort(key=lambda step: step.threshold)
    aim = candidate if candidate is not None else threshold
    if aim is None:
        aim = steps[len(steps) // 2].threshold
    at = min(range(len(steps)), key=lambda i: abs(steps[i].threshold - aim)) if place is None else place
    at = min(at, len(steps) - 1)
    logs = _usable(judged, weighted)
    scale = _scale(logs)
    picture = _picture(logs, scale, steps[at].threshold)
    axis = (page_charts.WIDE.left, page_charts.WIDE.x(1.0), scale.low, scale.high)
    return Board(tuple(steps), at, now, picture, axis, len(logs), len(_usable(judged, False)))


def _usable(judged: Sequence[ScoredVerdict], weighted: bool) -> list[ReviewedLog]:
    return group_scored(newest_version(judged)[1], weighted=weighted) if judged else []


def _scale(logs: Sequence[ReviewedLog]) -> svg.Axis:
    values = [log.value or 0.0 for log in logs]
    low, high = min(values), max(values)
    if low >= 0.0 and high <= 1.0:
        return svg.Axis(0.0, 1.0)
    return svg.Axis(low, high if high > low else low + 1.0)


def _picture(logs: Sequence[ReviewedLog], scale: svg.Axis, threshold: float) -> str:
    passed, failed = [0.0] * BINS, [0.0] * BINS
    total = sum(log.weight for log in logs) or 1.0
    for log in logs:
        at = scale.bin(log.value or 0.0, BINS)
        passed[at] += 100.0 * log.weight * (1 - log.bad) / total
        failed[at] += 100.0 * log.weight * log.bad / total
    label = f"Scores of logs that people passed (upwards) and failed (downwards), {len(logs)} logs"
    return page_charts.distribution(passed, failed, scale, threshold, label)


def reliability(judged: Sequence[ScoredVerdict], curve: Curve | None, direction: Direction, *, weighted: bool) -> str:
    """A chart of predicted against observed shares. The prediction is the curve's probability of a failure, or the bare
    score where there is no curve and scores are in [0, 1]. Empty where nothing can be shown."""
    logs = _usable(judged, weighted)
    if not logs:
        return ""
    values = [log.value or 0.0 for log in logs]
    if curve is not None:
        predictions, what = curve(values).tolist(), "calibrated probability of a bad answer"
    elif min(values) >= 0.0 and max(values) <= 1.0:
        predictions, what = values, "score"
    else:
        return ""
    of_bad = curve is not None or direction == "lower"
    outcome = [log.bad if of_bad else 1 - log.bad for log in logs]
    label = f"Calibration: {what} against what people say"
    return page_charts.reliability(_bins(predictions, outcome, [log.weight for log in logs]), label)


def _bins(predictions: Sequence[float], outcome: Sequence[float], weights: Sequence[float]) -> list[Point]:
    points = []
    for part in range(_PARTS):
        inside = [i for i, p in enumerate(predictions) if min(_PARTS - 1, int(p * _PARTS)) == part]
        estimate = weighted_rate([(outcome[i], weights[i]) for i in inside])
        if estimate is None:
            continue
        x = sum(predictions[i] * weights[i] for i in inside) / sum(weights[i] for i in inside)
        label = f"said {percent(x)}, came true {percent(estimate.value)} ({range_percent(estimate.interval)}), "
        low, high = estimate.interval or (None, None)
        points.append(Point(x, estimate.value, low, high, f"{label}{len(inside)} logs"))
    return points
