"""What a rule is made of, and the names that several of them read."""

from __future__ import annotations

from typing import Any

RUNBOOKS = "https://github.com/ragtrace/ragtrace/blob/main/docs/runbooks"

Rule = dict[str, Any]

BY = "app, env, evaluator"
RATIO = "app_evaluator:ragtrace_evaluation_fail:ratio_ipw_rate"
SAMPLES = "app_evaluator:ragtrace_evaluation_effective_samples:increase"
DECIDED = 'verdict=~"pass|fail"'
LEAST = 30
"""Effective samples below which nothing is said of a rate."""


def recorded(record: str, expr: str, **labels: str) -> Rule:
    """A recording rule."""
    return {"record": record, "expr": expr.strip(), **({"labels": labels} if labels else {})}


def alert(
    name: str, expr: str, severity: str, summary: str, *, wait: str = "0m", keep: str = "", **labels: str
) -> Rule:
    """An alert with its runbook and its dashboard."""
    found: Rule = {"alert": name, "expr": expr.strip(), "for": wait}
    if keep:
        found["keep_firing_for"] = keep
    found["labels"] = {"severity": severity, **labels}
    evaluator = "&var-evaluator={{ $labels.evaluator }}" if "evaluator" in expr else ""
    found["annotations"] = {
        "summary": summary,
        "runbook_url": f"{RUNBOOKS}/{name}.md",
        "dashboard_url": "/d/ragtrace-overview?var-app={{ $labels.app }}" + evaluator,
    }
    return found


def share(bad: str, whole: str, by: str = "app, env") -> str:
    """The part `bad` is of `whole`, by labels; nothing where there is nothing."""
    return f"sum by ({by}) ({bad}) / (sum by ({by}) ({whole}) > 0)"
