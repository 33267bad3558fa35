"""What an evaluator or a sink may do to the pipeline: fail itself, and nothing else."""

import asyncio
import dataclasses
import itertools
import math
import pickle
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from fractions import Fraction
from functools import partial
from typing import Any

import numpy
import pytest
from opentelemetry import context

from ragtrace import Score, evaluator
from ragtrace.errors import EvaluationError, SettingError
from ragtrace.evaluation import run
from ragtrace.live.breaker import Breaker, Runners
from ragtrace.live.pipeline import Limits
from ragtrace.records import Evaluation, Evidence, Facts, Trace
from ragtrace.sampling import Decision
from ragtrace.testing import Capture, make_trace
from tests.online.conftest import Make
from tests.row_files import table


class Evil(float):
    def __float__(self) -> float:
        raise RuntimeError("evil")


def _breaks() -> Iterator[Score]:
    yield Score("check", value=1.0)
    raise RuntimeError


VERDICTS: dict[str, Callable[[], Any]] = {
    **{
        kind: partial(Score, **{"name": "check", "value": 0.5, **fields})
        for kind, fields in table(__file__, "malformed").items()
    },
    "value is too large": lambda: Score("check", value=10**400),
    "number is too large": lambda: 10**400,
    "error is an exception": lambda: Score("check", error=ValueError("boo")),  # type: ignore[arg-type]
    "explanation is an object": lambda: Score("check", value=0.5, explanation=object()),  # type: ignore[arg-type]
    "never ends": lambda: (Score("check", value=1.0) for _ in itertools.count()),
    "breaks": _breaks,
    "not a number": lambda: math.nan,
    "complex": lambda: complex(1, 2),
    "evil": lambda: Evil(0.5),
    "cost is no number": lambda: Score("check", value=0.5, cost=float("nan")),
    "name is too long": lambda: Score("a" * 1_000_000, value=0.5),
    "a list of other things": lambda: [1, "a", None],
    "value with a label is an object": lambda: Score("check", value=object(), label="pass"),  # type: ignore[arg-type]
    "value with a label is evil": lambda: Score("check", value=Evil(0.5), label="pass"),
    "failures are objects": lambda: Score("check", value=0.5, failures=(object(),)),  # type: ignore[arg-type]
    "places are texts": lambda: Score("check", value=0.5, evidence=(Evidence("a", "b", "c"),)),  # type: ignore[arg-type]
    "a place is too large": lambda: Score("check", value=0.5, evidence=(Evidence(0, 10**30, "c"),)),
    "probability is no number": lambda: Score("check", value=0.5, evidence=(Evidence(0, 1, "c", float("nan")),)),
    "probability is a word": lambda: Score("check", value=0.5, evidence=(Evidence(0, 1, "c", "high"),)),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("kind", VERDICTS, ids=str)
@pytest.mark.parametrize("batch", [False, True])
def test_a_malformed_verdict_is_an_error_of_its_own_trace(kind: str, batch: bool) -> None:
    def verdict(trace: Trace) -> Any:
        return VERDICTS[kind]() if trace.answer == "bad" else 1.0

    def together(traces: Sequence[Trace]) -> list[Any]:
        return [verdict(trace) for trace in traces]

    check = evaluator(name="check", batch=batch)(together if batch else verdict)
    results = run(check, [make_trace(answer=answer) for answer in ("good", "bad", "fine")])
    assert [scores[0].value for scores in results] == [1.0, None, 1.0]
    (bad,) = results[1]
    assert bad.name == "check"
    errors = ("bad_verdict", "OverflowError", "RuntimeError", "TypeError")
    assert bad.error in (["not_a_number"] if kind == "not a number" else errors)


class Word(str):
    """A text of a class that no other process knows."""


@pytest.mark.parametrize(
    "value",
    [Decimal("0.5"), Fraction(1, 2), numpy.float32(0.5), numpy.array(0.5)],
    ids=["decimal", "fraction", "numpy", "array"],
)
def test_a_score_holds_plain_values_alone(value: Any) -> None:
    """The application and its sinks need not know the modules that an evaluator uses in its own process."""
    one = Evidence(numpy.int64(0), numpy.int32(1), Word("c"), numpy.float32(0.5), numpy.int64(7), numpy.int64(0))
    given = Score(Word("check"), value, Word("pass"), Word("x"), evidence=(one,), failures=(Word("retrieval"),))
    ((score,),) = run(evaluator(name="check")(lambda _: given), [make_trace()])
    assert {type(score.name), type(score.label), type(score.explanation), type(score.failures[0])} == {str}
    assert (type(score.value), score.value) == (float, 0.5)
    assert [type(value) for value in dataclasses.astuple(score.evidence[0])[:6]] == [int, int, str, float, str, int]


@pytest.mark.parametrize("value", [True, False])
def test_numpys_truth_value_is_one(value: bool) -> None:
    """It is no number that a threshold turns round; a direction that does not exist would turn all of them round."""
    ((score,),) = run(
        evaluator(name="check", direction="lower", threshold=0.5)(lambda _: numpy.bool_(value)), [make_trace()]
    )
    assert (score.value, score.label) == (float(value), "pass" if value else "fail")
    for option, wrong, text in (
        ("direction", "Higher", "higher or lower"),
        ("version", 2, "text"),
        ("threshold", "x", ""),
    ):
        with pytest.raises(SettingError, match=f"{option} .*; give .*{text}"):
            evaluator(name="check", **{option: wrong})(len)  # type: ignore[call-overload]


def test_an_asynchronous_check_inside_of_an_event_loop() -> None:
    @evaluator
    async def check(_: Trace) -> float:
        return 0.5

    async def ask() -> list[list[Score]]:
        return run(check, [make_trace()])

    assert asyncio.run(ask())[0][0].value == 0.5


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
    """The value stays, and the explanation says what was left out of a million characters or a thousand evidences."""
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


@pytest.mark.parametrize("error", [ValueError, SystemExit, KeyboardInterrupt, GeneratorExit, asyncio.CancelledError])
@pytest.mark.parametrize("kind", ["plain", "batch", "coroutine"])
def test_an_exception_that_ends_a_thread_costs_one_score(make: Make, error: type[BaseException], kind: str) -> None:
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
    pipeline = make([check], capture, limits=Limits())
    for n in range(10):
        pipeline.submit(make_trace(answer="bad" if n == 4 else "good", trace_id=n + 1))
    assert pipeline.flush(60)
    pipeline.submit(make_trace(trace_id=11))
    assert pipeline.flush(60)
    counts = pipeline.counts()["check"]
    assert (counts.eligible, counts.scored, counts.failed, counts.dropped) == (11, 10, 1, 0)
    assert [e.scores[0].error for e in capture.evaluations if e.trace.trace_id == 5] == [error.__name__]


def test_an_interrupt_of_a_person_ends_a_run() -> None:
    """In the main thread Ctrl-C is no verdict."""
    with pytest.raises(KeyboardInterrupt):
        run(evaluator(name="check")(_raising(KeyboardInterrupt)), [make_trace()])


@pytest.mark.parametrize("error", [OSError, SystemExit, KeyboardInterrupt, GeneratorExit, asyncio.CancelledError])
def test_a_broken_sink_harms_no_other(make: Make, error: type[BaseException], caplog: pytest.LogCaptureFixture) -> None:
    capture = Capture()
    pipeline = make([evaluator(name="check")(lambda _: 1.0)], _raising(error), capture)
    for n in range(10):
        pipeline.submit(make_trace(trace_id=n + 1))
        assert pipeline.flush(60)
    counts = pipeline.counts()["check"]
    assert (counts.eligible, counts.scored) == (10, 10)
    assert len(capture.evaluations) == 10
    assert sum(pipeline.stats().sink_errors.values()) == 10
    assert len([r for r in caplog.records if "sink" in r.message]) == 1


@pytest.mark.parametrize("decision", [True, None, 0.5, Decision(True, 0.0, "x"), Decision(True, 1.0, ["x"])])  # type: ignore[arg-type]
def test_a_sampler_that_decides_wrongly_keeps_nothing(make: Make, decision: Any) -> None:
    pipeline = make([evaluator(name="check")(lambda _: 1.0)], sampler=lambda _: decision)
    assert not pipeline.submit(make_trace())
    assert pipeline.counts()["check"].sampled_out == 1


@pytest.mark.parametrize("error", [ValueError, SystemExit, GeneratorExit, asyncio.CancelledError])
def test_a_sampler_that_raises_costs_its_own_scores(make: Make, error: type[BaseException]) -> None:
    """The pipeline's keeps nothing; an evaluator's samples its requests out, while other evaluators score them."""
    pipeline = make([evaluator(name="check")(lambda _: 1.0)], sampler=_raising(error))
    assert pipeline.sample(make_trace()) == Decision(False, 0.0, "sampler_error")
    assert not pipeline.submit(make_trace())
    assert pipeline.stats().decisions == {("sampler_error", False): 1}
    own = evaluator(name="own", sampler=_raising(error))(lambda _: 1.0)
    pipeline = make([own, evaluator(name="other")(lambda _: 1.0)])
    for n in range(4):
        pipeline.submit(make_trace(trace_id=n + 1))
    assert pipeline.flush(60)
    counts = pipeline.counts()
    assert (counts["own"].eligible, counts["own"].sampled_out, counts["other"].scored) == (4, 4, 4)


def _raising(error: type[BaseException]) -> Callable[[Any], Any]:
    def broken(_: Any) -> Any:
        raise error

    return broken


def _breaker() -> tuple[Breaker, Runners, Any]:
    def judge(trace: Trace) -> float:
        if trace.answer == "bad":
            raise ValueError
        return 1.0

    return Breaker(), Runners(), evaluator(name="check")(judge)


def test_one_user_s_requests_do_not_switch_an_evaluator_off() -> None:
    breaker, runners, check = _breaker()
    for n in range(20):
        trace = make_trace(answer="bad", trace_id=n + 1, facts=Facts(user_id="u1"))
        assert breaker.run(check, [trace], [0], runners)[0][0].error == "ValueError"
    other = make_trace(answer="good", trace_id=99, facts=Facts(user_id="u2"))
    assert breaker.run(check, [other], [0], runners)[0][0].value == 1.0


def test_a_share_of_failures_switches_an_evaluator_off() -> None:
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


def test_an_evaluator_s_own_threads_are_not_traced(make: Make) -> None:
    """Threads and pools of evaluators have its suppressed context; the application's tasks there have their own."""
    pool = ThreadPoolExecutor(1)

    def is_suppressed() -> bool:
        return bool(context.get_value(context._SUPPRESS_INSTRUMENTATION_KEY))

    def in_thread() -> bool:
        results: list[bool] = []
        thread = threading.Thread(target=lambda: results.append(is_suppressed()))
        thread.start()
        thread.join(10)
        return results[0]

    def judge(_trace: Trace) -> list[Score]:
        results = [is_suppressed(), pool.submit(is_suppressed).result(10), in_thread()]
        results.append(asyncio.run(asyncio.to_thread(is_suppressed)))
        return [Score("check", value=float(value)) for value in results]

    sunk: list[bool] = []
    capture = Capture()

    def sink(evaluation: Evaluation) -> None:
        sunk.extend((is_suppressed(), pool.submit(is_suppressed).result(10)))
        capture(evaluation)

    pipeline = make([evaluator(name="check")(judge)], sink)
    pipeline.submit(make_trace())
    scores = capture.wait(1)[0].scores
    assert [score.value for score in scores] == [1.0, 1.0, 1.0, 1.0]
    assert sunk == [True, True]
    assert pool.submit(is_suppressed).result(10) is False
    assert in_thread() is False
    pool.shutdown()
