"""Workflows and agents: what they were asked and answered, whose turn it was, and the documents that they used."""

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

import pytest
from llama_index.core.agent.workflow import AgentWorkflow, FunctionAgent
from llama_index.core.base.response.schema import Response
from llama_index.core.llms import ChatMessage
from llama_index.core.query_engine import CustomQueryEngine
from llama_index.core.schema import TextNode
from llama_index.core.tools import FunctionTool
from llama_index_instrumentation import get_dispatcher
from pydantic import BaseModel
from workflows import Context, Workflow, step
from workflows.events import HumanResponseEvent, InputRequiredEvent, StartEvent, StopEvent

from tests.conftest import Recorded
from tests.hostile import Unbound
from tests.llama_index import cases
from tests.llama_index.cases import ANSWER, IDS, QUESTION, Caller, Fixed, Speaker, engine, run, say, scored
from tests.llama_index.test_overrides import WORKFLOWS
from tests.scenarios.function_model import calls, model


class Cover(BaseModel):
    """How long something is covered."""

    item: str
    months: int


class Forecast(StopEvent):
    weather: str
    degrees: int


class Weather(Workflow):
    @step
    async def say(self, ev: StartEvent) -> Forecast:
        return Forecast(weather="sun", degrees=20)


@pytest.mark.parametrize(
    ("inputs", "question"),
    [
        ({"number": 7}, "7"),
        ({"a": 7, "b": 8}, '{"a": 7, "b": 8}'),
        ({"city": "Bern", "month": "May"}, '{"city": "Bern", "month": "May"}'),
        ({"city": "Bern", "days": 3}, "Bern"),
        ({"order": Cover(item="pump", months=24)}, '{"item": "pump", "months": 24}'),
        ({"chat_history": [ChatMessage(content=QUESTION), ChatMessage(role="assistant", content="?")]}, QUESTION),
        ({}, ""),
    ],
)
def test_inputs_of_any_name(instrumented: Recorded, inputs: dict[str, Any], question: str) -> None:
    run(cases.Say, **inputs)
    (trace,) = instrumented.traces
    assert trace.query == question
    assert (instrumented.spans[0].attributes or {}).get("input.value", "") == question


def test_inputs_that_cannot_be_read(instrumented: Recorded) -> None:
    circle: list[Any] = []
    circle.append(circle)
    for value in (Unbound(), circle):
        instrumented.clear()
        run(cases.Say, question=value)
        (trace,) = instrumented.traces
        assert (trace.answer, trace.error) == ("Yes.", None)


@pytest.mark.parametrize(
    ("workflow", "answer"),
    [
        (lambda: say(8), "8"),
        (lambda: say(Cover(item="pump", months=24)), '{"item": "pump", "months": 24}'),
        (lambda: say([Cover(item="pump", months=24)]), '[{"item": "pump", "months": 24}]'),
        (Weather, '{"weather": "sun", "degrees": 20}'),
    ],
)
def test_answers_of_any_type(instrumented: Recorded, workflow: Callable[[], Workflow], answer: str) -> None:
    run(workflow, query=QUESTION)
    assert instrumented.traces[0].answer == answer
    assert instrumented.spans[0].attributes["output.value"] == answer  # type: ignore[index]


@pytest.mark.skipif(WORKFLOWS < 2, reason="agents of llama-index-core 0.12 have no structured answer")
def test_agent_with_a_structured_answer(instrumented: Recorded) -> None:
    async def fill(messages: Any) -> dict[str, Any]:
        return Cover(item="pump", months=24).model_dump()

    run(lambda: FunctionAgent(tools=[cases.TODAY], llm=Caller(), structured_output_fn=fill), user_msg=QUESTION)
    assert instrumented.traces[0].answer == '{"item": "pump", "months": 24}'


def test_agents_of_an_agent_workflow(instrumented: Recorded) -> None:
    first: dict[str, Any] = {"name": "researcher", "description": "Looks", "can_handoff_to": ["writer"]}
    hand_over = calls("handoff", to_agent="writer", reason="the answer is known")
    researcher = FunctionAgent(**first, tools=[cases.TODAY], llm=model(hand_over))
    writer = FunctionAgent(name="writer", description="Writes", tools=[cases.TODAY], llm=model(calls("today"), ANSWER))
    run(lambda: AgentWorkflow(agents=[researcher, writer], root_agent="researcher"), user_msg=QUESTION)
    chat = ("chat scripted-1", [])
    turns = [
        ("invoke_agent researcher", [chat, ("execute_tool handoff", [])]),
        ("invoke_agent writer", [chat, ("execute_tool today", []), chat]),
    ]
    assert instrumented.tree() == [("invoke_workflow AgentWorkflow", turns)]
    first, second = (dict(span.attributes or {}) for span in instrumented.named("invoke_agent"))
    assert (first["gen_ai.agent.name"], second["gen_ai.agent.name"]) == ("researcher", "writer")
    below = [*instrumented.named("chat"), *instrumented.named("execute_tool")]
    assert {(span.attributes or {})["gen_ai.agent.name"] for span in below} == {"researcher", "writer"}
    assert (second["input.value"], second["output.value"]) == (QUESTION, ANSWER)
    assert not [span for span in instrumented.spans if "ragtrace.cancelled" in (span.attributes or {})]
    (trace,) = instrumented.traces
    assert (trace.query, trace.answer) == (QUESTION, ANSWER)


class Asking(Workflow):
    @step
    async def ask(self, ev: StartEvent) -> InputRequiredEvent:
        return InputRequiredEvent(prefix="Which pump?")

    @step
    async def answer(self, ev: HumanResponseEvent) -> StopEvent:
        return StopEvent(result=f"{ev.response}: {ANSWER}")


async def leave_at_question(handler: Any, keeps_state: bool = False) -> Any:
    """Cancel a run when it asks a person; returns its state where it is wanted."""
    async for event in handler.stream_events():
        if isinstance(event, InputRequiredEvent):
            break
    state = handler.ctx.to_dict() if keeps_state else None
    await handler.cancel_run()
    with contextlib.suppress(Exception):
        await handler
    return state


@pytest.mark.skipif(WORKFLOWS < 2, reason="llama-index-workflows 1 does not say how a workflow ended")
def test_interrupted_and_resumed(instrumented: Recorded) -> None:
    """A question to a person is no answer: a run that stops there waits. What the person says is the next question."""

    async def ask() -> None:
        workflow = Asking()
        state = await leave_at_question(workflow.run(query=QUESTION), keeps_state=True)
        resumed = workflow.run(ctx=Context.from_dict(workflow, state))
        resumed.ctx.send_event(HumanResponseEvent(response="P7"))
        await resumed

    asyncio.run(ask())
    first, second = instrumented.traces
    assert (first.query, first.answer, first.error, first.facts.waiting) == (QUESTION, "", None, True)
    assert instrumented.named("invoke_workflow")[0].attributes["output.value"] == "Which pump?"
    assert (second.query, second.answer) == ("P7", f"P7: {ANSWER}")


@pytest.mark.skipif(WORKFLOWS < 2, reason="llama-index-workflows 1 does not say how a workflow ended")
def test_tool_that_waits_for_a_person(instrumented: Recorded) -> None:
    """A tool that waits for a person stops its agent without an error, and the root waits when the run is left."""

    async def confirm(ctx: Context) -> str:
        """Asks first."""
        asked = InputRequiredEvent(prefix="Are you sure?")
        answer = await ctx.wait_for_event(HumanResponseEvent, waiter_id="sure", waiter_event=asked)
        return str(answer.response)

    confirm.__annotations__["ctx"] = Context  # LlamaIndex looks for the class, not for its name

    async def ask() -> None:
        tool = FunctionTool.from_defaults(async_fn=confirm, name="today")
        await leave_at_question(FunctionAgent(name="careful", tools=[tool], llm=Caller()).run(QUESTION))

    asyncio.run(ask())
    (trace,) = instrumented.traces
    assert (trace.query, trace.answer, trace.error, trace.facts.waiting) == (QUESTION, "", None, True)
    assert not [span for span in instrumented.spans if span.status.status_code.name == "ERROR"]


SEARCHES: dict[str, Callable[..., Any]] = {
    "nodes with scores": lambda query="pump": scored(),
    "plain nodes": lambda query="pump": list(cases.NODES),
    "nodes in a mapping": lambda query="pump": {"query": query, "documents": scored()},
    "response of an engine": lambda query="pump": engine().query(query),
    "own retriever": lambda query="pump": "\n".join(node.text for node in Fixed().retrieve(query)),
}


@pytest.mark.parametrize("search", SEARCHES)
def test_documents_of_a_tool(instrumented: Recorded, search: str) -> None:
    if WORKFLOWS < 2 and search in ("response of an engine", "own retriever"):
        pytest.skip("llama-index-core 0.12 calls a synchronous tool in a thread without its context")
    tool = FunctionTool.from_defaults(SEARCHES[search], name="today", description="Searches.")
    run(lambda: FunctionAgent(tools=[tool], llm=Caller()), user_msg=QUESTION)
    (trace,) = instrumented.traces
    assert tuple(document.id for document in trace.documents) == IDS


def test_an_object_that_a_tool_returns_is_evidence_once(instrumented: Recorded) -> None:
    """The model reads it as Python prints it."""
    tool = FunctionTool.from_defaults(lambda query="": Cover(item="pump", months=24), name="today", description="x")
    run(lambda: FunctionAgent(tools=[tool], llm=Caller()), user_msg=QUESTION)
    assert [d.content for d in instrumented.traces[0].documents] == ["item='pump' months=24"]


class PlainSearch(cases.Flow):
    """Searches without a retriever."""

    @step
    async def look(self, ev: StartEvent) -> cases.Found:
        return cases.Found(nodes=scored())


@get_dispatcher().span
def plain_function(query: str) -> list[Any]:
    return scored()


@get_dispatcher().span
def plain_question(query: str) -> str:
    return Speaker().complete(str(plain_function(query))).text


@pytest.mark.parametrize(
    "ask",
    [
        lambda: run(PlainSearch, query=QUESTION),
        lambda: run(lambda: say({"answer": ANSWER, "source_nodes": scored()}), query=QUESTION),
        lambda: plain_question(QUESTION),
        cases.CASES["retrieve_and_synthesize"].run,
    ],
    ids=["an event", "the result", "a function", "a synthesizer"],
)
def test_documents_of_plain_functions(instrumented: Recorded, ask: Callable[[], Any]) -> None:
    ask()
    (trace,) = instrumented.traces
    assert (trace.query, trace.answer) == (QUESTION, ANSWER)
    assert tuple(document.id for document in trace.documents) == IDS
    (root,) = instrumented.named("invoke_workflow")
    attributes = dict(root.attributes or {})
    assert attributes["retrieval.documents.4.document.id"] == "n4"
    assert attributes["ragtrace.retrieval.documents.count"] == 5


def test_the_object_that_a_model_fills_in_is_no_evidence(instrumented: Recorded) -> None:
    """LlamaIndex makes it by a tool that is named after its class."""
    engine(llm=model(calls("Cover", item="pump", months=36)), output_cls=Cover).query(QUESTION)
    (trace,) = instrumented.traces
    assert (tuple(document.id for document in trace.documents), trace.facts.steps) == (IDS, ())
    assert trace.answer == '{"item": "pump", "months": 36}'


def test_documents_of_two_tools(instrumented: Recorded) -> None:
    class Both(Workflow):
        @step
        async def say(self, ev: StartEvent) -> StopEvent:
            engine(Fixed(lambda: scored(cases.NODES[:2]))).query(ev.query)
            other = Fixed(lambda: scored(cases.NODES[3:]))
            FunctionTool.from_defaults(lambda: str(other.retrieve("x")), name="s").call()
            return StopEvent(result=str(Speaker().complete("Answer.")))

    run(Both, query=QUESTION)
    assert {document.id for document in instrumented.traces[0].documents} == {"n0", "n1", "n3", "n4"}


def test_what_a_model_wrote_is_no_document(instrumented: Recorded) -> None:
    """The answer to a part of the question, which SubQuestionQueryEngine passes on as a node."""

    class Parts(CustomQueryEngine):
        def custom_query(self, query_str: str) -> Any:
            part = TextNode(text=f"Sub question: how long?\nResponse: {engine().query(query_str)}")
            return Response(ANSWER, source_nodes=scored([part, *cases.NODES]))

    Parts().query(QUESTION)
    assert tuple(document.id for document in instrumented.traces[0].documents) == IDS


def test_a_chunk_that_the_answer_repeats_is_a_document(instrumented: Recorded) -> None:
    """It was retrieved; that the model wrote it, too, takes nothing from it."""
    nodes = [TextNode(text=ANSWER, id_="a"), TextNode(text="Call us.", id_="b")]
    engine(Fixed(lambda: scored(nodes))).query(QUESTION)
    assert [document.id for document in instrumented.traces[0].documents] == ["a", "b"]
