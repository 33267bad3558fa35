"""`/`: how good the answers are, how sure that is, what goes wrong and where."""

import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlencode

from fastapi import APIRouter, Request
from sqlalchemy import select
from starlette.responses import Response

from ragtrace.console.access import Viewer, store_of
from ragtrace.console.chatlogs import overview as figures
from ragtrace.console.chatlogs import schema, search
from ragtrace.console.chatlogs.costs import MOST, costs
from ragtrace.console.chatlogs.overview import Check, Overview, Traffic, ordered
from ragtrace.console.chatlogs.store import Store
from ragtrace.console.pages import page_charts
from ragtrace.console.pages.filters import RANGE_NAMES, RANGES, range_or_default
from ragtrace.console.pages.incidents import open_incidents, worse_since
from ragtrace.console.pages.page_charts import Point
from ragtrace.console.pages.template_filters import count, moment, percent, render
from ragtrace.console.pages.trace_view import seconds
from ragtrace.console.review import true_shares
from ragtrace.console.visible_content import may_read_personal_data
from ragtrace.statistics import Estimate
from ragtrace.statistics.true_share import TrueShare

router = APIRouter()
MAX_CARDS, MANY = 6, 10
"""Evaluators whose charts are not folded away; verdicts of the time before whose absence is no chance."""


@dataclass(frozen=True, slots=True)
class Card:
    """One evaluator's rate with its way over time."""

    check: Check
    before: Estimate | None
    """As long a time before."""
    change: str
    """`better`, `worse`, or empty where the intervals leave it open."""
    chart: str
    address: str
    """Its failures in this time."""


@router.get("/")
def overview(request: Request, user: Viewer, range: str = "", app: str = "") -> Response:
    """The page."""
    store, now = store_of(request), time.time()
    range = range_or_default(range, store, now)
    since = figures.begin_of(RANGES[range], now)
    figures_ = _begun(figures.overview(store, since, now, app[:200]), now)
    before = figures.pass_rates(store, figures_.since - RANGES[range], figures_.since, app[:200])
    cards = _cards(store, figures_, before, {"range": range, "app": app} if app else {"range": range})
    main = next((card for card in cards if card.check.passes), None)
    first = main.check.evaluator if main else ""
    incidents = cached(request, ("incidents", first, app[:200]), lambda _: open_incidents(store, first, now, app[:200]))
    may_read = may_read_personal_data(request, user)
    past = {name: rate for name, rate in before.items() if rate is not None and rate.count >= MANY}
    leading, note = next(iter(ordered([*past, *([first] if first else [])])), ""), None
    if leading != first and figures_.total.requests:
        note = silence_note(leading, past[leading], dict(RANGE_NAMES)[range])
    elif main:
        note = verdict_note(request, main.check, main.before, dict(RANGE_NAMES)[range], since, now, app[:200])
    return render(
        request, "overview.html.j2", o=figures_, cards=cards[:MAX_CARDS], more=cards[MAX_CARDS:], main=main, note=note,
        incidents=[incident for incident in incidents if not incident.is_tenant or may_read], address=store.name,
        requests=_requests(figures_.traffic), latency=_latency(figures_.traffic),
        causes=page_charts.shares([(name, n) for name, n in figures_.causes.items() if name != "none"][:8]),
        has_causes=bool(figures_.causes),
        cost=sum(check.cost for check in figures_.checks), most_costs=MOST,
        model_costs=costs(store, since, now, app[:200], most=5 if may_read else 0),
        failed=sum(check.errors for check in figures_.checks), range=range, ranges=RANGE_NAMES, app=app,
        apps=search.choices(store).get("app", []),
    )  # fmt: skip


def _begun(figures_: Overview, now: float) -> Overview:
    """Without a last point of time that has hardly begun: its few requests would look like a turn."""
    starts = [step.start for step in figures_.traffic]
    if len(starts) < 2 or now - starts[-1] > 0.5 * (starts[-1] - starts[-2]):
        return figures_
    checks = tuple(replace(check, line=check.line[:-1]) for check in figures_.checks)
    return replace(figures_, traffic=figures_.traffic[:-1], checks=checks)


def _cards(
    store: Store, figures_: Overview, past: Mapping[str, Estimate | None], state: Mapping[str, str]
) -> list[Card]:
    switches = _switches(store, figures_)
    by_name = {check.evaluator: check for check in figures_.checks if check.passes is not None}
    cards = []
    for name in ordered(list(by_name)):
        check = by_name[name]
        address = "/traces?" + urlencode({"evaluator": name, "label": "fail", **state})
        points = [page_charts.share(step.start, step.passes) for step in check.line]
        rates = page_charts.rates(points, f"Pass rate of {name[:60]} over time", switches.get(name, ()))
        cards.append(Card(check, past.get(name), change(check.passes, past.get(name)), rates, address))
    return cards


def _switches(store: Store, figures_: Overview) -> dict[str, list[tuple[float, str]]]:
    """Versions after the first that began to score in this time: what looks like a change of the answers may be one of
    the ruler."""
    table = schema.evaluators
    query = select(table.c.name, table.c.version, table.c.first_seen).order_by(table.c.first_seen)
    switches: dict[str, list[tuple[float, str]]] = {}
    versions: set[str] = set()
    for name, version, first in store.rows(query):
        if name in versions and figures_.since <= first < figures_.until:
            switches.setdefault(name, []).append((first, f"version {version[:40]} since {moment(first)}"))
        versions.add(name)
    return switches


def _requests(traffic: Sequence[Traffic]) -> str:
    points, bad = [], []
    for step in traffic:
        share = step.errors.value if step.errors else 0.0
        title = f"{moment(step.start)}: {count(step.requests)} requests, {percent(share)} errors"
        points.append(Point(step.start, step.requests, title=title if step.requests else ""))
        bad.append(step.requests * share)
    return page_charts.columns(points, bad, "Requests over time, errors at the foot")


def _latency(traffic: Sequence[Traffic]) -> str:
    half, most = [], []
    for step in traffic:
        quantiles = ", ".join(f"{100 * q:.0f} % within {seconds(v)}" for q, v in sorted(step.latency.items()))
        title = f"{moment(step.start)}: {quantiles}" if quantiles else ""
        half.append(Point(step.start, step.latency.get(0.5), title=title))
        most.append(Point(step.start, step.latency.get(0.9)))
    return page_charts.lines(half, most, "Duration of half and of nine in ten requests over time", "s")


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
    is_high = check.passes.interval and check.passes.interval[0] > 0.5
    if not kind and is_as_before and is_high and check.errors <= check.passes.count / 10:
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
    errors = f"; {check.errors:,} checks failed to run" if check.errors else ""
    sample = f"{_range(now)}, n = {now.count:,}{errors}"
    passes = f"{_title(check.evaluator)}: {percent(now.value)} of the answers pass ({sample})"
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
