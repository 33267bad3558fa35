"""Real servers with several workers: gunicorn and uvicorn. Their workers die, are recycled and killed."""

from __future__ import annotations

import contextlib
import http.client
import importlib.util
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.ports import free_port
from tests.prometheus.test_processes import Values, assert_whole, read, total

pytestmark = [
    pytest.mark.skipif(importlib.util.find_spec("gunicorn") is None, reason="gunicorn is not installed"),
    pytest.mark.skipif(importlib.util.find_spec("uvicorn") is None, reason="uvicorn is not installed"),
    pytest.mark.skipif(not hasattr(socket, "SO_REUSEPORT"), reason="this system shares no ports"),
    pytest.mark.timeout(300),
]

WAIT = 60.0
"""Seconds within which what must come has come, on the slowest machine."""
APPLICATION = """
import os, random, time
import ragtrace
from ragtrace.evaluation import evaluator
from ragtrace.testing import make_trace

@evaluator(needs={"answer"}, threshold=0.5)
def length(trace):
    return min(1.0, len(trace.answer) / 100)

runtime = ragtrace.init(
    app="shop", env="test", evaluators=[length], prometheus_port=int(os.environ["METRICS_PORT"]), frameworks=(),
    sample_per_second=0,
)

def answer():
    time.sleep(0.02)
    answer = "x" * random.randint(1, 100)
    runtime.pipeline.submit(make_trace(trace_id=random.getrandbits(128), answer=answer, duration=random.random()))
    return str(os.getpid()).encode()

def wsgi(environ, start_response):
    start_response("200 OK", [])
    return [answer()]

async def asgi(scope, receive, send):
    if scope["type"] == "http":
        body = answer()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": body})
"""


class Server:
    """A server of the application above, with its metrics."""

    def __init__(self, folder: Path, *command: str, directory: bool = True) -> None:
        (folder / "application.py").write_text(APPLICATION)
        self.directory = folder / "metrics"
        self.port, self.metrics_port = free_port(), free_port()
        environment = {**os.environ, "METRICS_PORT": str(self.metrics_port)}
        environment.pop("PROMETHEUS_MULTIPROC_DIR", None)
        if directory:
            environment["PROMETHEUS_MULTIPROC_DIR"] = str(self.directory)
        filled = [part.format(port=self.port, directory=self.directory) for part in command]
        self.log = (folder / "log").open("w+b")
        self.process = subprocess.Popen(
            [sys.executable, "-m", *filled], cwd=folder, env=environment, stdout=self.log, stderr=self.log
        )

    def ask(self, requests: int) -> list[int]:
        """So many requests, six at a time; the processes that answered."""
        with ThreadPoolExecutor(6) as pool:
            return list(pool.map(lambda _: int(self._get(f"http://127.0.0.1:{self.port}/")), range(requests)))

    def ask_all(self) -> int:
        """Requests until each worker has answered; how many."""
        asked: list[int] = []
        while len(set(asked)) < 3:
            asked += self.ask(20)
        return len(asked)

    def scrape(self) -> Values:
        return read(self._get(f"http://127.0.0.1:{self.metrics_port}/metrics"))

    def _get(self, url: str) -> str:
        """Tries again where a connection went to a worker that died of it, as clients and Prometheus do."""
        deadline = time.monotonic() + WAIT
        while True:
            try:
                with urllib.request.urlopen(url, timeout=10) as response:
                    return str(response.read().decode())
            except (OSError, http.client.HTTPException):
                assert self.process.poll() is None, self.output()
                assert time.monotonic() < deadline, self.output()
                time.sleep(0.05)

    def wait(self, true: Callable[[Values], bool]) -> Values:
        """Scrape until it is so."""
        deadline = time.monotonic() + WAIT
        while True:
            values = self.scrape()
            assert_whole({}, values)
            if true(values):
                return values
            assert time.monotonic() < deadline, (values, self.output())
            time.sleep(0.1)

    def output(self) -> str:
        self.log.flush()
        self.log.seek(0)
        return self.log.read().decode()

    def stop(self) -> int:
        self.process.terminate()
        try:
            return self.process.wait(60)
        finally:
            self.process.kill()
            self.log.close()


def requests(values: Values) -> float:
    return total(values, "ragtrace_requests_total")


@contextlib.contextmanager
def scraping(server: Server) -> Iterator[list[str]]:
    """Two scrapers at once, for as long as it lasts; what they found wrong."""
    done = threading.Event()
    wrong: list[str] = []

    def scrape() -> None:
        values: Values = {}
        while not done.is_set() and not wrong:
            try:
                now = server.scrape()
                assert_whole(values, now)
                values = now
            except (AssertionError, KeyError) as error:
                wrong.append(repr(error))
            time.sleep(0.05)

    threads = [threading.Thread(target=scrape) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        yield wrong
    finally:
        done.set()
        for thread in threads:
            thread.join(60)


@contextlib.contextmanager
def serving(folder: Path, *command: str, directory: bool = True) -> Iterator[Server]:
    server = Server(folder, *command, directory=directory)
    try:
        yield server
    finally:
        server.stop()


GUNICORN = ("gunicorn", "--bind", "127.0.0.1:{port}", "--workers", "3", "application:wsgi")
RAW_ENV = (*GUNICORN, "--preload", "--env", "PROMETHEUS_MULTIPROC_DIR={directory}")  # as in gunicorn.conf.py
UVICORN = ("uvicorn", "--port", "{port}", "--workers", "3", "application:asgi")


@pytest.mark.parametrize(
    "command",
    [GUNICORN, (*GUNICORN, "--preload"), UVICORN, RAW_ENV],
    ids=["gunicorn", "gunicorn --preload", "uvicorn", "a directory"],
)
def test_workers_show_their_sum(command: tuple[str, ...], tmp_path: Path) -> None:
    """Without PROMETHEUS_MULTIPROC_DIR, too, a scrape is the sum, and what a killed worker counted is kept."""
    with serving(tmp_path, *command, directory=False) as server:
        sent = server.ask_all()
        values = server.wait(lambda v: total(v, "ragtrace_evaluations_total") == sent)
        assert requests(values) == total(values, "ragtrace_evaluation_eligible_total") == sent
        assert total(values, "ragtrace_build_info") == 1
        with scraping(server) as wrong:
            (killed, *_) = server.ask(1)
            server.wait(lambda v: total(v, "ragtrace_evaluations_total") == sent + 1)
            os.kill(killed, signal.SIGKILL)
            asked = server.ask(20)
            values = server.wait(lambda v: requests(v) == sent + 21)
        assert wrong == []
        assert killed not in asked
        assert "Traceback" not in server.output()


def test_workers_that_are_recycled_and_started_again(tmp_path: Path) -> None:
    """Workers that end, after five requests or by SIGTERM, leave all counts for those that start in their directory."""
    with serving(tmp_path, *GUNICORN, "--preload", "--max-requests", "5") as server:
        with scraping(server) as wrong:
            asked = server.ask(60)
        assert wrong == []
        assert len(set(asked)) > 6
        server.wait(lambda v: total(v, "ragtrace_evaluations_total") == 60)
        server.scrape()
        assert len(list(server.directory.glob("*.json"))) <= 5  # three alive, one about to be, those that ended
        server.ask(20)
        server.process.terminate()
        assert server.process.wait(30) == 0, server.output()
    with serving(tmp_path, *GUNICORN) as server:
        values = server.wait(lambda v: requests(v) >= 80)
        assert requests(values) == total(values, "ragtrace_evaluations_total") == 80
