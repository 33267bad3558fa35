"""What an application can do with LlamaIndex, one function a case. Nothing here knows of any tracer, so that the same
cases can be run under other tracing libraries."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from llama_index.core import StorageContext, VectorStoreIndex
from llama_index.core.agent.workflow import FunctionAgent, ReActAgent
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.chat_engine import (
    CondensePlusContextChatEngine,
    CondenseQuestionChatEngine,
    ContextChatEngine,
    SimpleChatEngine,
)
from llama_index.core.embeddings import MockEmbedding
from llama_index.core.llms import ChatMessage, ChatResponse, CompletionResponse, CustomLLM, LLMMetadata
from llama_index.core.llms.callbacks import llm_chat_callback, llm_completion_callback
from llama_index.core.llms.function_calling import FunctionCallingLLM
from llama_index.core.llms.llm import ToolSelection
from llama_index.core.node_parser import get_leaf_nodes
from llama_index.core.postprocessor import LLMRerank, SimilarityPostprocessor
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.response_synthesizers import get_response_synthesizer
from llama_index.core.retrievers import AutoMergingRetriever, QueryFusionRetriever, RecursiveRetriever
from llama_index.core.schema import BaseNode, IndexNode, NodeRelationship, NodeWithScore, QueryBundle, TextNode
from llama_index.core.tools import FunctionTool, QueryEngineTool, RetrieverTool
from llama_index.core.workflow import Event, StartEvent, StopEvent, Workflow, step

QUESTION = "How long is the pump covered?"
ANSWER = "The pump is covered for 24 months."
NODES = [TextNode(text=f"Passage {i} on pumps.", id_=f"n{i}", metadata={"page": i}) for i in range(5)]
IDS = tuple(node.node_id for node in NODES)


def scored(nodes: Sequence[BaseNode] = NODES) -> list[NodeWithScore]:
    """New wrappers each time: rerankers write into them."""
    return [NodeWithScore(node=node, score=0.9 - i / 10) for i, node in enumerate(nodes)]


class Fixed(BaseRetriever):
    """Always the same nodes."""

    def __init__(self, nodes: Callable[[], list[Any]] = scored) -> None:
        self._nodes = nodes
        super().__init__()

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return self._nodes()


class Speaker(CustomLLM):
    """A completion model with a name, token counts and a finish reason, which streams word by word."""

    answer: str = ANSWER
    model: str = "speaker-1"
    fails_after: int | None = None
    """Pieces of a stream after which it breaks; 0: at once."""
    waits: bool = False
    api_key: str = "sk-never-to-be-seen"

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(model_name=self.model)

    def _response(self, text: str, delta: str | None = None) -> CompletionResponse:
        raw = {
            "id": "reply-1",
            "model": "speaker-1-0613",
            "usage": {"prompt_tokens": 40, "completion_tokens": 7, "total_tokens": 47},
            "choices": [{"finish_reason": "stop"}],
        }
        return CompletionResponse(text=text, delta=delta, raw=raw)

    @llm_completion_callback()
    def complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        if self.fails_after is not None:
            raise RuntimeError("the model is down")
        return self._response(self.answer)

    @llm_completion_callback()
    async def acomplete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        if self.waits:
            await asyncio.sleep(30)
        return self._response(self.answer)

    @llm_completion_callback()
    def stream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> Iterator[CompletionResponse]:
        def words() -> Iterator[CompletionResponse]:
            text = ""
            for i, word in enumerate(self.answer.split(" ")):
                if i == self.fails_after:
                    raise RuntimeError("the line broke")
                delta = f" {word}" if i else word
                text += delta
                yield self._response(text, delta)

        return words()


class Reasoner(Speaker):
    """Asks the tool first, then answers: what a ReAct agent expects of its model."""

    tool: str = "kb"

    @llm_completion_callback()
    def stream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> Iterator[CompletionResponse]:
        asked = "Observation:" in prompt.rsplit("## Current Conversation", maxsplit=1)[-1]
        said = (
            f"Thought: I can answer without using any more tools.\nAnswer: {ANSWER}"
            if asked
            else f'Thought: I need a tool.\nAction: {self.tool}\nAction Input: {{"input": "pump cover"}}'
        )

        def whole() -> Iterator[CompletionResponse]:
            yield self._response(said, said)

        return whole()


class Caller(FunctionCallingLLM):
    """Calls its first tool, then answers; in the messages of OpenAI's shape."""

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(model_name="caller-1", is_function_calling_model=True, is_chat_model=True)

    def _say(self, messages: Sequence[ChatMessage]) -> ChatResponse:
        if any(message.role == "tool" for message in messages):
            return ChatResponse(message=ChatMessage(role="assistant", content=ANSWER), delta=ANSWER)
        call = {"id": "call-1", "type": "function", "function": {"name": "today", "arguments": "{}"}}
        message = ChatMessage(role="assistant", content="", additional_kwargs={"tool_calls": [call]})
        return ChatResponse(message=message, delta="")

    @llm_chat_callback()
    def chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponse:
        return self._say(messages)

    @llm_chat_callback()
    async def achat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponse:
        return self._say(messages)

    @llm_chat_callback()
    def stream_chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> Iterator[ChatResponse]:
        def whole() -> Iterator[ChatResponse]:
            yield self._say(messages)

        return whole()

    @llm_chat_callback()
    async def astream_chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> AsyncIterator[ChatResponse]:
        async def whole() -> AsyncIterator[ChatResponse]:
            yield self._say(messages)

        return whole()

    def complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        raise AssertionError("this model is asked by chat alone")

    def stream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> Iterator[CompletionResponse]:
        raise AssertionError("this model is asked by chat alone")

    async def acomplete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        raise AssertionError("this model is asked by chat alone")

    async def astream_complete(
        self, prompt: str, formatted: bool = False, **kwargs: Any
    ) -> AsyncIterator[CompletionResponse]:
        raise AssertionError("this model is asked by chat alone")

    def _prepare_chat_with_tools(
        self, tools: Any, user_msg: Any = None, chat_history: Any = None, **kwargs: Any
    ) -> dict[str, Any]:
        return {"messages": list(chat_history or [])}

    def get_tool_calls_from_response(
        self, response: ChatResponse, error_on_no_tool_call: bool = True, **kwargs: Any
    ) -> list[ToolSelection]:
        calls = response.message.additional_kwargs.get("tool_calls", [])
        return [ToolSelection(tool_id=c["id"], tool_name=c["function"]["name"], tool_kwargs={}) for c in calls]


def engine(retriever: BaseRetriever | None = None, llm: Any = None, **options: Any) -> RetrieverQueryEngine:
    """A query engine over fixed nodes."""
    return RetrieverQueryEngine.from_args(retriever or Fixed(), llm=llm or Speaker(), **options)


@dataclass(frozen=True, slots=True)
class Case:
    """A case and what a tracer should make of it."""

    name: str
    run: Callable[[], object]
    traces: int = 1
    question: str | None = QUESTION
    answer: str | None = ANSWER
    documents: tuple[str, ...] = IDS
    """Ids of what the model saw, in its order."""
    error: str | None = None
    cancelled: bool = False


CASES: dict[str, Case] = {}


def case(**expected: Any) -> Callable[[Callable[[], object]], Callable[[], object]]:
    """Enter a function into the table of cases."""

    def enter(run: Callable[[], object]) -> Callable[[], object]:
        CASES[run.__name__] = Case(run.__name__, run, **expected)
        return run

    return enter


# --- query engines -------------------------------------------------------------------------------


@case()
def query() -> object:
    return engine().query(QUESTION)


@case()
def aquery() -> object:
    return asyncio.run(engine().aquery(QUESTION))


@case()
def query_stream() -> object:
    return list(engine(streaming=True).query(QUESTION).response_gen)


@case()
def aquery_stream() -> object:
    async def read() -> list[str]:
        response = await engine(streaming=True).aquery(QUESTION)
        return [piece async for piece in response.async_response_gen()]

    return asyncio.run(read())


@case()
def query_stream_read_elsewhere() -> object:
    """Read in a thread of its own, as web frameworks do."""
    response = engine(streaming=True).query(QUESTION)
    reader = threading.Thread(target=lambda: list(response.response_gen))
    reader.start()
    return reader.join()


@case(answer="The pump", cancelled=True)
def query_stream_closed() -> object:
    stream = engine(streaming=True).query(QUESTION).response_gen
    pieces = [next(stream), next(stream)]
    stream.close()
    return pieces


@case(answer="The", cancelled=True)
def query_stream_abandoned() -> object:
    piece = next(engine(streaming=True).query(QUESTION).response_gen)
    gc.collect()
    return piece


@case(answer="", cancelled=True)
def query_stream_never_read() -> object:
    engine(streaming=True).query(QUESTION)
    return gc.collect()


@case(answer="The pump", error="RuntimeError")
def query_stream_breaks() -> object:
    with contextlib.suppress(RuntimeError):
        list(engine(llm=Speaker(fails_after=2), streaming=True).query(QUESTION).response_gen)
    return None


@case(answer="The pump", cancelled=True)
def aquery_stream_closed() -> object:
    async def read() -> None:
        response = await engine(streaming=True).aquery(QUESTION)
        stream = response.response_gen
        await stream.__anext__()
        await stream.__anext__()
        await stream.aclose()

    return asyncio.run(read())


@case(traces=2)
def open_stream_then_another_user() -> object:
    first = engine(streaming=True).query(QUESTION)
    next(first.response_gen)
    engine().query(QUESTION)
    return list(first.response_gen)


@case()
def retrieve_and_synthesize() -> object:
    """A synthesizer called by hand: the request's root, with the nodes that it was given."""
    return get_response_synthesizer(llm=Speaker()).synthesize(QUESTION, scored())


# --- chat engines --------------------------------------------------------------------------------


@case(documents=())
def simple_chat() -> object:
    return SimpleChatEngine.from_defaults(llm=Speaker()).chat(QUESTION)


@case()
def context_chat() -> object:
    return ContextChatEngine.from_defaults(Fixed(), llm=Speaker()).chat(QUESTION)


@case()
def condense_plus_context_chat() -> object:
    history = [ChatMessage(role="user", content="Hello"), ChatMessage(role="assistant", content="Yes?")]
    return CondensePlusContextChatEngine.from_defaults(Fixed(), llm=Speaker(), chat_history=history).chat(QUESTION)


@case()
def condense_question_chat() -> object:
    return CondenseQuestionChatEngine.from_defaults(engine(), llm=Speaker()).chat(QUESTION)


@case(documents=())
def simple_stream_chat() -> object:
    return list(SimpleChatEngine.from_defaults(llm=Speaker()).stream_chat(QUESTION).response_gen)


@case()
def stream_chat() -> object:
    chat = CondensePlusContextChatEngine.from_defaults(Fixed(), llm=Speaker())
    return list(chat.stream_chat(QUESTION).response_gen)


@case(documents=())
def stream_chat_abandoned() -> object:
    """LlamaIndex's own thread reads the stream to its end, whether the consumer stays or not."""
    before = set(threading.enumerate())
    SimpleChatEngine.from_defaults(llm=Speaker()).stream_chat(QUESTION)
    writers = [t for t in set(threading.enumerate()) - before if not t.daemon]
    return [writer.join() for writer in writers]


@case()
def astream_chat() -> object:
    async def read() -> list[str]:
        chat = CondensePlusContextChatEngine.from_defaults(Fixed(), llm=Speaker())
        response = await chat.astream_chat(QUESTION)
        return [piece async for piece in response.async_response_gen()]

    return asyncio.run(read())


@case()
def condense_question_astream_chat() -> object:
    async def read() -> list[str]:
        chat = CondenseQuestionChatEngine.from_defaults(engine(), llm=Speaker())
        response = await chat.astream_chat(QUESTION)
        return [piece async for piece in response.async_response_gen()]

    return asyncio.run(read())


@case(answer="The pump", documents=(), error="RuntimeError")
def stream_chat_breaks() -> object:
    response = SimpleChatEngine.from_defaults(llm=Speaker(fails_after=2)).stream_chat(QUESTION)
    with contextlib.suppress(RuntimeError):
        list(response.response_gen)
    return None


# --- agents and workflows ------------------------------------------------------------------------


def _tool(**options: Any) -> QueryEngineTool:
    return QueryEngineTool.from_defaults(engine(**options), name="kb", description="What is known of pumps")


@case()
def react_agent() -> object:
    async def ask() -> object:
        return await ReActAgent(tools=[_tool()], llm=Reasoner()).run(QUESTION)

    return asyncio.run(ask())


@case()
def react_agent_with_retriever_tool() -> object:
    async def ask() -> object:
        tool = RetrieverTool.from_defaults(Fixed(), name="search", description="Searches")
        return await ReActAgent(tools=[tool], llm=Reasoner(tool="search")).run(QUESTION)

    return asyncio.run(ask())


@case(documents=())
def function_agent() -> object:
    def today() -> str:
        """The day."""
        return "Saturday"

    async def ask() -> object:
        tools = [FunctionTool.from_defaults(today)]
        return await FunctionAgent(name="helper", tools=tools, llm=Caller()).run(QUESTION)

    return asyncio.run(ask())


class Found(Event):
    nodes: list[Any]


class Flow(Workflow):
    """Retrieves in one step and answers in the next."""

    llm: Any = None

    @step
    async def look(self, ev: StartEvent) -> Found:
        return Found(nodes=await Fixed().aretrieve(ev.query))

    @step
    async def say(self, ev: Found) -> StopEvent:
        return StopEvent(result=str(await (self.llm or Speaker()).acomplete("Answer.")))


@case()
def workflow() -> object:
    async def ask() -> object:
        return await Flow().run(query=QUESTION)

    return asyncio.run(ask())


@case(answer="", cancelled=True)
def workflow_cancelled() -> object:
    async def ask() -> None:
        flow = Flow()
        flow.llm = Speaker(waits=True)
        handler = flow.run(query=QUESTION)
        await asyncio.sleep(0.2)
        await handler.cancel_run()
        with contextlib.suppress(Exception):
            await handler

    return asyncio.run(ask())


@case(answer="", error="WorkflowTimeoutError")
def workflow_timed_out() -> object:
    async def ask() -> None:
        flow = Flow(timeout=0.2)
        flow.llm = Speaker(waits=True)
        with contextlib.suppress(Exception):
            await flow.run(query=QUESTION)

    return asyncio.run(ask())


class StreamingFlow(Workflow):
    """Returns an answer that is still to be made."""

    @step
    async def say(self, ev: StartEvent) -> StopEvent:
        return StopEvent(result=await engine(streaming=True).aquery(ev.query))


@case()
def workflow_returns_stream() -> object:
    async def ask() -> list[str]:
        response = await StreamingFlow().run(query=QUESTION)
        return [piece async for piece in response.async_response_gen()]

    return asyncio.run(ask())


# --- many at once --------------------------------------------------------------------------------


@case(traces=10)
def ten_threads() -> object:
    shared = engine()
    threads = [threading.Thread(target=shared.query, args=(QUESTION,)) for _ in range(10)]
    for thread in threads:
        thread.start()
    return [thread.join() for thread in threads]


@case(traces=10)
def gather() -> object:
    async def ask() -> list[object]:
        shared = engine()
        return list(await asyncio.gather(*(shared.aquery(QUESTION) for _ in range(10))))

    return asyncio.run(ask())


@case(traces=10)
def gather_streams() -> object:
    async def one(shared: RetrieverQueryEngine) -> list[str]:
        response = await shared.aquery(QUESTION)
        return [piece async for piece in response.async_response_gen()]

    async def ask() -> list[object]:
        shared = engine(streaming=True)
        return list(await asyncio.gather(*(one(shared) for _ in range(10))))

    return asyncio.run(ask())


@case(answer="", cancelled=True)
def cancelled() -> object:
    async def ask() -> None:
        task = asyncio.create_task(engine(llm=Speaker(waits=True)).aquery(QUESTION))
        await asyncio.sleep(0.05)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task

    return asyncio.run(ask())


@case(answer="", cancelled=True)
def timed_out() -> object:
    async def ask() -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(engine(llm=Speaker(waits=True)).aquery(QUESTION), 0.05)

    return asyncio.run(ask())


# --- retrievers and rerankers --------------------------------------------------------------------


@case(documents=("n0", "n1"))
def vector_index() -> object:
    index = VectorStoreIndex(NODES[:2], embed_model=MockEmbedding(8))
    return index.as_query_engine(llm=Speaker(), similarity_top_k=2).query(QUESTION)


@case(documents=("n0", "n1", "n2"))
def fusion() -> object:
    parts = [Fixed(lambda: scored(NODES[:2])), Fixed(lambda: scored(NODES[2:3]))]
    both = QueryFusionRetriever(parts, llm=Speaker(), num_queries=1, similarity_top_k=3, use_async=False, mode="simple")
    return engine(_sorted(both)).query(QUESTION)


def _sorted(inner: BaseRetriever) -> BaseRetriever:
    """By id: fusion orders by scores, which tie."""

    class Sorted(BaseRetriever):
        def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
            return sorted(inner.retrieve(query_bundle), key=lambda found: found.node.node_id)

    return Sorted()


@case(documents=("whole",))
def auto_merging() -> object:
    whole = TextNode(text="All of it.", id_="whole")
    parts = [TextNode(text=f"Part {i}.", id_=f"part{i}") for i in range(2)]
    for part in parts:
        part.relationships[NodeRelationship.PARENT] = whole.as_related_node_info()
    whole.relationships[NodeRelationship.CHILD] = [part.as_related_node_info() for part in parts]
    storage = StorageContext.from_defaults()
    storage.docstore.add_documents([whole, *parts])
    index = VectorStoreIndex(get_leaf_nodes([whole, *parts]), storage_context=storage, embed_model=MockEmbedding(8))
    return engine(AutoMergingRetriever(index.as_retriever(similarity_top_k=2), storage)).query(QUESTION)


@case()
def recursive() -> object:
    pointer = IndexNode(text="See the manual.", index_id="manual", id_="pointer")
    parts = {"root": Fixed(lambda: scored([pointer])), "manual": Fixed()}
    return engine(RecursiveRetriever("root", retriever_dict=parts)).query(QUESTION)


@case(documents=("n2", "n0"))
def reranker() -> object:
    rerank = LLMRerank(llm=Speaker(answer="Doc: 3, Relevance: 9\nDoc: 1, Relevance: 7\n"), top_n=2)
    return engine(node_postprocessors=[rerank]).query(QUESTION)


@case(documents=("n2", "n0"))
def areranker() -> object:
    rerank = LLMRerank(llm=Speaker(answer="Doc: 3, Relevance: 9\nDoc: 1, Relevance: 7\n"), top_n=2)
    return asyncio.run(engine(node_postprocessors=[rerank]).aquery(QUESTION))


@case(documents=("n0", "n1"))
def similarity_cutoff() -> object:
    return engine(node_postprocessors=[SimilarityPostprocessor(similarity_cutoff=0.75)]).query(QUESTION)


@case(documents=("n0", "n1"))
def react_agent_with_cutoff() -> object:
    async def ask() -> object:
        tool = _tool(node_postprocessors=[SimilarityPostprocessor(similarity_cutoff=0.75)])
        return await ReActAgent(tools=[tool], llm=Reasoner()).run(QUESTION)

    return asyncio.run(ask())


# --- bad luck and bad input ----------------------------------------------------------------------


@case(answer="", error="RuntimeError")
def model_fails() -> object:
    with contextlib.suppress(RuntimeError):
        engine(llm=Speaker(fails_after=0)).query(QUESTION)
    return None


@case(answer="", documents=(), error="ConnectionError")
def retriever_fails() -> object:
    def down() -> list[Any]:
        raise ConnectionError("the store is down")

    with contextlib.suppress(ConnectionError):
        engine(Fixed(down)).query(QUESTION)
    return None


@case(answer="Empty Response", documents=())
def no_documents() -> object:
    return engine(Fixed(list)).query(QUESTION)


class Odd(TextNode):
    """A node whose content is no text."""

    def get_content(self, *args: Any, **kwargs: Any) -> Any:
        return "" if args or kwargs else {"table": [1, 2]}


@case(documents=("odd",))
def content_that_is_no_text() -> object:
    odd = Odd.model_construct(id_="odd", text={"table": [1, 2]}, metadata={}, relationships={})
    found = NodeWithScore.model_construct(node=odd, score=0.5)
    return engine(Fixed(lambda: [found])).query(QUESTION)


@case(documents=("big",))
def ten_megabytes() -> object:
    class Query(Workflow):
        """The model is spared: LlamaIndex would split the node for minutes."""

        @step
        async def say(self, ev: StartEvent) -> StopEvent:
            Fixed(lambda: scored([TextNode(text="x" * 10_000_000, id_="big")])).retrieve(ev.query)
            return StopEvent(result=ANSWER)

    async def ask() -> object:
        return await Query().run(query=QUESTION)

    return asyncio.run(ask())


@case(documents=("n0",))
def score_that_is_no_number() -> object:
    return engine(Fixed(lambda: [NodeWithScore(node=NODES[0], score=float("nan"))])).query(QUESTION)


SURROGATE = "half a pair \ud83d here"
NUL = "a\0b"


@case(documents=("odd",), question=SURROGATE, answer=SURROGATE)
def lone_surrogates() -> object:
    node = TextNode.model_construct(id_="odd", text=SURROGATE, metadata={"title": SURROGATE}, relationships={})
    found = NodeWithScore.model_construct(node=node, score=0.5)

    class Query(Workflow):
        @step
        async def say(self, ev: StartEvent) -> StopEvent:
            Fixed(lambda: [found]).retrieve(ev.query)
            return StopEvent(result=ev.query)

    async def ask() -> object:
        return await Query().run(query=SURROGATE)

    return asyncio.run(ask())


@case(documents=("odd",), question=NUL, answer=NUL)
def nul_bytes() -> object:
    return engine(Fixed(lambda: scored([TextNode(text=NUL, id_="odd")])), llm=Speaker(answer=NUL)).query(NUL)


class Dictionary(Workflow):
    """Answers with a dictionary."""

    @step
    async def say(self, ev: StartEvent) -> StopEvent:
        return StopEvent(result={"answer": ANSWER, "pages": [1, 2]})


@case(documents=())
def answer_that_is_a_dictionary() -> object:
    async def ask() -> object:
        return await Dictionary().run(question=QUESTION)

    return asyncio.run(ask())
