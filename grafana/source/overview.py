"""Is it healthy now?"""

from __future__ import annotations

from panels import (
    BAD_HIGH,
    DECIDED,
    GOOD_HIGH,
    GREEN,
    RED,
    YELLOW,
    E,
    F,
    M,
    Page,
    S,
    link,
    over,
    quantile,
    runbook,
    to_answers,
    weighted,
)
from quality import DROPS

AT = next(z for window, z, *_ in DROPS if window == "1h")
"""Standard errors from which an hour's fall pages."""


def overview() -> Page:
    page = Page(
        "ragtrace-overview", "ragtrace · Assistant overview", "Is it answering well, and who must look at what?"
    )
    _now(page)
    _pass_rates(page)
    _drops_and_scores(page)
    _service(page)
    return page


def _now(page: Page) -> None:
    """The figures of the time that is shown."""
    page.number(
        "Faithful answers",
        "Share of all answers that are faithful, weighted by 1/p. Metric: `ragtrace_evaluation_weight_total`",
        over(
            f'increase(ragtrace_evaluation_weight_total{{{F},verdict="pass"}}[$__range])',
            f"increase(ragtrace_evaluation_weight_total{{{F},{DECIDED}}}[$__range])",
        ),
        "percentunit",
        GOOD_HIGH,
        links=[
            link("What failed", "${chatlog_url}/traces?evaluator=faithfulness&label=fail"),
            runbook("RagtraceQualityDrop"),
        ],
    )
    page.number(
        "Faithful, surely at least",
        "Lower bound (95 %) of the worst application's share of faithful answers over 6 hours. Metric: "
        "`app_evaluator:ragtrace_evaluation_fail:wilson_upper6h`",
        f'1 - max(app_evaluator:ragtrace_evaluation_fail:wilson_upper6h{{{S},evaluator="faithfulness"}})',
        "percentunit",
        GOOD_HIGH,
    )
    page.number(
        "Error budget left, 7 days",
        "1 - failures of a week / failures that the objective allows, of the worst application. Below 0 the objective is "
        "missed. Metric: `app_evaluator:ragtrace_evaluation_fail:ratio_ipw_rate7d`",
        f'1 - max(app_evaluator:ragtrace_evaluation_fail:ratio_ipw_rate7d{{{S},evaluator="faithfulness"}}'
        " / on (app, env, evaluator) app_evaluator:ragtrace_evaluation_fail:allowed)",
        "percentunit",
        ((None, RED), (0, YELLOW), (0.25, GREEN)),
        links=[runbook("RagtraceQualityBudgetBurn")],
    )
    page.number(
        "Requests",
        "Requests a second. Metric: `ragtrace_requests_total`",
        f"sum(rate(ragtrace_requests_total{{{M}}}[$__range]))",
        "reqps",
    )
    page.number(
        "Errors",
        "Share of the requests that ended in an error. Metric: `ragtrace_requests_total`",
        over(
            f'rate(ragtrace_requests_total{{{M},status="error"}}[$__range])',
            f"rate(ragtrace_requests_total{{{M}}}[$__range])",
        ),
        "percentunit",
        BAD_HIGH,
        links=[runbook("RagtraceRequestErrors")],
    )
    page.number(
        "Latency p95",
        "95th percentile of the requests' durations. Metric: `ragtrace_request_duration_seconds`",
        quantile(0.95, "ragtrace_request_duration_seconds", S, window="$__range"),
        "s",
        ((None, GREEN), (5, YELLOW), (15, RED)),
    )


def _pass_rates(page: Page) -> None:
    """Pass rates, their bounds and the error budget."""
    page.row("Quality")
    page.lines(
        "Pass rate",
        "Share of answers that pass, weighted by 1/p, in half an hour. Metric: `ragtrace_evaluation_weight_total`",
        [(
            over(weighted(E, 'verdict="pass"', "30m"), weighted(E, DECIDED, "30m"), "app, evaluator"),
            "{{app}} {{evaluator}}",
        )],
        "percentunit",
        ((None, RED), (0.9, GREEN)),
        low=None,
        high=1,
        axis_limit=0.5,
        line=True,
        data_links=to_answers(),
        links=[runbook("RagtraceQualityDrop")],
    )  # fmt: skip
    page.lines(
        "Failing share with its bounds, 6 hours",
        "Estimate and, dashed, its 95 % bounds (Wilson on Kish's effective samples). Wide bounds: few evaluations. Metric: "
        "`app_evaluator:ragtrace_evaluation_fail:wilson_upper6h`",
        [
            (
                f'app_evaluator:ragtrace_evaluation_fail:{name}6h{{{S},evaluator=~"$evaluator"}}',
                "{{app}} {{evaluator}}" + word,
            )
            for name, word in (("ratio_ipw_rate", ""), ("wilson_upper", " at most"), ("wilson_lower", " at least"))
        ],
        "percentunit",
        axis_limit=0.2,
        bounds=" at (most|least)$",
        data_links=to_answers(),
    )
    page.lines(
        "Burn of the error budget",
        "How many times faster than the objective allows. 1: just used up at the week's end. Metric: "
        "`app_evaluator:ragtrace_evaluation_fail:allowed`",
        [
            (
                f'app_evaluator:ragtrace_evaluation_fail:ratio_ipw_rate{w}{{{S},evaluator=~"$evaluator"}}'
                " / on (app, env, evaluator) app_evaluator:ragtrace_evaluation_fail:allowed",
                "{{app}} {{evaluator}} " + w,
            )
            for w in ("1h", "6h")
        ],
        "none",
        ((None, GREEN), (1, YELLOW), (2.8, RED)),
        line=True,
        links=[runbook("RagtraceQualityBudgetBurn")],
    )


def _drops_and_scores(page: Page) -> None:
    """The drop detector, the scores and the worst versions."""
    page.lines(
        "Drop detector",
        "Failing share of an hour beside the day before, or the same hours of seven days where it is less, in standard "
        f"errors. Above {AT} it pages where there is an objective. Metric: "
        "`app_evaluator:ragtrace_evaluation_fail:zscore1h`",
        [(f'app_evaluator:ragtrace_evaluation_fail:zscore1h{{{S},evaluator=~"$evaluator"}}', "{{app}} {{evaluator}}")],
        "none",
        ((None, GREEN), (3, YELLOW), (AT, RED)),
        low=None,
        line=True,
        links=[runbook("RagtraceQualityDrop")],
    )
    page.heat(
        "Faithfulness scores",
        "How many answers had which score, of those that were evaluated (not weighted). Metric: `ragtrace_evaluation_score`",
        f'sum by (le) (increase(ragtrace_evaluation_score_bucket{{{S},evaluator="faithfulness"}}[$__rate_interval]))',
    )
    page.rows(
        "Worst models and prompt versions",
        "Failing share by application, model and prompt version, worst first. Metric: `ragtrace_evaluation_weight_total`",
        "topk(20, "
        + over(
            f'increase(ragtrace_evaluation_weight_total{{{E},verdict="fail"}}[$__range])',
            f"increase(ragtrace_evaluation_weight_total{{{E},{DECIDED}}}[$__range])",
            "app, evaluator, model, prompt_version",
        )
        + ")",
        "percentunit",
        "failing share",
        columns=("app", "evaluator", "model", "prompt_version"),
        decimals=1,
    )


def _service(page: Page) -> None:
    """Traffic, latency, cost and tokens."""
    page.row("Service")
    page.lines(
        "Requests by outcome",
        "Requests a second. Metric: `ragtrace_requests_total`",
        [(f"sum by (status) (rate(ragtrace_requests_total{{{M}}}[$__rate_interval]))", "{{status}}")],
        "reqps",
        stacked=True,
        w=8,
    )
    page.lines(
        "Latency",
        "Percentiles of the requests' durations; a dot is one request. Metric: `ragtrace_request_duration_seconds`",
        [(quantile(q, "ragtrace_request_duration_seconds", S), f"p{int(q * 100)}") for q in (0.5, 0.95)],
        "s",
        w=8,
        dots=1,
        data_links=[link("Trace", "${trace_url}/${__data.fields.trace_id}")],
    )
    page.lines(
        "Time to first token",
        "Percentiles over streamed requests. Metric: `ragtrace_time_to_first_chunk_seconds`",
        [(quantile(q, "ragtrace_time_to_first_chunk_seconds", S), f"p{int(q * 100)}") for q in (0.5, 0.95)],
        "s",
        w=8,
        dots=1,
    )
    page.lines(
        "Time by stage, p95",
        "95th percentile of what each stage of a request takes. Metric: `ragtrace_stage_duration_seconds`",
        [(quantile(0.95, "ragtrace_stage_duration_seconds", S, "le, stage"), "{{stage}}")],
        "s",
        w=8,
    )
    page.lines(
        "Cost an hour",
        "US dollars an hour, of answers (where prices are set) and of the judge. Metric: `ragtrace_cost_usd_total`",
        [(f"sum by (component) (rate(ragtrace_cost_usd_total{{{S}}}[1h])) * 3600", "{{component}}")],
        "currencyUSD",
        stacked=True,
        w=8,
    )
    page.lines(
        "Tokens a second",
        "Tokens by direction. Metric: `ragtrace_tokens_total`",
        [(f"sum by (direction) (rate(ragtrace_tokens_total{{{S}}}[$__rate_interval]))", "{{direction}}")],
        "none",
        stacked=True,
        w=8,
    )
