"""Servers that run for the session, and what they show of the assistant's traces."""

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.backends import mlflow, phoenix
from tests.backends.conversation import QUESTIONS
from tests.backends.servers import MLFLOW, PHOENIX, Server, running
from tests.backends.shown import Span, Trace
from tests.prepare import SERVERS
from tests.worker.running import wait_for

BACKENDS = {"phoenix": PHOENIX, "mlflow": MLFLOW}
ROOT = Path(__file__).resolve().parents[2]
APP = "backends"
"""The application's name: Phoenix makes a project of it."""


@dataclass(frozen=True)
class Pages:
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


@pytest.fixture(scope="session", params=BACKENDS)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="session")
def server(name: str) -> Iterator[Server]:
    backend = BACKENDS[name]
    program = backend.program
    if program is None:
        pytest.skip(
            f"{backend.name} is not installed: `CI=true python tests/prepare.py` makes an environment with it ("
            f"{SERVERS.name}, 1.3 GB), or {backend.variable} names its program"
        )
    with running(backend, program) as server:
        yield server


@pytest.fixture(scope="session")
def pages(name: str, server: Server) -> Pages:
    """What it shows of the assistant's requests: the assistant runs once, and all of its requests arrive."""
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

    traces = wait_for(lambda: phoenix.traces(server, APP) if name == "phoenix" else mlflow.traces(server), complete)
    by_question = {trace.question: trace for trace in traces}
    return Pages(name, {name: by_question[question] for name, question in QUESTIONS.items()})
