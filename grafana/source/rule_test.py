"""Builds unit tests of rules in promtool's format."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from rule import RUNBOOKS

STEP = 5
"""Minutes between samples, and between evaluations of the rules."""
Series = dict[str, str]
GAP = math.nan
Phase = tuple[float, float]
"""Hours, and increments a minute."""


def counter(metric: str, phases: Sequence[Phase], **labels: str) -> Series:
    """Returns a counter that grows phase by phase. An increment of -1 is a restart at 0; GAP means no scrapes."""
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
    """Returns a series in promtool's own notation."""
    return _series(metric, values, labels)


def gauge_phases(metric: str, phases: Sequence[tuple[float, float | None]], **labels: str) -> Series:
    """Returns a gauge by its phases: hours, and the value or None where it is absent."""
    texts = [f"_x{round(h * 60 / STEP)}" if v is None else f"{v:g}x{round(h * 60 / STEP) - 1}" for h, v in phases]
    return _series(metric, " ".join(texts), labels)


def _series(metric: str, values: str, labels: dict[str, str]) -> Series:
    all_labels = {"app": "shop", "env": "prod", **labels}
    inner = ",".join(f'{k}="{v}"' for k, v in all_labels.items())
    return {"series": f"{metric}{{{inner}}}", "values": values}


def evaluated(
    phases: Sequence[tuple[float, float, float]], evaluator: str = "faithfulness", weight: float = 20.0, **labels: str
) -> list[Series]:
    """Returns the series of evaluations; a phase is (hours, evaluations a minute, share that fails).

    Each evaluation represents `weight` requests; a rate below 0 is a restart of the process."""
    series = []
    for verdict in ("pass", "fail"):
        rates = [(h, -1.0 if n < 0 else n * (s if verdict == "fail" else 1 - s)) for h, n, s in phases]
        for metric, times in (
            ("ragtrace_evaluations_total", 1.0),
            ("ragtrace_evaluation_weight_total", weight),
            ("ragtrace_evaluation_weight_squared_total", weight * weight),
        ):
            scaled = [(h, r if r < 0 else r * times) for h, r in rates]
            series.append(counter(metric, scaled, evaluator=evaluator, verdict=verdict, **labels))
    return series


def fires(
    name: str, at: str, severity: str, summary: str, evaluator: str = "", *, since: float | None = None,
    **labels: str,
) -> dict[str, Any]:  # fmt: skip
    """Expects an alert to fire at this time, with these labels and this text."""
    return {
        "eval_time": at,
        "alertname": name,
        "exp_alerts": [expected_alert(name, severity, summary, evaluator, since=since, **labels)],
    }


def expected_alert(
    name: str, severity: str, summary: str, evaluator: str = "", *, since: float | None = None, **labels: str
) -> dict[str, Any]:
    """Returns an alert as promtool prints it. `since` is the begin of an incident, in hours."""
    all_labels = {"severity": severity, "app": "shop", "env": "prod", **labels}
    if evaluator:
        all_labels["evaluator"] = evaluator
    for label in [k for k, v in all_labels.items() if not v]:
        del all_labels[label]
    app = all_labels.get("app", "")
    dashboard, logs = f"/d/ragtrace-overview?var-app={app}&var-env={all_labels.get('env', '')}", "range=24h"
    if name in WITH_EVALUATOR:
        dashboard += f"&var-evaluator={all_labels.get('evaluator', '')}"
    start = "now-6h"
    if since is not None:
        start = f"{1_000 * (3_600 * since - 3_600):.0f}"
        logs = f"since={datetime.fromtimestamp(3_600 * since, UTC):%Y-%m-%dT%H:%M}"
    notes = {
        "summary": summary,
        "runbook_url": f"{RUNBOOKS}/{name}.md",
        "dashboard_url": f"{dashboard}&from={start}&to=now",
    }
    if name in WITH_EVALUATOR and all_labels.get("slo"):
        notes["logs_url"] = f"/traces?app={app}&evaluator={all_labels.get('evaluator', '')}&label=fail&{logs}"
    return {"exp_labels": all_labels, "exp_annotations": notes}


WITH_EVALUATOR = {
    "RagtraceQualityBudgetBurn", "RagtraceQualityDrop", "RagtraceQualityCreep", "RagtraceSecretLeaked",
    "RagtracePersonalDataLeaked", "RagtraceToxicitySpike", "RagtraceQualityUnknown", "RagtraceEvaluatorErrors",
    "RagtraceEvaluatorBlind", "RagtraceEvaluatorChanged", "RagtraceEvaluatorSilent", "RagtraceJudgeUnreadable",
}  # fmt: skip


def silent(name: str, at: str) -> dict[str, Any]:
    """Expects an alert not to fire at this time."""
    return {"eval_time": at, "alertname": name, "exp_alerts": []}


def test(name: str, series: Sequence[Series], *cases: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": name,
        "interval": f"{STEP}m",
        "input_series": list(series),
        "alert_rule_test": list(cases),
    }


def with_rates(case: dict[str, Any], *rates: tuple[str, float]) -> dict[str, Any]:
    """Adds to a test the failure rates that must be recorded for the 15 minutes before these times."""
    labels = '{app="shop", env="prod", evaluator="faithfulness"}'
    expr = "round(app_evaluator:ragtrace_evaluation_fail:ratio_ipw_rate15m, 0.0001)"
    case["promql_expr_test"] = [
        {"expr": expr, "eval_time": at, "exp_samples": [{"labels": labels, "value": rate}]} for at, rate in rates
    ]
    return case
