"""`/`: how good the answers are, how sure that is, what goes wrong and where."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
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
from ragtrace.console.pages.incidents import open_incidents
from ragtrace.console.pages.page_charts import Point
from ragtrace.console.pages.template_filters import count, moment, percent, render
from ragtrace.console.pages.trace_view import seconds
from ragtrace.console.pages.verdict_note import cached, change, silence_note, verdict_note
from ragtrace.console.visible_content import may_read_personal_data
from ragtrace.statistics import Estimate

router = APIRouter()
MAX_CARDS = 6
"""Evaluators whose charts are not folded away."""


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
    leading = next(iter(ordered([name for name in {first, *(n for n, rate in before.items() if rate)} if name])), "")
    note = None
    if leading != first and figures_.total.requests and (past := before[leading]) is not None:
        note = silence_note(leading, past, dict(RANGE_NAMES)[range])
    elif main:
        note = verdict_note(request, main.check, main.before, dict(RANGE_NAMES)[range], since, now, app[:200])
    return render(
        request, "overview.html.j2", o=figures_, cards=cards[:MAX_CARDS], more=cards[MAX_CARDS:], main=main,
        note=note,
        incidents=[incident for incident in incidents if not incident.is_tenant or may_read], address=store.name,
        requests=_requests(figures_.traffic), latency=_latency(figures_.traffic),
        causes=page_charts.shares([(name, n) for name, n in figures_.causes.items() if name != "none"][:8]),
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
