"""Stores for tests: files of SQLite, and three databases of one PostgreSQL server that runs for the session.

Migrations run once for each kind of database: `store` copies a migrated file or empties the tables of a migrated
database. `store_url` without `store` is the address of a database that has no tables. `shared_store` is one store for
all tests of a module that only read it."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, LiteralString

import pytest

if TYPE_CHECKING:
    from sqlalchemy import FromClause

    from ragtrace.console.chatlogs.store import Store

_OPTIONS = (
    "-c listen_addresses='' -c max_connections=200 -c shared_buffers=32MB "
    # What is written need not survive a power cut.
    "-c fsync=off -c full_page_writes=off -c autovacuum=off"
)
_EMPTY_TABLES = """
DO $$
DECLARE
  filled text;
  counter record;
BEGIN
  SELECT string_agg(quote_ident(relname), ', ') INTO filled FROM pg_class
   WHERE relnamespace = 'public'::regnamespace AND relkind = 'r' AND relname <> 'alembic_version'
     AND pg_relation_size(oid) > 0;
  IF filled IS NOT NULL THEN EXECUTE 'TRUNCATE ' || filled || ' CASCADE'; END IF;
  FOR counter IN SELECT sequencename FROM pg_sequences WHERE schemaname = 'public' AND last_value IS NOT NULL LOOP
    EXECUTE format('ALTER SEQUENCE %I RESTART', counter.sequencename);
  END LOOP;
END $$
"""
"""Only tables with rows are truncated: each truncation makes new files for the table and its indexes."""
_END_OTHERS = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() "
    "AND pid <> pg_backend_pid()"
)
Database = Literal["without_tables", "migrated", "shared"]
KINDS = ("sqlite", "postgresql")


@dataclass(frozen=True, slots=True)
class Server:
    """A PostgreSQL server that listens on a socket in a folder of its own."""

    folder: Path
    programs: Path

    def run(self, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run one of PostgreSQL's programs as a user that it accepts."""
        command: Sequence[str] = (str(self.programs / program), *arguments)
        if os.geteuid() == 0:  # PostgreSQL refuses to run as root
            command = ("runuser", "-u", "postgres", "--", *command)
        # The server keeps its standard output: a pipe would never end.
        with (self.folder / "output").open("a+") as output:
            return subprocess.run(
                command, check=True, stdout=output, stderr=output, text=True, cwd=self.folder, timeout=60
            )

    def create(self) -> None:
        """Create the server's data with its databases, and start it."""
        self.run("initdb", "-D", str(self.folder / "data"), "-A", "trust", "-U", "postgres", "-N", "-E", "UTF8")
        self.start()
        self._execute("postgres", "CREATE DATABASE without_tables", "CREATE DATABASE migrated")
        from ragtrace.console.chatlogs.store import open_store

        open_store(self._url("migrated")).close()
        self._execute("postgres", "CREATE DATABASE shared TEMPLATE migrated")

    def start(self) -> None:
        options = f"{_OPTIONS} -c unix_socket_directories={self.folder}"
        self.run(
            "pg_ctl", "-D", str(self.folder / "data"), "-l", str(self.folder / "log"), "-o", options, "-w", "start"
        )

    def stop(self) -> None:
        """Stop the server as a crash would."""
        self.run("pg_ctl", "-D", str(self.folder / "data"), "-m", "immediate", "-w", "stop")

    def database(self, name: Database = "without_tables") -> str:
        """The address of a database without rows; only `without_tables` has no tables either.

        What an earlier test left in it is deleted, and the connections to it are ended."""
        statements = ("DROP SCHEMA public CASCADE", "CREATE SCHEMA public")
        self._execute(name, _END_OTHERS, *(statements if name == "without_tables" else (_EMPTY_TABLES,)))
        return self._url(name)

    def _url(self, name: str) -> str:
        return f"postgresql://postgres@/{name}?host={self.folder}"

    def _execute(self, name: str, *statements: LiteralString) -> None:
        import psycopg

        with psycopg.connect(host=str(self.folder), user="postgres", dbname=name, autocommit=True) as connection:
            for statement in statements:
                connection.execute(statement)


def _programs() -> Path | None:
    versions = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[4]))
    path = str(versions[-1]) if versions else shutil.which("initdb")
    return Path(path).resolve().parent if path else None


@pytest.fixture(scope="session")
def postgresql() -> Iterator[Server]:
    """A server of its own, from the installed package."""
    programs = _programs()
    if programs is None:
        if os.environ.get("CI"):
            pytest.fail("PostgreSQL is not installed")
        pytest.skip("PostgreSQL is not installed")
    pytest.importorskip("psycopg", reason="psycopg is not installed: pip install 'ragtrace-otel[store]'")
    folder = Path(tempfile.mkdtemp(prefix="ragtrace-pg-"))
    server = Server(folder, programs)
    if os.geteuid() == 0:
        shutil.chown(folder, "postgres")
    try:
        server.create()
        yield server
        server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def migrated_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of SQLite with the store's tables and no rows, for copies."""
    from ragtrace.console.chatlogs.store import open_store

    path = tmp_path_factory.mktemp("template") / "store.db"
    open_store(str(path)).close()
    return path


@pytest.fixture(params=KINDS)
def store_url(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The address of a store of each kind of database: an empty one with `store`, else one that does not exist yet."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return _address(request, tmp_path / "store.db", "migrated" if "store" in request.fixturenames else "without_tables")


@pytest.fixture
def store(store_url: str) -> Iterator[Store]:
    yield from _opened(store_url)


@pytest.fixture(scope="module", params=KINDS)
def shared_store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """A store that is empty at the beginning of the module; the module's tests share it and do not write to it."""
    yield from _opened(_address(request, tmp_path_factory.mktemp("shared") / "store.db", "shared"))


def count(store: Store, table: FromClause) -> int:
    from sqlalchemy import func, select

    with store.reading() as connection:
        return int(connection.scalar(select(func.count()).select_from(table)) or 0)


def _address(request: pytest.FixtureRequest, path: Path, name: Database) -> str:
    if request.param == "postgresql":
        server: Server = request.getfixturevalue("postgresql")
        return server.database(name)
    if name != "without_tables":
        shutil.copy(request.getfixturevalue("migrated_file"), path)
    return str(path)


def _opened(address: str) -> Iterator[Store]:
    from ragtrace.console.chatlogs.store import open_store

    store = open_store(address)
    yield store
    store.close()
