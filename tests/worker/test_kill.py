"""A worker that is killed loses nothing that it has acknowledged: no span, and no score for the store or a backend."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import sqlite3
import threading
import time
import urllib.error
from collections import Counter
from pathlib import Path

import pytest

from tests.delivery.langfuse_api import PUBLIC, SECRET, LangfuseApi
from tests.delivery.phoenix_api import PhoenixApi
from tests.delivery.servers import serving
from tests.otlp.receivers import Received, http_server, plain
from tests.worker.processes import worker_process
from tests.worker.running import post, request_of, wait_for

KILLS = int(os.environ.get("RAGTRACE_KILLS", "4"))
"""The promise is twenty: RAGTRACE_KILLS=20."""
_SENDERS, _TRACES = 3, 5


class _Load:
    """Senders that send as fast as they can, and remember what was acknowledged."""

    def __init__(self) -> None:
        self.acknowledged: set[int] = set()
        self._next, self._lock, self._stop = 1, threading.Lock(), False

    def send(self, url: str) -> list[threading.Thread]:
        self._stop = False
        threads = [threading.Thread(target=self._run, args=(url,)) for _ in range(_SENDERS)]
        for thread in threads:
            thread.start()
        return threads

    def _run(self, url: str) -> None:
        while not self._stop:
            with self._lock:
                first, self._next = self._next, self._next + _TRACES
            traces = range(first, first + _TRACES)
            try:
                if post(url, request_of(*traces).SerializeToString())[0] == 200:
                    self.acknowledged.update(traces)
            except (OSError, urllib.error.URLError):
                return
            time.sleep(0.01)

    def stop(self, threads: list[threading.Thread]) -> None:
        self._stop = True
        for thread in threads:
            thread.join()


def _scores(received: Received) -> dict[int, set[float]]:
    """The scores of each trace that arrived, those that arrived twice once."""
    scores: dict[int, set[float]] = {}
    for of_resource in received.traces.resource_spans:
        for one in of_resource.scope_spans[0].spans:
            value = plain(one.attributes).get("gen_ai.evaluation.groundedness_lexical.score")
            if value is not None:
                scores.setdefault(int.from_bytes(one.trace_id, "big"), set()).add(value)
    return scores


@pytest.fixture
def langfuse_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANGFUSE_PUBLIC_KEY", PUBLIC)
    monkeypatch.setenv("LANGFUSE_SECRET_KEY", SECRET)


def _rows(buffer: Path, table: str) -> int:
    with contextlib.closing(sqlite3.connect(buffer)) as connection:
        return int(connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0])


@pytest.mark.usefixtures("langfuse_keys")
def test_each_acknowledged_trace_is_evaluated_although_the_worker_is_killed(tmp_path: Path) -> None:
    """Killed under load again and again: each trace that was acknowledged arrives whole behind the worker, with one
    score; the store, Phoenix and Langfuse have this score once, and the buffer is empty in the end."""
    drawn, load, phoenix, langfuse = random.Random(7), _Load(), PhoenixApi(), LangfuseApi()
    with http_server() as (endpoint, received), serving(phoenix) as one, serving(langfuse) as other:
        settings = {"phoenix_url": one.url, "langfuse_url": other.url, "store": str(tmp_path / "logs.db")}
        for _ in range(KILLS):
            with worker_process(tmp_path, endpoint, **settings) as (process, url):
                threads = load.send(url)
                time.sleep(0.5 + drawn.random())
                os.kill(process.pid, signal.SIGKILL)
                load.stop(threads)
        with worker_process(tmp_path, endpoint, **settings) as (process, _):
            wait_for(lambda: set(_scores(received)), load.acknowledged.issubset)
            process.terminate()
            assert process.wait(60) == 0
    scores = _scores(received)
    assert len(load.acknowledged) > KILLS * _TRACES
    assert {len(values) for values in scores.values()} == {1}
    spans = Counter(
        (one.trace_id, one.span_id)
        for of_resource in received.traces.resource_spans
        for one in of_resource.scope_spans[0].spans
    )
    assert len(spans) == 2 * len(scores)
    traces = {f"{trace:032x}" for trace in scores}
    assert len(phoenix.rows) == len(traces)
    assert {row["traceId"] for row in langfuse.rows.values()} == traces
    assert len(langfuse.rows) == len(langfuse.events) == len(traces)
    assert _rows(tmp_path / "logs.db", "traces") == _rows(tmp_path / "logs.db", "scores") == len(traces)
    assert (_rows(tmp_path / "buffer.db", "pieces"), _rows(tmp_path / "buffer.db", "outcomes")) == (0, 0)


def test_a_worker_that_stops_keeps_what_is_not_sent(tmp_path: Path) -> None:
    """With an endpoint that is away, SIGTERM leaves what was acknowledged in the buffer; the next worker sends it."""
    with http_server({"traces": 503}) as (away, _), worker_process(tmp_path, away) as (process, url):
        assert post(url, request_of(1, 2).SerializeToString())[0] == 200
        process.terminate()
        assert process.wait(90) == 0
    with http_server() as (endpoint, received), worker_process(tmp_path, endpoint):
        assert wait_for(lambda: set(_scores(received)), lambda traces: len(traces) == 2) == {1, 2}


def test_scores_for_a_backend_that_is_away_wait_in_the_buffer(tmp_path: Path) -> None:
    """With Phoenix away, SIGTERM ends the worker after `exit_seconds`, and the scores are in the buffer; the next
    worker delivers each, and the buffer is empty."""
    api, buffer = PhoenixApi(), tmp_path / "buffer.db"
    with http_server() as (endpoint, received), serving(api) as server:
        settings = {"phoenix_url": server.url, "worker_exit_seconds": "2"}
        server.stop()
        with worker_process(tmp_path, endpoint, **settings) as (process, url):
            assert post(url, request_of(1, 2, 3).SerializeToString())[0] == 200
            wait_for(lambda: len(_scores(received)), lambda count: count == 3)
            process.terminate()
            assert process.wait(30) == 0
        assert (_rows(buffer, "pieces"), _rows(buffer, "outcomes")) == (0, 3)
        server.start()
        with worker_process(tmp_path, endpoint, **settings) as (process, _):
            wait_for(lambda: len(api.rows), lambda count: count == 3)
            process.terminate()
            assert process.wait(30) == 0
        assert _rows(buffer, "outcomes") == 0
