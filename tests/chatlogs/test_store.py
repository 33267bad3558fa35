"""The store: what goes in comes out, once, under its key alone, whoever else writes."""

import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from threading import Barrier

import pytest
from sqlalchemy import func, insert, select, update
from sqlalchemy.exc import IntegrityError

from ragtrace import errors
from ragtrace.console.chatlogs import schema
from ragtrace.console.chatlogs.encryption import read_keys, user_keys
from ragtrace.console.chatlogs.key_change import rekey
from ragtrace.console.chatlogs.overview import overview
from ragtrace.console.chatlogs.retention import Retention, prune
from ragtrace.console.chatlogs.schema import bucket, contents, end_id, id_for, lowest_id, scores, traces
from ragtrace.console.chatlogs.store import Store, open_store
from ragtrace.errors import MissingExtraError, SettingError, StoreError
from ragtrace.evaluation import evaluator
from ragtrace.records import Document, Facts, Score
from ragtrace.statistics import weighted
from tests.chatlogs.evaluations import NOW, made, many, rich
from tests.databases import count
from tests.row_files import rows
from tests.waiting import in_fork

KEY, OTHER = "AQEB" * 10 + "AQE=", "02" * 32
"""In base64, and in hexadecimal digits."""


def _hex(number: int) -> str:
    return f"{number + 1:032x}"


@pytest.fixture(params=[None, KEY], ids=["readable", "sealed"])
def any_store(request: pytest.FixtureRequest, store_url: str) -> Iterator[Store]:
    with closing(open_store(store_url, key=request.param)) as store:
        yield store


def test_what_goes_in_comes_out(any_store: Store) -> None:
    """Every field of a trace and its scores is kept, with a key as without."""
    store, given = any_store, rich()
    assert store.write([given], now=NOW + 60) == 1
    found = store.get(_hex(7))
    assert found.trace == given.trace
    assert found.evaluation.scores == tuple(sorted(given.scores, key=lambda score: score.name))
    assert (found.evaluation.cause, found.stored) == ("hallucination", NOW + 60)
    assert [(at, score.name) for at, score in found.history] == [(NOW + 60, s.name) for s in given.scores]
    assert (found.thumbs, found.reviewed, found.feedback) == (None, False, ())
    assert store.get(found.id) == store.get(_hex(7).upper()) == found
    assert [store.get(n) for n in ("0" * 32, "' OR 1=1 --", 0, -1, 2**70)] == [None] * 5


def test_again_changes_nothing(store: Store) -> None:
    """A trace, and a score of one evaluator and version, are stored once; new ones are added, dropped ones are not."""
    assert store.write([made(1, status="dropped")]) == store.write([]) == count(store, traces) == 0
    given = rich()
    assert store.write([replace(given, scores=given.scores[:1]), replace(given, scores=given.scores[1:]), given]) == 1
    assert store.write([given]) == 0
    before = store.get(_hex(7))
    other = replace(given, trace=replace(given.trace, answer="another"), scores=(replace(given.scores[0], value=0.9),))
    assert (store.write([other]), store.get(_hex(7))) == (0, before)
    newer = replace(given, scores=(replace(given.scores[0], version="4", value=0.75, label="pass"),))
    assert store.write([newer], now=NOW + 5_000) == 1
    found = store.get(_hex(7))
    assert {s.name: s.version for s in found.evaluation.scores}["groundedness"] == "4"
    assert [s.version for _, s in found.history if s.name == "groundedness"] == ["3", "4"]
    assert (count(store, traces), count(store, scores)) == (1, 4)


def test_two_spans_of_one_trace(store: Store) -> None:
    """A trace id with two requests is two stored traces; the id alone names the later one."""
    store.write([made(1, started=NOW), made(1, started=NOW + 1, span_id=99)])
    assert (count(store, traces), store.get(_hex(1)).trace.span_id) == (2, 99)


def test_texts_that_databases_refuse(any_store: Store) -> None:
    """NUL and lone surrogates cost no trace: sealed they come back, plain they become U+FFFD in their place."""
    odd = "a\0b\ud800c\U0001f600"
    given = made(
        1, Score("x\0y", 0.5, explanation=odd), query=odd, answer=odd, error=odd,
        documents=(Document("d", odd, None, {odd: odd}), Document("pair", "Let \ud835\udc65 be")),
        attributes={odd: {1, 2}, "path": Path("/x")}, facts=Facts(app=odd, user_id=odd, session_id=odd),
    )  # fmt: skip
    assert any_store.write([given]) == 1
    trace = any_store.get(_hex(1)).trace
    assert trace.answer == (odd if any_store.keys else "a\ufffdb\ufffdc\U0001f600")
    assert (trace.documents[0].content, trace.attributes["path"]) == (odd, "/x")
    assert prune(any_store, Retention(days=1), now=NOW + 1e6).traces == 1  # its words are those that were indexed


def test_values_that_are_none(store: Store) -> None:
    """What is no finite number is a failed check; names that are too long are cut; no evaluation is lost for it."""
    nan, infinite = float("nan"), float("inf")
    long = "x" * 5_000
    given = made(
        1, Score("a", nan, "pass"), Score("b", -infinite), Score(long, 0.5, long, version=long),
        started=nan, duration=infinite, error=long, facts=Facts(app=long, model=long, user_id=long),
    )  # fmt: skip
    assert store.write([given], now=NOW) == 1
    found = store.get(_hex(1))
    failed = [(s.name, s.value, s.error) for s in found.evaluation.scores if len(s.name) == 1]
    assert failed == [(name, None, "not_a_number") for name in "ab"]
    assert (found.trace.started, found.trace.facts.user_id) == (NOW, long)


@pytest.mark.long
def test_many_at_the_same_moment(store: Store) -> None:
    """Traces of the same millisecond all find a place, in the same second."""
    assert store.write([made(n, started=NOW) for n in range(3_000)]) == 3_000
    assert store.write([made(n, started=NOW) for n in range(2_900, 6_000)]) == 3_000
    ((low, high),) = store.rows(select(func.min(traces.c.id), func.max(traces.c.id)))
    assert count(store, traces) == 6_000
    assert lowest_id(NOW) <= low <= high < lowest_id(NOW + 1)


def test_ids_grow_with_time() -> None:
    """A later millisecond has a greater id, which JavaScript can count with; odd times have one, too."""
    ids = [id_for(NOW + n / 100, 4_095 - n % 4_096) for n in range(3_000)]
    assert ids == sorted(ids)
    assert 0 < ids[0] < ids[-1] < 2**53
    assert id_for(1e12, 0) < 2**53
    assert id_for(0.0, 0) == lowest_id(-5.0) == 0
    assert end_id(1.5e9) > id_for(1.4e9, 4_095)  # before 2020


def test_a_file_that_was_replaced(tmp_path: Path) -> None:
    """A running console goes on with a restored backup; what it wrote into the old file would be lost."""
    file, backup = tmp_path / "s.db", tmp_path / "b.db"
    open_store(str(backup)).close()
    with closing(open_store(str(file))) as store:
        store.write([made(1)])
        backup.replace(file)
        for log in tmp_path.glob("s.db-*"):
            log.unlink()
        store.write([made(2)])
        assert (count(store, traces), store.get(_hex(2)) is not None) == (1, True)
        file.unlink()
        with pytest.raises(StoreError, match="was deleted"):
            store.get(_hex(2))


def test_buckets_grow_with_values() -> None:
    values = [-1e300, -7.0, -1.0, -0.5, -1e-9, 0.0, 1e-9, 0.01, 0.5, 0.999, 1.0, 1.001, 5.0, 1e300]
    assert [bucket(v) for v in values] == sorted(bucket(v) for v in values)
    assert bucket(None) < bucket(-1e300)
    assert len({bucket(v) for v in (0.0, 0.005, 0.995, 1.0)}) == 4


def test_a_score_of_others_has_its_bucket(store: Store) -> None:
    """Whoever inserts a score without knowing of buckets gets the right one."""
    store.write([made(1)])
    row = {"trace": store.get(_hex(1)).id, "evaluator": "e", "version": "1", "method": "human", "probability": 1.0}
    store.execute(insert(scores).values(value=0.42, scored=NOW, **row))
    assert store.scalar(select(scores.c.bucket)) == bucket(0.42)


def test_evaluators_are_remembered(store: Store) -> None:
    """Thresholds and directions are those of the checks; evaluators that nobody told of are known, too."""

    @evaluator(threshold=0.5, direction="lower", version="2")
    def loops(_trace: object) -> float:
        """How much it repeats itself."""
        return 0.0

    store.write([made(1, Score("loops", 0.1, version="2"), Score("other", 0.3))], [loops], now=NOW)
    store.write([], [replace(loops, threshold=0.6)])
    rows = {row.name: row for row in store.rows(select(schema.evaluators))}
    loops = rows["loops"]
    assert (loops.threshold, loops.direction, loops.description) == (0.6, "lower", "How much it repeats itself.")
    assert (rows["other"].threshold, rows["other"].direction) == (None, "higher")


def test_nothing_is_readable_without_the_key(tmp_path: Path) -> None:
    """The file of a store with a key has neither texts nor user ids nor explanations in it."""
    with closing(open_store(str(tmp_path / "sealed.db"), key=KEY)) as store:
        marks = [f"mark{n}xyz" for n in range(6)]
        given = made(
            1, Score("e", 0.1, explanation=marks[0]), query=marks[1], answer=marks[2], reference=marks[3],
            documents=(Document("d", marks[4]),), facts=Facts(user_id=marks[5]),
        )  # fmt: skip
        store.write([given])
    raw = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    assert len(raw) > 10_000
    assert not [mark for mark in marks if mark.encode() in raw]


@pytest.mark.parametrize(("key", "message"), rows(__file__, "wrong_keys"))
def test_the_wrong_key(store_url: str, key: str | None, message: str) -> None:
    """A missing, wrong or broken key is told on opening, and never shown."""
    open_store(store_url, key=KEY).close()
    with pytest.raises(SettingError, match=message) as refused:
        open_store(store_url, key=key)
    assert not [k for k in (KEY, OTHER) if k in str(refused.value)]


def test_a_key_for_a_store_without(store: Store, store_url: str) -> None:
    """A store with readable content does not become half sealed by being opened with a key."""
    store.write([made(1)])
    with pytest.raises(SettingError, match="contains unencrypted data"):
        open_store(store_url, key=KEY)


def test_content_is_bound_to_its_trace(store_url: str) -> None:
    """Sealed content that was moved to another trace, or altered, is refused."""
    with closing(open_store(store_url, key=KEY)) as store:
        store.write([made(1), made(2)])
        first, second = store.get(_hex(1)), store.get(_hex(2))
        sealed = store.scalar(select(contents.c.sealed).where(contents.c.trace == first.id))
        store.execute(update(contents).where(contents.c.trace == second.id).values(sealed=sealed))
        with pytest.raises(StoreError, match="altered"):
            store.get(_hex(2))
        assert store.get(_hex(1)) == first


def test_another_key(store_url: str) -> None:
    """With the new key first and the old one after it everything is readable; rekey makes the old one needless."""
    given = rich()
    with closing(open_store(store_url, key=KEY)) as store:
        store.write([given])
    with closing(open_store(store_url, key=f"{OTHER}\n{KEY}")) as store:
        assert store.get(_hex(7)).trace == given.trace  # type: ignore[union-attr]
        store.write([made(1, facts=Facts(user_id="u1"))])
        assert len(set(user_keys(store.keys, "u1"))) == 2
    assert rekey(store_url, f"{OTHER},{KEY}") == 1
    with closing(open_store(store_url, key=OTHER)) as store:
        log = store.get(_hex(7))
        assert (log.trace, log.evaluation.scores[0]) == (given.trace, given.scores[0])
        assert set(store.rows(select(traces.c.user_key))) == {(user_keys(store.keys, "u1")[0],)}
    with pytest.raises(SettingError):
        open_store(store_url, key=KEY)


def test_a_first_key(tmp_path: Path) -> None:
    """rekey seals what was readable, and the file keeps nothing of it."""
    path = tmp_path / "s.db"
    with closing(open_store(str(path))) as store:
        store.write([made(1, query="readable1", facts=Facts(user_id="person1"))])
    assert b"readable1" in path.read_bytes()
    assert rekey(str(path), KEY) == 1
    raw = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    assert not [mark for mark in (b"readable1", b"person1") if mark in raw]
    with closing(open_store(str(path), key=KEY)) as store:
        assert store.get(_hex(1)).trace.query == "readable1"  # type: ignore[union-attr]


def test_where_a_key_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """store_key names a variable or a file; what it names is never shown."""
    monkeypatch.setenv("MY_KEY", KEY)
    (tmp_path / "key").write_text(OTHER + "\n")
    assert [read_keys(name) for name in ("MY_KEY", str(tmp_path / "key"), "")] == [KEY, OTHER + "\n", None]
    with pytest.raises(SettingError, match="names neither") as caught:
        read_keys(KEY)
    assert KEY not in str(caught.value)


@pytest.mark.parametrize(("url", "message", "kind"), rows(__file__, "addresses_that_are_none"))
def test_addresses_that_are_none(url: str, message: str, kind: str) -> None:
    """Neither address nor server: told with what is one, without password, parameters and statement."""
    with pytest.raises(getattr(errors, kind), match=message) as refused:
        open_store(url)
    assert "secret" not in str(refused.value)


def test_without_the_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "psycopg", None)
    with pytest.raises(MissingExtraError, match=r"ragtrace-otel\[store\]"):
        open_store("postgresql://h/d")


def test_a_file_that_is_no_store(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("These are my notes. " * 100)
    with pytest.raises(StoreError, match="not a store"):
        open_store(str(path))
    assert path.read_text() == "These are my notes. " * 100


def test_an_error_carries_no_content(store: Store) -> None:
    """What the database says of a row that it refuses does not quote the row."""
    store.write([made(1)])
    (row,) = store.rows(select(traces))
    with pytest.raises(IntegrityError) as caught:
        store.execute(insert(traces).values({**row._mapping, "id": row.id + 1, "app": "very secret"}))
    assert "very secret" not in str(caught.value)


def test_only_the_owner_may_read_the_file(tmp_path: Path) -> None:
    """A new file is nobody else's to read. No folder is made for it: a name may be mistyped."""
    open_store(str(tmp_path / "s.db")).close()
    assert (tmp_path / "s.db").stat().st_mode & 0o077 == 0
    with pytest.raises(SettingError, match="its folder must be there"):
        open_store(str(tmp_path / "deep" / "s.db"))


def test_two_stores_write_the_same(store_url: str) -> None:
    """Two processes that store the same evaluations at once store each of them once; so do two stores of one."""
    stores = [open_store(store_url) for _ in range(4)]
    rows, ready = many(60), Barrier(4)

    def work(store: Store) -> None:
        ready.wait()
        for i in range(0, 60, 7):
            store.write(rows[i : i + 7])

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(work, stores))
    assert [count(stores[0], table) for table in (traces, scores)] == [60, sum(len(e.scores) for e in rows)]
    assert overview(stores[0], NOW - 1e5, NOW + 1e6).total.evaluated == 60
    for store in stores:
        store.close()


@pytest.mark.process
def test_a_forked_child_has_connections_of_its_own(store: Store) -> None:
    store.write([made(1)])
    in_fork(lambda: store.write([made(2)]) == 1 and store.get(_hex(1)) is not None)
    assert store.get(_hex(2)) is not None
    assert store.write([made(3)]) == 1


def test_the_overview_is_what_the_traces_say(store: Store) -> None:
    """Shares, intervals, causes and groups from the sums are those of `weighted` over all traces one by one."""
    empty = overview(store, NOW, NOW + 3_600)
    assert (empty.total.evaluated, empty.total.errors, empty.checks, empty.apps) == (0, None, (), ())
    assert len(empty.traffic) >= 12
    given = many(200)
    for i in range(0, 200, 9):
        store.write(given[i : i + 9])
    store.write(given)  # again: counted once
    found = overview(store, NOW - 1, NOW + 60_000, buckets=10)
    assert found.total.evaluated == sum(point.evaluated for point in found.traffic) == 200
    errors = [float(e.trace.error is not None) for e in given]
    expected = weighted(errors, [e.trace.sampling_probability for e in given])
    assert found.total.errors.value == pytest.approx(expected.value)
    assert found.total.errors.interval == pytest.approx(expected.interval)
    for check in found.checks:
        own = [(s, e.trace.sampling_probability) for e in given for s in e.scores if s.name == check.evaluator]
        judged = [(s.label == "pass", min(s.sampling_probability, p)) for s, p in own if s.label in ("pass", "fail")]
        share = weighted(*zip(*judged, strict=True))  # a score of code is of all requests, but not in the store
        assert (check.passes.value, check.passes.count) == (pytest.approx(share.value), len(judged))
        assert sum(step.passes.count for step in check.line if step.passes) == len(judged)
        assert check.errors == sum(s.name == check.evaluator and s.error is not None for e in given for s in e.scores)
    requests = sum(1 / e.trace.sampling_probability for e in given if e.cause == "retrieval")
    assert found.causes["retrieval"] == pytest.approx(requests)
    apps = {app: sum(e.trace.facts.app == app for e in given) for app in ("shop", "help", "lab")}
    assert {g.name: g.evaluated for g in found.apps} == apps
    median = sorted(e.trace.duration for e in given)[100]
    assert 0.5 * median < found.total.latency[0.5] < 2 * median
    assert [g.name for g in overview(store, NOW - 1, NOW + 60_000, app="lab").apps] == ["lab"]
    with pytest.raises(SettingError, match="ends before"):
        overview(store, NOW, NOW)


def test_a_cause_has_the_weight_of_the_evaluator_that_told_it(store: Store) -> None:
    """An evaluator that sees a share of the requests tells the causes of this share alone: each stands for more."""
    rare = Score("rare", 0.1, "fail", cause="unsupported", sampling_probability=0.05)
    often = Score("often", 0.1, "fail", cause="leak_by_model", sampling_probability=0.5)
    given = ([rare], "irrelevant_context"), ([rare, often], "leak_by_model"), ([], "nothing_retrieved")
    store.write([made(n, *scores, cause=cause, sampling_probability=0.5) for n, (scores, cause) in enumerate(given)])
    store.write([replace(made(0, Score("guard", 1.0, "pass")), is_late=True)])
    assert store.scalar(select(schema.scores.c.probability).where(schema.scores.c.evaluator == "guard")) == 0.5
    assert overview(store, NOW - 1, NOW + 60_000).causes == pytest.approx(
        {"irrelevant_context": 20.0, "leak_by_model": 2.0, "nothing_retrieved": 2.0}
    )


def test_an_overview_of_days_adds_up(store: Store) -> None:
    """Sums by day in the middle, by hour at the ends: nothing counts twice, nothing from outside is in it."""
    drawn = random.Random(5)
    starts = [NOW + drawn.uniform(-1, 9) * 86_400 for _ in range(400)]
    store.write([made(i, Score("a", 0.2, "fail"), started=start) for i, start in enumerate(starts)])
    since, until = NOW + 1.3 * 86_400, NOW + 7.1 * 86_400
    found = overview(store, since, until)
    inside = sum(found.since <= start < found.until for start in starts)
    assert found.since <= since < until <= found.until
    assert found.until - found.since < until - since + 2 * 3_600
    assert found.total.evaluated == inside == sum(point.evaluated for point in found.traffic)
    (check,) = found.checks
    assert check.passes.count == inside
