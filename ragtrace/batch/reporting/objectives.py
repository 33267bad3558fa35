"""Suggests objectives for the alerts, from what evaluators show of live requests."""

import json
import math

from ragtrace.batch.reporting.formats import moment
from ragtrace.batch.reporting.live import LEAST, EvaluatorRow, LiveReport
from ragtrace.statistics import Estimate

MARGIN = 1.25
"""An objective allows so many times the share that fails now (its upper bound), so that a usual week does not use up
its error budget."""


def suggest_objectives(report: LiveReport) -> str:
    """Returns rules for grafana/rules/objectives.yml as YAML: an objective for each application and evaluator.

    An objective is 1 - 1.25 u, rounded down to a percent, where u is the upper 95 % bound of the weighted share of
    answers that fail. Comments say why it is missing: fewer than 300 effective evaluations, or a share that rises."""
    lines = [
        f"# Objectives from {moment(report.since)} to {moment(report.until)}. Add them to the rules of objectives.yml "
        "if this time was a good one."
    ]
    lines += [_rule(row, row.now.passes) for app in report.apps for row in app.rows if row.now.passes is not None]
    if len(lines) == 1:
        lines.append("# No evaluator has verdicts in this time.")
    return "\n".join(lines)


def _rule(row: EvaluatorRow, passes: Estimate) -> str:
    """Returns one rule with its reason, or the reason why it is missing."""
    low, high = passes.interval or (0.0, 1.0)
    name = f"# {row.app}: {row.evaluator} passes {passes.value:.1%} ({low:.1%} to {high:.1%})"
    objective = math.floor(100 * (1 - MARGIN * (1 - low)) + 1e-9) / 100
    if passes.effective < LEAST:
        return f"{name}: no objective from {passes.effective:.0f} effective evaluations; {LEAST} are needed"
    if row.change == "rise":
        return f"{name}: no objective, because more fail than before; choose a better time with --since"
    if objective <= 0:
        return f"{name}: no objective, because most answers fail"
    labels = f"{{evaluator: {json.dumps(row.evaluator)}, app: {json.dumps(row.app)}}}"
    return f"{name}\n- {{record: ragtrace_objective, expr: vector({objective:g}), labels: {labels}}}"
