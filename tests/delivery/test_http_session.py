"""Requests to collectors and to servers that take scores: what they answer is bounded."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest
from requests.exceptions import ContentDecodingError

from ragtrace_backends.http_session import BoundedSession


class Endless(BaseHTTPRequestHandler):
    """Answers without an end."""

    def do_GET(self) -> None:
        """Send until nobody reads."""
        self.send_response(200)
        self.end_headers()
        with contextlib.suppress(OSError):
            while True:
                self.wfile.write(bytes(1_000_000))

    def log_message(self, *args: object) -> None:
        """Silence."""


@pytest.fixture
def address() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Endless) as server:
        server.daemon_threads = True
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


def test_an_answer_without_an_end_is_an_error(address: str) -> None:
    """The body is read up to 32 MB: a server cannot fill the application's memory."""
    with BoundedSession() as session, pytest.raises(ContentDecodingError, match="more than 33554432 bytes"):
        session.get(address, timeout=60)
