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
PLACE = "{{ $labels.app }}/{{ $labels.env }}"
"""How an alert names an application."""
_SECONDS = {"m": 60, "h": 3_600, "d": 86_400}


def recorded(record: str, expr: str, why: str, **labels: str) -> Rule:
    """Returns a recording rule. `why` is written above it as a comment."""
    return {"why": why, "record": record, "expr": expr.strip(), **({"labels": labels} if labels else {})}


def alert(
    name: str, expr: str, severity: str, summary: str, why: str, *, wait: str = "0m", keep: str = "", **labels: str
) -> Rule:
    """Returns an alert with its runbook, its dashboard and the console's list of failing logs.

    `why` is written above it as a comment."""
    rule: Rule = {"why": why, "alert": name, "expr": expr.strip(), "for": wait}
    if keep:
        rule["keep_firing_for"] = keep
    rule["labels"] = {"severity": severity, **labels}
    evaluator = "&var-evaluator={{ $labels.evaluator }}" if _has_evaluator(expr) else ""
    dashboard = "/d/ragtrace-overview?var-app={{ $labels.app }}&var-env={{ $labels.env }}" + evaluator
    rule["annotations"] = {
        "summary": summary,
        "runbook_url": f"{RUNBOOKS}/{name}.md",
        "dashboard_url": f"{dashboard}&from=now-6h&to=now",
    }
    if evaluator and labels.get("slo"):
        rule["annotations"]["logs_url"] = (
            "/traces?app={{ $labels.app }}&evaluator={{ $labels.evaluator }}&label=fail&range=24h"
        )
    return rule


def _has_evaluator(expr: str) -> bool:
    """Tells whether the alert has the label `evaluator`."""
    return BY in expr or "app_evaluator:" in expr


def seconds(window: str) -> int:
    """Returns the seconds of a window such as 15m."""
    return int(window[:-1]) * _SECONDS[window[-1]]


def share(bad: str, whole: str, by: str = "app, env") -> str:
    """Returns the query of the share bad / whole by these labels, or of all series; it has no value when `whole` is 0."""
    grouped = f" by ({by})" if by else ""
    return f"sum{grouped} ({bad}) / (sum{grouped} ({whole}) > 0)"


def labelled(label: str, value: str, expr: str) -> str:
    """Adds a label to the series of an expression, so that `or` keeps them."""
    return f'label_replace({expr}, "{label}", "{value}", "", "")'


def united(exprs: list[str]) -> str:
    """Joins the series of all these expressions."""
    return "  " + "\n  or ".join(exprs)


def difference(rate: str, samples: str, before: str, samples_before: str, wandering: float = 0.0) -> str:
    """Returns the query of the difference between two shares, in standard errors of Cohen's h.

    h = 2 (asin sqrt r - asin sqrt b) has the variance 1/n + 1/m whatever the shares are, and its tails are those of the
    normal distribution where few of few fail: there, the pooled difference of two proportions is far beyond five of its
    standard errors again and again (J. Cohen, Statistical Power Analysis, 1988, chapter 6).
    """
    variance = f"1 / ({samples}) + 1 / ({samples_before})" + (f" + {wandering**2:.4g}" if wandering else "")
    return f"2 * (asin(sqrt({rate})) - asin(sqrt({before})))\n/ sqrt({variance})"


def wilson(rate: str, samples: str, sign: str, z: float = 1.645) -> str:
    """Returns the query of Wilson's bound of a share: the lower one for the sign -, the upper one for +."""
    square = f"{z**2:.4g}"
    centre = f"{rate} + {square} / (2 * {samples})"
    spread = f"{z:g} * sqrt(({rate} * (1 - {rate}) + {square} / (4 * {samples})) / {samples})"
    return f"({centre} {sign} {spread})\n/ (1 + {square} / {samples})"
