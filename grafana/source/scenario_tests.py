"""The cases of scenarios.py as promtool's unit tests, exact to the request: python grafana/source/scenario_tests.py"""

import sys
from typing import Any

import yaml
from output import write
from rule_test import counter, evaluated, gauge_phases

import scenarios
from scenarios import Check, Evaluations, Events, Scenario

FILES = ("tests/objectives/shipped", "ragtrace-measures", "ragtrace-alerts")
GROUPS = ["ragtrace-objectives", "ragtrace-measures", "ragtrace-wander", "ragtrace-alerts"]


def scenario_test(name: str, cases: list[Scenario]) -> dict[str, Any]:
    """Returns one test of all these cases."""
    series = []
    for case in cases:
        for source in case.series:
            labels = {**source.labels, "app": case.app, "env": case.env}
            if isinstance(source, Evaluations):
                series += evaluated(source.phases, source.evaluator, source.weight, **labels)
            elif isinstance(source, Events):
                series.append(
                    counter(source.metric, [(h, 0.0 if n is None else n) for h, n in source.phases], **labels)
                )
            else:
                series.append(gauge_phases(source.metric, source.phases, **labels))
    return {
        "name": name,
        "interval": "5m",
        "input_series": series,
        "alert_rule_test": [],
        "promql_expr_test": [expected for case in cases for expected in expectations(case)],
    }


def fired(app: str, check: Check) -> dict[str, str]:
    """Returns the query of the alerts that fire within a check's time, and when it is asked."""
    minutes = round((check.until - check.since) * 60) - 1
    alerts = f'ALERTS{{app="{app}",alertstate="firing",severity!="info"}}'
    return {
        "expr": f"group by (alertname, severity) (last_over_time({alerts}[{minutes}m]))",
        "eval_time": f"{round(check.until * 60)}m",
    }


def expectations(case: Scenario) -> list[dict[str, Any]]:
    """Returns what promtool must find of a case: the alerts of each check."""
    return [
        {**fired(case.app, check), "exp_samples": [_sample(*alert) for alert in sorted(check.alerts)]}
        for check in case.checks
    ]


def _sample(name: str, severity: str) -> dict[str, Any]:
    return {"labels": f'{{alertname="{name}", severity="{severity}"}}', "value": 1}


def file(name: str, cases: list[Scenario], interval: str) -> str:
    """Returns a file for `promtool test rules`."""
    test = {
        "rule_files": [f"../{each}.yml" for each in FILES],
        "evaluation_interval": interval,
        "group_eval_order": GROUPS,
        "tests": [scenario_test(name, cases)],
    }
    return "# Written by grafana/source/scenario_tests.py\n" + yaml.safe_dump(test, sort_keys=False, width=1_000)


if __name__ == "__main__":
    cases = [*scenarios.days(), *scenarios.weeks()]
    # Each step evaluates all rules over all applications, so the long cases have longer steps.
    written = {
        "rules/tests/days.yml": file("days of many applications", [c for c in cases if c.hours <= 40], "5m"),
        "rules/tests/weeks.yml": file("weeks of many applications", [c for c in cases if c.hours > 40], "15m"),
    }
    sys.exit(write("scenario_tests", written))
