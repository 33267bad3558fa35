"""What counts as evidence beside chunks: results of tools, and the prompt."""

from typing import Any

import pytest
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableLambda
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import interrupt

import ragtrace
from ragtrace import plugins
from ragtrace.evaluation import run
from ragtrace.records import Score, Trace
from ragtrace_langchain import RagtraceCallbackHandler
from tests.conftest import Recorded
from tests.row_files import rows
from tests.scenarios.scripted_chat import graph

RULE = "The warranty of the pump is 24 months from delivery. It covers parts and labour."


def seen(trace: Trace) -> list[tuple[str, str]]:
    return [(document.source, document.content) for document in trace.documents]


def grounded(trace: Trace) -> Score:
    ((score,),) = run(plugins.load("groundedness"), [trace])
    return score


def test_a_tool_by_hand_is_evidence(by_hand: Recorded) -> None:
    """With the tool's name; a short chunk in a result does not take the result away, chunks that a tool repeats do."""
    with ragtrace.request("How is the weather?") as request:
        request.retrieved(["Berlin", RULE])
        request.used("weather", "Berlin: it is 12 degrees and raining.", {"city": "Berlin"})
        request.used("search", RULE)
        request.answered("It is raining in Berlin.")
    (trace,) = by_hand.traces
    assert seen(trace) == [("", "Berlin"), ("", RULE), ("tool", "Berlin: it is 12 degrees and raining.")]
    assert trace.documents[2].id == "weather #1"
    assert grounded(trace).label == "pass"


@pytest.mark.parametrize("secret", ["sk-proj-Zq8Zq7Zq6Zq5Zq4Zq3Zq2Zq1Zq0", "4111 1111 1111 1111"])
def test_a_long_step_is_cut_before_a_secret(by_hand: Recorded, secret: str) -> None:
    """Half of it would not be recognized where steps are masked."""
    for length in range(450, 490):
        with ragtrace.request("Where is it?") as request:
            request.used("find", f"{'x ' * 250}"[:length] + f" {secret} {'y ' * 200}", {})
            request.answered("Here.")
    results = [trace.facts.steps[0]["result"] for trace in by_hand.traces]
    assert not any(secret[:4] in result and secret not in result for result in results)


@pytest.mark.parametrize(("answer", "retrieved", "label", "cause"), rows(__file__, "an_answer_without_context"))
def test_an_answer_without_context(by_hand: Recorded, answer: str, retrieved: bool, label: str, cause: Any) -> None:
    with ragtrace.request("What comes with the pump?") as request:
        if retrieved:
            request.retrieved([])
        request.answered(answer)
    score = grounded(by_hand.traces[0])
    assert (score.label, score.cause) == (label, cause)


@pytest.mark.parametrize(("messages", "answer", "label", "cause"), rows(__file__, "prompt_as_context"))
def test_prompt_as_context(recorded: Recorded, messages: list[Any], answer: str, label: str, cause: str | None) -> None:
    """Without chunks and tools the prompt is the evidence, but for what the model itself has said."""
    handler = RagtraceCallbackHandler(tracer_provider=recorded.provider, consumer=recorded.consumer)
    FakeListChatModel(responses=[answer]).invoke(messages, {"callbacks": [handler]})
    (trace,) = recorded.traces
    assert {source for source, _ in seen(trace)} <= {"prompt"}
    score = grounded(trace)
    assert (score.label, score.cause) == (label, cause)
    ((retrieval,),) = run(plugins.load("context_relevancy_recall"), [trace])
    assert retrieval.label == "not_applicable"


def test_an_inner_graph_that_waits_does_not_make_its_caller_wait(recorded: Recorded) -> None:
    inner = graph(lambda state: {"messages": [interrupt("Sure?")]}, checkpointer=InMemorySaver())

    def asks(_: Any) -> Any:
        inner.invoke({"messages": [("user", "x")]}, {"configurable": {"thread_id": "inner"}})
        return {"messages": [AIMessage("24 months.")]}

    handler = RagtraceCallbackHandler(tracer_provider=recorded.provider, consumer=recorded.consumer)
    config: Any = {"callbacks": [handler]}
    graph(asks).invoke({"messages": [("user", "How long?")]}, config)
    RunnableLambda(lambda x: asks(x)["messages"][0].content).invoke("How long?", config)
    assert [(trace.answer, trace.facts.waiting) for trace in recorded.traces] == [("24 months.", False)] * 2
