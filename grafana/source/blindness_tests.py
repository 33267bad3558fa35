"""Unit tests of the rules that tell that nothing is watched any longer."""

from __future__ import annotations

from typing import Any

from rule import RUNBOOKS
from rule_test import counter, evaluated, fires, gauge, silent, test

# One object each, because the file of tests refers back to a series that several tests read.
BUILD = gauge("ragtrace_build_info", "1x600", version="1")
SAMPLED = counter("ragtrace_sampling_decisions_total", [(10, 1)], decision="sampled", stratum="ratio")


def blindness() -> list[dict[str, Any]]:
    return [*_absence(), *_gone(), *_evaluators(), *_silence(), *_pipeline(), *_judge(), *_exports()]


def _absence() -> list[dict[str, Any]]:
    """No scrape and no evaluation."""
    stalled = "RagtraceEvaluationsStalled"
    return [
        test(
            "nobody reports",
            [gauge("ragtrace_build_info", "1x12 _x40", version="1")],
            silent("RagtraceTelemetryAbsent", "55m"),
            {
                "eval_time": "1h30m",
                "alertname": "RagtraceTelemetryAbsent",
                "exp_alerts": [
                    {
                        "exp_labels": {"severity": "page"},
                        "exp_annotations": {
                            "summary": "No application reports to this Prometheus: nothing is watched",
                            "runbook_url": f"{RUNBOOKS}/RagtraceTelemetryAbsent.md",
                            "dashboard_url": "/d/ragtrace-overview?var-app=&var-env=&from=now-6h&to=now",
                        },
                    }
                ],
            },
        ),
        test(
            "every run of the only evaluator fails: RagtraceEvaluatorBlind says so",
            [
                SAMPLED,
                counter("ragtrace_evaluations_total", [(2, 0), (3, 1)], evaluator="faithfulness", verdict="error"),
            ],
            silent(stalled, "3h"),
        ),
        test(
            "some runs fail, and of most nothing is heard",
            [
                SAMPLED,
                counter("ragtrace_evaluations_total", [(2, 0), (3, 0.1)], evaluator="faithfulness", verdict="error"),
            ],
            fires(stalled, "3h", "page", "shop/prod: 30 requests of 30 minutes were to be evaluated, none was"),
        ),
        test(
            "requests are sampled and none is evaluated, not even an error; then they are",
            [SAMPLED, *evaluated([(2, 1, 0.1), (2, 0, 0), (2, 1, 0.1)])],
            silent(stalled, "2h"),
            fires(stalled, "3h", "page", "shop/prod: 30 requests of 30 minutes were to be evaluated, none was"),
            silent(stalled, "5h"),
        ),
        test(
            "no evaluation at all, and no series of one",
            [SAMPLED],
            fires(stalled, "2h", "page", "shop/prod: 30 requests of 30 minutes were to be evaluated, none was"),
        ),
    ]


def _gone() -> list[dict[str, Any]]:
    """An application that reports no longer."""
    return [
        test(
            "one of two applications is gone",
            [BUILD, gauge("ragtrace_build_info", "1x24 _x40", version="1", app="gone")],
            silent("RagtraceApplicationGone", "2h"),
            *(
                fires(
                    "RagtraceApplicationGone",
                    time,
                    "ticket",
                    "gone/prod: reported in the last seven days and no longer does",
                    app="gone",
                )
                for time in ("2h25m", "5h")
            ),
        ),
        test(
            "an application is deployed again",
            [BUILD, gauge("ragtrace_build_info", "1x24 _x1 1x40", version="1", app="gone")],
            silent("RagtraceApplicationGone", "2h15m"),
            silent("RagtraceApplicationGone", "5h"),
        ),
    ]


def _evaluators() -> list[dict[str, Any]]:
    """Evaluators that fail."""
    errors, blind = "RagtraceEvaluatorErrors", "RagtraceEvaluatorBlind"
    return [
        test(
            "most runs of an evaluator fail, then a few",
            [
                *evaluated([(4, 4, 0.1), (4, 1, 0.1), (4, 4, 0.1)]),
                counter(
                    "ragtrace_evaluations_total", [(4, 0), (4, 3), (4, 1)], evaluator="faithfulness", verdict="error"
                ),
            ],
            silent(blind, "3h"),
            fires(
                blind,
                "6h",
                "page",
                "shop/prod: faithfulness fails in 75% of its runs: nobody would see the answers become worse",
                "faithfulness",
            ),
            silent(blind, "10h"),
        ),
        test(
            "a fifth of an evaluator's requests are errors",
            [
                *evaluated([(10, 4, 0.1)]),
                counter(
                    "ragtrace_evaluations_total", [(4, 0), (4, 1), (2, 0)], evaluator="faithfulness", verdict="error"
                ),
            ],
            silent(errors, "4h"),
            fires(
                errors,
                "6h",
                "ticket",
                "shop/prod: faithfulness fails to give a score for 20% of requests",
                "faithfulness",
            ),
            silent(errors, "9h30m"),
        ),
    ]


def _silence() -> list[dict[str, Any]]:
    """Evaluators that say nothing, and those that owe nothing."""
    silence = "RagtraceEvaluatorSilent"
    return [
        test(
            "an evaluator says nothing of sampled requests; then `not applicable`, which is an answer",
            [
                counter("ragtrace_evaluation_outcomes_total", [(10, 1)], evaluator="groundedness", outcome="scored"),
                counter("ragtrace_evaluations_total", [(4, 1), (6, 0)], evaluator="groundedness", verdict="pass"),
                counter(
                    "ragtrace_evaluations_total", [(8, 0), (2, 1)], evaluator="groundedness", verdict="not_applicable"
                ),
            ],
            silent(silence, "4h"),
            fires(
                silence,
                "8h",
                "ticket",
                "shop/prod: groundedness said nothing of 120 requests of 2 hours",
                "groundedness",
            ),
            silent(silence, "10h"),
        ),
        test(
            "requests that are not sampled need no score",
            [
                counter(
                    "ragtrace_evaluation_outcomes_total", [(10, 5)], evaluator="groundedness", outcome="sampled_out"
                ),
            ],
            silent(silence, "8h"),
        ),
    ]


def _pipeline() -> list[dict[str, Any]]:
    """Scores that come late, requests that are dropped."""
    return [
        test(
            "scores come late",
            [
                counter("ragtrace_evaluation_lag_seconds_bucket", [(2, 10), (2, 0)], le="60"),
                counter("ragtrace_evaluation_lag_seconds_bucket", [(2, 10), (2, 10)], le="900"),
                counter("ragtrace_evaluation_lag_seconds_bucket", [(2, 10), (2, 10)], le="+Inf"),
            ],
            silent("RagtraceEvaluationLag", "2h"),
            fires("RagtraceEvaluationLag", "3h", "ticket", "shop/prod: scores come 14m 18s after the requests (p95)"),
        ),
        test(
            "a queue overflows",
            [SAMPLED, counter("ragtrace_pipeline_dropped_total", [(2, 0), (2, 0.5), (2, 0)], reason="queue_full")],
            silent("RagtraceEvaluationsDropped", "2h"),
            fires(
                "RagtraceEvaluationsDropped",
                "3h30m",
                "ticket",
                "shop/prod: 50% of the sampled requests are dropped before they are evaluated",
            ),
            silent("RagtraceEvaluationsDropped", "5h30m"),
        ),
    ]


def _judge() -> list[dict[str, Any]]:
    """A judge without a budget or unreadable."""
    return [
        test(
            "the judge's budget is gone until the next hour",
            [
                counter(
                    "ragtrace_evaluator_errors_total",
                    [(2, 0), (1, 2), (2, 0)],
                    evaluator=evaluator,
                    reason="judge_budget",
                )
                for evaluator in ("sexism", "stereotypes")
            ],
            silent("RagtraceJudgeBudgetGone", "2h"),
            fires(
                "RagtraceJudgeBudgetGone",
                "2h30m",
                "ticket",
                "shop/prod: the judge went unasked 60 times in 15 minutes: its budget is used up",
            ),
            silent("RagtraceJudgeBudgetGone", "4h"),
        ),
        test(
            "a quarter of what the judge says cannot be read; other evaluators' errors do not count",
            [
                *evaluated([(6, 3, 0.1)], "sexism"),
                *evaluated([(6, 3, 0.1)], "groundedness"),
                counter("ragtrace_evaluations_total", [(2, 0), (4, 1)], evaluator="sexism", verdict="error"),
                counter("ragtrace_judge_cost_usd_total", [(6, 0.01)], evaluator="sexism"),
                counter(
                    "ragtrace_evaluator_errors_total", [(2, 0), (4, 1)], evaluator="sexism", reason="parse_failure"
                ),
                counter(
                    "ragtrace_evaluator_errors_total", [(2, 0), (4, 3)], evaluator="groundedness", reason="timeout"
                ),
            ],
            silent("RagtraceJudgeUnreadable", "2h"),
            fires(
                "RagtraceJudgeUnreadable",
                "4h",
                "ticket",
                "shop/prod: 25% of the judge's answers to sexism cannot be read",
                "sexism",
            ),
        ),
    ]


def _exports() -> list[dict[str, Any]]:
    """Failed exports."""
    return [
        test(
            "a fifth of the spans cannot be exported; one in a thousand is no matter",
            [
                counter("ragtrace_export_items_total", [(5, 4)], sink="spans"),
                counter("ragtrace_export_failures_total", [(2, 0), (1, 1), (2, 0)], sink="spans", reason="unavailable"),
                counter("ragtrace_export_items_total", [(5, 10)], sink="events"),
                counter("ragtrace_export_failures_total", [(5, 0.01)], sink="events", reason="unavailable"),
            ],
            silent("RagtraceExportFailing", "2h"),
            fires(
                "RagtraceExportFailing",
                "2h45m",
                "ticket",
                "shop/prod: 20% of the spans could not be exported",
                sink="spans",
            ),
            silent("RagtraceExportFailing", "4h"),
        ),
    ]
