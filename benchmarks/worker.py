"""How many spans a second `ragtrace worker` takes for each core with evaluation off, and how long an answer takes.

    python benchmarks/worker.py [--spans 60000] [--buffer] [--protocol http|grpc]

The worker is a process of its own; senders and the endpoint behind it are others. Cores are counted by the worker's own
processor time: spans / processor seconds, until the last span has left, over everything that the worker does (receive,
decode, buffer, assemble, read, encode, send). The answers' times are those at half of that rate.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path

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


def message(first: int) -> bytes:
    """Requests of a chain with a retrieval, a model call and three steps, as OpenInference writes them."""
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    from ragtrace_otlp.span_encoder import write_attributes

    question, answer = "How long is the pump covered?", "The pump is covered for 24 months."
    chunk = "The pump is covered for 24 months from delivery, and the hose for 6 months. " * 4
    kinds = [
        {"openinference.span.kind": "CHAIN", "input.value": question, "output.value": answer, "session.id": "s"},
        {"openinference.span.kind": "RETRIEVER", "input.value": question}
        | {f"retrieval.documents.{i}.document.content": chunk for i in range(4)}
        | {f"retrieval.documents.{i}.document.id": f"d{i}" for i in range(4)},
        {"openinference.span.kind": "LLM", "llm.model_name": "gpt-4o-mini", "llm.token_count.prompt": 400}
        | {"llm.token_count.completion": 20, "llm.input_messages.0.message.role": "user"}
        | {"llm.input_messages.0.message.content": question, "llm.output_messages.0.message.content": answer}
        | {"llm.output_messages.0.message.role": "assistant"},
    ] + [{"openinference.span.kind": "CHAIN", "input.value": question, "output.value": answer}] * 3
    request = ExportTraceServiceRequest()
    of_resource = request.resource_spans.add()
    write_attributes(of_resource.resource.attributes, {"service.name": "shop"})
    target = of_resource.scope_spans.add()
    target.scope.name = "openinference.instrumentation.langchain"
    for trace in range(first, first + _MESSAGE):
        for number, attributes in enumerate(kinds, 1):
            span = target.spans.add(trace_id=trace.to_bytes(16, "big"), span_id=(trace * 8 + number).to_bytes(8, "big"))
            if number > 1:
                span.parent_span_id = (trace * 8 + 1).to_bytes(8, "big")
            span.name, span.kind = f"step {number}", 1
            span.start_time_unix_nano = 1_700_000_000_000_000_000 + number
            span.end_time_unix_nano = 1_700_000_001_000_000_000 - number
            write_attributes(span.attributes, attributes)
    return request.SerializeToString()


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


def _cpu(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _sent(metrics: str) -> float:
    with urllib.request.urlopen(metrics) as answer:
        text = answer.read().decode()
    return sum(
        float(line.split()[-1]) for line in text.splitlines() if line.startswith("ragtrace_worker_sent_spans_total{")
    )


def _send_all(protocol: str, ports: dict[str, int], first: int, messages: int, pause: float) -> list[float]:
    bodies = [message(first + i * _MESSAGE) for i in range(messages)]
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


def _wait(metrics: str, spans: float) -> None:
    while _sent(metrics) < spans:
        time.sleep(0.1)


def main() -> None:
    """Print one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--spans", type=int, default=60_000)
    parser.add_argument("--buffer", action="store_true")
    parser.add_argument("--protocol", choices=["http", "grpc"], default="http")
    options = parser.parse_args()
    environment = {
        **os.environ,
        "RAGTRACE_EVALUATORS": "groundedness_lexical",
        "RAGTRACE_SAMPLE": "0",
        "RAGTRACE_SAMPLE_ERRORS": "false",
        "RAGTRACE_PROMETHEUS_PORT": "19464",
        "RAGTRACE_WORKER_QUIET_SECONDS": "0.5",
        "RAGTRACE_ISOLATE": "false",
    }
    endpoint = subprocess.Popen([sys.executable, "-c", _ENDPOINT], stdout=subprocess.PIPE, text=True)
    folder = tempfile.TemporaryDirectory()
    assert endpoint.stdout is not None
    command = [sys.executable, "-m", "ragtrace", "worker", "--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0"]
    command += ["--to", f"http://127.0.0.1:{endpoint.stdout.readline().strip()}"]
    command += ["--buffer", f"{folder.name}/buffer.db"] if options.buffer else []
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
        metrics = "http://127.0.0.1:19464/metrics"
        time.sleep(2.0)
        messages = options.spans // (_SPANS * _MESSAGE)
        spans = messages * _SPANS * _MESSAGE
        _send_all(options.protocol, ports, 1, 5, 0.0)
        warm = 5 * _SPANS * _MESSAGE
        _wait(metrics, warm)
        start, before = time.monotonic(), _cpu(worker.pid)
        _send_all(options.protocol, ports, 1_000_000, messages, 0.0)
        _wait(metrics, warm + spans)
        wall, cpu = time.monotonic() - start, _cpu(worker.pid) - before
        rate = spans / cpu
        half = max(1, messages // 2)
        answers = sorted(_send_all(options.protocol, ports, 5_000_000, half, _SPANS * _MESSAGE / (rate / 2)))
        print(
            json.dumps(
                {
                    "protocol": options.protocol,
                    "buffer": options.buffer,
                    "spans": spans,
                    "spans_a_second_for_each_core": round(rate),
                    "spans_a_second": round(spans / wall),
                    "answer_ms_median": round(1000 * statistics.median(answers), 1),
                    "answer_ms_p99": round(1000 * answers[int(len(answers) * 0.99)], 1),
                    "load": os.getloadavg()[0],
                },
                indent=1,
            )
        )
    finally:
        worker.terminate()
        worker.wait(60)
        endpoint.kill()
        folder.cleanup()


if __name__ == "__main__":
    main()
