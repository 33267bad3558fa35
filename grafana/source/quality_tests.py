"""Unit tests of the rules on quality."""

from __future__ import annotations

from typing import Any

from rule_test import GAP, counter, evaluated, expected_alert, fires, gauge, silent, test, with_rates

BURN, DROP, CREEP = "RagtraceQualityBudgetBurn", "RagtraceQualityDrop", "RagtraceQualityCreep"
DAY = 24.0


def falls() -> list[dict[str, Any]]:
    return [*_drops(), *_budgets_and_tickets()]


def _drops() -> list[dict[str, Any]]:
    """Sudden falls, and a new version that is not a fall."""
    fell = "shop: {} fails {} more of the answers over {} than in the day before"
    return [
        test(
            "a fall from 0.92 to 0.75 pages within a quarter of an hour, and resolves",
            evaluated([(26, 10, 0.08), (0.5, 10, 0.25), (6, 10, 0.08)]),
            silent(DROP, "25h45m"),
            fires(
                DROP,
                "26h15m",
                "page",
                fell.format("faithfulness", "17%", "15m"),
                "faithfulness",
                slo="quality",
                long_window="15m",
            ),
            silent(DROP, "29h30m"),
        ),
        test(
            "a threshold that fails three times as many answers is another version, and no fall",
            [
                *evaluated([(26, 10, 0.08), (0.5, 10, 0.25), (6, 10, 0.08)]),
                gauge("ragtrace_evaluator_info", "1x312 _x400", evaluator="faithfulness", version="2", threshold="0.9"),
                gauge(
                    "ragtrace_evaluator_info", "_x312 1x400", evaluator="faithfulness", version="2+c1", threshold="0.95"
                ),
            ],
            silent(DROP, "26h15m"),
            silent(DROP, "26h30m"),
        ),
        test(
            "a fall of an evaluator that stayed what it was pages all the same",
            [
                *evaluated([(26, 10, 0.08), (0.5, 10, 0.25), (6, 10, 0.08)]),
                gauge("ragtrace_evaluator_info", "1x700", evaluator="faithfulness", version="2", threshold="0.9"),
                gauge("ragtrace_evaluator_info", "1x312 _x400", evaluator="groundedness", version="2", threshold="0.8"),
                gauge(
                    "ragtrace_evaluator_info", "_x312 1x400", evaluator="groundedness", version="2+c1", threshold="0.7"
                ),
            ],
            fires(
                DROP,
                "26h15m",
                "page",
                fell.format("faithfulness", "17%", "15m"),
                "faithfulness",
                slo="quality",
                long_window="15m",
            ),
        ),
    ]


def _budgets_and_tickets() -> list[dict[str, Any]]:
    """A burnt budget, and an evaluator without an objective."""
    fell = "shop: {} fails {} more of the answers over {} than in the day before"
    return [
        test(
            "a fall to 5 % passes burns the budget",
            evaluated([(26, 10, 0.02), (2, 10, 0.95)]),
            silent(BURN, "25h"),
            {
                "eval_time": "27h15m",
                "alertname": BURN,
                "exp_alerts": [
                    expected_alert(
                        BURN,
                        "page",
                        f"shop: faithfulness fails {share} of answers over {window}; {part} of the week's budget went in that time",
                        "faithfulness",
                        slo="quality",
                        long_window=window,
                    )
                    for share, window, part in (("95%", "1h", "5%"),)
                ],
            },
        ),
        test(
            "an evaluator without an objective wakes nobody, and is a ticket",
            evaluated([(26, 10, 0.01), (7, 10, 0.25)], "context_relevance"),
            silent(DROP, "26h15m"),
            fires(
                DROP,
                "32h",
                "ticket",
                fell.format("context_relevance", "24%", "6h"),
                "context_relevance",
                slo="quality",
                long_window="6h",
            ),
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
                "shop: too few evaluations in a day to say anything of its faithfulness",
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
    return [
        test(
            "five failures of forty answers, where one of a hundred fails, are chance",
            evaluated([(26, 40 / 15, 0.01), (0.25, 40 / 15, 0.125), (2, 40 / 15, 0.01)], "pii_leakage"),
            *(silent(DROP, at) for at in ("26h10m", "26h15m", "26h20m")),
        ),
        with_rates(
            test(
                "a worker dies between scrapes and another one begins at 0: no fall, and nothing is lost",
                [
                    *evaluated([(30, 10, 0.08)], instance="a"),
                    *evaluated([(26, 10, 0.08)], instance="b"),
                    *evaluated([(26, GAP, 0), (4, 10, 0.08)], instance="c"),
                ],
                *(silent(name, at) for name in (BURN, DROP) for at in ("26h5m", "26h15m", "26h30m", "28h")),
            ),
            ("26h5m", 0.08),
            ("26h15m", 0.08),
            ("28h", 0.08),
        ),
        with_rates(
            test(
                "two hours that nobody scraped, or that a clock jumped over, are no fall",
                evaluated([(26, 10, 0.08), (2, GAP, 0), (3, 10, 0.08)]),
                *(silent(name, at) for name in (BURN, DROP) for at in ("27h", "28h5m", "28h15m", "30h")),
            ),
            ("28h10m", 0.08),
            ("30h", 0.08),
        ),
        with_rates(
            test(
                "a restart is no fall",
                evaluated([(26, 10, 0.08), (0, -1, 0), (4, 10, 0.08)]),
                *(silent(name, at) for name in (BURN, DROP) for at in ("26h10m", "26h30m", "28h")),
            ),
            ("26h5m", 0.08),
            ("28h", 0.08),
        ),
    ]


def weeks() -> list[dict[str, Any]]:
    return [
        test(
            "a worse night that was as bad last week is silent",
            evaluated([(26, 10, 0.05), (4, 10, 0.20), (164, 10, 0.05), (4, 10, 0.20)]),
            silent(DROP, "195h"),
            silent(DROP, "197h"),
        ),
        test(
            "nights that are worse every night are no fall",
            evaluated([(2, 10, 0.05), *[(4, 10, 0.20), (20, 10, 0.05)] * 3]),
            *(silent(DROP, at) for at in ("27h", "29h", "30h", "51h", "53h", "54h")),
        ),
        test(
            "a day that is four points worse than the week is a ticket",
            evaluated([(170, 10, 0.08), (28, 10, 0.12)]),
            silent(CREEP, "170h"),
            fires(
                CREEP,
                "195h",
                "ticket",
                "shop: faithfulness fails 3.976% more of the answers today than in the week before",
                "faithfulness",
                slo="quality",
            ),
        ),
    ]
