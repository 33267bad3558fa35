"""The pipeline: bounded, accounted for, unharmed by what it runs."""

import asyncio
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from ragtrace.evaluation import Evaluator, evaluator
from ragtrace.live.breaker import Breaker, Runners
from ragtrace.live.counts import Counts
from ragtrace.live.pipeline import Limits, Pipeline
from ragtrace.records import Evaluation, Score, Trace
from ragtrace.sampling import errors, ratio
from ragtrace.testing import Capture, Clock, make_trace
from tests.online.conftest import Make
from tests.waiting import in_fork


@evaluator(needs={"answer"}, threshold=0.5)
def length(trace: Trace) -> float:
    return min(1.0, len(trace.answer) / 100)


@pytest.fixture
def capture() -> Capture:
    return Capture()


def scores_of(evaluation: Evaluation) -> dict[str, Score]:
    return {score.name: score for score in evaluation.scores}


def test_a_trace_is_scored_in_another_thread(make: Make, capture: Capture) -> None:
    threads = []

    @evaluator
    def where(trace: Trace) -> bool:
        threads.append(threading.current_thread())
        return True

    pipeline = make([length, where], capture)
    trace = make_trace(answer="x" * 80)
    assert pipeline.submit(trace)
    (evaluation,) = capture.wait(1)
    assert evaluation.trace == trace
    assert scores_of(evaluation)["length"] == Score("length", 0.8, "pass")
    assert scores_of(evaluation)["where"].label == "pass"
    assert evaluation.status == "scored"
    assert threads[0] is not threading.main_thread()
    assert threads[0].daemon


def test_a_hanging_check_times_out_and_the_rest_goes_on(make: Make, capture: Capture) -> None:
    """A check that hangs costs its timeout and a score with `error`, twice; then it is not called while it hangs."""
    release = threading.Event()
    calls = []

    @evaluator(timeout=0.05)
    def hangs(trace: Trace) -> bool:
        calls.append(1)
        release.wait(30)
        return True

    pipeline = make([hangs, length], capture, limits=Limits(wait=0.01, batch=4))
    for _ in range(8):
        pipeline.submit(make_trace())
    evaluations = capture.wait(8)
    release.set()
    found = [scores_of(e)["hangs"].error for e in evaluations]
    assert found.count("timeout") == len(calls) == 2
    assert found.count("circuit_open") == 6
    assert all(scores_of(e)["length"].value is not None for e in evaluations)


def test_healthy_calls_in_several_workers_do_not_count_as_hanging(make: Make, capture: Capture) -> None:
    """Three workers may be in the same evaluator at the same time: only a call that has timed out hangs."""
    together = threading.Barrier(3, timeout=30)

    @evaluator(timeout=60)
    def meets(trace: Trace) -> bool:
        together.wait()
        return True

    pipeline = make([meets], capture, limits=Limits(wait=0.0, batch=1, workers=3))
    for _ in range(3):
        pipeline.submit(make_trace())
    assert [scores_of(e)["meets"].error for e in capture.wait(3, 40)] == [None, None, None]


def test_a_check_that_keeps_failing_rests() -> None:
    """After five failures of several sources an evaluator rests for thirty seconds, then may try once more."""
    clock, calls = Clock(), []

    def broken(trace: Trace) -> bool:
        calls.append(1)
        raise RuntimeError

    check, breaker, runners = evaluator(broken), Breaker(clock), Runners()
    for n in range(8):
        breaker.run(check, [make_trace(trace_id=n)], [0], runners)
    assert len(calls) == 5
    clock.tick(31)
    results = breaker.run(check, [make_trace(), make_trace()], [0, 1], runners)
    assert [scores[0].error for scores in results] == ["RuntimeError", "circuit_open"]


def test_async_checks_run_together(make: Make, capture: Capture) -> None:
    together, most = 0, 0

    @evaluator
    async def waits(trace: Trace) -> bool:
        nonlocal together, most
        together += 1
        most = max(most, together)
        await asyncio.sleep(0.05)
        together -= 1
        return True

    pipeline = make([waits], capture, limits=Limits(batch=5, wait=5.0))
    for _ in range(5):
        pipeline.submit(make_trace())
    capture.wait(5)
    assert most == 5


def test_retries_help_where_they_can(make: Make, capture: Capture) -> None:
    tries = {"network": 0, "bug": 0}

    @evaluator(retries=2)
    def network(trace: Trace) -> bool:
        tries["network"] += 1
        if tries["network"] < 3:
            raise ConnectionError
        return True

    @evaluator(retries=2)
    def bug(trace: Trace) -> bool:
        tries["bug"] += 1
        raise KeyError

    pipeline = make([network, bug], capture)
    pipeline.submit(make_trace())
    scores = scores_of(capture.wait(1)[0])
    assert (scores["network"].label, scores["bug"].error) == ("pass", "KeyError")
    assert tries == {"network": 3, "bug": 1}


def test_what_does_not_apply_is_not_eligible(make: Make, capture: Capture) -> None:
    @evaluator(needs={"reference"})
    def correct(trace: Trace) -> bool:
        return trace.answer == trace.reference

    pipeline = make([correct, length], capture)
    pipeline.submit(make_trace())
    pipeline.submit(make_trace(answer="a", reference="a"))
    assert [len(e.scores) for e in capture.wait(2)] == [1, 2]
    assert pipeline.counts()["correct"] == Counts(1, 0, 1, 0, 0)


def blocked() -> tuple[Evaluator, threading.Event, threading.Event]:
    started, release = threading.Event(), threading.Event()

    @evaluator(timeout=60)
    def blocks(trace: Trace) -> bool:
        started.set()
        release.wait(60)
        return True

    return blocks, started, release


@pytest.mark.parametrize(
    ("limits", "answer", "reason"),
    [
        (Limits(items=3, batch=1, wait=0.0), "short", "queue_full"),
        (Limits(items=100, bytes=10_000, batch=1, wait=0.0), "x" * 4_000, "queue_bytes"),
    ],
)
def test_the_queue_is_bounded(make: Make, capture: Capture, limits: Limits, answer: str, reason: str) -> None:
    check, started, release = blocked()
    pipeline = make([check], capture, limits=limits)
    pipeline.submit(make_trace(answer=answer))
    assert started.wait(60)
    accepted = [pipeline.submit(make_trace(answer=answer)) for _ in range(20)]
    stats = pipeline.stats()
    assert stats.queued <= limits.items
    assert stats.queued_bytes <= limits.bytes
    assert stats.dropped == {reason: accepted.count(False)}
    assert accepted.count(False) > 0
    assert stats.received == 21 == stats.queued + stats.running + sum(stats.dropped.values())
    release.set()
    assert pipeline.flush(60)
    counts = pipeline.counts()["blocks"]
    assert counts == Counts(21, 0, 1 + accepted.count(True), 0, accepted.count(False))
    dropped = [e for e in capture.evaluations if e.status == "dropped"]
    assert len(dropped) == accepted.count(False)
    assert all(e.reason == reason and not e.trace.answer and not e.scores for e in dropped)


def test_probability_travels_and_evaluators_sample_further(make: Make, capture: Capture) -> None:
    rare = replace(length, name="rare", sampler=ratio(0.25))
    pipeline = make([length, rare], capture, sampler=ratio(0.5))
    for r in (0.1, 0.6, 0.9):
        pipeline.submit(make_trace(trace_id=int(r * 2**56)))
    evaluations = capture.wait(2)
    assert [e.trace.sampling_probability for e in evaluations] == [0.5, 0.5]
    assert [sorted(scores_of(e)) for e in evaluations] == [["length"], ["length", "rare"]]
    assert scores_of(evaluations[1])["rare"].sampling_probability == 0.25
    assert (pipeline.counts()["length"], pipeline.counts()["rare"]) == (Counts(3, 1, 2, 0, 0), Counts(3, 2, 1, 0, 0))


def test_observers_see_every_request(make: Make) -> None:
    seen = []

    def broken(trace: Trace, decision: Any) -> None:
        raise RuntimeError

    observers = [lambda t, d: seen.append((t.error, d.keep)), broken]
    pipeline = make([length], sampler=errors(), observers=observers)
    assert not pipeline.submit(make_trace())
    assert not pipeline.submit(make_trace(error="ValueError"))
    assert seen == [(None, False), ("ValueError", True)]
    assert pipeline.stats().internal_errors == 2


def test_close_evaluates_what_waits_and_drops_the_rest(make: Make, capture: Capture) -> None:
    """The batch under way included, with a notice, and not counted a second time when that batch ends after all."""
    check, started, release = blocked()
    pipeline = make([check], capture, limits=Limits(batch=1, wait=0.0))
    for _ in range(3):
        pipeline.submit(make_trace())
    assert started.wait(60)
    assert not pipeline.close(0.05)
    assert [e.reason for e in capture.evaluations if e.status == "dropped"] == ["shutdown"] * 3
    assert not pipeline.submit(make_trace())
    release.set()
    assert pipeline.flush(60)
    assert len(capture.evaluations) == 3
    assert pipeline.counts()["blocks"] == Counts(4, 0, 0, 0, 4)
    stats = pipeline.stats()
    assert (stats.delivered, stats.running, stats.dropped) == (0, 0, {"shutdown": 4})


def test_a_batch_that_begins_too_late_is_dropped(make: Make, capture: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    taken, release, ended = threading.Event(), threading.Event(), threading.Event()
    work = Pipeline._work

    def late(self: Pipeline, items: Sequence[Any]) -> None:
        taken.set()
        release.wait(10)
        work(self, items)
        ended.set()

    monkeypatch.setattr(Pipeline, "_work", late)
    pipeline = make([length], capture, limits=Limits(batch=2, wait=0.0))
    pipeline.submit(make_trace())
    assert taken.wait(60)
    pipeline.close(0.05)
    release.set()
    assert ended.wait(60)
    assert [(e.status, e.reason) for e in capture.evaluations] == [("dropped", "shutdown")]
    assert pipeline.counts()["length"] == Counts(1, 0, 0, 0, 1)
    assert (pipeline.stats().delivered, pipeline.stats().dropped) == (0, {"shutdown": 1})


def test_close_waits_for_a_batch_that_just_left(make: Make, capture: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    """When close returns, such a batch has been dropped: its root spans leave next, and say so."""
    taken = threading.Event()
    work = Pipeline._work

    def slow_to_begin(self: Pipeline, items: Sequence[Any]) -> None:
        taken.set()
        while not self._is_cut:
            time.sleep(0.001)
        time.sleep(0.05)
        work(self, items)

    monkeypatch.setattr(Pipeline, "_work", slow_to_begin)
    pipeline = make([length], capture, limits=Limits(batch=2, wait=0.0))
    pipeline.submit(make_trace())
    assert taken.wait(60)
    pipeline.close(0.0)
    assert [(e.status, e.reason) for e in capture.evaluations] == [("dropped", "shutdown")]


def test_slow_evaluations_come_in_small_parts(make: Make, capture: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is evaluated together is delivered together: where that takes long, fewer requests are."""
    monkeypatch.setattr("ragtrace.live.pipeline._SHORT", 0.0)
    monkeypatch.setattr("ragtrace.live.pipeline._LONG", 0.0)
    sizes = []

    @evaluator(batch=True)
    def counts_them(traces: Sequence[Trace]) -> list[bool]:
        sizes.append(len(traces))
        return [True] * len(traces)

    pipeline = make([counts_them], capture, limits=Limits(wait=30.0, batch=8))
    for _ in range(8):
        pipeline.submit(make_trace())
    assert len(capture.wait(8)) == 8
    assert sizes == [4, 2, 1, 1]


def test_the_cause_is_told(make: Make, capture: Capture) -> None:
    def cause(trace: Trace, scores: Sequence[Score]) -> str | None:
        if trace.answer == "raise":
            raise RuntimeError
        return "unsupported"

    pipeline = make([length], capture, cause=cause)
    pipeline.submit(make_trace())
    pipeline.submit(make_trace(answer="raise"))
    assert [e.cause for e in capture.wait(2)] == ["unsupported", None]


@pytest.mark.process
def test_a_forked_child_starts_empty_and_works(make: Make, capture: Capture) -> None:
    check, started, release = blocked()
    pipeline = make([check], capture, limits=Limits(batch=1, wait=0.0))
    for _ in range(3):
        pipeline.submit(make_trace())
    assert started.wait(60)

    def evaluate() -> None:
        release.set()
        assert (pipeline.stats().received, pipeline.stats().queued) == (0, 0)
        assert pipeline.submit(make_trace(answer="child"))
        assert pipeline.flush(60)
        assert [e.trace.answer for e in capture.evaluations] == ["child"]

    in_fork(evaluate)
    release.set()
    assert len(capture.wait(3)) == 3
    assert pipeline.counts()["blocks"] == Counts(3, 0, 3, 0, 0)


def test_lag_is_measured(make: Make, capture: Capture) -> None:
    pipeline = make([length], capture, limits=Limits(batch=2, wait=0.05))
    pipeline.submit(make_trace())
    assert 0.04 <= capture.wait(1)[0].lag < 5
