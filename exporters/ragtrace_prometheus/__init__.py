"""Scores as Prometheus metrics, on a /metrics of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ragtrace_prometheus.server import MetricsServer, serve
    from ragtrace_prometheus.sink import PrometheusSink

__all__ = ["MetricsServer", "PrometheusSink", "serve"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(name)
    try:
        from ragtrace_prometheus import server, sink
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] != "prometheus_client":
            raise
        from ragtrace.errors import MissingExtraError

        raise MissingExtraError("prometheus-client", "otlp", "Prometheus metrics") from error
    return getattr(sink if name == "PrometheusSink" else server, name)
