"""The first rows of the overview: is it all right now, since when not, for whom, and why?"""

from __future__ import annotations

from failure_rates import APPS, LOWER, UPPER
from incidents import INCIDENT
from panels import (
    BAD,
    COUNT,
    GREEN,
    RED,
    SINCE,
    TIME,
    YELLOW,
    Column,
    E,
    M,
    Page,
    S,
    T,
    link,
    runbook,
    states,
    to_answers,
)
from quality_alerts import ALLOWED
from rule import DECIDED, LEAST, RATIO, SAMPLES, wilson

BEFORE = APPS.fact("ratio_before_1h")
"""What an hour is compared with: the day before it, or the time since the evaluator changed."""
MARGIN = 0.03
"""How far above its own day before an application may be that has no objective."""
ALERTS = f'alertname=~"Ragtrace.*",{S}'
STATES = (("good", GREEN), ("perhaps worse", YELLOW), ("bad", RED))
APPLICATION = {"app": "application", "env": "environment"}


def recent(name: str, at: str = "") -> str:
    """Returns the query of a recorded figure over one hour, or over six where one has too few evaluations."""
    hour, six = (f"{name}{w}{{{T}}}{at}" for w in ("1h", "6h"))
    return f"({hour} and {SAMPLES}1h{{{T}}}{at} >= {LEAST} or {six})"


def limit(at: str = "") -> str:
    """Returns the query of the share that may fail: by the objective, or else by the application's own day before."""
    before = f"{BEFORE}{{{T}}}{at} + {MARGIN}"
    return f"({ALLOWED}{{{T}}}{at} or on (app, env, evaluator) ({before}))"


def by_app(expr: str) -> str:
    return f"max by (app, env, evaluator) ({expr})"


def firing(severity: str = "") -> str:
    select = f'{ALERTS},severity="{severity}"' if severity else ALERTS
    return f'ALERTS{{{select},alertstate="firing"}}'


def now(page: Page) -> None:
    """Firing alerts, the worst application, all applications, groups and causes."""
    for title, severity, color in (("Pages", "page", RED), ("Tickets", "ticket", YELLOW)):
        page.number(
            title,
            f"Alerts of the severity {severity} that fire now; one that several windows see counts once. Metric: `ALERTS`",
            f"count(group by (alertname, app, env, evaluator) ({firing(severity)})) or vector(0)",
            "none",
            ((None, GREEN), (1, color)),
            w=3,
            h=6,
            decimals=0,
        )
    _worst(page)
    page.columns(
        "Firing alerts",
        "What fires, for whom, and since when. Metric: `ALERTS_FOR_STATE`",
        {"severity": "severity", "alertname": "alert", **APPLICATION, "evaluator": "evaluator"},
        [
            Column(
                "since",
                "min by (severity, alertname, app, env, evaluator) "
                f"((ALERTS_FOR_STATE{{{ALERTS}}} and ignoring (alertstate) {firing()}) * 1000)",
                SINCE,
            )
        ],
        w=12,
        h=6,
        sort="since",
        none="nothing fires",
    )
    _applications(page)
    _groups(page)
    _causes(page)


def _worst(page: Page) -> None:
    end = " @ end()"
    worst = f"topk(1, {recent(RATIO, end)} - on (app, env, evaluator) {limit(end)})"
    surely = f"{recent(LOWER, end)} > on (app, env, evaluator) {limit(end)}"
    passes = f"1 - {recent(RATIO)} and on (app, env, evaluator) {worst}"
    page.verdict(
        "Worst application now",
        "Share of answers that pass in the last hour (six, with fewer than 30 effective evaluations), of the application "
        "that is farthest beyond its objective, or beyond its own day before where it has none. Red: more than chance "
        f"explains. Metric: `{RATIO}1h`",
        f"{passes} and on (app, env, evaluator) ({surely})",
        f"{passes} unless on (app, env, evaluator) ({surely})",
        f"1 - {limit()} and on (app, env, evaluator) {worst}",
        w=6,
        h=6,
        none="no evaluations",
        data_links=to_answers(),
    )


def _applications(page: Page) -> None:
    state = " + ".join(f"({recent(name)} > bool on (app, env, evaluator) {limit()})" for name in (RATIO, LOWER))
    page.columns(
        "Applications, worst first",
        "Failing share of the last hour (six, with fewer than 30 effective evaluations) with its 95 % bounds and effective "
        "evaluations n, beside what the objective allows, or else the day before and 3 points. Bad: beyond what chance "
        f"explains. Metric: `{RATIO}1h`",
        {**APPLICATION, "evaluator": "evaluator"},
        [
            Column("state", by_app(state), states(STATES)),
            Column("fails", by_app(recent(RATIO))),
            Column("at least", by_app(recent(LOWER))),
            Column("at most", by_app(recent(UPPER))),
            Column("n", by_app(recent(SAMPLES)), COUNT),
            Column("may fail", by_app(limit())),
            Column("before", by_app(f"{BEFORE}{{{T}}}")),
            Column("budget left, 7 days", by_app(f"1 - {RATIO}7d{{{T}}} / on (app, env, evaluator) {ALLOWED}{{{T}}}")),
            Column("fallen since", by_app(f"{INCIDENT}{{{T}}} * 1000"), SINCE),
        ],
        w=24,
        h=6,
        sort="fails",
        data_links=[
            link(
                "What failed",
                "${chatlog_url}/traces?app=${__data.fields.application}&env=${__data.fields.environment}"
                f"&evaluator=${{__data.fields.evaluator}}&label=fail{TIME}",
            ),
            runbook("RagtraceQualityDrop"),
        ],
    )  # fmt: skip


def _groups(page: Page) -> None:
    by = "app, env, evaluator, model, prompt_version"

    def summed(name: str, verdict: str) -> str:
        return f"sum by ({by}) (increase(ragtrace_evaluation_{name}_total{{{E},{verdict}}}[1h]))"

    weight = f"({summed('weight', DECIDED)} > 0)"
    fails = summed("weight", 'verdict="fail"')
    rate = f"({fails} / {weight})"
    samples = f"({weight} ^ 2 / ({summed('weight_squared', DECIDED)} > 0))"
    page.columns(
        "Which group: models and prompt versions, last hour",
        "Failing share by application, model and prompt version, with its 95 % bounds and effective evaluations n. Sorted "
        "by the lower bound, so that few evaluations are not the worst. Metric: `ragtrace_evaluation_weight_total`",
        {**APPLICATION, "evaluator": "evaluator", "model": "model", "prompt_version": "prompt version"},
        [
            Column("fails", rate),
            Column("at least", wilson(rate, samples, "-")),
            Column("at most", wilson(rate, samples, "+")),
            Column("n", samples, COUNT),
        ],
        w=14,
        h=7,
        sort="at least",
        data_links=[
            link(
                "What failed",
                "${chatlog_url}/traces?app=${__data.fields.application}&env=${__data.fields.environment}"
                '&model=${__data.fields.model}&prompt_version=${__data.fields["prompt version"]}'
                f"&evaluator=${{__data.fields.evaluator}}&label=fail{TIME}",
            )
        ],
    )  # fmt: skip


def _causes(page: Page) -> None:
    counted = f"increase(ragtrace_failure_cause_weight_total{{{M},{BAD}}}[1h])"
    page.columns(
        "Main causes of bad answers, last hour",
        "Share of each application's bad answers by cause, and how many requests an hour that are; both weighted by 1/p. "
        "`answered_without_context`, `nothing_retrieved` and `irrelevant_context` are retrieval's. Metric: `ragtrace_failure_cause_weight_total`",
        {**APPLICATION, "cause": "cause"},
        [
            Column(
                "share",
                f"sum by (app, env, cause) ({counted}) / on (app, env) group_left () "
                f"(sum by (app, env) ({counted}) > 0) > 0",
                {"custom.cellOptions": {"type": "gauge", "mode": "basic"}, "min": 0, "max": 1},
            ),
            Column("requests an hour", f"sum by (app, env, cause) ({counted}) > 0", COUNT),
        ],
        w=10,
        h=7,
        sort="requests an hour",
        data_links=[
            link(
                "The answers",
                "${chatlog_url}/traces?app=${__data.fields.application}&env=${__data.fields.environment}"
                f"&cause=${{__data.fields.cause}}{TIME}",
            )
        ],
    )
