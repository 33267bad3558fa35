"""The pages and routes about topics: what they show, to whom, and in which form it leaves."""

import csv
import io
import json
import time

import pytest

from ragtrace.console import audit
from ragtrace.console.chatlogs.store import Store
from ragtrace.console.pages.template_filters import percent, range_percent
from ragtrace.console.topics.grouper import Grouper, load_names
from ragtrace.console.topics.topic_figures import topic_history, topic_report
from tests.console.conftest import Console
from tests.topics.questions import CHECK, DAY, WordEmbedder, asked, fill, question

MAIL = "jane.doe@example.org"


def _filled(store: Store) -> float:
    """Two weeks of two topics, one of which became worse, with gaps among its failures."""
    now = time.time()
    number = fill(store, {"parcel": (60, 6), "refund": (60, 6)}, started=now - 10 * DAY)
    number = fill(store, {"parcel": (60, 6), "refund": (60, 20)}, number, started=now - 2 * DAY)
    gaps = [
        asked(number + n, f"{question('refund', n)} {MAIL}", True, started=now - DAY, cause="irrelevant_context")
        for n in range(20)
    ]
    store.write([*gaps, asked(999, "=cmd() parcel late delivery", True, started=now - 60, cause="right_refusal")])
    Grouper(store, embedder=WordEmbedder()).update(now)
    return now


def _refund(console: Console) -> tuple[int, str]:
    """The topic about refunds: its id and name."""
    return next((topic, name) for topic, name in load_names(console.store).items() if "refund" in name)


def test_the_page_says_which_questions_fail(console: Console) -> None:
    """Where most failures are and what became worse, with share, interval, causes and logs; the route says the same."""
    now = _filled(console.store)
    text = console.signed_in("rob").get("/questions").text
    report = topic_report(console.store, now - 7 * DAY, now, "faithfulness")
    refund = next(row for row in report.topics if "refund" in row.name)
    assert report.topics[0] is refund
    assert f"{percent(refund.part, 0)} of all failures in the last 7 days are questions of “{refund.name}”" in text
    figures = (percent(refund.failures.value), range_percent(refund.failures.interval), "▲ worse")
    for part in (*figures, f"1 topic became worse: “{refund.name}”.", f"/questions/{refund.id}?range=7d"):
        assert part in text
    assert f"/traces/{console.store.get(refund.worst[0]).trace.trace_id:032x}" in text  # type: ignore[union-attr]
    program = console.program("vera", "read")
    period = f"since={now - 7 * DAY}&until={now}"
    answer = program.get(f"/api/topics?evaluator=faithfulness&{period}").json()
    assert [row["name"] for row in answer["topics"]] == [row.name for row in report.topics]
    assert answer["topics"][0]["failures"]["count"] == report.topics[0].failures.count  # type: ignore[union-attr]
    assert program.get(f"/api/topics?evaluator=faithfulness&app=none&{period}").json()["topics"] == []
    assert program.get("/api/topics").status_code == 422


def test_topics_that_fail_alike_have_no_worst_one(console: Console) -> None:
    """The first sentence names no topic where none fails more often than chance explains."""
    now = time.time()
    fill(console.store, {"parcel": (60, 9), "refund": (60, 10)}, started=now - DAY)
    Grouper(console.store, embedder=WordEmbedder()).update(now)
    text = console.signed_in("rob").get("/questions").text
    assert "No topic fails clearly more often than all questions, of which 16 % fail." in text


def test_a_topic_has_a_page(console: Console) -> None:
    """With its worst logs, its gaps, and a curve with a table of its values beside those of all questions."""
    now = _filled(console.store)
    browser = console.signed_in("rob")
    refund, _ = _refund(console)
    text = browser.get(f"/questions/{refund}").text
    assert text.count("✗ fail") == 20
    assert all(part in text for part in (MAIL, "irrelevant context", "/questions?range=7d"))
    for missing in ("12345", "x", "%00"):
        assert browser.get(f"/questions/{missing}").status_code == 404
    steps = topic_history(console.store, refund, now - 14 * DAY, now, "faithfulness", steps=14)
    moved = {round((step.start - now) / DAY): step for step in steps if step.failures}
    assert set(moved) == {-11, -3, -2} or set(moved) == {-10, -2, -1}
    first = next(iter(moved.values()))
    for share in (first.failures, first.total):
        assert share.value == pytest.approx(0.1)  # type: ignore[union-attr]
    text = browser.get(f"/questions/{refund}?range=30d").text
    assert "over time, and of all questions" in text
    assert '<h2 id="moved">How it moved</h2>' in text
    for step in topic_history(console.store, refund, now - 30 * DAY, now, "faithfulness"):
        if step.failures is not None:
            assert percent(step.failures.value) in text


def test_traces_have_a_filter_for_the_topic(console: Console) -> None:
    """A topic's page leads to all its failures; list and route take the filter, and say what is no topic's id."""
    _filled(console.store)
    browser = console.signed_in("rob")
    refund, name = _refund(console)
    address = f"/traces?topic={refund}&amp;evaluator=faithfulness&amp;label=fail&amp;range=7d"
    assert address in browser.get(f"/questions/{refund}").text
    text = browser.get(address.replace("&amp;", "&")).text
    assert "40 found" in text
    assert f"{name[:40]}" in text
    assert "parcel" not in text.split('class="list')[1]
    program = console.program("rob", "read")
    assert len(program.get(f"/api/traces?topic={refund}&limit=200").json()["rows"]) == 140
    assert all("refund" not in row["query"] for row in program.get("/api/traces?topic=none").json()["rows"])
    assert program.get("/api/traces?topic=x").status_code == 422
    assert "topic is &#39;x&#39;" in browser.get("/traces?topic=x").text


def test_masked_roles_see_masked_questions(console: Console) -> None:
    """On every page and in every export, and the log says who read; no name of a topic has personal data."""
    _filled(console.store)
    vera, rob = console.signed_in("vera"), console.signed_in("rob")
    assert not any("jane" in name for name in load_names(console.store).values())
    files = [f"/api/knowledge-gaps?format={form}" for form in ("json", "jsonl", "csv")]
    for address in ("/questions", "/questions/gaps", f"/questions/{_refund(console)[0]}", *files):
        seen, masked = rob.get(address), vera.get(address)
        assert (seen.status_code, masked.status_code) == (200, 200)
        assert MAIL in seen.text, address
        assert ("jane" in masked.text, "[email]" in masked.text) == (False, True), address
    lines = [(line.user, line.action) for line in audit.read(console.store)]
    assert lines.count(("vera", "question.gaps")) == lines.count(("rob", "question.gaps")) == 4


def test_gaps_leave_as_files(console: Console) -> None:
    """CSV and JSON lines have the same rows; a text that begins like a formula is none in a spreadsheet."""
    _filled(console.store)
    program = console.program("rob", "read")
    lines = program.get("/api/knowledge-gaps?format=jsonl")
    assert lines.headers["content-type"].startswith("application/x-ndjson")
    assert 'filename="knowledge-gaps.jsonl"' in lines.headers["content-disposition"]
    rows = [json.loads(line) for line in lines.text.splitlines()]
    assert rows == program.get("/api/knowledge-gaps").json()
    table = program.get("/api/knowledge-gaps?format=csv")
    assert table.headers["content-type"].startswith("text/csv")
    cells = list(csv.DictReader(io.StringIO(table.text)))
    assert [cell["question"].removeprefix("'") for cell in cells] == [row["question"] for row in rows]
    assert [cell["cause"] for cell in cells if cell["question"].startswith("'=cmd()")] == ["right_refusal"]
    assert set(rows[0]) == set(cells[0])


@pytest.mark.parametrize("address", ["/questions", "/questions/gaps", "/questions?range=x&app=none&evaluator=none"])
def test_a_store_without_topics_says_so(console: Console, address: str) -> None:
    browser = console.signed_in("vera")
    assert browser.get(address).status_code == 200
    console.store.write([asked(n, question("refund", n), False, started=time.time() - 60) for n in range(9)], [CHECK])
    text = browser.get(address).text
    if address == "/questions":
        assert "No question of the last hour has been grouped" in text
        assert "0 of 9 questions are grouped" in text
