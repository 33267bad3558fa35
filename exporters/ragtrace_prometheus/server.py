"""Serves a registry over HTTP, in the text format or as OpenMetrics, as the scraper asks."""

from __future__ import annotations

import gzip
import socket
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from socketserver import ThreadingMixIn
from threading import Thread
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from prometheus_client import CollectorRegistry, make_wsgi_app
from prometheus_client.exposition import choose_encoder

from ragtrace.errors import SettingError
from ragtrace_prometheus.exposition import PlainRegistry

App = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


@dataclass(frozen=True, slots=True)
class MetricsServer:
    """A running /metrics."""

    url: str
    _server: Any
    _thread: Thread

    def close(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(2.0)

    def forked(self) -> None:
        """In a forked child, where nobody answers: let go of the parent's port."""
        self._server.socket.close()


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True


class _Silent(WSGIRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


def make_app(registry: CollectorRegistry) -> App:
    """A WSGI application that answers with the registry's metrics."""
    standard: App = make_wsgi_app(registry)
    if not isinstance(registry, PlainRegistry):
        return standard

    def app(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        # Other methods, a choice of names and a browser's icon are rare: prometheus_client sees to them.
        if environ["REQUEST_METHOD"] != "GET" or environ.get("QUERY_STRING") or environ["PATH_INFO"] == "/favicon.ico":
            return standard(environ, start_response)
        kind = choose_encoder(environ.get("HTTP_ACCEPT", ""))[1]
        headers = [("Content-Type", kind)]
        body = registry.text(kind.startswith("application/openmetrics-text"))
        if "gzip" in environ.get("HTTP_ACCEPT_ENCODING", "").lower():
            # Not at the default level 9, which takes ten times as long as all the rest for a fifth of the bytes.
            body = gzip.compress(body, compresslevel=1)
            headers.append(("Content-Encoding", "gzip"))
        start_response("200 OK", [*headers, ("Content-Length", str(len(body)))])
        return [body]

    return app


def serve(registry: CollectorRegistry, port: int, host: str = "127.0.0.1", shared: bool = False) -> MetricsServer:
    """Serve the registry from a daemon thread; port 0 takes any free one. A `shared` port may be had by several
    processes of this user, all of which say so.

    Raises SettingError that names prometheus_port if the port cannot be had.
    """
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        kind = type("_ServerOfFamily", (_Server,), {"address_family": family, "allow_reuse_port": shared})
        server: WSGIServer = make_server(str(address[0]), port, make_app(registry), kind, handler_class=_Silent)
    except (OSError, OverflowError) as error:
        raise SettingError(
            f"prometheus_port is {port}, which cannot be had on {host} ({getattr(error, 'strerror', None) or error}); "
            "give another one, 0 for any free one, or -1 for none; for several processes of one application, set "
            "PROMETHEUS_MULTIPROC_DIR"
        ) from error
    thread = Thread(target=server.serve_forever, name="ragtrace-metrics", daemon=True)
    thread.start()
    return MetricsServer(f"http://{host}:{server.server_port}/metrics", server, thread)
