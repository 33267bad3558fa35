"""Stores of earlier versions become ones of this version and keep every row; newer ones are left alone."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import select, text, update

from ragtrace.console.chatlogs import engine, schema_upgrade
from ragtrace.console.chatlogs.key_change import rekey
from ragtrace.console.chatlogs.queue_schema import metadata
from ragtrace.console.chatlogs.schema import bucket, contents, scores
from ragtrace.console.chatlogs.search import find
from ragtrace.console.chatlogs.store import Store, open_store
from ragtrace.console.chatlogs.store_types import Filter
from ragtrace.errors import SettingError
from ragtrace.records import Evaluation, Facts
from ragtrace.testing import make_trace

FIRST = Path(__file__).with_name("store_0001.sql")
"""What a store of the first migration had in it."""


def _old(url: str) -> None:
    """A store as the first version left it."""
    address = engine.parse_url(url)
    store = Store(engine.create_store_engine(address), url)
    with store.writing() as connection:
        schema_upgrade.upgrade(connection, url, to="0001")
        for line in FIRST.read_text(encoding="utf-8").splitlines():
            if line.startswith("INSERT"):
                connection.exec_driver_sql(line)
    store.close()


def test_the_newest_is_named() -> None:
    """`migrating.HEAD` is the last one of the migrations, and each has one before it."""
    script = ScriptDirectory.from_config(schema_upgrade._config())
    assert script.get_heads() == [schema_upgrade.HEAD]
    assert [r.revision for r in script.walk_revisions()] == ["0005", "0004", "0003", "0002", "0001"]


def test_the_migrations_make_what_the_code_expects(store: Store) -> None:
    """After all migrations the tables are those of `schema`, with its indexes, and nothing else."""
    own = ("search", "alembic_version")

    def ours(_object: object, name: str | None, kind: str, *_more: object) -> bool:
        return not (kind == "table" and (name or "").startswith(own))

    with store.reading() as connection:
        context = MigrationContext.configure(connection, opts={"include_object": ours})
        found = [d for d in compare_metadata(context, metadata) if "search" not in str(d)]
    assert found == []


def test_an_old_store_is_upgraded_with_its_rows(store_url: str) -> None:
    """A store of the first version opens, with all its rows, and can be searched by words and values as a new one."""
    _old(store_url)
    with pytest.raises(SettingError, match="older version"):
        open_store(store_url, upgrade=False)
    store = open_store(store_url)
    found = store.get(f"{1:032x}")
    assert found is not None
    assert found.trace.query == "How long is the pump covered?"
    assert [(s.name, s.value) for s in found.evaluation.scores] == [("groundedness", 0.25), ("relevance", 1.0)]
    assert found.evaluation.scores[0].explanation == "not in the text"
    assert len(find(store, Filter(text="pump")).rows) == 2
    assert len(find(store, Filter(text="invoice")).rows) == 1
    assert [row.trace_id for row in find(store, Filter(evaluator="groundedness", high=0.5)).rows] == [f"{1:032x}"]
    with store.reading() as connection:
        for value, own in connection.execute(select(scores.c.value, scores.c.bucket)):
            assert own == bucket(value)
    store.close()
    open_store(store_url).close()


@pytest.mark.parametrize("usage", [{"alpha": [3, 4]}, 7])
def test_an_old_trace_keeps_its_facts(tmp_path: Path, usage: object) -> None:
    """A trace that an earlier version stored has facts and metadata in one object: both are read, even if the
    application's metadata has the name of a fact, and a new key still finds the user."""
    path = str(tmp_path / "logs.db")
    store = open_store(path)
    store.write([Evaluation(make_trace(facts=Facts(user_id="ann")), ())])
    old = json.dumps({"app": "shop", "user_id": "ann", "tier": "gold", "usage": usage})
    with store.writing() as connection:
        connection.execute(update(contents).values(attributes=old))
    (row,) = find(store, Filter()).rows
    stored = store.get(row.trace_id)
    store.close()
    assert stored is not None
    assert (stored.trace.facts.app, stored.trace.facts.user_id) == ("shop", "ann")
    assert stored.trace.attributes["tier"] == "gold"
    key = "11" * 32
    rekey(path, key)
    store = open_store(path, key=key)
    assert [each.trace_id for each in find(store, Filter(user_id="ann")).rows] == [row.trace_id]
    store.close()


def test_a_newer_store_is_left_alone(store_url: str) -> None:
    """A store of a version that does not exist yet is refused with what to do, and not changed."""
    store = open_store(store_url)
    with store.writing() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    store.close()
    with pytest.raises(SettingError, match=r"newer version.*at 9999.*Nothing was changed"):
        open_store(store_url)
    with pytest.raises(SettingError, match="newer version"):
        open_store(store_url, upgrade=False)


def test_an_upgrade_that_fails_changes_nothing(store_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stopped half-way an upgrade leaves the old store, which the next attempt upgrades."""
    _old(store_url)
    monkeypatch.setattr("ragtrace.console.chatlogs.full_text.add", lambda *_given: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        open_store(store_url)
    monkeypatch.undo()
    store = open_store(store_url)
    assert len(find(store, Filter(text="pump")).rows) == 2
    store.close()


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
