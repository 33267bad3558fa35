"""Every query of every dashboard has an answer: over a simulated day with an incident, in a real Prometheus."""

import math
import re
import shutil
from collections.abc import Iterator
from typing import Any

import pytest

from tests.grafana import check, simulate
from tests.prometheus.metrics_page import documented
from tests.row_files import table

pytestmark = [
    pytest.mark.skipif(
        shutil.which("prometheus") is None or shutil.which("promtool") is None,
        reason="prometheus or promtool is not installed: apt-get install prometheus",
    ),
    pytest.mark.timeout(900),
]


END = 1_772_467_200
"""2 March 2026, 16:00 UTC."""
SHOWN = 6 * 3_600
STEP = 120
BEYOND: dict[str, list[float]] = table(__file__, "beyond")
"""Shares that may leave 0..1, and how far."""


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    data = simulate.load(tmp_path_factory.mktemp("panels") / "day", step=STEP, end=END)
    with simulate.serving(data) as url:
        yield url


def targets() -> Iterator[Any]:
    for name, page in check.dashboards().items():
        # A row that is repeated for each evaluator shows one in each of its panels.
        repeated = ""
        for panel in page["panels"]:
            if panel["type"] == "row":
                repeated = panel.get("repeat", "")
                continue
            chosen = "faithfulness" if repeated else ".*"
            for target in panel["targets"]:
                id = f"{name[9:-5]}-{panel['title']}-{target['refId']}"
                yield pytest.param(panel, target | {"expr": check.plain(target["expr"], chosen)}, id=id)


def column(panel: dict[str, Any], target: dict[str, Any]) -> tuple[str, str | None]:
    """The name and the unit of what a target shows: of a table's column, or of the whole panel."""
    unit = panel["fieldConfig"]["defaults"].get("unit")
    shapes = [t["options"] for t in panel.get("transformations") or () if t["id"] == "organize"]
    names = shapes[0]["renameByName"] if shapes else {}
    name = names.get(f"Value #{target['refId']}", names.get("Value"))
    for override in panel["fieldConfig"].get("overrides") or ():
        if override["matcher"] == {"id": "byName", "options": name}:
            unit = next((p["value"] for p in override["properties"] if p["id"] == "unit"), unit)
    return name or panel["title"], unit


def answers(url: str, target: dict[str, Any]) -> list[dict[str, Any]]:
    """The series of a target, each with its values."""
    expr = target["expr"]
    if target.get("instant"):
        found = simulate.ask(url, "query", query=expr, time=END)["result"]
        return [{**series, "values": [series["value"]]} for series in found]
    asked = {"query": expr, "start": END - SHOWN, "end": END, "step": STEP}
    return list(simulate.ask(url, "query_range", **asked)["result"])


@pytest.mark.parametrize(("panel", "target"), targets())
def test_a_query_has_an_answer(panel: dict[str, Any], target: dict[str, Any], prometheus: str) -> None:
    """No error, some values, not too many series, shares between 0 and 1, and the labels that the legend shows."""
    found = answers(prometheus, target)
    if panel["title"] == "Worst application now":  # one of its queries has an answer: bad, good, or no evaluations
        both = [answers(prometheus, t | {"expr": check.plain(t["expr"])}) for t in panel["targets"]]
        assert [len(each) for each in both] == [1, 0, 1, 0]
        return
    assert found
    assert len(found) <= 200
    values = [float(value) for series in found for _, value in series["values"]]
    assert any(not math.isnan(value) for value in values)
    name, unit = column(panel, target)
    if unit == "percentunit":
        low, high = BEYOND.get(name, [-1e-6, 1.05])
        assert all(math.isnan(value) or low <= value <= high for value in values), (min(values), max(values))
    if unit == "percent":
        assert max(values) > 1.05, "0 to 1 is percentunit"
    shown = re.findall(r"\{\{\s*(\w+)\s*\}\}", target["legendFormat"])
    named = {tuple(series["metric"][label] for label in shown) for series in found}
    if panel["type"] == "timeseries":  # what a legend shows tells the series apart
        assert len(named) == len(found), target["legendFormat"]


@pytest.mark.parametrize("name", [v["name"] for v in next(iter(check.dashboards().values()))["templating"]["list"]])
def test_a_variable_has_values(name: str, prometheus: str) -> None:
    """What label_values asks for is there, and the default is one of them."""
    for page in check.dashboards().values():
        (variable,) = (v for v in page["templating"]["list"] if v["name"] == name)
        if variable["type"] != "query":
            return
        asked = variable["query"]
        matched = re.fullmatch(r"label_values\((.+), (\w+)\)", asked if isinstance(asked, str) else asked["query"])
        match, label = check.plain(matched[1]), matched[2]
        query = {"match[]": match, "start": END - SHOWN, "end": END}
        assert (values := simulate.ask(prometheus, f"label/{label}/values", **query))
        assert variable["current"]["value"] in ("$__all", *values)


def test_annotations_mark_pages_and_what_was_deployed(prometheus: str) -> None:
    """A new prompt version is marked when it begins and not later; pages are marked; every annotation is answered."""
    page = check.dashboards()["ragtrace-overview.json"]
    marks = {}
    for annotation in page["annotations"]["list"]:
        asked = {"query": check.plain(annotation["expr"]), "start": END - SHOWN, "end": END, "step": STEP}
        marks[annotation["name"]] = simulate.ask(prometheus, "query_range", **asked)["result"]
    (version,) = marks["New prompt versions"]
    assert version["metric"] == {"app": "shop", "env": "prod", "prompt_version": "2026-03"}
    times = [at for at, _ in version["values"]]
    assert END - 4 * 3_600 <= min(times) <= max(times) <= END - 4 * 3_600 + 600
    assert any(series["metric"]["app"] == "helpdesk" for series in marks["Pages"])
    assert set(marks) == {"Pages", "New prompt versions", "New models", "Changed evaluators"}
    for annotation in page["annotations"]["list"]:
        used = re.findall(r"\{\{(\w+)\}\}", annotation["titleFormat"] + annotation["textFormat"])
        assert all(label in annotation["expr"] or label == "alertname" for label in used)


def test_the_first_row_names_the_application_that_fell(prometheus: str) -> None:
    """The worst application is the one with the incident, in red and bad; its largest cause is retrieval's."""
    panels = {panel["title"]: panel for panel in check.panels(check.dashboards()["ragtrace-overview.json"])}

    def values(title: str, name: str) -> dict[str, float]:
        panel = panels[title]
        (target,) = (t for t in panel["targets"] if column(panel, t)[0] == name)
        found = answers(prometheus, target | {"expr": check.plain(target["expr"], "faithfulness")})
        return {
            ":".join(s["metric"][k] for k in ("app", "cause") if k in s["metric"]): float(s["values"][-1][1])
            for s in found
        }

    panel = panels["Worst application now"]
    (series,) = answers(prometheus, {"expr": check.plain(panel["targets"][0]["expr"], "faithfulness")})
    assert series["metric"]["app"] == "helpdesk"
    assert float(series["values"][-1][1]) == pytest.approx(0.75, abs=0.06)
    (*others, absent) = [answers(prometheus, {"expr": check.plain(t["expr"], "none")}) for t in panel["targets"]]
    assert not any(others)
    assert [value for _, value in absent[0]["values"]][-1] == "0"
    overrides = {o["matcher"]["options"]: o["properties"][0]["value"] for o in panel["fieldConfig"]["overrides"]}
    assert overrides["A"] == overrides["D"] == {"mode": "fixed", "fixedColor": "red"}
    assert values("Applications, worst first", "state") == {"helpdesk": 2, "shop": 0}
    lower, upper = (values("Applications, worst first", name)["helpdesk"] for name in ("at least", "at most"))
    assert 0 < lower < values("Applications, worst first", "fails")["helpdesk"] < upper < 1
    assert values("What changed", "since") == {"shop": (END - 4 * 3_600) * 1_000}
    causes = values("Main causes of bad answers, last hour", "share")
    of_helpdesk = [key for key in causes if key.startswith("helpdesk")]
    assert max(of_helpdesk, key=causes.__getitem__) == "helpdesk:irrelevant_context"
    assert sum(value for key, value in causes.items() if key.startswith("shop")) == pytest.approx(1)


def test_an_application_has_one_colour_everywhere() -> None:
    """Every panel with a line for each application gives it the same colour, and none that says good or bad."""
    seen: dict[str, set[str]] = {}
    for page in check.dashboards().values():
        for panel in check.panels(page):
            legends = [t["legendFormat"] for t in panel["targets"]]
            if panel["type"] != "timeseries" or not any("{{app}}" in legend for legend in legends):
                continue
            for app in ("helpdesk/prod", "shop/prod", "shop/staging", "a-b_/dev", "ä/prod"):
                colors = [
                    setting["value"]["fixedColor"] for override in panel["fieldConfig"]["overrides"]
                    if override["matcher"]["id"] == "byRegexp"
                    and re.search(override["matcher"]["options"][1:-1].replace("\\/", "/"), app)
                    for setting in override["properties"] if setting["id"] == "color"
                ]  # fmt: skip
                assert len(colors) == 1, (panel["title"], app)
                seen.setdefault(app.split("/")[0], set()).update(colors)
    assert all(len(colors) == 1 for colors in seen.values())
    assert seen["helpdesk"] != seen["shop"]


def test_the_incident_is_seen(prometheus: str) -> None:
    """Only the first application is worse than before, and the excess (a stand-in, see simulate.py) says so."""

    def value(query: str, at: float = END) -> float:
        (series,) = simulate.ask(prometheus, "query", query=query, time=at)["result"]
        return float(series["value"][1])

    bad, good = (f'{{app="{app}",evaluator="faithfulness",group=""}}' for app in ("helpdesk", "shop"))
    rate = "ragtrace:fails1h{} / ragtrace:evaluations1h"
    assert value(rate.format(bad)) == pytest.approx(0.25, abs=0.06)
    assert value(rate.format(bad), END - 3 * 3_600) == pytest.approx(0.07, abs=0.04)
    assert value(rate.format(good)) == pytest.approx(0.07, abs=0.04)
    assert value(f"max(ragtrace:excess{bad})") > 6.5 > value(f"max(ragtrace:excess{good}) or vector(0)")
    empty = 'ragtrace_retrieval_empty_total{app="helpdesk"}[1h]'
    whole = 'ragtrace_retrieved_documents_count{app="helpdesk"}[1h]'
    assert value(f"rate({empty}) / rate({whole})") == pytest.approx(0.2, abs=0.05)


def test_the_incident_wakes_someone_and_nothing_else_does(prometheus: str) -> None:
    """Of all alerts those on quality and retrieval hold at the end, for the first application, and none before."""

    def holding(at: float) -> set[tuple[str, str, str]]:
        found = set()
        for rule in check.rules():
            if "alert" in rule:
                for series in simulate.ask(prometheus, "query", query=rule["expr"], time=at)["result"]:
                    found.add((rule["alert"], rule["labels"]["severity"], series["metric"].get("app", "")))
        return found

    assert holding(END - 2.5 * 3_600) == set()
    assert holding(END) == {
        ("RagtraceQualityDrop", "page", "helpdesk"),
        ("RagtraceQualityDrop", "ticket", "helpdesk"),
        ("RagtraceRetrievalEmpty", "ticket", "helpdesk"),
    }


def test_the_simulation_is_of_our_metrics() -> None:
    """Names, types and labels as docs/metrics.md has them, which a live scrape is compared with."""
    simulated: dict[str, tuple[str, frozenset[str]]] = {}
    made = simulate.history(hours=1, end=END)
    for family, (kind, series) in made.families.items():
        name = f"{family}_total" if kind == "counter" else family
        for text, _ in series:
            labels = frozenset(re.findall(r'(\w+)="', text)) - {"app", "env", "le"}
            assert simulated.setdefault(name, (kind, labels)) == (kind, labels), name
    page = documented(with_review=True).items()
    assert simulated == {name: (kind, labels - {"app"}) for name, (kind, labels) in page}


def test_a_seed_gives_the_same_day() -> None:
    """The same arguments, the same samples; another seed, others."""

    def last(seed: int) -> list[float]:
        made = simulate.history(hours=1, seed=seed, end=END)
        return [float(values[-1]) for _, series in made.families.values() for _, values in series]

    assert last(1) == last(1)
    assert last(1) != last(2)
