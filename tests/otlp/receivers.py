"""Real OTLP receivers over HTTP and gRPC that keep what arrived, decoded."""

import contextlib
import gzip
import itertools
import socket
import ssl
import threading
import time
import zlib
from collections.abc import Iterator
from concurrent import futures
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest, ExportLogsServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter


class Received:
    def __init__(self) -> None:
        self.traces = ExportTraceServiceRequest()
        self.logs = ExportLogsServiceRequest()
        self.requests: list[tuple[str, dict[str, str]]] = []
        """Path (over gRPC `traces` or `logs`) and headers of each request, the refused ones included."""

    def spans(self) -> dict[str, Any]:
        return {s.name: s for r in self.traces.resource_spans for sc in r.scope_spans for s in sc.spans}

    def records(self) -> list[Any]:
        return [x for r in self.logs.resource_logs for sc in r.scope_logs for x in sc.log_records]

    def resource(self) -> dict[str, Any]:
        (first, *_) = (*self.traces.resource_spans, *self.logs.resource_logs)
        return plain(first.resource.attributes)


def plain(attributes: Any) -> dict[str, Any]:
    return {a.key: getattr(a.value, a.value.WhichOneof("value") or "string_value") for a in attributes}


def recording(**options: Any) -> tuple[TracerProvider, InMemorySpanExporter]:
    """A provider whose spans are kept, and the exporter that keeps them."""
    exporter, provider = InMemorySpanExporter(), TracerProvider(shutdown_on_exit=False, **options)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return provider, exporter


_CODINGS: dict[str, Any] = {"gzip": gzip.decompress, "deflate": zlib.decompress}


@contextlib.contextmanager
def http_server(
    statuses: dict[str, int] | None = None,
    wait: threading.Event | None = None,
    tls: ssl.SSLContext | None = None,
    answer: bytes = b"",
) -> Iterator[tuple[str, Received]]:
    """A receiver over HTTP. `statuses` are its answers by the end of the path, 200 elsewhere, or `answer` is its whole
    answer to everything; before each answer it waits for the event."""
    received = Received()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self._body()
            received.requests.append((self.path, {k.lower(): v for k, v in self.headers.items()}))
            body = _CODINGS.get(self.headers.get("Content-Encoding", ""), bytes)(body)
            if wait is not None:
                wait.wait(30)
            if answer:
                self.wfile.write(answer)
                self.close_connection = True
                return
            status = next((s for end, s in (statuses or {}).items() if self.path.endswith(end)), 200)
            if status == 200:
                (received.logs if self.path.endswith("logs") else received.traces).MergeFromString(body)
            with contextlib.suppress(OSError):
                self.send_response(status)
                self.send_header("Content-Length", "0")
                self.end_headers()

        def _body(self) -> bytes:
            if "Content-Length" in self.headers:
                return self.rfile.read(int(self.headers["Content-Length"]))
            chunks = []  # senders in JavaScript send chunks
            while size := int(self.rfile.readline(), 16):
                chunks.append(self.rfile.read(size))
                self.rfile.readline()
            self.rfile.readline()
            return b"".join(chunks)

        def log_message(self, *args: Any) -> None:
            """Silence."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http{'s' if tls else ''}://127.0.0.1:{server.server_port}", received
    finally:
        server.shutdown()
        server.server_close()


@contextlib.contextmanager
def slow_server(answer: bytes) -> Iterator[int]:
    """A server that takes every connection and answers byte by byte, ten in a second, without an end; with an empty
    answer never. Its port."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve(connection: socket.socket) -> None:
            with contextlib.suppress(OSError), connection:
                for byte in itertools.cycle(answer) if answer else ():
                    connection.sendall(bytes([byte]))
                    time.sleep(0.1)
                while connection.recv(65_536):
                    pass

        def accept() -> None:
            with contextlib.suppress(OSError):
                while True:
                    threading.Thread(target=serve, args=listening.accept()[:1], daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        yield listening.getsockname()[1]


@contextlib.contextmanager
def grpc_server(logs: bool = True) -> Iterator[tuple[str, Received]]:
    """A receiver over gRPC, with or without a service for logs."""
    import grpc
    from opentelemetry.proto.collector.logs.v1 import logs_service_pb2_grpc
    from opentelemetry.proto.collector.trace.v1 import trace_service_pb2_grpc

    received = Received()

    class Traces(trace_service_pb2_grpc.TraceServiceServicer):  # type: ignore[misc]
        def Export(self, request: Any, context: Any) -> Any:
            received.requests.append(("traces", dict(context.invocation_metadata())))
            received.traces.MergeFrom(request)
            return ExportTraceServiceResponse()

    class Logs(logs_service_pb2_grpc.LogsServiceServicer):  # type: ignore[misc]
        def Export(self, request: Any, context: Any) -> Any:
            received.requests.append(("logs", dict(context.invocation_metadata())))
            received.logs.MergeFrom(request)
            return ExportLogsServiceResponse()

    server = grpc.server(futures.ThreadPoolExecutor(2))
    trace_service_pb2_grpc.add_TraceServiceServicer_to_server(Traces(), server)
    if logs:
        logs_service_pb2_grpc.add_LogsServiceServicer_to_server(Logs(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield f"http://127.0.0.1:{port}", received
    finally:
        server.stop(None)
