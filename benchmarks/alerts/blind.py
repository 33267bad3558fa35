"""What the rules do in cases that were written without knowledge of them: python benchmarks/alerts/blind.py

blind_cases.json has 58 on-call cases by somebody who had seen the metrics alone (28 November 2026); each check says
whether a page, a ticket, either (`some`) or nothing (`quiet`) must fire between two hours. A rule that is changed after
a look at a miss makes the set seen: then write another one. Needs promtool and pyyaml.
"""

import json
import math
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import yaml

sys.path.append(str(Path(__file__).resolve().parents[2] / "grafana" / "source"))
from rule_test import counter, evaluated, gauge_phases
from scenario_tests import FILES, GROUPS

GRAFANA = Path(__file__).resolve().parents[2] / "grafana"
Miss = tuple[float, float, str, list[str]]


def series(case: dict[str, Any]) -> list[dict[str, str]]:
    """The input series of a case."""
    result = []
    for each in case["series"]:
        labels = {**each.get("labels", {}), "app": case["name"], "env": "prod"}
        phases = [[math.nan if part == "gap" else part for part in phase] for phase in each["phases"]]
        if each["kind"] == "evaluations":
            result += evaluated(phases, each["evaluator"], each["weight"], **labels)
        elif each["kind"] == "events":
            result.append(counter(each["metric"], [(h, 0.0 if n is None else n) for h, n in phases], **labels))
        else:
            result.append(gauge_phases(each["metric"], phases, **labels))
    return result


def misses(case: dict[str, Any]) -> list[Miss]:
    """The checks of a case that do not hold, with what fired."""
    asked = []
    for since, until, _ in case["checks"]:
        alerts = (
            f'ALERTS{{app="{case["name"]}",alertstate="firing",severity!="info"}}[{round((until - since) * 60) - 1}m]'
        )
        expr = f"group by (alertname, severity) (last_over_time({alerts}))"
        # An expectation that never holds makes promtool print what it got.
        never = [{"labels": '{never="1"}', "value": 1}]
        asked.append({"expr": expr, "eval_time": f"{round(until * 60)}m", "exp_samples": never})
    test = {
        "rule_files": [str(GRAFANA / "rules" / f"{name}.yml") for name in FILES],
        "evaluation_interval": "5m",
        "group_eval_order": GROUPS,
        "tests": [{"interval": "5m", "input_series": series(case), "promql_expr_test": asked}],
    }
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "case.yml"
        path.write_text(yaml.safe_dump(test, sort_keys=False), encoding="utf-8")
        done = subprocess.run(["promtool", "test", "rules", str(path)], capture_output=True, text=True, check=False)
    got = re.findall(r"got:(.*)", done.stdout + done.stderr)
    wrong = []
    for (since, until, wanted), line in zip(case["checks"], got, strict=True):
        fired = sorted(re.findall(r'alertname="(\w+)", severity="(\w+)"', line.replace("\\", "")))
        severities = {severity for _, severity in fired}
        highest = "page" if "page" in severities else "ticket" if severities else "quiet"
        if highest != wanted and not (wanted == "some" and severities):
            wrong.append((since, until, wanted, [f"{name} ({severity})" for name, severity in fired]))
    return wrong


def main() -> None:
    cases = json.loads((Path(__file__).parent / "blind_cases.json").read_text(encoding="utf-8"))
    with ThreadPoolExecutor(2) as pool:
        results = list(pool.map(misses, cases))
    for case, wrong in zip(cases, results, strict=True):
        for since, until, wanted, fired in wrong:
            got = ", ".join(fired) or "nothing"
            print(f"{case['name']}, hours {since:g} to {until:g}: {wanted} wanted, {got} fired")
    checks = sum(len(case["checks"]) for case in cases)
    right = checks - sum(map(len, results))
    print(f"{right} of {checks} checks; {sum(not wrong for wrong in results)} of {len(cases)} cases")


if __name__ == "__main__":
    main()
