"""`/agreement`: how far evaluators agree with people, and people with each other."""

import time

from fastapi import APIRouter, Request
from sqlalchemy import select
from starlette.responses import Response

from ragtrace.console.access import Viewer, store_of
from ragtrace.console.chatlogs import schema
from ragtrace.console.chatlogs.overview import ordered
from ragtrace.console.pages.filters import RANGE_NAMES, RANGES
from ragtrace.console.pages.template_filters import percent, render
from ragtrace.console.review import agreement as figures
from ragtrace.console.review import anchors
from ragtrace.console.review.agreement import Alpha, EvaluatorAgreement, measure_answers
from ragtrace.statistics import Estimate

router = APIRouter()
ENOUGH = 30
"""Logs below which a row says that it is thin."""


@router.get("/agreement")
def agreement(request: Request, user: Viewer, evaluator: str = "", range: str = "", view: str = "") -> Response:
    """The page; `view=reviewed` gives the reviewed logs as they are."""
    store, weighted = store_of(request), view != "reviewed"
    since = time.time() - RANGES[range] if range in RANGES else None
    result = figures.agreement(store, evaluator[:100], since, weighted=weighted)
    by_name = {each.evaluator: each for each in result.evaluators}
    lines = [
        {"of": of, "cells": _cells(of, weighted), "sentence": _sentence(of), "thin": of.counted < ENOUGH}
        for of in map(by_name.__getitem__, ordered(list(by_name)))
    ]
    evaluators = select(schema.verdicts.c.evaluator).distinct()
    return render(
        request, "agreement.html.j2", lines=lines, pairs=sorted(result.pairs, key=lambda pair: -pair.count),
        alpha=result.alphas.get("", Alpha(None, None, 0)),
        alphas=[(name, alpha) for name, alpha in sorted(result.alphas.items()) if name and alpha.units],
        names=ordered([name for (name,) in store.rows(evaluators)]), evaluator=evaluator,
        range=range if range in RANGES else "", ranges=RANGE_NAMES, weighted=weighted,
        reliable=_reliable(result.alphas.get("")), questions=measure_answers(store, since),
        anchors=[(drift, anchors.sentence(drift)) for drift in anchors.drifts(store)],
    )  # fmt: skip


def _cells(of: EvaluatorAgreement, weighted: bool) -> list[dict[str, object]]:
    """Hits, misses, false alarms, passes: each with its share of all logs, in [0, 1]; empty without logs that weigh
    anything."""
    if of.whole is None:
        return []
    names = (("hits", True), ("misses", False), ("false_alarms", False), ("passes", True))
    shares = [(getattr(of.whole, name), f"{getattr(of.seen, name):g}", good) for name, good in names]
    return [{"share": n, "text": percent(n) if weighted else logs, "good": good} for n, logs, good in shares]


def _sentence(of: EvaluatorAgreement) -> str:
    """What precision and recall say, for people."""
    if of.recall is None and of.precision is None:
        return "No bad answer was judged yet, so nothing can be said of how well it finds them."
    recall = f"It finds {_of_ten(of.recall)} bad answers" if of.recall else "No bad answer was judged yet"
    right = f"{_of_ten(of.precision)} that it fails are bad" if of.precision else "it failed none"
    return f"{recall}; {right}."


def _of_ten(estimate: Estimate) -> str:
    return (
        "all" if estimate.value == 1 else "none of the" if estimate.value == 0 else f"{10 * estimate.value:.0f} of 10"
    )


def _reliable(alpha: Alpha | None) -> str:
    """Krippendorff's own bounds."""
    if alpha is None or alpha.value is None:
        return ""
    if alpha.value >= 0.8:
        return "People agree well enough to rely on what they say."
    if alpha.value >= 0.667:
        return "People agree well enough for tentative conclusions."
    return "People agree too little: make the questions clearer before an evaluator is blamed."
