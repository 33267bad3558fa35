"""A local HTTP server that keeps the headers of its requests, and a traced client for it."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx
from opentelemetry.instrumentation.httpx import HTTPXClientInstrumentor


class Web:
    """A server's address, and the `traceparent` of each request by its path."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.traceparents: dict[str, str | None] = {}

    def get(self, path: str) -> str:
        """Ask the server for a path."""
        return httpx.get(f"{self.url}/{path}").text

    async def aget(self, path: str) -> str:
        """Ask the server for a path, asynchronously."""
        async with httpx.AsyncClient() as client:
            return (await client.get(f"{self.url}/{path}")).text


@contextmanager
def traced_web(tracer_provider: Any) -> Iterator[Web]:
    """A running server whose clients are traced by OpenTelemetry's instrumentation of httpx."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            web.traceparents[self.path.strip("/")] = self.headers.get("traceparent")
            body = json.dumps({"path": self.path}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_arguments: Any) -> None:
            """No lines on the terminal."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    web = Web(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    instrumentor = HTTPXClientInstrumentor()
    instrumentor.instrument(tracer_provider=tracer_provider)
    try:
        yield web
    finally:
        instrumentor.uninstrument()
        server.shutdown()
        server.server_close()
        thread.join()
