"""Named queues: which logs come into them, and who gets them."""

from collections import Counter
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import update

from ragtrace.console.chatlogs.key_change import rekey
from ragtrace.console.chatlogs.retention import Retention, delete_user, prune
from ragtrace.console.chatlogs.schema import items, users
from ragtrace.console.chatlogs.store import Store, open_store
from ragtrace.console.chatlogs.store_types import Filter, Task
from ragtrace.console.review import named_queues, queue
from ragtrace.console.review.dataset_export import Options, reviewed_rows
from ragtrace.console.review.policy import Policy
from ragtrace.console.review.queue import fill, load_verdicts, next_task, previous_review, release_all, submit
from ragtrace.errors import DataError
from ragtrace.records import Facts
from tests.review.review_data import NOW, evaluation, fill_store, good, judge_all, people, queued, review, scored
from tests.row_files import rows

ALL = Policy(quota=100, shares={"random": 1.0}, double=0)


def _two_apps(store: Store) -> None:
    """Ten logs of each of two applications, all of them in the queue."""
    apps = (Facts(app="shop"), Facts(app="desk"))
    store.write([evaluation(i, scored(good, i / 20), facts=apps[i % 2]) for i in range(20)], [good], now=NOW - 60)
    fill(store, ALL, NOW)


def _apps(store: Store, user: int, queue: str = "") -> list[str]:
    return [store.get(trace).trace.facts.app for trace in judge_all(store, user, lambda _: "fail", queue=queue)]


def test_a_filter_brings_waiting_logs_into_a_queue(store: Store) -> None:
    """Those that wait when the queue is created, and those that come later; only its assignees get them."""
    anna, ben = people(store, "anna", "ben")
    _two_apps(store)
    made = named_queues.create(store, "shop", filter=Filter(app="shop"), assignees=["anna"], now=NOW)
    assert (made.waiting, made.assignees) == (10, ("anna",))
    assert [queue.count_waiting(store, user, NOW) for user in (anna, ben)] == [20, 10]
    assert set(_apps(store, ben)) == {"desk"}
    (item, *_) = [i for i in queued(store) if i.state == "open"]
    submit(store, Task(item.id, item.trace, item.trace_id, "", 0.0), review(item.trace_id), ben, NOW)  # uninvited
    assert named_queues.find(store, "shop").waiting == 10
    assert _apps(store, anna, "shop") == ["shop"] * 10
    assert [queue.count_waiting(store, user, NOW) for user in (anna, ben)] == [0, 0]
    fill_store(store, [0.5] * 5, stored=NOW + 4_000, seed=1)
    fill(store, ALL, NOW + 8_000)
    assert named_queues.find(store, "shop").waiting == 5
    assert next_task(store, ben, NOW + 8_000) is None
    assert next_task(store, anna, NOW + 8_000).queue == "shop"


def test_a_queue_without_assignees_is_for_everybody(store: Store) -> None:
    """Without a named queue in the request a reviewer gets all that is open to them."""
    (anna,) = people(store, "anna")
    _two_apps(store)
    named_queues.create(store, "shop", filter=Filter(app="shop"), now=NOW)
    assert sorted(_apps(store, anna)) == ["desk"] * 10 + ["shop"] * 10


def test_closing_a_queue_frees_its_logs(store: Store) -> None:
    """They are everybody's again, no log comes there any more, and opening it takes them back."""
    _, ben = people(store, "anna", "ben")
    _two_apps(store)
    named_queues.create(store, "shop", filter=Filter(app="shop"), assignees=["anna"], now=NOW)
    assert named_queues.change(store, "shop", closed=True).waiting == 0
    fill(store, ALL, NOW + 60)
    assert named_queues.find(store, "shop").waiting == 0
    assert next_task(store, ben, NOW) is not None
    release_all(store, ben)
    assert named_queues.load(store, ben) == ()
    assert named_queues.change(store, "shop", closed=False).waiting == 10
    with pytest.raises(DataError, match="no queue 'legal'"):
        named_queues.change(store, "legal", closed=True)


def test_logs_are_sent_by_hand(store: Store) -> None:
    """A waiting log moves, a new one waits, a reviewed one waits for one more person: none of it changes a weight."""
    anna, ben = people(store, "anna", "ben")
    _two_apps(store)
    (first,) = judge_all(store, anna, lambda _trace: "fail", most=1)
    waiting = next(row.trace_id for row in queued(store) if row.state == "open")
    named_queues.create(store, "legal", now=NOW)
    before = [(row.trace, row.weight) for row in load_verdicts(store)]
    sent = [first, waiting, *fill_store(store, [0.3], seed=7), "f" * 32]
    assert named_queues.send(store, "legal", sent, NOW) == 3
    assert named_queues.send(store, "legal", sent, NOW) == 0
    assert [(row.trace, row.weight) for row in load_verdicts(store)] == before
    assert len(judge_all(store, anna, lambda _: "fail", queue="legal")) == 2
    assert judge_all(store, ben, lambda _: "fail", queue="legal") == [first]
    named_queues.change(store, "legal", closed=True)
    with pytest.raises(DataError, match="is closed"):
        named_queues.send(store, "legal", [waiting], NOW)


def test_queues_that_cannot_be(store: Store) -> None:
    people(store, "anna")
    store.execute(users.insert().values(name="vera", role="viewer", created=NOW))
    store.execute(users.insert().values(name="old", role="admin", created=NOW, disabled=True))
    cases = rows(__file__, "queues_that_cannot_be")
    for values, message in (*cases, ({"instructions": "x" * 2_001}, "2001 characters")):
        chosen = {"filter": Filter(**values["filter"])} if "filter" in values else {}
        with pytest.raises(DataError, match=message):
            named_queues.create(store, **{"name": "legal", **values, **chosen})
    assert named_queues.load(store) == ()
    named_queues.create(store, "legal")
    with pytest.raises(DataError, match="there is a queue 'legal' already"):
        named_queues.create(store, "legal")


def test_a_queue_loses_deleted_logs(tmp_path: Path) -> None:
    """Those of a forgotten user, and those that are too old; a new key leaves queues and their logs as they are."""
    path = str(tmp_path / "logs.db")
    with closing(open_store(path)) as store:
        facts = (Facts(app="shop", user_id="jane"), Facts(app="shop", user_id="bo"))
        store.write([evaluation(i, scored(good, i / 9), facts=facts[i % 2]) for i in range(10)], [good], now=NOW - 60)
        fill(store, ALL, NOW)
        made = named_queues.create(store, "shop", instructions="Look.", filter=Filter(app="shop"), now=NOW)
        assert made.waiting == 10
    rekey(path, "11" * 32)
    with closing(open_store(path, key="11" * 32)) as store:
        assert named_queues.find(store, "shop") == made
        delete_user(store, "jane")
        assert named_queues.find(store, "shop") == replace(made, waiting=5)
        assert len(queued(store)) == 5
        prune(store, Retention(days=1), NOW + 3 * 86_400)
        assert named_queues.find(store, "shop") == replace(made, waiting=0)
        assert queued(store) == []


def test_the_way_back(store: Store) -> None:
    """From each review to the one before it, by the same person."""
    anna, ben = people(store, "anna", "ben")
    _two_apps(store)
    assert previous_review(store, anna) is None
    done = [*(judge_all(store, anna, lambda _trace: "fail", NOW + n, 1)[0] for n in range(2))]
    judge_all(store, ben, lambda _trace: "fail", NOW + 2, 3)
    other = next(row.trace_id for row in queued(store) if row.trace_id not in done)
    assert [previous_review(store, anna, own) for own in (*done, other)] == [
        None,
        *(store.get(each).id for each in done),
    ]
    assert previous_review(store, anna) == store.get(done[1]).id


def test_the_end_of_a_day_gives_back_what_one_holds(store: Store) -> None:
    anna, ben = people(store, "anna", "ben")
    _two_apps(store)
    first = next_task(store, anna, NOW)
    assert next_task(store, anna, NOW, but=first.item) is not None
    assert next_task(store, ben, NOW) is not None
    assert release_all(store, anna) == 2
    assert release_all(store, anna) == 0
    assert sum(row.locked_by is not None for row in queued(store)) == 1


def test_a_skipped_log_can_be_sent_again(store: Store) -> None:
    (anna,) = people(store, "anna")
    _two_apps(store)
    task = next_task(store, anna, NOW)
    assert queue.skip(store, task.item, anna, "cannot tell", NOW)
    named_queues.create(store, "hard")
    assert named_queues.send(store, "hard", [task.trace_id], NOW) == 1
    again = next_task(store, anna, NOW, queue="hard")
    assert (again.trace, again.slot, again.reason) == (task.trace, 1, "requested")


def test_a_locked_log_stays_where_it_is(store: Store) -> None:
    """Routing leaves alone what somebody is looking at; after that it comes."""
    (anna,) = people(store, "anna")
    _two_apps(store)
    store.execute(update(items).values(locked_by=anna, locked_until=NOW + 900))
    assert named_queues.create(store, "shop", filter=Filter(app="shop"), now=NOW).waiting == 0
    fill(store, replace(ALL, shares={}), NOW + 901)
    assert named_queues.find(store, "shop").waiting == 10


def test_a_third_person_settles_a_conflict(store: Store) -> None:
    """Contradicted logs come once into a queue for a third person, whose word decides; closed, they are for all."""
    ann, ben, eve = people(store, "ann", "ben", "eve")
    logs = list(fill_store(store, [0.9, 0.8, 0.7]))
    for trace, labels in zip(logs, (("pass", "fail"), ("fail", "fail"), ("fail", "unsure")), strict=True):
        for user, label in zip((ann, ben), labels, strict=True):
            submit(store, trace, review(trace, label), user, NOW - 777_600 * (user == ann))
    assert fill(store, Policy(quota=0), NOW) == 1
    assert fill(store, Policy(quota=0), NOW + 60) == 0
    assert named_queues.find(store, named_queues.CONFLICTS).waiting == 1
    assert next_task(store, ann, NOW) is None
    for label, waiting in (("fail", 0), ("pass", 1)):  # she agrees, and then she does not
        submit(store, logs[0], review(logs[0], label), ann, NOW)
        fill(store, Policy(quota=0), NOW + 90)
        assert named_queues.find(store, named_queues.CONFLICTS).waiting == waiting
    task = next_task(store, eve, NOW, queue=named_queues.CONFLICTS)
    assert (task.trace_id, task.reason) == (logs[0], "conflict")
    submit(store, task, review(task.trace_id, "fail"), eve, NOW)
    assert fill(store, Policy(quota=0), NOW + 120) == 0
    (row,) = (row for row in reviewed_rows(store, Options(), Counter()) if row["id"] == logs[0])
    assert row["verdicts"] == [{"evaluator": "good", "label": "fail"}]
    named_queues.change(store, named_queues.CONFLICTS, closed=True)
    submit(store, logs[1], review(logs[1], "pass"), ben, NOW)
    assert fill(store, Policy(quota=0), NOW + 180) == 1
    task = next_task(store, eve, NOW + 180)
    assert (task.trace_id, task.queue) == (logs[1], "")
