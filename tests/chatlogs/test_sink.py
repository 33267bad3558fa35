"""The sink: the pipeline never waits for it, and what it took is kept, whatever the database does."""

import os
import sqlite3
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from functools import reduce
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event, make_url
from sqlalchemy.pool import QueuePool

import ragtrace
from ragtrace.base.background import Bounds
from ragtrace.console.chatlogs import sink as sinks
from ragtrace.console.chatlogs.encryption import Keys
from ragtrace.console.chatlogs.engine import create_store_engine, display_name, parse_url
from ragtrace.console.chatlogs.evaluation_json import dumps, from_json
from ragtrace.console.chatlogs.schema import traces
from ragtrace.console.chatlogs.schema_upgrade import HEAD
from ragtrace.console.chatlogs.search import find
from ragtrace.console.chatlogs.sink import StoreSink
from ragtrace.console.chatlogs.spill import Spill
from ragtrace.console.chatlogs.store import Store, open_store
from ragtrace.console.chatlogs.store_types import Filter
from ragtrace.errors import SettingError, StoreError
from ragtrace.evaluation import evaluator
from ragtrace.records import Document, Evaluation, Facts, Score
from ragtrace.testing import make_trace
from tests.chatlogs.evaluations import made, rich
from tests.databases import count
from tests.hostile import ClosedMapping
from tests.waiting import in_fork, until

KEY = "22" * 32


def _stored(url: str, key: str | None = None) -> int:
    with closing(open_store(url, key=key)) as store:
        return count(store, traces)


def _hanging(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """The database does not answer before this event."""
    go, write = threading.Event(), Store.write
    monkeypatch.setattr(Store, "write", lambda *given: go.wait() and write(*given))
    return go


def _stored_by_the_next(url: str, evaluation: Evaluation) -> None:
    """Another sink stores this evaluation and what waits in the file."""
    sink = StoreSink(url)
    sink(evaluation)
    until(lambda: sink.spill_bytes == 0 and sink.waiting == 0)
    sink.close()


@contextmanager
def _full(store: Store) -> Iterator[None]:
    """The disk that the store lies on is full."""

    def refuse(connection: Any) -> None:
        pages = connection.exec_driver_sql("PRAGMA page_count").scalar()
        connection.exec_driver_sql(f"PRAGMA max_page_count = {pages}")

    def allow(connection: Any) -> None:
        connection.exec_driver_sql("PRAGMA max_page_count = 1000000")

    event.listen(store.engine, "begin", refuse)
    try:
        yield
    finally:
        event.remove(store.engine, "begin", refuse)
        event.listen(store.engine, "begin", allow)


@pytest.mark.parametrize(
    "value",
    [threading.Lock(), ClosedMapping(a=1), reduce(lambda inner, _: [inner], range(100_000)), 10**5_000],
    ids=["lock", "mapping", "nested", "number"],
)
def test_metadata_that_cannot_be_written_costs_no_evaluation(tmp_path: Path, value: object) -> None:
    """It is named by its type or left out, in the store and in the file of a store that is away; nothing is lost."""
    sink = StoreSink(f"sqlite:///{tmp_path}/chats.db")
    odd = made(1, attributes={"handle": value, "plan": "b"})
    for evaluation in (made(0), odd, made(2)):
        sink(evaluation)
    sink.close()
    assert (sink.written, sink.lost) == (3, 0)
    trace = from_json(dumps(odd)).trace
    assert (trace.query, trace.attributes["plan"]) == ("question 1", "b")


def test_what_is_taken_is_stored(store_url: str) -> None:
    """Evaluations are stored in batches, with application and environment where they do not say theirs."""
    sink = StoreSink(store_url, app="help", env="prod")
    for n in range(300):
        sink(made(n, Score("e", 0.5), facts=Facts() if n else Facts(app="own")))
    sink(made(999, status="dropped"))
    assert sink.flush(60)
    assert (sink.written, sink.spilled, sink.lost, sink.waiting) == (300, 0, 0, 0)
    assert sink.close()
    with closing(open_store(store_url)) as store:
        assert store.get(f"{1:032x}").trace.facts.app == "own"
        assert store.get(f"{2:032x}").trace.facts == Facts(app="help", env="prod")


def test_a_pipeline_fills_the_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the setting `store` each sampled request is there after a flush, with its texts, scores and threshold."""
    monkeypatch.setenv("THE_KEY", KEY)

    @evaluator(needs={"answer"}, threshold=0.5)
    def long_enough(trace: Any) -> float:
        """Whether it says anything."""
        return float(len(trace.answer) > 3)

    path = tmp_path / "chat.db"
    options: dict[str, Any] = {"app": "help", "store": str(path), "store_key": "THE_KEY", "sample_per_second": 0}
    with closing(ragtrace.init(evaluators=[long_enough], env="test", workers=0, frameworks=(), **options)) as runtime:
        assert runtime.pipeline.submit(make_trace(query="secretly", facts=Facts(user_id="u1")))
        assert runtime.flush(60)
        assert runtime.store.written == 1
    with closing(open_store(str(path), key=KEY)) as store:
        (row,) = find(store, Filter()).rows
        found = store.get(row.trace_id)
        assert (found.trace.query, found.trace.facts.app) == ("secretly", "help")
        assert [(s.name, s.label) for s in found.evaluation.scores] == [("long_enough", "pass")]


@pytest.mark.parametrize(("setting", "value", "message"), [("store", "mysql://h/d", "begins with mysql"),
                         ("store_key", "nowhere", "names neither"), ("store_days", -1, "store_days")])  # fmt: skip
def test_wrong_settings_are_told_at_the_start(tmp_path: Path, setting: str, value: Any, message: str) -> None:
    """What waiting does not mend is an error of `init`."""
    with pytest.raises(SettingError, match=message):
        ragtrace.init(**{"store": str(tmp_path / "s.db"), "frameworks": (), setting: value})


def test_the_queue_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """More than may wait is counted as lost, at once, while the database hangs: the caller never waits for it."""
    sink = StoreSink(str(tmp_path / "s.db"), bounds=Bounds(items=50, batch=10))
    go = _hanging(monkeypatch)
    for n in range(500):
        sink(made(n))
    assert sink.waiting <= 60
    assert sink.lost + sink.waiting == 500
    assert not sink.flush(0.05)
    go.set()
    assert sink.flush(60)
    assert sink.written + sink.lost == 500
    sink.close()


@pytest.mark.parametrize("key", [None, KEY])
def test_a_full_disk(tmp_path: Path, key: str | None) -> None:
    """What the database does not take waits in a file, sealed as the store is, and is stored when there is room."""
    url = str(tmp_path / "s.db")
    sink = StoreSink(url, key=key, bounds=Bounds(batch=20, wait=0.01))
    sink(made(1))
    assert sink.flush(60)
    with _full(sink._store):
        for n in range(2, 80):
            sink(made(n, answer="readable" * 500))
        assert sink.flush(60)
        assert sink.spilled > sink.lost == 0
        spill = tmp_path / "s.db.spill"
        assert (b"readable" in spill.read_bytes()) is (key is None)
        assert spill.stat().st_mode & 0o077 == 0
    sink._next_try = 0.0
    sink(made(80))
    until(lambda: sink.spill_bytes == 0)
    sink.close()
    assert _stored(url, key) == 80


def test_no_room_anywhere(tmp_path: Path) -> None:
    """Where the file is full, too, what cannot be kept is counted, and nothing is raised."""
    sink = StoreSink(str(tmp_path / "s.db"), bounds=Bounds(batch=20, wait=0.01), spill_size=10_000)
    with _full(sink._store):
        for n in range(100):
            sink(made(n, answer="a" * 1_000))
        assert sink.flush(60)
        with pytest.raises(StoreError, match="the disk is full; make room"):
            sink._store.write([made(n, answer="a" * 5_000) for n in range(200, 300)])
        assert _stored(str(tmp_path / "s.db")) == sink.written, "a batch is refused as a whole"
    assert sink.lost > 0
    assert sink.written + sink.spilled + sink.lost == 100
    assert sink.spill_bytes <= 10_000
    sink.close()


def test_a_file_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where neither database nor file takes anything, evaluations stay in memory until one of them does."""
    sink = StoreSink(str(tmp_path / "s.db"), bounds=Bounds(wait=0.01))
    monkeypatch.setattr(Spill, "append", lambda *_given: (_ for _ in ()).throw(OSError(28, "No space left")))
    with _full(sink._store):
        for n in range(100):
            sink(made(n, answer="a" * 1_000))
        until(lambda: sink.failures > 0)
        assert sink.lost == 0
    until(lambda: sink.written == 100)
    assert sink.close()


def test_a_database_that_goes_away(postgresql: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While the server is away what comes waits in a file; when it is back all of it is stored."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr(sinks, "_BACKOFF", (0.05, 0.2))
    url = postgresql.database()
    sink = StoreSink(url, bounds=Bounds(wait=0.01))
    sink(made(1))
    assert sink.flush(60)
    postgresql.stop()
    try:
        for n in range(2, 50):
            sink(made(n))
        assert sink.flush(60)
        assert (sink.written, sink.lost, sink.spilled) == (1, 0, 48)
        late = StoreSink(url)  # an application that starts meanwhile
        late(made(50))
        assert late.close(60)
    finally:
        postgresql.start()
    sink(made(51))
    until(lambda: sink.spill_bytes == 0 and sink.waiting == 0)
    assert sink.close()
    assert _stored(url) == 51


def test_what_the_database_refuses_costs_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An evaluation that cannot be stored for what it is is counted; those beside it are stored, spilled ones, too."""
    Spill(tmp_path / "s.db.spill", Keys("22" * 32)).append([made(50)])
    Spill(tmp_path / "s.db.spill").append([made(51, query="poison"), made(52)])
    sink = StoreSink(str(tmp_path / "s.db"))
    write = Store.write

    def picky(store: Store, given: Any, *more: Any) -> int:
        if any(e.trace.query == "poison" for e in given):
            raise ValueError("no")
        return write(store, given, *more)

    monkeypatch.setattr(Store, "write", picky)
    for n in range(20):
        sink(made(n, query="poison" if n == 7 else "fine"))
    assert sink.flush(60)
    sink.close()
    assert (sink.written, sink.lost) == (20, 2)
    assert _stored(str(tmp_path / "s.db")) == 20
    assert (tmp_path / "s.db.spill").read_bytes().count(b"\n") == 1


def test_a_deleted_file_is_made_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Else all would be lost unsaid: there is one warning, and a new store has what comes from then on."""
    path = tmp_path / "logs.db"
    with closing(StoreSink(str(path))) as sink:
        sink(made(1))
        assert sink.flush(60)
        for file in tmp_path.glob("logs.db*"):
            file.unlink()
        for n in (2, 3):
            sink(made(n))
            assert sink.flush(60)
    with closing(open_store(str(path))) as store:
        assert {row.trace_id for row in find(store, Filter()).rows} == {f"{n + 1:032x}" for n in (2, 3)}
    assert sum("deleted or replaced" in text for text in caplog.messages) == 1
    assert (sink.written, sink.lost) == (3, 0)


def test_a_store_that_was_upgraded_meanwhile_is_not_written(tmp_path: Path) -> None:
    """Evaluations wait in the spill file, not in an old form; the version that knows the tables stores them."""
    path = tmp_path / "logs.db"
    with closing(StoreSink(str(path))) as sink:
        sink(made(1))
        assert sink.flush(60)
        _set_version(path, "9999")
        sink(made(2))
        assert sink.flush(60)
        assert (sink.written, sink.spilled, sink.lost) == (1, 1, 0)
    _set_version(path, HEAD)
    _stored_by_the_next(str(path), made(3))
    assert _stored(str(path)) == 3


def _set_version(path: Path, version: str) -> None:
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("UPDATE alembic_version SET version_num = ?", (version,))


def test_closing_keeps_what_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What could not be stored in time lies in the file, and the next process stores it."""
    url = str(tmp_path / "s.db")
    sink = StoreSink(url, bounds=Bounds(batch=5))
    go = _hanging(monkeypatch)
    for n in range(40):
        sink(made(n))
    assert sink.close(0.1)
    assert sink.spilled >= 30
    go.set()
    until(lambda: not any(thread.name == "ragtrace-store" for thread in threading.enumerate()))
    assert isinstance(sink._store.engine.pool, QueuePool)
    assert sink._store.engine.pool.checkedin() == 0  # its connections are closed
    sink(made(99))
    assert sink.lost == 1
    _stored_by_the_next(url, made(40))
    assert _stored(url) == 41


@pytest.mark.process
def test_closing_keeps_what_the_database_has_not_answered(tmp_path: Path) -> None:
    """When close returns, the spill file holds a batch that waits for a locked database; the batch is stored once."""
    url = str(tmp_path / "chat.db")
    sink = StoreSink(url, bounds=Bounds(batch=1))
    with closing(sqlite3.connect(url, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        sink(made(1))
        until(lambda: sink._batch)
        assert sink.close(0.1)
        assert (sink.written, sink.spilled, sink.lost) == (0, 1, 0)
        assert sink.spill_bytes
        other.execute("ROLLBACK")
    until(lambda: sink.written)
    _stored_by_the_next(url, made(2))
    assert _stored(url) == 2


@pytest.mark.process
def test_a_fork(tmp_path: Path) -> None:
    """A forked process has a queue and a thread of its own; nothing is stored twice or lost."""
    url = str(tmp_path / "s.db")
    sink = StoreSink(url)
    sink(made(1))
    in_fork(lambda: sink(made(2)) or (sink.flush(60) and sink.written == 1))
    assert sink.flush(60)
    sink.close()
    assert _stored(url) == 2


def test_json_and_back() -> None:
    assert from_json(dumps(rich())) == rich()
    odd = made(1, query="\ud800\0\u2028", documents=(Document("d", "x", None, {"a": (1, {2})}),))
    assert from_json(dumps(odd)).trace.query == "\ud800\0\u2028"


def test_a_line_that_was_not_finished(tmp_path: Path) -> None:
    """Half a line of a process that died costs that line alone."""
    spill = Spill(tmp_path / "x.spill")
    spill.append([made(1)])
    with spill.path.open("ab") as file:
        file.write(b'{"trace": {"tra')
    spill.append([made(2)])
    found: list[Any] = []
    assert (
        spill.drain(lambda batch: found.extend(batch) or len(batch)),
        [e.trace.trace_id for e in found],
        len(spill),
    ) == ((2, 1), [2, 3], 0)


def test_what_is_not_taken_stays(tmp_path: Path) -> None:
    spill = Spill(tmp_path / "x.spill")
    spill.append([made(n) for n in range(300)])

    def refuse(batch: Any) -> int:
        if batch[0].trace.trace_id > 200:
            raise StoreError("away")
        return len(batch)

    with pytest.raises(StoreError, match="away"):
        spill.drain(refuse)
    found: list[Any] = []
    assert spill.drain(lambda batch: found.extend(batch) or len(batch)) == (300, 0)


def test_forgetting_while_others_append(tmp_path: Path) -> None:
    """Rewriting the file loses nothing that another thread appends meanwhile."""
    spill = Spill(tmp_path / "x.spill")

    def fill(first: int) -> None:
        for n in range(first, first + 50):
            spill.append([made(n, facts=Facts(user_id=f"u{n % 2}"))])

    with ThreadPoolExecutor(3) as threads:
        running = [threads.submit(fill, 100 * k) for k in range(3)]
        while not all(one.done() for one in running):
            spill.forget("u0")
    spill.forget("u0")
    found: list[Any] = []
    spill.drain(lambda batch: found.extend(batch) or len(batch))
    assert sorted(e.trace.trace_id for e in found) == [100 * k + n + 1 for k in range(3) for n in range(1, 50, 2)]


def test_forgetting_writes_a_private_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file that replaces the other one is never readable by others, not even while it is written."""
    modes: list[int] = []
    sync = os.fsync
    monkeypatch.setattr(os, "fsync", lambda file: (modes.append(os.fstat(file).st_mode & 0o777), sync(file)))
    spill = Spill(tmp_path / "x.spill")
    spill.append([made(n, facts=Facts(user_id=f"u{n}")) for n in range(2)])
    modes.clear()
    assert (spill.forget("u0"), modes) == (1, [0o600])


@pytest.mark.parametrize(("is_sink", "seconds"), [(True, 1), (False, 15)])
def test_a_traced_application_waits_less_for_a_lock(is_sink: bool, seconds: int, tmp_path: Path) -> None:
    """What it cannot store is in memory meanwhile. A password in an address is never shown."""
    with create_store_engine(parse_url(str(tmp_path / "x.db")), is_sink=is_sink).connect() as connection:
        assert connection.exec_driver_sql("PRAGMA busy_timeout").scalar() == 1_000 * seconds
    assert "s3cret" not in display_name(make_url("postgresql://u:s3cret@h/n?password=s3cret"))
