"""Questions and answers of chains and graphs in all their forms; agents below agents; interrupts; tools."""

import asyncio
import datetime
import gc
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypedDict

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.documents import Document
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import ToolException, create_retriever_tool, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command, interrupt
from opentelemetry.trace import StatusCode
from pydantic import BaseModel, RootModel

import ragtrace
from ragtrace import semconv
from ragtrace.capture import manual
from ragtrace.capture.seen_context import NOTHING
from ragtrace_langchain import RagtraceCallbackHandler, graphs
from ragtrace_langchain.question_answer import answer_of, query_of
from tests.conftest import Recorded
from tests.langchain.cases import Broken, Fixed, agent
from tests.row_files import rows
from tests.scenarios.scripted_chat import call, chat, graph


class Ask(BaseModel):
    topic: str
    language: str


@dataclass
class Question:
    question: str
    depth: int = 3


@pytest.mark.parametrize(
    ("inputs", "question"),
    [
        *rows(__file__, "questions"),
        ({"query": "a", "chat_history": [HumanMessage("before")]}, "a"),
        ({"topic": "pumps", "language": "de", "past": [HumanMessage("hi")]}, '{"topic": "pumps", "language": "de"}'),
        (Ask(topic="pumps", language="de"), '{"topic": "pumps", "language": "de"}'),
        (Question("How long?"), "How long?"),
        (("user", "a"), "a"),
        ([("system", "s"), ("user", "a"), ("ai", "b")], "a"),
        ({"messages": [("user", "How long?")]}, "How long?"),
        (Command(resume="yes"), "yes"),
        (Command(resume={"type": "accept"}), '{"type": "accept"}'),
        (Command(update={"messages": [HumanMessage("How long?")]}), "How long?"),
    ],
)
def test_questions(inputs: Any, question: str | None) -> None:
    """The question is found under a known name, as the only text, in the messages, or else is all inputs as JSON."""
    assert query_of(inputs) == question


def test_several_inputs_of_unknown_names(recorded: Recorded, config: Any) -> None:
    chain = RunnableLambda(lambda given: given["topic"]) | RunnableLambda(str)
    chain.invoke({"topic": "pumps", "language": "de"}, config)
    list(chain.stream({"topic": "pumps", "language": "de"}, config))
    RunnableLambda(lambda _: "yes").invoke({}, config)
    assert [trace.query for trace in recorded.traces] == ['{"topic": "pumps", "language": "de"}'] * 2 + [""]


class Reply(BaseModel):
    months: int
    since: datetime.date = datetime.date(2024, 1, 1)


class Replies(RootModel[list[Reply]]):
    pass


CALL = {"name": "look_up", "args": {"what": "pump", "top": 3}, "id": "c1", "type": "tool_call"}
REPLY = '{"months": 24, "since": "2024-01-01"}'


@pytest.mark.parametrize(
    ("outputs", "question", "answer"),
    [
        (Reply(months=24), None, REPLY),
        (Question("How long?"), None, '{"question": "How long?", "depth": 3}'),
        (Replies([Reply(months=24)]), None, f"[{REPLY}]"),
        ([Reply(months=24)], None, f"[{REPLY}]"),
        ({"answer": Reply(months=24)}, None, REPLY),
        ({"raw": AIMessage("{}"), "parsed": Reply(months=24), "parsing_error": None}, None, REPLY),
        ({"messages": [AIMessage("")], "structured_response": Reply(months=24)}, None, REPLY),
        ({"messages": [HumanMessage("q"), AIMessage("24 months.")]}, None, "24 months."),
        ({"messages": [AIMessage("", tool_calls=[CALL]), ToolMessage("Ha.", tool_call_id="c1")]}, None, "Ha."),
        ({"topic": "pumps", "found": [Document("Covered.")], "report": "24 months."}, "pumps", "24 months."),
        ({"topic": "pumps", "joke": AIMessage("Ha."), "poem": "Roses."}, "pumps", '{"joke": "Ha.", "poem": "Roses."}'),
        ({"months": 24}, "pumps", '{"months": 24}'),
        ({"topic": "pumps"}, "pumps", '{"topic": "pumps"}'),
    ],
)
def test_answers(outputs: Any, question: str | None, answer: str) -> None:
    """Objects are JSON; a tool's last message is an answer; of unknown names it is no question and no document."""
    assert answer_of(outputs, question) == answer


class Report(TypedDict, total=False):
    topic: str
    draft: str
    report: str
    steps: int


@pytest.mark.parametrize("is_streamed", [False, True])
def test_the_last_text_of_a_model_in_a_graphs_state(recorded: Recorded, config: Any, is_streamed: bool) -> None:
    """Where the state's names say nothing, the answer is what the last model said of what is in the state."""

    def write(name: str, text: str) -> Any:
        return lambda state: {name: FakeListChatModel(responses=[text]).invoke("Write.").text, "steps": 2}

    def grade(state: Report) -> Report:
        FakeListChatModel(responses=["yes"]).invoke("Is it good?")
        return {"steps": 3}

    builder = StateGraph(Report)
    builder.add_sequence([("a", write("draft", "Some months.")), ("b", write("report", "24 months.")), ("c", grade)])
    builder.add_edge(START, "a")
    graph = builder.compile()
    list(graph.stream({"topic": "pumps"}, config)) if is_streamed else graph.invoke({"topic": "pumps"}, config)
    assert [(trace.query, trace.answer) for trace in recorded.traces] == [("pumps", "24 months.")]


class Draft(TypedDict, total=False):
    question: str
    found: list[Document]
    answer: str


def asking_graph(question: Any) -> Any:
    """A graph that asks a model, and then a person, before it answers."""

    def ask(state: Draft) -> Draft:
        FakeListChatModel(responses=["Dear Ada"]).invoke(state["question"])
        return {"answer": f"sent: {interrupt(question)}"}

    builder = StateGraph(Draft).add_node("ask", ask).add_edge(START, "ask")
    return builder.compile(checkpointer=InMemorySaver())


SENT = [("Write to Ada.", "", True), ("Write to Ada.", "sent: yes", False)]
"""The turn in which a graph asks a person, and the next one."""


def turns(recorded: Recorded) -> list[tuple[str, str, bool]]:
    """Question, answer and whether it waits, of each request."""
    return [(trace.query, trace.answer, trace.facts.waiting) for trace in recorded.traces]


@pytest.fixture
def thread(config: Any, request: pytest.FixtureRequest) -> Any:
    """The configuration of a conversation of the test's own."""
    return config | {"configurable": {"thread_id": request.node.name}}


@pytest.mark.parametrize(
    ("question", "text"),
    [("Send it?", "Send it?"), ({"question": "Send it?"}, '{"question": "Send it?"}'), (None, ""), ("", "")],
)
def test_an_interrupt_and_its_resumption(recorded: Recorded, thread: Any, question: Any, text: str) -> None:
    """What a graph asks a person is no answer, and no error: that request waits; the second root has a link to it."""
    graph = asking_graph(question)
    graph.invoke({"question": "Write to Ada."}, thread)
    graph.invoke(Command(resume="yes"), thread)
    assert turns(recorded) == SENT
    first, second = recorded.named("invoke_workflow")
    assert [link.context.span_id for link in second.links] == [first.context.span_id]
    assert (first.links, first.attributes[semconv.OI_OUTPUT], first.attributes[semconv.STATUS]) == ((), text, "waiting")
    assert not any(semconv.ERROR_TYPE in (span.attributes or {}) for span in recorded.spans)


@pytest.mark.parametrize("form", ["invoke", "ainvoke", "inside", "left"])
def test_a_graph_at_a_breakpoint_waits(recorded: Recorded, thread: Any, form: str) -> None:
    """A pause at `interrupt_before` is no answer, whatever the model has said; the graph goes on as one that asked."""
    steps: Any = StateGraph(MessagesState).add_node("plan", lambda _: {"messages": [AIMessage("I look.")]})
    steps.add_node("act", lambda _: {"messages": [AIMessage("It ships on Monday.")]})
    steps.add_edge(START, "plan").add_edge("plan", "act")
    memory = InMemorySaver()
    graph: Any = steps.compile(checkpointer=None if form == "inside" else memory, interrupt_before=["act"])
    if form == "inside":
        graph = StateGraph(MessagesState).add_node("steps", graph).add_edge(START, "steps").compile(checkpointer=memory)
    for inputs in ({"messages": [("user", "When does order 17 ship?")]}, None):
        if form == "ainvoke":
            asyncio.run(graph.ainvoke(inputs, thread))
        elif form == "left" and inputs:
            next(chunk for chunk in graph.stream(inputs, thread, stream_mode="updates") if "__interrupt__" in chunk)
            gc.collect()
        else:
            graph.invoke(inputs, thread)
    assert [(t.query, t.answer, t.facts.waiting, t.facts.cancelled) for t in recorded.traces] == [
        ("When does order 17 ship?", "", True, False),
        ("When does order 17 ship?", "It ships on Monday.", False, False),
    ]
    first, second = recorded.named("invoke_workflow")
    assert [link.context.span_id for link in second.links] == [first.context.span_id]


def test_a_graph_that_ends_with_a_call_of_a_tool_has_answered(recorded: Recorded, thread: Any) -> None:
    """Some answer by the arguments of a call that nobody makes."""
    call = {"name": "FinalAnswer", "args": {"text": "On Monday."}, "id": "1"}
    steps: Any = StateGraph(MessagesState)
    steps.add_node("say", lambda _: {"messages": [AIMessage("On Monday.", tool_calls=[call])]}).add_edge(START, "say")
    steps.compile(checkpointer=InMemorySaver()).invoke({"messages": [("user", "When?")]}, thread)
    assert [(t.answer, t.facts.waiting) for t in recorded.traces] == [("On Monday.", False)]


@tool
def stock(item: str) -> str:
    """Pieces."""
    return "13 pieces"


def searching_graph(search: Any, saver: Any = None) -> Any:
    """A graph that searches, asks a person, and repeats what it has found."""

    def find(state: Draft) -> Draft:
        with suppress(ConnectionError):
            search.invoke(state["question"])
        return {}

    def ask(state: Draft) -> Draft:
        return {"answer": f"It is 24 months: {interrupt('Send it?')}"}

    builder = StateGraph(Draft).add_sequence([("find", find), ("ask", ask)]).add_edge(START, "find")
    return builder.compile(checkpointer=saver or InMemorySaver())


class OwnSaver(InMemorySaver):
    pass


@pytest.mark.parametrize(
    ("kind", "more"), [(InMemorySaver, ()), (OwnSaver, ()), (None, ("user_id",)), (None, ("tenant",))]
)
def test_two_tenants_have_two_threads_of_one_name(recorded: Recorded, thread: Any, kind: Any, more: Any) -> None:
    """Two tenants' graphs of one name call their threads alike: neither gets the other's question."""
    shared, names = InMemorySaver(), ("Ada", "Bob")
    first, second = (searching_graph(Fixed(documents=[Document(name)]), kind() if kind else shared) for name in names)
    for each, name in ((first, "Ada"), (second, "Bob")):
        each.invoke({"question": name}, thread | {"metadata": dict.fromkeys(more, name)})
    first.invoke(Command(resume="yes"), thread | {"metadata": dict.fromkeys(more, "Ada")})
    assert (recorded.traces[-1].query, [d.content for d in recorded.traces[-1].documents]) == ("Ada", ["Ada"])


@pytest.mark.parametrize("users", [("Ada", None), (None, "Ada"), ("Ada", "Bob")])
def test_a_resumption_may_name_no_user(recorded: Recorded, thread: Any, users: tuple[str | None, str | None]) -> None:
    graph = searching_graph(Fixed(documents=[Document("24 months")]))
    for user, inputs in zip(users, ({"question": "How long?"}, Command(resume="yes")), strict=True):
        graph.invoke(inputs, thread | {"metadata": {"user_id": user} if user else {}})
    assert len(recorded.named("invoke_workflow")[-1].links) == int(None in users)


def test_a_resumption_has_what_was_done_before(recorded: Recorded, config: Any) -> None:
    """Under another name of the run, too: chunks, retrievals and tools' calls; and of a failed search that it was."""
    for number, search in enumerate((Fixed(documents=[Document("24 months")]), stock, Broken())):
        graph = searching_graph(search)
        config["configurable"] = {"thread_id": f"before-{number}"}
        graph.invoke({"question": "How long?"}, config | {"run_name": "ask"})
        graph.invoke(Command(resume="yes"), config | {"run_name": "approve"})
    found = [
        ([d.content for d in t.documents], t.facts.retrievals, len(t.facts.steps)) for t in recorded.traces if t.answer
    ]
    assert found == [(["24 months"], 1, 0), (["13 pieces"], 0, 1), ([], 1, 0)]


@pytest.mark.parametrize("around", ["chain", "function", "fallback"])
def test_a_chain_around_a_graph_waits_with_it(recorded: Recorded, config: Any, around: str) -> None:
    """It says what the graph asks, in its own words, and goes on with it."""
    graph = asking_graph("Send it?")
    inner = {"configurable": {"thread_id": f"inside-{around}"}}

    def tell(state: Any) -> str:
        return str(state.get("answer") or f"May I? {state['__interrupt__'][0].value}")

    chain: Any = RunnableLambda(lambda given: tell(graph.invoke(given, inner)))
    if around != "function":
        config["configurable"] = inner["configurable"]
        chain = graph | RunnableLambda(tell) if around == "chain" else graph.with_fallbacks([RunnableLambda(str)])
    chain.invoke({"question": "Write to Ada."}, config)
    chain.invoke(Command(resume="yes"), config)
    assert turns(recorded) == SENT
    assert around == "fallback" or [len(span.links) for span in recorded.named("invoke_workflow")] == [0, 1]


def test_a_resumption_that_fails_and_a_replay(recorded: Recorded, thread: Any) -> None:
    """The second try of a resumption has the first question, too; a replay from a checkpoint that of its state."""
    tries = iter([ConnectionError("down"), None])

    def ask(state: Draft) -> Draft:
        reply = interrupt("Send it?")
        if error := next(tries, None):
            raise error
        return {"answer": f"sent: {reply}"}

    graph = StateGraph(Draft).add_node("ask", ask).add_edge(START, "ask").compile(checkpointer=InMemorySaver())
    graph.invoke({"question": "Write to Ada."}, thread)
    with pytest.raises(ConnectionError):
        graph.invoke(Command(resume="yes"), thread)
    graph.invoke(Command(resume="yes"), thread)
    graph.invoke(None, {**thread, **[s.config for s in graph.get_state_history(thread) if s.next == ("ask",)][-1]})
    assert [t.query for t in recorded.traces] == ["Write to Ada."] * 4
    assert [len(span.links) for span in recorded.named("invoke_workflow")] == [0, 1, 1, 0]


@pytest.mark.parametrize("is_async", [False, True])
def test_a_stream_that_is_left_at_the_question(recorded: Recorded, thread: Any, is_async: bool) -> None:
    """Who reads a stream up to the interrupt, and goes on, has asked once: nothing was cancelled."""
    graph, asked = asking_graph("Send it?"), {"question": "Write to Ada."}

    async def left() -> None:
        async for chunk in graph.astream(asked, thread):
            if "__interrupt__" in chunk:
                break
        await graph.ainvoke(Command(resume="yes"), thread)

    if is_async:
        asyncio.run(left())
    else:
        next(chunk for chunk in graph.stream(asked, thread) if "__interrupt__" in chunk)
        graph.invoke(Command(resume="yes"), thread)
    gc.collect()
    assert sorted(turns(recorded)) == SENT
    assert not any(trace.facts.cancelled for trace in recorded.traces)


def test_what_a_tool_adds_to_its_chunks_is_context(recorded: Recorded, thread: Any) -> None:
    """And what another call of the same tool returns that retrieved nothing; in the next turn the first one's, too."""
    cover = "is covered for 24 months."

    @tool
    def product(what: str) -> str:
        """Finds a product, or its stock."""
        if what == "stock":
            return "13 pieces are in Hamburg, and 4 in Kiel."
        chunk = Fixed(documents=[Document(f"The {what} {cover}")]).invoke(what)[0]
        return f"{chunk.page_content}\nIt costs 240 euros in the shop."

    both = [{"name": "product", "args": {"what": what}, "id": f"c-{what}"} for what in ("pump", "stock")]
    model = chat(AIMessage("", tool_calls=both), "Yes.", call("product", what="valve"), "No.")
    shop = create_agent(model, [product], checkpointer=InMemorySaver())
    for question in ("Is the pump covered?", "And the valve?"):
        shop.invoke({"messages": [("user", question)]}, thread)
    first, second = ({d.content for d in trace.documents} for trace in recorded.traces)
    price, stock = "It costs 240 euros in the shop.", "what: stock.\n13 pieces are in Hamburg, and 4 in Kiel."
    assert first == {f"The pump {cover}", price, stock}
    assert second == {f"The valve {cover}", price, stock, f"The pump {cover}\n{price}"}


def test_an_agent_that_waits_for_approval_is_one_request(recorded: Recorded, thread: Any) -> None:
    """After the approval the first question and the tool's result are judged; a second interrupt keeps both."""
    calls = [call("look_up", identity=f"c{i}", what="pump", top=3) for i in (1, 2)]
    person = HumanInTheLoopMiddleware({"look_up": True})
    model = chat(*calls, "It is a pump.")
    asking = create_agent(model, [look_up], middleware=[person], checkpointer=InMemorySaver())
    asking.invoke({"messages": [("user", "What is it?")]}, thread)
    for decision in (
        {"type": "edit", "edited_action": {"name": "look_up", "args": {"what": "valve"}}},
        {"type": "approve"},
    ):
        asking.invoke(Command(resume={"decisions": [decision]}), thread)
    assert turns(recorded) == [("What is it?", "", True)] * 2 + [("What is it?", "It is a pump.", False)]
    assert {d.source for d in recorded.traces[-1].documents} == {"tool"}
    assert "what: pump" not in recorded.traces[-1].documents[-1].content


def test_threads_of_one_session_keep_their_questions(recorded: Recorded, config: Any) -> None:
    """A session may have several threads; a command that only goes somewhere else resumes nothing."""
    graph = asking_graph("Send it?")
    configs = [{**config, "configurable": {"thread_id": t}, "metadata": {"session_id": "one"}} for t in "xy"]
    for each, name in zip(configs, ("Ada", "Bob"), strict=True):
        graph.invoke({"question": f"Write to {name}."}, each)
    for each in configs:
        graph.invoke(Command(resume="yes"), each)
    graph.invoke({"question": "Write to Cyd."}, configs[0])
    graph.invoke(Command(goto="ask", update={"question": "Write to Dan."}), configs[0])
    graph.invoke({"question": "Write to Eve."}, configs[1])
    graph.invoke({"question": "Write to Fay."}, configs[1])  # and ends what was asked before
    graph.invoke(Command(resume="yes"), configs[1])
    questions = [t.query.removeprefix("Write to ") for t in recorded.traces]
    assert questions == ["Ada.", "Bob.", "Ada.", "Bob.", "Cyd.", "Dan.", "Eve.", "Fay.", "Fay."]
    assert [len(span.links) for span in recorded.named("invoke_workflow")] == [0, 0, 1, 1, 0, 0, 0, 0, 1]


@pytest.fixture
def by_hand(handler: Any) -> Iterator[None]:
    manual.set_recorder(handler.recorder)
    yield
    manual.set_recorder(None)


@pytest.mark.usefixtures("by_hand")
def test_a_handler_without_arguments_is_as_init_has_it(handler: Any) -> None:
    made = RagtraceCallbackHandler().recorder
    assert (made.provider, made.capture) == (handler.recorder.provider, handler.recorder.capture)
    assert not RagtraceCallbackHandler(capture_content=False).recorder.capture.spans


@pytest.mark.usefixtures("by_hand")
@pytest.mark.parametrize("session", [None, "s1"])
def test_a_graph_in_a_request_by_hand_waits(recorded: Recorded, thread: Any, session: str | None) -> None:
    """So does the request, whatever is shown to the person; the next one has the first question."""
    graph = asking_graph("Send it?")
    for question, turn in (("Write to Ada.", {"question": "Write to Ada."}), ("yes", Command(resume="yes"))):
        with ragtrace.request(question, session_id=session) as request:
            request.answered(graph.invoke(turn, thread).get("answer", "A colleague looks at it."))
    with ragtrace.request("Write to Bob.") as request:  # and both in one
        graph.invoke({"question": "Write to Bob."}, thread)
        request.answered(graph.invoke(Command(resume="no"), thread)["answer"])
    with ragtrace.request("Write to Cyd.") as request:  # an application that goes on beside the graph has answered
        graph.invoke({"question": "Write to Cyd."}, thread)
        request.answered(FakeListChatModel(responses=["Dear Cyd"]).invoke("Write.", thread).text)
    assert [(t.query.removeprefix("Write to "), t.answer, t.facts.waiting) for t in recorded.traces] == [
        ("Ada.", "", True),
        ("Ada.", "sent: yes", False),
        ("Bob.", "sent: no", False),
        ("Cyd.", "Dear Cyd", False),
    ]
    roots = [span for span in recorded.spans if span.parent is None]
    assert [len(root.links) for root in roots] == [0, 1, 0, 0]


def test_a_resumption_in_another_process(recorded: Recorded, thread: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The question is in the state; the reply of the person is none."""
    graph = asking_graph("Send it?")
    graph.invoke({"question": "Write to Ada."}, thread)
    monkeypatch.setattr(graphs, "_interrupted", {})
    graph.invoke(Command(resume="yes"), thread)
    assert [(t.query, t.answer) for t in recorded.traces] == [("Write to Ada.", ""), ("Write to Ada.", "sent: yes")]


CHUNK = "The pump is covered for 24 months."


def test_the_evidence_is_of_the_call_that_answered(recorded: Recorded, config: Any) -> None:
    """A guard that quotes the answer, and a title, come after it."""

    def ask(question: str) -> str:
        answer = FakeListChatModel(responses=["For 99 years."]).invoke(f"{CHUNK}\n{question}").text
        FakeListChatModel(responses=["SAFE"]).invoke(f"Is it safe to say: {answer} Reply SAFE or UNSAFE.")
        return str(answer)

    RunnableLambda(ask).invoke("How long?", config)
    assert [d.content for d in recorded.traces[0].documents] == [f"{CHUNK}\nHow long?"]


OTHER = "The valve is covered for 12 months by its maker."
FOUND = Fixed(documents=[Document(CHUNK, id="d0"), Document(OTHER, id="d1")])


def says(answer: str, prompt: str) -> str:
    return str(FakeListChatModel(responses=[answer]).invoke(prompt).text)


def test_what_a_step_threw_out_does_not_come_back_in_the_result_of_the_search(recorded: Recorded, config: Any) -> None:
    search = create_retriever_tool(FOUND, "search", "Finds.")

    def ask(question: str) -> str:
        search.invoke({"query": question})
        (good,) = RunnableLambda(lambda _: FOUND.documents[:1]).invoke(question)
        return says("24 months.", f"{good.page_content} {question}")

    RunnableLambda(ask).invoke("How long?", config)
    assert [d.id for d in recorded.traces[0].documents] == ["d0"]


def test_a_second_search_that_finds_less_throws_nothing_out(recorded: Recorded, config: Any) -> None:
    """Both results are in the prompt of the model that answered."""
    results = {"all": FOUND.documents, "one": FOUND.documents[:1]}
    look = tool("look", description="Finds.", response_format="content_and_artifact")(
        lambda what: ("\n".join(d.page_content for d in results[what]), results[what])
    )
    model = chat(call("look", what="all"), call("look", identity="c2", what="one"), "12 months.")
    create_agent(model, [look]).invoke({"messages": [("user", "How long?")]}, config)
    assert [d.id for d in recorded.traces[0].documents] == ["d0", "d1"]


def test_a_chunk_that_a_person_took_out_is_no_evidence(recorded: Recorded, thread: Any) -> None:
    def answer(state: Draft) -> Draft:
        return {"answer": says("12 months.", f"{state['found'][0].page_content}\n{state['question']}")}

    builder = StateGraph(Draft).add_node("find", lambda _: {"found": FOUND.invoke("pump")[:1]}).add_node(answer)
    builder.add_edge(START, "find").add_edge("find", "answer")
    graph = builder.compile(checkpointer=InMemorySaver(), interrupt_before=["answer"])
    graph.invoke({"question": "How long?"}, thread)
    graph.update_state(thread, {"found": FOUND.documents[1:]})
    graph.invoke(None, thread)
    assert [d.id for d in recorded.traces[-1].documents] == ["d1"]


def test_the_result_of_a_tool_inside_a_tool_is_no_evidence(recorded: Recorded, config: Any) -> None:
    """The model read what the outer one made of it. Where a model inside it wrote that, the inner result counts."""
    inner = tool("inner", description="Finds.")(lambda what: f"{what}: {CHUNK}")
    outer = tool("outer", description="Counts.")(
        lambda what: f"{len(inner.invoke({'what': what}))} characters of text."
    )
    expert = tool("expert", description="Asks.")(lambda what: says("It is so.", inner.invoke({"what": what})))
    for each in (outer, expert):
        agent(each).invoke({"messages": [("user", "Is it covered?")]}, config)
    assert [[d.id for d in trace.documents] for trace in recorded.traces] == [["outer #1"], ["inner #1"]]


@pytest.mark.parametrize("result", ["[]", "{}", "null", "None", CHUNK])
def test_an_empty_result_is_a_sentence(recorded: Recorded, config: Any, result: str) -> None:
    """The reader does not know that `[]` says that there are none."""
    finds = tool("look_up", description="Finds.")(lambda what: result)
    agent(finds).invoke({"messages": [("user", "Is it covered?")]}, config)
    expected = CHUNK if result == CHUNK else f"what: pump.\n{NOTHING}"
    assert [d.content for d in recorded.traces[0].documents] == [expected]


def test_documents_of_an_earlier_turn_in_the_state_are_no_evidence(recorded: Recorded, thread: Any) -> None:
    """A checkpoint keeps them; the model of this turn has not seen them."""

    def ask(state: Draft) -> Draft:
        found = Fixed(documents=[Document(CHUNK, id="d0")]).invoke("pump") if "pump" in state["question"] else []
        prompt = "\n".join([state["question"], *(each.page_content for each in found)])
        answer = FakeListChatModel(responses=["Yes."]).invoke(prompt).text
        return {"answer": answer, "found": found} if found else {"answer": answer}

    graph = StateGraph(Draft).add_node("ask", ask).add_edge(START, "ask").compile(checkpointer=InMemorySaver())
    for question in ("Is the pump covered?", "And what of the valve?"):
        graph.invoke({"question": question}, thread)
    assert [[d.content for d in t.documents] for t in recorded.traces] == [[CHUNK], []]


def test_an_empty_reply_is_the_answer(recorded: Recorded, config: Any) -> None:
    """Neither a tool's result nor the answer of an earlier turn stands in for it."""
    talk = create_agent(chat(call("look_up", what="pump"), "It is.", ""), [look_up])
    first = talk.invoke({"messages": [("user", "Is it a pump?")]}, config)
    talk.invoke({"messages": [*first["messages"], ("user", "And this?")]}, config)
    assert [t.answer for t in recorded.traces] == ["It is.", ""]


@tool
def look_up(what: str, top: int = 5) -> str:
    """Look something up."""
    if top == 0:
        raise ToolException("nothing to look for")
    return f"found {what}"


def test_what_middleware_put_in_place_of_a_result_is_the_context(recorded: Recorded, config: Any) -> None:
    call = {"name": "stock", "args": {"item": "pump"}, "id": "c1"}

    def work(question: str) -> str:
        stock.invoke({"type": "tool_call", **call})
        hidden = ToolMessage("You may not see the stock.", tool_call_id="c1")
        return chat("13 pieces").invoke([HumanMessage(question), AIMessage("", tool_calls=[call]), hidden]).text

    RunnableLambda(work).invoke("How many?", config)
    assert [d.content for d in recorded.traces[-1].documents] == ["item: pump.\nYou may not see the stock."]


def test_a_tools_span(recorded: Recorded, config: Any) -> None:
    look_up.invoke(CALL, config)
    told: dict[str, Any] = dict(recorded.named("execute_tool")[0].attributes or {})
    assert told[semconv.TOOL_ARGUMENTS] == '{"what": "pump", "top": 3}'
    assert (told[semconv.TOOL_CALL_ID], told[semconv.TOOL_RESULT]) == ("c1", "found pump")
    assert told["gen_ai.tool.type"] == "function"
    assert told["gen_ai.tool.description"] == told["tool.description"] == "Look something up."


def test_a_failure_that_was_handled_marks_the_span(recorded: Recorded, config: Any) -> None:
    """A tool that failed, and whose error the model is told, has a failed span below a root that did not fail."""
    failing = look_up.model_copy(update={"handle_tool_error": True})

    def ask(_: Any) -> str:
        return str(failing.invoke({**CALL, "args": {"what": "pump", "top": 0}}, config).content)

    RunnableLambda(ask).invoke("q", config)
    (span,), (root,) = recorded.named("execute_tool"), recorded.named("invoke_workflow")
    assert span.status.status_code is StatusCode.ERROR
    assert (span.attributes or {})[semconv.ERROR_TYPE] == "tool_error"
    assert (span.attributes or {})[semconv.TOOL_RESULT] == "nothing to look for"
    assert root.status.status_code is not StatusCode.ERROR


def expert() -> Any:
    """An agent as a graph of its own, as `create_react_agent` builds it."""
    return agent(look_up, "24 months.", "expert")


def team() -> Any:
    return StateGraph(MessagesState).add_node("expert", expert()).add_edge(START, "expert").compile()


INSIDE = [("chat GenericFakeChatModel", []), ("execute_tool look_up", []), ("chat GenericFakeChatModel", [])]


def test_an_agent_below_a_graph(recorded: Recorded, config: Any) -> None:
    team().invoke({"messages": [("user", "How long?")]}, config)
    assert recorded.tree() == [("invoke_workflow LangGraph", [("invoke_agent expert", INSIDE)])]
    attributes = dict(recorded.named("invoke_agent")[0].attributes or {})
    assert (attributes[semconv.AGENT_NAME], attributes[semconv.OI_KIND]) == ("expert", "AGENT")
    assert (attributes[semconv.OI_INPUT], attributes[semconv.OI_OUTPUT]) == ("How long?", "24 months.")
    inside = [*recorded.named("chat"), *recorded.named("execute_tool")]
    assert all((span.attributes or {})[semconv.AGENT_NAME] == "expert" for span in inside)
    assert {(span.attributes or {})[semconv.OI_GRAPH_NODE] for span in inside} == {"agent", "tools"}
    (trace,) = recorded.traces
    assert (trace.query, trace.answer) == ("How long?", "24 months.")


def test_the_metadata_names_the_root_alone(recorded: Recorded, config: Any) -> None:
    for name in ("workflow_name", "agent_name"):
        team().invoke({"messages": [("user", "How long?")]}, {**config, "metadata": {name: "support"}})
    roots = ["invoke_workflow support", "invoke_agent support"]
    assert recorded.tree() == [(root, [("invoke_agent expert", INSIDE)]) for root in roots]


async def test_an_agent_that_a_node_calls(recorded: Recorded, config: Any) -> None:
    async def consult(state: Any) -> Any:
        await RunnableLambda(lambda given: given["messages"]).with_config(run_name="chain").ainvoke(state)
        return {"messages": (await expert().ainvoke(state))["messages"]}

    await graph(consult).ainvoke({"messages": [("user", "How long?")]}, config)
    assert recorded.tree() == [("invoke_workflow LangGraph", [("invoke_agent expert", INSIDE)])]


def test_agents_of_create_agent(recorded: Recorded, config: Any) -> None:
    def made(name: str | None, tools: list[Any]) -> Any:
        return create_agent(chat(call(tools[0].name, what="pump"), "24 months."), tools, name=name)

    @tool
    def ask_expert(what: str) -> str:
        """Ask the expert."""
        result = made("expert", [look_up]).invoke({"messages": [("user", what)]})
        return str(result["messages"][-1].content)

    asks = ("chat ScriptedChat", [])
    inside = [asks, ("execute_tool look_up", []), asks]
    below = [asks, ("execute_tool ask_expert", [("invoke_agent expert", inside)]), asks]
    made("chief", [ask_expert]).invoke({"messages": [("user", "q")]}, config)
    made(None, [look_up]).invoke({"messages": [("user", "q")]}, config)
    assert recorded.tree() == [("invoke_agent chief", below), ("invoke_agent LangGraph", inside)]
    unnamed = recorded.spans[-1]
    assert semconv.AGENT_NAME not in (unnamed.attributes or {})
    assert (unnamed.attributes or {})[semconv.OI_KIND] == "AGENT"
