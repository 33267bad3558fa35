"""An application under faults in turn: does memory stay flat, and is everything in a counter at the end?

    python benchmarks/soak.py [--minutes 30] [--rate 20] [--turn 40]

An application in a process of its own answers requests at a steady rate, with evaluation in its child process and in
threads, OTLP export, metrics, a report file and a store. Faults come in turn for `--turn` seconds each, with half as
long between them: the collector is down, slow, answers byte by byte, refuses; the child is killed each five seconds;
the store is locked; an evaluator raises. Prints the memory of the application and of its child each minute, and at the
end its growth since minute 10 (or the middle of a shorter run), and the differences that must be 0:

- requests asked - (delivered + dropped);
- spans ended, as a span processor of the application counts them, - (exported + failed + dropped);
- for each evaluator: eligible - (sampled out + scored + failed + dropped);
- evaluations delivered - (stored + spilled at the end + lost), and exported spans that the collector did not get.
"""

import argparse
import contextlib
import itertools
import json
import os
import signal
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from usage import family, memory

from ragtrace.evaluation import evaluator
from ragtrace.records import Trace

FAULTS = (
    "collector down", "collector slow", "collector byte by byte", "collector refuses", "child killed", "store locked",
    "evaluator raises",
)  # fmt: skip
_TEXT = "The refund period is ninety days after delivery, and the service desk sends the form on request. "
_WARM = 10 * 60.0
_TICK = 5.0


@evaluator(needs={"answer"}, timeout=10)
def in_child(trace: Trace) -> float:
    """An evaluator in the child process."""
    return _score(trace)


def _score(trace: Trace) -> float:
    """Raises while the file that SOAK_FAULT names is there."""
    if os.path.exists(os.environ["SOAK_FAULT"]):
        raise RuntimeError("for the soak")
    return float(len(trace.answer) > 10)


# --- the collector ---------------------------------------------------------------------------------


class Collector:
    """Takes spans and events over HTTP until it is closed, and fails as `fault` (one of FAULTS) names it."""

    def __init__(self) -> None:
        self.fault, self.spans, self.port, self.lock = "", 0, 0, threading.Lock()
        self.open()

    def open(self) -> None:
        """Listen, on the port of before."""
        self.server: Any = ThreadingHTTPServer(("127.0.0.1", self.port), partial(_Answer, self))
        self.server.handle_error = lambda *_: None  # a sender that gives up
        self.port = self.server.server_port
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self) -> None:
        """Take no more connections."""
        closing, self.server = self.server, None
        closing.shutdown()
        closing.server_close()

    def count(self, body: bytes) -> None:
        """Add the spans of a request."""
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

        request = ExportTraceServiceRequest.FromString(body)
        with self.lock:
            self.spans += sum(len(scope.spans) for each in request.resource_spans for scope in each.scope_spans)


class _Answer(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def __init__(self, collector: Collector, *arguments: Any) -> None:
        self.collector = collector
        super().__init__(*arguments)

    def do_POST(self) -> None:
        body, fault = self.rfile.read(int(self.headers["Content-Length"])), self.collector.fault
        if self.collector.server is not self.server:
            self.close_connection = True
            return
        refuses = fault == "collector refuses"
        if self.path == "/v1/traces" and not refuses:
            self.collector.count(body)
        time.sleep(1.0 if fault == "collector slow" else 0.0)
        if fault == "collector byte by byte":
            for byte in itertools.cycle(b"HTTP/1.1 200 OK\r\nX: "):
                self.wfile.write(bytes([byte]))
                time.sleep(0.2)
        self.send_response(400 if refuses else 200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Silence."""


# --- the application -------------------------------------------------------------------------------


def serve(rate: float, folder: Path, endpoint: str) -> None:
    """Answer requests until SIGINT, then print what became of them."""
    import ragtrace

    @ragtrace.retriever
    def search(query: str) -> list[dict[str, Any]]:
        return [{"id": f"d{i}", "content": f"{_TEXT} {query} {i}", "score": 0.5} for i in range(4)]

    @ragtrace.generation
    def generate(query: str, number: int) -> str:
        return f"{_TEXT} It was question {number}: {query}"

    @evaluator(needs={"answer"})
    def in_thread(trace: Trace) -> float:
        return _score(trace)

    runtime = ragtrace.init(
        app="soak",
        evaluators=["soak:in_child", in_thread, "looping_compression_ratio", {"name": "refusal", "sample": 0.2}],
        otlp_endpoint=endpoint, store=f"sqlite:///{folder / 'soak.db'}", report_file=str(folder / "report.jsonl"),
        prometheus_port=0, sample_per_second=0, capture_content=True, redact="pii", hold_seconds=5,
    )  # fmt: skip
    ended = _count_ended_spans(runtime.tracer_provider)
    stopped = threading.Event()
    signal.signal(signal.SIGINT, lambda *_: stopped.set())
    asked = 0
    started = time.monotonic()
    while not stopped.wait(max(0.0, started + asked / rate - time.monotonic())):
        asked += 1
        with ragtrace.request(f"How long is refund period {asked}?", session_id=f"s{asked % 100}"):
            search(f"refund {asked}")
            generate("How long?", asked)
    runtime.close(30)
    print(json.dumps(_differences(runtime, asked, next(ended), folder)), flush=True)


def _count_ended_spans(provider: Any) -> Iterator[int]:
    from opentelemetry.sdk.trace import SpanProcessor

    class Count(SpanProcessor):
        def __init__(self) -> None:
            self.numbers = itertools.count()

        def on_end(self, span: Any) -> None:
            next(self.numbers)

    count = Count()
    # Before the hold, in the way of ragtrace's own source of spans: what is added behind it sees each span later.
    multi = provider._active_span_processor
    multi._span_processors = (count, *multi._span_processors)
    return count.numbers


def _differences(runtime: Any, asked: int, ended: int, folder: Path) -> dict[str, Any]:
    """What is in no counter, and the counters."""
    stats, export = runtime.pipeline.stats(), runtime.export
    failed, dropped = dict(export.spans.failed), sum(stats.dropped.values())
    store = runtime.store
    with sqlite3.connect(folder / "soak.db") as database:
        (rows,) = database.execute("SELECT count(*) FROM traces").fetchone()
    return {
        "differences": {
            "requests": asked - stats.delivered - dropped - stats.queued - stats.running,
            "spans": ended - export.spans.exported - sum(failed.values()) - export.spans_dropped,
            "spans held": export.hold.held,
            **{
                f"evaluator {name}": c.eligible - c.sampled_out - c.scored - c.failed - c.dropped
                for name, c in runtime.counts().items()
            },
            "evaluations eligible": asked - runtime.counts()["in_child"].eligible,
            "evaluations stored": stats.delivered - rows - store.lost if not store.spill_bytes else 0,
        },
        "asked": asked,
        "ended": ended,
        "exported": export.spans.exported,
        "failed": failed,
        "spans dropped": export.spans_dropped,
        "requests dropped": dict(stats.dropped),
        "errors": {f"{name} {reason}": count for (name, reason), count in stats.errors.items()},
        "store": {"rows": rows, "written": store.written, "spilled": store.spilled, "lost": store.lost,
                  "spill bytes": store.spill_bytes, "failures": store.failures},
    }  # fmt: skip


# --- the faults ------------------------------------------------------------------------------------


@contextlib.contextmanager
def fault_of(kind: str, collector: Collector, folder: Path, application: int) -> Iterator[None]:
    """One fault, as long as the context is open."""
    collector.fault = kind
    database: sqlite3.Connection | None = None
    ended = threading.Event()
    if kind == "collector down":
        collector.close()
    elif kind == "child killed":
        threading.Thread(target=_kill_children, args=(application, ended), daemon=True).start()
    elif kind == "store locked":
        database = sqlite3.connect(folder / "soak.db", timeout=60, isolation_level=None)
        database.execute("BEGIN EXCLUSIVE")
    elif kind == "evaluator raises":
        (folder / "fault").touch()
    try:
        yield
    finally:
        ended.set()
        collector.fault = ""
        if collector.server is None:
            collector.open()
        if database is not None:
            database.execute("ROLLBACK")
            database.close()
        (folder / "fault").unlink(missing_ok=True)


def _kill_children(application: int, ended: threading.Event) -> None:
    while not ended.wait(5.0):
        for child in family(application)[1:]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)


# --- the run ---------------------------------------------------------------------------------------


@dataclass
class Memory:
    """Resident mebibytes of the application and of its child, sampled every five seconds."""

    application: int
    started: float = field(default_factory=time.monotonic)
    samples: list[tuple[float, float, float]] = field(default_factory=list)
    printed: int = -1

    def watch(self, seconds: float, what: str) -> None:
        """Sample for so long; print once a minute."""
        until = time.monotonic() + seconds
        while (now := time.monotonic()) < until:
            child = sum(map(memory, family(self.application)[1:]))
            self.samples.append((now - self.started, memory(self.application), child))
            if (minute := int((now - self.started) // 60)) != self.printed:
                self.printed = minute
                print(f"minute {minute:3}  application {self.samples[-1][1]:6.1f} MiB  child {child:6.1f} MiB  {what}",
                      flush=True)  # fmt: skip
            time.sleep(min(_TICK, max(0.0, until - now)))

    def growth(self, warm: float) -> tuple[float, float]:
        """How much more the last tenth of the time after `warm` seconds needs than its first tenth, by medians."""
        after = [sample for sample in self.samples if sample[0] >= warm]
        part = max(1, len(after) // 10)
        first, last = after[:part], after[-part:]
        application, child = (
            statistics.median(sample[i] for sample in last) - statistics.median(sample[i] for sample in first)
            for i in (1, 2)
        )
        return application, child


def run(minutes: float, rate: float, turn: float, folder: Path) -> bool:
    """Run, print, and say whether all differences are 0."""
    collector = Collector()
    command = [sys.executable, __file__, "--serve", "--rate", str(rate), "--folder", str(folder)]
    command += ["--endpoint", f"http://127.0.0.1:{collector.port}"]
    environment = {**os.environ, "SOAK_FAULT": str(folder / "fault"), "OTEL_EXPORTER_OTLP_TIMEOUT": "5"}
    with (folder / "log").open("w", encoding="utf-8") as log:
        application = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, env=environment)
    watched = Memory(application.pid)
    watched.watch(10, "start")
    for kind in itertools.cycle(FAULTS):
        if time.monotonic() - watched.started >= minutes * 60:
            break
        with fault_of(kind, collector, folder, application.pid):
            watched.watch(turn, kind)
        watched.watch(turn / 2, "healthy")
    application.send_signal(signal.SIGINT)
    report, _ = application.communicate(timeout=180)
    values = json.loads(report)
    values["differences"]["exported, not received"] = max(0, values["exported"] - collector.spans)
    print(json.dumps(values, indent=1))
    warm = min(_WARM, minutes * 30)
    growth = watched.growth(warm)
    print(f"growth since minute {warm / 60:g}: application {growth[0]:+.1f} MiB, child {growth[1]:+.1f} MiB")
    return not any(values["differences"].values())


def main() -> None:
    """Read the options and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--rate", type=float, default=20.0, help="requests in a second")
    parser.add_argument("--turn", type=float, default=40.0, help="seconds of each fault")
    parser.add_argument("--folder", type=Path, help="where the store, the log and the report are kept")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--endpoint", default="", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(options.rate, options.folder, options.endpoint)
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        folder.mkdir(exist_ok=True)
        if not run(options.minutes, options.rate, options.turn, folder):
            sys.exit(1)


if __name__ == "__main__":
    main()
