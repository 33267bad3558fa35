"""A worker in this process, with a real receiver behind it, and messages to send to it."""

import contextlib
import sqlite3
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from ragtrace.evaluation import Evaluator
from ragtrace.live import init
from ragtrace.records import Trace
from ragtrace.settings import load
from ragtrace.worker.service import Worker
from ragtrace.worker.span_counts import WorkerStats
from ragtrace.worker.worker_settings import load_worker
from ragtrace_otlp.wire import write_attributes
from tests.otlp.receivers import Received, http_server, plain

QUESTION, ANSWER = "How long is the pump covered?", "The pump is covered for 24 months."
PROTOBUF = "application/x-protobuf"


@dataclass
class Running:
    """A worker that runs, what arrived behind it, and the traces that it evaluated."""

    worker: Worker
    received: Received
    evaluated: list[Trace] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.worker.http_port}/v1/traces"

    def post(self, body: bytes, kind: str = PROTOBUF, **headers: str) -> tuple[int, bytes, dict[str, str]]:
        return post(self.url, body, kind, **headers)

    def wait(self, condition: Callable[[WorkerStats], bool]) -> WorkerStats:
        return wait_for(self.worker.stats, condition)

    def evaluate(self, request: ExportTraceServiceRequest) -> Trace:
        """The trace that a message with one request gives."""
        count = len(self.evaluated)
        assert self.post(request.SerializeToString())[0] == 200
        wait_for(lambda: len(self.evaluated), lambda number: number > count)
        [trace] = self.evaluated[count:]
        return trace

    def sent_spans(self) -> list[Any]:
        return [s for r in self.received.traces.resource_spans for scope in r.scope_spans for s in scope.spans]


def wait_for(stats: Callable[[], Any], condition: Callable[[Any], bool], seconds: float = 60.0) -> Any:
    """What `stats` gives, once the condition holds."""
    until = time.monotonic() + seconds
    while not condition(value := stats()):
        assert time.monotonic() < until, value
        time.sleep(0.02)
    return value


def post(
    url: str, body: bytes | None = None, kind: str = PROTOBUF, **headers: str
) -> tuple[int, bytes, dict[str, str]]:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    request = urllib.request.Request(url, body, {"Content-Type": kind, **named})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, answer.read(), dict(answer.headers)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read(), dict(error.headers)


def evaluator_into(traces: list[Trace]) -> Evaluator:
    """An evaluator that keeps the traces, and scores each with 1."""

    def keep(trace: Trace) -> float:
        traces.append(trace)
        return 1.0

    return Evaluator("kept", keep)


@contextlib.contextmanager
def running(own: dict[str, Any] | None = None, behind: str = "", **settings: Any) -> Iterator[Running]:
    """A worker that listens over gRPC and HTTP, and the receiver behind it unless `behind` names another one."""
    evaluated: list[Trace] = []
    defaults = {"grpc": "127.0.0.1:0", "http": "127.0.0.1:0", "quiet_seconds": 0.2}
    with http_server() as (url, received):
        common = {"otlp_endpoint": behind or url, "sample_per_second": 0.0}
        all_settings = {**common, "evaluators": (evaluator_into(evaluated),), **settings}
        with patch.object(init, "Limits", partial(init.Limits, wait=0.0)):
            worker = Worker(load_worker({**defaults, **(own or {})}), load(all_settings))
        worker.start()
        try:
            yield Running(worker, received, evaluated)
        finally:
            worker.stop(10.0)


def span(target: Any, number: int, trace: int, parent: int = 0, **attributes: Any) -> Any:
    """A span in a `ScopeSpans`, with ids made of these numbers. Underscores in names of attributes stand for dots."""
    result = target.spans.add(
        trace_id=trace.to_bytes(16, "big"), span_id=number.to_bytes(8, "big"), name=f"span {number}", kind=1,
        start_time_unix_nano=1_700_000_000_000_000_000 + number,
        end_time_unix_nano=1_700_000_001_000_000_000 + number,
    )  # fmt: skip
    if parent:
        result.parent_span_id = parent.to_bytes(8, "big")
    write_attributes(result, {name.replace("_", "."): value for name, value in attributes.items()})
    return result


def scope(request: ExportTraceServiceRequest, service: str = "shop", name: str = "openinference") -> Any:
    of_resource = request.resource_spans.add()
    write_attributes(of_resource.resource, {"service.name": service, "deployment.environment": "prod"})
    of_scope = of_resource.scope_spans.add()
    of_scope.scope.name = name
    return of_scope


def root(target: Any, trace: int, number: int = 1) -> Any:
    """The root of a request in OpenInference's words."""
    words = {"openinference.span.kind": "CHAIN", "input.value": QUESTION, "output.value": ANSWER}
    return span(target, number, trace, **words)


def retriever(target: Any, trace: int, number: int = 2, parent: int = 1) -> Any:
    """A retrieval in OpenInference's words."""
    words = {
        "openinference.span.kind": "RETRIEVER", "input.value": QUESTION, "retrieval.documents.0.document.id": "d0",
        "retrieval.documents.0.document.content": "The pump is covered for 24 months from delivery.",
    }  # fmt: skip
    return span(target, number, trace, parent, **words)


def request_of(*traces: int) -> ExportTraceServiceRequest:
    """A message with one request of a root and a retrieval for each trace."""
    request = ExportTraceServiceRequest()
    target = scope(request)
    for trace in traces:
        retriever(target, trace, 10 * trace + 2, 10 * trace + 1)
        root(target, trace, 10 * trace + 1)
    return request


def scores(received: Received) -> dict[int, set[Any]]:
    """The scores of each trace that arrived at the endpoint, or `error` in their place."""
    result: dict[int, set[Any]] = {}
    for of_resource in received.traces.resource_spans:
        for of_scope in of_resource.scope_spans:
            for each in of_scope.spans:
                attributes = plain(each.attributes)
                for name, value in attributes.items():
                    if name.startswith("gen_ai.evaluation.") and (name.endswith(".score") or value == "error"):
                        result.setdefault(int.from_bytes(each.trace_id, "big"), set()).add(value)
    return result


def count_rows(database: Path, table: str) -> int:
    with contextlib.closing(sqlite3.connect(database)) as connection:
        return int(connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0])


def is_balanced(stats: WorkerStats) -> bool:
    return stats.received == stats.sent + sum(stats.dropped.values()) + stats.open
