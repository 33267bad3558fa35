"""Everything in grafana/ holds together, and Prometheus's own tools agree."""

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.grafana import ROOT, check, mutated
from tests.row_files import rows, table

needs_tools = pytest.mark.skipif(
    shutil.which("promtool") is None or shutil.which("amtool") is None,
    reason="promtool or amtool is not installed: apt-get install prometheus prometheus-alertmanager",
)


def test_sources_and_files_agree() -> None:
    """What is generated was generated after the last change."""
    pytest.importorskip("grafana_foundation_sdk", reason="grafana-foundation-sdk is not installed")
    assert list(check.generated()) == []


@pytest.mark.parametrize("part", ["lint", "runbooks", "catalogue", "owned", pytest.param("parsed", marks=needs_tools)])
def test_dashboards_and_alerts_are_whole(part: str) -> None:
    """Dashboards (lint) and runbooks have all their parts, no query asks for a series that nobody exports or records, a
    person can own the rules, and the parsers of Prometheus and Alertmanager take every query, rule and route."""
    assert list(getattr(check, part)()) == []


@needs_tools
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", sorted(p.stem for p in (ROOT / "grafana" / "rules" / "tests").glob("*.yml")))
def test_alerts(name: str) -> None:
    """Each alert fires when it should, with its labels and text, is silent when it should, and resolves."""
    path = ROOT / "grafana" / "rules" / "tests" / f"{name}.yml"
    done = subprocess.run(["promtool", "test", "rules", str(path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_alert_is_tested() -> None:
    """Each alert fires in a test; where it must be silent the scenarios name every alert that fires."""
    texts = yaml.safe_load((ROOT / "grafana" / "rules" / "tests" / "texts.yml").read_text(encoding="utf-8"))["tests"]
    fired = {case["alertname"] for test in texts for case in test["alert_rule_test"] if case["exp_alerts"]}
    for name in ("days", "weeks"):
        text = (ROOT / "grafana" / "rules" / "tests" / f"{name}.yml").read_text(encoding="utf-8")
        fired |= set(re.findall(r'labels: .*alertname="(\w+)"', text))
    assert fired == {rule["alert"] for rule in check.rules() if "alert" in rule}


MUTATIONS: dict[str, Any] = table(__file__, "mutations")


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_mutated_dashboard_is_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pages = check.dashboards()
    page = mutated(pages["ragtrace-overview.json"], *MUTATIONS[name])
    monkeypatch.setattr(check, "dashboards", lambda: {**pages, "ragtrace-overview.json": page})
    assert list(check.lint()) != [], name


RULES = rows(__file__, "a_mutated_rule_is_caught")


@needs_tools
@pytest.mark.timeout(900)
@pytest.mark.parametrize(("old", "new"), RULES, ids=[f"{o.strip()} to {n.strip()}" for o, n in RULES])
def test_a_mutated_rule_is_caught(old: str, new: str, tmp_path: Path) -> None:
    folder = tmp_path / "rules"
    shutil.copytree(ROOT / "grafana" / "rules", folder)
    changed = 0
    for file in folder.glob("ragtrace-*.yml"):
        text = file.read_text(encoding="utf-8")
        changed += text.count(old)
        file.write_text(text.replace(old, new), encoding="utf-8")
    assert changed
    command = ["promtool", "test", "rules", str(folder / "tests" / "texts.yml")]
    assert subprocess.run(command, capture_output=True, check=False).returncode != 0
