"""How a worker says how it is, and how it ends."""

import re
import resource
import sqlite3
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from ragtrace.console.chatlogs.store import open_store
from ragtrace.errors import SettingError
from ragtrace.settings import load
from ragtrace.worker import service
from ragtrace.worker.buffer import DiskBuffer
from ragtrace.worker.service import Worker
from ragtrace.worker.worker_settings import load_worker
from tests.otlp.receivers import http_server, plain
from tests.worker import running as worker_runs
from tests.worker.processes import worker_process


def _get(url: str) -> tuple[int, str]:
    status, body, _ = worker_runs.post(url)
    return status, body.decode()


def test_health_readiness_and_metrics() -> None:
    with worker_runs.running({"quiet_seconds": 0.1}, prometheus_port=0) as run:
        base = run.url.removesuffix("/v1/traces")
        assert (_get(f"{base}/healthz")[0], _get(f"{base}/readyz")[0]) == (200, 200)
        run.post(worker_runs.request_of(1, 2).SerializeToString())
        run.wait(lambda s: s.sent == 4)
        run.post(worker_runs.request_of(2).SerializeToString())
        run.post(b"\xff")
        run.wait(lambda s: "duplicate" in s.dropped)
        _, text = _get(run.worker.runtime.metrics_url or "")
        lines = re.findall(r"^ragtrace_worker_(\w+)\{(.*)\} ([\d.]+)$", text, re.MULTILINE)
        values = {name: float(value) for name, _, value in lines}
        assert values["received_spans_total"] == 6
        assert values["sent_spans_total"] + values["dropped_spans_total"] + values["open_spans"] == 6
        assert (values["refused_requests_total"], values["traces_total"]) == (1, 2)


def test_a_worker_without_http_has_its_health_beside_its_metrics() -> None:
    with worker_runs.running({"http": ""}, prometheus_port=0) as run:
        metrics = run.worker.runtime.metrics_url or ""
        base = metrics.removesuffix("/metrics")
        assert (_get(f"{base}/healthz"), _get(f"{base}/readyz")) == ((200, "ok\n"), (200, "ok\n"))
        run.worker.ledger.open(1, run.worker.options.bytes)
        status, text = _get(f"{base}/readyz")
        assert (status, "bytes of spans" in text, _get(f"{base}/healthz")[0]) == (503, True, 200)
        run.worker.ledger.settle(1, run.worker.options.bytes)
        assert "ragtrace_worker_open_spans" in _get(metrics)[1]


def test_a_worker_whose_disk_is_full_is_not_ready(tmp_path: Path) -> None:
    """Requests get 503, what was acknowledged leaves, `/readyz` says why; with room again all is well."""
    body = worker_runs.request_of(*range(1, 400)).SerializeToString()
    with http_server() as (endpoint, received), worker_process(tmp_path, endpoint) as (process, url):
        base = url.removesuffix("/v1/traces")
        assert worker_runs.post(url, worker_runs.request_of(10_000).SerializeToString())[0] == 200
        unlimited = resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (65_536, resource.RLIM_INFINITY))
        status, _, headers = worker_runs.post(url, body)
        assert (status, headers["retry-after"]) == (503, "2")
        status, text = _get(f"{base}/readyz")
        assert (status, "buffer.db cannot be written" in text) == (503, True)
        assert _get(f"{base}/healthz")[0] == 200
        worker_runs.wait_for(received.spans, lambda spans: len(spans) == 2)
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, unlimited)
        worker_runs.wait_for(lambda: _get(f"{base}/readyz")[0], lambda status: status == 200)
        assert worker_runs.post(url, body)[0] == 200
        worker_runs.wait_for(received.spans, lambda spans: len(spans) == 800)


def test_a_full_worker_is_not_ready() -> None:
    with worker_runs.running({"bytes": 1_000_000, "quiet_seconds": 600.0}) as run:
        base = run.url.removesuffix("/v1/traces")
        message = ExportTraceServiceRequest()
        worker_runs.root(worker_runs.scope(message), 1).attributes.add(key="large").value.string_value = "x" * 1_100_000
        assert run.post(message.SerializeToString())[0] == 200  # one that is larger than all room is taken alone
        assert (_get(f"{base}/healthz")[0], _get(f"{base}/readyz")[0]) == (200, 503)
        assert run.post(worker_runs.request_of(2).SerializeToString())[0] == 429


def test_a_worker_that_stops_sends_what_is_open(tmp_path: Path) -> None:
    """`stop` ends traces whose root has arrived, evaluates them, sends them, and leaves the rest in the buffer."""
    buffer = tmp_path / "buffer.db"
    with worker_runs.running({"quiet_seconds": 600.0, "buffer": str(buffer)}) as run:
        message = worker_runs.request_of(1, 2)
        del message.resource_spans[0].scope_spans[0].spans[3]  # the second root
        assert run.post(message.SerializeToString())[0] == 200
        stats = run.worker.stop(20.0)
        spans = run.received.spans()
        assert plain(spans["span 11"].attributes)["gen_ai.evaluation.kept.score"] == 1.0
        assert (set(spans), stats.open) == ({"span 11", "span 12"}, 1)
        assert worker_runs.is_balanced(stats)
    assert worker_runs.count_rows(buffer, "pieces") == 1


def test_an_endpoint_that_comes_back_gets_everything_once() -> None:
    """Spans wait while the endpoint answers 503, late ones too; then each leaves and counts once."""
    statuses = {"traces": 503}
    with http_server(statuses) as (url, received), worker_runs.running(behind=url) as run:
        run.post(worker_runs.request_of(1, 2, 3).SerializeToString())
        run.wait(lambda _: bool(received.requests))
        time.sleep(0.3)
        late = ExportTraceServiceRequest()
        worker_runs.span(worker_runs.scope(late), 99, 1, 11)
        assert run.post(late.SerializeToString())[0] == 200
        assert _get(f"{run.url.removesuffix('/v1/traces')}/readyz")[0] == 200  # there is room
        assert run.worker.stats().open == 7
        statuses.clear()
        stats = run.wait(lambda s: s.sent == 7)
        assert len(received.spans()) == 7
        assert (stats.open, stats.open_bytes) == (0, 0)
        assert worker_runs.is_balanced(stats)


def test_one_worker_has_a_buffer(tmp_path: Path) -> None:
    """A second worker with it is an error at its start; to open it as a store, or a store as it, adds no table."""
    buffer = str(tmp_path / "buffer.db")
    with worker_runs.running({"buffer": buffer}), pytest.raises(SettingError, match="no other worker"):
        Worker(load_worker({"http": "127.0.0.1:0", "buffer": buffer}), load({"evaluators": "groundedness_lexical"}))
    store = str(tmp_path / "store.db")
    open_store(store).close()
    with pytest.raises(SettingError, match="another database"):
        DiskBuffer(store)
    with pytest.raises(SettingError, match="another database"):
        open_store(buffer)
    for file, table in ((store, "pieces"), (buffer, "traces")):
        assert not sqlite3.connect(file).execute("SELECT 1 FROM sqlite_master WHERE name = ?", (table,)).fetchall()


def test_spans_that_pass_are_redacted_where_the_setting_asks_for_it() -> None:
    """With `redact_others` no personal data of a span's texts leave; the evaluators read them as they came."""
    message = worker_runs.request_of(1)
    for one in message.resource_spans[0].scope_spans[0].spans:
        one.attributes.add(key="note").value.string_value = "write to ada@example.org"
        one.events.add(name="said").attributes.add(key="text").value.string_value = "ada@example.org"
    with worker_runs.running(redact="pii", redact_others=True) as run:
        run.post(message.SerializeToString())
        run.wait(lambda s: s.sent == 2)
        assert b"ada@example.org" not in run.received.traces.SerializeToString()
        assert b"write to" in run.received.traces.SerializeToString()
        assert len(run.evaluated) == 1


def test_what_goes_to_a_broker_is_redacted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without `redact_others`: the broker's messages are ragtrace's own."""
    messages: list[Any] = []
    publisher = SimpleNamespace(publish=lambda batch: [messages.append(each) or "" for each in batch], close=None)
    monkeypatch.setattr(service, "_publisher", lambda _: service.MessageDestination(publisher))
    message = worker_runs.request_of(1)
    message.resource_spans[0].scope_spans[0].spans[0].attributes.add(key="note").value.string_value = "ada@example.org"
    with worker_runs.running(behind="nats://localhost:4222/ragtrace", redact="pii") as run:
        run.post(message.SerializeToString())
        worker_runs.wait_for(lambda: messages, bool)
        publisher.close = lambda: None
    assert b"ada@example.org" not in messages[0].payload
    assert b"[email]" in messages[0].payload


def test_events_that_an_endpoint_does_not_take_keep_no_span(caplog: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor does a trace of many messages, which goes out in parts of a size that endpoints take."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
    with http_server({"logs": 503}) as (url, received), worker_runs.running({"quiet_seconds": 2.0}, behind=url) as run:
        for number in (2, 3, 4):
            message = ExportTraceServiceRequest()
            worker_runs.retriever(worker_runs.scope(message), 1, number).attributes.add(
                key="long"
            ).value.string_value = "x" * 1_500_000
            run.post(message.SerializeToString())
        run.post(worker_runs.request_of(1).SerializeToString())
        run.wait(lambda s: s.open == 0 and s.sent >= 4)
    assert sum(path.endswith("traces") for path, _ in received.requests) >= 2
    assert "takes no events" in caplog.text
