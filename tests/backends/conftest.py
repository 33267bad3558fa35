"""Servers that run for the session, and what they show of the assistant's traces."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.backends import mlflow, phoenix
from tests.backends.conversation import QUESTIONS
from tests.backends.servers import MLFLOW, PHOENIX, Backend, Server, running
from tests.backends.shown import Span, Trace
from tests.prepare import SERVERS

ROOT = Path(__file__).resolve().parents[2]
APP = "backends"
"""The application's name: Phoenix makes a project of it."""


@dataclass(frozen=True)
class Pages:
    """What a backend shows of the assistant's requests."""

    backend: str
    traces: dict[str, Trace]
    """By the name of the question."""

    @staticmethod
    def metadata(span: Span) -> dict[str, Any]:
        """The application's metadata: MLflow reads the attribute's JSON, Phoenix lists each value by itself."""
        values: dict[str, Any] = span.attributes.get("metadata") or {
            name.removeprefix("metadata."): value
            for name, value in span.attributes.items()
            if name.startswith("metadata.")
        }
        return values


@contextmanager
def _server(backend: Backend) -> Iterator[Server]:
    program = backend.program
    if program is None:
        pytest.skip(
            f"{backend.name} is not installed: `CI=true python tests/prepare.py` makes an environment with it ("
            f"{SERVERS.name}, 1.3 GB), or {backend.variable} names its program"
        )
    with running(backend, program) as server:
        yield server


@pytest.fixture(scope="session")
def phoenix_server() -> Iterator[Server]:
    """A Phoenix server with an empty database."""
    with _server(PHOENIX) as server:
        yield server


@pytest.fixture(scope="session")
def mlflow_server() -> Iterator[Server]:
    """An MLflow server with an empty database."""
    with _server(MLFLOW) as server:
        yield server


@pytest.fixture(scope="session")
def phoenix_pages(phoenix_server: Server) -> Pages:
    """The assistant's requests in Phoenix."""
    return _pages("phoenix", phoenix_server, lambda: phoenix.traces(phoenix_server, APP))


@pytest.fixture(scope="session")
def mlflow_pages(mlflow_server: Server) -> Pages:
    """The assistant's requests in MLflow."""
    return _pages("mlflow", mlflow_server, lambda: mlflow.traces(mlflow_server))


@pytest.fixture(scope="session", params=["phoenix", "mlflow"])
def pages(request: pytest.FixtureRequest) -> Pages:
    """The assistant's requests in each backend."""
    value: Pages = request.getfixturevalue(f"{request.param}_pages")
    return value


def _pages(name: str, server: Server, read: Callable[[], list[Trace]]) -> Pages:
    """Run the assistant once, and wait until the backend shows all of its requests."""
    headers = ",".join(f"{key}={value}" for key, value in server.headers.items())
    environment = {
        **os.environ, "RECEIVER": server.url, "APP": APP, "OTEL_EXPORTER_OTLP_HEADERS": headers,
        "OTEL_EXPORTER_OTLP_TIMEOUT": "120", f"RAGTRACE_{name.upper()}_URL": server.url,
    }  # fmt: skip
    command = [sys.executable, "-m", "tests.backends.assistant"]
    run = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=500, check=False)
    assert run.returncode == 0, run.stderr[-5000:]

    def complete(traces: list[Trace]) -> bool:
        return {trace.question for trace in traces} >= set(QUESTIONS.values())

    by_question = {trace.question: trace for trace in server.wait_for(read, complete)}
    return Pages(name, {name: by_question[question] for name, question in QUESTIONS.items()})
