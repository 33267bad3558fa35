"""Can the other dashboards be trusted?"""

from panels import (
    AN_HOUR,
    APP,
    BAD_HIGH,
    EVALUATIONS,
    GREEN,
    LOGS,
    RED,
    REQUESTS,
    YELLOW,
    M,
    Page,
    S,
    T,
    link,
    quantile,
    runbook,
)
from rule import LEAST, share


def health() -> Page:
    page = Page("ragtrace-health", "ragtrace · Evaluation health", "Can the other dashboards be trusted?", evaluator="")
    _trust(page)
    _outcomes(page)
    _delays_and_judge(page)
    _exports_and_review(page)
    _topics(page)
    _tables(page)
    return page


def _trust(page: Page) -> None:
    """Figures that say whether the other dashboards can be trusted."""
    sampled = f'ragtrace_sampling_decisions_total{{{S},decision="sampled"}}'
    page.number(
        "Evaluated",
        "Share of all requests that are evaluated. Metric: `ragtrace_sampling_decisions_total`",
        share(f"increase({sampled}[$__range])", f"increase(ragtrace_sampling_decisions_total{{{S}}}[$__range])", by=""),
        "percentunit",
    )
    page.number(
        "Weight check",
        "What the evaluated requests stand for / requests. Near 1: the weighted figures can be trusted. Metric: `ragtrace_evaluation_weight_total`",
        f"max(sum by (evaluator) (increase(ragtrace_evaluation_weight_total{{{M}}}[$__range]))) / (sum(increase(ragtrace_requests_total{{{M}}}[$__range])) > 0)",
        "percentunit", ((None, RED), (0.7, YELLOW), (0.85, GREEN), (1.2, YELLOW), (1.5, RED)),
    )  # fmt: skip
    page.number(
        "Effective samples, 6 hours",
        f"Of the worst application: fewer than {LEAST} are too few for a verdict on its quality. Metric: `ragtrace:evaluations6h`",
        f'min(ragtrace:evaluations6h{{{T},group=""}})', EVALUATIONS, ((None, RED), (LEAST, YELLOW), (200, GREEN)), decimals=0,
        links=[runbook("RagtraceMissing")],
    )  # fmt: skip
    page.number(
        "Since the last evaluation",
        "Of the application that has waited longest. Metric: `ragtrace_last_evaluation_timestamp_seconds`",
        f"max(time() - (ragtrace_last_evaluation_timestamp_seconds{{{S}}} > 0))", "s", ((None, GREEN), (600, YELLOW), (1800, RED)),
        links=[runbook("RagtraceMissing")],
    )  # fmt: skip
    page.number(
        "Evaluator errors", "Share of evaluations that gave no score. Metric: `ragtrace_evaluations_total`",
        share(f'increase(ragtrace_evaluations_total{{{M},verdict="error"}}[$__range])', f"increase(ragtrace_evaluations_total{{{M}}}[$__range])", by=""),
        "percentunit", BAD_HIGH, links=[runbook("RagtraceEvaluatorErrors")],
    )  # fmt: skip
    page.number(
        "Judge's budget left", "Of the present hour, all applications together. Metric: `ragtrace_judge_budget_usd`",
        f'1 - sum(increase(ragtrace_judge_cost_usd_total{{{S}}}[1h])) / (sum(ragtrace_judge_budget_usd{{{S},window="hour"}}) > 0)',
        "percentunit", ((None, RED), (0.1, YELLOW), (0.3, GREEN)), none="no judge", links=[runbook("RagtraceJudgeBudgetGone")],
    )  # fmt: skip


def _outcomes(page: Page) -> None:
    """How the requests ended, and why some have no score."""
    page.lines(
        "Requests by outcome",
        "Requests that an evaluator could have scored, by outcome, a second. Metric: `ragtrace_evaluation_outcomes_total`",
        [(f"sum by (outcome) (rate(ragtrace_evaluation_outcomes_total{{{T}}}[$__rate_interval]))", "{{outcome}}")], "reqps",
        stacked=True,
    )  # fmt: skip
    page.lines(
        "Sampling decisions", "Requests by decision and stratum, a second. Metric: `ragtrace_sampling_decisions_total`",
        [(f"sum by (decision, stratum) (rate(ragtrace_sampling_decisions_total{{{S}}}[$__rate_interval]))", "{{decision}} {{stratum}}")],
        "reqps", stacked=True,
    )  # fmt: skip
    page.lines(
        "Errors by reason",
        "Evaluations without a score in the hour before, by evaluator and reason. Metric: `ragtrace_evaluator_errors_total`",
        [(f"sum by (evaluator, reason) (increase(ragtrace_evaluator_errors_total{{{T}}}[1h])) > 0", "{{evaluator}} {{reason}}")],
        AN_HOUR, aside=True, links=[runbook("RagtraceEvaluatorErrors")],
    )  # fmt: skip
    page.lines(
        "Drops by reason",
        "Sampled requests of the hour before that were never evaluated. Metric: `ragtrace_pipeline_dropped_total`",
        [(f"sum by (reason) (increase(ragtrace_pipeline_dropped_total{{{S}}}[1h]))", "{{reason}}")], AN_HOUR,
        links=[runbook("RagtraceEvaluationsDropped")],
    )  # fmt: skip


def _delays_and_judge(page: Page) -> None:
    """How long evaluation takes, and what the judge costs."""
    page.lines(
        "From request to score",
        "Percentiles of the time from a request's end to its scores. Metric: `ragtrace_evaluation_lag_seconds`",
        [(quantile(q, "ragtrace_evaluation_lag_seconds", S), f"p{int(q * 100)}") for q in (0.5, 0.95)], "s", w=8, dots=1,
        links=[runbook("RagtraceEvaluationLag")],
    )  # fmt: skip
    page.lines(
        "An evaluator's time, p95",
        "95th percentile of an evaluator's time for a request. Metric: `ragtrace_evaluator_duration_seconds`",
        [(quantile(0.95, "ragtrace_evaluator_duration_seconds", T, "le, evaluator"), "{{evaluator}}")], "s", w=8,
    )  # fmt: skip
    page.lines(
        "Waiting", "The most requests that waited for evaluation. Metric: `ragtrace_evaluation_queue_items`",
        [(f"sum by (app, env) (max_over_time(ragtrace_evaluation_queue_items{{{S}}}[$__rate_interval]))", APP)], REQUESTS, w=8,
    )  # fmt: skip
    page.lines(
        "Judge: cost an hour", "US dollars an hour, by evaluator. Metric: `ragtrace_judge_cost_usd_total`",
        [(f"sum by (evaluator) (rate(ragtrace_judge_cost_usd_total{{{T}}}[1h])) * 3600", "{{evaluator}}")], "currencyUSD",
        stacked=True, w=8,
    )  # fmt: skip
    page.lines(
        "Judge: what cannot be read",
        "Parse failures in the hour before, by evaluator. Metric: `ragtrace_evaluation_failures_total`",
        [(f'sum by (evaluator) (increase(ragtrace_evaluation_failures_total{{{T},kind="parse"}}[1h])) > 0', "{{evaluator}}")],
        AN_HOUR, w=8, links=[runbook("RagtraceEvaluatorErrors")],
    )  # fmt: skip


def _exports_and_review(page: Page) -> None:
    """What could not be exported, and how far people agree with the evaluators."""
    page.lines(
        "Exports that failed", "Share of spans and events that could not be exported. Metric: `ragtrace_export_failures_total`",
        [(f"sum by (sink) (rate(ragtrace_export_failures_total{{{S}}}[30m])) / (sum by (sink) " f"(rate(ragtrace_export_items_total{{{S}}}[30m])) + sum by (sink) (rate(ragtrace_export_failures_total{{{S}}}[30m])) > 0)", "{{sink}}")],
        "percentunit", BAD_HIGH, w=8, links=[runbook("RagtraceExportFailing")],
    )  # fmt: skip
    agreed = 'ragtrace_review_agreement{evaluator=~"$evaluator",bound="%s",figure="%s"}'
    page.lines(
        "Agreement with reviewers",
        "Cohen's kappa of each evaluator with people, over 30 days, weighted to the whole traffic; the lower bound is dashed. Below 0.4 its alerts are guesses. Needs the console's metrics. Metric: `ragtrace_review_agreement`",
        [(f"max by (evaluator) ({agreed % ('estimate', 'kappa')})", "{{evaluator}}"), (f"max by (evaluator) ({agreed % ('lower', 'kappa')})", "{{evaluator}} at least")],
        "none", ((None, RED), (0.4, YELLOW), (0.6, GREEN)), w=8, low=None, high=1, line=True, bounds="at least",
        links=[link("Agreement, in the console", "${chatlog_url}/agreement")],
    )  # fmt: skip
    page.lines(
        "Failures that people confirm",
        "Precision (of what an evaluator fails, people fail so much) and recall (of what people fail, it finds so much), over 30 days. Needs the console's metrics. Metric: `ragtrace_review_agreement`",
        [(f"max by (evaluator) ({agreed % ('estimate', figure)})", "{{evaluator}} " + figure) for figure in ("precision", "recall")],
        "percentunit", w=8, high=1, links=[link("Evaluators, in the console", "${chatlog_url}/evaluators")],
    )  # fmt: skip
    page.lines(
        "Waiting for review",
        "Logs that were picked and that nobody has judged yet, by why they were picked. Needs the console's metrics, scraped with a token. Metric: `ragtrace_review_items`",
        [('sum by (reason) (ragtrace_review_items{state="open"})', "{{reason}}")], LOGS, stacked=True, w=8,
        links=[link("Review, in the console", "${chatlog_url}/review")],
    )  # fmt: skip


def _topics(page: Page) -> None:
    """Which questions fail, from the console's metrics."""
    which = link("Which questions fail, in the console", "${chatlog_url}/questions?range=24h")
    failures = 'max by (topic) (ragtrace_topic_failure_ratio{bound="%s"})'
    page.lines(
        "Questions that fail, by topic",
        "Share of failures of the last 24 hours, by the main evaluator; the five topics whose lower bound is highest. Needs the console's metrics. Metric: `ragtrace_topic_failure_ratio`",
        [(f"topk(5, {failures % 'lower'}) * 0 + on (topic) {failures % 'estimate'}", "{{topic}}")], "percentunit", BAD_HIGH, w=8,
        high=1, links=[which],
    )  # fmt: skip
    page.lines(
        "Requests by topic", "Estimated requests of the last 24 hours; the five largest topics. Metric: `ragtrace_topic_requests`",
        [("topk(5, max by (topic) (ragtrace_topic_requests))", "{{topic}}")], "none", w=8, links=[which],
    )  # fmt: skip
    page.lines(
        "Knowledge gaps by topic",
        "Requests of the last 24 hours to which the retrieval found nothing that answers; five topics. Metric: `ragtrace_topic_gaps`",
        [("topk(5, max by (topic) (ragtrace_topic_gaps))", "{{topic}}")], "none", w=8,
        links=[link("Knowledge gaps, in the console", "${chatlog_url}/questions/gaps?range=24h")],
    )  # fmt: skip


def _tables(page: Page) -> None:
    """The evaluators with their settings, and labels with too many values."""
    page.rows(
        "Evaluators in force", "Name, version, threshold and judge of each evaluator. Metric: `ragtrace_evaluator_info`",
        f"max by (app, evaluator, version, threshold, judge_model) (ragtrace_evaluator_info{{{S}}})", "none", "",
        columns=("app", "evaluator", "version", "threshold", "judge_model"), w=16, h=10,
    )  # fmt: skip
    page.rows(
        "Label values that were too many",
        "Values beyond the bound of a label, shown as `other`. Metric: `ragtrace_label_overflow_total`",
        f"sort_desc(sum by (app) (ragtrace_label_overflow_total{{{S}}}))", "none", "values", columns=("app",), decimals=0, w=8,
        h=10,
    )  # fmt: skip
