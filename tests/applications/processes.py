"""Starts an application, and reads what it sends: its spans over OTLP and its metrics."""

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from celery import Celery
from prometheus_client.parser import text_string_to_metric_families as parse

from tests.otlp.receivers import Received, plain
from tests.ports import free_port

HERE = Path(__file__).parent
COUNTERS = {"ragtrace_requests_total": "status", "ragtrace_evaluation_outcomes_total": "outcome"}
"""Metrics that count requests, and the label that says how each ended."""
SCOPES = ("ragtrace_langchain", "ragtrace_llama_index")
"""OpenTelemetry's names for where ragtrace's spans come from."""
WAIT = 60.0
"""Seconds within which what must come has come, on the slowest machine."""


@dataclass(frozen=True)
class Application:
    process: subprocess.Popen[bytes]
    log: Path
    port: int
    metrics_port: int

    def get(self, path: str) -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=WAIT) as response:
            return str(response.read().decode())

    def counts(self) -> dict[str, float]:
        """What the metrics count: requests by status, and scores of the evaluator; only what is not zero."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.metrics_port}/metrics", timeout=60) as response:
            families = parse(response.read().decode())
            samples = [sample for family in families for sample in family.samples]
        counts: dict[str, float] = {}
        for sample in samples:
            if sample.value and sample.name in COUNTERS:
                name = sample.labels[COUNTERS[sample.name]]
                counts[name] = counts.get(name, 0) + sample.value
        return counts

    def wait(self, condition: Callable[[], bool]) -> None:
        """Wait until something is so; a connection that is refused is not so yet."""
        deadline = time.monotonic() + WAIT
        while True:
            with suppress(OSError):
                if condition():
                    return
            assert self.process.poll() is None, self.tail()
            assert time.monotonic() < deadline, self.tail()
            time.sleep(0.1)

    def tail(self) -> str:
        return self.log.read_text()[-5000:]

    def stop(self) -> None:
        """End the application as a service manager does; it must end by itself."""
        self.process.terminate()
        assert self.process.wait(WAIT) is not None

    def interrupt(self) -> None:
        """End the application and its children as Ctrl-C in a terminal does; it must end by itself."""
        os.killpg(self.process.pid, signal.SIGINT)
        assert self.process.wait(WAIT) is not None


@contextmanager
def running(folder: Path, receiver: str, command: tuple[str, ...], **environment: str) -> Iterator[Application]:
    """Start `python -m COMMAND`, in which {port} stands for a free port."""
    port, metrics_port = free_port(), free_port()
    path = os.pathsep.join((str(HERE), os.environ.get("PYTHONPATH", "")))
    own = {"RECEIVER": receiver, "METRICS_PORT": str(metrics_port), "PYTHONPATH": path}
    log = folder / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(  # in a group of its own, which `interrupt` addresses
            [sys.executable, "-m", *(part.format(port=port) for part in command)], cwd=folder,
            env={**os.environ, **environment, **own}, stdout=output, stderr=output, start_new_session=True,
        )  # fmt: skip
        try:
            yield Application(process, log, port, metrics_port)
        finally:
            process.terminate()
            try:
                process.wait(30)
            finally:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)


@dataclass(frozen=True)
class Request:
    """What the spans of one trace say of a request."""

    question: str
    answer: str
    session: str
    user: str
    documents: tuple[str, ...]


def requests_of(received: Received) -> list[Request]:
    """The requests that arrived. Fails for two of them in one trace, and for a span without its parent.

    A web framework may make spans of its own; a request begins where ragtrace's spans do."""
    scopes = [scope for resource in received.traces.resource_spans for scope in resource.scope_spans]
    every = {span.span_id for scope in scopes for span in scope.spans}
    # On a slow machine scores come late, as spans of their own.
    spans = [s for x in scopes if x.scope.name in SCOPES for s in x.spans if not s.name.startswith("evaluation")]
    assert all(not span.parent_span_id or span.parent_span_id in every for span in spans), "a span without its parent"
    ours = {span.span_id for span in spans}
    roots = [span for span in spans if span.parent_span_id not in ours]
    assert len({span.trace_id for span in roots}) == len(roots), "two requests in one trace"
    traces: dict[bytes, list[dict[str, Any]]] = {}
    for span in spans:
        traces.setdefault(span.trace_id, []).append(plain(span.attributes))
    return [_request(plain(root.attributes), traces[root.trace_id]) for root in roots]


def _request(root: dict[str, Any], spans: list[dict[str, Any]]) -> Request:
    sessions = {span["gen_ai.conversation.id"] for span in spans}
    users = {span["user.id"] for span in spans}
    assert len(sessions) == len(users) == 1, "another session or user on a span below"
    found = [json.loads(span["gen_ai.retrieval.documents"]) for span in spans if "gen_ai.retrieval.documents" in span]
    question, answer = (json.loads(root[f"gen_ai.{way}.messages"])[0]["parts"][0] for way in ("input", "output"))
    passages = tuple(documents[0]["content"] for documents in found if documents)
    return Request(question["content"], answer["content"], sessions.pop(), users.pop(), passages)


def celery_client(folder: Path) -> Celery:
    """Another program, which knows only the names of tasks: the broker and the results are folders below `folder`."""
    for name in ("queue", "results"):
        (folder / name).mkdir()
    folders = {f"data_folder_{way}": f"{folder}/queue" for way in ("in", "out")}
    folders["control_folder"] = f"{folder}/control"
    return Celery(broker="filesystem://", backend=f"file://{folder}/results", broker_transport_options=folders)
