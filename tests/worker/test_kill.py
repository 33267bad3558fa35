"""A worker that is killed loses nothing that it has acknowledged: no span, and no score for the store or a backend."""

import itertools
import os
import random
import signal
import threading
import time
import urllib.error
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from ragtrace.capture.spans.pieces import SpanGroup, divide
from ragtrace.live.pipeline import Pipeline
from ragtrace.text.sanitizer import Sanitizer
from ragtrace.worker import open_traces
from ragtrace.worker.assembler import Assembler
from ragtrace.worker.open_traces import OpenTrace, OpenTraces
from ragtrace.worker.outcomes import EndedTrace
from ragtrace.worker.span_counts import SpanCounts
from ragtrace.worker.worker_settings import WorkerSettings
from tests.delivery.langfuse_api import LangfuseApi, langfuse_keys  # noqa: F401 a fixture
from tests.delivery.phoenix_api import PhoenixApi
from tests.delivery.servers import serving
from tests.otlp.receivers import http_server
from tests.worker.processes import worker_process
from tests.worker.running import count_rows, post, request_of, root, scope, scores, wait_for

KILLS = int(os.environ.get("RAGTRACE_KILLS", "4"))
"""The promise is twenty: RAGTRACE_KILLS=20."""
_SENDERS, _TRACES = 3, 5


class _Load:
    """Senders that send as fast as they can, and remember what was acknowledged."""

    def __init__(self) -> None:
        self.acknowledged: set[int] = set()
        self._first = itertools.count(1, _TRACES)

    @contextmanager
    def sending(self, url: str) -> Iterator[None]:
        stop = threading.Event()
        threads = [threading.Thread(target=self._run, args=(url, stop)) for _ in range(_SENDERS)]
        for thread in threads:
            thread.start()
        yield
        stop.set()
        for thread in threads:
            thread.join()

    def _run(self, url: str, stop: threading.Event) -> None:
        while not stop.is_set():
            first = next(self._first)
            traces = range(first, first + _TRACES)
            try:
                if post(url, request_of(*traces).SerializeToString())[0] == 200:
                    self.acknowledged.update(traces)
            except (OSError, urllib.error.URLError):
                return
            time.sleep(0.01)


@pytest.mark.usefixtures("langfuse_keys")
def test_each_acknowledged_trace_is_evaluated_although_the_worker_is_killed(tmp_path: Path) -> None:
    """What was acknowledged arrives whole with one score, also in store and backends; the buffer is empty then."""
    drawn, load, phoenix, langfuse = random.Random(7), _Load(), PhoenixApi(), LangfuseApi()
    with http_server() as (endpoint, received), serving(phoenix) as one, serving(langfuse) as other:
        settings = {"phoenix_url": one.url, "langfuse_url": other.url, "store": str(tmp_path / "logs.db")}
        settings["store_days"] = "0"  # the spans are old
        for _ in range(KILLS):
            with worker_process(tmp_path, endpoint, **settings) as (process, url), load.sending(url):
                time.sleep(0.5 + drawn.random())
                os.kill(process.pid, signal.SIGKILL)
        with worker_process(tmp_path, endpoint, **settings) as (process, _):
            wait_for(lambda: set(scores(received)), load.acknowledged.issubset)
            process.terminate()
            assert process.wait(60) == 0
    by_trace = scores(received)
    assert len(load.acknowledged) > KILLS * _TRACES
    assert {len(values) for values in by_trace.values()} == {1}
    arrived = [one for each in received.traces.resource_spans for one in each.scope_spans[0].spans]
    assert len({(one.trace_id, one.span_id) for one in arrived}) == 2 * len(by_trace)
    traces = {f"{trace:032x}" for trace in by_trace}
    assert len(phoenix.rows) == len(traces)
    assert {row["traceId"] for row in langfuse.rows.values()} == traces
    assert len(langfuse.rows) == len(langfuse.events) == len(traces)
    assert count_rows(tmp_path / "logs.db", "traces") == count_rows(tmp_path / "logs.db", "scores") == len(traces)
    assert (count_rows(tmp_path / "buffer.db", "pieces"), count_rows(tmp_path / "buffer.db", "outcomes")) == (0, 0)


def test_what_is_not_sent_waits_in_the_buffer(tmp_path: Path) -> None:
    """With endpoint or backend away SIGTERM ends the worker; the next one sends the spans or the scores."""
    api, buffer = PhoenixApi(), tmp_path / "buffer.db"
    with http_server({"traces": 503}) as (away, _), http_server() as (endpoint, received), serving(api) as server:
        settings = {"phoenix_url": server.url, "worker_exit_seconds": "2"}
        server.stop()
        with worker_process(tmp_path, away, **settings) as (process, url):
            assert post(url, request_of(1, 2, 3).SerializeToString())[0] == 200
            process.terminate()
            assert process.wait(90) == 0
        with worker_process(tmp_path, endpoint, **settings) as (process, _):
            wait_for(lambda: set(scores(received)), lambda traces: traces == {1, 2, 3})
            process.terminate()
            assert process.wait(60) == 0
        assert (count_rows(buffer, "pieces"), count_rows(buffer, "outcomes")) == (0, 3)
        server.start()
        with worker_process(tmp_path, endpoint, **settings) as (process, _):
            wait_for(lambda: len(api.rows), lambda count: count == 3)
            process.terminate()
            assert process.wait(60) == 0
        assert count_rows(buffer, "outcomes") == 0


SETTINGS = WorkerSettings(source="nats://broker")


def piece(number: int, sender: str = "") -> SpanGroup:
    request = ExportTraceServiceRequest()
    root(scope(request), 7, number).attributes.add(key="sender").value.string_value = sender
    (group,) = divide(request).pieces
    return group


def test_one_request_in_two_messages_lets_both_go() -> None:
    """Two collectors may publish a request in different bytes: both messages end, so the broker forgets them."""
    ended: list[EndedTrace] = []
    assembler = Assembler(SETTINGS, OpenTraces(SETTINGS), SpanCounts(), Sanitizer(), ended.append)
    pipeline = Pipeline([], sinks=[assembler])
    for sender in ("1", "2"):
        group, now = piece(1, sender), time.monotonic()
        trace = OpenTrace(group.trace_id, now, now, "sender", [group.payload], [0])
        trace.span_ids, trace.spans = set(group.span_ids), 1
        assembler.take(trace)
    assembler.start(pipeline)
    wait_for(lambda: (pipeline.flush(1), len(ended))[1], lambda count: count == 2)
    assert assembler.is_idle
    assembler.finish(keep=False, timeout=10)
    pipeline.close(5)


def test_the_ids_of_late_spans_are_bounded() -> None:
    """Spans of a trace that has ended are passed on; their ids are remembered only up to a number."""
    traces = OpenTraces(SETTINGS)
    traces.note_ended([piece(1).trace_id])
    for number in range(1, open_traces._LATE_SPANS + 500):
        late = traces.add(piece(number), "sender", time.monotonic()).late
        assert late is not None
        traces.release("sender", late.size)
    assert len(traces._ended[piece(1).trace_id]) == open_traces._LATE_SPANS
