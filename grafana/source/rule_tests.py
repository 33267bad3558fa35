"""The rules' unit tests for promtool: python grafana/source/rule_tests.py, then promtool test rules grafana/rules/tests/*.yml

Each alert is shown to fire when it should, with its labels and its text, to be silent when it should, and to resolve.
"""

from __future__ import annotations

import sys
from typing import Any

import blindness_tests
import quality_tests
import scenario_tests
import yaml
from output import write
from rule_test import STEP, counter, evaluated, expected_alert, fires, gauge, silent, test


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
                "shop/prod: answers of the last 15 minutes that hold a secret: 1",
                "sensitive_data_leakage",
                slo="safety",
            ),
            silent(secret, "1h30m"),
        ),
        test(
            "the very first evaluation of a new model is a secret; a gap in the scrapes is no secret",
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
                "shop/prod: answers of the last 15 minutes that hold a secret: 1",
                "sensitive_data_leakage",
                slo="safety",
            ),
            silent(secret, "2h"),
        ),
    ]


def leaks() -> list[dict[str, Any]]:
    personal, toxic = "RagtracePersonalDataLeaked", "RagtraceToxicitySpike"

    def rate(evaluator: str, name: str, *, what: str, share: float, pages: str, ticket: str) -> dict[str, Any]:
        expected = [("page", pages), ("ticket", ticket)]
        return test(
            f"{name}: a share of {share:.0%} after {share / 60:.2%} pages and becomes a ticket",
            evaluated([(30, 10, share / 60), (1, 10, share), (12, 10, share / 60)], evaluator),
            silent(name, "29h"),
            {
                "eval_time": "30h45m",
                "alertname": name,
                "exp_alerts": [
                    expected_alert(name, severity, f"shop/prod: answers with {what} {text}", evaluator, slo="safety")
                    for severity, text in expected
                    if text
                ],
            },
            silent(name, "42h"),
        )

    return [
        rate(
            "pii_leakage",
            personal,
            what="personal data",
            share=0.3,
            pages="0.5% → 30% over 30m (n = 300)",
            ticket="0.5% → 4.188% over 6h (n = 3600)",
        ),
        rate("toxicity", toxic, what="toxicity", share=0.15, pages="0.25% → 15% over 30m (n = 300)", ticket=""),
        test(
            "personal data at a steady share, as an address book has it, is silent",
            evaluated([(40, 10, 0.3)], "pii_leakage"),
            silent(personal, "30h"),
            silent(personal, "40h"),
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
                "shop/prod: 20% of the retrievals of 30 minutes find nothing, more than three times the share of the day before",
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
            fires(down, "31h", "page", "shop/prod: 90% of the retrievals of 30 minutes find nothing", slo="retrieval"),
            silent(down, "34h"),
        ),
        test(
            "a fifth of the requests are errors; three errors in a quiet hour are too few",
            [
                counter("ragtrace_requests_total", [(4, 8), (1, 8), (4, 8)], status="ok"),
                counter("ragtrace_requests_total", [(4, 0), (1, 2), (4, 0)], status="error"),
                counter("ragtrace_requests_total", [(9, 0.2)], status="error", app="quiet"),
            ],
            silent(errors, "4h"),
            fires(
                errors,
                "4h45m",
                "page",
                "shop/prod: 20% of the requests of 15 minutes end in an error",
                slo="availability",
            ),
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
            ("resets", quality_tests.resets(), ("increases", "rates"), STEP),
            ("decay", quality_tests.decay(), QUALITY, 15),
            ("weeks", scenario_tests.weeks(), QUALITY, 60),
            ("scenarios", scenario_tests.days(), ALL, 15),
            ("secrets", secrets(), ("safety",), STEP),
            ("leaks", leaks(), ("increases", "rates", "safety"), STEP),
            ("blindness", blindness_tests.blindness(), ("increases", "blindness"), STEP),
            ("service", service(), ("service",), STEP),
        )
    }


QUALITY = "increases", "rates", "comparisons", "incidents", "quality"
ALL = *QUALITY, "safety", "blindness", "service"


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
