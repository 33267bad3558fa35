"""An HTTP server whose answers a backend gives, and whose failures a script gives."""

from __future__ import annotations

import json
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

RESET = -1
"""In a script: the connection is reset. What the request asked for is done all the same."""


@dataclass(frozen=True)
class Asked:
    method: str
    path: str
    params: dict[str, list[str]]
    headers: dict[str, str]
    body: Any


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True
    running: Running

    def __init__(self, *arguments: Any) -> None:
        self.connections: set[socket.socket] = set()
        super().__init__(*arguments)

    def handle_error(self, *arguments: Any) -> None:
        """Silence: connections that break are what is tested."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def setup(self) -> None:
        super().setup()
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.server.connections.add(self.connection)

    def _serve(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        parts = urlsplit(self.path)
        headers = {name.lower(): value for name, value in self.headers.items()}
        asked = Asked(self.command, parts.path, parse_qs(parts.query), headers, json.loads(body or b"null"))
        failure = self.server.running.next_failure(asked)
        if failure == RESET:
            self.server.running.api.answer(asked)
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.close_connection = True
            self.connection.close()
            return
        status, retry_after = failure if isinstance(failure, tuple) else (failure, None)
        answer: Any = {"detail": "by script"}
        if status is None:
            status, answer = self.server.running.api.answer(asked)
        content = json.dumps(answer).encode()
        self.send_response(status)
        if retry_after is not None:
            self.send_header("Retry-After", str(retry_after))
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_POST = do_PATCH = _serve  # noqa: N815 names of the standard library

    def log_message(self, *arguments: Any) -> None:
        """Silence."""


class Running:
    """A server that can be stopped and started again on the same port, with the state of its `api`."""

    def __init__(self, api: Any, *failures: Any) -> None:
        """`failures` happen to the next requests instead of an answer of `api`: a status, (status, Retry-After), or
        `RESET`."""
        self.api, self.failures = api, list(failures)
        self.requests: list[Asked] = []
        """Those that came, the failed ones included."""
        self._lock = threading.Lock()
        self._port = 0
        self._server: _Server | None = None
        self.start()

    def next_failure(self, asked: Asked) -> Any:
        with self._lock:
            self.requests.append(asked)
            return self.failures.pop(0) if self.failures else None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def start(self) -> None:
        self._server = _Server(("127.0.0.1", self._port), _Handler)
        self._server.running = self
        self._port = self._server.server_port
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def stop(self) -> None:
        if self._server is None:
            return
        self._server.shutdown()
        self._server.server_close()
        for connection in self._server.connections:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self._server = None


@contextmanager
def serving(api: Any, *failures: Any) -> Iterator[Running]:
    """Serve what `api.answer` gives, a status and a body, while the block runs; the first requests meet failures."""
    server = Running(api, *failures)
    try:
        yield server
    finally:
        server.stop()
