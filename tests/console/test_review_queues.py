"""Named queues on the pages and in the API: who sets them up, who gets their logs, how a day ends."""

import json
import time
from dataclasses import replace

import pytest

from ragtrace.console import audit
from ragtrace.console.chatlogs.store import Store
from ragtrace.console.chatlogs.store_types import Filter, Review, Verdict
from ragtrace.console.pages.incidents import open_incidents
from ragtrace.console.review import named_queues, queue
from ragtrace.console.topics.grouper import Grouper
from ragtrace.records import Facts
from tests.console.conftest import Console
from tests.console.sample_store import CHECKS, evaluation
from tests.console.test_pages import Read, client
from tests.review.review_data import people
from tests.topics.questions import WordEmbedder, fill

QUEUES = "/api/review/queues"


def _with_logs(console: Console) -> None:
    console.store.write([evaluation(n) for n in range(12)], CHECKS)
    queue.fill(console.store, queue.Policy(quota=60, shares={"random": 1.0}, double=0.0), time.time() + 60)


def test_a_queue_by_form(console: Console) -> None:
    """An admin creates one, changes it, closes it; a reviewer who is not assigned has no such queue."""
    _with_logs(console)
    ada, rob = console.signed_in("ada"), console.signed_in("rob")
    assert ada.post("/review/queues", data={"do": "add", "name": "shop", "app": "shop", "assignee": "ada"}).is_redirect
    assert "shop" in ada.get("/review/queues").text
    assert named_queues.find(console.store, "shop").filter == Filter(app="shop")
    assert "/review?queue=shop" in ada.get("/review").text
    assert Read(ada.get("/review?queue=shop").text).form("data-review")["queue"] == "shop"
    assert rob.get("/review?queue=shop").status_code == 404
    assert "queue=shop" not in rob.get("/review").text
    changed = {"do": "change", "name": "shop", "instructions": "Look at <b>prices</b>.", "assignee": "rob"}
    assert ada.post("/review/queues", data=changed).is_redirect
    assert named_queues.find(console.store, "shop").filter == Filter()
    assert "Look at &lt;b&gt;prices&lt;/b&gt;." in rob.get("/review?queue=shop").text
    assert ada.post("/review/queues", data={"do": "close", "name": "shop"}).is_redirect
    assert rob.get("/review?queue=shop").status_code == 404


def test_logs_are_sent_from_the_list_and_from_a_page(console: Console) -> None:
    """By forms; they lead back to where they were, and nowhere else."""
    _with_logs(console)
    rob = console.signed_in("rob")
    named_queues.create(console.store, "legal")
    assert "all 6" in rob.get("/traces?app=shop").text
    trace = f"{evaluation(3).trace.trace_id:032x}"
    assert "legal" in rob.get(f"/traces/{trace}").text
    others = ((address, "/review") for address in ("https://attack.example/", "//attack.example"))
    for back, target in ((f"/traces/{trace}", f"/traces/{trace}"), *others):
        answer = rob.post("/review/send", data={"queue": "legal", "trace": trace, "back": back})
        assert (answer.status_code, answer.headers["location"]) == (303, target)
    assert named_queues.find(console.store, "legal").waiting == 1
    assert rob.post("/review/send", data={"trace": trace}).status_code == 422


def test_logs_of_the_list_get_one_verdict_or_become_a_data_set(console: Console) -> None:
    """Only ticked ones get the verdict, and keep what was said before. Without a tick the data set has all rows."""
    _with_logs(console)
    rob = console.signed_in("rob")
    ids = [f"{evaluation(n).trace.trace_id:032x}" for n in range(3)]
    first = Review(ids[0], (Verdict("toxicity", "pass"),), comment="Mine.")
    queue.submit(console.store, ids[0], first, 2, time.time())
    form = {"question": "faithfulness", "verdict": "fail", "trace": ids[:2], "row": ids, "back": "/traces?app=shop"}
    answer = rob.post("/review/bulk", data=form)
    assert (answer.status_code, answer.headers["location"]) == (303, "/traces?app=shop")
    said = {(row.trace, row.evaluator, row.verdict) for row in queue.load_verdicts(console.store)}
    assert {(evaluator, verdict) for _, evaluator, verdict in said} >= {("faithfulness", "fail")}
    assert len({trace for trace, evaluator, _ in said if evaluator == "faithfulness"}) == 2
    assert audit.read(console.store, action="review.submit")[0].detail == {"verdict": "fail", "logs": 2}
    for wrong in ({**form, "trace": []}, {**form, "question": ""}, {**form, "verdict": "good"}):
        assert rob.post("/review/bulk", data=wrong).status_code in (409, 422)
    partly = rob.post("/review/bulk", data={**form, "trace": [ids[0], "f" * 32]})
    assert (partly.status_code, "1 logs have it" in partly.text) == (409, True)
    for chosen, count in ((ids[1:2], 1), ([], 3)):
        export = rob.post("/traces/export", data={"trace": chosen, "row": ids})
        rows = [json.loads(line) for line in export.text.splitlines()]
        assert len(rows) == count
        assert {row["id"] for row in rows} == set(chosen or ids)
        assert all(row["query"] and row["contexts"] for row in rows)
    assert rob.post("/traces/export", data={"x": "y"}).text == ""


def test_requests_of_one_trace_are_judged_apart(console: Console) -> None:
    console.store.write([evaluation(n, trace_id=7, span_id=n + 1, started=time.time() - n) for n in range(3)], CHECKS)
    rob = console.signed_in("rob")
    ids = sorted(int(href.rpartition("/")[2]) for href in Read(rob.get("/traces").text).logs)
    form = {"question": "faithfulness", "verdict": "fail", "trace": [str(ids[0])], "back": "/traces?"}
    (first, again) = (rob.post("/review/bulk", data=form) and queue.load_verdicts(console.store) for _ in range(2))
    assert ([row.trace for row in first], again) == (ids[:1], first)  # repeated it changes nothing, nor its time
    queue.fill(console.store, queue.Policy(quota=60, shares={"random": 1.0}, double=0.0), time.time() + 60)
    sent = Read(rob.get("/review").text).form("data-review")
    assert rob.post("/review", data={**sent, "do": "submit", "v-faithfulness": "pass"}).status_code == 303
    task = rob.post("/api/review/next").json()["task"]
    said = {"trace_id": task["trace_id"], "item": task["item"], "verdicts": {"faithfulness": "pass"}}
    assert rob.post("/api/review/submit", json=said).status_code == 200
    assert {row.trace for row in queue.load_verdicts(console.store)} == set(ids)


def test_a_conversation_is_a_page(console: Console) -> None:
    """Its requests in their order, with questions and answers; a role that sees masked texts finds none of it."""
    started = time.time() - 900
    facts = Facts(app="shop", session_id="s/1")
    turns = [evaluation(n, started=started + 60 * n, facts=facts, query=f"Turn {n}?") for n in range(3)]
    console.store.write([*turns, evaluation(9)], CHECKS)
    rob = console.signed_in("rob")
    page = rob.get("/conversation?session=s/1").text
    text = Read(page).text
    places = [text.index(f"Turn {n}?") for n in range(3)]
    assert places == sorted(places)
    assert "3 requests" in text
    assert "<b>Turn 1?</b>" in page
    assert turns[0].trace.answer in text
    assert "parcel 9" not in text
    link = f"/traces/{console.store.get(f'{turns[0].trace.trace_id:032x}').id}"  # type: ignore[union-attr]
    assert link in page
    assert "/conversation?session=s%2F1" in rob.get(link).text
    assert "No such conversation" in rob.get("/conversation?session=none").text
    assert console.signed_in("vera").get("/conversation?session=s/1").status_code == 403


def test_queues_by_program(console: Console) -> None:
    """The API has the same: create, list, change, send, and the next log of one queue."""
    _with_logs(console)
    ada, rob = console.program("ada"), console.program("rob")
    made = ada.post(QUEUES, json={"name": "shop", "filter": {"app": "shop"}, "assignees": ["rob"]})
    assert (made.status_code, made.json()["waiting"]) == (201, 6)
    assert [one["name"] for one in rob.get(QUEUES).json()] == ["shop"]
    assert rob.post("/api/review/next?queue=shop").json()["task"]["queue"] == "shop"
    assert ada.post("/api/review/next?queue=shop").json()["task"] is None
    other = f"{evaluation(1).trace.trace_id:032x}"
    assert rob.post(f"{QUEUES}/shop/logs", json={"trace_ids": [other]}).json() == {"sent": 1}
    assert ada.patch(f"{QUEUES}/shop", json={"closed": True}).json()["waiting"] == 0
    assert ada.patch(f"{QUEUES}/shop", json={"wish": True}).status_code == 422
    assert ada.post(QUEUES, json={"name": "x", "filter": {"text": "word"}}).status_code == 422
    assert ada.post(QUEUES, json={"name": "y", "assignees": ["vera"]}).status_code == 409
    assert {"queue.save", "queue.send"} <= {line.action for line in audit.read(console.store)}


def test_done_for_today(console: Console) -> None:
    """The form gives back what one holds, and tells what was done."""
    _with_logs(console)
    rob = console.signed_in("rob")
    form = Read(rob.get("/review").text).form("data-review")
    rob.post("/review", data={**form, "v-faithfulness": "fail", "do": "submit", "seconds": "12"})
    rob.get("/review")
    assert sum(states["locked"] for states in queue.count_items(console.store).values()) == 1
    ended = rob.post("/review", data={"do": "done"})
    assert (ended.status_code, ended.headers["location"]) == (303, "/review/done")
    assert sum(states["locked"] for states in queue.count_items(console.store).values()) == 0
    page = rob.get("/review/done").text
    assert "You reviewed 1 log today" in page
    assert f"/review?trace={form['trace']}" in page


HOUR, DAY = 3_600.0, 86_400.0


def answers(  # noqa: PLR0917 a row of a table
    store: Store, first: int, count: int, value: float, begin: float, seconds: float, **facts: str
) -> None:
    """So many answers with this score, one after the other."""
    of = Facts(**{"app": "shop", "model": "m", "prompt_version": "7", **facts})  # type: ignore[arg-type]
    step = seconds / count
    store.write([evaluation(first + n, value, started=begin + step * n, facts=of) for n in range(count)], CHECKS)


def test_a_tenant_that_fell(store: Store) -> None:
    now = time.time()
    for n, (tenant, value) in enumerate((("acme", 0.95), ("globex", 0.95), ("acme", 0.1), ("globex", 0.95))):
        answers(store, 100 * n, 40, value, now - 2 * DAY + (n // 2) * DAY, DAY, tenant=tenant)
    assert [i.who for i in open_incidents(store, "faithfulness", now) if i.is_tenant] == ["shop: tenant acme"]
    assert len(client(store).get("/api/traces?tenant=acme&limit=200").json()["rows"]) == 80
    pages = [client(store, unmasked_roles=frozenset({role})).get("/?range=7d").text for role in ("admin", "reviewer")]
    assert ["tenant acme" in page for page in pages] == [True, False]


def test_a_prompt_version_that_fell_days_ago(store: Store) -> None:
    """With its first request, the sentence of Compare, and what people would say of its answers."""
    now = time.time()
    answers(store, 0, 60, 0.95, now - 6 * DAY, 3 * DAY)
    answers(store, 100, 60, 0.1, now - 2 * DAY, 2 * DAY, prompt_version="8")
    (user,) = people(store, "ann")
    queue.fill(store, queue.Policy(quota=60, shares={"random": 1.0}, double=0.0), now + 60)
    while (task := queue.next_task(store, user, now)) is not None:
        label = "fail" if (log := store.get(task.trace)) and log.trace.facts.prompt_version == "8" else "pass"
        queue.submit(store, task, Review(task.trace_id, (Verdict("faithfulness", label),)), user, now)
    (incident,) = open_incidents(store, "faithfulness", now)
    assert (incident.who, incident.is_outage) == ("prompt version 8", False)
    assert incident.since == pytest.approx(now - 2 * DAY)
    assert incident.what.startswith("prompt 8 fails 100 points more than prompt 7")
    assert incident.people.startswith("People would fail 100 %")
    page = client(store).get("/?range=24h").text
    assert 'class="note bad"' in page
    text = Read(page).text
    assert "Open incidents" in text
    assert incident.what in text
    assert Read(client(store).get(incident.address).text).text.count("prompt 8") > 0


def test_an_application_that_fell_today_and_its_neighbour(store: Store) -> None:
    now = time.time()
    for first, app, today in ((0, "shop", 0.1), (1_000, "desk", 0.95)):
        answers(store, first, 60, 0.95, now - 2 * DAY, DAY, app=app)
        answers(store, first + 100, 60, 0.95, now - DAY, 0.6 * DAY, app=app)
        answers(store, first + 200, 60, today, now - 0.4 * DAY, 0.4 * DAY, app=app)
    (incident,) = open_incidents(store, "faithfulness", now)
    assert incident.who == "shop"
    assert incident.since == pytest.approx(now - 0.4 * DAY, abs=HOUR)
    assert open_incidents(store, "faithfulness", now, "desk") == []


@pytest.mark.parametrize("kind", ["errors", "retrieval"])
def test_an_outage_is_red(store: Store, kind: str) -> None:
    """Errors, or a retrieval that finds nothing: at once, before all else."""
    now = time.time()
    answers(store, 0, 200, 0.95, now - DAY, DAY)
    more = {"facts": Facts(app="shop"), **({"error": "TimeoutError"} if kind == "errors" else {})}
    lost = [evaluation(1_000 + n, 0.95, started=now - 1_500 + 30 * n, **more) for n in range(50)]
    lost = [replace(each, cause="nothing_retrieved" if kind == "retrieval" else "none") for each in lost]
    store.write(lost, CHECKS)
    incident = open_incidents(store, "faithfulness", now)[0]
    assert (incident.who, incident.is_outage) == ("shop", True)
    assert ("end in an error" if kind == "errors" else "retrieval finds nothing") in incident.what
    assert incident.since == (pytest.approx(now - 1_500, abs=600) if kind == "errors" else None)
    assert '<tr class="outage">' in client(store).get("/").text
    assert client(store).get(incident.address).text.count("shop") > 10


def test_a_topic_that_fell(store: Store) -> None:
    now = time.time()
    fill(store, {"refund": (40, 2), "parcel": (40, 2)}, started=now - 8 * DAY)
    fill(store, {"refund": (40, 30), "parcel": (40, 2)}, 100, started=now - 5 * DAY)
    Grouper(store, embedder=WordEmbedder()).update(now)
    (incident,) = open_incidents(store, "faithfulness", now)
    assert "refund" in incident.who
    assert "5.0 % to 75.0 %" in incident.what
    assert Read(client(store).get(incident.address).text).text.count("refund") > 3


def test_a_good_week_has_none(store: Store) -> None:
    now = time.time()
    answers(store, 0, 300, 0.95, now - 6 * DAY, 6 * DAY)
    assert open_incidents(store, "faithfulness", now) == []
    assert "Open incidents" not in client(store).get("/").text
