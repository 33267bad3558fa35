"""Questions of one's own and marked parts of answers, on the pages and in the API, for people who see masked texts."""

import json
from dataclasses import replace

import pytest

from ragtrace.console.chatlogs.store_types import Review
from ragtrace.console.masks import mask_review, mask_trace, unmask_evidence
from ragtrace.console.pages.evidence import parse_marks
from ragtrace.console.review import own_questions
from ragtrace.console.review.own_questions import Category
from ragtrace.console.review.verdicts import read_reviews
from ragtrace.errors import DataError
from ragtrace.records import Evidence
from tests.console.conftest import SECRETS, TRACE, Console
from tests.console.sample_store import ask
from tests.console.test_pages import Read
from tests.row_files import rows, table

QUESTIONS = "/api/review/questions"
MAIL = SECRETS[0]


def test_by_form(evil: Console) -> None:
    """Without script: own questions, and sentences to mark; what was said is in form, trace and export again."""
    ask(evil.store)
    rob = evil.signed_in("rob")
    page = rob.get(f"/review?trace={TRACE}").text
    form = Read(page).form("data-review")
    answer = evil.store.get(TRACE).trace.answer  # type: ignore[union-attr]
    begin = answer.index("It is not so")
    mark = f"{begin}:{len(answer)}:unsupported"
    assert f'value="{mark}"' in page.partition("<noscript>")[2]
    said = {**form, "do": "submit", "q-tone": "rude", "q-score": "2.5", "q-gap": "<b>all", "mark": mark}
    assert rob.post("/review", data=said).status_code == 303
    again = rob.get(f"/review?trace={TRACE}").text
    assert f'name="mark" value="{mark}" checked' in again
    assert all(text in again for text in ('value="2.5"', "&lt;b&gt;all</textarea>"))
    trace = rob.get(f"/traces/{TRACE}").text
    assert "“It is not so.” <b>not supported</b>" in trace
    assert "&lt;b&gt;all" in trace
    row = json.loads(rob.get("/api/export").text)
    assert (row["evidence"][0]["text"], row["evidence"][0]["start"]) == ("It is not so.", begin)
    for wrong in ({"q-score": "many"}, {"q-tone": "x"}, {"mark": "0:9"}, {"mark": f"0:{len(answer) + 1}:unsupported"}):
        assert rob.post("/review", data={**form, "do": "submit", **wrong}).status_code == 409


def test_questions_by_form_and_by_program(console: Console) -> None:
    """Admins add them, with hot keys, close them and open them again."""
    ada = console.signed_in("ada")
    new = {"do": "add", **table(__file__, "new_question")}
    assert ada.post("/review/questions", data=new).is_redirect
    assert own_questions.load(console.store)[0].categories == (Category("kind", "i"), Category("rude"))
    assert "How is its tone?" in ada.get("/review/queues").text
    assert ada.post("/review/questions", data={**new, "name": "n", "kind": "number", "low": "x"}).status_code == 422
    assert ada.post("/review/questions", data={"do": "close", "name": "tone"}).is_redirect
    assert own_questions.load(console.store) == ()
    program = console.program("ada")
    made = program.post(QUESTIONS, json={"name": "score", "text": "How good?", "kind": "number", "low": 0, "high": 5})
    assert made.status_code == 201
    assert program.patch(f"{QUESTIONS}/tone", json={"closed": False}).status_code == 204
    assert [one["name"] for one in console.program("rob").get(QUESTIONS).json()] == ["tone", "score"]
    assert program.post(QUESTIONS, json={"name": "x", "text": "x", "kind": "category"}).status_code == 409


def test_by_program(evil: Console) -> None:
    """The API takes answers and evidence with a review, and says what does not fit."""
    ask(evil.store)
    rob = evil.program("rob")
    body = {"trace_id": TRACE, "answers": {"tone": "friendly", "score": 3}, "evidence": [{"start": 0, "end": 5}]}
    assert rob.post("/api/review/submit", json=body).status_code == 200
    (row,) = [json.loads(line) for line in rob.get("/api/export").text.splitlines()]
    assert row["evidence"][0]["verdict"] == "unsupported"
    for wrong, status in rows(__file__, "reviews_that_do_not_fit"):
        assert rob.post("/api/review/submit", json={"trace_id": TRACE, **wrong}).status_code == status, wrong


def test_a_mark_tells_nothing_of_what_is_under_a_mask(evil: Console) -> None:
    """It is kept as the same words; page and export have neither the words under a mask nor their length."""
    ask(evil.store)
    masked = evil.with_settings(unmasked_roles=frozenset({"admin"}))
    rob, ada = masked.signed_in("rob"), masked.signed_in("ada")
    answer, seen = evil.store.get(TRACE).trace.answer, mask_trace(evil.store.get(TRACE)).trace.answer  # type: ignore[arg-type, union-attr]
    start, end = seen.index("Write to"), seen.index("or call") - 1
    form = Read(rob.get(f"/review?trace={TRACE}").text).form("data-review")
    said = {**form, "do": "submit", "mark": f"{start}:{end}:contradicted", "q-gap": f"ask {MAIL}"}
    assert rob.post("/review", data=said).status_code == 303
    page = rob.get(f"/review?trace={TRACE}").text
    assert f'value="{start}:{end}:contradicted" checked' in page
    assert MAIL not in page
    again = {**Read(page).form("data-review"), "do": "submit", "q-gap": "ask [email]", "mark": said["mark"]}
    assert rob.post("/review", data=again).status_code == 303
    (mine,) = read_reviews(evil.store, evil.store.get(TRACE))  # type: ignore[arg-type]
    assert mine[1].answers["gap"] == f"ask {MAIL}", "what was under the mask is still there"
    (row,) = [json.loads(line) for line in rob.get("/api/export").text.splitlines()]
    assert row["evidence"][0]["text"] == seen[start:end]
    assert MAIL not in json.dumps(row)
    (whole,) = [json.loads(line) for line in ada.get("/api/export").text.splitlines()]
    assert whole["evidence"][0]["text"] == f"Write to {MAIL}"
    assert answer[whole["evidence"][0]["start"] : whole["evidence"][0]["end"]] == f"Write to {MAIL}"


@pytest.mark.parametrize(("begin", "end", "words"), rows(__file__, "marks_of_a_masked_answer"))
def test_marks_of_a_masked_answer(begin: str, end: str, words: str) -> None:
    """They cover whole masks, also from inside of one, and lead back to the same place in the masked answer."""
    answer = f"Write to {MAIL} or {MAIL} now."
    seen = "Write to [email] or [email] now."
    start = seen.index(begin)
    mark = Evidence(start, seen.index(end, start) + len(end), "unsupported")
    (own,) = unmask_evidence(answer, [mark])
    assert answer[own.start : own.end] == words
    (back,) = mask_review(Review(TRACE, (), evidence=(own,)), answer).evidence
    assert back.start <= mark.start
    assert back.end >= mark.end
    assert seen[back.start : back.end] == words.replace(MAIL, "[email]")


def test_a_mark_without_a_mask_stays(evil: Console) -> None:
    """Where nothing is masked, places are as they are; a mark that no form sends is refused."""
    (own,) = unmask_evidence("It is so.", [Evidence(0, 5, "unsupported")])
    assert (own.start, own.end) == (0, 5)
    with pytest.raises(DataError, match="start:end:verdict"):
        parse_marks(["1:2"])


def test_a_number_in_a_column_with_empty_rows_is_masked(evil: Console) -> None:
    """pandas makes floats of such a column; a telephone number in it is one still."""
    stored = evil.store.get(TRACE)
    trace = replace(stored.trace, attributes={"phone": 4915112345678.0, "score": 0.75, "rows": 12.0})  # type: ignore[union-attr]
    changed = replace(stored, evaluation=replace(stored.evaluation, trace=trace))  # type: ignore[type-var, union-attr]
    masked = dict(mask_trace(changed).trace.attributes)  # type: ignore[arg-type]
    assert "4915112345678" not in str(masked)
    assert (masked["score"], masked["rows"]) == (0.75, 12.0)
