"""Reviewed logs are scored again: whether the evaluator or the application changed."""

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from threading import Event

import pytest
from sqlalchemy import select, update

from ragtrace.console.chatlogs.queue_schema import anchor_scores
from ragtrace.console.chatlogs.schema import contents
from ragtrace.console.chatlogs.store import Store
from ragtrace.console.metrics import ReviewCollector
from ragtrace.console.review.anchors import LEAST, MOST, Drift, _without_memory, drifts, score_again
from ragtrace.console.review.queue import submit
from ragtrace.evaluation import evaluator
from ragtrace.records import Evaluation, Trace
from ragtrace.settings import load
from ragtrace.statistics.bets import ALARM
from tests.review.review_data import DAY, NOW, evaluation, good, people, review, scored

SETTINGS = load({"evaluators": [f"{__name__}:scripted=0.5"]}, environ={})
HOUR = 3_600.0
behaviour: Callable[[float], float] = float


@evaluator(needs={"answer"}, threshold=0.5, version="2")
def _scripted(trace: Trace) -> float:
    """A judge: the answer holds its score, and `behaviour` is what the judge makes of it."""
    if (score := behaviour(float(trace.answer))) < 0:
        raise TimeoutError
    return score


scripted = replace(_scripted, name="good")


def judged(store: Store, logs: Sequence[Evaluation], user: int, is_good: Callable[[int], object]) -> None:
    """Stores logs, and what a person says of each by its place."""
    store.write(logs, [good], now=NOW)
    for i, log in enumerate(logs):
        trace_id = f"{log.trace.trace_id:032x}"
        submit(store, trace_id, review(trace_id, "pass" if is_good(i) else "fail"), user, NOW)


def reviewed(store: Store, count: int = 80) -> None:
    """Logs that a person judged: a third is bad, and the judge is right about most of them."""
    (user,) = people(store, "ann")
    chance, logs = random.Random(4), []
    for i in range(count):
        is_low = (i % 3 == 0) == (chance.random() < 0.85)
        value = round(chance.uniform(0.0, 0.4) if is_low else chance.uniform(0.6, 1.0), 3)
        logs.append(evaluation(i, scored(good, value), answer=str(value), started=NOW - DAY + i))
    judged(store, logs, user, lambda place: place % 3)


def runs(store: Store, times: Sequence[float]) -> Drift:
    """Scores again at these times; what the last run says."""
    for moment in times:
        score_again(store, SETTINGS, now=moment)
    (drift,) = drifts(store, times[-1])
    return drift


def test_the_same_judge_and_fewer_good_answers_are_the_applications_change(store: Store) -> None:
    """Three runs at once are what later ones are compared with: a judge that scores as before did not change."""
    reviewed(store)
    first = runs(store, [NOW, NOW + 60, NOW + 120])
    assert (first.says, first.anchors) == ("unknown", MOST)
    assert score_again(store, SETTINGS, now=NOW + HOUR) == 0
    later = runs(store, [NOW + DAY + 120])
    assert (later.says, later.log_same >= ALARM > later.log_changed) == ("application", True)
    rows = store.rows(select(anchor_scores))
    assert [(row.evaluator, row.kind) for row in rows] == [("good", "2")] * 4 * MOST


@pytest.mark.parametrize("change", [lambda value: 0.9, lambda value: value - 0.1, lambda value: 1 - value])
def test_a_silent_change_of_the_judge_is_seen(
    store: Store, change: Callable[[float], float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the next run, and said for a week; from then on later runs are compared with the changed judge."""
    reviewed(store)
    assert runs(store, [NOW, NOW + 60, NOW + 120, NOW + DAY + 120]).says == "application"
    monkeypatch.setattr(f"{__name__}.behaviour", lambda value: max(0.0, change(value)))
    changed = runs(store, [NOW + 2 * DAY + 120])
    assert (changed.says, changed.changed, changed.kinds) == ("evaluator", NOW + 2 * DAY + 120, ("2",))
    assert changed.log_changed >= ALARM
    assert runs(store, [NOW + (3 + day) * DAY + 120 for day in range(5)]).says == "evaluator"
    assert runs(store, [NOW + (9 + day) * DAY + 120 for day in range(3)]).says == "application"


def test_another_version_is_run_at_once(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a calibration's version fails is compared with what was failed before, without waiting for the next day."""
    reviewed(store)
    runs(store, [NOW, NOW + 60, NOW + 120])
    monkeypatch.setattr(f"{__name__}.behaviour", lambda value: value**3)
    monkeypatch.setattr(f"{__name__}.another", replace(scripted, version="3"), raising=False)
    assert score_again(store, replace(SETTINGS, evaluators=(f"{__name__}:another",)), now=NOW + HOUR) == MOST
    (drift,) = drifts(store, NOW + HOUR)
    assert (drift.says, drift.kinds, drift.more > 0) == ("evaluator", ("2", "3"), True)


def test_too_few_failed_and_unknown_evaluators(store: Store) -> None:
    """Too few anchors, failed calls, unknown evaluators and deleted logs give no score; an end waits for no run."""
    reviewed(store, LEAST - 1)
    assert score_again(store, SETTINGS, now=NOW) == 0
    assert drifts(store, NOW) == []
    (user,) = people(store, "ben")
    judged(store, [evaluation(i, scored(good, 0.9), answer="-1") for i in range(30, 34)], user, lambda _: False)
    assert score_again(store, replace(SETTINGS, evaluators=()), now=NOW) == 0
    ended = Event()
    ended.set()
    assert score_again(store, SETTINGS, ended, now=NOW) == 0
    assert score_again(store, SETTINGS, now=NOW) == LEAST - 1
    assert [(drift.anchors, drift.says) for drift in drifts(store, NOW)] == [(LEAST - 1, "unknown")]


def test_anchors_stay_although_people_review_many_logs_a_day(store: Store) -> None:
    """Else nothing is left to compare with. An unreadable log is left out; a judge's costs add up over runs."""
    reviewed(store)
    runs(store, [NOW, NOW + 60, NOW + 120])
    (user,) = people(store, "ben")
    judged(store, [evaluation(i, scored(good, 0.9), answer="0.9") for i in range(100, 180)], user, lambda i: i % 2)
    first = store.scalar(select(anchor_scores.c.trace).order_by(anchor_scores.c.trace))
    store.execute(update(contents).where(contents.c.trace == first).values(documents="{"))
    later = runs(store, [NOW + DAY + 120])
    assert (later.says, later.anchors) == ("application", MOST - 1)
    # There were 27 bad logs at first; now half of the anchors are bad.
    assert len(set(store.rows(select(anchor_scores.c.trace)))) == MOST + 3
    used = _without_memory(load({"judge_store": "/tmp/judge.db"}, environ={}))
    assert (used.judge_store, used.judge_ledger) == ("", "/tmp/judge.db")


def test_prometheus_and_the_api_say_it(store: Store) -> None:
    """The log of each e-value, the number of anchors and the time of the last run."""
    reviewed(store)
    runs(store, [NOW, NOW + 60, NOW + 120, NOW + DAY + 120])
    families = {family.name: family for family in ReviewCollector(store, lambda: NOW + DAY + 300).collect()}
    logs = {sample.labels["against"]: sample.value for sample in families["ragtrace_anchor_log_e"].samples}
    assert logs["unchanged"] < 0 < ALARM < logs["moved"]
    assert [sample.value for sample in families["ragtrace_anchors"].samples] == [MOST]
    assert [s.value for s in families["ragtrace_anchor_run_timestamp_seconds"].samples] == [NOW + DAY + 120]
