"""The documents that a model saw, however the application found them: retrievers are one way of many."""

import json
from collections.abc import Callable
from typing import Any, TypedDict

import numpy as np
import pytest
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.runnables import Runnable, RunnableLambda, RunnablePassthrough
from langchain_core.tools import BaseTool, tool
from langchain_core.vectorstores import InMemoryVectorStore
from langgraph.graph import START, StateGraph
from langgraph.types import Command

from ragtrace import semconv
from ragtrace_langchain.documents import documents_in, documents_of, documents_of_tool
from tests.conftest import Recorded
from tests.hostile import ClosedMapping, Unbound
from tests.langchain.cases import Fixed, agent, join
from tests.row_files import rows
from tests.scenarios.scripted_chat import graph

CHUNKS = [
    Document(page_content=f'Pump {i}\'s cover is "24" months.', id=f"d{i}", metadata={"source": f"m{i}"})
    for i in range(3)
]
MODEL = FakeListChatModel(responses=["24 months."])


@pytest.fixture
def store() -> InMemoryVectorStore:
    return InMemoryVectorStore.from_documents(CHUNKS, DeterministicFakeEmbedding(size=8))


def ids(recorded: Recorded) -> list[str]:
    """The document ids of the only trace, sorted: a vector store has no order of its own here."""
    (trace,) = recorded.traces
    return sorted(document.id for document in trace.documents)


def returning(output: Any, **options: Any) -> BaseTool:
    @tool("look_up", **options)
    def look_up(what: str) -> Any:
        """Look something up."""
        return output

    return look_up


ARTIFACT = returning(("three chunks", CHUNKS), response_format="content_and_artifact")
TOOLS = {
    "an artifact": ARTIFACT,
    "a list": returning(CHUNKS),
    "JSON": returning(
        json.dumps([{"id": d.id, "page_content": d.page_content, "metadata": d.metadata} for d in CHUNKS])
    ),
    "results": returning({
        "query": "pump", "results": [{"id": d.id, "title": "t", "content": d.page_content} for d in CHUNKS]
    }),
    "a command": returning(
        Command(update={"messages": [ToolMessage("three chunks", tool_call_id="c1", artifact=CHUNKS)]})
    ),
}  # fmt: skip


@pytest.mark.parametrize("form", ["content", "content_and_artifact"])
def test_the_rows_of_a_tool_that_searches_its_tables_are_evidence(recorded: Recorded, config: Any, form: Any) -> None:
    """Its chunks, the query that a model wrote for it, and what the database returned."""
    rows = '[["Berlin", 412], ["Hamburg", 377]]'

    @tool(response_format=form)
    def orders(what: str) -> Any:
        """Asks the database."""
        Fixed(documents=CHUNKS[:1]).invoke(what)
        FakeListChatModel(responses=["SELECT city, count(*) FROM orders"]).invoke(what)
        return rows if form == "content" else (rows, CHUNKS[:1])

    agent(orders).invoke({"messages": [("user", "How many?")]}, config)
    assert [d.content for d in recorded.traces[0].documents] == [CHUNKS[0].page_content, rows]


@pytest.mark.parametrize("tool_", TOOLS.values(), ids=TOOLS)
def test_documents_that_a_tool_returns(recorded: Recorded, config: Any, tool_: BaseTool) -> None:
    agent(tool_).invoke({"messages": [("user", "How long?")]}, config)
    assert ids(recorded) == ["d0", "d1", "d2"]
    assert {d.content for d in recorded.traces[0].documents} == {d.page_content for d in CHUNKS}
    (span,) = recorded.named("execute_tool")
    assert [span.attributes[f"retrieval.documents.{i}.document.id"] for i in range(3)] == ["d0", "d1", "d2"]


@pytest.mark.parametrize("output", rows(__file__, "a_tools_other_results_are_no_documents"))
def test_a_tools_other_results_are_no_documents(output: Any) -> None:
    assert documents_of_tool(output) == []


def rag(find: Callable[[str], list[Document]]) -> Runnable[Any, Any]:
    steps = {"context": RunnableLambda(find) | RunnableLambda(join), "question": RunnablePassthrough()}
    return (steps | RunnableLambda(str) | MODEL).with_config(run_name="rag")


async def test_a_function_that_returns_documents(recorded: Recorded, config: Any) -> None:
    chain = rag(lambda _: CHUNKS[:2])
    chain.invoke("q", config)
    list(chain.stream("q", config))
    await chain.ainvoke("q", config)
    assert [[d.id for d in trace.documents] for trace in recorded.traces] == [["d0", "d1"]] * 3
    root = recorded.named("invoke_workflow")[0]
    assert root.attributes["retrieval.documents.1.document.id"] == "d1"


class State(TypedDict, total=False):
    question: str
    context: list[Document]
    answer: str


def graph_of(*nodes: Callable[[Any], Any]) -> Any:
    builder = StateGraph(State).add_sequence(list(nodes))
    return builder.add_edge(START, nodes[0].__name__).compile()


def find(state: Any) -> Any:
    return Command(update={"context": CHUNKS})


def answer(state: Any) -> Any:
    return {"answer": MODEL.invoke(join(state["context"])).content}


def cite(state: Any) -> Any:
    return {"context": state["context"][:1]}


def both(state: Any) -> Any:
    return {"context": CHUNKS, "answer": MODEL.invoke(state["question"]).content}


WAYS: dict[str, Runnable[Any, Any]] = {
    "passed in": RunnableLambda(lambda given: join(given["context"])) | MODEL,
    "put into a state, and removed after the answer": graph_of(find, answer, cite),
    "known only after the model's call": graph_of(both),
    "chosen": Fixed(documents=CHUNKS) | RunnableLambda(lambda found: found[1:]) | RunnableLambda(join) | MODEL,
}


@pytest.mark.parametrize("way", WAYS)
def test_documents_that_no_tool_returns(recorded: Recorded, config: Any, way: str) -> None:
    inputs = {"chosen": "q", "passed in": {"context": CHUNKS, "question": "q"}}.get(way, {"question": "q"})
    WAYS[way].invoke(inputs, config)
    assert ids(recorded) == (["d1", "d2"] if way == "chosen" else ["d0", "d1", "d2"])


def test_earlier_turns_in_the_messages_are_no_documents_of_this_one(recorded: Recorded, config: Any) -> None:
    first = agent(ARTIFACT).invoke({"messages": [("user", "How long?")]}, config)
    recorded.traces.clear()
    thanks = graph(lambda state: {"messages": [MODEL.invoke(state["messages"])]})
    thanks.invoke({"messages": [*first["messages"], ("user", "Thanks.")]}, config)
    (trace,) = recorded.traces
    assert trace.chunks == ()
    assert {document.source for document in trace.documents} == {"tool"}  # the model saw it


def test_a_node_that_searches_a_vector_store(recorded: Recorded, config: Any, store: InMemoryVectorStore) -> None:
    """A search that no retriever makes is a retrieval below the graph's root, with query, store and documents."""

    def say(state: Any) -> Any:
        chunks = store.similarity_search(state["question"], k=2)
        return {"answer": MODEL.invoke(join(chunks)).content}

    graph_of(say).invoke({"question": "How long?"}, config)
    assert recorded.tree() == [
        ("invoke_workflow LangGraph", [("retrieval InMemoryVectorStore", []), ("chat FakeListChatModel", [])])
    ]
    (span,) = recorded.named("retrieval")
    assert span.attributes[semconv.RETRIEVAL_QUERY] == "How long?"
    assert span.attributes[semconv.PROVIDER] == "InMemoryVectorStore"
    assert len(ids(recorded)) == 2


async def test_every_way_to_search_is_one_retrieval(traced_langchain: Recorded, store: InMemoryVectorStore) -> None:
    """Searches call each other: each is recorded once, with scores where it returns them, or as its retriever's."""

    async def ask(_: str) -> str:
        store.similarity_search("a", k=1)
        await store.asimilarity_search("b", k=1)
        store.similarity_search_with_score("c", k=1)
        store.max_marginal_relevance_search("d", k=1)
        store.as_retriever(search_kwargs={"k": 1}).invoke("e")
        await store.as_retriever(search_kwargs={"k": 1}).ainvoke("f")
        return "done"

    await RunnableLambda(ask).ainvoke("q")
    ((_, below),) = traced_langchain.tree()
    assert below == [("retrieval InMemoryVectorStore", [])] * 4 + [("retrieval VectorStoreRetriever", [])] * 2
    told = [s.attributes for s in sorted(traced_langchain.named("retrieval"), key=lambda span: span.start_time or 0)]
    assert {each[semconv.PROVIDER] for each in told} == {"InMemoryVectorStore"}
    scored = ["retrieval.documents.0.document.score" in each for each in told]
    assert scored == [False, False, True, False, False, False]


def test_a_search_that_fails_and_one_outside_of_everything(
    traced_langchain: Recorded, store: InMemoryVectorStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error reaches the application and the span; a search that belongs to no request is a span alone."""
    store.similarity_search("q")
    monkeypatch.setattr(store, "embedding", None)
    with pytest.raises(AttributeError):
        store.similarity_search("q")
    first, second = traced_langchain.named("retrieval")
    assert semconv.ERROR_TYPE not in (first.attributes or {})
    assert (second.attributes or {})[semconv.ERROR_TYPE] == "AttributeError"
    assert traced_langchain.traces == []


def first_chunks(self: Any, query: str, k: int = 4, **kwargs: Any) -> list[Document]:
    return CHUNKS[:k]


def test_a_new_kind_of_vector_store(traced_langchain: Recorded) -> None:
    """A class that is defined after instrumentation is traced as well; its documents are unchanged."""
    mine: Any = type("Mine", (InMemoryVectorStore,), {"similarity_search": first_chunks})
    assert mine(DeterministicFakeEmbedding(size=8)).similarity_search(query="q", k=2) == CHUNKS[:2]
    assert [name for name, _ in traced_langchain.tree()] == ["retrieval Mine"]


def test_a_class_that_refuses_to_change(traced_langchain: Recorded, caplog: pytest.LogCaptureFixture) -> None:
    """A vector store whose methods cannot be wrapped is defined and works; the log says that it is not traced."""

    class Frozen(type(InMemoryVectorStore)):  # type: ignore[misc]
        def __setattr__(cls, name: str, value: Any) -> None:
            if not name.startswith("_"):
                raise TypeError("frozen")
            super().__setattr__(name, value)

    mine: Any = Frozen("Mine", (InMemoryVectorStore,), {"similarity_search": first_chunks})
    assert mine(DeterministicFakeEmbedding(size=8)).similarity_search("q", k=1) == CHUNKS[:1]
    assert "Mine" in caplog.text
    assert traced_langchain.spans == []


def test_an_agent_whose_prompt_searches(recorded: Recorded, config: Any, store: InMemoryVectorStore) -> None:
    agents = pytest.importorskip("langchain.agents", reason="langchain is not installed")
    from langchain.agents.middleware import dynamic_prompt

    @dynamic_prompt  # type: ignore[untyped-decorator,unused-ignore]
    def with_context(request: Any) -> str:
        return join(store.similarity_search(request.state["messages"][-1].text, k=2))

    asking = agents.create_agent(MODEL, [], middleware=[with_context])
    asking.invoke({"messages": [("user", "How long?")]}, config)
    assert len(ids(recorded)) == 2
    assert (recorded.traces[0].query, recorded.traces[0].answer) == ("How long?", "24 months.")


def test_one_bad_document_hides_no_other() -> None:
    assert [d.id for d in documents_in({"odd": Unbound(), "documents": [Unbound(), CHUNKS[0]]})] == [CHUNKS[0].id]
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    bad = [
        Document.model_construct(page_content="numpy", id=np.array([1, 2]), metadata={}),
        Document.model_construct(page_content="missing", id=pandas.NA, metadata={}),
        Document(page_content="great", metadata={"score": 10**400}),
        Document.model_construct(page_content="odd", metadata=ClosedMapping(a=1)),
    ]
    contents = [document.content for document in documents_of([CHUNKS[0], *bad, CHUNKS[1]])]
    assert contents[:4] == [CHUNKS[0].page_content, "numpy", "missing", "great"]
    assert contents[-1] == CHUNKS[1].page_content


def test_scores_of_documents() -> None:
    class Ranked(Document):
        score: float = 0.75

    documents = [Ranked(page_content="a"), Document(page_content="b", metadata={"relevance_score": 0.5})]
    assert [document.score for document in documents_of([*documents, (CHUNKS[0], 0.25)])] == [0.75, 0.5, 0.25]


def test_values_without_documents() -> None:
    for value in ("text", 3, None, [], {}, {"a": ["b"]}, [AIMessage(content="hi")], AIMessage(content="hi"), object()):
        assert documents_in(value) == []
