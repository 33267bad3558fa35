"""LlamaIndex's RAG tutorials: each question is one request, with the documents that the model saw."""

from __future__ import annotations

from typing import Any

import pytest
from llama_index.core import VectorStoreIndex
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.memory import ChatMemoryBuffer
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.response_synthesizers import CompactAndRefine
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
from llama_index.core.tools import QueryEngineTool
from llama_index.core.workflow import Context, Event, StartEvent, StopEvent, Workflow, step
from llama_index.llms.openai import OpenAI

from tests.conftest import Recorded
from tests.tutorials.conftest import ids
from tests.tutorials.manual import ANSWER, PASSAGES, WARRANTY, KnownWordsOfNodes
from tests.vendors.replies import Call, Reply
from tests.vendors.server import Vendors

pytestmark = [
    # LlamaIndex leaves its chat memory's database open, and the client its connections.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture
def index(traced_llama_index: Recorded) -> VectorStoreIndex:
    nodes = [TextNode(text=text, id_=name, metadata={"page": name}) for name, text in PASSAGES.items()]
    made = VectorStoreIndex(nodes, embed_model=KnownWordsOfNodes())
    traced_llama_index.clear()
    return made


@pytest.fixture
def model(vendors: Vendors) -> OpenAI:
    return OpenAI(model="gpt-4o", api_key="key", api_base=f"{vendors.url}/v1", max_retries=0)


def told(recorded: Recorded) -> list[tuple[str, str, str]]:
    """Question, answer and first document of each request."""
    return [(t.query, t.answer, next(iter(ids(t.documents)), "")) for t in recorded.traces]


@pytest.mark.parametrize("is_streamed", [False, True], ids=["whole", "streamed"])
def test_a_query_engine(
    is_streamed: bool, index: VectorStoreIndex, model: OpenAI, vendors: Vendors, traced_llama_index: Recorded
) -> None:
    """The tutorial's first five lines."""
    vendors.answers(Reply(ANSWER))
    engine: Any = index.as_query_engine(llm=model, streaming=is_streamed, similarity_top_k=2)
    response = engine.query(WARRANTY)
    text = "".join(response.response_gen) if is_streamed else str(response)
    assert text == ANSWER
    assert told(traced_llama_index) == [(WARRANTY, ANSWER, "m1")]


@pytest.mark.parametrize("mode", ["context", "condense_plus_context", "condense_question"])
@pytest.mark.parametrize("ask", ["chat", "stream_chat"])
def test_a_chat_engine(  # noqa: PLR0917 fixtures
    ask: str, mode: Any, index: VectorStoreIndex, model: OpenAI, vendors: Vendors, traced_llama_index: Recorded
) -> None:
    """Two turns of a conversation are two requests, each with its own documents."""
    engine: Any = index.as_chat_engine(
        llm=model, chat_mode=mode, similarity_top_k=2, memory=ChatMemoryBuffer.from_defaults(token_limit=3000)
    )
    second = "How do I set the grinder wheel?"
    # The second turn is condensed to a question of its own first.
    condensed = [] if mode == "context" else [Reply(second)]
    vendors.answers(Reply(ANSWER), *condensed, Reply("Turn it while the grinder runs."))
    for question in (WARRANTY, second):
        response = getattr(engine, ask)(question)
        assert "".join(response.response_gen if ask == "stream_chat" else [str(response)])
    assert told(traced_llama_index) == [
        (WARRANTY, ANSWER, "m1"),
        (second, "Turn it while the grinder runs.", "m3"),
    ]


@pytest.mark.parametrize("kind", ["function", "query engine tool"])
async def test_an_agent_with_a_query_engine(
    kind: str, index: VectorStoreIndex, model: OpenAI, vendors: Vendors, traced_llama_index: Recorded
) -> None:
    """The documents of the query engine in a tool are the documents of the agent's request."""
    engine: Any = index.as_query_engine(llm=model, similarity_top_k=2)

    async def search_documents(query: str) -> str:
        """Useful for answering questions about the coffee machine."""
        return str(await engine.aquery(query))

    tool: Any = search_documents
    if kind == "query engine tool":
        tool = QueryEngineTool.from_defaults(engine, name="search_documents", description="Searches the manual.")
    agent = FunctionAgent(tools=[tool], llm=model, system_prompt="Use the tool.", streaming=False)
    argument = "query" if kind == "function" else "input"
    call = Call("search_documents", {argument: "warranty years"})
    vendors.answers(Reply(calls=(call,)), Reply("Two years."), Reply(ANSWER))
    response = await agent.run(WARRANTY)
    assert str(response) == ANSWER
    assert told(traced_llama_index) == [(WARRANTY, ANSWER, "m1")]


class RetrieverEvent(Event):
    """Result of running retrieval."""

    nodes: list[NodeWithScore]


class RerankEvent(Event):
    """Result of running reranking on retrieved nodes."""

    nodes: list[NodeWithScore]


class ByLength(BaseNodePostprocessor):
    """Reranks by length, the shortest first, and keeps two."""

    def _postprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        return sorted(nodes, key=lambda scored: len(scored.node.get_content()))[:2]


class RAGWorkflow(Workflow):
    """The tutorial's workflow: retrieve, rerank, synthesize, each a step with an event of its own."""

    @step
    async def retrieve(self, ctx: Context, event: StartEvent) -> RetrieverEvent:
        await ctx.store.set("query", event.query)
        retriever = event.index.as_retriever(similarity_top_k=3)
        return RetrieverEvent(nodes=await retriever.aretrieve(event.query))

    @step
    async def rerank(self, ctx: Context, event: RetrieverEvent) -> RerankEvent:
        query = await ctx.store.get("query")
        return RerankEvent(nodes=ByLength().postprocess_nodes(event.nodes, query_str=query))

    @step
    async def synthesize(self, ctx: Context, event: RerankEvent) -> StopEvent:
        model = await ctx.store.get("model", default=None)
        summarizer = CompactAndRefine(llm=model or self.model, streaming=True)
        query = await ctx.store.get("query")
        return StopEvent(result=await summarizer.asynthesize(query, nodes=event.nodes))

    model: Any = None


async def test_a_workflow_with_events(
    index: VectorStoreIndex, model: OpenAI, vendors: Vendors, traced_llama_index: Recorded
) -> None:
    """A run of the workflow is one request; its answer is the stream that the application reads afterwards."""
    vendors.answers(Reply(ANSWER))
    workflow = RAGWorkflow(timeout=30)
    workflow.model = model
    result = await workflow.run(query=WARRANTY, index=index)
    assert "".join([part async for part in result.async_response_gen()]) == ANSWER
    ((query, answer, _first),) = told(traced_llama_index)
    assert (query, answer) == (WARRANTY, ANSWER)
    (trace,) = traced_llama_index.traces
    assert set(ids(trace.documents)) == {node.node.node_id for node in result.source_nodes}
    assert len(trace.documents) == 2
