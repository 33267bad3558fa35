"""The review queue: what comes into it and why, whose turn it is, and that no verdict is lost or counted twice."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import func, select

from ragtrace.console.chatlogs.schema import items, reviews, traces, verdicts
from ragtrace.console.chatlogs.store import Store, open_store
from ragtrace.console.chatlogs.store_types import Review, Task, Verdict
from ragtrace.console.review import topics
from ragtrace.console.review.agreement import measure_evaluator
from ragtrace.console.review.policy import CERTAIN, REASONS, Policy, draw, load_policy
from ragtrace.console.review.queue import (
    LOCK,
    assign,
    count_items,
    fill,
    filler,
    load_verdicts,
    next_task,
    release,
    skip,
    submit,
)
from ragtrace.console.review.webhooks import load_targets
from ragtrace.errors import DataError, SettingError
from ragtrace.evaluation import evaluator
from ragtrace.records import Feedback
from tests.review.review_data import (
    DAY,
    NOW,
    bad,
    evaluation,
    fill_store,
    good,
    ids,
    judge_all,
    people,
    queued,
    review,
    scored,
)

ONLY_RANDOM = Policy(quota=10, shares={"random": 1.0}, double=0)
NONE = replace(ONLY_RANDOM, shares={})


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"quota": -1}, "quota is -1"),
        ({"quota": True}, "quota is True"),
        ({"shares": {"random": 1.5}}, "random is 1.5"),
        ({"double": float("nan")}, "double is nan"),
        ({"shares": {"random": 0.6, "worst": 0.6}}, "add up to"),
        ({"shares": {"topics": 0.1}}, "shares has 'topics'"),
    ],
)
def test_invalid_policies_are_refused(values: dict[str, object], message: str) -> None:
    """With the name of what is wrong."""
    with pytest.raises(SettingError, match=message):
        Policy(**values)  # type: ignore[arg-type]


def test_the_environment_says_the_policy() -> None:
    """Number by number; an invalid one is refused with its name."""
    assert load_policy(environ={}) == Policy()
    values = {"RAGTRACE_CONSOLE_REVIEW_QUOTA": "100", "RAGTRACE_CONSOLE_REVIEW_SHARES": "random=0.5, worst=0.2"}
    assert load_policy(environ=values) == Policy(quota=100, shares={"random": 0.5, "worst": 0.2})
    for key, value, message in (
        ("QUOTA", "many", "QUOTA is 'many'"),
        ("SHARES", "random=0.9,worst=0.2", "add up"),
        ("SHARES", "random=half", "random in .* is 'half'"),
        ("QUOTA", "1.5", "number"),
    ):
        with pytest.raises(SettingError, match=message):
            load_policy(environ={f"RAGTRACE_CONSOLE_REVIEW_{key}": value})


def test_the_settings_file_sets_the_policy_and_the_targets(tmp_path: Path) -> None:
    """The tables [review] and [webhooks] of ragtrace.toml reach the policy and the webhooks; the environment wins."""
    file = tmp_path / "ragtrace.toml"
    file.write_text(
        '[review]\nquota = 30\nshares = {worst = 0.2}\nevaluators = ["toxicity"]\n'
        '[webhooks]\nurls = ["https://a.example/x"]\ncontent = true\n'
    )
    assert load_policy(environ={}, file=file) == Policy(quota=30, shares={"worst": 0.2}, evaluators=("toxicity",))
    environ = {"RAGTRACE_CONSOLE_REVIEW_QUOTA": "20"}
    assert load_policy(environ=environ, file=file).quota == 20
    assert load_policy({"quota": 10}, environ, file).quota == 10
    (target,) = load_targets({"RAGTRACE_CONSOLE_WEBHOOK_SECRET": "s" * 16}, file)
    assert (target.url, target.content, target.private) == ("https://a.example/x", True, False)


# --- what comes into the queue ----------------------------------------------------------------------------------------


def test_each_rule_picks_what_it_says(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """The worst logs, those at the threshold, those of which related evaluators disagree, those that users complained
    of, new questions; a log that two rules would pick is there once, and every item says why."""

    @evaluator(needs={"answer"}, threshold=0.5)
    def related(_trace: object) -> float:
        return 1.0

    made = [evaluation(i, scored(good, 0.9)) for i in range(60)]
    made[0] = evaluation(0, scored(good, 0.01))
    made[1] = evaluation(1, scored(good, 0.495))
    made[2] = evaluation(2, scored(good, 0.3), scored(related, 0.95))
    made[3] = evaluation(3, scored(good, 0.9), query="Wie kündige ich den Mietvertrag meines Autos?")
    store.write(made, [good, related], now=NOW - 60)
    from ragtrace.console.review.feedback import add_feedback

    hexes = [f"{e.trace.trace_id:032x}" for e in made]
    add_feedback(store, Feedback(hexes[4], -1), NOW, replace(NONE, quota=0))
    (user,) = people(store, "ann")
    for i in (10, 11, 12):
        submit(store, hexes[i], review(hexes[i], "pass"), user, NOW)
    shares = {"worst": 0.2, "threshold": 0.2, "disagreement": 0.2, "topic": 0.1, "feedback": 0.2}
    policy = Policy(quota=10, double=0, shares=shares)
    monkeypatch.setattr("ragtrace.console.review.rules.RELATED", (frozenset({"good", "related"}),))
    count = fill(store, policy, NOW)
    found = {row.trace_id: row.reason for row in queued(store)}
    assert count == len(found)
    assert found[hexes[4]] == "feedback"
    assert found[hexes[2]] == "disagreement"
    assert found[hexes[1]] == "threshold"
    assert found[hexes[0]] == "worst"
    assert found.get(hexes[3]) == "topic"
    assert set(found.values()) <= set(REASONS)
    assert fill(store, policy, NOW) == 0, "the rules have had their part of the morning"


def test_lower_is_worse_where_higher_is_better_and_the_other_way_round(store: Store) -> None:
    """The worst of each evaluator by turns, in its own direction."""
    made = [evaluation(i, scored(good, 0.4 - i / 100), scored(bad, 0.2)) for i in range(10)]
    made += [evaluation(10 + i, scored(good, 0.9), scored(bad, 0.6 + i / 100)) for i in range(10)]
    store.write(made, [good, bad], now=NOW - 60)
    fill(store, replace(NONE, quota=8, shares={"worst": 1.0}), NOW - NOW % DAY)
    found = {row.trace_id for row in queued(store)}
    assert found == {f"{made[i].trace.trace_id:032x}" for i in (8, 9, 18, 19)}


def test_the_quota_is_kept_and_opens_with_the_day(store: Store) -> None:
    """Half of it in the morning, all of it by the evening, as much again on the next day."""
    fill_store(store, [i / 1000 for i in range(400)])
    policy = replace(NONE, quota=40, shares={"worst": 1.0})
    midnight = NOW - NOW % DAY
    assert fill(store, policy, midnight) == 20
    assert fill(store, policy, midnight + 1) == 1
    assert fill(store, policy, midnight + DAY / 2) == 9
    assert fill(store, policy, midnight + DAY - 1) == 10
    assert fill(store, policy, midnight + DAY) == 20
    assert sum(sum(states.values()) for states in count_items(store, NOW).values()) == 60


def test_a_share_is_reviewed_twice(store: Store) -> None:
    """By a second slot, whatever the reason; which logs is decided by their ids alone."""
    fill_store(store, [0.1] * 600)
    fill(store, replace(NONE, quota=600, shares={"worst": 1.0}, double=0.3), NOW - NOW % DAY + DAY - 1)
    rows = queued(store)
    second = {row.trace_id for row in rows if row.slot == 1}
    assert {row.trace_id for row in rows if row.slot == 0} >= second
    assert second == {row.trace_id for row in rows if draw(row.trace_id, "second") < 0.3}
    assert 130 < len(second) < 230


def test_new_topics_without_models(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the words that questions share: none that was asked before in other words, each new one once."""
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    near, most = topics.nearness()
    seen = ["How long is the pump covered by the warranty?", "Who pays for returning a filter?"]
    fresh = [
        "Is the warranty of a pump longer than two years? How long is it covered?",
        "Which colours can the garden bench be ordered in?", "In which colours can I order the garden bench?",
        "Do you ship to Norway on Sundays?",
    ]  # fmt: skip
    assert sorted(topics.farthest(fresh, seen, 5, near, most)) == [1, 3]


def test_the_queue_fills_itself(store: Store) -> None:
    """While a console runs; a store that cannot be read for a moment is tried again."""
    fill_store(store, [0.1] * 5, stored=time.time() - 60)
    with filler(store, replace(NONE, quota=10, shares={"worst": 1.0}), every=0.05):
        until = time.monotonic() + 20
        while len(queued(store)) < 5:
            assert time.monotonic() < until
            time.sleep(0.02)


# --- the draw ---------------------------------------------------------------------------------------------------------


def test_the_draw_is_uniform_and_knows_its_probability() -> None:
    """Over a hundred thousand trace ids, also such as a sampler has let through; purposes are independent."""
    chance = random.Random(5)
    kept = [f"{chance.getrandbits(72):018x}{0xFFFFFFFFFFF000 | i & 0xFFF:014x}" for i in range(100_000)]
    drawn = [draw(trace, "random") for trace in kept]
    assert abs(sum(drawn) / len(drawn) - 0.5) < 0.004
    for tenth in range(10):
        assert abs(sum(tenth <= 10 * d < tenth + 1 for d in drawn) / len(drawn) - 0.1) < 0.004
    both = sum(draw(trace, "second") < 0.5 and d < 0.5 for trace, d in zip(kept, drawn, strict=True)) / len(drawn)
    assert abs(both - 0.25) < 0.006


def test_every_stored_trace_has_its_chance_once(store: Store) -> None:
    """Each draw is over what was stored since the last one; the probability is the quota's share over the traces of a
    day; what was stored before the first draw takes part in it; nothing is drawn twice."""
    fill_store(store, [0.9] * 100, stored=NOW - 60)
    assert fill(store, ONLY_RANDOM, NOW) == 10
    assert {row.probability for row in queued(store)} == {0.1}
    assert fill(store, ONLY_RANDOM, NOW + 60) == 0, "not before an hour of traffic has come"
    fill_store(store, [0.9] * 100, stored=NOW + 3000, seed=1)
    assert fill(store, ONLY_RANDOM, NOW + 3700) == 5
    assert Counter(row.probability for row in queued(store)) == {0.1: 10, 0.05: 5}
    fill_store(store, [0.9] * 4, stored=NOW + 3 * DAY, seed=2)
    assert fill(store, ONLY_RANDOM, NOW + 3 * DAY + 3600) == 4
    assert Counter(row.probability for row in queued(store))[1.0] == 4


def test_what_a_rule_picks_does_not_depend_on_the_draw(store: Store) -> None:
    """A log that was drawn and is among the worst counts as picked, keeps the draw's probability, and takes its place
    in the quota: else the weights would be wrong."""
    values = fill_store(store, [i / 100 for i in range(50)])
    fill(store, replace(ONLY_RANDOM, quota=25), NOW)
    drawn = {row.trace_id for row in queued(store)}
    policy = replace(NONE, quota=20, shares={"worst": 1.0})
    fill(store, policy, NOW - NOW % DAY + DAY - 1)
    rows = {row.trace_id: row for row in queued(store)}
    worst = set(sorted(values, key=values.__getitem__)[:20])
    assert {t for t, row in rows.items() if row.reason == "worst"} == worst
    assert worst & drawn, "the case that is tested"
    for trace, row in rows.items():
        assert (row.probability is not None) == (trace in drawn)


@pytest.mark.long
def test_agreement_is_unbiased_under_worst_first(store: Store) -> None:
    """An evaluator that flags a quarter of the bad answers and many good ones, reviewed worst first beside a draw: over
    40 draws the mean of the weighted recall and of the weighted share of bad answers lies within three standard errors
    of the truth; what the reviewed logs say by themselves is far off."""
    chance = random.Random(11)
    truth: dict[str, str] = {}
    made = []
    for i in range(1_000):
        value = chance.random()
        made.append(evaluation(i, scored(good, value)))
        truth[f"{made[-1].trace.trace_id:032x}"] = "fail" if chance.random() < 0.45 * (1 - value) else "pass"
    store.write(made, [good], now=NOW - 60)
    values = {f"{e.trace.trace_id:032x}": float(e.scores[0].value or 0) for e in made}
    failing = [t for t in truth if truth[t] == "fail"]
    recall = sum(values[t] < 0.5 for t in failing) / len(failing)
    (user,) = people(store, "ann")
    policy = replace(ONLY_RANDOM, quota=150, shares={"random": 0.4, "worst": 0.6})
    fill(store, policy, NOW - NOW % DAY + DAY - 1)
    judge_all(store, user, truth.__getitem__)
    picked = {row.trace for row in queued(store) if row.reason == "worst"}
    numbers = ids(store)
    p = 60 / 1_000
    weighted, naive = measure_evaluator(load_verdicts(store)), measure_evaluator(load_verdicts(store), weighted=False)
    assert naive.bad is not None
    assert naive.recall is not None
    assert weighted.bad is not None
    bad_share = len(failing) / len(truth)
    assert naive.bad.value > bad_share + 0.08
    assert naive.recall.value > recall + 0.1
    assert weighted.bad.interval is not None
    assert weighted.bad.interval[0] <= bad_share <= weighted.bad.interval[1]

    # The same store, drawn 40 times more: what `judged` would say of each draw.
    estimates = []
    for _ in range(40):
        rows = []
        for trace, number in numbers.items():
            certain = number in picked
            if certain or chance.random() < p:
                label = "fail" if values[trace] < 0.5 else "pass"
                rows.append(_row(number, label, truth[trace], 1.0 if certain else 1 / p))
        found = measure_evaluator(rows)
        assert found.recall is not None
        assert found.bad is not None
        estimates.append((found.recall.value, found.bad.value))
    for k, true in enumerate((recall, bad_share)):
        values_ = [e[k] for e in estimates]
        mean = sum(values_) / len(values_)
        spread = (sum((v - mean) ** 2 for v in values_) / (len(values_) - 1) / len(values_)) ** 0.5
        assert abs(mean - true) < 3 * spread + 0.005


def _row(trace: int, label: str, said: str, weight: float) -> object:
    from tests.review.review_data import verdict

    return verdict(trace, 0.5, label, said, weight)


def test_weights_follow_what_is_done(store: Store) -> None:
    """Picked logs weigh 1 once all of their day are done; before that only drawn ones count, and stand for those drawn
    ones that wait. A log that nobody drew and no rule of certainty picked weighs nothing."""
    fill_store(store, [i / 200 for i in range(100)])
    (user,) = people(store, "ann")
    policy = replace(ONLY_RANDOM, quota=40, shares={"random": 0.5, "worst": 0.5})
    fill(store, policy, NOW - NOW % DAY + DAY - 1)
    rows = queued(store)
    picked = [row for row in rows if row.reason == "worst"]
    both = [row for row in picked if row.probability is not None]
    rest = [row for row in rows if row.reason == "random"]
    assert (len(picked), len(both) + len(rest)) == (20, 20)
    for row in picked[1:]:
        submit(store, row.trace_id, review(row.trace_id), user, NOW)
    for row in rest[:4]:
        submit(store, row.trace_id, review(row.trace_id), user, NOW)
    drawn_done = 4 + sum(row in both for row in picked[1:])
    weights = {row.trace: row.weight for row in load_verdicts(store)}
    for row in picked[1:]:
        assert weights[row.trace] == pytest.approx(20 / drawn_done / 0.2 if row in both else 0.0)
    submit(store, picked[0].trace_id, review(picked[0].trace_id), user, NOW)
    weights = {row.trace: row.weight for row in load_verdicts(store)}
    assert {weights[row.trace] for row in picked} == {1.0}
    assert weights[rest[0].trace] == pytest.approx(len(rest) / 4 / 0.2)
    other = next(t for t in ids(store) if t not in {row.trace_id for row in rows})
    submit(store, other, review(other), user, NOW)
    assert {row.trace: row.weight for row in load_verdicts(store)}[ids(store)[other]] == 0.0


def test_a_log_is_done_by_either_of_its_reviews(store: Store) -> None:
    """One reviewer alone, who gets one slot of each log, whichever: all that was picked counts."""
    fill_store(store, [i / 200 for i in range(100)])
    (user,) = people(store, "ann")
    fill(
        store,
        replace(ONLY_RANDOM, quota=40, shares={"random": 0.5, "worst": 0.5}, double=0.5),
        NOW - NOW % DAY + DAY - 1,
    )
    judge_all(store, user, lambda _: "fail")
    picked = {row.trace for row in queued(store) if row.reason == "worst"}
    assert {row.weight for row in load_verdicts(store) if row.trace in picked} == {1.0}
    assert {row.weight for row in load_verdicts(store) if row.trace not in picked} == {5.0}


def test_the_probability_of_evaluation_is_in_the_weight(store: Store) -> None:
    """A trace that was evaluated with probability 0.25 stands for four times as many."""
    score = scored(good, 0.2, sampling_probability=0.25)
    store.write([evaluation(0, score)], [good], now=NOW - 60)
    (user,) = people(store, "ann")
    fill(store, replace(NONE, quota=5, shares={"worst": 1.0}), NOW)
    judge_all(store, user, lambda _: "fail")
    (row,) = load_verdicts(store, "good")
    assert (row.weight, row.reviewer, row.version) == (4.0, "ann", "2")
    assert load_verdicts(store, "bad") == []
    assert load_verdicts(store, since=NOW + 1) == []


# --- whose turn it is -------------------------------------------------------------------------------------------------


@pytest.fixture
def waiting(store: Store) -> Store:
    """A store with 30 logs in the queue, all of them twice."""
    fill_store(store, [i / 100 for i in range(30)])
    fill(store, replace(NONE, quota=30, shares={"worst": 1.0}, double=1.0), NOW - NOW % DAY + DAY - 1)
    return store


def test_a_lock_is_one_reviewers_until_it_expires(waiting: Store) -> None:
    """Asking again gives the same log; others get other ones; after the lock's time it is free; release frees it."""
    ann, bob = people(waiting, "ann", "bob")
    first = next_task(waiting, ann, NOW)
    assert first is not None
    assert next_task(waiting, ann, NOW + 1) == replace(first, locked_until=NOW + 1 + LOCK)
    second = next_task(waiting, bob, NOW)
    assert second is not None
    assert second.item != first.item
    assert release(waiting, first.item, bob) is False
    assert release(waiting, first.item, ann) is True
    free = next_task(waiting, ann, NOW)
    assert free is not None
    assert free.item == first.item
    cid = people(waiting, "cid")[0]
    late = next_task(waiting, cid, NOW + 2 * LOCK)
    assert late is not None
    assert late.item in {first.item, second.item}, "the most urgent ones are free again"


@pytest.mark.long
def test_nobody_gets_both_slots_of_a_log(waiting: Store) -> None:
    """One reviewer goes through the whole queue: 30 logs of 60 items; a second one gets the other slots."""
    ann, bob = people(waiting, "ann", "bob")
    done = judge_all(waiting, ann, lambda _: "fail")
    assert len(done) == len(set(done)) == 30
    assert count_items(waiting, NOW) == {"worst": {"open": 30, "locked": 0, "done": 30, "skipped": 0}}
    assert sorted(judge_all(waiting, bob, lambda _: "fail")) == sorted(done)
    assert next_task(waiting, ann, NOW) is None


def test_the_log_after_this_one_is_another_log(waiting: Store) -> None:
    """What the console fetches in advance is never the other slot of the log that is being judged."""
    (ann,) = people(waiting, "ann")
    for _ in range(5):
        task = next_task(waiting, ann, NOW)
        assert task is not None
        after = next_task(waiting, ann, NOW, but=task.item)
        assert after is not None
        assert after.trace != task.trace
        submit(waiting, task, review(task.trace_id), ann, NOW)


@pytest.mark.long
def test_fifty_reviewers_at_once(waiting: Store) -> None:
    """Fifty threads, some of them windows of one person: no error, no item twice, no person twice on a log, and every
    submitted verdict is there."""
    who = people(waiting, *(f"r{i}" for i in range(25)))
    errors: list[BaseException] = []
    kept: list[tuple[int, int]] = []

    def work(user: int) -> None:
        try:
            while (task := next_task(waiting, user, NOW)) is not None:
                submit(waiting, task, review(task.trace_id), user, NOW)
                kept.append((task.trace, user))
        except BaseException as error:  # noqa: BLE001 told below
            errors.append(error)

    threads = [threading.Thread(target=work, args=(user,)) for user in [*who, *who]]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    with waiting.reading() as connection:
        stored = [tuple(row) for row in connection.execute(select(reviews.c.trace, reviews.c.user))]
    assert len(stored) == len(set(stored))
    assert set(stored) == set(kept)
    assert count_items(waiting, NOW)["worst"] == {"open": 0, "locked": 0, "done": 60, "skipped": 0}
    assert set(Counter(trace for trace, _ in stored).values()) == {2}


def test_a_late_verdict_is_neither_lost_nor_doubled(store: Store) -> None:
    """Ann's lock expires, Bob reviews, Ann submits: two reviews, one item done, Ann's again in place of her first."""
    fill_store(store, [0.1])
    ann, bob = people(store, "ann", "bob")
    fill(store, replace(NONE, quota=5, shares={"worst": 1.0}), NOW)
    hers = next_task(store, ann, NOW)
    his = next_task(store, bob, NOW + LOCK + 1)
    assert hers is not None
    assert his is not None
    assert his.item == hers.item
    submit(store, his, review(his.trace_id, "pass"), bob, NOW + LOCK + 2)
    first = submit(store, hers, review(hers.trace_id, "fail"), ann, NOW + LOCK + 3)
    again = submit(store, hers, review(hers.trace_id, "unsure"), ann, NOW + LOCK + 4)
    assert first == again
    assert [(row.reviewer, row.verdict) for row in load_verdicts(store)] == [("bob", "pass"), ("ann", "unsure")]
    assert count_items(store, NOW)["worst"] == {"open": 0, "locked": 0, "done": 1, "skipped": 0}


def test_a_late_verdict_closes_the_other_slot(waiting: Store) -> None:
    """Where a log wants two reviews, the late one is the second; unless somebody holds it right now."""
    ann, bob, cid = people(waiting, "ann", "bob", "cid")
    hers = next_task(waiting, ann, NOW)
    assert hers is not None
    his = next_task(waiting, bob, NOW + LOCK + 1)
    assert his is not None
    assert his.trace == hers.trace
    submit(waiting, his, review(his.trace_id), bob, NOW + LOCK + 2)
    submit(waiting, hers, review(hers.trace_id), ann, NOW + LOCK + 3)
    states = [row.state for row in queued(waiting) if row.trace == hers.trace]
    assert states == ["done", "done"]
    assert next_task(waiting, cid, NOW + LOCK + 4) != hers


def test_skipping_needs_a_reason_and_the_lock(waiting: Store) -> None:
    """The log is out of the queue, with the reason; who does not hold it cannot skip it."""
    ann, bob = people(waiting, "ann", "bob")
    task = next_task(waiting, ann, NOW)
    assert task is not None
    with pytest.raises(DataError, match="reason"):
        skip(waiting, task.item, ann, "  ", NOW)
    assert skip(waiting, task.item, bob, "no", NOW) is False
    assert skip(waiting, task.item, ann, "not my language", NOW) is True
    assert skip(waiting, task.item, ann, "twice", NOW) is False
    row = next(row for row in queued(waiting) if row.id == task.item)
    assert (row.state, row.skip_reason, row.locked_by) == ("skipped", "not my language", None)
    assert task.item not in {t.item for t in [next_task(waiting, ann, NOW)] if t is not None}


def test_an_assigned_log_waits_for_its_reviewer(waiting: Store) -> None:
    """Nobody else gets it."""
    ann, bob = people(waiting, "ann", "bob")
    task = next_task(waiting, ann, NOW)
    assert task is not None
    release(waiting, task.item, ann)
    for row in queued(waiting):
        assert assign(waiting, row.id, bob)
    assert next_task(waiting, ann, NOW) is None
    assert next_task(waiting, bob, NOW) is not None
    assert assign(waiting, 10**9, bob) is False


def test_submitting_what_cannot_be_is_refused(waiting: Store) -> None:
    """Unknown labels, two verdicts on one evaluator, a trace that is not there: a clear error, nothing stored."""
    (ann,) = people(waiting, "ann")
    task = next_task(waiting, ann, NOW)
    assert task is not None
    for given, said in (
        ((Verdict("good", "great"),), "verdict 'great' is invalid"),
        ((Verdict("good", "pass"), Verdict("good", "fail")), "two verdicts"),
        ((Verdict("", "pass"),), "no evaluator"),
        ((Verdict("a\0b", "pass"),), "no evaluator"),
    ):
        with pytest.raises(DataError, match=said):
            submit(waiting, task, Review(task.trace_id, given), ann, NOW)
    for missing in ("0" * 32, "'; DROP TABLE reviews; --", 10**12):
        with pytest.raises(DataError, match="not in the store"):
            submit(waiting, missing, review("0" * 32), ann, NOW)
    assert load_verdicts(waiting) == []


def test_a_review_says_what_was_shown(waiting: Store) -> None:
    """Its verdict has the version and value of the newest score; comment and corrected answer are there; the trace is
    marked. An evaluator that nobody knows has no verdict."""
    (ann,) = people(waiting, "ann")
    task = next_task(waiting, ann, NOW)
    assert task is not None
    given = Review(
        task.trace_id, (Verdict("good", "fail"), Verdict("toxicity", "pass")), "why\0", "24 months", seconds=3.5
    )
    with pytest.raises(DataError, match="similar: toxicity"):
        submit(waiting, task, replace(given, verdicts=(Verdict("toxicty", "pass"),)), ann, NOW)
    own = submit(waiting, task, given, ann, NOW)
    with waiting.reading() as connection:
        found = connection.execute(select(reviews).where(reviews.c.id == own)).mappings().one()
        said = {row.evaluator: row for row in connection.execute(select(verdicts))}
        marked = connection.scalar(select(traces.c.reviewed).where(traces.c.id == task.trace))
    texts = waiting.unseal(task.trace_id, found, ("comment", "corrected"))
    assert (texts["corrected"], found["seconds"], found["item"]) == ("24 months", 3.5, task.item)
    assert (said["good"].version, said["toxicity"].version) == ("2", None)
    assert marked


def test_nobodys_reviews_are_all_kept(waiting: Store) -> None:
    """A source without a person may say something of one log several times."""
    trace = next(iter(ids(waiting)))
    for _ in range(2):
        submit(waiting, trace, review(trace), None, NOW)
    with waiting.reading() as connection:
        assert connection.scalar(select(func.count()).select_from(reviews)) == 2


# --- kill -9 ----------------------------------------------------------------------------------------------------------

REVIEWER = """
import sys
from ragtrace.console.review.queue import next_task, submit
from ragtrace.console.chatlogs.store import open_store
from tests.review.review_data import NOW, review
store, user = open_store(sys.argv[1]), int(sys.argv[2])
while (task := next_task(store, user, NOW)) is not None:
    submit(store, task, review(task.trace_id, comment="x" * 2000), user, NOW)
    print(task.trace_id, flush=True)
"""


@pytest.mark.process
def test_kill_9_during_review(waiting: Store, store_url: str) -> None:
    """Reviewers are killed at any moment, ten times: every verdict that was acknowledged is there, whole; the logs that
    they held come back when the lock expires."""
    who = people(waiting, *(f"r{i}" for i in range(5)))
    acknowledged: set[tuple[str, int]] = set()
    for k, user in enumerate(who):
        process = subprocess.Popen(
            [sys.executable, "-c", REVIEWER, store_url, str(user)],
            stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2],
        )  # fmt: skip
        assert process.stdout is not None
        for line in process.stdout:
            acknowledged.add((line.strip(), user))
            if len([1 for _, u in acknowledged if u == user]) == k + 1:
                os.kill(process.pid, signal.SIGKILL)
                break
        acknowledged.update((line.strip(), user) for line in process.stdout if len(line) == 33)
        process.wait()
        process.stdout.close()
    assert len(acknowledged) >= 10
    again = open_store(store_url)
    with again.reading() as connection:
        query = select(traces.c.trace_id, reviews.c.user, func.count(verdicts.c.evaluator))
        query = query.join(reviews, reviews.c.trace == traces.c.id)
        query = query.outerjoin(verdicts, verdicts.c.review == reviews.c.id).group_by(traces.c.trace_id, reviews.c.user)
        stored = {(row[0], row[1]): row[2] for row in connection.execute(query)}
    assert acknowledged <= set(stored)
    assert set(stored.values()) == {1}
    held = count_items(again, NOW)["worst"]["locked"]
    assert count_items(again, NOW + LOCK + 1)["worst"]["locked"] == 0
    assert count_items(again, NOW + LOCK + 1)["worst"]["open"] == count_items(again, NOW)["worst"]["open"] + held
    ann, bob = people(again, "ann", "bob")
    for user in (ann, bob):
        judge_all(again, user, lambda _: "pass", NOW + LOCK + 1)
    assert count_items(again, NOW + LOCK + 1)["worst"] == {"open": 0, "locked": 0, "done": 60, "skipped": 0}
    again.close()


def test_what_is_deleted_is_gone_from_the_queue(waiting: Store) -> None:
    """A user's data can be deleted while somebody reviews it: the verdict is refused with a clear error."""
    (ann,) = people(waiting, "ann")
    task = next_task(waiting, ann, NOW)
    assert isinstance(task, Task)
    with waiting.writing() as connection:
        connection.execute(traces.delete().where(traces.c.id == task.trace))
    with pytest.raises(DataError, match="not in the store"):
        submit(waiting, task, review(task.trace_id), ann, NOW)
    with waiting.reading() as connection:
        assert connection.scalar(select(func.count()).select_from(items).where(items.c.trace == task.trace)) == 0


def test_reasons_of_certainty_are_reasons() -> None:
    """The lists agree."""
    assert set(CERTAIN) < set(REASONS)
