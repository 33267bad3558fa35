"""Real servers with several workers: gunicorn and uvicorn. Their workers die, are recycled and killed."""

import contextlib
import http.client
import importlib.util
import os
import signal
import socket
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.applications.processes import WAIT, Application, running
from tests.prometheus.test_processes import Values, assert_whole, read, scraping, total

pytestmark = [
    pytest.mark.skipif(importlib.util.find_spec("gunicorn") is None, reason="gunicorn is not installed"),
    pytest.mark.skipif(importlib.util.find_spec("uvicorn") is None, reason="uvicorn is not installed"),
    pytest.mark.skipif(not hasattr(socket, "SO_REUSEPORT"), reason="this system shares no ports"),
    pytest.mark.timeout(300),
]

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


@dataclass(frozen=True)
class Server:
    application: Application

    def ask(self, requests: int) -> list[int]:
        """So many requests, six at a time; the processes that answered."""
        with ThreadPoolExecutor(6) as pool:
            return list(pool.map(lambda _: int(self._get(self.application.port)), range(requests)))

    def ask_all(self) -> int:
        """Requests until each worker has answered; how many."""
        asked: list[int] = []
        while len(set(asked)) < 3:
            asked += self.ask(20)
        return len(asked)

    def scrape(self) -> Values:
        values = read(self._get(self.application.metrics_port))
        assert_whole({}, values)
        return values

    def _get(self, port: int) -> str:
        """Tries again where a connection went to a worker that died of it, as clients and Prometheus do."""
        answers = []

        def is_answered() -> bool:
            url = f"http://127.0.0.1:{port}/metrics"
            with contextlib.suppress(http.client.HTTPException), urllib.request.urlopen(url, timeout=WAIT) as response:
                answers.append(str(response.read().decode()))
            return bool(answers)

        self.application.wait(is_answered)
        return answers[0]

    def wait(self, true: Callable[[Values], bool]) -> Values:
        self.application.wait(lambda: true(self.scrape()))
        return self.scrape()


def requests(values: Values) -> float:
    return total(values, "ragtrace_requests_total")


@contextlib.contextmanager
def serving(folder: Path, *command: str, **environment: str) -> Iterator[Server]:
    (folder / "application.py").write_text(APPLICATION)
    with running(folder, "", command, **environment) as application:
        yield Server(application)


GUNICORN = ("gunicorn", "--bind", "127.0.0.1:{port}", "--workers", "3", "application:wsgi")
RAW_ENV = (*GUNICORN, "--preload", "--env", "PROMETHEUS_MULTIPROC_DIR=metrics")  # as in gunicorn.conf.py
UVICORN = ("uvicorn", "--port", "{port}", "--workers", "3", "application:asgi")


@pytest.mark.parametrize(
    "command",
    [GUNICORN, (*GUNICORN, "--preload"), UVICORN, RAW_ENV],
    ids=["gunicorn", "gunicorn --preload", "uvicorn", "a directory"],
)
def test_workers_show_their_sum(command: tuple[str, ...], tmp_path: Path) -> None:
    """Without PROMETHEUS_MULTIPROC_DIR, too, a scrape is the sum, and what a killed worker counted is kept."""
    with serving(tmp_path, *command) as server:
        sent = server.ask_all()
        values = server.wait(lambda v: total(v, "ragtrace_evaluations_total") == sent)
        assert requests(values) == total(values, "ragtrace_evaluation_eligible_total") == sent
        assert total(values, "ragtrace_build_info") == 1
        with scraping(server.scrape, server.scrape):
            (killed, *_) = server.ask(1)
            server.wait(lambda v: total(v, "ragtrace_evaluations_total") == sent + 1)
            os.kill(killed, signal.SIGKILL)
            asked = server.ask(20)
            values = server.wait(lambda v: requests(v) == sent + 21)
        assert killed not in asked
        assert "Traceback" not in server.application.log.read_text()


def test_workers_that_are_recycled_and_started_again(tmp_path: Path) -> None:
    """Workers that end, after five requests or by SIGTERM, leave all counts for those that start in their directory."""
    directory = {"PROMETHEUS_MULTIPROC_DIR": "metrics"}
    with serving(tmp_path, *GUNICORN, "--preload", "--max-requests", "5", **directory) as server:
        with scraping(server.scrape, server.scrape):
            asked = server.ask(60)
        assert len(set(asked)) > 6
        server.wait(lambda v: total(v, "ragtrace_evaluations_total") == 60)
        server.scrape()
        assert len(list((tmp_path / "metrics").glob("*.json"))) <= 5  # three alive, one about to be, those that ended
        server.ask(20)
        server.application.process.terminate()
        assert server.application.process.wait(60) == 0, server.application.tail()
    with serving(tmp_path, *GUNICORN, **directory) as server:
        values = server.wait(lambda v: requests(v) >= 80)
        assert requests(values) == total(values, "ragtrace_evaluations_total") == 80
