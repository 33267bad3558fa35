"""Named queues on the pages and in the API: who sets them up, who gets their logs, how a day ends."""

from __future__ import annotations

import time

from ragtrace.console import audit
from ragtrace.console.chatlogs.store_types import Filter
from ragtrace.console.review import named_queues, queue
from tests.console.conftest import Console
from tests.console.sample_store import CHECKS, evaluation
from tests.console.test_pages import Read

QUEUES = "/api/review/queues"


def _with_logs(console: Console) -> None:
    console.store.write([evaluation(n) for n in range(12)], CHECKS)
    everything = queue.Policy(quota=60, shares={"random": 1.0}, double=0.0)
    queue.fill(console.store, everything, time.time() + 60)


def test_a_queue_by_form(console: Console) -> None:
    """An admin creates one, changes it, closes it; a reviewer who is not assigned has no such queue."""
    _with_logs(console)
    ada, rob = console.signed_in("ada"), console.signed_in("rob")
    assert ada.post("/review/queues", data={"do": "add", "name": "shop", "app": "shop", "assignee": "ada"}).is_redirect
    page = ada.get("/review/queues").text
    assert "shop" in page
    assert named_queues.find(console.store, "shop").filter == Filter(app="shop")
    assert "/review?queue=shop" in ada.get("/review").text
    form = Read(ada.get("/review?queue=shop").text).form("data-review")
    assert form["queue"] == "shop"
    assert rob.get("/review?queue=shop").status_code == 404
    assert "queue=shop" not in rob.get("/review").text
    changed = {"do": "change", "name": "shop", "instructions": "Look at <b>prices</b>.", "assignee": "rob"}
    assert ada.post("/review/queues", data=changed).is_redirect
    assert named_queues.find(console.store, "shop").filter == Filter()
    assert "Look at &lt;b&gt;prices&lt;/b&gt;." in rob.get("/review?queue=shop").text
    assert ada.post("/review/queues", data={"do": "close", "name": "shop"}).is_redirect
    assert rob.get("/review?queue=shop").status_code == 404
    for path, data in (("/review/queues", {"name": "x"}), ("/review/send", {"queue": "shop"})):
        assert console.stranger().post(path, data=data).status_code == 303  # to the sign-in
        assert console.signed_in("vera").post(path, data=data).status_code == 403
    assert rob.get("/review/queues").status_code == 403
    assert rob.post("/review/queues", data={"name": "mine"}).status_code == 403
    del ada.headers["x-csrf-token"]
    assert ada.post("/review/queues", data={"name": "forged"}).status_code == 403


def test_logs_are_sent_from_the_list_and_from_a_page(console: Console) -> None:
    """By forms; they lead back to where they were, and nowhere else."""
    _with_logs(console)
    rob = console.signed_in("rob")
    named_queues.create(console.store, "legal")
    assert "Send these 6 to" in rob.get("/traces?app=shop").text
    trace = f"{evaluation(3).trace.trace_id:032x}"
    assert "legal" in rob.get(f"/traces/{trace}").text
    for back, target in (
        (f"/traces/{trace}", f"/traces/{trace}"),
        ("https://attack.example/", "/review"),
        ("//attack.example", "/review"),
    ):
        answer = rob.post("/review/send", data={"queue": "legal", "trace": trace, "back": back})
        assert (answer.status_code, answer.headers["location"]) == (303, target)
    assert named_queues.find(console.store, "legal").waiting == 1
    assert rob.post("/review/send", data={"trace": trace}).status_code == 422


def test_queues_by_program(console: Console) -> None:
    """The API has the same: create, list, change, send, and the next log of one queue."""
    _with_logs(console)
    ada, rob = console.program("ada"), console.program("rob")
    made = ada.post(QUEUES, json={"name": "shop", "filter": {"app": "shop"}, "assignees": ["rob"]})
    assert made.status_code == 201
    assert made.json()["waiting"] == 6
    assert rob.post(QUEUES, json={"name": "mine"}).status_code == 403
    assert [one["name"] for one in rob.get(QUEUES).json()] == ["shop"]
    assert rob.post("/api/review/next?queue=shop").json()["task"]["queue"] == "shop"
    assert ada.post("/api/review/next?queue=shop").json()["task"] is None
    other = f"{evaluation(1).trace.trace_id:032x}"
    assert rob.post(f"{QUEUES}/shop/logs", json={"trace_ids": [other]}).json() == {"sent": 1}
    assert ada.patch(f"{QUEUES}/shop", json={"closed": True}).json()["waiting"] == 0
    assert ada.patch(f"{QUEUES}/shop", json={"wish": True}).status_code == 422
    assert ada.post(QUEUES, json={"name": "x", "filter": {"text": "word"}}).status_code == 422
    assert ada.post(QUEUES, json={"name": "y", "assignees": ["vera"]}).status_code == 409
    actions = {line.action for line in audit.read(console.store)}
    assert {"queue.save", "queue.send"} <= actions


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
    assert console.signed_in("vera").get("/review/done").status_code == 403
