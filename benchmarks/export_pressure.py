"""What a saturated event loop does to ragtrace's export of spans.

    python benchmarks/export_pressure.py [--spans 24000] [--tasks 200] [--work 1000] [--queue 4096]

200 tasks compute without a break in one event loop and end 24,000 spans, with the texts of a RAG request, as fast as
they can; `--work` is the application's own work for a span, in steps of a sum of about 60 ns. A collector in another
process takes every request at once. Prints, as JSON: the spans that were dropped, by the processor's count and by what
the collector did not get; how late a task that sleeps 5 ms wakes up (median, 99th percentile, longest); and the seconds
and the processor seconds until the last span was exported.
"""

import argparse
import asyncio
import json
import multiprocessing
import os
import statistics
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

_SPANS_PER_REQUEST = 6
_TEXT = "The refund period is ninety days after delivery, and the service desk sends the form on request. "
_TICK = 0.005


def collect(pipe: Any) -> None:
    """Take spans over HTTP until the parent asks how many came."""
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    bodies: list[bytes] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1

        def do_POST(self) -> None:
            bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *args: Any) -> None:
            """Silence."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    pipe.send(server.server_port)
    pipe.recv()
    requests = [ExportTraceServiceRequest.FromString(body) for body in bodies]
    pipe.send(sum(len(scope.spans) for each in requests for part in each.resource_spans for scope in part.scope_spans))


async def produce(tracer: Any, spans: int, tasks: int, work: int) -> list[float]:
    """End the spans; how late each tick was, in seconds."""
    lags: list[float] = []
    done = False

    async def tick() -> None:
        while not done:
            before = time.perf_counter()
            await asyncio.sleep(_TICK)
            lags.append(time.perf_counter() - before - _TICK)

    async def ask(requests: int) -> None:
        for number in range(requests):
            with tracer.start_as_current_span("request", attributes={"input.value": _TEXT, "n": number}) as root:
                for part in range(_SPANS_PER_REQUEST - 1):
                    with tracer.start_as_current_span(f"step {part}") as span:
                        sum(i * i for i in range(work))
                        span.set_attributes({f"attribute.{i}": _TEXT * (1 + i % 3) for i in range(12)})
                        await asyncio.sleep(0)
                root.set_attribute("output.value", _TEXT * 5)

    ticker = asyncio.create_task(tick())
    await asyncio.gather(*(ask(spans // _SPANS_PER_REQUEST // tasks) for _ in range(tasks)))
    done = True
    await ticker
    return lags


def measure(spans: int, tasks: int, work: int, queue: int) -> dict[str, float]:
    """The figures of one run."""
    from ragtrace_otlp import set_up

    context = multiprocessing.get_context("spawn")
    pipe, end = context.Pipe()
    collector = context.Process(target=collect, args=(end,), daemon=True)
    collector.start()
    os.environ["OTEL_BSP_MAX_QUEUE_SIZE"] = str(queue)
    telemetry = set_up(app="pressure", env="test", endpoint=f"http://127.0.0.1:{pipe.recv()}")
    provider, processor = telemetry.tracer_provider, telemetry.processors[0]
    tracer = provider.get_tracer("pressure")
    started, processor_time = time.perf_counter(), time.process_time()
    lags = sorted(asyncio.run(produce(tracer, spans, tasks, work)))
    produced = time.perf_counter() - started
    provider.force_flush(60_000)
    ended, used = time.perf_counter() - started, time.process_time() - processor_time
    pipe.send("how many?")
    missing = spans // _SPANS_PER_REQUEST // tasks * tasks * _SPANS_PER_REQUEST - pipe.recv()
    collector.join(10)
    return {
        "missing": missing, "dropped": processor.dropped,
        "lag p50 ms": statistics.median(lags) * 1_000, "lag p99 ms": lags[int(len(lags) * 0.99)] * 1_000,
        "lag max ms": lags[-1] * 1_000, "produced s": produced, "exported s": ended, "processor s": used,
    }  # fmt: skip


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--spans", type=int, default=24_000)
    parser.add_argument("--tasks", type=int, default=200)
    parser.add_argument("--work", type=int, default=1_000)
    parser.add_argument("--queue", type=int, default=4_096)
    options = parser.parse_args()
    print(json.dumps(measure(options.spans, options.tasks, options.work, options.queue)))


if __name__ == "__main__":
    main()
