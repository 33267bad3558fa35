"""Is it healthy now?"""

from now import now
from panels import (
    A_SECOND,
    APP,
    GREEN,
    RED,
    TIMES,
    YELLOW,
    E,
    M,
    Page,
    S,
    T,
    link,
    quantile,
    runbook,
    to_answers,
    weighted,
)
from rule import DECIDED, OBJECTIVE, fails, share, wilson
from why import why

ALL_REQUESTS = ',group=""'
PAGE_BURN = 2.8
"""How many times faster than the objective allows the budget must burn over six hours for a page."""


def overview() -> Page:
    page = Page(
        "ragtrace-overview", "ragtrace · Assistant overview", "Is it answering well, and who must look at what?"
    )
    now(page)
    _quality(page)
    why(page)
    _service(page)
    _stages(page)
    return page


def _quality(page: Page) -> None:
    """Pass rates, their bounds, the error budget and the scores of each chosen evaluator."""
    page.row("Quality: $evaluator", repeat="evaluator")
    page.lines(
        "Pass rate", "Share of answers that pass, weighted by 1/p, in half an hour. Metric: `ragtrace_evaluation_weight_total`",
        [(share(weighted(E, 'verdict="pass"', "30m"), weighted(E, DECIDED, "30m")), APP)], "percentunit", low=None, high=1,
        axis_limit=0.5, data_links=to_answers(evaluator="${evaluator}"), links=[runbook("RagtraceQualityDrop")],
    )  # fmt: skip
    rate = share(weighted(E, 'verdict="fail"', "6h"), weighted(E, DECIDED, "6h"))
    whole = f"sum by (app, env) (increase(ragtrace_evaluation_weight_total{{{E},{DECIDED}}}[6h]))"
    squares = f"sum by (app, env) (increase(ragtrace_evaluation_weight_squared_total{{{E},{DECIDED}}}[6h]))"
    samples = f"({whole} ^ 2 / ({squares} > 0))"
    page.lines(
        "Failing share with its bounds, 6 hours",
        "Estimate and, dashed, its 95 % bounds (Wilson on Kish's effective samples). Wide bounds: few evaluations. Metric: `ragtrace_evaluation_weight_total`",
        [(rate, APP), (wilson(f"({rate})", samples, "+"), f"{APP} at most"), (wilson(f"({rate})", samples, "-"), f"{APP} at least")],
        "percentunit", axis_limit=0.2, bounds=" at (most|least)$", data_links=to_answers(evaluator="${evaluator}"),
    )  # fmt: skip
    page.lines(
        "Burn of the error budget, 6 hours",
        "How many times faster than the objective allows. 1: just used up at the week's end. Without an objective there is " f"nothing to burn. Metric: `{OBJECTIVE}`",
        [(f"{fails('6h', T + ALL_REQUESTS)} / on (app, evaluator) group_left () (1 - {OBJECTIVE})", APP)], TIMES,
        ((None, GREEN), (1, YELLOW), (PAGE_BURN, RED)), line=True, links=[runbook("RagtraceQualityBudgetBurn")],
    )  # fmt: skip
    page.heat(
        "Scores",
        "How many answers had which score, of those that were evaluated (not weighted). Metric: `ragtrace_evaluation_score`",
        f"sum by (le) (increase(ragtrace_evaluation_score_bucket{{{T}}}[$__rate_interval]))",
    )


def _service(page: Page) -> None:
    """Traffic, errors and latency."""
    page.row("Service")
    page.lines(
        "Requests by outcome", "Requests a second. Metric: `ragtrace_requests_total`",
        [(f"sum by (status) (rate(ragtrace_requests_total{{{M}}}[$__rate_interval]))", "{{status}}")], "reqps", stacked=True, w=8,
    )  # fmt: skip
    page.lines(
        "Requests that fail", "Share of the requests that end in an error, in half an hour. Metric: `ragtrace_requests_total`",
        [(share(f'rate(ragtrace_requests_total{{{M},status="error"}}[30m])', f"rate(ragtrace_requests_total{{{M}}}[30m])"), APP)],
        "percentunit", ((None, "transparent"), (0.1, RED)), w=8, axis_limit=0.1, line=True,
        links=[runbook("RagtraceRequestErrors")],
    )  # fmt: skip
    page.lines(
        "Latency", "Percentiles of the requests' durations; a dot is one request. Metric: `ragtrace_request_duration_seconds`",
        [(quantile(q, "ragtrace_request_duration_seconds", S), f"p{int(q * 100)}") for q in (0.5, 0.95)], "s", w=8, dots=1,
        data_links=[link("Trace", "${trace_url}/${__data.fields.trace_id}")],
    )  # fmt: skip


def _stages(page: Page) -> None:
    """What the stages of a request take, and what it costs."""
    page.lines(
        "Time to first token", "Percentiles over streamed requests. Metric: `ragtrace_time_to_first_chunk_seconds`",
        [(quantile(q, "ragtrace_time_to_first_chunk_seconds", S), f"p{int(q * 100)}") for q in (0.5, 0.95)], "s", w=6, dots=1,
    )  # fmt: skip
    page.lines(
        "Time by stage, p95", "95th percentile of what each stage of a request takes. Metric: `ragtrace_stage_duration_seconds`",
        [(quantile(0.95, "ragtrace_stage_duration_seconds", S, "le, stage"), "{{stage}}")], "s", w=6,
    )  # fmt: skip
    page.lines(
        "Cost an hour",
        "US dollars an hour, of answers (where prices are set) and of the judge. Metric: `ragtrace_cost_usd_total`",
        [(f'sum by (component) (rate(ragtrace_cost_usd_total{{{S},model=~"$model"}}[1h])) * 3600', "{{component}}")],
        "currencyUSD", stacked=True, w=6,
    )  # fmt: skip
    page.lines(
        "Tokens a second", "Tokens by direction. Metric: `ragtrace_tokens_total`",
        [(f'sum by (direction) (rate(ragtrace_tokens_total{{{S},model=~"$model"}}[$__rate_interval]))', "{{direction}}")],
        A_SECOND, stacked=True, w=6,
    )  # fmt: skip
