"""The rules' unit tests for promtool: python grafana/source/rule_tests.py, then promtool test rules grafana/rules/tests/*.yml

Each alert is shown to fire when it should, with its labels and its text, to be silent when it should, and to resolve.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from typing import Any

import yaml
from writing import write

STEP = 5
"""Minutes between samples, and between evaluations of the rules."""
RUNBOOKS = "https://github.com/ragtrace/ragtrace/blob/main/docs/runbooks"
GROUPS = [
    "ragtrace-objectives",
    "ragtrace-rates",
    "ragtrace-comparisons",
    "ragtrace-quality",
    "ragtrace-safety",
    "ragtrace-blindness",
    "ragtrace-service",
]
Series = dict[str, str]
GAP = math.nan
Phase = tuple[float, float]
"""Hours, and increments a minute."""


def counter(metric: str, phases: Sequence[Phase], **labels: str) -> Series:
    """A counter that grows phase by phase; an increment of -1 stands for a restart at 0, GAP for no scrape."""
    values, at = [], 0.0
    for hours, per_minute in phases:
        if per_minute < 0:
            at = 0.0
            continue
        steps = round(hours * 60 / STEP)
        if math.isnan(per_minute):
            values.append(f"_x{steps}")
            continue
        step = per_minute * STEP
        values.append(f"{at:g}+{step:g}x{steps - 1}")
        at += step * steps
    return _series(metric, " ".join(values), labels)


def gauge(metric: str, values: str, **labels: str) -> Series:
    """A series with promtool's own notation."""
    return _series(metric, values, labels)


def _series(metric: str, values: str, labels: dict[str, str]) -> Series:
    named = {"app": "shop", "env": "prod", **labels}
    inner = ",".join(f'{k}="{v}"' for k, v in named.items())
    return {"series": f"{metric}{{{inner}}}", "values": values}


def evaluated(
    phases: Sequence[tuple[float, float, float]], evaluator: str = "faithfulness", weight: float = 20.0, **labels: str
) -> list[Series]:
    """Evaluations: per phase its hours, how many a minute, and the share that fails. Each stands for `weight`
    requests; a rate below 0 is a restart of the process."""
    found = []
    for verdict in ("pass", "fail"):
        rates = [(h, -1.0 if n < 0 else n * (s if verdict == "fail" else 1 - s)) for h, n, s in phases]
        for metric, times in (
            ("ragtrace_evaluations_total", 1.0),
            ("ragtrace_evaluation_weight_total", weight),
            ("ragtrace_evaluation_weight_squared_total", weight * weight),
        ):
            scaled = [(h, r if r < 0 else r * times) for h, r in rates]
            found.append(counter(metric, scaled, evaluator=evaluator, verdict=verdict, **labels))
    return found


def fires(name: str, at: str, severity: str, summary: str, evaluator: str = "", **labels: str) -> dict[str, Any]:
    """An alert that fires at a time, with all that it says."""
    return {"eval_time": at, "alertname": name, "exp_alerts": [said(name, severity, summary, evaluator, **labels)]}


def said(name: str, severity: str, summary: str, evaluator: str = "", **labels: str) -> dict[str, Any]:
    given = {"severity": severity, "app": "shop", "env": "prod", **labels}
    if evaluator:
        given["evaluator"] = evaluator
    for label in [k for k, v in given.items() if not v]:
        del given[label]
    link = f"/d/ragtrace-overview?var-app={given.get('app', '')}"
    if name in WITH_EVALUATOR:
        link += f"&var-evaluator={given.get('evaluator', '')}"
    return {
        "exp_labels": given,
        "exp_annotations": {"summary": summary, "runbook_url": f"{RUNBOOKS}/{name}.md", "dashboard_url": link},
    }


WITH_EVALUATOR = {
    "RagtraceQualityBudgetBurn", "RagtraceQualityDrop", "RagtraceQualityCreep", "RagtraceSecretLeaked",
    "RagtracePersonalDataLeaked", "RagtraceToxicitySpike", "RagtraceQualityUnknown", "RagtraceEvaluatorErrors",
    "RagtraceEvaluatorSilent", "RagtraceJudgeBudgetGone", "RagtraceJudgeUnreadable",
}  # fmt: skip


def silent(name: str, at: str) -> dict[str, Any]:
    """An alert that does not fire at a time."""
    return {"eval_time": at, "alertname": name, "exp_alerts": []}


def test(name: str, series: Sequence[Series], *cases: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": name,
        "interval": f"{STEP}m",
        "input_series": list(series),
        "alert_rule_test": list(cases),
    }


def with_rates(given: dict[str, Any], *rates: tuple[str, float]) -> dict[str, Any]:
    """A test that also says which failure rate is recorded for the quarter of an hour before these times."""
    labels = '{app="shop", env="prod", evaluator="faithfulness"}'
    expr = "round(app_evaluator:ragtrace_evaluation_fail:ratio_ipw_rate15m, 0.0001)"
    given["promql_expr_test"] = [
        {"expr": expr, "eval_time": at, "exp_samples": [{"labels": labels, "value": rate}]} for at, rate in rates
    ]
    return given


BURN, DROP, CREEP = "RagtraceQualityBudgetBurn", "RagtraceQualityDrop", "RagtraceQualityCreep"
DAY = 24.0


def quality() -> list[dict[str, Any]]:
    fell = "shop: faithfulness fails {} more of the answers over {} than in the day before"
    return [
        test(
            "steady traffic at 8 % failures is silent",
            evaluated([(30, 10, 0.08)]),
            *(silent(name, at) for name in (BURN, DROP, CREEP) for at in ("26h", "30h")),
        ),
        test(
            "a fall from 0.92 to 0.75 pages within a quarter of an hour, and resolves",
            evaluated([(26, 10, 0.08), (0.5, 10, 0.25), (6, 10, 0.08)]),
            silent(DROP, "25h55m"),
            fires(
                DROP,
                "26h15m",
                "page",
                fell.format("17%", "15m"),
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
            fires(DROP, "26h15m", "page", fell.format("17%", "15m"), "faithfulness", slo="quality", long_window="15m"),
        ),
        test(
            "a fall to 5 % passes burns the budget",
            evaluated([(26, 10, 0.02), (2, 10, 0.95)]),
            silent(BURN, "25h"),
            {
                "eval_time": "27h",
                "alertname": BURN,
                "exp_alerts": [
                    said(
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


def safety() -> list[dict[str, Any]]:
    secret, personal, toxic = "RagtraceSecretLeaked", "RagtracePersonalDataLeaked", "RagtraceToxicitySpike"

    def rate(evaluator: str, name: str, *, what: str, share: float, told: str, later: str) -> dict[str, Any]:
        return test(
            f"{name}: a share of {share:.0%} after {share / 60:.2%} pages and becomes a ticket",
            evaluated([(30, 10, share / 60), (1, 10, share), (12, 10, share / 60)], evaluator),
            silent(name, "29h"),
            {
                "eval_time": "30h45m",
                "alertname": name,
                "exp_alerts": [
                    said(
                        name,
                        severity,
                        f"shop: {share} of the answers of {window} {what}, more than three times the share of the day before",
                        evaluator,
                        slo="safety",
                    )
                    for severity, share, window in (("page", told, "30m"), ("ticket", later, "6h"))
                    if share
                ],
            },
            silent(name, "42h"),
        )

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
        rate("pii_leakage", personal, what="hold personal data", share=0.3, told="30%", later="4.188%"),
        rate("toxicity", toxic, what="are toxic", share=0.15, told="15%", later=""),
        test(
            "personal data at a steady share, as an address book has it, is silent",
            evaluated([(40, 10, 0.3)], "pii_leakage"),
            silent(personal, "30h"),
            silent(personal, "40h"),
        ),
    ]


def blindness() -> list[dict[str, Any]]:
    build = gauge("ragtrace_build_info", "1x600", version="1")
    sampled = counter("ragtrace_sampling_decisions_total", [(10, 1)], decision="sampled", stratum="ratio")
    stalled, errors, silence = "RagtraceEvaluationsStalled", "RagtraceEvaluatorErrors", "RagtraceEvaluatorSilent"
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
            "one of two applications is gone",
            [build, gauge("ragtrace_build_info", "1x24 _x40", version="1", app="gone")],
            silent("RagtraceApplicationGone", "2h"),
            fires(
                "RagtraceApplicationGone",
                "2h20m",
                "ticket",
                "gone: reported half an hour ago and no longer does",
                app="gone",
            ),
        ),
        test(
            "requests are sampled and none is evaluated, not even an error; then they are",
            [sampled, *evaluated([(2, 1, 0.1), (2, 0, 0), (2, 1, 0.1)])],
            silent(stalled, "2h"),
            fires(stalled, "3h", "page", "shop: 30 requests of 30 minutes were to be evaluated, none was"),
            silent(stalled, "5h"),
        ),
        test(
            "no evaluation at all, and no series of one",
            [sampled],
            fires(stalled, "2h", "page", "shop: 30 requests of 30 minutes were to be evaluated, none was"),
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
            [sampled, counter("ragtrace_pipeline_dropped_total", [(2, 0), (2, 0.5), (2, 0)], reason="queue_full")],
            silent("RagtraceEvaluationsDropped", "2h"),
            fires(
                "RagtraceEvaluationsDropped",
                "3h30m",
                "ticket",
                "shop: 50% of the sampled requests are dropped before they are evaluated",
            ),
            silent("RagtraceEvaluationsDropped", "5h30m"),
        ),
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
    found = {}
    for name, tests, interval in (
        ("quality", quality(), STEP),
        ("weeks", weeks(), 30),  # promtool looks at every window at every step: a week at five minutes takes minutes
        ("safety", safety(), STEP),
        ("blindness", blindness(), STEP),
        ("service", service(), STEP),
    ):
        body = {
            "rule_files": ["../objectives.yml", "../ragtrace-recording.yml", "../ragtrace-alerts.yml"],
            "evaluation_interval": f"{interval}m",
            "group_eval_order": GROUPS,
            "tests": tests,
        }
        text = "# Written by grafana/source/rule_tests.py\n" + yaml.safe_dump(body, sort_keys=False, width=1_000)
        found[f"rules/tests/{name}.yml"] = text
    return found


if __name__ == "__main__":
    sys.exit(write("rule_tests", files()))
