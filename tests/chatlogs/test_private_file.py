"""Tests how a file of SQLite gets its write-ahead log while somebody else uses it."""

from __future__ import annotations

import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest

from ragtrace.base.private_file import switch_to_wal


def _connect(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(path, isolation_level=None, check_same_thread=False)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A database that has one table and no write-ahead log."""
    path = tmp_path / "store.db"
    with closing(_connect(path)) as connection:
        connection.execute("CREATE TABLE logs (id INTEGER)")
    return path


def test_waits_for_a_reader(path: Path) -> None:
    """A file that somebody reads gets its log when the reader has ended: SQLite itself refuses at once."""
    with closing(_connect(path)) as reader, closing(_connect(path)) as connection:
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM logs").fetchall()
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            connection.execute("PRAGMA journal_mode=WAL")
        end = threading.Timer(0.2, reader.execute, ("COMMIT",))
        end.start()
        switch_to_wal(connection, timeout=60.0)
        end.join()
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_gives_up(path: Path) -> None:
    """After the timeout the error is SQLite's own, and the file stays as it was."""
    with closing(_connect(path)) as reader, closing(_connect(path)) as connection:
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM logs").fetchall()
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            switch_to_wal(connection, timeout=0.1)
        reader.execute("COMMIT")
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("delete",)
