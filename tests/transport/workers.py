"""Workers that fetch from a broker, in this process and in others, and messages for them."""

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from ragtrace.evaluation import Evaluator
from ragtrace.records import Trace
from ragtrace.settings import load
from ragtrace.worker.service import Worker
from ragtrace.worker.span_counts import MessageCounts
from ragtrace.worker.worker_settings import load_worker
from ragtrace_brokers.message import TraceMessage
from tests.otlp.receivers import Received
from tests.transport.brokers import VISIBILITY
from tests.worker.running import evaluator_into, request_of, scope, scores, span, wait_for

SCHEMA = {"ragtrace-schema": "1"}


def message(trace: int, question: str = "") -> TraceMessage:
    """One trace with a request and its retrieval; with a question, the request alone."""
    request = request_of(trace)
    if question:
        request = ExportTraceServiceRequest()
        words = {"openinference.span.kind": "CHAIN", "input.value": question, "output.value": "An answer."}
        span(scope(request), 10 * trace + 1, trace, **words)
    return TraceMessage(f"{trace:032x}", request.SerializeToString(), SCHEMA)


def messages(first: int, last: int) -> list[TraceMessage]:
    """The messages of these traces, the last included."""
    return [message(trace) for trace in range(first, last + 1)]


@dataclass
class Fetching:
    """A worker of this process that fetches, and the traces that it evaluated."""

    worker: Worker
    evaluated: list[Trace] = field(default_factory=list)

    @property
    def counts(self) -> MessageCounts:
        counts = self.worker.stats().messages
        assert counts is not None
        return counts

    def wait_acknowledged(self, count: int) -> None:
        wait_for(lambda: self.counts.acknowledged, lambda n: n >= count, 30.0)


@contextlib.contextmanager
def fetching(url: str, endpoint: str, evaluator: Evaluator | None = None, **own: Any) -> Iterator[Fetching]:
    """A worker that fetches from this address, and sends on to an endpoint."""
    evaluated: list[Trace] = []
    evaluators = (evaluator or evaluator_into(evaluated),)
    settings = load({"otlp_endpoint": endpoint, "evaluators": evaluators, "sample_per_second": 0.0})
    worker = Worker(load_worker({"source": url, "visibility_seconds": VISIBILITY, **own}), settings)
    worker.start()
    try:
        yield Fetching(worker, evaluated)
    finally:
        worker.stop(5.0)


@contextlib.contextmanager
def worker_process(url: str, endpoint: str, log: Path, **settings: str) -> Iterator[subprocess.Popen[bytes]]:
    """A worker in a process of its own, with the evaluator of `poison`."""
    command = [sys.executable, "-m", "ragtrace", "worker", "--from", url, "--to", endpoint]
    own = {"evaluators": "tests.transport.poison:obedient", "sample_per_second": "0", "workers": "0"}
    own |= {"worker_visibility_seconds": str(VISIBILITY), **settings}
    environment = os.environ | {f"RAGTRACE_{name.upper()}": value for name, value in own.items()}
    with log.open("ab") as output:
        process = subprocess.Popen(command, env=environment, stdout=output, stderr=output)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def wait_scored(received: Received, traces: set[int], seconds: float = 60.0) -> None:
    """Wait until each of these traces has a score."""
    wait_for(lambda: traces - set(scores(received)), lambda missing: not missing, seconds)


def write_keys(path: Path, *days: str) -> None:
    path.write_text("\n".join(f"{day}={os.urandom(32).hex()}" for day in days))
