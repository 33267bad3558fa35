"""`ragtrace.init` with a backend for scores: what arrives there, and what /metrics says of it."""

from __future__ import annotations

import urllib.request
from collections.abc import Iterator

import pytest

import ragtrace
from ragtrace.evaluation import evaluator
from ragtrace.records import Trace
from tests.delivery.phoenix_api import PhoenixApi
from tests.delivery.servers import serving


@evaluator(needs={"answer"}, threshold=0.5)
def half(trace: Trace) -> float:
    return 0.25


@pytest.fixture(autouse=True)
def ends() -> Iterator[None]:
    yield
    ragtrace.shutdown(timeout=1)


def ask() -> str:
    with ragtrace.request("How long?") as request:
        request.answered("Two years.")
    return request.trace_id


def test_scores_and_late_scores_arrive() -> None:
    api = PhoenixApi()
    with serving(api) as server:
        runtime = ragtrace.init(app="shop", evaluators=[half], phoenix_url=server.url, prometheus_port=0)
        trace_id = ask()
        assert ragtrace.flush(timeout=60)
        ragtrace.score(trace_id, "solved", True)
        assert ragtrace.flush(timeout=60)
        metrics = urllib.request.urlopen(str(runtime.metrics_url)).read().decode()
        stats = runtime.deliveries["phoenix"]
    assert sorted(name for _, name, _ in api.rows) == ["half", "solved"]
    assert len({span for span, _, _ in api.rows}) == 1
    assert stats.accepted == stats.delivered == 2
    assert 'ragtrace_export_items_total{app="shop",env="dev",sink="phoenix"} 2.0' in metrics
    assert 'ragtrace_export_failures_total{app="shop",env="dev",reason="queue_full",sink="phoenix"} 0.0' in metrics


def test_flush_says_that_scores_are_lost() -> None:
    api = PhoenixApi()
    api.key = "another"
    with serving(api) as server:
        runtime = ragtrace.init(app="shop", evaluators=[half], phoenix_url=server.url, prometheus_port=0)
        ask()
        assert not ragtrace.flush(timeout=30)
        assert ragtrace.flush(timeout=60)
        metrics = urllib.request.urlopen(str(runtime.metrics_url)).read().decode()
    assert 'reason="unauthorized",sink="phoenix"} 1.0' in metrics
