"""Builds rules, and names the series that several rules read."""

from __future__ import annotations

from typing import Any

RUNBOOKS = "https://github.com/ragtrace/ragtrace/blob/main/docs/runbooks"

Rule = dict[str, Any]

BY = "app, env, evaluator"
RATIO = "app_evaluator:ragtrace_evaluation_fail:ratio_ipw_rate"
SAMPLES = "app_evaluator:ragtrace_evaluation_effective_samples:increase"
DECIDED = 'verdict=~"pass|fail"'
LEAST = 30
"""The least number of effective samples for a rule to use a rate."""


def recorded(record: str, expr: str, **labels: str) -> Rule:
    """Returns a recording rule."""
    return {"record": record, "expr": expr.strip(), **({"labels": labels} if labels else {})}


def alert(
    name: str, expr: str, severity: str, summary: str, *, wait: str = "0m", keep: str = "", **labels: str
) -> Rule:
    """Returns an alert with its runbook and its dashboard."""
    rule: Rule = {"alert": name, "expr": expr.strip(), "for": wait}
    if keep:
        rule["keep_firing_for"] = keep
    rule["labels"] = {"severity": severity, **labels}
    evaluator = "&var-evaluator={{ $labels.evaluator }}" if "evaluator" in expr else ""
    rule["annotations"] = {
        "summary": summary,
        "runbook_url": f"{RUNBOOKS}/{name}.md",
        "dashboard_url": "/d/ragtrace-overview?var-app={{ $labels.app }}" + evaluator,
    }
    return rule


def share(bad: str, whole: str, by: str = "app, env") -> str:
    """Returns the query of the share bad / whole by these labels; it has no value when `whole` is 0."""
    return f"sum by ({by}) ({bad}) / (sum by ({by}) ({whole}) > 0)"
