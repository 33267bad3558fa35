"""The alerts on blindness: failures of the monitoring itself."""

from __future__ import annotations

from rule import BY, LEAST, PLACE, Rule, alert, recorded, share, wilson

PRESENCE = "app:ragtrace_build_info:seen"
LEAST_RUNS = 10
"""The least number of an evaluator's runs that say whether it works."""
SURELY = 2.6
"""Standard errors of the lower bound (Wilson) of the share of failed runs."""


def blindness() -> list[Rule]:
    """Returns the alerts."""
    return [*_absence(), *_failing(), *_late(), *_judge_and_exports()]


def _absence() -> list[Rule]:
    """No scrape and no evaluation."""
    sampled = 'sum by (app, env) (increase(ragtrace_sampling_decisions_total{decision="sampled"}[30m]))'
    evaluated = 'sum by (app, env) (increase(ragtrace_evaluations_total{verdict!="error"}[30m]))'
    failed = 'sum by (app, env) (increase(ragtrace_evaluations_total{verdict="error"}[30m]))'
    return [
        recorded(
            PRESENCE,
            "group by (app, env) (ragtrace_build_info)",
            "1 for each application that reports. RagtraceApplicationGone looks for those that did.",
        ),
        alert(
            "RagtraceTelemetryAbsent",
            "absent(ragtrace_build_info)",
            "page",
            "No application reports to this Prometheus: nothing is watched",
            "No application reports. Nobody would see anything.",
            wait="10m",
        ),
        alert(
            "RagtraceApplicationGone",
            f"last_over_time({PRESENCE}[7d]) unless on (app, env) {PRESENCE}",
            "ticket",
            f"{PLACE}: reported in the last seven days and no longer does",
            "An application reported in the last seven days and does not now. The alert lasts until it is back, or for "
            "seven days.",
            wait="15m",
        ),
        alert(
            "RagtraceEvaluationsStalled",
            f"{sampled} > 0\nunless on (app, env) {evaluated} > 0\nunless on (app, env) {failed} >= {LEAST_RUNS}",
            "page",
            f"{PLACE}: {{{{ $value | humanize }}}} requests of 30 minutes were to be evaluated, none was",
            "Requests are sampled, and none has a score; errors are no scores. Where runs fail, RagtraceEvaluatorBlind or "
            "RagtraceJudgeBudgetGone says so.",
            wait="15m",
        ),
    ]


RUNS = "app_evaluator:ragtrace_evaluations:increase5m"
FAILED = "app_evaluator:ragtrace_evaluations_failed:increase5m"


def increases() -> list[Rule]:
    """Returns the rules that are evaluated every five minutes: the runs of evaluators."""
    runs = f"sum by ({BY}) (increase(ragtrace_evaluations_total[5m]))"
    errors = f'sum by ({BY}) (increase(ragtrace_evaluations_total{{verdict="error"}}[5m]))'
    unpaid = f'sum by ({BY}) (increase(ragtrace_evaluator_errors_total{{reason="judge_budget"}}[5m]))'
    either = "Runs that the judge's budget refused are left out: they have an alert of their own."
    return [
        recorded(RUNS, f"{runs} - ({unpaid} or 0 * {runs})", f"The runs of an evaluator in five minutes. {either}"),
        recorded(
            FAILED,
            f"clamp_min({errors} - ({unpaid} or 0 * {errors}), 0)",
            f"The runs of an evaluator that failed in five minutes. {either}",
        ),
    ]


def _runs(minutes: int) -> tuple[str, str]:
    """The share of an evaluator's runs that fail, and their number."""
    runs, failed = (f"sum_over_time({name}[{60 * minutes - 1}s:5m])" for name in (RUNS, FAILED))
    return f"({failed} / ({runs} > 0))", runs


def _failing() -> list[Rule]:
    """Evaluators whose runs fail, and evaluators of which nothing is heard."""
    errors, runs = _runs(30)
    long_errors, long_runs = _runs(360)
    blind = (
        f"({errors} > 0.5\nand {runs} >= {LEAST_RUNS}\n"
        f"or {long_errors} > 0.5\nand {long_runs} >= {LEAST_RUNS}\nand ({errors} > 0.5 or {long_errors} unless {errors}))"
    )
    unpaid = 'sum by (app, env) (increase(ragtrace_evaluator_errors_total{reason="judge_budget"}[2h]))'
    sampled = f'sum by ({BY}) (increase(ragtrace_evaluation_outcomes_total{{outcome!="sampled_out"}}[2h]))'
    return [
        alert(
            "RagtraceEvaluatorBlind",
            blind,
            "page",
            f"{PLACE}: {{{{ $labels.evaluator }}}} fails in {{{{ $value | humanizePercentage }}}} of its runs: nobody would "
            "see the answers become worse",
            "More than half of at least ten runs of an evaluator fail, in 30 minutes or, where they are few, in 6 hours. "
            "What it says is based on the few that succeed.",
            wait="15m",
            keep="15m",
        ),
        alert(
            "RagtraceEvaluatorErrors",
            f"{errors} > 0.1\nand ({wilson(errors, runs, '-', SURELY)}) > 0.05\nand {runs} >= {LEAST_RUNS // 2}\n"
            f"unless (\n{blind}\n)",
            "ticket",
            f"{PLACE}: {{{{ $labels.evaluator }}}} fails to give a score for {{{{ $value | humanizePercentage }}}} of "
            "requests",
            "More than a tenth of an evaluator's runs fail, beyond chance. Where it is half of them, "
            "RagtraceEvaluatorBlind pages instead.",
            wait="15m",
            keep="15m",
        ),
        alert(
            "RagtraceEvaluatorSilent",
            f"{sampled} > {LEAST}\nunless {_runs(120)[1]} > 0\nunless on (app, env) {unpaid} > 0",
            "ticket",
            f"{PLACE}: {{{{ $labels.evaluator }}}} said nothing of {{{{ $value | humanize }}}} requests of 2 hours",
            "An evaluator had sampled requests and said nothing of them, not even an error. That it does not apply, or "
            "that an answer is a refusal, is an answer of its own.",
            wait="15m",
        ),
    ]


def _late() -> list[Rule]:
    """Scores that come late, requests that are dropped."""
    dropped = share(
        "rate(ragtrace_pipeline_dropped_total[30m])", 'rate(ragtrace_sampling_decisions_total{decision="sampled"}[30m])'
    )
    sampled = 'sum by (app, env) (increase(ragtrace_sampling_decisions_total{decision="sampled"}[30m]))'
    return [
        alert(
            "RagtraceEvaluationLag",
            "histogram_quantile(0.95, sum by (app, env, le) (rate(ragtrace_evaluation_lag_seconds_bucket[15m]))) > 300",
            "ticket",
            f"{PLACE}: scores come {{{{ $value | humanizeDuration }}}} after the requests (p95)",
            "One of twenty scores comes more than five minutes after its request. The alerts on quality are late by that.",
            wait="15m",
            keep="15m",
        ),
        alert(
            "RagtraceEvaluationsDropped",
            f"({dropped}) > 0.1\nand {sampled} >= {LEAST_RUNS}",
            "ticket",
            f"{PLACE}: {{{{ $value | humanizePercentage }}}} of the sampled requests are dropped before they are evaluated",
            "A tenth of the sampled requests wait in vain: the evaluators are too slow for the traffic. What remains may "
            "not be like what is dropped.",
            wait="15m",
            keep="15m",
        ),
    ]


def _judge_and_exports() -> list[Rule]:
    """A judge without a budget or unreadable; failed exports."""
    lost = "sum by (app, env, sink) (rate(ragtrace_export_failures_total[15m]))"
    sent = "sum by (app, env, sink) (rate(ragtrace_export_items_total[15m]))"
    unreadable = "(" + share(
        'rate(ragtrace_evaluator_errors_total{reason="parse_failure"}[1h])',
        "rate(ragtrace_evaluations_total[1h]) and on (app, env, evaluator) ragtrace_judge_cost_usd_total",
        BY,
    ) + ")"  # fmt: skip
    judged = f"sum by ({BY}) (increase(ragtrace_evaluations_total[1h]))"
    return [
        alert(
            "RagtraceJudgeBudgetGone",
            'sum by (app, env) (increase(ragtrace_evaluator_errors_total{reason="judge_budget"}[15m])) > 0',
            "ticket",
            f"{PLACE}: the judge went unasked {{{{ $value | humanize }}}} times in 15 minutes: its budget is used up",
            "The judge's budget is used up, so its evaluators give no scores. It is one alert for an application, and those "
            "on failing evaluators leave it out.",
            wait="5m",
            keep="15m",
        ),
        alert(
            "RagtraceJudgeUnreadable",
            f"{unreadable} > 0.1\nand ({wilson(unreadable, judged, '-', SURELY)}) > 0.05",
            "ticket",
            f"{PLACE}: {{{{ $value | humanizePercentage }}}} of the judge's answers to {{{{ $labels.evaluator }}}} cannot be "
            "read",
            "More than a tenth of the judge's replies cannot be read, beyond chance. The model or its prompt changed.",
            wait="15m",
            keep="15m",
        ),
        alert(
            "RagtraceExportFailing",
            f"{lost} / (({sent} or 0 * {lost}) + {lost} > 0) > 0.01",
            "ticket",
            f"{PLACE}: {{{{ $value | humanizePercentage }}}} of the {{{{ $labels.sink }}}} could not be exported",
            "More than one of a hundred spans or events is lost on its way. Every lost one is a request that somebody "
            "looks for in vain, so few count.",
            wait="10m",
            keep="15m",
        ),
    ]
