"""What leaves the store leaves it completely, and nothing else does; what `ragtrace ingest` brings is there once."""

import json
import os
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import insert, select, update

from ragtrace.base.private_file import create_private, private_opener
from ragtrace.batch.reporting.page import write as write_page
from ragtrace.cli import main
from ragtrace.console.chatlogs import retention, schema
from ragtrace.console.chatlogs.ingest import ingest
from ragtrace.console.chatlogs.retention import Removal, Retention, delete_user, prune, prune_hourly
from ragtrace.console.chatlogs.schema import feedback, items, reviews, sums, traces, users, verdicts
from ragtrace.console.chatlogs.search import find
from ragtrace.console.chatlogs.spill import Spill, spill_path
from ragtrace.console.chatlogs.store import Store, open_store
from ragtrace.console.chatlogs.store_types import Filter
from ragtrace.errors import DataError
from ragtrace.evaluate.judge.ledger import NANO, Ledger
from ragtrace.records import Document, Facts, Score
from ragtrace_otlp.jsonl import JsonLinesSpanExporter
from tests.chatlogs.evaluations import NOW, made
from tests.databases import count
from tests.row_files import table

DAY = 86_400.0
KEY = "22" * 32


def _counts(store: Store) -> dict[str, int]:
    tables = (traces, schema.contents, schema.scores, schema.details, feedback, items, reviews, verdicts)
    return {each.name: count(store, each) for each in tables}


def _person(n: int, user: str) -> object:
    mark = f"{user}mark{n}"
    return made(
        n, Score("e", 0.1, "fail", explanation=f"{mark}explained"), query=f"{mark}query", answer=f"{mark}answer",
        documents=(Document("d", f"{mark}chunk"),), facts=Facts(user_id=user, app="shop"),
    )  # fmt: skip


def _filled(store: Store) -> None:
    """Ten traces of each of two users, with feedback, a queue, reviews and verdicts."""
    store.write([_person(n, "anna" if n % 2 else "bert") for n in range(20)])  # type: ignore[misc]
    with store.writing() as connection:
        connection.execute(insert(users).values(id=1, name="ada", role="reviewer", created=NOW))
        for own, trace_id in connection.execute(select(traces.c.id, traces.c.trace_id)).all():
            mark = "annamark" if int(trace_id, 16) % 2 == 0 else "bertmark"
            said = store.seal(trace_id, {"comment": f"{mark}comment"})
            connection.execute(insert(feedback).values(trace_id=trace_id, thumbs=-1, created=NOW, **said))
            item = {"trace": own, "slot": 0, "reason": "random", "priority": 0.0, "state": "done", "created": NOW}
            key = connection.execute(insert(items).values(**item)).inserted_primary_key
            texts = store.seal(trace_id, {"comment": f"{mark}review", "corrected": f"{mark}corrected"})
            review = {"trace": own, "item": key[0], "user": 1, "source": "console", "created": NOW, **texts}
            made_ = connection.execute(insert(reviews).values(**review)).inserted_primary_key
            connection.execute(insert(verdicts).values(review=made_[0], evaluator="e", label="fail"))


@pytest.mark.parametrize("key", [None, KEY])
def test_a_user_is_forgotten_completely(store_url: str, key: str | None, tmp_path: Path) -> None:
    """Nothing of a user is left in tables, search index, spill file and SQLite's bytes; others have all of theirs."""
    with closing(open_store(store_url, key=key)) as store:
        _filled(store)
        if store.sqlite and key is None:  # what is looked for at the end was there
            raw = b"".join(file.read_bytes() for file in tmp_path.glob("store.db*"))
            for what in (b"annamark1query", b"annamark1explained", b"annamarkcomment", b"annamarkcorrected"):
                assert what in raw
        spill = Spill(spill_path(store.engine.url), store.keys)
        spill.append([_person(100, "anna"), _person(101, "bert")])  # type: ignore[list-item]
        with store.writing() as connection:
            for n in ("anna", "bert"):
                connection.execute(insert(schema.views).values(user=1, name=n, query=f"user_id={n}"))
        assert delete_user(store, "anna") == Removal(traces=10, scores=10, reviews=10, feedback=10, spilled=1)
        assert list(store.rows(select(schema.views.c.name))) == [("bert",)]
        assert set(_counts(store).values()) == {10}
        assert find(store, Filter(user_id="anna")).rows == ()
        assert len(find(store, Filter(user_id="bert")).rows) == 10
        if key is None:
            assert find(store, Filter(text="annamark1query")).rows == ()
            assert len(find(store, Filter(text="bertmark2query")).rows) == 1
        waiting: list[object] = []
        spill.drain(lambda batch: waiting.extend(batch) or len(batch))
        assert (len(waiting), delete_user(store, "anna")) == (1, Removal())
    for file in tmp_path.rglob("*"):
        if file.is_file():
            assert b"anna" not in file.read_bytes(), file


def test_what_is_too_old_goes(store: Store) -> None:
    """Older requests go with all that hangs on them and their sums; younger ones stay."""
    _filled(store)
    removed = prune(store, Retention(days=1), now=NOW + DAY + 4.5)
    assert (removed, set(_counts(store).values())) == (Removal(5, 5, 5, 5), {15})
    assert prune(store, Retention(days=1), now=NOW + DAY + 4.5) == Removal()
    assert prune(store, Retention(), now=NOW + 1e9) == Removal()
    assert (prune(store, Retention(days=1), now=NOW + 5 * DAY).traces, set(_counts(store).values())) == (15, {0})
    assert count(store, sums) == 0
    for left in (0, 20):
        store.write([made(n) for n in range(20)])
        prune_hourly(store, Retention(days=1))  # once an hour, whichever process does it
        assert count(store, traces) == left


def test_a_clock_that_ran_ahead_keeps_nothing_longer(store: Store) -> None:
    """What was stored long ago is as old, whatever its own time says."""
    _filled(store)
    store.execute(update(traces).values(started=NOW + 400 * DAY, stored=NOW))
    assert prune(store, Retention(days=1), now=NOW + 2 * DAY).traces == 20


def _stray(store: Store, count: int, created: float) -> None:
    rows = [{"trace_id": f"{n + 500:032x}", "thumbs": -1, "created": created} for n in range(count)]
    store.execute(insert(feedback).values(rows))


def test_feedback_of_traces_that_never_came_goes(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """After seven days, the oldest of too much, and with any user: it may be theirs. That of stored traces stays."""
    _filled(store)
    _stray(store, 5, NOW)
    assert prune(store, Retention(), now=NOW + 6 * DAY) == Removal()
    assert prune(store, Retention(), now=NOW + 8 * DAY) == Removal(feedback=5)
    monkeypatch.setattr(retention, "_MOST_STRAY", 3)
    _stray(store, 5, NOW)
    assert (prune(store, Retention(), now=NOW), _counts(store)["feedback"]) == (Removal(feedback=2), 20 + 3)
    assert delete_user(store, "anna") == Removal(traces=10, scores=10, reviews=10, feedback=13)
    assert _counts(store)["feedback"] == 10


def test_what_is_too_much_goes(store: Store) -> None:
    """Above the size the oldest go, until it fits; the newest stay."""
    for first in range(0, 900, 300):
        store.write([made(n, answer="a" * 2_000) for n in range(first, first + 300)])
    removed = prune(store, Retention(bytes=3_000_000))
    assert 0 < removed.traces < 900
    left = [row.trace_id for row in find(store, Filter(), limit=1_000).rows]
    assert left == [f"{n + 1:032x}" for n in range(899, removed.traces - 1, -1)]
    assert prune(store, Retention(bytes=3_000_000)) == Removal()


def test_the_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """prune and forget-user say what they removed; a store has to be named."""
    monkeypatch.chdir(tmp_path)
    with closing(open_store("s.db")) as store:
        _filled(store)
    assert main(["store", "forget-user", "anna", "--store", "s.db"]) == 0
    assert "10 traces, 10 scores, 10 reviews, 10 feedback, 0 spilled removed" in (report := capsys.readouterr()).out
    assert "not reached: spans" in report.err
    for days in ("-1", "-0.0001", "nan", "1e400"):
        assert main(["store", "prune", "--store", "s.db", "--days", days]) == 2
        assert "store_days" in capsys.readouterr().err
    assert main(["store", "prune", "--store", "s.db", "--bytes", "1G", "--days", "1"]) == 0
    assert "10 traces" in capsys.readouterr().out
    for wrong in (["prune"], ["prune", "--store", "s.db", "--bytes", "much"], ["rekey", "--store", "s.db"]):
        assert main(["store", *wrong]) == 2
    assert "name the store" in (said := capsys.readouterr().err)
    assert "'much'" in said


def test_the_judge_forgets_with_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    """Its remembered answers may quote anybody: all go, with their bytes; what was spent stays."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RAGTRACE_JUDGE_STORE", "judge.db")
    ledger = Ledger("judge.db", hour=1.0, day=1.0)
    ledger.put("key", "annamark said so")
    ledger.settle(ledger.reserve(NANO // 2), NANO // 2)
    assert b"annamark" in b"".join(file.read_bytes() for file in tmp_path.glob("judge.db*"))
    open_store("s.db").close()
    assert main(["store", "forget-user", "anna", "--store", "s.db"]) == 0
    assert "all 1 remembered answers of judge.db removed" in capsys.readouterr().out
    assert ledger.get("key") is None
    assert ledger.spent("hour") == pytest.approx(0.5)
    assert b"annamark" not in b"".join(file.read_bytes() for file in tmp_path.glob("judge.db*"))


def test_files_with_texts_are_their_owner_s_alone(tmp_path: Path) -> None:
    """Spans, the report file and what it exports have mode 0600; a file that is there keeps its mode."""
    before = os.umask(0o022)
    try:
        (tmp_path / "old").touch(0o644)
        for name in ("new", "old"):
            create_private(tmp_path / name)
            with open(tmp_path / name, "a", opener=private_opener) as file:
                file.write("text")
        JsonLinesSpanExporter(tmp_path / "spans.jsonl").shutdown()
        write_page("{}", tmp_path / "result.json")
    finally:
        os.umask(before)
    modes = [(tmp_path / name).stat().st_mode & 0o777 for name in ("old", "new", "spans.jsonl", "result.json")]
    assert modes == [0o644, 0o600, 0o600, 0o600]


DATA, SCORES = table(__file__, "data"), table(__file__, "scores")


def _lines(path: Path, rows: list[object]) -> Path:
    path.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))
    return path


def test_what_eval_wrote_is_ingested_once(store: Store, tmp_path: Path) -> None:
    """Scores with the texts of the file that was scored are stored; the same again changes nothing."""
    data, score_file = _lines(tmp_path / "data.jsonl", DATA), _lines(tmp_path / "scores.jsonl", SCORES)
    for new in (2, 0):
        found = ingest(score_file, store, data=data, app="shop")
        assert (found.done, found.new, found.errors) == (2, new, ())
    rows = find(store, Filter(app="shop")).rows
    assert [(row.query, row.answer) for row in rows] == [("", "That."), ("What?", "This.")]
    first = store.get(rows[1].trace_id)
    assert [d.content for d in first.trace.documents] == ["one", "two"]
    assert first.evaluation.scores[0].method == "model"
    assert rows[0].scores == {"own": (None, "error")}


def test_lines_that_say_more(store: Store, tmp_path: Path) -> None:
    assert ingest(_lines(tmp_path / "x.jsonl", [table(__file__, "line_that_says_more")]), store).new == 1
    found = store.get("ab" * 16)
    assert (found.trace.started, found.trace.duration, found.trace.error) == (1_769_860_800.0, 1.5, "E")
    assert found.trace.facts == Facts(app="x", model="m", user_id="7")
    assert found.evaluation.scores[0].evidence[0].verdict == "supported"
    assert find(store, Filter(user_id="7")).total == 1


def test_a_row_without_its_texts_is_not_stored(store: Store, tmp_path: Path) -> None:
    """The scored file has no such row, so the log could never be shown; its unreadable lines are named, too."""
    data = _lines(tmp_path / "data.jsonl", ["no json", {"id": 1, "query": "q", "answer": "Yes."}])
    scored = _lines(tmp_path / "x.jsonl", [{"id": n, "scores": {"e": {"value": 1}}} for n in (1, 2)])
    result = ingest(scored, store, data=data)
    assert (result.new, [str(error).partition(": ")[2] for error in result.errors]) == (1, [
        "the line is not JSON: Expecting value: line 1 column 1 (char 0)", f"{data} has no row with the id 2",
    ])  # fmt: skip


def test_bad_lines_are_named_and_the_rest_is_kept(store: Store, tmp_path: Path, capsys: Any) -> None:
    """Each line that cannot be used is named with its number; the exit code says that there were some."""
    path = _lines(tmp_path / "x.jsonl", [SCORES[0], *table(__file__, "bad_lines"), SCORES[1]])
    found = ingest(path, store)
    assert found.done == 2
    assert [int(str(e).partition("line ")[2].partition(":")[0]) for e in found.errors] == list(range(2, 12))
    assert len(capsys.readouterr().err.splitlines()) == 10
    with pytest.raises(DataError, match="cannot be read"):
        ingest(tmp_path / "nothing", store)
    if store.sqlite:
        assert main(["ingest", str(path), "--store", str(store.engine.url.database)]) == 1
        assert main(["ingest", str(tmp_path / "nothing"), "--store", str(store.engine.url.database)]) == 2
        assert "2 lines stored, 0 of them new, 10 lines left out" in capsys.readouterr().err
