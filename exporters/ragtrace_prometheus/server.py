"""Serves a registry over HTTP, in the text format or as OpenMetrics, as the scraper asks."""

from __future__ import annotations

from dataclasses import dataclass
from threading import Thread
from typing import Any

from prometheus_client import CollectorRegistry, start_http_server

from ragtrace.errors import SettingError


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


def serve(registry: CollectorRegistry, port: int, host: str = "127.0.0.1") -> MetricsServer:
    """Serve the registry from a daemon thread; port 0 takes any free one.

    Raises SettingError that names prometheus_port if the port cannot be had.
    """
    try:
        server, thread = start_http_server(port, addr=host, registry=registry)
    except (OSError, OverflowError) as error:
        raise SettingError(
            f"prometheus_port is {port}, which cannot be had on {host} ({getattr(error, 'strerror', None) or error}); "
            "give another one, 0 for any free one, or -1 for none"
        ) from error
    return MetricsServer(f"http://{host}:{server.server_port}/metrics", server, thread)
