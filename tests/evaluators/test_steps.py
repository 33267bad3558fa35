"""Tool calls of a request: what the recorder tells of them, how they travel, and which of them make a loop."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragtrace import plugins, semconv
from ragtrace.capture.recorder import Recorder
from ragtrace.evaluation import run
from ragtrace.live.child_process import ProcessRunner
from ragtrace.live.counts import inputs_of
from ragtrace.records import INPUTS, Facts, Score
from ragtrace.testing import make_trace
from tests.conftest import Recorded
from tests.row_files import rows

Step = dict[str, Any]


def score(steps: Any) -> Score:
    ((found,),) = run(plugins.load("looping_tool_calls"), [make_trace(facts=Facts(steps=tuple(steps)))])
    return found


@pytest.mark.parametrize("steps", rows(__file__, "leads_somewhere"))
def test_what_leads_somewhere_is_no_loop(steps: list[Step]) -> None:
    """New arguments, new results, a retry, and a second look."""
    assert score(steps).label == "pass"
    assert score([{"tool": "sql", "args": f"{'x' * 5_000}{n}", "result": "none"} for n in range(4)]).label == "pass"


@pytest.mark.parametrize("steps", rows(__file__, "circles"))
def test_circles_are_found(steps: list[Step]) -> None:
    """The same calls with the same results, exactly or nearly so, alone or in a cycle."""
    found = score(steps)
    assert found.label == "fail"
    assert "repeat earlier calls" in (found.explanation or "")


def test_json_in_another_order_is_the_same_call() -> None:
    """As OpenAI's calls have it; the case of a tool's name does not count."""
    calls = {"search": '{"a": 1, "b": [2]}', "Search": '{"b": [2],  "a": 1}', "SEARCH": '{"a":1,"b":[2]}'}
    steps = [{"tool": name, "args": text, "result": "none"} for name, text in calls.items()]
    assert score(steps).value == pytest.approx(0.6)


def test_the_value_grows_with_every_round() -> None:
    values = [score([{"tool": "search", "args": "pump", "result": "none"}] * n).value for n in range(1, 6)]
    assert values == pytest.approx([0, 1 / 3, 1.5 / 2.5, 2.5 / 3.5, 3.5 / 4.5])


@pytest.mark.parametrize("steps", [["search"], [{"args": {}}], [{"tool": 3}], [None]])
def test_what_is_no_tool_call_is_an_error(steps: Any) -> None:
    assert score(steps).error == "bad_steps"


@pytest.mark.parametrize("steps", [None, [], {}, 3, "search", [{"tool": "search", "args": "pump"}] * 9])
def test_other_things_by_that_name_do_not_apply(steps: Any) -> None:
    """An application's own `steps` are no tool calls; the pipeline counts as the evaluator does."""
    trace = make_trace(attributes={"steps": steps})
    ((result,),) = run(plugins.load("looping_tool_calls"), [trace])
    assert result.label == "not_applicable"
    assert not inputs_of(trace) & 1 << INPUTS.index("steps")


def test_all_calls_beyond_the_bound_are_named() -> None:
    found = score([{"tool": "list", "args": {"page": i}} for i in range(1_001)])
    assert found.value == 0.0
    assert "first 1000 steps" in (found.explanation or "")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@given(st.lists(st.fixed_dictionaries({"tool": st.text(max_size=5), "args": JSON}, optional={"result": JSON})))
def test_any_calls_get_a_score_in_range(steps: list[Step]) -> None:
    found = score(steps)
    assert found.error is None
    assert found.label == "not_applicable" or 0.0 <= (found.value or 0.0) <= 1.0


@pytest.mark.process
def test_calls_reach_the_evaluating_process() -> None:
    """Also arguments that cannot be sent, and very long ones."""
    one = {"tool": "search", "args": {"q": "pump", "lock": print, "text": "x" * 9_000}, "result": "none"}
    traces = [make_trace(facts=Facts(steps=steps)) for steps in ((one,) * 3, (1,), ())]
    runner = ProcessRunner()
    try:
        found = runner.evaluate(plugins.load("looping_tool_calls"), traces, [0, 1, 2], 60)
    finally:
        runner.stop()
    assert found is not None
    assert [s[0].label or s[0].error for s in found] == ["fail", "bad_steps", "not_applicable"]


@pytest.fixture
def recorder(recorded: Recorded) -> Recorder:
    return Recorder(recorded.provider, consumer=recorded.consumer)


def called(recorder: Recorder, key: str, name: str, query: str | None, answer: str | None = None, **end: Any) -> None:
    made = recorder.start(key, "root", semconv.OP_TOOL, name)
    assert made is not None
    made.query, made.answer = query, answer
    recorder.end(key, **end)


def test_the_recorder_gathers_calls(recorder: Recorder, recorded: Recorded) -> None:
    """In order, with what was asked and answered; a failure stands in the result's place."""
    recorder.start("root", None, semconv.OP_WORKFLOW, "rag")
    recorder.end("root")
    assert recorded.traces[0].facts.steps == ()
    recorder.start("root", None, semconv.OP_AGENT, "agent")
    called(recorder, "a", "search", "pump", "none")
    called(recorder, "b", "fetch", None, error=TimeoutError())
    recorder.start("c", "root", semconv.OP_TOOL, "late")
    recorder.end("root")
    assert list(recorded.traces[1].facts.steps) == rows(__file__, "what_the_recorder_gathers")


def test_what_is_gathered_is_bounded(recorder: Recorder, recorded: Recorded) -> None:
    recorder.start("root", None, semconv.OP_AGENT, "agent")
    for i in range(210):
        called(recorder, str(i), "write", "\ud800" + "x" * 9_000 + str(i), "y" * 500)
    recorder.end("root")
    steps: Any = recorded.traces[0].facts.steps
    assert (len(steps), {len(s["result"]) for s in steps}) == (200, {500})
    assert {len(s["args"]) for s in steps} == {300}  # a text without spaces may end in a secret
    assert len({s["args"] for s in steps}) == 200
