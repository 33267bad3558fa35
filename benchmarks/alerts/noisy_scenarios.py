"""Which alerts fire in the cases of grafana/source/scenarios.py, where chance decides over each request:

    python benchmarks/alerts/noisy_scenarios.py [--seeds 2] [--only two-a canary] [--minutes 15]

Each case is written as counters with Poisson's numbers of evaluations and binomial failures, once for each seed, and
promtool evaluates the shipped rules over all of them, `for` and `keep_firing_for` included. A case is right if in each
of its checks exactly the expected pages and tickets fire. Needs promtool, numpy and pyyaml.
"""

from __future__ import annotations

import argparse
import math
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import report
import shipped
import yaml

sys.path.append(str(shipped.RULES.parent / "source"))
import rule_tests
import scenario_tests

import scenarios as cases

STEP = 5
KINDS = (
    "two-a", "version", "canary", "model", "lasting", "ruler", "ruler-fall", "healthy", "partly", "leaks", "weekend",
    "again",
)  # fmt: skip
"""Twelve kinds; `--only` takes any other case, too."""


def counts(random: np.random.Generator, phases: Sequence[tuple[float, float]]) -> str:
    """A counter's samples by its phases (hours, events a minute); NaN is no sample, a negative rate a restart."""
    values: list[str] = []
    total = 0
    for hours, rate in phases:
        if not math.isnan(rate) and rate < 0:
            total = 0
            continue
        for grown in random.poisson(0 if math.isnan(rate) else rate * STEP, round(hours * 60 / STEP)).tolist():
            values.append("_" if math.isnan(rate) else str(total))
            total += grown
    return " ".join(values)


def noisy(case: cases.Scenario, seed: int) -> list[dict[str, str]]:
    """The series of a case with chance in all that it counts."""
    random = np.random.default_rng([seed, *case.app.encode()])
    series: list[dict[str, str]] = []
    for source in case.series:
        labels = {**source.labels, "app": case.app, "env": case.env}
        if isinstance(source, cases.Evaluations):
            for verdict in ("pass", "fail"):
                phases = [(h, n if n < 0 else n * (s if verdict == "fail" else 1 - s)) for h, n, s in source.phases]
                text = counts(random, phases)
                for metric, times in (("", 1.0), ("_weight", source.weight), ("_weight_squared", source.weight**2)):
                    name = f"ragtrace_evaluation{metric or 's'}_total"
                    scaled = " ".join(v if v == "_" else f"{float(v) * times:g}" for v in text.split())
                    own = {**labels, "evaluator": source.evaluator, "verdict": verdict}
                    series.append(_series(name, scaled, own))
        elif isinstance(source, cases.Events):
            phases = [(h, 0.0 if n is None else n) for h, n in source.phases]
            series.append(_series(source.metric, counts(random, phases), labels))
        else:
            series.append(scenario_tests.gauge_phases(source.metric, source.phases, **labels))
    return series


def _series(metric: str, values: str, labels: dict[str, str]) -> dict[str, str]:
    inner = ",".join(f'{k}="{v}"' for k, v in labels.items())
    return {"series": f"{metric}{{{inner}}}", "values": values}


def wrong(some: Sequence[cases.Scenario], seeds: Sequence[int], minutes: int) -> dict[str, list[str]]:
    """What was not as expected, by application: the time of the check, the expected alerts and those that fired."""
    series: list[dict[str, str]] = []
    asked: list[dict[str, Any]] = []
    for case in some:
        for seed in seeds:
            own = cases.named(case, f"-{seed}")
            series += noisy(own, seed)
            asked += scenario_tests.expectations(own)
    test = {"name": "scenarios", "interval": f"{STEP}m", "input_series": series, "promql_expr_test": asked}
    files = sorted(shipped.RULES.glob("*.yml"))
    body = {
        "rule_files": [str(f) for f in files],
        "evaluation_interval": f"{minutes}m",
        "group_eval_order": [f"ragtrace-{name}" for name in ("objectives", *rule_tests.ALL)],
        "tests": [test],
    }
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "test.yml"
        path.write_text(yaml.safe_dump(body, width=10_000_000), encoding="utf-8")
        done = subprocess.run(["promtool", "test", "rules", str(path)], capture_output=True, text=True, check=False)
    text = done.stdout + done.stderr
    if done.returncode and "FAILED" not in text:
        raise RuntimeError(text[-2_000:])
    failures: dict[str, list[str]] = {}
    for block in re.split(r"\n(?=\s*expr: )", text):
        app = re.search(r'app=\\?"([^"\\]+)', block)
        if app and "got:" in block:
            got = re.findall(r'alertname="(\w+)", severity="(\w+)"', block.split("got:")[1])
            expected = re.findall(r'alertname="(\w+)", severity="(\w+)"', block.split("got:")[0].split("exp:")[-1])
            time = re.search(r"time: (\w+)", block)
            until = time[1] if time else "?"
            failures.setdefault(app[1], []).append(f"until {until}: {_list(expected)}, fired {_list(got)}")
    return failures


def _list(alerts: Sequence[tuple[str, str]]) -> str:
    return ", ".join(f"{name.removeprefix('Ragtrace')} ({severity})" for name, severity in alerts) or "none"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--only", nargs="+", default=list(KINDS))
    parser.add_argument("--minutes", type=int, default=15, help="between evaluations, of cases that take days")
    options = parser.parse_args()
    seeds, rows = range(1, options.seeds + 1), []
    for some, minutes in ((cases.days(), options.minutes), (cases.weeks(), 30)):
        chosen = [c for c in some if c.app in options.only]
        failures = wrong(chosen, seeds, minutes) if chosen else {}
        for case in chosen:
            own = [failures.get(f"{case.app}-{seed}", []) for seed in seeds]
            right = sum(not f for f in own)
            rows.append((case.app, case.text, f"{right} of {len(own)}", "; ".join(x for f in own for x in f)))
    print(report.table(("case", "what", "right", "what was wrong"), rows))


if __name__ == "__main__":
    main()
