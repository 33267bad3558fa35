"""LangChain's and LangGraph's RAG tutorials: each question is one request, with the documents that the model saw."""

from typing import Any, Literal

import pytest
from langchain.agents import AgentState, create_agent
from langchain.agents.middleware import AgentMiddleware
from langchain.tools import tool
from langchain_core.documents import Document
from langchain_core.tools import create_retriever_tool
from langchain_core.vectorstores import InMemoryVectorStore
from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from pydantic import BaseModel, Field

from tests.conftest import Recorded
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


@pytest.mark.parametrize("is_streamed", [False, True], ids=["invoke", "stream"])
def test_an_agent_with_a_retrieval_tool(
    is_streamed: bool, store: InMemoryVectorStore, model: ChatOpenAI, vendors: Vendors, traced_langchain: Recorded
) -> None:
    @tool(response_format="content_and_artifact")
    def retrieve_context(query: str) -> tuple[str, list[Document]]:
        """Retrieve information to help answer a query."""
        documents = store.similarity_search(query, k=2)
        return "\n\n".join(f"Source: {d.metadata}\nContent: {d.page_content}" for d in documents), documents

    vendors.answers(search_call("warranty years"), search_call("grinder wheel"), Reply(ANSWER))
    agent = create_agent(model, [retrieve_context], system_prompt="Use the tool to search the manual.")
    if is_streamed:
        for state in agent.stream(user(WARRANTY), stream_mode="values"):
            assert state["messages"]
    else:
        agent.invoke(user(WARRANTY))
    (trace,) = traced_langchain.traces
    assert (trace.query, trace.answer) == (WARRANTY, ANSWER)
    found = [document.id for document in trace.documents]
    assert found[0] == "m1"
    assert "m3" in found
    assert len(set(found)) == len(found)


def test_a_middleware_that_returns_its_documents(
    store: InMemoryVectorStore, model: ChatOpenAI, vendors: Vendors, traced_langchain: Recorded
) -> None:
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
    assert (trace.answer, trace.documents[0].id, len(trace.documents)) == (ANSWER, "m1", 2)


class GradeDocuments(BaseModel):
    """Grade documents with a score for their relevance."""

    binary_score: str = Field(description="'yes' if relevant, 'no' if not")


def test_agentic_rag_that_rewrites_its_question(
    store: InMemoryVectorStore, model: ChatOpenAI, vendors: Vendors, traced_langchain: Recorded
) -> None:
    """LangGraph's tutorial is one request with the user's question and the documents of both searches."""
    retriever = store.as_retriever(search_kwargs={"k": 2})
    retriever_tool = create_retriever_tool(retriever, "retrieve_context", "Search the manual.")

    def generate_query_or_respond(state: MessagesState) -> dict[str, Any]:
        return {"messages": [model.bind_tools([retriever_tool]).invoke(state["messages"])]}

    def asked(state: MessagesState) -> list[dict[str, Any]]:
        text = f"Question: {state['messages'][0].content}\nContext: {state['messages'][-1].content}"
        return [{"role": "user", "content": text}]

    def grade_documents(state: MessagesState) -> Literal["generate_answer", "rewrite_question"]:
        grade: Any = model.with_structured_output(GradeDocuments).invoke(asked(state))
        return "generate_answer" if grade.binary_score == "yes" else "rewrite_question"

    def rewrite_question(state: MessagesState) -> dict[str, Any]:
        text = f"Formulate a better question: {state['messages'][0].content}"
        return {"messages": [{"role": "user", "content": model.invoke([{"role": "user", "content": text}]).content}]}

    def generate_answer(state: MessagesState) -> dict[str, Any]:
        return {"messages": [model.invoke(asked(state))]}

    workflow = StateGraph(MessagesState)
    for node in (generate_query_or_respond, rewrite_question, generate_answer):
        workflow.add_node(node)
    workflow.add_node("retrieve", ToolNode([retriever_tool]))
    workflow.add_edge(START, "generate_query_or_respond")
    workflow.add_conditional_edges("generate_query_or_respond", tools_condition, {"tools": "retrieve", END: END})
    workflow.add_conditional_edges("retrieve", grade_documents)
    workflow.add_edge("generate_answer", END)
    workflow.add_edge("rewrite_question", "generate_query_or_respond")
    no, yes = (Reply(GradeDocuments(binary_score=score).model_dump_json()) for score in ("no", "yes"))
    better = Reply("How many years of warranty does the machine have?")
    vendors.answers(search_call("grinder wheel"), no, better, search_call("warranty years"), yes, Reply(ANSWER))
    for update in workflow.compile().stream(user(WARRANTY)):
        assert update
    (trace,) = traced_langchain.traces
    assert (trace.query, trace.answer) == (WARRANTY, ANSWER)
    assert {"m1", "m3"} <= {document.id for document in trace.documents}
    assert len(traced_langchain.named("chat")) == 6
