"""Stores of earlier versions become ones of this version and keep every row; newer ones are left alone."""

import os
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import text

from ragtrace.base.private_file import private_opener, switch_to_wal
from ragtrace.console.chatlogs.queue_schema import metadata
from ragtrace.console.chatlogs.search import find
from ragtrace.console.chatlogs.store import open_store
from ragtrace.console.chatlogs.store_types import Filter
from ragtrace.errors import SettingError
from ragtrace.records import Evaluation
from ragtrace.testing import make_trace


def test_the_migrations_make_what_the_code_expects(store_url: str) -> None:
    """A store of the first release keeps its traces, and gets the tables of `schema`, with its indexes, no others."""
    with closing(open_store(store_url)) as store:
        store.write([Evaluation(make_trace(), ())])
        added = (f"ALTER TABLE traces DROP {column}" for column in ("cost", "tenant", "searched"))
        for change in ("DROP INDEX ix_traces_tenant_id", *added, "UPDATE alembic_version SET version_num = '0005'"):
            store.execute(text(change))
    with closing(open_store(store_url)) as store:
        assert len(find(store, Filter()).rows) == 1

        def ours(_object: object, name: str | None, kind: str, *_more: object) -> bool:
            return not (kind == "table" and (name or "").startswith(("search", "alembic_version")))

        with store.reading() as connection:
            context = MigrationContext.configure(connection, opts={"include_object": ours})
            found = [d for d in compare_metadata(context, metadata) if "search" not in str(d)]
    assert found == []


@pytest.mark.parametrize(("version", "why"), [("9999", "newer version.*at 9999"), ("0004", "before 0.2.0")])
def test_a_store_of_an_unknown_version_is_left_alone(store_url: str, version: str, why: str) -> None:
    """A store of a version that does not exist yet, or was never released, is refused with what to do."""
    with closing(open_store(store_url)) as store:
        store.execute(text(f"UPDATE alembic_version SET version_num = '{version}'"))
    for is_upgraded in (True, False):
        with pytest.raises(SettingError, match=f"{why}.*Nothing was changed"):
            open_store(store_url, upgrade=is_upgraded)


def test_an_upgrade_that_fails_changes_nothing(store_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stopped half-way the making of the tables leaves an empty database, where the next attempt makes them."""
    monkeypatch.setattr("ragtrace.console.chatlogs.full_text.create", lambda *_given: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        open_store(store_url)
    monkeypatch.undo()
    with closing(open_store(store_url)) as store:
        assert not find(store, Filter(text="pump")).rows


@pytest.mark.process
def test_processes_that_open_at_once(store_url: str) -> None:
    """Several processes that open a new store at the same time make its tables once, and all of them can use it."""
    program = (
        "import os, sys\nfrom ragtrace.console.chatlogs.store import open_store\nstart, signal = os.pipe()\npids = []\n"
        "for _ in range(3):\n    pids.append(os.fork())\n    if not pids[-1]:\n        os.close(signal)\n"
        "        os.read(start, 1)\n        open_store(sys.argv[1]).close()\n        sys.exit()\n"
        "os.close(signal)\n"  # the end of the pipe starts all of them at once
        "sys.exit(any([os.waitpid(pid, 0)[1] for pid in pids]))"
    )
    result = subprocess.run([sys.executable, "-c", program, store_url], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    open_store(store_url).close()


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
