"""Tests how a file of SQLite gets its write-ahead log while somebody else uses it."""

import os
import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest

from ragtrace.base.private_file import private_opener, switch_to_wal


def _connect(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(path, isolation_level=None, check_same_thread=False)


def test_a_link_of_another_user_is_not_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One's own is: a link in a shared folder could lead to any file of ours."""
    link = tmp_path / "spans.jsonl"
    link.symlink_to(tmp_path / "target")
    with open(link, "w", opener=private_opener) as file:
        file.write("x")
    if os.geteuid() == 0:
        os.lchown(link, 12_345, 12_345)
    else:  # only root can give a link to another user: the process becomes another one
        monkeypatch.setattr(os, "geteuid", lambda: 12_345)
    with pytest.raises(PermissionError, match="not followed"):
        os.close(private_opener(str(link), os.O_WRONLY))


def test_waits_for_a_reader(tmp_path: Path) -> None:
    """A file that somebody reads gets its log when the reader has ended; after the timeout there is SQLite's error."""
    path = tmp_path / "store.db"
    with closing(_connect(path)) as reader, closing(_connect(path)) as connection:
        reader.execute("CREATE TABLE logs (id INTEGER)")
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM logs").fetchall()
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            connection.execute("PRAGMA journal_mode=WAL")
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            switch_to_wal(connection, timeout=0.1)
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("delete",)
        end = threading.Timer(0.2, reader.execute, ("COMMIT",))
        end.start()
        switch_to_wal(connection, timeout=60.0)
        end.join()
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
