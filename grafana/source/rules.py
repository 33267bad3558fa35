"""The recording rules and alerts, written by one program: python grafana/source/rules.py [--check]"""

from __future__ import annotations

import sys
import textwrap

import blindness_alerts
import conditions
import failure_rates
import incidents
import quality_alerts
import share_alerts
import yaml
from output import write
from rule import Rule

OBJECTIVES = """\
# What is yours to edit. ragtrace_pages: the evaluators whose falls wake people; all others open tickets. For one
# application's own choice, add a rule with its name; 0 takes it off:
#   - {record: ragtrace_pages, expr: vector(1), labels: {evaluator: answer_relevance, app: my-app}}
# ragtrace_objective: the share of answers that shall pass. None is set, because what an evaluator shows of a healthy
# application is known only once it was measured: by reviews, or by `ragtrace report --suggest-objective`, which prints
# the rule. With an objective, the alerts on its budget begin:
#   - {record: ragtrace_objective, expr: vector(0.76), labels: {evaluator: faithfulness, app: my-app}}
"""
INTERVALS = {"increases": "5m"}
"""Groups that are not evaluated every minute."""


def files() -> dict[str, str]:
    """Returns the text of each file, by its path below grafana/."""
    groups = {
        "increases": [*failure_rates.increases(), *blindness_alerts.increases()],
        "rates": failure_rates.rates(),
        "comparisons": [*quality_alerts.objectives(), *failure_rates.bounds(), *conditions.conditions()],
        "incidents": incidents.incidents(),
        "quality": quality_alerts.quality(),
        "safety": share_alerts.safety(),
        "blindness": blindness_alerts.blindness(),
        "service": share_alerts.service(),
    }
    head = "# Written by grafana/source/rules.py; change that, and run it.\n"
    pages = [
        {"record": "ragtrace_pages", "expr": f"vector({value})", "labels": {"evaluator": name}}
        for name, value in quality_alerts.PAGING.items()
    ]
    texts = {f"rules/ragtrace-{name}.yml": head + _yaml(name, rules) for name, rules in groups.items()}
    return texts | {"rules/objectives.yml": OBJECTIVES + _yaml("objectives", pages)}


class _Dumper(yaml.SafeDumper):
    pass


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.Node:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _text)


def _yaml(name: str, rules: list[Rule]) -> str:
    """Returns a group, with the comment of each rule above it."""
    lines = ["groups:", f"- name: ragtrace-{name}", f"  interval: {INTERVALS.get(name, '1m')}", "  rules:"]
    for rule in rules:
        comment = textwrap.wrap(rule.get("why", ""), 112)
        body = {key: value for key, value in rule.items() if key != "why"}
        text = yaml.dump([body], Dumper=_Dumper, sort_keys=False, width=1_000, allow_unicode=True)
        lines += [f"  # {line}" for line in comment]
        lines += [f"  {line}" if line else "" for line in text.splitlines()]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(write("rules", files()))
