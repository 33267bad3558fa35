"""The sentences that the overview begins with: how good the answers are, since when, and what people say of it."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

from fastapi import Request

from ragtrace.console.access import store_of
from ragtrace.console.chatlogs.overview import Check
from ragtrace.console.pages.template_filters import moment, percent
from ragtrace.console.review.agreement import EvaluatorAgreement, agreement
from ragtrace.statistics import Estimate

_CACHE_SECONDS = 60.0
"""Seconds for which what people say is cached: its intervals are drawn by chance a few hundred times."""
_LEAST = 10
"""Logs that people and the evaluator must have judged, below which no sentence about it is shown."""
_WORDS = ((0.0, "not beyond chance"), (0.2, "slightly"), (0.4, "fairly"), (0.6, "moderately"), (0.8, "substantially"))
"""Agreement by Cohen's kappa (J. Landis, G. Koch, The measurement of observer agreement, 1977)."""


@dataclass(frozen=True, slots=True)
class VerdictNote:
    """The sentences, and how they are shown."""

    kind: str
    """`good`, `bad`, or empty where there is nothing to compare with."""
    evaluator: str
    people: str
    """Empty where people have judged too little."""


def verdict_note(request: Request, check: Check, before: Estimate | None, period: str) -> VerdictNote | None:
    """The verdict on the answers by one evaluator; None without a share of passes. `before` is its share in as long a
    time before, `period` the time's name, e.g. `last 7 days`."""
    if check.passes is None:
        return None
    kind = _compare(check.passes, before)
    return VerdictNote(kind, _evaluator(check, before, kind, period), _people(request, check.evaluator))


def _compare(passes: Estimate, before: Estimate | None) -> str:
    if before is None or passes.interval is None or before.interval is None:
        return ""
    if passes.interval[1] < before.interval[0]:
        return "bad"
    return "good" if passes.interval[0] >= before.interval[0] or passes.value >= before.interval[0] else ""


def _evaluator(check: Check, before: Estimate | None, kind: str, period: str) -> str:
    assert check.passes is not None
    name = check.evaluator.replace("_", " ").capitalize()
    share = f"{percent(check.passes.value)} of the answers pass"
    passes = f"{name}: {share} ({_range(check.passes)}, n = {check.passes.count:,})"
    if before is None:
        return f"{passes} in the {period}."
    earlier = f"{percent(before.value)} before (n = {before.count:,})"
    if kind == "bad":
        since = _worse_since(check, before)
        return f"{passes}, fewer than the {earlier}" + (f", since about {moment(since)} UTC." if since else ".")
    better = check.passes.interval and before.interval and check.passes.interval[0] > before.interval[1]
    return f"{passes}, more than the {earlier}." if better else f"{passes}. That is no clear change from {earlier}."


def _worse_since(check: Check, before: Estimate) -> float | None:
    """The start of the latest run of points that are below the earlier share."""
    since = None
    for step in reversed(check.line):
        if step.passes is not None:
            if step.passes.value >= before.value:
                break
            since = step.start
    return since


def _people(request: Request, evaluator: str) -> str:
    of = _agreement(request, evaluator)
    if of is None or of.counted < _LEAST or of.bad is None or of.flagged is None:
        return ""
    low, high = of.bad.interval or (of.bad.value, of.bad.value)
    passes = replace(of.bad, value=1 - of.bad.value, interval=(1 - high, 1 - low))
    kappa = "" if of.kappa is None else f"; it agrees with them {_agrees(of.kappa.value)} (kappa {of.kappa.value:.2f})"
    return (
        f"People would pass about {percent(passes.value, 0)} ({_range(passes, 0)}, {of.counted:,} reviewed logs); the "
        f"evaluator says {percent(1 - of.flagged.value, 0)}{kappa}."
    )


def _agrees(kappa: float) -> str:
    return next((word for bound, word in _WORDS if kappa <= bound), "almost perfectly")


def _range(estimate: Estimate, places: int = 1) -> str:
    if estimate.interval is None:
        return "no interval"
    low, high = estimate.interval
    return f"{100 * low:.{places}f} to {100 * high:.{places}f}"


def _agreement(request: Request, evaluator: str) -> EvaluatorAgreement | None:
    cache = request.app.state.__dict__.setdefault("people", {})
    time_computed, result = cache.get(evaluator, (-_CACHE_SECONDS, None))
    if time.monotonic() - time_computed > _CACHE_SECONDS:
        result = next((one for one in agreement(store_of(request), evaluator).evaluators), None)
        cache[evaluator] = (time.monotonic(), result)
    return result  # type: ignore[no-any-return]
