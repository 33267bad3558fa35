"""From an answer with a secret to the pager and into the review queue."""

import contextlib
import shutil
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ragtrace import plugins
from ragtrace.evaluation import run
from ragtrace.records import Evaluation, Facts
from ragtrace.testing import make_trace
from ragtrace_prometheus import PrometheusSink, serve
from tests.delivery.servers import Asked, Running
from tests.grafana import ROOT, simulate
from tests.ports import free_port
from tests.waiting import until

pytestmark = pytest.mark.skipif(
    shutil.which("prometheus") is None or shutil.which("prometheus-alertmanager") is None,
    reason="prometheus or prometheus-alertmanager is not installed: apt-get install them",
)
GRAFANA = ROOT / "grafana"
SECRET = "Use this:\n-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEA7bq3zvVJ0Pq9x8mYt4rWcXkZfN2\n"


class Webhook:
    """Keeps what Alertmanager posts, by path."""

    def __init__(self) -> None:
        self.posted: list[tuple[str, dict[str, Any]]] = []

    def answer(self, asked: Asked) -> tuple[int, Any]:
        if asked.path == "/api/alerts" and asked.headers.get("authorization") != "Bearer a token":
            return 401, {}
        self.posted.append((asked.path, asked.body))
        return 200, {}


def is_ready(url: str) -> bool:
    with contextlib.suppress(OSError), urllib.request.urlopen(f"{url}/-/ready", timeout=1):
        return True
    return False


@pytest.fixture
def chain(tmp_path: Path) -> Iterator[tuple[PrometheusSink, Webhook, str]]:
    """The shipped rules and routes, a second where they say a minute."""
    sink = PrometheusSink(app="shop", env="prod", evaluators=[plugins.load("sensitive_data_leakage")])
    metrics = serve(sink.registry, 0)
    webhook = Webhook()
    receiver = Running(webhook)
    prometheus, alertmanager = free_port(), free_port()
    shutil.copytree(GRAFANA / "rules", tmp_path / "rules")
    for path in (tmp_path / "rules").glob("*.yml"):
        path.write_text(path.read_text(encoding="utf-8").replace("interval: 1m", "interval: 1s"), encoding="utf-8")
    routes = (GRAFANA / "alertmanager" / "alertmanager.yml").read_text(encoding="utf-8")
    (tmp_path / "token").write_text("a token", encoding="utf-8")
    routes = routes.replace("/etc/alertmanager/console-token", str(tmp_path / "token"))
    for old in ("localhost:9095", "localhost:8400"):
        routes = routes.replace(old, receiver.url.removeprefix("http://"))
    (tmp_path / "alertmanager.yml").write_text(routes.replace("group_wait: 1m", "group_wait: 1s"), encoding="utf-8")
    target = metrics.url.removeprefix("http://").removesuffix("/metrics")
    (tmp_path / "prometheus.yml").write_text(
        "global: {scrape_interval: 1s, evaluation_interval: 1s}\n"
        f"scrape_configs: [{{job_name: ragtrace, static_configs: [{{targets: ['{target}']}}]}}]\n"
        "rule_files: [rules/*.yml]\n"
        f"alerting: {{alertmanagers: [{{static_configs: [{{targets: ['127.0.0.1:{alertmanager}']}}]}}]}}\n",
        encoding="utf-8",
    )  # fmt: skip
    commands = [
        ["prometheus", "--config.file=prometheus.yml", "--storage.tsdb.path=data", "--enable-feature=exemplar-storage",
         f"--web.listen-address=127.0.0.1:{prometheus}"],
        ["prometheus-alertmanager", "--config.file=alertmanager.yml", "--storage.path=silences",
         f"--web.listen-address=127.0.0.1:{alertmanager}", "--cluster.listen-address="],
    ]  # fmt: skip
    processes = [
        subprocess.Popen(c, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for c in commands
    ]
    try:
        until(lambda: all(is_ready(f"http://127.0.0.1:{port}") for port in (prometheus, alertmanager)))
        yield sink, webhook, f"http://127.0.0.1:{prometheus}"
    finally:
        for process in processes:
            process.kill()
            process.wait()
        receiver.stop()
        metrics.close()


def test_a_secret_reaches_the_pager(chain: tuple[PrometheusSink, Webhook, str], tmp_path: Path) -> None:
    """One evaluated answer with a private key: the pager and the review queue are told within half a minute, with the
    application, the evaluator and a runbook; Prometheus knows the trace by an exemplar; and what Alertmanager posts for
    review makes that very trace, and no other, a review item."""
    sink, webhook, prometheus = chain
    until(lambda: simulate.ask(prometheus, "query", query='ragtrace_evaluations_total{verdict="fail"}')["result"])
    check = plugins.load("sensitive_data_leakage")
    now = time.time()
    facts = Facts(app="shop", env="prod")
    trace = make_trace(answer=SECRET, started=now, facts=facts)
    clean = make_trace(trace_id=2, span_id=2, started=now, facts=facts)
    evaluations = [Evaluation(t, tuple(s)) for t, s in zip((trace, clean), run(check, [trace, clean]), strict=True)]
    for evaluation in evaluations:
        sink(evaluation)
    until(lambda: {path for path, _ in webhook.posted} >= {"/pager", "/api/alerts"})
    (alert,) = next(body for path, body in webhook.posted if path == "/pager")["alerts"]
    labels = {"alertname": "RagtraceSecretLeaked", "app": "shop", "evaluator": "sensitive_data_leakage"}
    assert labels.items() <= alert["labels"].items()
    assert "shop/prod: answers of the last 15 minutes that hold a secret" in alert["annotations"]["summary"]
    assert alert["annotations"]["runbook_url"].endswith("RagtraceSecretLeaked.md")
    now = time.time()
    period = {"start": f"{now - 300:.0f}", "end": f"{now + 60:.0f}"}
    found = simulate.ask(prometheus, "query_exemplars", query="ragtrace_evaluations_total", **period)
    traces = {e["labels"]["trace_id"] for series in found for e in series["exemplars"]}
    assert f"{trace.trace_id:032x}" in traces
    store_module = pytest.importorskip("ragtrace.console.chatlogs.store", reason="sqlalchemy is not installed")
    from ragtrace.console.chatlogs.schema import users
    from ragtrace.console.review.alerts import Alerts, review_items_from_alert
    from ragtrace.console.review.queue import next_task

    store = store_module.open_store(str(tmp_path / "store.db"))
    store.write(evaluations, [check])
    store.execute(users.insert().values(name="ann", role="reviewer", created=now))
    posted = next(body for path, body in webhook.posted if path == "/api/alerts")
    assert review_items_from_alert(store, Alerts.model_validate(posted)) == 1
    task = next_task(store, 1)
    assert (task.trace_id, task.reason) == (f"{trace.trace_id:032x}", "alert")
    store.close()
