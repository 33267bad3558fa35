"""What the overview begins with where something is wrong: what, who, since when, and what people would say."""

import time
from dataclasses import replace

import pytest

from ragtrace.console.chatlogs.store import Store
from ragtrace.console.chatlogs.store_types import Review, Verdict
from ragtrace.console.pages.incidents import open_incidents
from ragtrace.console.review import queue
from ragtrace.console.topics.grouper import Grouper
from ragtrace.records import Facts
from tests.console.sample_store import CHECKS, evaluation
from tests.console.test_pages import Read, client
from tests.review.review_data import people
from tests.topics.questions import WordEmbedder, fill

HOUR, DAY = 3_600.0, 86_400.0


def answers(  # noqa: PLR0917 a row of a table
    store: Store, first: int, count: int, value: float, begin: float, seconds: float, **facts: str
) -> None:
    """So many answers with this score, one after the other."""
    of = Facts(**{"app": "shop", "model": "m", "prompt_version": "7", **facts})  # type: ignore[arg-type]
    step = seconds / count
    store.write([evaluation(first + n, value, started=begin + step * n, facts=of) for n in range(count)], CHECKS)


def test_a_tenant_that_fell(store: Store) -> None:
    """With its name and failures; the other one is as before."""
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
        said = "fail" if (log := store.get(task.trace)) and log.trace.facts.prompt_version == "8" else "pass"
        queue.submit(store, task, Review(task.trace_id, (Verdict("faithfulness", said),)), user, now)
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
    """Each application is compared with itself."""
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
    """By the verdicts of a week beside those of the week before."""
    now = time.time()
    fill(store, {"refund": (40, 2), "parcel": (40, 2)}, started=now - 8 * DAY)
    fill(store, {"refund": (40, 30), "parcel": (40, 2)}, 100, started=now - 5 * DAY)
    Grouper(store, embedder=WordEmbedder()).update(now)
    (incident,) = open_incidents(store, "faithfulness", now)
    assert "refund" in incident.who
    assert "5.0 % to 75.0 %" in incident.what
    assert Read(client(store).get(incident.address).text).text.count("refund") > 3


def test_a_good_week_has_none(store: Store) -> None:
    """And the page has no empty list."""
    now = time.time()
    answers(store, 0, 300, 0.95, now - 6 * DAY, 6 * DAY)
    assert open_incidents(store, "faithfulness", now) == []
    assert "Open incidents" not in client(store).get("/").text
