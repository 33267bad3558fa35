"""LangChain's and LangGraph's RAG tutorials: each question is one request, with the documents that the model saw."""

from __future__ import annotations

from typing import Any, Literal

import pytest
from langchain.agents import AgentState, create_agent
from langchain.agents.middleware import AgentMiddleware, ModelRequest, dynamic_prompt
from langchain.tools import tool
from langchain_core.documents import Document
from langchain_core.tools import create_retriever_tool
from langchain_core.vectorstores import InMemoryVectorStore
from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from pydantic import BaseModel, Field

from tests.conftest import Recorded
from tests.tutorials.conftest import ids
from tests.tutorials.manual import ANSWER, PASSAGES, WARRANTY, KnownWords
from tests.vendors.replies import Call, Reply
from tests.vendors.server import Vendors

pytestmark = [
    # The client leaves its connections to the garbage collector.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]


@pytest.fixture
def store() -> InMemoryVectorStore:
    made = InMemoryVectorStore(KnownWords())
    made.add_documents([Document(text, id=name, metadata={"page": name}) for name, text in PASSAGES.items()])
    return made


@pytest.fixture
def model(vendors: Vendors) -> ChatOpenAI:
    return ChatOpenAI(model="gpt-test", api_key="key", base_url=f"{vendors.url}/v1", max_retries=0)  # type: ignore[arg-type]


def user(text: str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}]}


def search_call(query: str) -> Reply:
    return Reply(calls=(Call("retrieve_context", {"query": query}),))


# --- LangChain -------------------------------------------------------------------------------------


def agent_with_tool(store: InMemoryVectorStore, model: ChatOpenAI) -> Any:
    """The tutorial's agent: its tool returns a text for the model, and the documents as an artifact."""

    @tool(response_format="content_and_artifact")
    def retrieve_context(query: str) -> tuple[str, list[Document]]:
        """Retrieve information to help answer a query."""
        documents = store.similarity_search(query, k=2)
        return "\n\n".join(f"Source: {d.metadata}\nContent: {d.page_content}" for d in documents), documents

    return create_agent(model, [retrieve_context], system_prompt="Use the tool to search the manual.")


@pytest.mark.parametrize("is_streamed", [False, True], ids=["invoke", "stream"])
def test_an_agent_with_a_retrieval_tool(
    is_streamed: bool, store: InMemoryVectorStore, model: ChatOpenAI, vendors: Vendors, traced_langchain: Recorded
) -> None:
    """The documents in the artifact of a tool are the request's documents."""
    vendors.answers(search_call("warranty years"), Reply(ANSWER))
    agent = agent_with_tool(store, model)
    if is_streamed:
        for state in agent.stream(user(WARRANTY), stream_mode="values"):
            assert state["messages"]
    else:
        agent.invoke(user(WARRANTY))
    (trace,) = traced_langchain.traces
    assert (trace.query, trace.answer) == (WARRANTY, ANSWER)
    assert ids(trace.documents)[0] == "m1"
    assert len(trace.documents) == 2


def test_an_agent_that_searches_twice(
    store: InMemoryVectorStore, model: ChatOpenAI, vendors: Vendors, traced_langchain: Recorded
) -> None:
    """The documents of two searches are the request's documents, each once."""
    vendors.answers(search_call("warranty years"), search_call("grinder wheel"), Reply(ANSWER))
    agent_with_tool(store, model).invoke(user(WARRANTY))
    (trace,) = traced_langchain.traces
    assert {"m1", "m3"} <= set(ids(trace.documents))
    assert len(set(ids(trace.documents))) == len(trace.documents)


def test_a_chain_that_retrieves_in_a_dynamic_prompt(
    store: InMemoryVectorStore, model: ChatOpenAI, vendors: Vendors, traced_langchain: Recorded
) -> None:
    """A search inside `@dynamic_prompt` is found, although no retriever is called."""

    @dynamic_prompt
    def prompt_with_context(request: ModelRequest) -> str:
        documents = store.similarity_search(request.state["messages"][-1].text, k=2)
        return "Use the following context:\n\n" + "\n\n".join(d.page_content for d in documents)

    vendors.answers(Reply(ANSWER))
    agent = create_agent(model, tools=[], middleware=[prompt_with_context])
    for state in agent.stream(user(WARRANTY), stream_mode="values"):
        assert state["messages"]
    (trace,) = traced_langchain.traces
    assert (trace.query, trace.answer) == (WARRANTY, ANSWER)
    assert ids(trace.documents)[0] == "m1"
    assert len(trace.documents) == 2


def test_a_middleware_that_returns_its_documents(
    store: InMemoryVectorStore, model: ChatOpenAI, vendors: Vendors, traced_langchain: Recorded
) -> None:
    """Documents that a middleware puts into the state are the request's documents."""

    class State(AgentState[Any]):
        context: list[Document]

    class Retrieval(AgentMiddleware[State]):  # type: ignore[type-arg]
        state_schema = State

        def before_model(self, state: State, runtime: Any) -> dict[str, Any]:
            last = state["messages"][-1]
            documents = store.similarity_search(last.text, k=2)
            text = f"{last.text}\n\nContext:\n" + "\n\n".join(d.page_content for d in documents)
            return {"messages": [last.model_copy(update={"content": text})], "context": documents}

    vendors.answers(Reply(ANSWER))
    create_agent(model, tools=[], middleware=[Retrieval()]).invoke(user(WARRANTY))
    (trace,) = traced_langchain.traces
    assert trace.answer == ANSWER
    assert ids(trace.documents)[0] == "m1"
    assert len(trace.documents) == 2


# --- LangGraph: agentic RAG ------------------------------------------------------------------------


class GradeDocuments(BaseModel):
    """Grade documents with a score for their relevance."""

    binary_score: str = Field(description="'yes' if relevant, 'no' if not")


def agentic_rag(store: InMemoryVectorStore, model: ChatOpenAI) -> Any:
    """The tutorial's graph: decide, retrieve, grade, rewrite the question, answer."""
    retriever_tool = create_retriever_tool(
        store.as_retriever(search_kwargs={"k": 2}), "retrieve_context", "Search the manual."
    )

    def generate_query_or_respond(state: MessagesState) -> dict[str, Any]:
        return {"messages": [model.bind_tools([retriever_tool]).invoke(state["messages"])]}

    def grade_documents(state: MessagesState) -> Literal["generate_answer", "rewrite_question"]:
        text = f"Question: {state['messages'][0].content}\nContext: {state['messages'][-1].content}"
        grader = model.with_structured_output(GradeDocuments)
        grade: Any = grader.invoke([{"role": "user", "content": text}])
        return "generate_answer" if grade.binary_score == "yes" else "rewrite_question"

    def rewrite_question(state: MessagesState) -> dict[str, Any]:
        text = f"Formulate a better question: {state['messages'][0].content}"
        response = model.invoke([{"role": "user", "content": text}])
        return {"messages": [{"role": "user", "content": response.content}]}

    def generate_answer(state: MessagesState) -> dict[str, Any]:
        text = f"Question: {state['messages'][0].content}\nContext: {state['messages'][-1].content}"
        return {"messages": [model.invoke([{"role": "user", "content": text}])]}

    workflow = StateGraph(MessagesState)
    for node in (generate_query_or_respond, rewrite_question, generate_answer):
        workflow.add_node(node)
    workflow.add_node("retrieve", ToolNode([retriever_tool]))
    workflow.add_edge(START, "generate_query_or_respond")
    workflow.add_conditional_edges("generate_query_or_respond", tools_condition, {"tools": "retrieve", END: END})
    workflow.add_conditional_edges("retrieve", grade_documents)
    workflow.add_edge("generate_answer", END)
    workflow.add_edge("rewrite_question", "generate_query_or_respond")
    return workflow.compile()


def grade(score: str) -> Reply:
    return Reply(GradeDocuments(binary_score=score).model_dump_json())


def test_agentic_rag_that_answers_at_once(
    store: InMemoryVectorStore, model: ChatOpenAI, vendors: Vendors, traced_langchain: Recorded
) -> None:
    """Retrieval, grade and answer are one request with the documents of its search."""
    vendors.answers(search_call("warranty years"), grade("yes"), Reply(ANSWER))
    for update in agentic_rag(store, model).stream(user(WARRANTY)):
        assert update
    (trace,) = traced_langchain.traces
    assert (trace.query, trace.answer) == (WARRANTY, ANSWER)
    assert ids(trace.documents)[0] == "m1"
    assert len(trace.documents) == 2
    assert len(traced_langchain.named("chat")) == 3


def test_agentic_rag_that_rewrites_its_question(
    store: InMemoryVectorStore, model: ChatOpenAI, vendors: Vendors, traced_langchain: Recorded
) -> None:
    """After a rewritten question the request still has the user's, and the documents of both searches."""
    vendors.answers(
        search_call("grinder wheel"),
        grade("no"),
        Reply("How many years of warranty does the machine have?"),
        search_call("warranty years"),
        grade("yes"),
        Reply(ANSWER),
    )
    agentic_rag(store, model).invoke(user(WARRANTY))
    (trace,) = traced_langchain.traces
    assert trace.answer == ANSWER
    assert trace.query == WARRANTY
    assert {"m1", "m3"} <= set(ids(trace.documents))


def test_agentic_rag_that_needs_no_search(
    store: InMemoryVectorStore, model: ChatOpenAI, vendors: Vendors, traced_langchain: Recorded
) -> None:
    """A greeting is a request without documents."""
    vendors.answers(Reply("Hello!"))
    agentic_rag(store, model).invoke(user("Hello"))
    (trace,) = traced_langchain.traces
    assert (trace.query, trace.answer, trace.documents) == ("Hello", "Hello!", ())
