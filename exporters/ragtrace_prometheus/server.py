"""Serves a registry over HTTP, in the text format or as OpenMetrics, as the scraper asks."""

import errno
import socket
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from threading import Thread
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from prometheus_client import CollectorRegistry, make_wsgi_app
from prometheus_client.exposition import ThreadingWSGIServer

from ragtrace.errors import SettingError

App = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]
Checks = Mapping[str, Callable[[], str]]
"""By path, what says why the process is not well; an empty text if it is."""


@dataclass(frozen=True, slots=True)
class MetricsServer:
    """A running /metrics."""

    url: str
    _server: Any
    _thread: Thread

    def close(self) -> None:
        """Stop serving."""
        if self._thread.is_alive():  # otherwise `shutdown` waits for ever: no thread of the parent is in a forked child
            self._server.shutdown()
        self._server.server_close()
        self._thread.join(2.0)

    def forked(self) -> None:
        """In a forked child, where no thread answers: close the parent's port here."""
        self._server.socket.close()


class _SilentHandler(WSGIRequestHandler):
    wbufsize = -1
    """Buffered: headers are sent together, with their Content-Length. Of a process that ends between two of them a
    scraper would take the rest, an empty answer, for a scrape without metrics."""

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing."""


def is_taken(error: SettingError) -> bool:
    """Whether `serve` failed because another program has the port."""
    return getattr(error.__cause__, "errno", None) == errno.EADDRINUSE


def make_app(registry: CollectorRegistry, checks: Checks | None = None) -> App:
    """A WSGI application that answers with the registry's metrics, and at the paths of `checks` with 200 or 503."""
    metrics: App = make_wsgi_app(registry)

    def app(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        if check := (checks or {}).get(environ["PATH_INFO"]):
            reason = check()
            status = "503 Service Unavailable" if reason else "200 OK"
            start_response(status, [("Content-Type", "text/plain; charset=utf-8")])
            return [f"{reason or 'ok'}\n".encode()]
        return metrics(environ, start_response)

    return app


def serve(
    registry: CollectorRegistry,
    port: int,
    host: str = "127.0.0.1",
    shared: bool = False,
    *,
    first: bool = False,
    checks: Checks | None = None,
) -> MetricsServer:
    """Serve the registry from a daemon thread; port 0 takes any free one. Several processes of one user may have the
    same port if all of them pass `shared`. The `first` one does not share it with others that are there already.
    `checks` are as for `make_app`.

    Raises SettingError that names prometheus_port if the port cannot be had."""
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        if first:
            with socket.socket(family) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind(address)
                probe.listen()
        kind = type("_Server", (ThreadingWSGIServer,), {"address_family": family, "allow_reuse_port": shared})
        app = make_app(registry, checks)
        server: WSGIServer = make_server(str(address[0]), port, app, kind, handler_class=_SilentHandler)
    except (OSError, OverflowError) as error:
        raise SettingError(
            f"prometheus_port is {port}, which cannot be opened on {host} "
            f"({getattr(error, 'strerror', None) or error}); give another port, 0 for any free one, or -1 for none"
        ) from error
    thread = Thread(target=server.serve_forever, name="ragtrace-metrics", daemon=True)
    thread.start()
    return MetricsServer(f"http://{host}:{server.server_port}/metrics", server, thread)
