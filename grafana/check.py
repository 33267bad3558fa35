"""Checks all of grafana/: python grafana/check.py [--quick]

Static checks: the generated files are what their sources write; every panel has a title, a description that names its
metric, a unit and valid links; every alert has a severity, a summary and a runbook that exists; every metric in a query
or a rule is in docs/metrics.md or recorded here. With Debian's prometheus and prometheus-alertmanager: Prometheus
parses every query, and its tools check the rules, their unit tests and the routes. With node and `npm install` in
grafana/types: TypeScript's compiler checks every dashboard against the types of @grafana/schema.
"""

import argparse
import functools
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import yaml

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
SEVERITIES = {"page", "ticket", "info"}
_METRIC = re.compile(r"\bragtrace[_:][a-z0-9_]+\b")
_SUFFIX = re.compile(r"_(?:bucket|sum|count)$")
_VARIABLE = re.compile(r"\$\{?(\w+)")
_BUILT_IN = {f"__{name}" for name in (
    "range", "range_s", "rate_interval", "interval", "field", "from", "to", "data", "value", "all",
)}  # fmt: skip
ROUTES = {
    "severity=page slo=quality": "pager,review",
    "severity=page slo=safety": "pager,review",
    "severity=page": "pager",
    "severity=page env=prod": "pager",
    "severity=page env=prod slo=quality": "pager,review",
    "severity=page env=prod-eu": "pager",
    "severity=page env=Production": "pager",
    "severity=page env=staging": "tickets",
    "severity=page env=dev slo=quality": "tickets",
    "severity=ticket slo=quality": "review,tickets",
    "severity=ticket": "tickets",
    "severity=info": "list",
}


def dashboards() -> dict[str, dict[str, Any]]:
    """Returns the shipped dashboards by file name."""
    return {p.name: json.loads(p.read_text(encoding="utf-8")) for p in sorted((HERE / "dashboards").glob("*.json"))}


def panels(page: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yields the panels of a dashboard, without its rows."""
    for panel in page["panels"]:
        if panel["type"] == "row":
            yield from panel.get("panels", ())
        else:
            yield panel


def rules() -> list[dict[str, Any]]:
    """Returns every rule of every group."""
    files = sorted((HERE / "rules").glob("*.yml"))
    return [r for f in files for g in yaml.safe_load(f.read_text(encoding="utf-8"))["groups"] for r in g["rules"]]


def plain(expr: str, evaluator: str = ".*") -> str:
    """Returns a panel's query with values in place of its variables; `evaluator` is the one that is chosen."""
    for name, value in (("range_s", "21600"), ("range", "6h"), ("rate_interval", "5m")):
        expr = expr.replace(f"$__{name}", value)
    filled = expr.replace("$evaluator", evaluator)
    return re.sub(r"\$\{?\w+\}?", ".*", filled)


def generated() -> Iterator[str]:
    """Yields the files that differ from what their source writes."""
    for name in ("scenario_tests", "dashboards"):
        if name == "dashboards" and importlib.util.find_spec("grafana_foundation_sdk") is None:
            continue
        done = subprocess.run(
            [sys.executable, str(HERE / "source" / f"{name}.py"), "--check"],
            capture_output=True,
            text=True,
            check=False,
        )
        yield from done.stderr.splitlines()


def lint() -> Iterator[str]:
    """Yields the problems of the dashboards and alerts."""
    uids = {page["uid"] for page in dashboards().values()}
    for name, page in dashboards().items():
        variables = {v["name"] for v in page["templating"]["list"]} | _BUILT_IN
        if name != f"{page['uid']}.json" or page.get("editable") or page.get("id") or "__inputs" in page:
            yield f"{name}: the file name must be its uid, and editable, id and __inputs must be absent"
        ids = [panel["id"] for panel in page["panels"]]
        if len(set(ids)) < len(ids):
            yield f"{name}: two panels have the same id"
        for used in _VARIABLE.findall(json.dumps(page)):
            if used not in variables:
                yield f"{name}: the variable {used} is not defined"
        for source in _sources(page):
            if source.get("uid") not in ("${datasource}", "-- Grafana --"):
                yield f"{name}: the data source {source} is not a variable"
        for variable in page["templating"]["list"]:
            if variable["type"] == "constant":
                yield f"{name}: {variable['name']} is a constant, which nobody can change in a provisioned dashboard"
        yield from _overlaps(name, page)
        for panel in panels(page):
            yield from _panel(f"{name}: {panel.get('title')!r}", panel)
    for rule in rules():
        if "alert" in rule:
            yield from _alert(rule, uids)


MOST_RULES, MOST_BYTES, LONGEST = 60, 50_000, 600
"""What a person can own."""


def owned() -> Iterator[str]:
    """Yields what makes the rules more than a person can own."""
    size = sum(file.stat().st_size for file in (HERE / "rules").glob("*.yml"))
    if len(rules()) > MOST_RULES or size > MOST_BYTES:
        yield f"{len(rules())} rules of {size} bytes are more than {MOST_RULES} of {MOST_BYTES}"
    yield from (
        f"{rule.get('record') or rule['alert']}: the expression is too long"
        for rule in rules()
        if len(rule["expr"]) > LONGEST
    )


def _sources(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            if key == "datasource" and isinstance(inner, dict):
                yield inner
            else:
                yield from _sources(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _sources(inner)


def _overlaps(name: str, page: dict[str, Any]) -> Iterator[str]:
    cells: dict[tuple[int, int], str] = {}
    for panel in page["panels"]:
        at = panel["gridPos"]
        if at["x"] + at["w"] > 24:
            yield f"{name}: {panel['title']!r} is wider than the page"
        for x in range(at["x"], at["x"] + at["w"]):
            for y in range(at["y"], at["y"] + at["h"]):
                if (x, y) in cells:
                    yield f"{name}: {panel['title']!r} overlaps {cells[x, y]!r}"
                    return
                cells[x, y] = panel["title"]


def _data_links(panel: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yields every link of a panel: its own, those of its fields and those of single columns."""
    yield from panel.get("links") or ()
    yield from panel["fieldConfig"]["defaults"].get("links") or ()
    for override in panel["fieldConfig"].get("overrides") or ():
        for setting in override["properties"]:
            if setting["id"] == "links":
                yield from setting["value"]


_TYPES = {"stat", "timeseries", "heatmap", "table"}


def _panel(where: str, panel: dict[str, Any]) -> Iterator[str]:
    if panel["type"] not in _TYPES:
        yield f"{where}: the panel type {panel['type']} is not allowed"
    if not panel.get("title"):
        yield f"{where}: the panel has no title"
    text = panel.get("description", "")
    if "Metric: `" not in text:
        yield f"{where}: the description names no metric"
    elif text.split("Metric: `")[1].split("`")[0] not in json.dumps(panel["targets"]):
        yield f"{where}: the metric in the description is not in its queries"
    if panel["type"] != "heatmap" and not panel["fieldConfig"]["defaults"].get("unit"):
        yield f"{where}: the panel has no unit"
    yield from _queries(where, panel["targets"])
    yield from _links(where, panel)
    yield from _variables(where, panel)


def _queries(where: str, targets: list[dict[str, Any]]) -> Iterator[str]:
    refs = [target["refId"] for target in targets]
    if len(set(refs)) < len(refs) or not all(target.get("expr") for target in targets):
        yield f"{where}: each query needs an expression and its own refId"
    for target in targets:
        if re.search(r"\[[0-9]+s\]|\[1m\]", target["expr"]):
            yield f"{where}: a window is shorter than two scrapes"


def _links(where: str, panel: dict[str, Any]) -> Iterator[str]:
    for link in panel.get("links") or ():
        if "/docs/runbooks/" in link["url"] and not (ROOT / "docs/runbooks" / link["url"].rsplit("/", 1)[1]).is_file():
            yield f"{where}: {link['url']} does not exist"
    for link in _data_links(panel):
        if "${chatlog_url}/traces" in link["url"] and not all(
            part in link["url"] for part in ("app=", "env=", "since=", "until=")
        ):
            yield f"{where}: the link to the console drops the application, the environment or the time"
    for link in panel["fieldConfig"]["defaults"].get("links") or ():
        for label in re.findall(r"__field\.labels\.(\w+)", link["url"]):
            if not all(_keeps(target["expr"], label) for target in panel["targets"]):
                yield f"{where}: the link uses the label {label}, which its query does not keep"


def _variables(where: str, panel: dict[str, Any]) -> Iterator[str]:
    """A query whose metrics all have the label of a variable must use the variable."""
    labels = _labels()
    for target in panel["targets"]:
        metrics = {_SUFFIX.sub("", name) for name in _METRIC.findall(re.sub(r'"[^"]*"', '""', target["expr"]))}
        for label in ("model", "prompt_version"):
            if metrics and all(label in labels.get(name, ()) for name in metrics) and f"${label}" not in target["expr"]:
                yield f"{where}: the variable {label} does not act on query {target['refId']}"
        is_of_console = re.search(
            "ragtrace_(review|topic|true)", target["expr"]
        )  # the console's metrics have no label app
        if metrics & labels.keys() and "$app" not in target["expr"] and not is_of_console:
            yield f"{where}: the variable app does not act on query {target['refId']}"


@functools.cache
def _labels() -> dict[str, frozenset[str]]:
    """Returns the labels of each metric of docs/metrics.md."""
    page = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
    rows = [line.split("|") for line in page.splitlines() if line.startswith("| `ragtrace_")]
    return {cells[1].strip(" `"): frozenset(re.findall(r"`(\w+)`", cells[3])) for cells in rows}


def _keeps(expr: str, label: str) -> bool:
    groups = re.findall(r"by \(([^)]*)\)", expr)
    return all(label in by for by in groups) if groups else "ragtrace:" in expr


def _alert(rule: dict[str, Any], uids: set[str]) -> Iterator[str]:
    where = f"alert {rule['alert']}"
    if rule["labels"].get("severity") not in SEVERITIES:
        yield f"{where}: the severity {rule['labels'].get('severity')} is not one of {sorted(SEVERITIES)}"
    notes = rule["annotations"]
    if not notes.get("summary"):
        yield f"{where}: the alert has no summary"
    if not (ROOT / "docs/runbooks" / notes["runbook_url"].rsplit("/", 1)[1]).is_file():
        yield f"{where}: {notes['runbook_url']} does not exist"
    if notes["dashboard_url"].split("?")[0].rsplit("/", 1)[1] not in uids:
        yield f"{where}: {notes['dashboard_url']} is not the address of a dashboard in grafana/dashboards"


def catalogue() -> Iterator[str]:
    """Yields the metrics that are used but neither exported nor recorded."""
    # What is yours to set, such as an objective, is described in objectives.yml and absent as shipped.
    page = "".join((ROOT / "docs" / name).read_text(encoding="utf-8") for name in ("metrics.md", "worker.md"))
    page += (HERE / "rules" / "objectives.yml").read_text(encoding="utf-8")
    metrics = set(_METRIC.findall(page)) | {rule["record"] for rule in rules() if "record" in rule}
    used = [(rule.get("alert") or rule["record"], rule["expr"]) for rule in rules()]
    used += [
        (f"{name}: {panel['title']}", target["expr"])
        for name, board in dashboards().items()
        for panel in panels(board)
        for target in panel["targets"]
    ]
    used += runbook_queries()
    for where, expr in used:
        for metric in _METRIC.findall(re.sub(r'"[^"]*"', '""', expr)):
            if metric not in metrics and _SUFFIX.sub("", metric) not in metrics:
                yield f"{where}: the metric {metric} does not exist"


def parsed() -> Iterator[str]:
    """Yields what Prometheus's and Alertmanager's tools report on queries, rules, configuration and routes."""
    exprs = [plain(t["expr"]) for page in dashboards().values() for p in panels(page) for t in p["targets"]]
    exprs += [query for _, query in runbook_queries()]
    queries = [{"record": f"q:{i}", "expr": expr} for i, expr in enumerate(exprs)]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "queries.yml"
        path.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": queries}]}), encoding="utf-8")
        yield from _run("promtool", "check", "rules", str(path))
    files = [str(p) for p in sorted((HERE / "rules").glob("*.yml"))]
    yield from _run("promtool", "check", "rules", "--lint=all", "--lint-fatal", *files)
    yield from _run("amtool", "check-config", str(HERE / "alertmanager" / "alertmanager.yml"))
    for labels, receivers in ROUTES.items():
        yield from _run(
            "amtool", "config", "routes", "test", f"--config.file={HERE / 'alertmanager' / 'alertmanager.yml'}",
            f"--verify.receivers={receivers}", *labels.split(),
        )  # fmt: skip


_SECTIONS = (
    "What it means", "What to look at", "What to do", "How to see that it is over", "How to silence it", "False alarms",
)  # fmt: skip
_PROMQL = re.compile(r"```promql\n(.+?)\n```", re.DOTALL)


def runbook_queries() -> list[tuple[str, str]]:
    """Returns the queries of the runbooks, each with the name of its alert."""
    pages = sorted((ROOT / "docs" / "runbooks").glob("*.md"))
    return [(page.stem, query) for page in pages for query in _PROMQL.findall(page.read_text(encoding="utf-8"))]


def runbooks() -> Iterator[str]:
    """Yields the sections and queries that runbooks lack, and the runbooks without an alert."""
    alerts = {rule["alert"] for rule in rules() if "alert" in rule}
    queried = {name for name, _ in runbook_queries()}
    for page in sorted((ROOT / "docs" / "runbooks").glob("*.md")):
        text = page.read_text(encoding="utf-8")
        if page.stem not in alerts:
            yield f"{page.name}: there is no such alert"
        for section in _SECTIONS:
            if f"## {section}\n" not in text:
                yield f"{page.name}: the section {section!r} is missing"
        if page.stem not in queried or f"amtool silence add alertname={page.stem}" not in text:
            yield f"{page.name}: a query or the command that silences the alert is missing"


def modules() -> Path | None:
    """Returns the folder in which npm installed TypeScript and Grafana's types, or None."""
    for folder in (HERE / "types" / "node_modules", HERE / "render" / "node_modules"):
        if (folder / "typescript").is_dir() and (folder / "@grafana" / "schema").is_dir():
            return folder
    return None


def typed() -> Iterator[str]:
    """Yields the errors of TypeScript's compiler for the dashboards as literals of Grafana's types."""
    node_modules = modules()
    if node_modules is None or shutil.which("node") is None:
        yield "node, or TypeScript and @grafana/schema, are not installed: npm install in grafana/types"
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "node_modules").symlink_to(node_modules)
        for source in ("page.ts", "tsconfig.json"):
            shutil.copy(HERE / "types" / source, folder)
        for file, page in dashboards().items():
            text = json.dumps(page, indent=2, ensure_ascii=False)
            start = 'import type { Page } from "./page"; export const page: Page = '
            (folder / f"{file}.ts").write_text(f"{start}{text};\n", encoding="utf-8")
        command = ["node", str(folder / "node_modules/typescript/bin/tsc"), "--pretty", "false", "-p", name]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        lines = [line for line in done.stdout.splitlines() if not line.startswith(" ")]
        yield from lines or [f"tsc: {done.stderr.strip()}"]


def tested() -> Iterator[str]:
    """Yields the failures of the rules' unit tests. Runs one promtool for each file, in parallel."""
    files = sorted((HERE / "rules" / "tests").glob("*.yml"), key=lambda p: -p.stat().st_size)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for failures in pool.map(lambda path: [*_run("promtool", "test", "rules", str(path))], files):
            yield from failures


def _run(*command: str) -> Iterator[str]:
    if shutil.which(command[0]) is None:
        yield f"{command[0]} is not installed: apt-get install prometheus prometheus-alertmanager"
        return
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        yield f"{' '.join(command[:3])}: {(done.stdout + done.stderr).strip()}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="skip the rules' unit tests")
    options = parser.parse_args()
    findings = [*generated(), *owned(), *lint(), *runbooks(), *catalogue(), *parsed()]
    if modules() is None or shutil.which("node") is None:
        print("types: not checked; install node, and run npm install in grafana/types")
    else:
        findings += typed()
    if not options.quick:
        findings += tested()
    for line in findings:
        print(line, file=sys.stderr)
    print(f"grafana/: {len(findings)} findings")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
