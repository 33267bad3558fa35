"""Stores for tests: a file of SQLite, and a database of a real PostgreSQL server that runs for the session."""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from ragtrace.chatlogs.store import Store

_NUMBERS = itertools.count()


@dataclass(frozen=True, slots=True)
class Server:
    """A PostgreSQL server that listens on a socket in a folder of its own."""

    folder: Path
    programs: Path

    def run(self, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run one of PostgreSQL's programs, as the user who may."""
        command: Sequence[str] = (str(self.programs / program), *arguments)
        if os.geteuid() == 0:  # PostgreSQL refuses to run as root
            command = ("runuser", "-u", "postgres", "--", *command)
        # The server keeps its standard output: a pipe would never end.
        with (self.folder / "output").open("a+") as output:
            return subprocess.run(
                command, check=True, stdout=output, stderr=output, text=True, cwd=self.folder, timeout=60
            )

    def start(self) -> None:
        """Let it run."""
        options = f"-c listen_addresses='' -c unix_socket_directories={self.folder} -c fsync=off -c max_connections=200"
        self.run(
            "pg_ctl", "-D", str(self.folder / "data"), "-l", str(self.folder / "log"), "-o", options, "-w", "start"
        )

    def stop(self) -> None:
        """Let it be away."""
        self.run("pg_ctl", "-D", str(self.folder / "data"), "-m", "immediate", "-w", "stop")

    def database(self) -> str:
        """The address of a new, empty database."""
        name = f"t{next(_NUMBERS)}"
        self.run("createdb", "-h", str(self.folder), "-U", "postgres", name)
        return f"postgresql://postgres@/{name}?host={self.folder}"


def _programs() -> Path | None:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[4]))
    path = str(found[-1]) if found else shutil.which("initdb")
    return Path(path).resolve().parent if path else None


@pytest.fixture(scope="session")
def postgresql() -> Iterator[Server]:
    """A server of its own, from the installed package."""
    programs = _programs()
    if programs is None:
        if os.environ.get("CI"):
            pytest.fail("PostgreSQL is not installed")
        pytest.skip("PostgreSQL is not installed")
    folder = Path(tempfile.mkdtemp(prefix="ragtrace-pg-"))
    server = Server(folder, programs)
    if os.geteuid() == 0:
        shutil.chown(folder, "postgres")
    try:
        server.run("initdb", "-D", str(folder / "data"), "-A", "trust", "-U", "postgres", "-N", "-E", "UTF8")
        server.start()
        yield server
        server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(params=["sqlite", "postgresql"])
def store_url(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The address of a store that does not exist yet, of each kind of database."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    if request.param == "sqlite":
        return str(tmp_path / "store.db")
    server: Server = request.getfixturevalue("postgresql")
    return server.database()


@pytest.fixture
def store(store_url: str) -> Iterator[Store]:
    """An empty store."""
    from ragtrace.chatlogs.store import open_store

    opened = open_store(store_url)
    yield opened
    opened.close()
