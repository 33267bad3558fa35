"""The connection to SQLite or PostgreSQL, and what goes wrong with it, in words that carry no content."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url, text
from sqlalchemy.exc import ArgumentError, DatabaseError, DBAPIError, InterfaceError, InternalError, OperationalError

from ragtrace.errors import MissingExtraError, SettingError, StoreError

T = TypeVar("T")
_BUSY = 15.0
"""Seconds that a connection waits for another one's lock."""
_PRAGMAS = (
    "PRAGMA journal_mode=WAL",
    # Every commit is on the disk before it is acknowledged: it survives a power cut, not only a kill.
    "PRAGMA synchronous=FULL",
    "PRAGMA foreign_keys=ON",
    # What is deleted is overwritten.
    "PRAGMA secure_delete=ON",
    "PRAGMA cache_size=-32000",
    "PRAGMA temp_store=MEMORY",
    "PRAGMA journal_size_limit=67108864",
    "PRAGMA wal_autocheckpoint=4000",
)


def parse_url(address: str) -> URL:
    """The address of a store: `sqlite:///file`, `postgresql://user@host/name`, or a file's path.

    Raises SettingError for anything else and MissingExtraError where PostgreSQL's driver is not installed.
    """
    if "://" not in address:
        if not address.strip():
            raise SettingError("the store has no address; give a file, sqlite:///FILE or postgresql://HOST/NAME")
        return URL.create("sqlite", database=address)
    try:
        url = make_url(address)
    except (ArgumentError, ValueError):
        raise SettingError(
            "the store's address cannot be read; give sqlite:///FILE or postgresql://HOST/NAME"
        ) from None
    kind = url.drivername.partition("+")[0]
    if kind == "sqlite":
        if not url.database or url.database == ":memory:":
            raise SettingError("the store is sqlite without a file; give sqlite:///FILE")
        return url.set(drivername="sqlite")
    if kind in ("postgresql", "postgres"):
        try:
            import psycopg  # noqa: F401 is it there?
        except ImportError:
            raise MissingExtraError("psycopg", "postgres", "A store in PostgreSQL") from None
        return url.set(drivername="postgresql+psycopg")
    raise SettingError(f"the store's address begins with {kind}://; give sqlite:///FILE or postgresql://HOST/NAME")


def create_store_engine(url: URL) -> Engine:
    """An engine whose connections are ready for any thread. Opens nothing yet but makes SQLite's folder and file, which
    none but the owner may read."""
    # hide_parameters: an exception must not carry what a user wrote.
    options: dict[str, Any] = {"hide_parameters": True, "pool_size": 16, "max_overflow": 64, "pool_timeout": _BUSY}
    if url.get_backend_name() == "postgresql":
        engine = create_engine(url, pool_pre_ping=True, connect_args={"connect_timeout": 10}, **options)
        return engine
    file = Path(str(url.database))
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        os.close(os.open(file, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))
    except OSError as error:
        raise SettingError(f"the store {file} cannot be opened: {error.strerror}") from error
    engine = create_engine(url, connect_args={"timeout": _BUSY, "check_same_thread": False}, **options)
    event.listen(engine, "connect", _prepare)
    event.listen(engine, "begin", _begin)
    return engine


def _prepare(connection: sqlite3.Connection, _record: object) -> None:
    connection.isolation_level = None  # transactions begin where SQLAlchemy says so, by `_begin`
    for pragma in _PRAGMAS:
        connection.execute(pragma)


def _begin(connection: Any) -> None:
    # A transaction that will write takes the lock at once: one that read first and found the file changed could not
    # go on.
    immediate = connection.get_execution_options().get("immediate")
    connection.exec_driver_sql("BEGIN IMMEDIATE" if immediate else "BEGIN")


_REASONS = (
    (("disk is full", "could not extend file", "no space left"), "the disk is full; make room, nothing was changed"),
    (("database is locked", "database table is locked", "busy"), "another process holds its lock for too long"),
    (("readonly", "read-only"), "it is read-only for this process; check the permissions of the file and its folder"),
    (("not a database", "malformed", "disk i/o error"), "the file is damaged or no store; restore it from a backup"),
    (("unable to open",), "the file cannot be opened; check the path and its permissions"),
    (("authentication failed", "no password"), "PostgreSQL refuses the user or the password"),
    (("does not exist",), "PostgreSQL does not know the database or user; create it first"),
    (("connection", "server closed", "timeout", "terminating"), "PostgreSQL does not answer; it is tried again"),
)


def chunks(values: Sequence[T], size: int = 400) -> Iterator[Sequence[T]]:
    """Splits values into parts that fit into one statement: databases limit the number of its parameters."""
    return (values[i : i + size] for i in range(0, len(values), size))


def lock(connection: Connection, number: int) -> None:
    """Takes one of PostgreSQL's advisory locks until the transaction ends. SQLite has only one writer anyway."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": number})


def store_error(error: BaseException, url: URL) -> StoreError:
    """The error of a driver as one of ours: what is wrong and what to do, without parameters or statements."""
    origin = str(getattr(error, "orig", None) or error).lower()
    reason = next((said for words, said in _REASONS if any(word in origin for word in words)), None)
    return StoreError(
        f"the store {display_name(url)}: {reason or type(getattr(error, 'orig', None) or error).__name__}"
    )


def is_transient(error: DBAPIError) -> bool:
    """Whether the same may succeed later: locked, full, away; not what the values themselves forbid."""
    kinds = (OperationalError, InterfaceError, InternalError)
    # DatabaseError itself: a file that is damaged or none of SQLite's.
    return isinstance(error, kinds) or type(error) is DatabaseError or error.connection_invalidated


def display_name(url: URL) -> str:
    """The address for people, without the password."""
    return str(url.database) if url.get_backend_name() == "sqlite" else url.render_as_string(hide_password=True)
