"""Connects to SQLite or PostgreSQL, and translates their errors into messages without content."""

import difflib
import errno
import json
import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import URL, ColumnElement, Connection, Engine, any_, bindparam, create_engine, event, make_url, text
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.exc import ArgumentError, DatabaseError, DBAPIError, InterfaceError, InternalError, OperationalError

from ragtrace.base.private_file import create_private, switch_to_wal
from ragtrace.errors import MissingExtraError, SettingError, StoreError

T = TypeVar("T")
_BUSY = 15.0
"""Seconds that a connection waits for a lock."""
_SINK_BUSY = 1.0
"""The same in the traced application, where evaluations are in memory while it waits."""
_PRAGMAS = (
    # A commit is on the disk before it is acknowledged, so it survives a power failure.
    "PRAGMA synchronous=FULL",
    "PRAGMA foreign_keys=ON",
    # Deleted content is overwritten.
    "PRAGMA secure_delete=ON",
    "PRAGMA temp_store=MEMORY",
    "PRAGMA journal_size_limit=67108864",
    "PRAGMA wal_autocheckpoint=4000",
)
_CACHE = 32_000
"""KiB of SQLite's pages that a connection of a reader keeps in memory."""
_SINK_CACHE = 8_000
"""The same in the traced application, which only writes: the CPU time is the same, and so is what is written."""


def parse_url(address: str) -> URL:
    """Parses the address of a store: `sqlite:///file`, `postgresql://user@host/name`, or the path of a file.

    Raises SettingError for anything else, and MissingExtraError if PostgreSQL's driver is not installed."""
    if "://" not in address:
        if not address.strip():
            raise SettingError(
                "the address of the store is empty; give a file, sqlite:///FILE or postgresql://HOST/NAME"
            )
        return URL.create("sqlite", database=address)
    try:
        url = make_url(address)
    except (ArgumentError, ValueError):
        raise SettingError(
            "the address of the store is invalid; give sqlite:///FILE or postgresql://HOST/NAME"
        ) from None
    kind = url.drivername.partition("+")[0]
    if kind == "sqlite":
        if not url.database or url.database == ":memory:":
            raise SettingError("the address of the store is sqlite without a file; give sqlite:///FILE")
        return url.set(drivername="sqlite")
    if kind in ("postgresql", "postgres"):
        try:
            import psycopg  # noqa: F401 only checks that it is installed
        except ImportError:
            raise MissingExtraError("psycopg", "store", "A store in PostgreSQL") from None
        return url.set(drivername="postgresql+psycopg")
    raise SettingError(f"the address of the store begins with {kind}://; give sqlite:///FILE or postgresql://HOST/NAME")


def missing_file(url: URL) -> Path | None:
    """The file of SQLite that the store is, if it does not exist."""
    file = Path(str(url.database))
    return None if url.get_backend_name() != "sqlite" or file.exists() else file


def require_file(url: URL) -> None:
    """Raises SettingError if the store is a file of SQLite that does not exist; it names files beside it with a similar
    name."""
    file = missing_file(url)
    if file is None:
        return
    siblings = [path.name for path in file.parent.glob(f"*{file.suffix}")] if file.parent.is_dir() else []
    similar = [str(file.parent / name) for name in difflib.get_close_matches(file.name, siblings, n=3, cutoff=0.0)]
    hint = f"did you mean {' or '.join(similar)}?" if similar else "check the name."
    raise SettingError(
        f"the store {file} does not exist; {hint} An application creates its store with its first request, and "
        "`ragtrace serve --create` creates an empty one"
    )


def create_store_engine(url: URL, *, is_sink: bool = False) -> Engine:
    """Creates an engine for any number of threads. Does not connect yet, but creates SQLite's file, which only the
    owner may read. With `is_sink` it takes less memory and waits less for a lock, as a traced application needs it."""
    busy, cache = (_SINK_BUSY, _SINK_CACHE) if is_sink else (_BUSY, _CACHE)
    # hide_parameters: an exception must not contain what a user wrote.
    options: dict[str, Any] = {"hide_parameters": True, "pool_size": 16, "max_overflow": 64, "pool_timeout": busy}
    if url.get_backend_name() == "postgresql":
        return create_engine(url, pool_pre_ping=True, connect_args={"connect_timeout": max(2, int(busy))}, **options)
    file = Path(str(url.database))
    try:
        create_private(file)
    except OSError as error:
        raise SettingError(f"the store {file} cannot be opened: {error.strerror}; its folder must be there") from error
    if file.is_dir() or not os.access(file, os.R_OK | os.W_OK):
        reason = errno.EISDIR if file.is_dir() else errno.EACCES
        raise SettingError(f"the store {file} cannot be opened: {os.strerror(reason)}")
    engine = create_engine(url, connect_args={"timeout": busy, "check_same_thread": False}, **options)
    event.listen(engine, "connect", partial(_prepare, cache))
    event.listen(engine, "begin", _begin)
    return engine


def _prepare(cache: int, connection: sqlite3.Connection, _record: object) -> None:
    connection.isolation_level = None  # SQLAlchemy begins transactions, by `_begin`
    switch_to_wal(connection, _BUSY)
    for pragma in (*_PRAGMAS, f"PRAGMA cache_size=-{cache}"):
        connection.execute(pragma)


def _begin(connection: Any) -> None:
    # A writing transaction takes the lock at once: if it read first and another process wrote meanwhile, it would fail.
    immediate = connection.get_execution_options().get("immediate")
    connection.exec_driver_sql("BEGIN IMMEDIATE" if immediate else "BEGIN")


_REASONS = (
    (("disk is full", "could not extend file", "no space left"), "the disk is full; make room, nothing was changed"),
    (
        ("database is locked", "database table is locked", "busy"),
        "another process holds its lock for too long; try again",
    ),
    (("readonly", "read-only"), "it is read-only for this process; check the permissions of the file and its folder"),
    (("not a database", "malformed"), "the file is damaged or not a store; restore it from a backup"),
    (("disk i/o error",), "its disk cannot be read or written; check that the disk has room and works"),
    (("unable to open",), "the file cannot be opened; check the path and its permissions"),
    (("authentication failed", "no password"), "PostgreSQL refuses the user or the password; check the address"),
    (("does not exist",), "PostgreSQL does not know the database or user; create it first"),
    (
        ("connection", "server closed", "timeout", "terminating"),
        "PostgreSQL does not answer; check that it is running and reachable",
    ),
)


def chunks(values: Sequence[T], size: int = 400) -> Iterator[Sequence[T]]:
    """Splits values into parts that fit into one statement: databases limit the number of its parameters."""
    return (values[i : i + size] for i in range(0, len(values), size))


def among(connection: Connection, column: ColumnElement[T], values: Iterable[T]) -> ColumnElement[bool]:
    """The condition that a column is one of any number of values, which are passed as one parameter."""
    if connection.dialect.name == "sqlite":
        return column.in_(text("SELECT value FROM json_each(:among)").bindparams(among=json.dumps(list(values))))
    return column == any_(bindparam("among", list(values), ARRAY(column.type)))


def lock(connection: Connection, number: int) -> None:
    """Takes one of PostgreSQL's advisory locks until the transaction ends. SQLite has only one writer anyway."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": number})


def store_error(error: BaseException, url: URL) -> StoreError:
    """Translates a driver's error: what is wrong and what to do, without parameters or statements."""
    origin = str(getattr(error, "orig", None) or error).lower()
    reason = next((message for words, message in _REASONS if any(word in origin for word in words)), None)
    return StoreError(
        f"the store {display_name(url)}: {reason or type(getattr(error, 'orig', None) or error).__name__}"
    )


def is_transient(error: DBAPIError) -> bool:
    """Whether the same statement may succeed later (locked, full, unreachable); False if its values are invalid."""
    if getattr(error.orig, "sqlstate", "") == "54000":  # a value is too large for PostgreSQL
        return False
    kinds = (OperationalError, InterfaceError, InternalError)
    # DatabaseError itself: the file is damaged, or not a file of SQLite.
    return isinstance(error, kinds) or type(error) is DatabaseError or error.connection_invalidated


def display_name(url: URL) -> str:
    """The address without the password."""
    return str(url.database) if url.get_backend_name() == "sqlite" else url.set(query={}).render_as_string()
