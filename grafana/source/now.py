"""The first rows of the overview: is it all right now, since when not, for whom, and why?"""

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
from rule import DECIDED, EXPECTED, INCIDENT, LEAST, OBJECTIVE, RISE, wilson

MARGIN = 0.03
"""How far above its own day before an application may be that has no objective."""
ALERTS = f'alertname=~"Ragtrace.*",{S}'
STATES = (("good", GREEN), ("perhaps worse", YELLOW), ("bad", RED), ("no data", RED))
APPLICATION = {"app": "application", "env": "environment"}
LOG_LINES = (
    '/explore?left={"datasource":"loki","queries":[{"refId":"A","expr":"{service_name=\\"${__data.fields.application}\\"}"}],'
    '"range":{"from":"${__from}","to":"${__to}"}}'
)
"""Loki's lines of an application, which have its `service.name` as a label when they came over OTLP."""


ALL = f'{T},group=""'


def recent(what: str, at: str = "") -> str:
    """Returns the query of fails or evaluations of one hour, or of six where one has too few evaluations."""
    hour, six = (f"ragtrace:{what}{w}{{{ALL}}}{at}" for w in ("1h", "6h"))
    return f"({hour} and ragtrace:evaluations1h{{{ALL}}}{at} >= {LEAST} or {six})"


def rate(at: str = "") -> str:
    """Returns the query of the failing share of that time."""
    return f"({recent('fails', at)} / ({recent('evaluations', at)} > 0))"


def bound(sign: str, at: str = "") -> str:
    """Returns the query of its lower (-) or upper (+) bound."""
    return f"({wilson(rate(at), recent('evaluations', at), sign)})"


def limit(at: str = "") -> str:
    """Returns the query of the share that may fail: by the objective, or else what is usual at this hour."""
    allowed = f"0 * {EXPECTED}{{{ALL}}}{at} + on (app, evaluator) group_left () (1 - {OBJECTIVE}{at})"
    return f"({allowed} or ({EXPECTED}{{{ALL}}}{at} + {MARGIN}))"


def by_app(expr: str) -> str:
    return f"max by (app, env, evaluator) ({expr})"


def firing(severity: str = "") -> str:
    select = f'{ALERTS},severity="{severity}"' if severity else ALERTS
    return f'ALERTS{{{select},alertstate="firing"}}'


def now(page: Page) -> None:
    """Firing alerts, the worst application, all applications, groups and causes."""
    for title, severity, color, width in (("Pages", "page", RED, 4), ("Tickets", "ticket", YELLOW, 2)):
        page.number(
            title, f"Alerts of the severity {severity} that fire now; one that several windows see counts once. Metric: `ALERTS`",
            f"count(group by (alertname, app, env, evaluator) ({firing(severity)})) or vector(0)", "none",
            ((None, GREEN), (1, color)), w=width, h=6, decimals=0,
        )  # fmt: skip
    _worst(page)
    page.columns(
        "Firing alerts", "What fires, for whom, and since when. Metric: `ALERTS_FOR_STATE`",
        {"severity": "severity", "alertname": "alert", **APPLICATION, "evaluator": "evaluator"},
        [Column("since", "min by (severity, alertname, app, env, evaluator) " f"((ALERTS_FOR_STATE{{{ALERTS}}} and ignoring (alertstate) {firing()}) * 1000)", SINCE)],
        w=12, h=6, sort="since", none="nothing fires",
    )  # fmt: skip
    _applications(page)
    _groups(page)
    _causes(page)
    _changes(page)
    _instances(page)


def _worst(page: Page) -> None:
    end = " @ end()"
    worst = f"topk(1, {rate(end)} - on (app, env, evaluator) {limit(end)})"
    surely = f"{bound('-', end)} > on (app, env, evaluator) {limit(end)}"
    passes = f"1 - {rate()} and on (app, env, evaluator) {worst}"
    page.verdict(
        "Worst application now",
        "Share of answers that pass in the last hour (six, with fewer than 30 effective evaluations), of the application that is farthest beyond its objective, or beyond what is usual at this hour where it has none. Red: more than chance explains, or no evaluations. Metric: `ragtrace:fails1h`",
        f"{passes} and on (app, env, evaluator) ({surely})", f"{passes} unless on (app, env, evaluator) ({surely})",
        f"1 - {limit()} and on (app, env, evaluator) {worst}", absent=f"0 * absent({recent('evaluations')} > 0)", w=6, h=6,
        data_links=to_answers(),
    )  # fmt: skip


def _applications(page: Page) -> None:
    state = " + ".join(f"({each} > bool on (app, env, evaluator) {limit()})" for each in (rate(), bound("-")))
    silent = f"0 * {EXPECTED}{{{ALL}}} + 3"
    left = (
        f"1 - ragtrace:fails7d{{{ALL}}} / ragtrace:evaluations7d / on (app, evaluator) group_left () (1 - {OBJECTIVE})"
    )
    page.columns(
        "Applications, worst first",
        "Failing share of the last hour (six, with fewer than 30 effective evaluations) with its 95 % bounds and effective evaluations n, beside what the objective allows, or else what is usual at this hour and 3 points. Bad: beyond what chance explains. No data: evaluated before, and not now. People: the share that they would fail (the console's metric). Metric: `ragtrace:fails1h`",
        {**APPLICATION, "evaluator": "evaluator"},
        [Column("state", f"{by_app(state)} or {by_app(silent)}", states(STATES)), Column("fails", by_app(rate())), Column("at least", by_app(bound("-"))), Column("at most", by_app(bound("+"))), Column("n", by_app(recent("evaluations")), COUNT), Column("may fail", by_app(limit())), Column("usual", by_app(f"{EXPECTED}{{{ALL}}}")), Column("people", by_app(f"0 * {EXPECTED}{{{ALL}}} + on (app, evaluator) group_left () " 'max by (app, evaluator) (ragtrace_true_failure_ratio{bound="estimate"})')), Column("budget left, 7 days", by_app(left)), Column("fallen since", f"min by (app, env, evaluator) ({RISE}{{{T}}} and ignoring (size) {INCIDENT}{{{T}}}) * 1000", SINCE)],
        w=24, h=6, sort="fails",
        data_links=[link("What failed", "${chatlog_url}/traces?app=${__data.fields.application}&env=${__data.fields.environment}" f"&evaluator=${{__data.fields.evaluator}}&label=fail{TIME}"), link("Log lines (Loki)", LOG_LINES), runbook("RagtraceQualityDrop")],
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
        "Failing share by application, model and prompt version, with its 95 % bounds and effective evaluations n. Sorted by the lower bound, so that few evaluations are not the worst. Metric: `ragtrace_evaluation_weight_total`",
        {**APPLICATION, "evaluator": "evaluator", "model": "model", "prompt_version": "prompt version"},
        [Column("fails", rate), Column("at least", wilson(rate, samples, "-")), Column("at most", wilson(rate, samples, "+")), Column("n", samples, COUNT)],
        w=14, h=7, sort="at least",
        data_links=[link("What failed", "${chatlog_url}/traces?app=${__data.fields.application}&env=${__data.fields.environment}" '&model=${__data.fields.model}&prompt_version=${__data.fields["prompt version"]}' f"&evaluator=${{__data.fields.evaluator}}&label=fail{TIME}")],
    )  # fmt: skip


def _causes(page: Page) -> None:
    counted = f"increase(ragtrace_failure_cause_weight_total{{{M},{BAD}}}[1h])"
    page.columns(
        "Main causes of bad answers, last hour",
        "Share of each application's bad answers by cause, and how many requests an hour that are; both weighted by 1/p. `answered_without_context`, `nothing_retrieved` and `irrelevant_context` are retrieval's. Metric: `ragtrace_failure_cause_weight_total`",
        {**APPLICATION, "cause": "cause"},
        [Column("share", f"sum by (app, env, cause) ({counted}) / on (app, env) group_left () " f"(sum by (app, env) ({counted}) > 0) > 0", {"custom.cellOptions": {"type": "gauge", "mode": "basic"}, "min": 0, "max": 1}), Column("requests an hour", f"sum by (app, env, cause) ({counted}) > 0", COUNT)],
        w=10, h=7, sort="requests an hour",
        data_links=[link("The answers", "${chatlog_url}/traces?app=${__data.fields.application}&env=${__data.fields.environment}" f"&cause=${{__data.fields.cause}}{TIME}")],
    )  # fmt: skip


def _changes(page: Page) -> None:
    def first(metric: str, labels: str, what: str) -> str:
        """Returns the query of when a value of a label was first there, unless it was there from the beginning."""
        new = "".join(f',{label}!=""' for label in labels.split())
        joined = ", ".join(f'"{label}"' for label in labels.split())
        times = f"min_over_time(timestamp({metric}{{{S}{new}}})[$__range:5m]) * 1000"
        value = f'label_join({times}, "value", " ", {joined})'
        row = f'label_replace({value}, "what", "{what}", "app", ".*")'
        return f"min by (app, env, what, value) ({row}) > (time() - $__range_s + 600) * 1000"

    changes = (
        ("ragtrace_requests_total", "prompt_version", "prompt version"),
        ("ragtrace_requests_total", "model", "model"),
        ("ragtrace_evaluator_info", "evaluator version", "evaluator"),
        ("ragtrace_build_info", "version", "ragtrace"),
    )
    page.columns(
        "What changed",
        "Prompt versions, models, and versions of evaluators and of ragtrace that are new in the time shown, the latest first. Metric: `ragtrace_requests_total`",
        {**APPLICATION, "what": "what", "value": "value"}, [Column("since", " or ".join(first(*each) for each in changes), SINCE)],
        w=10, h=7, sort="since", none="nothing changed",
    )  # fmt: skip


def _instances(page: Page) -> None:
    def total(what: str, select: str) -> str:
        return f"sum by (app, env, cluster, instance) (increase(ragtrace_{what}_total{{{select}}}[1h]))"

    requests, decided = (f"({total(*each)} > 0)" for each in (("requests", M), ("evaluation_weight", f"{E},{DECIDED}")))
    errors, fails = total("requests", f'{M},status="error"'), total("evaluation_weight", f'{E},verdict="fail"')
    page.columns(
        "Which instance, last hour",
        "Requests, and the shares of them that end in an error and whose answers fail the chosen evaluators, by cluster and instance as Prometheus names them. Metric: `ragtrace_requests_total`",
        {**APPLICATION, "cluster": "cluster", "instance": "instance"},
        [Column("requests", requests, COUNT), Column("errors", f"({errors} or 0 * {requests}) / {requests}"), Column("fails", f"({fails} or 0 * {decided}) / {decided}")],
        w=14, h=7, sort="fails",
    )  # fmt: skip
