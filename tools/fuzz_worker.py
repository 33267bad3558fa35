"""What `fuzz.py` sends to a worker: bodies, spans, and bytes on its two ports."""

from __future__ import annotations

import atexit
import contextlib
import gzip
import random
import socket
import threading
import time
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from fuzz_targets import SCOPES, Target, span_attributes
from fuzz_values import JSON, TEXT
from hypothesis import strategies as st

_HEADS = (b"POST /v1/traces HTTP/1.1\r\n", b"GET /readyz HTTP/1.1\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
_LINES = (b"Content-Length: ", b"Transfer-Encoding: chunked", b"Content-Type: application/json", b"Host: x", b"\r\n")
_LOSSES = ("internal", "failed")
"""Reasons of counts that no input may raise."""
_KINDS = ("application/x-protobuf", "application/json", "application/json; charset=utf-8", "text/plain", "")
_DRAIN = 30.0
"""Seconds within which everything that was taken must leave."""


class _Endpoint(BaseHTTPRequestHandler):
    """Takes everything, keeps nothing."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        """Answer 200."""
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_arguments: Any) -> None:
        """Log nothing."""


def worker_of(own: dict[str, Any]) -> Any:
    """A worker that redacts what passes, and runs until the process ends. `own` are its own settings."""
    from ragtrace.settings import load
    from ragtrace.worker.service import Worker
    from ragtrace.worker.worker_settings import load_worker

    endpoint = ThreadingHTTPServer(("127.0.0.1", 0), _Endpoint)
    threading.Thread(target=endpoint.serve_forever, daemon=True).start()
    settings = load(
        {
            "otlp_endpoint": f"http://127.0.0.1:{endpoint.server_port}",
            "evaluators": ("groundedness_lexical",),
            "sample_per_second": 0.0,
            "redact": "pii",
            "redact_others": True,
        }
    )
    worker = Worker(load_worker({**own, "body_bytes": 1_000_000}), settings)
    worker.start()
    atexit.register(worker.stop, 1.0)
    return worker


def _worker() -> Any:
    """A worker that receives spans and ends traces soon."""
    return worker_of({"grpc": "127.0.0.1:0", "http": "127.0.0.1:0", "quiet_seconds": 0.05, "longest_seconds": 0.5})


def _write(target: Any, attributes: dict[str, Any]) -> None:
    """Write attributes, apart from those that protobuf cannot hold."""
    from ragtrace_otlp.wire import write_attributes

    for name, value in attributes.items():
        with contextlib.suppress(ValueError, TypeError):
            write_attributes(target, {name: value})


def otlp_messages() -> st.SearchStrategy[Any]:
    """Messages of spans with few ids, so that parents are missing, doubled and in circles, and with odd times."""
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    ids = st.sampled_from([b"", bytes(8), b"short", *(bytes(7) + bytes([n]) for n in range(1, 5))])
    times = st.sampled_from([0, 1, 2**63, 2**64 - 1, 1_700_000_000_000_000_000])
    numbers = st.integers(0, 9)
    spans = st.tuples(ids, ids, times, times, numbers, TEXT, span_attributes(), st.sampled_from([1, 1, 1, 2, 0]))

    def message(rows: list[Any], scope: str, service: dict[str, Any]) -> Any:
        request = ExportTraceServiceRequest()
        of_resource = request.resource_spans.add()
        _write(of_resource.resource, service)
        target = of_resource.scope_spans.add()
        target.scope.name = scope
        traces = {0: bytes(16), 1: random.randbytes(16), 2: random.randbytes(16)}
        for own, parent, start, end, number, name, attributes, trace in rows:
            span = target.spans.add(trace_id=traces[trace], span_id=own, parent_span_id=parent, kind=number % 6)
            span.start_time_unix_nano, span.end_time_unix_nano = start, end
            span.name = name.encode("utf-8", "replace").decode()
            span.status.code = number % 3
            _write(span, attributes)
            _write(span.events.add(name="exception", time_unix_nano=end), attributes)
        return request

    service = st.dictionaries(st.sampled_from(["service.name", "x"]), TEXT, max_size=2)
    return st.builds(message, st.lists(spans, min_size=1, max_size=6), SCOPES, service)


def _bodies(messages: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[bytes, str, str]]:
    """Bodies with their content type and coding: good ones, ones with other bytes in the middle, and any bytes."""
    from google.protobuf import json_format

    def changed(body: bytes, place: int, other: bytes) -> bytes:
        at = place % (len(body) + 1)
        return body[:at] + other + body[at + len(other) * (place % 2) :]

    encoded = messages.map(lambda message: bytes(message.SerializeToString()))
    written = messages.map(lambda message: json_format.MessageToJson(message).encode())
    names = st.sampled_from(["resourceSpans", "scopeSpans", "spans", "resource", "attributes", "traceId", "events"])
    nested = st.recursive(JSON, lambda inner: st.dictionaries(names, inner | st.lists(inner, max_size=2)), max_leaves=9)
    odd_json = nested.map(lambda value: repr(value).replace("'", '"').encode("utf-8", "replace"))
    good = encoded | written
    broken = st.builds(changed, good, st.integers(0, 5_000), st.binary(max_size=8))
    plain = st.one_of(good, broken, odd_json, st.binary(max_size=200))
    packed = st.one_of(plain, plain.map(gzip.compress), plain.map(lambda body: gzip.compress(body)[:-9]))
    return st.tuples(packed, st.sampled_from(_KINDS), st.sampled_from(["", "gzip", "deflate", "identity", "br"]))


class _Attacked:
    """A worker under attack. It starts with the first example: most runs have other targets alone."""

    def __init__(self) -> None:
        self._running: Any = None

    @property
    def worker(self) -> Any:
        """The worker."""
        self._running = self._running or _worker()
        return self._running

    def check(self) -> None:
        """Everything that was taken leaves, each span is in one count, and nothing failed inside."""
        until = time.monotonic() + _DRAIN
        while (stats := self.worker.stats()).open:
            if time.monotonic() > until:
                raise AssertionError(f"spans do not leave: {stats.open}")
            time.sleep(0.01)
        if stats.received != stats.sent + sum(stats.dropped.values()):
            raise AssertionError(f"counts differ: {stats}")
        for counts in (stats.dropped, stats.refused, stats.traces):
            if any(counts.get(reason) for reason in _LOSSES):
                self._running = None  # the next example starts at 0
                raise AssertionError(f"something failed inside: {dict(counts)}")

    def take(self, example: tuple[bytes, str, str]) -> None:
        """Hand in a body as the receivers do."""
        from ragtrace.capture.spans.request_body import IntakeError

        body, kind, coding = example
        try:
            self.worker._intake.take(body, coding, kind, "fuzz")
        except IntakeError as error:
            if error.status == 500:
                raise AssertionError(error.message) from error
        self.check()

    def read(self, message: Any) -> None:
        """Read the spans of a message in this thread, so that an error has its place."""
        from ragtrace.capture.spans.assembly import trace_from
        from ragtrace.capture.spans.pieces import divide
        from ragtrace.text.sanitizer import Sanitizer
        from ragtrace.worker.open_traces import OpenTrace
        from ragtrace.worker.outcomes import marked

        for piece in divide(message).pieces:
            trace = OpenTrace(piece.trace_id, 0.0, 0.0, "fuzz", [piece.payload])
            for request in self.worker._assembler._read(trace).requests:
                trace_from(request, Sanitizer())
            marked(piece.payload, piece.payload)

    def connect(self, example: tuple[str, list[bytes]]) -> None:
        """Send bytes to a port; the worker is ready afterwards."""
        with (
            socket.create_connection(("127.0.0.1", getattr(self.worker, example[0])), timeout=5) as connection,
            contextlib.suppress(OSError),  # refused in the middle
        ):
            for part in example[1]:
                connection.sendall(part)
        with urllib.request.urlopen(f"http://127.0.0.1:{self.worker.http_port}/readyz", timeout=30) as answer:
            if answer.status != 200:
                raise AssertionError("the worker is not ready")


def worker_targets(_folder: Path) -> Iterator[tuple[str, Target]]:
    """What a worker receives."""
    attacked, messages = _Attacked(), otlp_messages()
    pieces = st.one_of(st.sampled_from([*_HEADS, *_LINES]), st.binary(max_size=40))
    ports = st.sampled_from(["http_port", "grpc_port"])
    yield "worker: bodies", (_bodies(messages), attacked.take, ())
    yield "worker: spans", (messages, attacked.read, ())
    yield "worker: connections", (st.tuples(ports, st.lists(pieces, max_size=6)), attacked.connect, ())
