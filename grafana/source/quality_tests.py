"""Unit tests of the rules on quality."""

from __future__ import annotations

from typing import Any

from rule_test import GAP, counter, evaluated, expected_alert, fires, gauge, silent, test, with_rates

BURN, DROP, CREEP = "RagtraceQualityBudgetBurn", "RagtraceQualityDrop", "RagtraceQualityCreep"
CHANGED = "RagtraceEvaluatorChanged"


def falls() -> list[dict[str, Any]]:
    return [*_drops(), *_changes(), *_budgets_and_tickets()]


def _drops() -> list[dict[str, Any]]:
    """Sudden falls, with their text."""
    causes = [
        counter("ragtrace_failure_causes_total", [(26, 0.2), (7, 1.5)], cause="irrelevant_context"),
        counter("ragtrace_failure_causes_total", [(26, 0.6), (7, 0.7)], cause="unsupported"),
    ]
    old = {"prompt_version": "v7", "model": "m"}
    new = {"prompt_version": "v8", "model": "m"}
    return [
        test(
            "a fall from 92 to 75 % pages within a quarter of an hour, and resolves",
            [*evaluated([(26, 10, 0.08), (0.5, 10, 0.25), (6, 10, 0.08)]), *causes],
            silent(DROP, "25h45m"),
            fires(
                DROP,
                "26h15m",
                "page",
                "shop/prod: faithfulness failures 8 % → 25 % since 02:00 UTC (n = 150), mostly `irrelevant_context`",
                "faithfulness",
                since=26,
                slo="quality",
            ),
            silent(DROP, "29h30m"),
        ),
        test(
            "a canary of a fifth of the traffic that fails 40 % is named within an hour",
            [*evaluated([(26, 10, 0.08), (3, 8, 0.08)], **old), *evaluated([(26, 0, 0), (3, 2, 0.4)], **new)],
            silent(DROP, "26h"),
            fires(
                DROP,
                "27h",
                "page",
                "shop/prod: faithfulness failures 8 % → 14 % since 02:07 UTC (n = 150), prompt v8 at 40%",
                "faithfulness",
                since=26.125,
                slo="quality",
            ),
        ),
    ]


def _changes() -> list[dict[str, Any]]:
    """A new version of the evaluator, which is no fall; an evaluator that wakes nobody."""
    changed = [
        gauge("ragtrace_evaluator_info", "1x312 _x400", evaluator="faithfulness", version="2", threshold="0.9"),
        gauge("ragtrace_evaluator_info", "_x312 1x400", evaluator="faithfulness", version="2+c1", threshold="0.95"),
    ]
    return [
        test(
            "a threshold that fails three times as many answers is another version, of which nothing is known yet",
            [*evaluated([(26, 10, 0.08), (0.5, 10, 0.25), (6, 10, 0.08)]), *changed],
            silent(DROP, "26h15m"),
            silent(DROP, "26h30m"),
            fires(
                CHANGED,
                "26h30m",
                "info",
                "shop/prod: faithfulness changed (version, threshold or judge): blind until 04:00 UTC, when it has a past of "
                "its own to be compared with",
                "faithfulness",
                slo="quality",
            ),
            silent(CHANGED, "28h15m"),
        ),
        test(
            "an evaluator that wakes nobody is a ticket",
            evaluated([(26, 10, 0.01), (7, 10, 0.25)], "context_relevance"),
            silent(DROP, "26h15m"),
            fires(
                DROP,
                "32h",
                "ticket",
                "shop/prod: context_relevance failures 1 % → 25 % since 02:07 UTC (n = 150)",
                "context_relevance",
                since=26.125,
                slo="quality",
            ),
        ),
    ]


def _budgets_and_tickets() -> list[dict[str, Any]]:
    """A budget that burns where nothing is known of the past, and a slow decay."""
    objective = gauge("ragtrace_objective", "0.9x800", evaluator="faithfulness")
    return [
        test(
            "5 % passes from the first day on: nothing fell, and the budget burns",
            [*evaluated([(30, 10, 0.95)]), objective],
            silent(BURN, "45m"),
            {
                "eval_time": "26h",
                "alertname": BURN,
                "exp_alerts": [
                    expected_alert(
                        BURN,
                        severity,
                        f"shop/prod: faithfulness fails 95% of the answers, which burns {spent}",
                        "faithfulness",
                        slo="quality",
                    )
                    for severity, spent in (
                        ("page", "5 % of a week's budget in an hour or 10 % in six"),
                        ("ticket", "a quarter of a week's budget in a day or half of it in three"),
                    )
                ],
            },
        ),
    ]


def calm() -> list[dict[str, Any]]:
    return [
        test(
            "steady traffic at 8 % failures is silent",
            evaluated([(30, 10, 0.08)]),
            *(silent(name, at) for name in (BURN, DROP, CREEP) for at in ("26h", "30h")),
        ),
        test(
            "three failures of three say nothing, but that nothing is known",
            [
                *evaluated([(30, 0, 0.0)]),
                counter(
                    "ragtrace_evaluations_total",
                    [(28, 0), (0.25, 0.2), (2, 0)],
                    evaluator="faithfulness",
                    verdict="fail",
                    model="m",
                ),
                counter(
                    "ragtrace_evaluation_weight_total",
                    [(28, 0), (0.25, 4), (2, 0)],
                    evaluator="faithfulness",
                    verdict="fail",
                    model="m",
                ),
                counter(
                    "ragtrace_evaluation_weight_squared_total",
                    [(28, 0), (0.25, 80), (2, 0)],
                    evaluator="faithfulness",
                    verdict="fail",
                    model="m",
                ),
                counter("ragtrace_requests_total", [(30, 1)], status="ok"),
            ],
            silent(BURN, "29h"),
            silent(DROP, "29h"),
            fires(
                "RagtraceQualityUnknown",
                "30h",
                "info",
                "shop/prod: too few evaluations in a day to say whether its answers became worse",
                slo="quality",
            ),
        ),
        test(
            "half of what is looked at fails, because suspicious answers are looked at: silent",
            [
                counter(metric, [(30, rate)], evaluator="faithfulness", verdict=verdict)
                for verdict, metric, rate in (
                    ("fail", "ragtrace_evaluation_weight_total", 1),
                    ("fail", "ragtrace_evaluation_weight_squared_total", 1),
                    ("pass", "ragtrace_evaluation_weight_total", 20),
                    ("pass", "ragtrace_evaluation_weight_squared_total", 400),
                )
            ],
            silent(BURN, "29h"),
            silent(DROP, "29h"),
        ),
    ]


def resets() -> list[dict[str, Any]]:
    """Rates beside restarts and gaps; scenarios.py shows that no alert fires."""
    return [
        with_rates(
            test(
                "a worker dies between scrapes and another one begins at 0: nothing is lost",
                [
                    *evaluated([(30, 10, 0.08)], instance="a"),
                    *evaluated([(26, 10, 0.08)], instance="b"),
                    *evaluated([(26, GAP, 0), (4, 10, 0.08)], instance="c"),
                ],
            ),
            ("26h5m", 0.08),
            ("26h15m", 0.08),
            ("28h", 0.08),
        ),
        with_rates(
            test(
                "two hours that nobody scraped, or that a clock jumped over",
                evaluated([(26, 10, 0.08), (2, GAP, 0), (3, 10, 0.08)]),
            ),
            ("28h10m", 0.08),
            ("30h", 0.08),
        ),
        with_rates(
            test("a restart", evaluated([(26, 10, 0.08), (0, -1, 0), (4, 10, 0.08)])),
            ("26h5m", 0.08),
            ("28h", 0.08),
        ),
    ]


def decay() -> list[dict[str, Any]]:
    """A slow decay."""
    return [
        test(
            "a day that is four points worse than the week is a ticket",
            evaluated([(170, 10, 0.08), (28, 10, 0.11)]),
            silent(CREEP, "170h"),
            fires(
                CREEP,
                "195h",
                "ticket",
                "shop/prod: faithfulness fails 2.984% of all answers more often in the last day than in the week before",
                "faithfulness",
                slo="quality",
            ),
        ),
    ]
