"""What is wrong now: the open incidents that the overview begins with."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

from sqlalchemy import func, select

from ragtrace.console.chatlogs.overview import overview, pass_rates
from ragtrace.console.chatlogs.schema import in_period, traces
from ragtrace.console.chatlogs.side_by_side import Side, compare_sides, names_in_use
from ragtrace.console.chatlogs.store import Store
from ragtrace.console.comparison_sides import KINDS, SideChoice, choices, two_sides, with_defaults
from ragtrace.console.pages.template_filters import percent
from ragtrace.console.review import true_shares
from ragtrace.console.topics.topic_figures import topic_report
from ragtrace.statistics import Estimate, Step
from ragtrace.statistics.differences import change_verdicts

_HOUR, _DAY, _WEEK = 3_600.0, 86_400.0, 7 * 86_400.0
_MOST_APPS, _MOST_TENANTS = 5, 20
_ERRORS, _LOST = 0.1, 0.5
"""Shares of requests that end in an error, or whose retrieval finds nothing, from which it is an outage."""
_LEAST = 20
"""Requests of an hour below which they are no outage."""


@dataclass(frozen=True, slots=True)
class Incident:
    """Something that is worse than before."""

    who: str
    """An application, prompt version, model, tenant or topic."""
    what: str
    """How much worse, in a sentence."""
    since: float | None
    """Unix time; None where it is not known."""
    address: str
    """The page that shows it."""
    people: str = ""
    """What people would say of these answers; empty where they have judged too few."""
    is_outage: bool = False
    is_tenant: bool = False
    """Whether it names a tenant, which only those who may read personal data see."""


def open_incidents(store: Store, evaluator: str, until: float, app: str = "") -> list[Incident]:
    """The outages of the last hour; then by the verdicts of one evaluator the newest prompt version and model of a week
    that are worse than the ones before, each of the worst applications whose last day is worse than the day before, its
    tenants, and the topics of a week. Worse is beyond chance, as `/compare` has it."""
    hour, day = (overview(store, until - length, until, app) for length in (_HOUR, _DAY))
    alive = [group.name for group in hour.apps if group.evaluated >= _LEAST]
    incidents = [incident for name in alive for incident in _outages(store, until, name)]
    apps = [group.name for group in day.apps[:_MOST_APPS]]
    if not evaluator:
        return incidents
    for name in apps:
        incidents += _falls(store, evaluator, until, name, is_only=len(apps) == 1)
        incidents += _tenants(store, evaluator, until, name)
    return [*incidents, *_topics(store, evaluator, until, app)]


def _outages(store: Store, until: float, app: str) -> Iterator[Incident]:
    hour = overview(store, until - _HOUR, until, app)
    requests, errors = hour.total.requests, hour.total.errors
    address = "/traces?" + urlencode({"app": app, "range": "24h"})
    if errors is not None and errors.interval is not None and errors.interval[0] > _ERRORS:
        steps = [(step.start, step.errors) for step in overview(store, until - _DAY / 2, until, app, 144).traffic]
        what = f"{percent(errors.value)} of the requests of the last hour end in an error."
        yield Incident(app, what, _begin(steps, lambda value: value > _ERRORS), f"{address}&errors=yes", "", True)
    lost = {cause: n for cause, n in hour.causes.items() if cause in ("nothing_retrieved", "answered_without_context")}
    share = sum(lost.values()) / max(requests, 1e-9)
    if share > _LOST:
        what = f"The retrieval finds nothing for {percent(share)} of the requests of the last hour."
        yield Incident(app, what, None, f"{address}&cause={max(lost, key=lost.__getitem__)}", "", True)


def _falls(store: Store, evaluator: str, until: float, app: str, *, is_only: bool) -> Iterator[Incident]:
    for kind, plural in KINDS[:3]:
        length = _DAY if kind == "period" else _WEEK
        choice = SideChoice(kind, "", "", until - length, until, app, evaluator)
        names = choices(store, choice)
        choice = with_defaults(choice, names)
        if kind != "period" and len(names) < 2:
            continue
        rows = compare_sides(store, *two_sides(choice), evaluator).rows
        if not rows or rows[0].verdict != "worse":
            continue
        query = {"kind": kind, "a": choice.a, "b": choice.b, "app": app, "evaluator": evaluator}
        of = {} if kind == "period" else {kind: choice.b}
        since = _first(store, kind, choice) if of else _begin_of_fall(store, evaluator, until, app)
        share = true_shares.estimate(store, evaluator, since or until - length, until, app, **of)
        people = true_shares.sentence(share) if share and share.verdicts >= true_shares.LEAST else ""
        who = f"{plural.removesuffix('s')} {choice.b}" if of else app
        who = who if is_only or not of else f"{app}: {who}"
        yield Incident(who, rows[0].sentence, since, f"/compare?{urlencode(query)}", people)


def _tenants(store: Store, evaluator: str, until: float, app: str) -> Iterator[Incident]:
    """The busiest tenants whose last day is worse than their day before, corrected for their number."""
    since = until - _DAY
    counts = names_in_use(store, "tenant", since, until, app)
    rows = {}
    for name in sorted(counts, key=counts.__getitem__)[-_MOST_TENANTS:] if len(counts) > 1 else ():
        before = Side("the day before", since - _DAY, since, app, tenant=name)
        sides = compare_sides(store, before, Side("the last day", since, until, app, tenant=name), evaluator)
        if sides.rows:
            rows[name] = sides.rows[0]
    for name, verdict in zip(rows, change_verdicts([row.difference for row in rows.values()]), strict=True):
        if verdict == "worse":
            query = {"app": app, "tenant": name, "evaluator": evaluator, "label": "fail", "range": "24h"}
            who, address = f"{app}: tenant {name}", f"/traces?{urlencode(query)}"
            yield Incident(who, rows[name].sentence, None, address, is_tenant=True)


def _first(store: Store, column: str, choice: SideChoice) -> float | None:
    """When the first request of B came, in the time of the choice."""
    within = in_period(choice.since, choice.until, choice.app)
    started: float | None = store.scalar(
        select(func.min(traces.c.started)).where(*within, traces.c[column] == choice.b)
    )
    return started


def _begin_of_fall(store: Store, evaluator: str, until: float, app: str) -> float | None:
    rate = pass_rates(store, until - 2 * _DAY, until - _DAY, app).get(evaluator)
    checks = overview(store, until - 2 * _DAY, until, app, 60).checks  # points of an hour
    lines = [check.line for check in checks if check.evaluator == evaluator]
    return worse_since(lines[0], rate) if rate is not None and lines else None


def worse_since(line: Sequence[Step], before: Estimate) -> float | None:
    """The start of the latest run of points that are below the earlier share."""
    return _begin([(step.start, step.passes) for step in line], lambda value: value < before.value)


def _begin(points: Sequence[tuple[float, Estimate | None]], is_bad: Callable[[float], bool]) -> float | None:
    since = None
    for start, estimate in reversed(points):
        if estimate is not None:
            if not is_bad(estimate.value):
                break
            since = start
    return since


def _topics(store: Store, evaluator: str, until: float, app: str) -> Iterator[Incident]:
    for row in topic_report(store, until - _WEEK, until, evaluator, app, worst=0).topics:
        if row.verdict == "worse" and row.id is not None and row.before and row.failures:
            shares = f"{percent(row.before.value)} to {percent(row.failures.value)}"
            address = f"/questions/{row.id}?" + urlencode({"range": "7d", "app": app, "evaluator": evaluator})
            what = f"Failures of its questions rose from {shares} within a week (n = {row.failures.count:,})."
            yield Incident(f"topic “{row.name}”", what, None, address)
