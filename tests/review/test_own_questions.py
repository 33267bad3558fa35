"""Questions of one's own and marked parts of answers: what may be asked and said, how it is kept and exported."""

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from ragtrace.console.chatlogs.encryption import Keys
from ragtrace.console.chatlogs.key_change import rekey
from ragtrace.console.chatlogs.schema import reviews
from ragtrace.console.chatlogs.store import Store, open_store
from ragtrace.console.chatlogs.store_types import Review, Verdict
from ragtrace.console.review import named_queues, own_questions
from ragtrace.console.review.agreement import alpha, measure_answers, squares
from ragtrace.console.review.dataset_export import Options, export
from ragtrace.console.review.own_questions import Category, OwnQuestion
from ragtrace.console.review.queue import submit
from ragtrace.console.review.verdicts import read_content
from ragtrace.errors import DataError
from ragtrace.records import Evidence, Facts
from ragtrace.text.redaction import mask_pii
from tests.review.review_data import NOW, evaluation, good, people, scored
from tests.row_files import rows

TONE = OwnQuestion("tone", "How is its tone?", "category", "", (Category("friendly", "f"), Category("rude")))
SCORE = OwnQuestion("score", "How good is it?", "number", low=0, high=10)
GAP = OwnQuestion("gap", "What is missing?", "text")
ANSWER = "Call Jane on +49 171 2345678 today. It costs nothing."
BEHIND_PHONE = ANSWER.index(" today")
MARKS = ((0, BEHIND_PHONE, "unsupported"), (ANSWER.index("It costs"), len(ANSWER), "contradicted"))


def _reviewed(store: Store) -> str:
    """One log with one person's answers and marks; its trace id."""
    (anna,) = people(store, "anna")
    one = evaluation(1, scored(good, 0.3), answer=ANSWER, facts=Facts(user_id="jane"))
    store.write([one], [good], now=NOW)
    for question in (TONE, SCORE, GAP):
        own_questions.create(store, question)
    trace_id = f"{one.trace.trace_id:032x}"
    said = {"tone": "rude", "score": 3, "gap": "the opening hours of +49 171 2345678"}
    marks = tuple(Evidence(*mark) for mark in MARKS)
    submit(store, trace_id, Review(trace_id, (), answers=said, evidence=marks), anna, NOW)
    return trace_id


def _content(store: Store, trace_id: str) -> Review:
    (row,) = store.rows(select(reviews))
    return read_content(store, trace_id, row._mapping)


def test_what_people_say_is_kept(store: Store) -> None:
    """Categories, numbers, texts and marks; a second review replaces all of it, a label from elsewhere adds to it."""
    trace_id = _reviewed(store)
    content = _content(store, trace_id)
    assert content.answers == {"tone": "rude", "score": 3.0, "gap": "the opening hours of +49 171 2345678"}
    assert content.evidence[0] == Evidence(*MARKS[0])
    submit(store, trace_id, Review(trace_id, (Verdict("good", "fail"),)), 1, NOW, merge=True)
    assert _content(store, trace_id).answers == content.answers
    submit(store, trace_id, Review(trace_id, (), answers={"tone": "friendly"}), 1, NOW)
    content = _content(store, trace_id)
    assert (content.answers, content.evidence) == ({"tone": "friendly"}, ())


def test_answers_that_do_not_fit_are_refused(store: Store) -> None:
    """With the question's name and what would fit; nothing is kept."""
    trace_id = _reviewed(store)
    own_questions.close(store, "gap")
    for answers, mark, message in rows(__file__, "answers_that_do_not_fit"):
        evidence = (Evidence(*mark),) if mark else ()
        with pytest.raises(DataError, match=message):
            submit(store, trace_id, Review(trace_id, (), answers=answers, evidence=evidence), 1, NOW)
    assert _content(store, trace_id).answers["tone"] == "rude"


@pytest.mark.parametrize(("fields", "message"), rows(__file__, "questions_that_cannot_be"))
def test_questions_that_cannot_be(store: Store, fields: dict[str, Any], message: str) -> None:
    categories = tuple(Category(*each) for each in fields.get("categories", ()))
    with pytest.raises(DataError, match=message):
        own_questions.create(store, OwnQuestion(**fields | {"categories": categories}))
    assert own_questions.load(store, closed=True) == ()


def test_questions_are_asked_until_they_are_closed(store: Store) -> None:
    """In the order in which they were added, as they were; a name is taken for good."""
    named_queues.create(store, "legal")
    listed = OwnQuestion("risk", "Is there a risk?", "category", "legal", (Category("yes", "y"), Category("no", "n")))
    for question in (TONE, SCORE, listed):
        own_questions.create(store, question)
    assert own_questions.load(store) == (TONE, SCORE, listed)
    own_questions.close(store, "tone")
    assert [one.name for one in own_questions.load(store)] == ["score", "risk"]
    assert own_questions.load(store, closed=True)[0].closed
    with pytest.raises(DataError, match="there is a question 'tone' already"):
        own_questions.create(store, TONE)
    own_questions.close(store, "tone", closed=False)
    assert own_questions.load(store)[0] == TONE
    with pytest.raises(DataError, match="no question 'other'"):
        own_questions.close(store, "other")


def _row(store: Store, path: Path, options: Options | None = None) -> dict[str, Any]:
    export(store, path, options)
    (line,) = path.read_text(encoding="utf-8").splitlines()
    return json.loads(line)


def test_marks_are_evidence_in_the_export(store: Store, tmp_path: Path) -> None:
    """With place, words and verdict; answers as texts or numbers; the same as Parquet."""
    _reviewed(store)
    row = _row(store, tmp_path / "out.jsonl")
    assert row["evidence"] == [
        {"reviewer": "reviewer-1", "start": start, "end": end, "text": ANSWER[start:end], "verdict": verdict}
        for start, end, verdict in MARKS
    ]
    answers = {one["question"]: one["text"] or one["number"] for one in row["answers"]}
    assert answers == {"tone": "rude", "score": 3.0, "gap": "the opening hours of +49 171 2345678"}
    parquet = pytest.importorskip("pyarrow.parquet")
    export(store, tmp_path / "out.parquet")
    (same,) = parquet.read_table(tmp_path / "out.parquet").to_pylist()
    assert (same["evidence"], same["answers"]) == (row["evidence"], row["answers"])


def test_a_redacted_export_hides_what_a_mark_covers(store: Store, tmp_path: Path) -> None:
    """Places and words are those of the redacted answer; a mark whose words one's own function changed is left out."""
    _reviewed(store)
    row = _row(store, tmp_path / "out.jsonl", Options(redact=mask_pii))
    assert "2345678" not in json.dumps(row)
    for one in row["evidence"]:
        assert one["text"] == str(row["answer"])[one["start"] : one["end"]]
    assert row["evidence"][0]["text"].startswith("Call Jane on [")
    row = _row(store, tmp_path / "own.jsonl", Options(redact=lambda text: text.replace("Call Jane", "Call her")))
    assert [one["text"] for one in row["evidence"]] == ["It costs nothing."]
    assert str(row["answer"])[row["evidence"][0]["start"] :] == "It costs nothing."


def test_a_new_key_keeps_answers_and_marks(tmp_path: Path) -> None:
    """They are encrypted with the other texts of a review, under a first key and under the next one."""
    path = str(tmp_path / "logs.db")
    with closing(open_store(path)) as store:
        trace_id = _reviewed(store)
        before = _content(store, trace_id)
    first, second = "11" * 32, "22" * 32
    for key in (first, f"{second} {first}"):
        rekey(path, key)
        with closing(open_store(path, key=key)) as store:
            assert _content(store, trace_id) == before
            columns = select(reviews.c.answers, reviews.c.evidence, reviews.c.key)
            assert store.rows(columns) == [(None, None, Keys(key).ids[0])]
    assert b"opening hours" not in Path(path).read_bytes()


def test_agreement_on_numbers() -> None:
    """Krippendorff's alpha for intervals is that of his worked example (2011, D: .849), and 1 for equal answers."""
    units = rows(__file__, "krippendorff")
    result = alpha([[float(one) for one in unit if one is not None] for unit in units], squares)
    assert result.value == pytest.approx(0.849, abs=0.0005)
    assert result.units == 11
    assert result.interval[0] < 0.849 < result.interval[1]
    assert alpha([[1.0, 1.0], [2.0, 2.0]], squares).value == 1.0
    assert [alpha(units, squares).value for units in ([[1.0, 1.0], [1.0]], [])] == [None, None]


def test_agreement_on_own_questions(store: Store) -> None:
    """Counts of categories, means of numbers, and alpha over the logs that several people answered."""
    trace_id = _reviewed(store)
    (_, ben) = people(store, "ben", "cem")
    submit(store, trace_id, Review(trace_id, (), answers={"tone": "friendly", "score": 5}), ben, NOW + 10)
    tone, score, gap = measure_answers(store)
    assert (tone.answers, tone.counts) == (2, {"friendly": 1, "rude": 1})
    assert (score.answers, score.mean, score.alpha.units) == (2, 4.0, 1)
    assert (gap.answers, gap.counts, gap.mean, gap.alpha.value) == (1, {}, None, None)
    assert [one.answers for one in measure_answers(store, NOW + 5)] == [1, 1]
    assert measure_answers(store, until=NOW) == []
