"""Ways of calling LangChain and LangGraph: each is one request, with the user's question and the answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Annotated, Any, TypedDict

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware, ToolRetryMiddleware
from langchain.agents.structured_output import ToolStrategy
from langchain_classic.agents import AgentExecutor, create_react_agent, create_tool_calling_agent
from langchain_classic.chains import ConversationalRetrievalChain
from langchain_classic.output_parsers import OutputFixingParser
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.output_parsers import JsonOutputParser, StrOutputParser
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder, PromptTemplate
from langchain_core.runnables import Runnable, RunnableLambda, RunnablePassthrough
from langchain_core.runnables.config import ContextThreadPoolExecutor
from langchain_core.tools import create_retriever_tool, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.func import entrypoint, task
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command, Send

from tests.conftest import Recorded
from tests.langchain.cases import read
from tests.scenarios.expectations import Joke, Scenario, check
from tests.scenarios.scripted_chat import Shelf, call, chat, fail, graph, search, stream

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning", "ignore::RuntimeWarning")
PROMPT = ChatPromptTemplate.from_template("{q}")
DOWN = ConnectionError("down")
ONCE: tuple[tuple[str, str], ...] = (("q?", "yes"),)


class Subjects(TypedDict):
    subjects: list[str]
    jokes: Annotated[list[str], lambda left, right: left + right]


def ask(model: Any) -> Runnable[Any, Any]:
    return PROMPT | model | StrOutputParser()


def agent(*replies: Any, tools: Any = (search,), **options: Any) -> Any:
    return create_agent(chat(*replies), tools=list(tools), **options)


def asking(*replies: Any, **options: Any) -> Callable[[], Any]:
    return lambda: agent(*replies, **options).invoke({"messages": "q?"})


def answering(model: Any) -> Callable[[Any], Any]:
    return lambda state: {"messages": [model.invoke(state["messages"])]}


def executor(create: Callable[..., Any], *replies: Any, **options: Any) -> AgentExecutor:
    classic = ChatPromptTemplate.from_messages([("human", "{input}"), MessagesPlaceholder("agent_scratchpad")])
    react = PromptTemplate.from_template("{tools} {tool_names} {input} {agent_scratchpad}")
    prompt = react if create is create_react_agent else classic
    return AgentExecutor(agent=create(chat(*replies), [search], prompt), tools=[search], **options)


def in_threads(question: str) -> str:
    """Asks a model in two threads that LangChain's own executor starts."""
    with ContextThreadPoolExecutor(2) as pool:
        return " ".join(pool.map(lambda i: str(chat("yes").invoke(i).content), ["a", "b"]))


def fanned_out() -> Any:
    """A graph that sends each subject to a node of its own."""
    model = chat("joke")
    builder = StateGraph(Subjects)
    builder.add_node("one", lambda state: {"jokes": [model.invoke(state["subject"]).content]})
    builder.add_conditional_edges(START, lambda state: [Send("one", {"subject": s}) for s in state["subjects"]])
    return builder.compile().invoke({"subjects": ["a", "b"], "jokes": []})


def handed_over() -> Any:
    """Two agents of a graph; the first one's tool hands over to the second."""

    @tool
    def to_bob() -> Command[str]:
        """Hand over."""
        done = ToolMessage("Bob goes on.", tool_call_id="c1")
        return Command(goto="bob", graph=Command.PARENT, update={"messages": [done]})

    builder = StateGraph(MessagesState).add_node("alice", agent(call("to_bob"), tools=[to_bob], name="alice"))
    builder.add_node("bob", agent("yes", name="bob")).add_edge(START, "alice")
    return builder.compile().invoke({"messages": "q?"})


def approved() -> None:
    """An agent whose tool a person approves."""
    person = HumanInTheLoopMiddleware(interrupt_on={"search": {"allowed_decisions": ["approve"], "description": "ok?"}})
    helper = agent(call("search", q="x"), "yes", middleware=[person], checkpointer=InMemorySaver())
    config = {"configurable": {"thread_id": "approved-1"}}
    helper.invoke({"messages": "q?"}, config)
    helper.invoke(Command(resume={"decisions": [{"type": "approve"}]}), config)


def flaky() -> Any:
    """A tool that works at its second call."""
    calls: list[str] = []

    @tool
    def unsure(q: str) -> str:
        """Fail once."""
        calls.append(q)
        if len(calls) < 2:
            raise ValueError(q)
        return "fine"

    retry = ToolRetryMiddleware(max_retries=1, initial_delay=0, jitter=False)
    return asking(call("unsure", q="x"), "yes", tools=[unsure], middleware=[retry])()


def functional() -> Any:
    @task
    def asked(question: str) -> str:
        return str(chat("yes").invoke(question).content)

    @entrypoint()
    def flow(question: str) -> str:
        return str(asked(question).result())

    return flow.invoke("q?")


CHAINS = {
    "retry": Scenario(
        lambda: ask(chat(DOWN, "yes").with_retry(stop_after_attempt=2, wait_exponential_jitter=False)).invoke(
            {"q": "q?"}), ONCE, "workflow chat! chat",
    ),
    "fallback, streamed": Scenario(
        lambda: list(stream(DOWN).with_fallbacks([stream("yes")]).stream("q?")), ONCE, "workflow chat! chat"
    ),
    "structured output beside the raw message": Scenario(
        lambda: chat(call("Joke", setup="s")).with_structured_output(Joke, include_raw=True).invoke("q?"),
        (("q?", '{"setup": "s"}'),), "workflow chat",
    ),
    "parser that fails": Scenario(
        lambda: (PROMPT | chat("no JSON") | JsonOutputParser()).invoke({"q": "q?"}), (("q?", "no JSON"),),
        "workflow! chat", error="OutputParserException",
    ),
    "parser that asks again": Scenario(
        lambda: (PROMPT | chat("no JSON") | OutputFixingParser.from_llm(chat('{"a": 1}'), JsonOutputParser())).invoke(
            {"q": "q?"}), (("q?", '{"a": 1}'),), "workflow chat chat",
    ),
    "prompt that lacks a variable": Scenario(
        lambda: ask(chat("yes")).invoke({"other": "q?"}), (("q?", ""),), "workflow!", error="KeyError"
    ),
    "passed on and assigned": Scenario(
        lambda: RunnablePassthrough.assign(context=lambda x: Shelf().invoke(x["question"])).assign(
            answer=ChatPromptTemplate.from_template("{context} {question}") | chat("yes")).invoke({"question": "q?"}),
        ONCE, "workflow retrieval chat", documents=("d1", "d2"),
    ),
    "threads of LangChain's executor": Scenario(
        lambda: RunnableLambda(in_threads).invoke("q?"), (("q?", "yes yes"),), "workflow chat chat"
    ),
    "batch with a failure": Scenario(
        lambda: ask(chat("yes", DOWN)).batch([{"q": "1"}, {"q": "2"}], {"max_concurrency": 1}, return_exceptions=True),
        (("1", "yes"), ("2", "")), "workflow workflow! chat chat!",
    ),
    "two prompts to one model": Scenario(
        lambda: chat("one", "two").generate([[HumanMessage("1")], [HumanMessage("2")]]), (("1", "one"), ("2", "two")),
        "chat chat",
    ),
    "stream of events": Scenario(
        lambda: asyncio.run(read(ask(stream("yes")).astream_events({"q": "q?"}, version="v2"))), ONCE, "workflow chat"
    ),
    "tool without a chain": Scenario(lambda: search.invoke("x"), (), "tool"),
    "ConversationalRetrievalChain": Scenario(
        lambda: ConversationalRetrievalChain.from_llm(chat("alone?", "yes"), Shelf()).invoke(
            {"question": "q?", "chat_history": [("hi", "hello")]}),
        ONCE, "workflow chat retrieval chat", documents=("d1", "d2"),
    ),
}  # fmt: skip
AGENTS = {
    "two tools at once": Scenario(
        asking(AIMessage("", tool_calls=[{"name": "search", "args": {"q": q}, "id": q} for q in "ab"]), "yes"), ONCE,
        "agent chat tool tool chat",
    ),
    "tool that fails": Scenario(
        asking(call("fail", q="x"), tools=[fail]), (("q?", ""),), "agent! chat tool!", error="ValueError"
    ),
    "tool tried again": Scenario(flaky, ONCE, "agent chat tool! tool chat"),
    "object as the answer": Scenario(
        asking(call("Joke", setup="s"), response_format=ToolStrategy(Joke)), (("q?", '{"setup": "s"}'),), "agent chat"
    ),
    "retriever as a tool": Scenario(
        asking(call("shelf", query="x"), "yes", tools=[create_retriever_tool(Shelf(), "shelf", "Books.")]), ONCE,
        "agent chat tool retrieval chat", documents=("d1", "d2"),
    ),
    "streamed, asynchronous": Scenario(
        lambda: asyncio.run(read(create_agent(stream(call("search", q="x"), "yes"), tools=[search]).astream(
            {"messages": [("user", "q?")]}, stream_mode="messages"))), ONCE, "agent chat tool chat",
    ),
    "approved by a person": Scenario(approved, (("q?", ""), ("q?", "yes")), "agent chat agent tool chat"),
    "handed over": Scenario(handed_over, ONCE, "workflow agent chat tool agent chat"),
    "executor that calls tools": Scenario(
        lambda: executor(create_tool_calling_agent, call("search", q="x"), "yes").invoke({"input": "q?"}), ONCE,
        "agent chat tool chat",
    ),
    "executor that reasons": Scenario(
        lambda: list(executor(create_react_agent, "Thought: x\nAction: search\nAction Input: x",
                              "Thought: I now know\nFinal Answer: yes").stream({"input": "q?"})), ONCE,
        "agent chat tool chat",
    ),
}  # fmt: skip
GRAPHS = {
    "a node for each subject": Scenario(fanned_out, (('["a", "b"]', '["joke", "joke"]'),), "workflow chat chat"),
    "graph inside a graph": Scenario(
        lambda: list(graph(graph(answering(chat("yes")))).stream({"messages": "q?"}, subgraphs=True)), ONCE,
        "workflow chat",
    ),
    "functional interface": Scenario(functional, ONCE, "workflow chat"),
    "node that fails": Scenario(
        lambda: graph(answering(chat(DOWN))).invoke({"messages": "q?"}), (("q?", ""),), "workflow! chat!",
        error="ConnectionError",
    ),
    "batch of a graph": Scenario(
        lambda: graph(answering(chat("yes"))).batch([{"messages": "1"}, {"messages": "2"}], {"max_concurrency": 1}),
        (("1", "yes"), ("2", "yes")), "workflow chat workflow chat",
    ),
}  # fmt: skip
SCENARIOS = {**CHAINS, **AGENTS, **GRAPHS}


@pytest.mark.parametrize("name", SCENARIOS)
def test_each_way_of_calling_is_what_the_user_asked(langchain: Recorded, name: str) -> None:
    """Each request has its question, answer, documents and error; each model, tool and retriever has its span alone."""
    check(SCENARIOS[name], langchain)


def test_what_a_tool_answers_that_directs_a_graph(langchain: Recorded) -> None:
    """The result of a tool that returns a command is the text of its message."""
    handed_over()
    (span,) = langchain.named("execute_tool")
    assert (span.attributes or {})["gen_ai.tool.call.result"] == "Bob goes on."


def test_metadata_of_each_call_in_a_batch(langchain: Recorded) -> None:
    """In a batch, synchronous or not, each request has the conversation and the user of its own configuration."""
    configs: Any = [{"metadata": {"session_id": f"s{i}", "user_id": f"u{i}", "plan": i}} for i in (1, 2)]
    questions = [{"q": "1"}, {"q": "2"}]
    ask(chat("yes")).batch(questions, configs)
    asyncio.run(ask(chat("yes")).abatch(questions, configs))
    told = [(trace.query, trace.facts.session_id, trace.facts.user_id) for trace in langchain.traces]
    assert sorted(told) == [("1", "s1", "u1"), ("1", "s1", "u1"), ("2", "s2", "u2"), ("2", "s2", "u2")]
