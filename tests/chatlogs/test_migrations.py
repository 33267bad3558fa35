"""Stores of earlier versions become ones of this version and keep every row; newer ones are left alone."""

import subprocess
import sys
from contextlib import closing

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import text

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
