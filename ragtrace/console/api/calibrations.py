"""Thresholds: what a candidate would do on reviewed logs, fitting one, putting one in force."""

import json
from dataclasses import dataclass, fields
from pathlib import Path as FilePath
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request
from pydantic import BaseModel, Field
from sqlalchemy import select, update

from ragtrace import calibrations as calibration_file
from ragtrace.console import audit
from ragtrace.console.access import Admin, Viewer, settings_of, store_of
from ragtrace.console.api.inputs import Body, Evaluator, Value
from ragtrace.console.chatlogs.schema import calibrations
from ragtrace.console.chatlogs.store import Store
from ragtrace.console.problems import Problem
from ragtrace.console.review import calibration, queue, threshold_effects
from ragtrace.console.review.rules import StoredEvaluator, load_evaluators

router = APIRouter(prefix="/api", tags=["calibration"])


class Candidates(Body):
    """Which thresholds."""

    threshold: Annotated[list[Value], Field(max_length=100)] = Field(
        default_factory=list, description="Candidates; without any, up to 41 that divide the reviewed scores"
    )
    weighted: bool = Field(True, description="For the whole traffic, or for the reviewed logs alone")


class Fit(Body):
    """How to fit."""

    weighted: bool = True
    activate: bool = Field(False, description="Put it in force at once; otherwise it is only shown")


@dataclass(frozen=True, slots=True)
class Fitted(calibration.Calibration):
    """What was fitted, with figures on logs that it had not seen."""

    curve: dict[str, Any]  # type: ignore[assignment]
    number: int | None
    """Of the calibration file, where it was put in force."""


class CalibrationOut(BaseModel):
    """A calibration of the history."""

    id: int
    evaluator: str
    version: str
    made: float
    user: str | None
    active: bool
    content: dict[str, Any]


@router.get("/evaluators/{name:path}/consequences")
def get_consequences(
    request: Request, user: Viewer, name: Evaluator, query: Annotated[Candidates, Query()]
) -> list[threshold_effects.ThresholdEffect]:
    """What candidate thresholds would do, on the logs that people reviewed."""
    store = store_of(request)
    direction = get_evaluator(store, name).direction
    judged = queue.load_verdicts(store, name)
    return threshold_effects.measure_thresholds(judged, query.threshold or None, direction, weighted=query.weighted)


@router.get("/evaluators/{name:path}/calibrations")
def list_calibrations(request: Request, user: Viewer, name: Evaluator) -> list[CalibrationOut]:
    """The evaluator's calibrations, newest first."""
    statement = (
        select(calibrations).where(calibrations.c.evaluator == name).order_by(calibrations.c.id.desc()).limit(100)
    )
    rows = store_of(request).rows(statement)
    return [CalibrationOut(**{**row._asdict(), "content": json.loads(row.content)}) for row in rows]


@router.post("/evaluators/{name:path}/calibrations")
def fit_calibration(request: Request, user: Admin, name: Evaluator, how: Fit) -> Fitted:
    """Fit a threshold and a probability to what people said."""
    store = store_of(request)
    about = get_evaluator(store, name)
    file = get_calibration_file(request) if how.activate else ""
    judged = queue.load_verdicts(store, name)
    fitted = calibration.fit(judged, about.threshold, about.direction, weighted=how.weighted)
    number = None
    if file:
        (entry,) = calibration.save(file, [fitted], store=store, user=user.name)
        number = entry.number
    audit.note(request, threshold=fitted.threshold, number=number)
    shared = {field.name: getattr(fitted, field.name) for field in fields(fitted)}
    return Fitted(**{**shared, "curve": fitted.curve.as_json()}, number=number)


@router.post("/calibrations/{calibration}/activate", status_code=204)
def activate_calibration(
    request: Request, user: Admin, number: Annotated[int, Path(alias="calibration", ge=1, le=2**53 - 1)]
) -> None:
    """Put one of the history in force again."""
    store, file = store_of(request), get_calibration_file(request)
    row = next(iter(store.rows(select(calibrations).where(calibrations.c.id == number))), None)
    if row is None:
        raise Problem(404, "There is no such calibration", "GET /api/evaluators/NAME/calibrations lists them.")
    entry = calibration_file.entry(row.evaluator, json.loads(row.content))
    audit.note(request, evaluator=entry.evaluator, threshold=entry.threshold, number=entry.number)
    there = calibration_file.load(file) if FilePath(file).exists() else {}
    with store.writing() as connection:
        same = calibrations.c.evaluator == entry.evaluator
        connection.execute(update(calibrations).where(same).values(active=calibrations.c.id == number))
        calibration_file.save(file, {**there, entry.evaluator: entry}.values())  # a failure here takes the above back


def get_evaluator(store: Store, name: str) -> StoredEvaluator:
    """An evaluator that has scores in the store. Raises Problem (404) for any other name."""
    with store.reading() as connection:
        evaluator = load_evaluators(connection).get(name)
    if evaluator is None:
        raise Problem(
            404,
            "There is no such evaluator",
            "No evaluator of that name scored a trace in this store. GET /api/evaluators lists the evaluators.",
        )
    return evaluator


def get_calibration_file(request: Request) -> str:
    """The path of the calibration file. Raises Problem (409) where the console has none."""
    file = settings_of(request).calibration_file
    if not file:
        raise Problem(409, "There is no calibration file", "Name one in the setting calibration_file.")
    return file
