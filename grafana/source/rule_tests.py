"""The rules' unit tests for promtool: python grafana/source/rule_tests.py, then promtool test rules grafana/rules/tests/*.yml

Each alert is shown to fire when it should, with its labels and its text, to be silent when it should, and to resolve.
"""

from __future__ import annotations

import sys
from typing import Any

import quality_tests
import yaml
from output import write
from rule import RUNBOOKS
from rule_test import STEP, counter, evaluated, expected_alert, fires, gauge, silent, test

# One object each, because the file of tests refers back to a series that several tests read.
BUILD = gauge("ragtrace_build_info", "1x600", version="1")
SAMPLED = counter("ragtrace_sampling_decisions_total", [(10, 1)], decision="sampled", stratum="ratio")


def secrets() -> list[dict[str, Any]]:
    secret = "RagtraceSecretLeaked"

    return [
        test(
            "one secret pages, and resolves",
            evaluated([(1, 1, 0.0), (1 / 12, 1, 0.2), (2, 1, 0.0)], "sensitive_data_leakage"),
            silent(secret, "1h"),
            fires(
                secret,
                "1h10m",
                "page",
                "shop: answers of the last 15 minutes that hold a secret: 1",
                "sensitive_data_leakage",
                slo="safety",
            ),
            silent(secret, "1h30m"),
        ),
        test(
            "the very first evaluation of a new model is a secret; a gap in the scrapes is none",
            [
                gauge(
                    "ragtrace_evaluations_total",
                    "_x11 1x40",
                    evaluator="sensitive_data_leakage",
                    verdict="fail",
                    model="new",
                ),
                gauge(
                    "ragtrace_evaluations_total",
                    "3x12 _x8 3x40",
                    evaluator="sensitive_data_leakage",
                    verdict="fail",
                    app="old",
                ),
            ],
            silent(secret, "50m"),
            fires(
                secret,
                "1h",
                "page",
                "shop: answers of the last 15 minutes that hold a secret: 1",
                "sensitive_data_leakage",
                slo="safety",
            ),
            silent(secret, "2h"),
        ),
    ]


def leaks() -> list[dict[str, Any]]:
    personal, toxic = "RagtracePersonalDataLeaked", "RagtraceToxicitySpike"

    def rate(
        evaluator: str, name: str, *, what: str, share: float, page_share: str, ticket_share: str
    ) -> dict[str, Any]:
        return test(
            f"{name}: a share of {share:.0%} after {share / 60:.2%} pages and becomes a ticket",
            evaluated([(30, 10, share / 60), (1, 10, share), (12, 10, share / 60)], evaluator),
            silent(name, "29h"),
            {
                "eval_time": "30h45m",
                "alertname": name,
                "exp_alerts": [
                    expected_alert(
                        name,
                        severity,
                        f"shop: {share} of the answers of {window} {what}, more than three times the share of the day before",
                        evaluator,
                        slo="safety",
                    )
                    for severity, share, window in (("page", page_share, "30m"), ("ticket", ticket_share, "6h"))
                    if share
                ],
            },
            silent(name, "42h"),
        )

    return [
        rate("pii_leakage", personal, what="hold personal data", share=0.3, page_share="30%", ticket_share="4.188%"),
        rate("toxicity", toxic, what="are toxic", share=0.15, page_share="15%", ticket_share=""),
        test(
            "personal data at a steady share, as an address book has it, is silent",
            evaluated([(40, 10, 0.3)], "pii_leakage"),
            silent(personal, "30h"),
            silent(personal, "40h"),
        ),
    ]


def blindness() -> list[dict[str, Any]]:
    return [*_absence(), *_gone(), *_evaluators(), *_pipeline(), *_judge(), *_exports()]


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
                            "dashboard_url": "/d/ragtrace-overview?var-app=",
                        },
                    }
                ],
            },
        ),
        test(
            "every run of the only evaluator fails",
            [
                SAMPLED,
                counter("ragtrace_evaluations_total", [(2, 0), (3, 1)], evaluator="faithfulness", verdict="error"),
            ],
            fires(stalled, "3h", "page", "shop: 30 requests of 30 minutes were to be evaluated, none was"),
        ),
        test(
            "requests are sampled and none is evaluated, not even an error; then they are",
            [SAMPLED, *evaluated([(2, 1, 0.1), (2, 0, 0), (2, 1, 0.1)])],
            silent(stalled, "2h"),
            fires(stalled, "3h", "page", "shop: 30 requests of 30 minutes were to be evaluated, none was"),
            silent(stalled, "5h"),
        ),
        test(
            "no evaluation at all, and no series of one",
            [SAMPLED],
            fires(stalled, "2h", "page", "shop: 30 requests of 30 minutes were to be evaluated, none was"),
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
                    "gone: reported in the last seven days and no longer does",
                    app="gone",
                )
                for time in ("2h25m", "5h")
            ),
        ),
        test(
            "an application is deployed anew",
            [BUILD, gauge("ragtrace_build_info", "1x24 _x1 1x40", version="1", app="gone")],
            silent("RagtraceApplicationGone", "2h15m"),
            silent("RagtraceApplicationGone", "5h"),
        ),
    ]


def _evaluators() -> list[dict[str, Any]]:
    """Evaluators that fail or say nothing."""
    errors, silence = "RagtraceEvaluatorErrors", "RagtraceEvaluatorSilent"
    blind = "RagtraceEvaluatorBlind"
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
                "shop: faithfulness fails in 75% of its runs: nobody would see the answers become worse",
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
                errors, "6h", "ticket", "shop: faithfulness fails to give a score for 20% of requests", "faithfulness"
            ),
            silent(errors, "9h30m"),
        ),
        test(
            "an evaluator says `not applicable` to all",
            [
                counter("ragtrace_evaluation_eligible_total", [(10, 1)], evaluator="groundedness"),
                counter(
                    "ragtrace_evaluations_total", [(5, 0), (5, 1)], evaluator="groundedness", verdict="not_applicable"
                ),
                counter("ragtrace_evaluations_total", [(5, 1), (5, 0)], evaluator="groundedness", verdict="pass"),
            ],
            silent(silence, "6h"),
            fires(
                silence, "8h", "ticket", "shop: groundedness gave no value for 120 requests of 2 hours", "groundedness"
            ),
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
            fires("RagtraceEvaluationLag", "3h", "ticket", "shop: scores come 14m 18s after the requests (p95)"),
        ),
        test(
            "a queue overflows",
            [SAMPLED, counter("ragtrace_pipeline_dropped_total", [(2, 0), (2, 0.5), (2, 0)], reason="queue_full")],
            silent("RagtraceEvaluationsDropped", "2h"),
            fires(
                "RagtraceEvaluationsDropped",
                "3h30m",
                "ticket",
                "shop: 50% of the sampled requests are dropped before they are evaluated",
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
                    evaluator="sexism",
                    reason="judge_budget",
                )
            ],
            silent("RagtraceJudgeBudgetGone", "2h"),
            fires(
                "RagtraceJudgeBudgetGone",
                "2h30m",
                "ticket",
                "shop: sexism went unanswered 30 times: the judge's budget is used up",
                "sexism",
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
                "shop: 25% of the judge's answers to sexism cannot be read",
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
                "RagtraceExportFailing", "2h45m", "ticket", "shop: 20% of the spans could not be exported", sink="spans"
            ),
            silent("RagtraceExportFailing", "4h"),
        ),
    ]


def service() -> list[dict[str, Any]]:
    retrievals = counter("ragtrace_retrieved_documents_count", [(40, 10)])
    empty, down, errors = "RagtraceRetrievalEmpty", "RagtraceRetrievalDown", "RagtraceRequestErrors"
    return [
        test(
            "empty retrievals rise from 1 to 20 %",
            [retrievals, counter("ragtrace_retrieval_empty_total", [(30, 0.1), (1, 2), (8, 0.1)])],
            silent(empty, "30h"),
            fires(
                empty,
                "31h",
                "ticket",
                "shop: 20% of the retrievals find nothing, more than three times the share of the day before",
                slo="retrieval",
            ),
            silent(empty, "34h"),
            silent(down, "31h"),
        ),
        test(
            "an index that always answered one question in ten with nothing is silent",
            [retrievals, counter("ragtrace_retrieval_empty_total", [(40, 1)])],
            silent(empty, "35h"),
        ),
        test(
            "the index is gone",
            [retrievals, counter("ragtrace_retrieval_empty_total", [(30, 0.1), (2, 9), (4, 0.1)])],
            silent(down, "30h"),
            fires(down, "31h", "page", "shop: 90% of the retrievals find nothing", slo="retrieval"),
            silent(down, "34h"),
        ),
        test(
            "a fifth of the requests are errors; three errors in a quiet hour are none of ours",
            [
                counter("ragtrace_requests_total", [(4, 8), (1, 8), (4, 8)], status="ok"),
                counter("ragtrace_requests_total", [(4, 0), (1, 2), (4, 0)], status="error"),
                counter("ragtrace_requests_total", [(9, 0.2)], status="error", app="quiet"),
            ],
            silent(errors, "4h"),
            fires(errors, "4h45m", "page", "shop: 20% of the requests end in an error", slo="availability"),
            silent(errors, "6h"),
        ),
    ]


def files() -> dict[str, str]:
    """Every file's path below grafana/, and its text."""
    return {
        f"rules/tests/{name}.yml": _yaml(tests, ["objectives", *(f"ragtrace-{rules}" for rules in read)], minutes)
        for name, tests, read, minutes in (
            ("falls", quality_tests.falls(), QUALITY, 15),
            ("calm", quality_tests.calm(), QUALITY, 15),
            ("resets", quality_tests.resets(), QUALITY, STEP),
            ("weeks", quality_tests.weeks(), QUALITY, 30),
            ("secrets", secrets(), ("safety",), STEP),
            ("leaks", leaks(), ("rates", "safety"), 15),
            ("blindness", blindness(), ("blindness",), STEP),
            ("service", service(), ("service",), STEP),
        )
    }


QUALITY = "rates", "comparisons", "quality"


def _yaml(tests: list[dict[str, Any]], read: list[str], minutes: int) -> str:
    """A file of tests that are evaluated every so many minutes, with the rules that they read. promtool evaluates all
    rules that it is given at every step, and what takes days need not be seen every five minutes."""
    body = {
        "rule_files": [f"../{name}.yml" for name in read],
        "evaluation_interval": f"{minutes}m",
        "group_eval_order": [name if name.startswith("ragtrace-") else f"ragtrace-{name}" for name in read],
        "tests": tests,
    }
    return "# Written by grafana/source/rule_tests.py\n" + yaml.safe_dump(body, sort_keys=False, width=1_000)


if __name__ == "__main__":
    sys.exit(write("rule_tests", files()))
