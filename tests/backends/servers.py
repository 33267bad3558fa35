"""Starts real Phoenix and MLflow servers on the loopback interface.

Their programs are in the environment that `tests/prepare.py` makes in CI; an environment variable (`Backend.variable`)
names another one, as `make compat` does. Without either the tests that ask for the server are skipped."""

import json
import os
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.ports import free_port
from tests.prepare import SERVERS
from tests.row_files import table

START = 180.0
"""Seconds within which a server is up, on the slowest machine: the first start creates its tables."""
ARRIVAL = 60.0
"""Seconds within which a server shows what it accepted."""


@dataclass(frozen=True)
class Backend:
    name: str
    """Of its program."""
    variable: str
    """Environment variable with the path of its program."""
    arguments: list[str]
    """In which {port}, {other_port} and {folder} stand for two free ports and an empty folder."""
    environment: dict[str, str]
    """In the same form."""
    health: str
    """Path that answers once the server is up."""
    headers: dict[str, str] = field(default_factory=dict)
    """Headers that its OTLP endpoint requires."""

    @property
    def program(self) -> Path | None:
        """The path of its program; None where it is not installed."""
        path = Path(os.environ.get(self.variable) or SERVERS / "bin" / self.name)
        return path if path.exists() else None


PHOENIX, MLFLOW = (Backend(**each) for each in table(__file__, "servers"))


@dataclass(frozen=True)
class Server:
    url: str
    headers: dict[str, str]
    """Headers that its OTLP endpoint requires."""
    restart: Callable[[], None] = lambda: None
    """End it and start it again, with its database and its address."""

    def get(self, path: str) -> Any:
        return self._ask(urllib.request.Request(self.url + path))

    def post(self, path: str, body: Any) -> Any:
        headers = {"Content-Type": "application/json"}
        return self._ask(urllib.request.Request(self.url + path, json.dumps(body).encode(), headers))

    @staticmethod
    def _ask(request: urllib.request.Request) -> Any:
        try:
            with urllib.request.urlopen(request, timeout=ARRIVAL) as response:
                return json.loads(response.read() or b"null")
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{request.full_url} answered {error.code}: {error.read()[:2000]!r}") from error


@contextmanager
def running(backend: Backend, program: Path) -> Iterator[Server]:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        port = free_port()
        values = {"port": str(port), "other_port": str(free_port()), "folder": folder}
        variables = {name: value.format(**values) for name, value in backend.environment.items()}
        # Python's own variables belong to the environment of the tests, and OpenTelemetry's to the application.
        inherited = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "OTEL_", "VIRTUAL_ENV"))}
        inherited["PATH"] = os.pathsep.join((str(program.parent), inherited["PATH"]))
        log, url = Path(folder, "server.log"), f"http://127.0.0.1:{port}"
        processes: list[subprocess.Popen[bytes]] = []

        def start() -> None:
            for process in processes:
                _end(process)
            with log.open("ab") as output:
                process = subprocess.Popen(
                    [program, *(argument.format(**values) for argument in backend.arguments)], cwd=folder,
                    env={**inherited, **variables}, stdout=output, stderr=output, start_new_session=True,
                )  # fmt: skip
            processes.append(process)
            _wait_until_up(url + backend.health, process, log)

        try:
            start()
            yield Server(url, backend.headers, start)
        finally:
            _end(processes[-1])


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(30)
    finally:
        process.kill()


def _wait_until_up(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START
    while True:
        with suppress(OSError), urllib.request.urlopen(url, timeout=60):
            return
        assert process.poll() is None, log.read_text()[-5000:]
        assert time.monotonic() < deadline, log.read_text()[-5000:]
        time.sleep(0.5)
