"""What an evaluator or a sink may do to the pipeline: fail itself, and nothing else."""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
import json
import pickle
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy
import pytest
from opentelemetry import context

import ragtrace
from ragtrace import Score, evaluator
from ragtrace.errors import EvaluationError
from ragtrace.evaluation import run
from ragtrace.live.breaker import Breaker, Runners
from ragtrace.live.pipeline import Pipeline
from ragtrace.records import Evaluation, Evidence, Facts, Trace
from ragtrace.sampling import Decision
from ragtrace.testing import Capture, make_trace


class Evil(float):
    """A number whose methods raise."""

    def __float__(self) -> float:
        raise RuntimeError("evil")


def _endless() -> Iterator[Score]:
    return (Score("check", value=1.0) for _ in itertools.count())


def _breaks() -> Iterator[Score]:
    yield Score("check", value=1.0)
    raise RuntimeError


VERDICTS: dict[str, Callable[[], Any]] = {
    "value is a text": lambda: Score("check", value="abc"),  # type: ignore[arg-type]
    "value is too large": lambda: Score("check", value=10**400),
    "number is too large": lambda: 10**400,
    "label is a number": lambda: Score("check", value=0.5, label=7),  # type: ignore[arg-type]
    "error is an exception": lambda: Score("check", error=ValueError("boo")),  # type: ignore[arg-type]
    "explanation is an object": lambda: Score("check", value=0.5, explanation=object()),  # type: ignore[arg-type]
    "evidence is none": lambda: Score("check", value=0.5, evidence=("a", 3)),  # type: ignore[arg-type]
    "name is none": lambda: Score(None, value=0.5),  # type: ignore[arg-type]
    "name is a sentence": lambda: Score("Is it good?", value=0.5),
    "never ends": _endless,
    "breaks": _breaks,
    "complex": lambda: complex(1, 2),
    "evil": lambda: Evil(0.5),
    "tokens are a text": lambda: Score("check", value=0.5, input_tokens="12"),  # type: ignore[arg-type]
    "cost is no number": lambda: Score("check", value=0.5, cost=float("nan")),
    "method is a list": lambda: Score("check", value=0.5, method=[]),  # type: ignore[arg-type]
    "name is too long": lambda: Score("a" * 1_000_000, value=0.5),
    "a list of other things": lambda: [1, "a", None],
    "method is a sentence": lambda: Score("check", value=0.5, method="as jane@acme.io asked"),
    "value with a label is an object": lambda: Score("check", value=object(), label="pass"),  # type: ignore[arg-type]
    "value with a label is evil": lambda: Score("check", value=Evil(0.5), label="pass"),
    "tokens are too many": lambda: Score("check", value=0.5, input_tokens=10**30),
    "failures are a text": lambda: Score("check", value=0.5, failures="retrieval"),  # type: ignore[arg-type]
    "failures are objects": lambda: Score("check", value=0.5, failures=(object(),)),  # type: ignore[arg-type]
    "places are texts": lambda: Score("check", value=0.5, evidence=(Evidence("a", "b", "c"),)),  # type: ignore[arg-type]
    "a place is too large": lambda: Score("check", value=0.5, evidence=(Evidence(0, 10**30, "c"),)),
    "probability is a word": lambda: Score("check", value=0.5, evidence=(Evidence(0, 1, "c", "high"),)),  # type: ignore[arg-type]
    "probability is no number": lambda: Score("check", value=0.5, evidence=(Evidence(0, 1, "c", float("nan")),)),
}


@pytest.mark.parametrize("kind", VERDICTS, ids=str)
@pytest.mark.parametrize("batch", [False, True])
def test_a_malformed_verdict_is_an_error_of_its_own_trace(kind: str, batch: bool) -> None:
    """Whatever a check returns, each trace has a score; only the bad one has an error, and no sink sees odd types."""

    def verdict(trace: Trace) -> Any:
        return VERDICTS[kind]() if trace.answer == "bad" else 1.0

    def together(traces: Sequence[Trace]) -> list[Any]:
        return [verdict(trace) for trace in traces]

    check = evaluator(name="check", batch=batch)(together if batch else verdict)
    results = run(check, [make_trace(answer=answer) for answer in ("good", "bad", "fine")])
    assert [scores[0].value for scores in results] == [1.0, None, 1.0]
    (bad,) = results[1]
    assert bad.name == "check"
    assert bad.error in ("bad_verdict", "OverflowError", "RuntimeError", "TypeError")


class Word(str):
    """A text of a class that no other process knows."""


def _numpy_score(trace: Trace) -> Score:
    one = Evidence(numpy.int64(0), numpy.int32(1), Word("c"), numpy.float32(0.5), numpy.int64(7), numpy.int64(0))  # type: ignore[arg-type]
    value = {"decimal": Decimal("0.5"), "fraction": Fraction(1, 2), "numpy": numpy.float32(0.5)}[trace.query]
    return Score(Word("check"), value, Word("pass"), Word("x"), evidence=(one,), failures=(Word("retrieval"),))  # type: ignore[arg-type]


@pytest.mark.server
def test_numbers_and_texts_of_other_libraries_arrive_in_every_sink(tmp_path: Path) -> None:
    """Values of numpy, decimal and fractions beside a label are stored, exported and counted as plain numbers."""
    runtime = ragtrace.init(
        app="x", evaluators=[evaluator(name="check")(_numpy_score)], spans_file=tmp_path / "spans.jsonl",
        report_file=tmp_path / "report.jsonl", store=tmp_path / "chats.db", prometheus_port=0, sample_per_second=0,
    )  # fmt: skip
    try:
        for kind in ("decimal", "fraction", "numpy"):
            with ragtrace.request(kind) as request:
                request.answered("fine")
        assert runtime.flush(30)
        assert runtime.store.written == 3
        assert not runtime.pipeline.stats().sink_errors
    finally:
        runtime.close(10)
    lines = [json.loads(line) for line in (tmp_path / "report.jsonl").read_text().splitlines()]
    assert [line["scores"][0]["value"] for line in lines] == [0.5, 0.5, 0.5]
    spans = [json.loads(line) for line in (tmp_path / "spans.jsonl").read_text().splitlines()]
    assert [span["attributes"]["gen_ai.evaluation.check.score"] for span in spans] == [0.5, 0.5, 0.5]


def test_a_score_holds_plain_values_alone() -> None:
    """The application's process need not know the modules that an evaluator uses in its own process."""
    ((score,),) = run(evaluator(name="check")(_numpy_score), [make_trace(query="numpy")])
    assert {type(score.name), type(score.label), type(score.explanation), type(score.failures[0])} == {str}
    assert type(score.value) is float
    assert [type(value) for value in dataclasses.astuple(score.evidence[0])[:6]] == [int, int, str, float, str, int]


_ONE = Evidence(0, 1, "supported", 1.0, "d")
GROWING: dict[str, Callable[[], Any]] = {
    "a long explanation": lambda: Score("check", value=1.0, explanation="x" * 50_000_000),
    "much evidence": lambda: Score("check", value=1.0, evidence=(_ONE,) * 1_000_000),
    "evidence without an end": lambda: Score("check", value=1.0, evidence=itertools.repeat(_ONE)),  # type: ignore[arg-type]
    "long words": lambda: Score(
        "check", value=1.0, label="l" * 10**6, cause="c" * 10**6, model="m" * 10**6, failures=("f",) * 10**6,
        evidence=(Evidence(0, 1, "v" * 10**6, 1.0, "d" * 10**6),),
    ),
    "many long scores": lambda: (Score("check", value=1.0, explanation="x" * 500_000) for _ in range(900)),
}  # fmt: skip


@pytest.mark.parametrize("kind", GROWING, ids=str)
def test_a_verdict_that_grows_is_bounded_and_says_so(kind: str) -> None:
    """The value stays, no verdict has more than a million characters or a score a thousand pieces of evidence, and the
    explanation says what was left out."""
    (scores,) = run(evaluator(name="check")(lambda _: GROWING[kind]()), [make_trace()])
    assert {score.value for score in scores} == {1.0}
    assert len(pickle.dumps(scores)) < 1_500_000
    assert all(len(score.evidence) <= 1_000 for score in scores)
    assert all(score.label is None for score in scores)
    assert any(re.search("cut|left out|only the first", score.explanation or "") for score in scores)


def test_the_reason_of_a_failure_is_one_word() -> None:
    """A sentence that an evaluator gives as its reason becomes no metric's label, for it may quote the input."""

    def check(_: Trace) -> float:
        raise EvaluationError("jane@acme.io is no customer", "unknown customer")

    (scores,) = run(evaluator(check), [make_trace()])
    assert scores[0].error == "evaluator_error"


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt, GeneratorExit, asyncio.CancelledError])
@pytest.mark.parametrize("kind", ["plain", "batch", "coroutine"])
def test_an_exception_that_would_end_a_thread_costs_one_score(error: type[BaseException], kind: str) -> None:
    """Of ten requests nine are scored, in one micro-batch and after it; the worker lives, and the counts add up."""

    def judge(trace: Trace) -> float:
        if trace.answer == "bad":
            raise error
        return 1.0

    async def later(trace: Trace) -> float:
        return judge(trace)

    functions: dict[str, Callable[..., Any]] = {
        "plain": judge, "batch": lambda traces: [judge(trace) for trace in traces], "coroutine": later
    }  # fmt: skip
    check = evaluator(name="check", batch=kind == "batch")(functions[kind])
    capture = Capture()
    pipeline = Pipeline([check], [capture])
    try:
        for n in range(10):
            pipeline.submit(make_trace(answer="bad" if n == 4 else "good", trace_id=n + 1))
        assert pipeline.flush(30)
        pipeline.submit(make_trace(trace_id=11))
        assert pipeline.flush(30)
        counts = pipeline.counts()["check"]
        assert (counts.eligible, counts.scored, counts.failed, counts.dropped) == (11, 10, 1, 0)
        assert [e.scores[0].error for e in capture.evaluations if e.trace.trace_id == 5] == [error.__name__]
    finally:
        pipeline.close(1)


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt, GeneratorExit, asyncio.CancelledError])
def test_a_sink_that_would_end_a_thread_costs_nothing_else(error: type[BaseException]) -> None:
    """Every request is scored, reaches the other sinks and stands in the counts."""

    def broken(_: Evaluation) -> None:
        raise error

    capture = Capture()
    pipeline = Pipeline([evaluator(name="check")(lambda _: 1.0)], [broken, capture])
    try:
        for n in range(10):
            pipeline.submit(make_trace(trace_id=n + 1))
            assert pipeline.flush(30)
        counts = pipeline.counts()["check"]
        assert (counts.eligible, counts.scored) == (10, 10)
        assert len(capture.evaluations) == 10
    finally:
        pipeline.close(1)


@pytest.mark.parametrize("error", [SystemExit, GeneratorExit, asyncio.CancelledError])
def test_a_sampler_that_would_end_a_thread_keeps_nothing(error: type[BaseException]) -> None:
    """The request's thread gets nothing of what the application's sampler raises."""

    def broken(_: Trace) -> Decision:
        raise error

    pipeline = Pipeline([evaluator(name="check")(lambda _: 1.0)], [], sampler=broken)
    try:
        assert pipeline.sample(make_trace()) == Decision(False, 0.0, "sampler_error")
        assert not pipeline.submit(make_trace())
    finally:
        pipeline.close(1)


@pytest.mark.parametrize("error", [SystemExit, ValueError])
def test_an_evaluators_sampler_that_raises_costs_its_own_scores(error: type[BaseException]) -> None:
    """Its requests are sampled out; other evaluators score them."""

    def broken(_: Trace) -> Decision:
        raise error

    checks = [evaluator(name="own", sampler=broken)(lambda _: 1.0), evaluator(name="other")(lambda _: 1.0)]
    pipeline = Pipeline(checks, [])
    try:
        for n in range(4):
            pipeline.submit(make_trace(trace_id=n + 1))
        assert pipeline.flush(30)
        counts = pipeline.counts()
        assert (counts["own"].eligible, counts["own"].sampled_out, counts["other"].scored) == (4, 4, 4)
    finally:
        pipeline.close(1)


def _breaker() -> tuple[Breaker, Runners, Any]:
    def judge(trace: Trace) -> float:
        if trace.answer == "bad":
            raise ValueError
        return 1.0

    return Breaker(), Runners(), evaluator(name="check")(judge)


def test_one_user_s_requests_do_not_switch_an_evaluator_off() -> None:
    """Twenty failures in a row of one user fail themselves; the next user's request is scored."""
    breaker, runners, check = _breaker()
    for n in range(20):
        trace = make_trace(answer="bad", trace_id=n + 1, facts=Facts(user_id="u1"))
        assert breaker.run(check, [trace], [0], runners)[0][0].error == "ValueError"
    other = make_trace(answer="good", trace_id=99, facts=Facts(user_id="u2"))
    assert breaker.run(check, [other], [0], runners)[0][0].value == 1.0


def test_a_share_of_failures_switches_an_evaluator_off() -> None:
    """Four failures in a row among good requests do not; when half of the last twenty fail, it rests."""
    breaker, runners, check = _breaker()

    def error_of(n: int, answer: str) -> str | None:
        return breaker.run(check, [make_trace(answer=answer, trace_id=n)], [0], runners)[0][0].error

    for n in range(20):
        assert error_of(n, "good") is None
    for n in range(4):
        assert error_of(100 + n, "bad") == "ValueError"
    assert error_of(200, "good") is None
    errors = [error_of(300 + n, "bad") for n in range(10)]
    assert errors[-1] == "circuit_open"


def test_an_evaluator_s_own_threads_are_not_traced() -> None:
    """A thread or a pool that an evaluator uses has its suppressed context; the application's tasks in the same pool
    have their own."""
    pool = ThreadPoolExecutor(1)

    def is_suppressed() -> bool:
        return bool(context.get_value(context._SUPPRESS_INSTRUMENTATION_KEY))

    def judge(_trace: Trace) -> list[Score]:
        results = [is_suppressed(), pool.submit(is_suppressed).result(10)]
        thread = threading.Thread(target=lambda: results.append(is_suppressed()))
        thread.start()
        thread.join(10)
        results.append(asyncio.run(asyncio.to_thread(is_suppressed)))
        return [Score("check", value=float(value)) for value in results]

    sunk: list[bool] = []
    capture = Capture()

    def sink(evaluation: Evaluation) -> None:
        sunk.extend((is_suppressed(), pool.submit(is_suppressed).result(10)))
        capture(evaluation)

    pipeline = Pipeline([evaluator(name="check")(judge)], [sink])
    try:
        pipeline.submit(make_trace())
        scores = capture.wait(1)[0].scores
    finally:
        pipeline.close(1)
    assert [score.value for score in scores] == [1.0, 1.0, 1.0, 1.0]
    assert sunk == [True, True]
    assert pool.submit(is_suppressed).result(10) is False
    fresh: list[bool] = []
    thread = threading.Thread(target=lambda: fresh.append(is_suppressed()))
    thread.start()
    thread.join(10)
    assert fresh == [False]
    pool.shutdown()
