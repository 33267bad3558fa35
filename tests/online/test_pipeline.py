"""The pipeline: bounded, accounted for, unharmed by what it runs."""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Iterator, Sequence
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

QUICK = Limits(wait=0.01)


@evaluator(needs={"answer"}, threshold=0.5)
def length(trace: Trace) -> float:
    """Share of 100 characters."""
    return min(1.0, len(trace.answer) / 100)


@pytest.fixture
def capture() -> Capture:
    return Capture()


@pytest.fixture
def opened() -> Iterator[list[Pipeline]]:
    pipelines: list[Pipeline] = []
    yield pipelines
    for pipeline in pipelines:
        pipeline.close(1.0)


def scores_of(evaluation: Evaluation) -> dict[str, Score]:
    return {score.name: score for score in evaluation.scores}


def make(opened: list[Pipeline], checks: Sequence[Evaluator], *sinks: Any, **options: Any) -> Pipeline:
    options.setdefault("limits", QUICK)
    pipeline = Pipeline(checks, sinks, **options)
    opened.append(pipeline)
    return pipeline


def test_a_trace_is_scored_in_another_thread(opened: list[Pipeline], capture: Capture) -> None:
    """What is submitted comes out evaluated, not in the thread that submitted it."""
    threads = []

    @evaluator
    def where(trace: Trace) -> bool:
        threads.append(threading.current_thread())
        return True

    pipeline = make(opened, [length, where], capture)
    trace = make_trace(answer="x" * 80)
    assert pipeline.submit(trace)
    (evaluation,) = capture.wait(1)
    assert evaluation.trace == trace
    assert scores_of(evaluation)["length"] == Score("length", 0.8, "pass")
    assert scores_of(evaluation)["where"].label == "pass"
    assert evaluation.status == "scored"
    assert threads[0] is not threading.main_thread()
    assert threads[0].daemon


def test_a_failing_check_harms_no_other(opened: list[Pipeline], capture: Capture) -> None:
    """A check that raises, returns NaN or returns nonsense is a score with `error`; the others have theirs."""

    @evaluator
    def raises(trace: Trace) -> float:
        raise ZeroDivisionError("for the test")

    @evaluator
    def not_a_number(trace: Trace) -> float:
        return math.nan

    @evaluator
    def nonsense(trace: Trace) -> Any:
        return object()

    pipeline = make(opened, [raises, not_a_number, nonsense, length], capture)
    pipeline.submit(make_trace())
    scores = scores_of(capture.wait(1)[0])
    assert scores["raises"].error == "ZeroDivisionError"
    assert scores["not_a_number"].error == "not_a_number"
    assert scores["nonsense"].error == "bad_verdict"
    assert all(scores[n].value is None and scores[n].label is None for n in ("raises", "not_a_number", "nonsense"))
    assert scores["length"].value is not None
    assert pipeline.counts()["raises"] == Counts(1, 0, 0, 1, 0)
    assert pipeline.stats().errors["raises", "ZeroDivisionError"] == 1


def test_a_hanging_check_times_out_and_the_rest_goes_on(opened: list[Pipeline], capture: Capture) -> None:
    """A check that hangs costs its timeout and a score with `error`, twice; then it is not called while it hangs."""
    release = threading.Event()
    calls = []

    @evaluator(timeout=0.05)
    def hangs(trace: Trace) -> bool:
        calls.append(1)
        release.wait(30)
        return True

    pipeline = make(opened, [hangs, length], capture, limits=Limits(wait=0.01, batch=4))
    for _ in range(8):
        pipeline.submit(make_trace())
    evaluations = capture.wait(8)
    release.set()
    found = [scores_of(e)["hangs"].error for e in evaluations]
    assert found.count("timeout") == len(calls) == 2
    assert found.count("circuit_open") == 6
    assert all(scores_of(e)["length"].value is not None for e in evaluations)


def test_healthy_calls_in_several_workers_do_not_count_as_hanging(opened: list[Pipeline], capture: Capture) -> None:
    """Three workers may be in the same evaluator at the same time: only a call that has timed out hangs."""
    together = threading.Barrier(3, timeout=30)

    @evaluator(timeout=60)
    def meets(trace: Trace) -> bool:
        together.wait()
        return True

    pipeline = make(opened, [meets], capture, limits=Limits(wait=0.0, batch=1, workers=3))
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


def test_one_bad_trace_does_not_spoil_its_batch(opened: list[Pipeline], capture: Capture) -> None:
    """When a batch raises, its traces are tried one by one, and only the culprit fails."""

    @evaluator(batch=True)
    def picky(traces: Sequence[Trace]) -> list[float]:
        if any(trace.answer == "bad" for trace in traces):
            raise ValueError("bad")
        return [1.0] * len(traces)

    pipeline = make(opened, [picky], capture)
    for answer in ("a", "bad", "c"):
        pipeline.submit(make_trace(answer=answer))
    found = {e.trace.answer: scores_of(e)["picky"] for e in capture.wait(3)}
    assert found["bad"].error == "ValueError"
    assert found["a"].value == found["c"].value == 1.0


def test_async_checks_run_together(opened: list[Pipeline], capture: Capture) -> None:
    """The coroutines of one micro-batch wait at the same time, not one after the other."""
    together, most = 0, 0

    @evaluator
    async def waits(trace: Trace) -> bool:
        nonlocal together, most
        import asyncio

        together += 1
        most = max(most, together)
        await asyncio.sleep(0.05)
        together -= 1
        return True

    pipeline = make(opened, [waits], capture, limits=Limits(batch=5, wait=5.0))
    for _ in range(5):
        pipeline.submit(make_trace())
    capture.wait(5)
    assert most == 5


def test_retries_help_where_they_can(opened: list[Pipeline], capture: Capture) -> None:
    """A check that fails on the network is tried again as often as it allows; one that fails otherwise is not."""
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

    pipeline = make(opened, [network, bug], capture)
    pipeline.submit(make_trace())
    scores = scores_of(capture.wait(1)[0])
    assert scores["network"].label == "pass"
    assert scores["bug"].error == "KeyError"
    assert tries == {"network": 3, "bug": 1}


def test_what_does_not_apply_is_not_eligible(opened: list[Pipeline], capture: Capture) -> None:
    """A check whose inputs are missing is neither scored nor failed nor counted as eligible."""

    @evaluator(needs={"reference"})
    def correct(trace: Trace) -> bool:
        return trace.answer == trace.reference

    pipeline = make(opened, [correct, length], capture)
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
def test_the_queue_is_bounded_and_every_trace_accounted_for(
    opened: list[Pipeline], capture: Capture, limits: Limits, answer: str, reason: str
) -> None:
    """Beyond the bound in number or bytes the newest is dropped with its reason; received = evaluated + dropped."""
    check, started, release = blocked()
    pipeline = make(opened, [check], capture, limits=limits)
    pipeline.submit(make_trace(answer=answer))
    assert started.wait(5)
    accepted = [pipeline.submit(make_trace(answer=answer)) for _ in range(20)]
    stats = pipeline.stats()
    assert stats.queued <= limits.items
    assert stats.queued_bytes <= limits.bytes
    assert stats.dropped == {reason: accepted.count(False)}
    assert accepted.count(False) > 0
    assert stats.received == 21 == stats.queued + stats.running + sum(stats.dropped.values())
    release.set()
    assert pipeline.flush(10)
    counts = pipeline.counts()["blocks"]
    assert counts == Counts(21, 0, 1 + accepted.count(True), 0, accepted.count(False))
    dropped = [e for e in capture.evaluations if e.status == "dropped"]
    assert len(dropped) == min(accepted.count(False), limits.items)
    assert all(e.reason == reason and not e.trace.answer and not e.scores for e in dropped)


def test_one_trace_larger_than_the_bound_is_still_evaluated(opened: list[Pipeline], capture: Capture) -> None:
    """The byte bound delays a giant until nothing else waits; it does not make it impossible."""
    pipeline = make(opened, [length], capture, limits=Limits(bytes=1_000, wait=0.01))
    assert pipeline.submit(make_trace(answer="x" * 10_000))
    assert capture.wait(1)[0].scores[0].value == 1.0


def test_probability_travels_and_evaluators_sample_further(opened: list[Pipeline], capture: Capture) -> None:
    """Each score carries the probability of its evaluator's sample, the trace that of its own."""
    rare = replace(length, name="rare", sampler=ratio(0.25))
    pipeline = make(opened, [length, rare], capture, sampler=ratio(0.5))
    for r in (0.1, 0.6, 0.9):
        pipeline.submit(make_trace(trace_id=int(r * 2**56)))
    evaluations = capture.wait(2)
    assert [e.trace.sampling_probability for e in evaluations] == [0.5, 0.5]
    assert [sorted(scores_of(e)) for e in evaluations] == [["length"], ["length", "rare"]]
    assert scores_of(evaluations[1])["rare"].sampling_probability == 0.25
    assert pipeline.counts()["length"] == Counts(3, 1, 2, 0, 0)
    assert pipeline.counts()["rare"] == Counts(3, 2, 1, 0, 0)


def test_a_sampler_that_raises_keeps_nothing(opened: list[Pipeline], capture: Capture) -> None:
    """The application never sees a sampler's mistake; it is counted as a reason of its own."""

    def broken(trace: Trace) -> Any:
        raise RuntimeError

    pipeline = make(opened, [length], capture, sampler=broken)
    assert not pipeline.submit(make_trace())
    assert pipeline.stats().decisions == {("sampler_error", False): 1}


def test_a_broken_sink_breaks_no_other(opened: list[Pipeline], capture: Capture, caplog: Any) -> None:
    """A sink that raises is counted, logged once, and the next sink has its evaluation."""

    def broken(evaluation: Evaluation) -> None:
        raise OSError("for the test")

    pipeline = make(opened, [length], broken, capture)
    for _ in range(3):
        pipeline.submit(make_trace())
    capture.wait(3)
    assert sum(pipeline.stats().sink_errors.values()) == 3
    assert len([r for r in caplog.records if "sink" in r.message]) == 1


def test_observers_see_every_request(opened: list[Pipeline]) -> None:
    """Requests that are not sampled are observed, too."""
    seen = []
    pipeline = make(opened, [length], sampler=errors(), observers=[lambda t, d: seen.append((t.error, d.keep))])
    pipeline.submit(make_trace())
    pipeline.submit(make_trace(error="ValueError"))
    assert seen == [(None, False), ("ValueError", True)]


def test_an_observer_that_raises_is_counted(opened: list[Pipeline]) -> None:
    """Nothing that submit calls can raise into the request."""

    def broken(trace: Trace, decision: Any) -> None:
        raise RuntimeError

    pipeline = make(opened, [length], observers=[broken])
    assert not pipeline.submit(make_trace())
    assert pipeline.stats().internal_errors == 1


def test_close_evaluates_what_waits_and_drops_the_rest(opened: list[Pipeline], capture: Capture) -> None:
    """Close waits up to its deadline; what was not evaluated by then, the batch under way included, is dropped as
    `shutdown`, with a notice, and is not counted a second time when that batch ends after all."""
    check, started, release = blocked()
    pipeline = make(opened, [check], capture, limits=Limits(batch=1, wait=0.0))
    for _ in range(3):
        pipeline.submit(make_trace())
    assert started.wait(5)
    assert not pipeline.close(0.05)
    assert [e.reason for e in capture.evaluations if e.status == "dropped"] == ["shutdown"] * 3
    assert not pipeline.submit(make_trace())
    release.set()
    assert pipeline.flush(10)
    assert len(capture.evaluations) == 3
    assert pipeline.counts()["blocks"] == Counts(4, 0, 0, 0, 4)
    stats = pipeline.stats()
    assert (stats.delivered, stats.running, stats.dropped) == (0, 0, {"shutdown": 4})


def test_a_batch_that_begins_after_close_is_dropped_and_counted(
    opened: list[Pipeline], capture: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch that left the queue and is not begun when close stops waiting is neither evaluated nor forgotten."""
    taken, release, ended = threading.Event(), threading.Event(), threading.Event()
    work = Pipeline._work

    def late(self: Pipeline, items: Sequence[Any]) -> None:
        taken.set()
        release.wait(10)
        work(self, items)
        ended.set()

    monkeypatch.setattr(Pipeline, "_work", late)
    pipeline = make(opened, [length], capture, limits=Limits(batch=2, wait=0.0))
    pipeline.submit(make_trace())
    assert taken.wait(5)
    pipeline.close(0.05)
    release.set()
    assert ended.wait(10)
    assert [(e.status, e.reason) for e in capture.evaluations] == [("dropped", "shutdown")]
    assert pipeline.counts()["length"] == Counts(1, 0, 0, 0, 1)
    assert (pipeline.stats().delivered, pipeline.stats().dropped) == (0, {"shutdown": 1})


def test_close_waits_for_a_batch_that_has_just_left_the_queue(
    opened: list[Pipeline], capture: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
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
    pipeline = make(opened, [length], capture, limits=Limits(batch=2, wait=0.0))
    pipeline.submit(make_trace())
    assert taken.wait(5)
    pipeline.close(0.0)
    assert [(e.status, e.reason) for e in capture.evaluations] == [("dropped", "shutdown")]


def test_slow_evaluations_are_delivered_in_smaller_portions(
    opened: list[Pipeline], capture: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is evaluated together is delivered together: where that takes long, fewer requests are."""
    monkeypatch.setattr("ragtrace.live.pipeline._SHORT", 0.0)
    monkeypatch.setattr("ragtrace.live.pipeline._LONG", 0.0)
    sizes = []

    @evaluator(batch=True)
    def counts_them(traces: Sequence[Trace]) -> list[bool]:
        sizes.append(len(traces))
        return [True] * len(traces)

    pipeline = make(opened, [counts_them], capture, limits=Limits(wait=30.0, batch=8))
    for _ in range(8):
        pipeline.submit(make_trace())
    assert len(capture.wait(8)) == 8
    assert sizes == [4, 2, 1, 1]


def test_flush_waits_for_all_that_was_accepted(opened: list[Pipeline], capture: Capture) -> None:
    """After flush every accepted trace is delivered, without waiting for a full batch."""
    pipeline = make(opened, [length], capture, limits=Limits(wait=30.0, batch=64))
    for _ in range(100):
        pipeline.submit(make_trace())
    assert pipeline.flush(10)
    assert len(capture.evaluations) == 100


def test_the_cause_is_told(opened: list[Pipeline], capture: Capture) -> None:
    """The cause function's word goes with the evaluation; one that raises costs nothing but the word."""

    def cause(trace: Trace, scores: Sequence[Score]) -> str | None:
        if trace.answer == "raise":
            raise RuntimeError
        return "unsupported"

    pipeline = make(opened, [length], capture, cause=cause)
    pipeline.submit(make_trace())
    pipeline.submit(make_trace(answer="raise"))
    assert [e.cause for e in capture.wait(2)] == ["unsupported", None]


@pytest.mark.process
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_starts_empty_and_works(opened: list[Pipeline], capture: Capture) -> None:
    """After a fork the child evaluates its own traces and leaves the parent's to the parent."""
    check, started, release = blocked()
    pipeline = make(opened, [check], capture, limits=Limits(batch=1, wait=0.0))
    for _ in range(3):
        pipeline.submit(make_trace())
    assert started.wait(5)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            release.set()
            empty = pipeline.stats().received == 0 and pipeline.stats().queued == 0
            accepted = pipeline.submit(make_trace(answer="child"))
            flushed = pipeline.flush(10)
            mine = [e.trace.answer for e in capture.evaluations] == ["child"]
            code = 0 if empty and accepted and flushed and mine else 1
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    release.set()
    assert len(capture.wait(3)) == 3
    assert pipeline.counts()["blocks"] == Counts(3, 0, 3, 0, 0)


def test_many_threads_lose_nothing(opened: list[Pipeline], capture: Capture) -> None:
    """Ten threads that submit at once are all accounted for."""
    pipeline = make(opened, [length], capture, limits=Limits(items=100_000, wait=0.01))

    def send() -> None:
        for _ in range(200):
            pipeline.submit(make_trace())

    threads = [threading.Thread(target=send) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert pipeline.flush(30)
    assert len(capture.evaluations) == 2_000
    stats = pipeline.stats()
    assert (stats.received, stats.delivered, stats.queued, stats.running) == (2_000, 2_000, 0, 0)


def test_lag_is_measured(opened: list[Pipeline], capture: Capture) -> None:
    """The evaluation says how long it came after the request."""
    pipeline = make(opened, [length], capture, limits=Limits(batch=2, wait=0.05))
    pipeline.submit(make_trace())
    time.sleep(0)
    assert 0.04 <= capture.wait(1)[0].lag < 5
