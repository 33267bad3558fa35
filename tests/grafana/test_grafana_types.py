"""The dashboards are what Grafana's own types say that a dashboard is, in TypeScript's compiler."""

import shutil
from typing import Any

import pytest

from tests.grafana import check, mutated
from tests.row_files import table

pytestmark = [
    pytest.mark.skipif(
        shutil.which("node") is None or check.modules() is None,
        reason="node, TypeScript or @grafana/schema is not installed: npm install in grafana/types",
    ),
    pytest.mark.timeout(300),
]


MUTATIONS: dict[str, Any] = table(__file__, "mutations")


def test_dashboards_are_typed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The compiler has nothing to say of the shipped ones, and something of each mutated one: one run for all."""
    pages = check.dashboards()
    page = pages["ragtrace-overview.json"]
    others = {f"mutated-{name}.json": mutated(page, *mutation) for name, mutation in MUTATIONS.items()}
    monkeypatch.setattr(check, "dashboards", lambda: {**pages, **others})
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
