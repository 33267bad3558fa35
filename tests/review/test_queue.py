"""The review queue: what comes into it and why, whose turn it is, and that no verdict is lost or counted twice."""

import math
import random
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from threading import Barrier

import pytest
from sqlalchemy import select

from ragtrace.console.chatlogs.schema import reviews, traces, verdicts
from ragtrace.console.chatlogs.store import Store
from ragtrace.console.chatlogs.store_types import Review, Task, Verdict
from ragtrace.console.review import queue, topics
from ragtrace.console.review.agreement import measure_evaluator
from ragtrace.console.review.feedback import add_feedback
from ragtrace.console.review.policy import REASONS, Policy, draw, load_policy
from ragtrace.console.review.queue import LOCK, count_items, fill, load_verdicts, next_task, release, skip, submit
from ragtrace.console.review.webhooks import load_targets
from ragtrace.errors import DataError, SettingError
from ragtrace.records import Feedback
from tests.databases import count
from tests.review import review_data
from tests.review.review_data import DAY, NOW, evaluation, fill_store, good, judge_all, people, queued, review, scored
from tests.row_files import rows
from tests.waiting import until

ONLY_RANDOM = Policy(quota=10, shares={"random": 1.0}, double=0)
NONE = replace(ONLY_RANDOM, shares={})
EVENING = NOW - NOW % DAY + DAY - 1


UNKNOWN = ({"double": math.nan}, "double is nan")


@pytest.mark.parametrize(("values", "message"), [UNKNOWN, *rows(__file__, "invalid_policies")])
def test_invalid_policies_are_refused(values: dict[str, object], message: str) -> None:
    with pytest.raises(SettingError, match=message):
        Policy(**values)  # type: ignore[arg-type]


def test_the_environment_says_the_policy() -> None:
    assert load_policy(environ={}) == Policy()
    values = {"RAGTRACE_CONSOLE_REVIEW_QUOTA": "100", "RAGTRACE_CONSOLE_REVIEW_SHARES": "random=0.5, worst=0.2"}
    assert load_policy(environ=values) == Policy(quota=100, shares={"random": 0.5, "worst": 0.2})
    for key, value, message in rows(__file__, "invalid_environments"):
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
    assert [load_policy(given, environ, file).quota for given in ({}, {"quota": 10})] == [20, 10]
    (target,) = load_targets({"RAGTRACE_CONSOLE_WEBHOOK_SECRET": "s" * 16}, file)
    assert (target.url, target.content, target.private) == ("https://a.example/x", True, False)


def test_each_rule_picks_what_it_says(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each rule brings its logs, with the reason; a log that two rules would pick is there once."""
    related = replace(good, name="related")
    made = [evaluation(i, scored(good, value)) for i, value in enumerate([0.01, 0.495, 0.3, 0.9] + [0.9] * 56)]
    made[2] = evaluation(2, scored(good, 0.3), scored(related, 0.95))
    made[3] = evaluation(3, scored(good, 0.9), query="Wie kündige ich den Mietvertrag meines Autos?")
    store.write(made, [good, related], now=NOW - 60)
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
    assert [found.get(one) for one in hexes[:5]] == ["worst", "threshold", "disagreement", "topic", "feedback"]
    assert set(found.values()) <= set(REASONS)
    assert fill(store, policy, NOW) == 0, "the rules have had their part of the morning"


def test_lower_is_worse_where_higher_is_better_and_the_other_way_round(store: Store) -> None:
    """The worst of each evaluator by turns, in its own direction."""
    bad = review_data.bad
    made = [evaluation(i, scored(good, 0.4 - i / 100), scored(bad, 0.2)) for i in range(10)]
    made += [evaluation(10 + i, scored(good, 0.9), scored(bad, 0.6 + i / 100)) for i in range(10)]
    store.write(made, [good, bad], now=NOW - 60)
    fill(store, replace(NONE, quota=8, shares={"worst": 1.0}), NOW - NOW % DAY)
    assert {row.trace_id for row in queued(store)} == {f"{made[i].trace.trace_id:032x}" for i in (8, 9, 18, 19)}


def test_the_quota_is_kept_and_opens_with_the_day(store: Store) -> None:
    """Half of it in the morning, all of it by the evening, as much again on the next day."""
    fill_store(store, [i / 1000 for i in range(400)])
    policy = replace(NONE, quota=40, shares={"worst": 1.0})
    seconds = (0, 1, DAY / 2, DAY - 1, DAY)
    assert [fill(store, policy, NOW - NOW % DAY + later) for later in seconds] == [20, 1, 9, 10, 20]
    assert sum(sum(states.values()) for states in count_items(store, NOW).values()) == 60


def test_a_share_is_reviewed_twice(store: Store) -> None:
    """By a second slot, whatever the reason; which logs is decided by their ids alone."""
    fill_store(store, [0.1] * 600)
    fill(store, replace(NONE, quota=600, shares={"worst": 1.0}, double=0.3), EVENING)
    rows = queued(store)
    second = {row.trace_id for row in rows if row.slot == 1}
    assert {row.trace_id for row in rows if row.slot == 0} >= second
    assert second == {row.trace_id for row in rows if draw(row.trace_id, "second") < 0.3}
    assert 130 < len(second) < 230


def test_new_topics_without_models(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the words that questions share: none that was asked before in other words, each new one once."""
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    assert sorted(topics.farthest(rows(__file__, "new"), rows(__file__, "old"), 5, *topics.nearness())) == [1, 3]


def test_the_queue_fills_itself(store: Store) -> None:
    """While a console runs; a store that cannot be read for a moment is tried again."""
    fill_store(store, [0.1] * 5, stored=time.time() - 60)
    with queue.filler(store, replace(NONE, quota=10, shares={"worst": 1.0}), every=0.05):
        until(lambda: len(queued(store)) >= 5)


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
    """A draw is over what came since the last one, with the quota's share of a day; nothing is drawn twice."""
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
    """A drawn log among the worst counts as picked and keeps the draw's probability: else weights would be wrong."""
    values = fill_store(store, [i / 100 for i in range(50)])
    fill(store, replace(ONLY_RANDOM, quota=25), NOW)
    drawn = {row.trace_id for row in queued(store)}
    fill(store, replace(NONE, quota=20, shares={"worst": 1.0}), EVENING)
    rows = {row.trace_id: row for row in queued(store)}
    worst = set(sorted(values, key=values.__getitem__)[:20])
    assert {t for t, row in rows.items() if row.reason == "worst"} == worst
    assert worst & drawn, "the case that is tested"
    for trace, row in rows.items():
        assert (row.probability is not None) == (trace in drawn)


@pytest.mark.long
def test_agreement_is_unbiased_under_worst_first(store: Store) -> None:
    """The weighted share of bad logs holds the truth; unweighted figures are far off."""
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
    fill(store, replace(ONLY_RANDOM, quota=150, shares={"random": 0.4, "worst": 0.6}), EVENING)
    judge_all(store, user, truth.__getitem__)
    weighted, naive = measure_evaluator(load_verdicts(store)), measure_evaluator(load_verdicts(store), weighted=False)
    bad_share = len(failing) / len(truth)
    assert naive.bad.value > bad_share + 0.08
    assert naive.recall.value > recall + 0.1
    assert weighted.bad.interval[0] <= bad_share <= weighted.bad.interval[1]


def weights_of(store: Store) -> dict[int, float]:
    return {row.trace: row.weight for row in load_verdicts(store)}


def test_weights_follow_what_is_done(store: Store) -> None:
    """Picked logs weigh 1 once their day is done, before that drawn ones stand for those that wait; others nothing."""
    fill_store(store, [i / 200 for i in range(100)])
    (user,) = people(store, "ann")
    fill(store, replace(ONLY_RANDOM, quota=40, shares={"random": 0.5, "worst": 0.5}), EVENING)
    rows = queued(store)
    picked = [row for row in rows if row.reason == "worst"]
    both = [row for row in picked if row.probability is not None]
    rest = [row for row in rows if row.reason == "random"]
    assert (len(picked), len(both) + len(rest)) == (20, 20)
    tasks = {row.id: Task(row.id, row.trace, row.trace_id, row.reason, NOW) for row in rows}
    for row in picked[1:] + rest[:4]:
        submit(store, tasks[row.id], review(row.trace_id), user, NOW)
    drawn_done = 4 + sum(row in both for row in picked[1:])
    weights = weights_of(store)
    for row in picked[1:]:
        assert weights[row.trace] == pytest.approx(20 / drawn_done / 0.2 if row in both else 0.0)
    submit(store, tasks[picked[0].id], review(picked[0].trace_id), user, NOW)
    weights = weights_of(store)
    assert {weights[row.trace] for row in picked} == {1.0}
    assert weights[rest[0].trace] == pytest.approx(len(rest) / 4 / 0.2)
    submit(store, rest[4].trace, review(rest[4].trace_id), user, NOW)  # chosen by its reviewer: no part for the others
    weights = weights_of(store)
    assert [weights[row.trace] for row in rest[3:5]] == [pytest.approx((len(rest) - 1) / 4 / 0.2), pytest.approx(5.0)]
    other = next(t for t in review_data.ids(store) if t not in {row.trace_id for row in rows})
    submit(store, other, review(other), user, NOW)
    assert weights_of(store)[review_data.ids(store)[other]] == 0.0


def test_a_log_is_done_by_either_of_its_reviews(store: Store) -> None:
    """One reviewer alone gets one slot of each log: all that was picked counts. Others get the other slots."""
    fill_store(store, [i / 200 for i in range(100)])
    ann, bob = people(store, "ann", "bob")
    fill(store, replace(ONLY_RANDOM, quota=40, shares={"random": 0.5, "worst": 0.5}, double=0.5), EVENING)
    rows = queued(store)
    assert sorted(judge_all(store, ann, lambda _: "fail")) == sorted({row.trace_id for row in rows})
    picked = {row.trace for row in rows if row.reason == "worst"}
    assert {row.weight for row in load_verdicts(store) if row.trace in picked} == {1.0}
    assert {row.weight for row in load_verdicts(store) if row.trace not in picked} == {5.0}
    second = sorted(row.trace_id for row in rows if row.slot == 1)
    assert sorted(judge_all(store, bob, lambda _: "fail")) == second != []


def test_the_probability_of_evaluation_is_in_the_weight(store: Store) -> None:
    """A trace that was evaluated with probability 0.25 stands for four times as many."""
    store.write([evaluation(0, scored(good, 0.2, sampling_probability=0.25))], [good], now=NOW - 60)
    (user,) = people(store, "ann")
    fill(store, replace(NONE, quota=5, shares={"worst": 1.0}), NOW)
    judge_all(store, user, lambda _: "fail")
    (row,) = load_verdicts(store, "good")
    assert (row.weight, row.reviewer, row.version) == (4.0, "ann", "2")
    assert load_verdicts(store, "bad") == []
    assert load_verdicts(store, since=NOW + 1) == []


@pytest.fixture
def waiting(store: Store) -> Store:
    """A store with 30 logs in the queue, all of them twice."""
    fill_store(store, [i / 100 for i in range(30)])
    fill(store, replace(NONE, quota=30, shares={"worst": 1.0}, double=1.0), EVENING)
    return store


def test_a_lock_is_one_reviewers_until_it_expires(waiting: Store) -> None:
    """Asking again gives the same log; others get other ones; after the lock's time it is free; release frees it."""
    ann, bob, cid = people(waiting, "ann", "bob", "cid")
    first = next_task(waiting, ann, NOW)
    assert next_task(waiting, ann, NOW + 1) == replace(first, locked_until=NOW + 1 + LOCK)
    second = next_task(waiting, bob, NOW)
    assert second.item != first.item
    assert [release(waiting, first.item, user) for user in (bob, ann)] == [False, True]
    assert next_task(waiting, ann, NOW).item == first.item
    assert next_task(waiting, cid, NOW + 2 * LOCK).item in {first.item, second.item}, (
        "the most urgent ones are free again"
    )


def test_the_log_after_this_one_is_another_log(waiting: Store) -> None:
    """What the console fetches in advance is never the other slot of the log that is being judged."""
    (ann,) = people(waiting, "ann")
    for _ in range(5):
        task = next_task(waiting, ann, NOW)
        assert next_task(waiting, ann, NOW, but=task.item).trace != task.trace
        submit(waiting, task, review(task.trace_id), ann, NOW)


@pytest.mark.long
def test_fifty_reviewers_at_once(waiting: Store) -> None:
    """With windows of one person among them: no error, no item or person twice, every submitted verdict is there."""
    who = people(waiting, *(f"r{i}" for i in range(25)))
    ready = Barrier(50)

    def work(user: int) -> list[tuple[int, int]]:
        kept = []
        ready.wait()
        while (task := next_task(waiting, user, NOW)) is not None:
            submit(waiting, task, review(task.trace_id), user, NOW)
            kept.append((task.trace, user))
        return kept

    with ThreadPoolExecutor(50) as threads:
        kept = {each for found in threads.map(work, [*who, *who]) for each in found}
    stored = waiting.rows(select(reviews.c.trace, reviews.c.user))
    assert len(stored) == len(set(stored))
    assert set(stored) == kept
    assert count_items(waiting, NOW)["worst"] == {"open": 0, "locked": 0, "done": 60, "skipped": 0}
    assert set(Counter(trace for trace, _ in stored).values()) == {2}


def test_a_late_verdict_is_neither_lost_nor_doubled(store: Store) -> None:
    """Ann's lock expires, Bob reviews, Ann submits: two reviews, one item done, Ann's again in place of her first."""
    fill_store(store, [0.1])
    ann, bob = people(store, "ann", "bob")
    fill(store, replace(NONE, quota=5, shares={"worst": 1.0}), NOW)
    hers = next_task(store, ann, NOW)
    his = next_task(store, bob, NOW + LOCK + 1)
    assert his.item == hers.item
    submit(store, his, review(his.trace_id, "pass"), bob, NOW + LOCK + 2)
    first = submit(store, hers, review(hers.trace_id, "fail"), ann, NOW + LOCK + 3)
    assert first == submit(store, hers, review(hers.trace_id, "unsure"), ann, NOW + LOCK + 4)
    assert [(row.reviewer, row.verdict) for row in load_verdicts(store)] == [("bob", "pass"), ("ann", "unsure")]
    assert count_items(store, NOW)["worst"] == {"open": 0, "locked": 0, "done": 1, "skipped": 0}


def test_a_late_verdict_closes_the_other_slot(waiting: Store) -> None:
    """Where a log wants two reviews, the late one is the second; unless somebody holds it right now."""
    ann, bob, cid = people(waiting, "ann", "bob", "cid")
    hers = next_task(waiting, ann, NOW)
    his = next_task(waiting, bob, NOW + LOCK + 1)
    assert his.trace == hers.trace
    submit(waiting, his, review(his.trace_id), bob, NOW + LOCK + 2)
    submit(waiting, hers, review(hers.trace_id), ann, NOW + LOCK + 3)
    assert [row.state for row in queued(waiting) if row.trace == hers.trace] == ["done", "done"]
    assert next_task(waiting, cid, NOW + LOCK + 4) != hers


def test_skipping_needs_a_reason_and_the_lock(waiting: Store) -> None:
    """The log is out of the queue, with the reason; who does not hold it cannot skip it."""
    ann, bob = people(waiting, "ann", "bob")
    task = next_task(waiting, ann, NOW)
    with pytest.raises(DataError, match="reason"):
        skip(waiting, task.item, ann, "  ", NOW)
    tries = ((bob, "no"), (ann, "not my language"), (ann, "twice"))
    assert [skip(waiting, task.item, user, reason, NOW) for user, reason in tries] == [False, True, False]
    row = next(row for row in queued(waiting) if row.id == task.item)
    assert (row.state, row.skip_reason, row.locked_by) == ("skipped", "not my language", ann)
    assert next_task(waiting, ann, NOW).item != task.item


def test_submitting_what_cannot_be_is_refused(waiting: Store) -> None:
    """Unknown labels, two verdicts on one evaluator, a trace that is not there: a clear error, nothing stored."""
    (ann,) = people(waiting, "ann")
    task = next_task(waiting, ann, NOW)
    for own, message in rows(__file__, "verdicts_that_cannot_be"):
        with pytest.raises(DataError, match=message):
            submit(waiting, task, Review(task.trace_id, tuple(Verdict(*each) for each in own)), ann, NOW)
    for missing in ("0" * 32, "'; DROP TABLE reviews; --", 10**12, replace(task, trace=10**12)):
        with pytest.raises(DataError, match="not in the store"):
            submit(waiting, missing, review("0" * 32), ann, NOW)
    assert load_verdicts(waiting) == []


def test_a_review_says_what_was_shown(waiting: Store) -> None:
    """It keeps the newest score's version, comment and answer and marks the trace; unknown evaluators are refused."""
    (ann,) = people(waiting, "ann")
    task = next_task(waiting, ann, NOW)
    verdicts_ = (Verdict("good", "fail"), Verdict("toxicity", "pass"))
    given = Review(task.trace_id, verdicts_, "why\0", "24 months", seconds=3.5)
    with pytest.raises(DataError, match="similar: toxicity"):
        submit(waiting, task, replace(given, verdicts=(Verdict("toxicty", "pass"),)), ann, NOW)
    own = submit(waiting, task, given, ann, NOW)
    (entry,) = waiting.rows(select(reviews).where(reviews.c.id == own))
    texts = waiting.unseal(task.trace_id, entry._mapping, ("comment", "corrected"))
    assert (texts["corrected"], entry.seconds, entry.item) == ("24 months", 3.5, task.item)
    versions = {row.evaluator: row.version for row in waiting.rows(select(verdicts))}
    assert versions == {"good": "2", "toxicity": None}
    assert waiting.scalar(select(traces.c.reviewed).where(traces.c.id == task.trace))


def test_nobodys_reviews_are_all_kept(waiting: Store) -> None:
    """A source without a person may say something of one log several times."""
    trace = next(iter(review_data.ids(waiting)))
    for _ in range(2):
        submit(waiting, trace, review(trace), None, NOW)
    assert count(waiting, reviews) == 2


def test_a_review_is_stored_whole_or_not_at_all(waiting: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stopped before its verdicts are written, as by a kill, it leaves neither a review nor an item that is done."""
    (ann,) = people(waiting, "ann")
    task = next_task(waiting, ann, NOW)
    monkeypatch.setattr("ragtrace.console.review.verdicts._write_verdicts", lambda *_, **__: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        submit(waiting, task, review(task.trace_id), ann, NOW)
    assert count(waiting, reviews) == 0
    assert count_items(waiting, NOW)["worst"] == {"open": 59, "locked": 1, "done": 0, "skipped": 0}
