"""The dashboards are what Grafana's own types say that a dashboard is, in TypeScript's compiler."""

import json
import shutil
from collections.abc import Callable
from typing import Any

import pytest

from tests.grafana import check, first

pytestmark = [
    pytest.mark.skipif(
        shutil.which("node") is None or check.modules() is None,
        reason="node, TypeScript or @grafana/schema is not installed: npm install in grafana/types",
    ),
    pytest.mark.timeout(300),
]


def defaults(page: dict[str, Any], kind: str) -> dict[str, Any]:
    found: dict[str, Any] = first(page, kind)["fieldConfig"]["defaults"]
    return found


MUTATIONS: dict[str, Callable[[dict[str, Any]], object]] = {
    "unit": lambda page: defaults(page, "stat").update(unit=5),
    "property": lambda page: defaults(page, "timeseries").update(unti="percent"),
    "panel": lambda page: first(page, "table").update(titel="Worst"),
    "option": lambda page: first(page, "timeseries")["options"]["legend"].update(showLegends=True),
    "custom": lambda page: defaults(page, "timeseries")["custom"].update(lineWitdh=2),
    "enumeration": lambda page: defaults(page, "timeseries")["thresholds"].update(mode="relative"),
    "threshold": lambda page: defaults(page, "stat")["thresholds"]["steps"][0].update(value="0.8"),
    "missing": lambda page: first(page, "heatmap")["options"].pop("color"),
    "kind": lambda page: first(page, "stat").update(type="gauge"),
    "place": lambda page: first(page, "stat")["gridPos"].pop("w"),
    "query": lambda page: first(page, "stat")["targets"][0].update(expr=1),
    "link": lambda page: next(p for p in check.panels(page) if p.get("links"))["links"][0].update(type="url"),
    "variable": lambda page: page["templating"]["list"][0].update(hide="yes"),
    "refresh": lambda page: page["templating"]["list"][1].update(refresh=7),
    "time": lambda page: page["time"].pop("to"),
    "schema": lambda page: page.pop("schemaVersion"),
}


def test_dashboards_are_typed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The compiler has nothing to say of the shipped ones, and something of each mutated one: one run for all."""
    pages = check.dashboards()
    mutated = {}
    for name, mutate in MUTATIONS.items():
        page = json.loads(json.dumps(pages["ragtrace-overview.json"]))
        mutate(page)
        mutated[f"mutated-{name}.json"] = page
    monkeypatch.setattr(check, "dashboards", lambda: {**pages, **mutated})
    findings = list(check.typed())
    assert [line for line in findings if not line.startswith("mutated-")] == []
    assert {line.split(".json")[0].removeprefix("mutated-") for line in findings} == MUTATIONS.keys()


def test_a_finding_names_the_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """The place in the dashboard's file, as it is shipped."""
    (name, page), *_ = check.dashboards().items()
    text = (check.HERE / "dashboards" / name).read_text(encoding="utf-8")
    line = next(i for i, found in enumerate(text.splitlines(), 1) if '"schemaVersion"' in found)
    monkeypatch.setattr(check, "dashboards", lambda: {name: {**page, "schemaVersion": "42"}})
    (finding,) = check.typed()
    assert finding.startswith(f"{name}.ts({line},")
