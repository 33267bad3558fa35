"""Scores as Prometheus metrics, on a /metrics of their own."""

from typing import TYPE_CHECKING, Any

from ragtrace.errors import package

if TYPE_CHECKING:
    from ragtrace_prometheus.server import MetricsServer, serve
    from ragtrace_prometheus.sink import PrometheusSink

__all__ = ["MetricsServer", "PrometheusSink", "serve"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(name)
    package("prometheus_client", "otlp", "Prometheus metrics")
    from ragtrace_prometheus import server, sink

    return getattr(sink if name == "PrometheusSink" else server, name)
