"""The sentences that the overview begins with: how good the answers are, since when, and what people say of it."""

import time
from collections.abc import Callable, Hashable
from typing import Any

from fastapi import Request

from ragtrace.console.access import store_of
from ragtrace.console.chatlogs.overview import Check
from ragtrace.console.chatlogs.store import Store
from ragtrace.console.pages.incidents import worse_since
from ragtrace.console.pages.template_filters import moment, percent
from ragtrace.console.review import true_shares
from ragtrace.statistics import Estimate
from ragtrace.statistics.true_share import TrueShare

_CACHE_SECONDS, _CACHE_SIZE = 60.0, 100
"""For so long, and so many, figures are cached that read all scores of a time."""


def verdict_note(  # noqa: PLR0917 a share and its time
    request: Request, check: Check, before: Estimate | None, period: str, since: float, until: float, app: str
) -> dict[str, str]:
    """The verdict on the answers by one evaluator with a share of passes. `before` is its share in as long a time
    before, `period` the name of the time from `since` to `until`, e.g. `last 7 days`.

    The sentences are `evaluator` and `people` (empty where people have judged too little); `kind` is how they are
    shown: `good`, `bad`, or empty where there is nothing to compare with."""
    assert check.passes is not None
    turn = change(check.passes, before)
    kind = {"worse": "bad", "better": "good"}.get(turn, "")
    is_as_before = before is not None and before.interval and check.passes.value >= before.interval[0]
    if not kind and is_as_before and check.passes.interval and check.passes.interval[0] > 0.5:
        kind = "good"
    people = _people(request, check.evaluator, app, since, until)
    return {"kind": kind, "evaluator": _evaluator(check, check.passes, before, turn, period), "people": people}


def silence_note(evaluator: str, before: Estimate, period: str) -> dict[str, str]:
    """The verdict where an evaluator gives none any more."""
    text = f"{_title(evaluator)}: no answer has a verdict in the {period}; {percent(before.value)} passed before"
    return {"kind": "bad", "evaluator": f"{text} (n = {before.count:,}).", "people": ""}


def change(now: Estimate | None, before: Estimate | None) -> str:
    """`better` or `worse` where the intervals of two shares of passes do not touch, else empty."""
    if now is None or before is None or now.interval is None or before.interval is None:
        return ""
    if now.interval[0] > before.interval[1]:
        return "better"
    return "worse" if now.interval[1] < before.interval[0] else ""


def _evaluator(check: Check, now: Estimate, before: Estimate | None, turn: str, period: str) -> str:
    passes = f"{_title(check.evaluator)}: {percent(now.value)} of the answers pass ({_range(now)}, n = {now.count:,})"
    if before is None:
        return f"{passes} in the {period}."
    earlier = f"{percent(before.value)} before (n = {before.count:,})"
    if turn == "worse":
        since = worse_since(check.line, before)
        return f"{passes}, fewer than the {earlier}" + (f", since about {moment(since)} UTC." if since else ".")
    return f"{passes}, more than the {earlier}." if turn else f"{passes}. That is no clear change from {earlier}."


def _title(evaluator: str) -> str:
    return evaluator.replace("_", " ").capitalize()


def _people(request: Request, evaluator: str, app: str, since: float, until: float) -> str:
    """Of the period; where people have judged too little of it, of the last month."""

    def share(start: float) -> TrueShare | None:
        key = ("people", evaluator, app, round(until - start))
        result: TrueShare | None = cached(
            request, key, lambda store: true_shares.estimate(store, evaluator, start, until, app)
        )
        return result

    own = share(since)
    if own is not None and own.verdicts >= true_shares.LEAST:
        return true_shares.sentence(own)
    month = share(until - true_shares.MONTH)
    text = true_shares.sentence(month)
    return text and (f"In 30 days: {text}" if month is not own else text)


def _range(estimate: Estimate) -> str:
    if estimate.interval is None:
        return "no interval"
    low, high = estimate.interval
    return f"{100 * low:.1f} to {100 * high:.1f}"


def cached(
    request: Request, key: Hashable, compute: Callable[[Store], Any], is_final: Callable[[], bool] = lambda: True
) -> Any:
    """The result of `compute`, at most a minute old; one that is not final is computed again each time."""
    cache = request.app.state.__dict__.setdefault("figures", {})
    computed, figures = cache.get(key, (float("-inf"), None))
    if time.monotonic() - computed > _CACHE_SECONDS:
        figures = compute(store_of(request))
        if len(cache) >= _CACHE_SIZE:
            cache.clear()
        if is_final():
            cache[key] = (time.monotonic(), figures)
    return figures
