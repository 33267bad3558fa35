"""The share that people would fail, from a store: what is drawn for review, and what the few verdicts say."""

import json
import random
from collections.abc import Mapping
from pathlib import Path

import pytest

import ragtrace
from ragtrace.cli import main
from ragtrace.console.chatlogs.store import Store
from ragtrace.console.review.fill_queue import chances
from ragtrace.console.review.policy import Policy
from ragtrace.console.review.queue import fill
from ragtrace.console.review.true_shares import estimate, estimates, sentence
from ragtrace.statistics.true_share import JudgedLog, TrueShare
from ragtrace.testing import make_trace
from tests.review.review_data import NOW, bad, evaluation, good, ids, judge_all, people, queued, scored

SINCE, UNTIL = NOW - 3_600, NOW


def filled(store: Store, count: int = 900) -> dict[str, str]:
    """A fifth is bad, scores know half of it, failures are sampled four times as often; what people say of each."""
    chance = random.Random(9)
    truth, made = {}, []
    for i in range(count):
        said = chance.random() < 0.2
        value = min(1.0, max(0.0, chance.gauss(0.45 if said else 0.75, 0.2)))
        p = 0.8 if value < 0.5 else 0.2
        score = scored(good, value, sampling_probability=p)
        log = evaluation(i, score, seed=9, sampling_probability=p, started=NOW - 1_000 + i / 10)
        truth[f"{log.trace.trace_id:032x}"] = "fail" if said else "pass"
        if chance.random() < p:
            made.append(log)
    store.write(made, [good, bad], now=NOW - 60)
    return truth


def judged(store: Store, truth: Mapping[str, str], quota: int = 120) -> TrueShare:
    """The share after a draw of this size was reviewed."""
    (user,) = people(store, "ann")
    fill(store, Policy(quota=quota, shares={"random": 1.0}, double=0), NOW)
    judge_all(store, user, truth.__getitem__)
    return estimate(store, "good", SINCE, UNTIL)


def test_few_verdicts_and_all_scores_say_what_people_would(store: Store) -> None:
    """The interval holds the share of all requests, sampled or not, and is narrower than that of verdicts alone."""
    truth = filled(store)
    share = judged(store, truth)
    fails = sum(said == "fail" for said in truth.values()) / len(truth)
    assert share.interval[0] <= fails <= share.interval[1]
    assert share.verdicts == 120
    assert share.scores > 250
    assert share.interval[1] - share.interval[0] < 0.95 * (share.alone[1] - share.alone[0])
    (each,) = estimates(store, SINCE, UNTIL)
    assert (each.app, each.evaluator, each.share) == ("shop", "good", share)
    assert estimates(store, SINCE, UNTIL, "other") == []


def test_versions_and_applications_are_kept_apart(store: Store) -> None:
    """Another version of the evaluator, another model and another time have no verdicts."""
    judged(store, filled(store, 300), 40)
    for known in ({"version": "2"}, {"model": "m", "app": "shop"}):
        assert estimate(store, "good", SINCE, UNTIL, **known) is not None
    for other in ({"version": "1"}, {"model": "n"}):
        assert estimate(store, "good", SINCE, UNTIL, **other) is None
    assert estimate(store, "good", SINCE - 9_000, SINCE) is None
    assert estimate(store, "bad", SINCE, UNTIL) is None


def test_the_draw_prefers_what_it_does_not_know() -> None:
    """Where people agree with a good score few logs are drawn; what was sampled rarely is drawn more often."""
    past = [JudgedLog(float(i < 10), 0.9 if i < 20 else 0.1, 1.0) for i in range(100)]
    rows = [(0.1 if i < 900 else 0.9, 1.0) for i in range(1_000)]
    parts = chances(rows, 100, past)
    assert sum(parts) == pytest.approx(100)
    assert parts[950] > 2.5 * parts[0]
    assert parts[0] >= 0.3 * 100 / 1_000, "the floor"
    heavy = chances([(0.5, 1.0), (0.5, 9.0), (None, 1.0)], 1, ())
    assert heavy[1] > 3 * heavy[0] == 3 * heavy[2]
    assert chances([(0.5, 1.0)] * 10, 5, ()) == [0.5] * 10
    assert max(chances(rows[:3], 50, past)) == 1.0


def test_each_draw_has_its_probability(store: Store) -> None:
    """The sum of 1/p over the drawn logs is near the number of stored ones, however unequal the draw is."""
    filled(store)
    fill(store, Policy(quota=100, shares={"random": 1.0}, double=0), NOW)
    rows = queued(store)
    assert len(rows) == 100
    assert len({row.probability for row in rows}) > 1
    assert sum(1 / row.probability for row in rows) == pytest.approx(len(ids(store)), rel=0.25)


def test_the_report_says_what_people_would(
    store_url: str, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`ragtrace report` reads the configured store; without one it says nothing of people."""
    share = judged(store, filled(store))
    journal = tmp_path / "journal.jsonl"
    runtime = ragtrace.init(evaluators=[good], report_file=str(journal), app="shop", workers=0)
    runtime.pipeline.submit(make_trace("question", ["text"], "answer", started=NOW - 60))
    runtime.close()
    monkeypatch.setenv("RAGTRACE_STORE", store_url)
    monkeypatch.setattr("time.time", lambda: NOW)
    assert main(["report", "--file", str(journal), "--json"]) == 0
    (line,) = json.loads(capsys.readouterr().out)["people"]
    assert line == f"shop: good: {sentence(share)}"
    monkeypatch.delenv("RAGTRACE_STORE")
    assert main(["report", "--file", str(journal), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["people"] == []


def test_a_sentence_says_what_is_missing() -> None:
    """With too few verdicts it says how many, later how many more."""
    share = TrueShare(0.12, (0.09, 0.16), 214, 8_270, (0.07, 0.18), 0.4, 97)
    assert sentence(share) == (
        "People would fail 12 % (9 to 16; 214 verdicts and 8,270 scores; 97 more verdicts would make it ± 3 points)."
    )
    few = TrueShare(0.5, (0.1, 0.9), 4, 80, (0.1, 0.9), 0.0, 400)
    assert sentence(few) == "People have judged 4 of these answers; 10 say which share they would fail."
    assert sentence(None) == ""
