"""Pages: what a filter finds is what looking at every trace finds, in the same order, whatever was typed."""

import random
import re
import unicodedata
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any

import pytest
from sqlalchemy import text, update

from ragtrace.console.chatlogs import search
from ragtrace.console.chatlogs.schema import bucket, traces
from ragtrace.console.chatlogs.search import choices, find
from ragtrace.console.chatlogs.store import Store, open_store
from ragtrace.console.chatlogs.store_types import Filter, Page
from ragtrace.errors import SettingError
from ragtrace.evaluation import Evaluator
from ragtrace.records import Document, Evaluation, Facts, Score, facts_as_dict
from tests.chatlogs.evaluations import NOW, WORDS, made, many
from tests.row_files import rows, table

COUNT = 250


def filled(store: Store) -> Store:
    """A store with many different traces, every seventh one reviewed and liked, evaluator c where lower is better."""
    store.write(GIVEN, [Evaluator("c", len, threshold=0.5, direction="lower")])
    own = [f"{e.trace.trace_id:032x}" for e in GIVEN if e.trace.trace_id % 7 == 0]
    store.execute(update(traces).where(traces.c.trace_id.in_(own)).values(reviewed=True, thumbs=1))
    return store


@pytest.fixture(scope="module")
def full(shared_store: Store) -> Store:
    return filled(shared_store)


GIVEN = many(COUNT)


def _pages(store: Store, given: Filter, **options: Any) -> Iterator[Page]:
    after = None
    for _ in range(10 * COUNT):
        page = find(store, given, after=after, **options)
        yield page
        if (after := page.after) is None:
            return
    raise AssertionError("the pages do not end")


def _ids(store: Store, given: Filter, **options: Any) -> list[str]:
    return [row.trace_id for page in _pages(store, given, **options) for row in page.rows]


def _words(given: str) -> list[str]:
    plain = "".join(c for c in unicodedata.normalize("NFKD", given.lower()) if not unicodedata.combining(c))
    return plain.replace("保", " 保 ").replace("証", " 証 ").split()


def _has(evaluation: Evaluation, wanted: str) -> bool:
    trace = evaluation.trace
    parts = [_words(p) for p in (trace.query, trace.answer, "\n".join(d.content for d in trace.documents))]
    typed = [wanted.strip('"')] if wanted.startswith('"') else wanted.split()
    return all(any(_stands(_words(phrase), part) for part in parts) for phrase in typed)


def _stands(phrase: list[str], part: list[str]) -> bool:
    return any(part[i : i + len(phrase)] == phrase for i in range(len(part)))


def _scored(given: Filter, evaluation: Evaluation) -> bool:
    score = next((s for s in evaluation.scores if s.name == given.evaluator), None)
    if score is None or (given.version and score.version != given.version):
        return False
    label = "error" if score.error else score.label
    return (
        (not given.label or label == given.label)
        and (given.low is None or (score.value is not None and score.value >= given.low))
        and (given.high is None or (score.value is not None and score.value <= given.high))
    )


def _fits(given: Filter, evaluation: Evaluation) -> bool:
    trace, known = evaluation.trace, facts_as_dict(evaluation.trace.facts)
    touched = trace.trace_id % 7 == 0
    return (
        all(getattr(given, n) in ("", known.get(n)) for n in ("app", "env", "model", "prompt_version", "session_id"))
        and given.user_id in ("", known["user_id"]) and given.cause in ("", evaluation.cause)
        and (given.since is None or trace.started >= given.since)
        and (given.until is None or trace.started < given.until)
        and (not given.evaluator or _scored(given, evaluation)) and given.thumbs in (None, 1 if touched else None)
        and given.reviewed in (None, touched) and given.errors in (None, trace.error is not None)
        and (not given.text or _has(evaluation, given.text))
    )  # fmt: skip


def _drawn(drawn: random.Random) -> Filter:
    options: dict[str, Sequence[Any]] = table(__file__, "options_of_filters")
    chosen = {n: drawn.choice(options[n]) for n in drawn.sample(sorted(options), k=drawn.choice((0, 1, 1, 2, 3)))}
    if drawn.random() < 0.5:
        chosen["evaluator"] = drawn.choice(("a", "b", "c", "nobody"))
        if drawn.random() < 0.4:
            chosen["label"] = drawn.choice(("pass", "fail", "not_applicable", "error", "refusal"))
        if drawn.random() < 0.4:
            chosen["low"] = drawn.choice((-1.0, 0.0, 0.25, 0.5, 1.0, drawn.random()))
        if drawn.random() < 0.4:
            chosen["high"] = drawn.choice((0.0, 0.75, 0.751, 1.0, 10.0, drawn.random()))
        if drawn.random() < 0.2:
            chosen["version"] = drawn.choice(("1", "9"))
    return Filter(**chosen)


def bound(monkeypatch: pytest.MonkeyPatch, probe: int, chunk: int) -> None:
    monkeypatch.setattr(search, "_PROBE", probe)
    monkeypatch.setattr(search, "_CHUNK", chunk)


@pytest.mark.parametrize("sizes", [(400, 10_000), (3, 40)])
def test_what_is_found_is_what_is_there(full: Store, sizes: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    """Any filter, paged in any size, finds what fulfils it once, latest first; small bounds stand for many traces."""
    bound(monkeypatch, *sizes)
    drawn = random.Random(str(sizes))
    by_time = sorted(GIVEN, key=lambda e: e.trace.started, reverse=True)
    starts = {f"{e.trace.trace_id:032x}": e.trace.started for e in GIVEN}
    some = 0
    for _ in range(120):
        given = _drawn(drawn)
        expected = [f"{e.trace.trace_id:032x}" for e in by_time if _fits(given, e)]
        found = _ids(full, given, limit=drawn.choice((1, 7, 50, 1_000)) if len(expected) < 60 else 50)
        assert sorted(found) == sorted(expected), given
        assert [int(starts[own]) for own in found] == [int(starts[own]) for own in expected], given
        some += bool(expected)
    assert some > 40


@pytest.mark.long
@pytest.mark.parametrize("sizes", [(400, 10_000), (3, 40)])
def test_the_worst_come_first(full: Store, sizes: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    """Each trace with a value comes once, from the worst step of values to the best, which may be the highest."""
    bound(monkeypatch, *sizes)
    for given in (Filter(**fields) for fields in rows(__file__, "filters_of_the_worst")):
        listing = [row for page in _pages(full, given, limit=11, order="worst") for row in page.rows]
        expected = [e for e in GIVEN if _fits(given, e) and _value(e, given.evaluator) is not None]
        assert sorted(row.trace_id for row in listing) == sorted(f"{e.trace.trace_id:032x}" for e in expected)
        steps = [bucket(row.scores[given.evaluator][0]) for row in listing]
        assert steps == sorted(steps, reverse=given.evaluator == "c")
        same = [(step, int(row.started)) for step, row in zip(steps, listing, strict=True)]
        assert same == sorted(same, key=lambda each: (steps.index(each[0]), -each[1]))


def _value(evaluation: Evaluation, name: str) -> float | None:
    return next((s.value for s in evaluation.scores if s.name == name), None)


def test_a_row_shows_what_lists_need(store: Store) -> None:
    """A row has the newest version's scores, the beginnings of the texts, and what people said."""
    store.write([made(1, Score("e", 0.2, "fail"), Score("f", error="timeout"), query="q" * 900, answer="a" * 900,
                      duration=2.5, facts=Facts(app="shop", model="m", prompt_version="v"))])  # fmt: skip
    store.write([made(1, Score("e", 0.8, "pass", version="2"))])
    (row,) = find(store, Filter()).rows
    assert row.scores == {"e": (0.8, "pass"), "f": (None, "error")}
    assert (row.query, row.answer) == ("q" * 500, "a" * 500)
    assert (row.app, row.model, row.prompt_version, row.duration) == ("shop", "m", "v", 2.5)
    assert (row.thumbs, row.reviewed, row.error, row.cause) == (None, False, None, None)


def test_only_the_newest_version_counts(store: Store) -> None:
    """A trace whose newest score passes is no failing one, unless the older version is asked for."""
    store.write([made(1, Score("e", 0.2, "fail")), made(2, Score("e", 0.3, "fail"))])
    store.write([made(1, Score("e", 0.8, "pass", version="2"))])
    assert _ids(store, Filter(evaluator="e", label="fail")) == [f"{3:032x}"]
    assert _ids(store, Filter(evaluator="e", high=0.5)) == [f"{3:032x}"]
    assert len(_ids(store, Filter(evaluator="e", label="fail", version="1"))) == 2
    assert _ids(store, Filter(evaluator="e"), order="worst") == [f"{3:032x}", f"{2:032x}"]


def test_how_many_there_are(full: Store) -> None:
    """The total is told where it is known without counting, and is right."""
    assert find(full, Filter(user_id="u1"), limit=5).total == len(_ids(full, Filter(user_id="u1")))
    assert find(full, Filter(), limit=10).total is None
    assert find(full, Filter(app="nowhere")) == Page((), None, 0)


def test_new_traces_do_not_move_pages(store: Store) -> None:
    """While traces come in, going on shows neither a row twice nor leaves one out."""
    full = filled(store)
    before = _ids(full, Filter(), limit=1_000)
    first = find(full, Filter(), limit=100)
    full.write([made(5_000 + n, started=NOW + 90_000 + n) for n in range(20)])
    second = find(full, Filter(), after=first.after, limit=1_000)
    assert [row.trace_id for row in (*first.rows, *second.rows)] == before


def test_a_page_that_takes_too_long_ends(full: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Out of time a page has what it found and tells where to go on: nothing is lost by it."""
    monkeypatch.setattr(search, "_SECONDS", 0.0)
    bound(monkeypatch, 1, 10)
    given = Filter(text="pump", evaluator="a", label="fail", reviewed=True)
    expected = {f"{e.trace.trace_id:032x}" for e in GIVEN if _fits(given, e)}
    pages = list(_pages(full, given, limit=1_000))
    assert len(pages) > 1
    assert {row.trace_id for page in pages for row in page.rows} == expected
    worst = [r.trace_id for p in _pages(full, Filter(evaluator="a"), limit=9, order="worst") for r in p.rows]
    assert len(worst) == len(set(worst)) == sum(_value(e, "a") is not None for e in GIVEN)


@pytest.mark.parametrize("typed", [*rows(__file__, "nothing_that_is_typed_is_syntax"), "x" * 10_000])
def test_nothing_that_is_typed_is_syntax(full: Store, typed: str) -> None:
    """Whatever somebody types is words to look for; nothing raises, nothing is changed."""
    assert len(find(full, Filter(text=typed), limit=1_000).rows) < COUNT
    for name in ("app", "env", "model", "session_id", "user_id", "cause", "evaluator", "prompt_version"):
        assert find(full, Filter(**{name: typed})).rows == ()
    assert find(full, Filter(evaluator="a", label=typed, version=typed)).rows == ()
    assert len(_ids(full, Filter(), limit=1_000)) == COUNT


def test_what_words_are(store: Store) -> None:
    """Case and marks do not matter, OR is a word; scripts without blanks match by any part, phrases in one text."""
    texts = table(__file__, "texts_with_words")
    store.write([made(n, query=query, answer=answer, documents=(Document("d", chunk),))
                 for n, (query, answer, chunk) in enumerate(texts)])  # fmt: skip
    assert len(_ids(store, Filter(text="   "))) == len(texts)
    for typed, numbers in table(__file__, "words_and_the_texts_that_have_them").items():
        assert _ids(store, Filter(text=typed)) == [f"{n + 1:032x}" for n in numbers], typed


def test_very_long_texts(store: Store) -> None:
    """A trace with megabytes of different words is stored and found by its beginning."""
    long = " ".join(f"w{n}" for n in range(300_000))
    store.write([made(1, query=long, answer=long, documents=(Document("d", long),))])
    assert len(_ids(store, Filter(text="w17"))) == 1


def test_an_encrypted_store_is_not_searched(store_url: str) -> None:
    """With a key a search by text is refused with the reason; everything else is found as ever."""
    with closing(open_store(store_url, key="22" * 32)) as store:
        store.write(GIVEN[:50])
        with pytest.raises(SettingError, match=r"encrypted.*texts cannot be searched"):
            find(store, Filter(text="pump"))
        given = Filter(user_id="u1")
        assert sorted(_ids(store, given)) == sorted(f"{e.trace.trace_id:032x}" for e in GIVEN[:50] if _fits(given, e))
        assert set(find(store, Filter()).rows[0].query.split()) <= set(WORDS)


@pytest.mark.parametrize(("filter_", "options", "error"), rows(__file__, "questions_that_have_no_answer"))
def test_questions_that_have_no_answer(store: Store, filter_: Any, options: Any, error: str) -> None:
    with pytest.raises(SettingError, match=error):
        find(store, Filter(**filter_), **options)


def test_what_can_be_chosen(full: Store) -> None:
    assert choices(full) == table(__file__, "choices")


def test_an_empty_store_has_pages(store: Store) -> None:
    assert find(store, Filter()) == find(store, Filter(evaluator="e", low=0.1), order="worst") == Page((), None, 0)
    assert choices(store)["app"] == []


def test_no_listing_sorts_or_scans(tmp_path: Any) -> None:
    """On SQLite every listing of ids comes out of an index in its order: none scans the table, none sorts it."""
    with closing(open_store(str(tmp_path / "s.db"))) as store:
        store.write(GIVEN)
        seen: list[str] = []
        connection = store.engine.raw_connection()
        connection.driver_connection.set_trace_callback(seen.append)  # type: ignore[union-attr]
        connection.close()
        for fields in rows(__file__, "filters_of_listings"):
            find(store, Filter(**fields), limit=5)
        listings = [line for line in seen if line.startswith(("SELECT", "WITH")) and "DESC" in line and "LIMIT" in line]
        assert len(listings) > 15
        with store.reading() as reading:
            for line in listings:
                plan = [row[3] for row in reading.execute(text("EXPLAIN QUERY PLAN " + line.replace(":", "\\:")))]
                slow = [step for step in plan if re.search("TEMP B-TREE|^SCAN (traces|scores)|AUTOMATIC", step)]
                assert not [step for step in slow if not re.match("SCAN traces USING.* INDEX", step)], (line, plan)
