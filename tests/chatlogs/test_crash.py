"""A kill at any moment loses nothing that was acknowledged, and never harms the file."""

import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import select

from ragtrace.batch.pytest_plugin.reviewed_logs import read_logs
from ragtrace.console.chatlogs.schema import contents, details, scores, traces
from ragtrace.console.chatlogs.search import find
from ragtrace.console.chatlogs.store import Store, open_store
from ragtrace.console.chatlogs.store_types import Filter
from ragtrace.errors import DataError, StoreError
from tests.chatlogs.evaluations import made
from tests.databases import count

KILLS = int(os.environ.get("RAGTRACE_KILLS", "12"))
"""The promise is a hundred: RAGTRACE_KILLS=100."""


def _killed(url: str, kills: int) -> list[int]:
    """Kills writers, each at another moment; the last number that each one had acknowledged."""
    drawn = random.Random(5)
    script = Path(__file__).with_name("crash_writer.py")
    acknowledged = []
    with subprocess.Popen(
        [sys.executable, str(script), url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:
        for i in range(kills):
            print(i * 1_000_000, file=parent.stdin, flush=True)
            child = last = 0
            while not (child and last):  # it may tell of its first batch before its parent tells of it
                word, _, number = parent.stdout.readline().strip().partition(" ")
                child, last = (int(number), last) if word == "child" else (child, int(word))
            time.sleep(drawn.random() * 0.15)
            os.kill(child, signal.SIGKILL)
            os.set_blocking(parent.stdout.fileno(), False)
            time.sleep(0.02)
            try:
                rest = os.read(parent.stdout.fileno(), 65_536).decode()
            except BlockingIOError:
                rest = ""
            os.set_blocking(parent.stdout.fileno(), True)
            acknowledged.append(max([last, *map(int, rest.split())]))
        parent.stdin.close()
    return acknowledged


def _numbers(store: Store) -> set[int]:
    return {int(own, 16) for (own,) in store.rows(select(traces.c.trace_id))}


def test_no_acknowledged_row_is_lost(store_url: str) -> None:
    """Killed while it stores, again and again: what was acknowledged is there; a batch is there whole or not at all."""
    acknowledged = _killed(store_url, KILLS)
    with closing(open_store(store_url)) as store:
        there = _numbers(store)
        for i, last in enumerate(acknowledged):
            first = i * 1_000_000
            assert set(range(first + 1, last + 1)) <= there
            assert len([n for n in there if first < n <= first + 999_999]) % 20 == 0
        assert [count(store, t) for t in (contents, scores, details)] == [len(there), 2 * len(there), len(there)]
        with store.reading() as connection:
            if store.sqlite:
                assert connection.exec_driver_sql("PRAGMA integrity_check").scalar() == "ok"
                assert connection.exec_driver_sql("PRAGMA foreign_key_check").fetchall() == []
                connection.exec_driver_sql("INSERT INTO search (search) VALUES ('integrity-check')")
        assert len(find(store, Filter(text=f'"question {acknowledged[0]}"')).rows) == 1
        assert store.write([made(0, trace_id=2**100)]) == 1


_READER = """
import sys
from ragtrace.console.chatlogs.store import open_store
store = open_store(sys.argv[1])
print([number for number in range(1, 4) if store.get(f"{number:032x}")])
store.close()
"""


def test_a_store_that_one_process_opens_twice_loses_nothing(tmp_path: Path) -> None:
    """Each process sees all that was written, whoever opens and closes the file meanwhile; the file stays whole."""
    url = str(tmp_path / "logs.db")

    def numbers_elsewhere() -> str:
        command = [sys.executable, "-c", _READER, url]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    with closing(open_store(url)) as first:
        first.write([made(0, trace_id=1)])
        second = open_store(url)
        with pytest.raises(DataError, match="has no reviewed logs"):
            read_logs(url)
        assert second.get(f"{1:032x}") is not None
        assert numbers_elsewhere() == "[1]"
        first.write([made(0, trace_id=2)])
        assert numbers_elsewhere() == "[1, 2]"
        second.write([made(0, trace_id=3)])
    assert numbers_elsewhere() == "[1, 2, 3]"
    with second.reading() as connection:
        assert connection.exec_driver_sql("PRAGMA integrity_check").scalar() == "ok"
    second.close()


def test_a_file_that_somebody_else_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While another connection holds the lock, a read succeeds, and a write raises an error that says so."""
    monkeypatch.setattr("ragtrace.console.chatlogs.engine._BUSY", 0.2)
    url = str(tmp_path / "s.db")
    with closing(open_store(url)) as store:
        store.write([made(1)])
        with closing(sqlite3.connect(url, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            assert len(find(store, Filter()).rows) == 1
            with pytest.raises(StoreError, match="another process holds its lock"):
                store.write([made(2)])
        assert store.write([made(2)]) == 1
