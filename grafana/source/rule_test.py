"""What a unit test of rules is made of, in promtool's format."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from rule import RUNBOOKS

STEP = 5
"""Minutes between samples, and between evaluations of the rules."""
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
