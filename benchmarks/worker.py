"""How many spans a second `ragtrace worker` takes for each core with evaluation off, and how long an answer takes.

    python benchmarks/worker.py [--spans 60000] [--buffer] [--protocol http|grpc]
    python benchmarks/worker.py --spans 1000000 --memory     # the worker's memory after each 100,000 spans
    python benchmarks/worker.py --suite 300                  # the default suite alone, and through the worker

The worker is a process of its own; senders and the endpoint behind it are others. Cores are counted by the worker's own
processor time: spans / processor seconds, until the last span has left, over everything that the worker does (receive,
decode, buffer, assemble, read, encode, send). The answers' times are those at half of that rate.

`--suite` counts the processor time of the default evaluators over so many requests of different texts, in a process
that does nothing else, and that of a worker and its evaluating process from the first byte to the last; the speed
through the worker is the first over the second.
"""

import argparse
import http.client
import json
import os
import random
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from usage import family, memory, processor_seconds

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

_ADDRESS = re.compile(r"OTLP over (gRPC|HTTP) at 127\.0\.0\.1:(\d+)")
_SPANS, _SENDERS = 6, 4
"""Spans of one request; connections that send at the same time."""
_MESSAGE = 40
"""Requests in one message."""
_ENDPOINT = """
import sys, http.server
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200); self.send_header("Content-Length", "0"); self.end_headers()
    def log_message(self, *_): pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()
"""


def texts(trace: int, varied: bool) -> tuple[str, str, list[str]]:
    """Question, answer and four chunks of a request: always the same, or others for each trace."""
    if not varied:
        chunk = "The pump is covered for 24 months from delivery, and the hose for 6 months. " * 4
        return "How long is the pump covered?", "The pump is covered for 24 months.", [chunk] * 4
    drawn = random.Random(trace)

    def fact() -> tuple[str, str, int]:
        return drawn.choice(_PARTS), drawn.choice(_VERBS), drawn.randint(2, 99)

    facts = [[fact() for _ in range(6)] for _ in range(4)]
    chunks = [" ".join(f"The {part} {verb} {months} months after delivery." for part, verb, months in c) for c in facts]
    part, verb, months = facts[0][0]
    other, second, wrong = facts[1][0][0], facts[1][0][1], drawn.randint(2, 99)
    answer = f"The {part} {verb} {months} months. The {other} {second} {wrong} months."
    return f"When is it that the {part} {verb.split()[0]} {trace % 97}?", answer, chunks


_PARTS = ("pump", "hose", "filter", "boiler", "grinder", "valve", "display", "sensor", "cable", "tank", "lid", "motor")
_VERBS = (
    "is covered for", "must be cleaned within", "can be exchanged for", "may be returned within", "is checked after",
)  # fmt: skip


def message(first: int, count: int = _MESSAGE, varied: bool = False) -> bytes:
    """Requests of a chain with a retrieval, a model call and three steps, as OpenInference writes them."""
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    from ragtrace_otlp.wire import write_attributes

    request = ExportTraceServiceRequest()
    of_resource = request.resource_spans.add()
    write_attributes(of_resource.resource, {"service.name": "shop"})
    target = of_resource.scope_spans.add()
    target.scope.name = "openinference.instrumentation.langchain"
    for trace in range(first, first + count):
        for number, attributes in enumerate(_kinds(*texts(trace, varied)), 1):
            span = target.spans.add(trace_id=trace.to_bytes(16, "big"), span_id=(trace * 8 + number).to_bytes(8, "big"))
            if number > 1:
                span.parent_span_id = (trace * 8 + 1).to_bytes(8, "big")
            span.name, span.kind = f"step {number}", 1
            span.start_time_unix_nano = 1_700_000_000_000_000_000 + number
            span.end_time_unix_nano = 1_700_000_001_000_000_000 - number
            write_attributes(span, attributes)
    return request.SerializeToString()


def _kinds(question: str, answer: str, chunks: list[str]) -> list[dict[str, str | int]]:
    """The attributes of the spans of a request."""
    return [
        {"openinference.span.kind": "CHAIN", "input.value": question, "output.value": answer, "session.id": "s"},
        {"openinference.span.kind": "RETRIEVER", "input.value": question}
        | {f"retrieval.documents.{i}.document.content": chunk for i, chunk in enumerate(chunks)}
        | {f"retrieval.documents.{i}.document.id": f"d{i}" for i in range(4)},
        {"openinference.span.kind": "LLM", "llm.model_name": "gpt-4o-mini", "llm.token_count.prompt": 400}
        | {"llm.token_count.completion": 20, "llm.input_messages.0.message.role": "user"}
        | {"llm.input_messages.0.message.content": question, "llm.output_messages.0.message.content": answer}
        | {"llm.output_messages.0.message.role": "assistant"},
    ] + [{"openinference.span.kind": "CHAIN", "input.value": question, "output.value": answer}] * 3


def bare(first: int, count: int) -> float:
    """Processor seconds of the default suite over these requests, in batches as the worker has them."""
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    from ragtrace.capture.spans.assembly import requests_in, trace_from
    from ragtrace.capture.spans.conversion import record_from
    from ragtrace.capture.spans.duplicates import Duplicates
    from ragtrace.capture.spans.pieces import spans_in
    from ragtrace.evaluation import run
    from ragtrace.live.suite import make_suite
    from ragtrace.settings import load
    from ragtrace.text.sanitizer import Sanitizer

    settings = load({"sample_per_second": 0.0})
    checks = make_suite(settings)

    def traces(start: int, number: int):  # type: ignore[no-untyped-def]
        for trace in range(start, start + number):
            request = ExportTraceServiceRequest.FromString(message(trace, 1, True))
            records = [record_from(span, scope.name, "shop") for _, scope, span in spans_in(request)]
            yield from (trace_from(each, Sanitizer()) for each in requests_in(records, Duplicates()))

    warm, measured = list(traces(1, _WARM)), list(traces(first, count))
    for check in checks:
        run(check, warm)
    before = time.process_time()
    for start in range(0, len(measured), settings.batch):
        for check in checks:
            run(check, measured[start : start + settings.batch])
    return time.process_time() - before


_WARM = 20
"""Requests before those that are measured."""


class Sender:
    """Sends messages over one protocol, and keeps the seconds until each answer."""

    def __init__(self, protocol: str, ports: dict[str, int]) -> None:
        self.protocol, self.ports = protocol, ports
        self.seconds: list[float] = []

    def run(self, messages: list[bytes], pause: float) -> None:
        """Send the messages, one every `pause` seconds; refused ones again."""
        send = self._grpc() if self.protocol == "grpc" else self._http()
        due = time.monotonic()
        for body in messages:
            time.sleep(max(0.0, due - time.monotonic()))
            due += pause
            while True:
                start = time.perf_counter()
                taken = send(body)
                if taken:
                    self.seconds.append(time.perf_counter() - start)
                    break
                time.sleep(0.2)

    def _http(self):  # type: ignore[no-untyped-def]
        connection = http.client.HTTPConnection("127.0.0.1", self.ports["HTTP"])

        def send(body: bytes) -> bool:
            connection.request("POST", "/v1/traces", body, {"Content-Type": "application/x-protobuf"})
            answer = connection.getresponse()
            answer.read()
            return answer.status == 200

        return send

    def _grpc(self):  # type: ignore[no-untyped-def]
        import grpc

        channel = grpc.insecure_channel(f"127.0.0.1:{self.ports['gRPC']}")
        call = channel.unary_unary("/opentelemetry.proto.collector.trace.v1.TraceService/Export")

        def send(body: bytes) -> bool:
            try:
                call(body)
            except grpc.RpcError:
                return False
            return True

        return send


def _sent(metrics: str) -> float:
    with urllib.request.urlopen(metrics) as answer:
        text = answer.read().decode()
    return sum(
        float(line.split()[-1]) for line in text.splitlines() if line.startswith("ragtrace_worker_sent_spans_total{")
    )


def _send_all(
    protocol: str, ports: dict[str, int], first: int, messages: int, *, pause: float = 0.0, varied: bool = False
) -> list[float]:
    bodies = [message(first + i * _MESSAGE, varied=varied) for i in range(messages)]
    senders = [Sender(protocol, ports) for _ in range(_SENDERS)]
    threads = [
        threading.Thread(target=sender.run, args=(bodies[i::_SENDERS], pause * _SENDERS))
        for i, sender in enumerate(senders)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [each for sender in senders for each in sender.seconds]


def _wait(metrics: str, spans: float, pause: float = 0.1) -> None:
    """Wait until so many spans were sent. Each look, after `pause` seconds, costs the worker a scrape."""
    while _sent(metrics) < spans:
        time.sleep(pause)


@contextmanager
def running(buffer: bool, with_suite: bool) -> Iterator[tuple[int, dict[str, int], str]]:
    """Start a worker with an endpoint behind it: its process, its ports by protocol, and the address of its metrics."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    environment = {**os.environ, "RAGTRACE_PROMETHEUS_PORT": port, "RAGTRACE_WORKER_QUIET_SECONDS": "0.5"}
    if with_suite:
        environment |= {"RAGTRACE_SAMPLE_PER_SECOND": "0"}
    else:
        environment |= {"RAGTRACE_EVALUATORS": "groundedness_lexical", "RAGTRACE_SAMPLE": "0", "RAGTRACE_WORKERS": "0"}
    endpoint = subprocess.Popen([sys.executable, "-c", _ENDPOINT], stdout=subprocess.PIPE, text=True)
    folder = tempfile.TemporaryDirectory()
    assert endpoint.stdout is not None
    command = [sys.executable, "-m", "ragtrace", "worker", "--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0"]
    command += ["--to", f"http://127.0.0.1:{endpoint.stdout.readline().strip()}"]
    command += ["--buffer", f"{folder.name}/buffer.db"] if buffer else []
    worker = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
    try:
        assert worker.stderr is not None
        ports: dict[str, int] = {}
        for line in worker.stderr:
            if match := _ADDRESS.search(line):
                ports[match[1]] = int(match[2])
            if len(ports) == 2:
                break
        threading.Thread(target=worker.stderr.read, daemon=True).start()
        time.sleep(2.0)
        yield worker.pid, ports, f"http://127.0.0.1:{port}/metrics"
    finally:
        worker.terminate()
        worker.wait(60)
        endpoint.kill()
        folder.cleanup()


def measure_rate(options: argparse.Namespace) -> dict[str, object]:
    """Spans a second for each core, and the times of the answers at half of that rate."""
    messages = options.spans // (_SPANS * _MESSAGE)
    spans = messages * _SPANS * _MESSAGE
    warm = 5 * _SPANS * _MESSAGE
    with running(options.buffer, with_suite=False) as (pid, ports, metrics):
        _send_all(options.protocol, ports, 1, 5)
        _wait(metrics, warm)
        start, before = time.monotonic(), processor_seconds(pid)
        _send_all(options.protocol, ports, 1_000_000, messages)
        _wait(metrics, warm + spans)
        wall, cpu = time.monotonic() - start, processor_seconds(pid) - before
        rate = spans / cpu
        half = max(1, messages // 2)
        answers = sorted(_send_all(options.protocol, ports, 5_000_000, half, pause=_SPANS * _MESSAGE / (rate / 2)))
    return {
        "spans": spans, "spans_a_second_for_each_core": round(rate), "spans_a_second": round(spans / wall),
        "answer_ms_median": round(1000 * statistics.median(answers), 1),
        "answer_ms_p99": round(1000 * answers[int(len(answers) * 0.99)], 1),
    }  # fmt: skip


def measure_memory(options: argparse.Namespace) -> dict[str, object]:
    """MiB of the worker after each 100,000 spans."""
    messages = _STEP // (_SPANS * _MESSAGE)
    curve: list[int] = []
    with running(options.buffer, with_suite=False) as (pid, ports, metrics):
        for step in range(options.spans // _STEP):
            _send_all(options.protocol, ports, 1 + step * _STEP, messages)
            _wait(metrics, (step + 1) * messages * _SPANS * _MESSAGE)
            curve.append(round(sum(map(memory, family(pid)))))
            print(curve[-1], file=sys.stderr, flush=True)
    return {"spans": options.spans, "memory_mib": curve}


def measure_suite(options: argparse.Namespace) -> dict[str, object]:
    """Processor seconds of the default suite over so many requests, alone and through the worker."""
    messages = max(1, options.suite // _MESSAGE)
    count = messages * _MESSAGE
    code = f"import sys; sys.path.insert(0, 'benchmarks'); import worker; print(worker.bare(1_000_000, {count}))"
    alone = [float(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)]
    with running(options.buffer, with_suite=True) as (pid, ports, metrics):
        _send_all(options.protocol, ports, 1, 1, varied=True)
        _wait(metrics, _MESSAGE * _SPANS)
        before = sum(map(processor_seconds, family(pid)))
        _send_all(options.protocol, ports, 1_000_000, messages, varied=True)
        _wait(metrics, (count + _MESSAGE) * _SPANS, pause=5.0)
        through = sum(map(processor_seconds, family(pid))) - before
    alone.append(float(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout))
    return {
        "requests": count, "alone_cpu_seconds": [round(each, 2) for each in alone],
        "through_the_worker_cpu_seconds": round(through, 2),
        "share_of_the_bare_speed": round(sum(alone) / 2 / through, 3),
    }  # fmt: skip


_STEP = 100_000


def main() -> None:
    """Print one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--spans", type=int, default=60_000)
    parser.add_argument("--buffer", action="store_true")
    parser.add_argument("--protocol", choices=["http", "grpc"], default="http")
    parser.add_argument("--memory", action="store_true")
    parser.add_argument("--suite", type=int, default=0, metavar="REQUESTS")
    options = parser.parse_args()
    measure = measure_suite if options.suite else measure_memory if options.memory else measure_rate
    figures = measure(options)
    about = {"protocol": options.protocol, "buffer": options.buffer, "load": os.getloadavg()[0]}
    print(json.dumps(about | figures, indent=1))


if __name__ == "__main__":
    main()
