"""One port and several processes that have not been told of each other."""

import logging
import os
import socket
import tempfile
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import ragtrace
from ragtrace.evaluation import evaluator
from ragtrace.records import Trace
from ragtrace.sampling import Decision
from ragtrace.testing import make_trace
from ragtrace_prometheus import PrometheusSink
from tests.ports import free_port
from tests.prometheus.test_processes import Values, read, total
from tests.waiting import until

WAIT = 60.0
TAKEN = "another program uses"


@evaluator(needs={"answer"}, threshold=0.5)
def good(trace: Trace) -> float:
    return 1.0


@pytest.fixture
def port() -> int:
    return free_port()


@pytest.fixture
def start() -> Iterator[Callable[..., PrometheusSink]]:
    """Makes sinks, each as if in a process of its own."""
    sinks = []

    def make(port: int, app: str = "shop") -> PrometheusSink:
        sink = PrometheusSink(app=app, env="test", evaluators=[good])
        sinks.append(sink)
        sink.share(port)
        return sink

    yield make
    for sink in sinks:
        sink.close()


def count(sink: PrometheusSink, requests: int) -> None:
    for _ in range(requests):
        sink.observe_request(make_trace(), Decision(False, 0.5, "ratio"))


def requests(values: Values, app: str = "shop") -> float:
    return total(values, "ragtrace_requests_total", app=app)


def scrape(port: int) -> Values:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=WAIT) as response:
        return read(response.read().decode())


def test_the_second_process_joins(port: int, start: Callable[..., PrometheusSink]) -> None:
    """Whichever is asked shows the sum, from the second's first scrape on; who ends leaves its counts."""
    first = start(port)
    count(first, 3)
    assert requests(scrape(port)) == 3
    second = start(port)
    for _ in range(10):
        assert requests(scrape(port)) == 3
    count(second, 4)
    until(lambda: requests(scrape(port)) == 7)
    first.close()
    assert requests(scrape(port)) == 7
    count(second, 1)
    assert requests(scrape(port)) == 8


def test_a_new_start_begins_at_zero(port: int, start: Callable[..., PrometheusSink]) -> None:
    sinks = [start(port), start(port)]
    for sink in sinks:
        count(sink, 2)
    until(lambda: requests(scrape(port)) == 4)
    for sink in sinks:
        sink.close()
    count(start(port), 1)
    assert requests(scrape(port)) == 1


def test_others_do_not_join(port: int, start: Callable[..., PrometheusSink], caplog: pytest.LogCaptureFixture) -> None:
    count(start(port), 2)
    with caplog.at_level(logging.WARNING):
        other = start(port, "bank")
    assert other.url is None
    assert [str(port) in record.getMessage() for record in caplog.records if TAKEN in record.getMessage()] == [True]
    for _ in range(10):
        values = scrape(port)
        assert (requests(values), requests(values, "bank")) == (2, 0)


def test_a_taken_port_stops_nobody(
    port: int, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ragtrace_prometheus.sink._TRY_EVERY", 0.05)
    with socket.socket() as other:
        other.bind(("127.0.0.1", port))
        other.listen()
        with caplog.at_level(logging.WARNING):
            runtime = ragtrace.init(app="shop", prometheus_port=port, evaluators=[good], frameworks=())
        assert runtime.metrics_url is None
        assert sum(TAKEN in record.getMessage() for record in caplog.records) == 1
    try:
        until(lambda: runtime.metrics_url is not None)
        runtime.pipeline.submit(make_trace())
        assert runtime.flush(WAIT)
        assert requests(scrape(port)) == 1
    finally:
        runtime.close()
    assert sum(TAKEN in record.getMessage() for record in caplog.records) == 1


def test_processes_that_cannot_meet(
    port: int,
    start: Callable[..., PrometheusSink],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Where no directory can be had the first process serves alone, and the second one starts without metrics."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (tmp_path / f"ragtrace-{os.getuid()}").write_text("in the way")
    first = start(port)
    with caplog.at_level(logging.WARNING):
        second = start(port)
    count(first, 2)
    assert requests(scrape(port)) == 2
    assert second.url is None
    assert sum(TAKEN in record.getMessage() for record in caplog.records) == 1


def test_many_start_at_once(port: int, start: Callable[..., PrometheusSink]) -> None:
    with ThreadPoolExecutor(8) as pool:
        sinks = list(pool.map(start, [port] * 8))
    assert all(sink.url for sink in sinks)
    for sink in sinks:
        count(sink, 1)
    until(lambda: requests(scrape(port)) == 8)
