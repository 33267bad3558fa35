"""What an application can do with LlamaIndex, as a table of cases. Nothing here knows of any tracer, so that the same
cases can be run under other tracing libraries."""

import asyncio
import contextlib
import gc
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from llama_index.core import StorageContext, VectorStoreIndex, chat_engine
from llama_index.core.agent.workflow import FunctionAgent, ReActAgent
from llama_index.core.base.base_retriever import BaseRetriever
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

from tests.row_files import table

QUESTION = "How long is the pump covered?"
ANSWER = "The pump is covered for 24 months."
NODES = [TextNode(text=f"Passage {i} on pumps.", id_=f"n{i}", metadata={"page": i}) for i in range(5)]
IDS = tuple(node.node_id for node in NODES)


def scored(nodes: Sequence[BaseNode] = NODES) -> list[NodeWithScore]:
    """New wrappers each time: rerankers write into them."""
    return [NodeWithScore(node=node, score=0.9 - i / 10) for i, node in enumerate(nodes)]


class Fixed(BaseRetriever):
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
        usage = {"prompt_tokens": 40, "completion_tokens": 7, "total_tokens": 47}
        raw = {"id": "reply-1", "model": "speaker-1-0613", "usage": usage, "choices": [{"finish_reason": "stop"}]}
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
        said = f'Thought: I need a tool.\nAction: {self.tool}\nAction Input: {{"input": "pump cover"}}'
        if "Observation:" in prompt.rsplit("## Current Conversation", maxsplit=1)[-1]:
            said = f"Thought: I can answer without using any more tools.\nAnswer: {ANSWER}"
        return (self._response(text, text) for text in [said])


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
        return (reply for reply in [self._say(messages)])

    @llm_chat_callback()
    async def astream_chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> AsyncIterator[ChatResponse]:
        async def whole() -> AsyncIterator[ChatResponse]:
            yield self._say(messages)

        return whole()

    def complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> Any:
        raise AssertionError("this model is asked by chat alone")

    stream_complete = acomplete = astream_complete = complete

    def _prepare_chat_with_tools(self, tools: Any, user_msg: Any = None, chat_history: Any = None, **_: Any) -> Any:
        return {"messages": list(chat_history or [])}

    def get_tool_calls_from_response(self, response: Any, error_on_no_tool_call: bool = True, **_: Any) -> Any:
        calls = response.message.additional_kwargs.get("tool_calls", [])
        return [ToolSelection(tool_id=c["id"], tool_name=c["function"]["name"], tool_kwargs={}) for c in calls]


def engine(retriever: BaseRetriever | None = None, llm: Any = None, **options: Any) -> RetrieverQueryEngine:
    return RetrieverQueryEngine.from_args(retriever or Fixed(), llm=llm or Speaker(), **options)


def run(make: Callable[[], Any], *arguments: Any, **inputs: Any) -> Any:
    """Make a workflow or an agent in an event loop, and run it there."""

    async def ask() -> Any:
        return await make().run(*arguments, **inputs)

    return asyncio.run(ask())


async def read(response: Any) -> list[str]:
    return [piece async for piece in (await response).async_response_gen()]


def streamed(**options: Any) -> Any:
    return engine(streaming=True, **options).query(QUESTION).response_gen


async def ten(ask: Callable[[str], Any], end: Callable[[Any], Any] = lambda answer: answer) -> list[object]:
    return await asyncio.gather(*(end(ask(QUESTION)) for _ in range(10)))


def quietly(error: type[Exception], ask: Callable[[], object]) -> None:
    """Ask; the application expects this error, and goes on."""
    with contextlib.suppress(error):
        ask()


@dataclass(frozen=True, slots=True)
class Case:
    name: str
    run: Callable[[], object]
    traces: int = 1
    question: str | None = QUESTION
    answer: str | None = ANSWER
    documents: Sequence[str] = IDS
    """Ids of what the model saw, in its order."""
    error: str | None = None
    cancelled: bool = False


def query_stream_read_elsewhere() -> None:
    """Read in a thread of its own, as web frameworks do."""
    reader = threading.Thread(target=list, args=(streamed(),))
    reader.start()
    reader.join()


def query_stream_closed() -> None:
    stream = streamed()
    next(stream)
    next(stream)
    stream.close()


def query_stream_abandoned() -> None:
    next(streamed())
    gc.collect()


def query_stream_never_read() -> None:
    engine(streaming=True).query(QUESTION)
    gc.collect()


async def aquery_stream_closed() -> None:
    stream = (await engine(streaming=True).aquery(QUESTION)).response_gen
    await stream.__anext__()
    await stream.__anext__()
    await stream.aclose()


def open_stream_then_another_user() -> None:
    first = streamed()
    next(first)
    engine().query(QUESTION)
    list(first)


def ten_threads() -> None:
    shared = engine()
    threads = [threading.Thread(target=shared.query, args=(QUESTION,)) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


async def cancelled() -> None:
    task = asyncio.create_task(engine(llm=Speaker(waits=True)).aquery(QUESTION))
    await asyncio.sleep(0.05)
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


EARLIER = [ChatMessage(role="user", content="Hello"), ChatMessage(role="assistant", content="Yes?")]


def simple(**options: Any) -> Any:
    return chat_engine.SimpleChatEngine.from_defaults(llm=Speaker(**options))


def context(**options: Any) -> Any:
    return chat_engine.CondensePlusContextChatEngine.from_defaults(Fixed(), llm=Speaker(), **options)


def condense() -> Any:
    return chat_engine.CondenseQuestionChatEngine.from_defaults(engine(), llm=Speaker())


def stream_chat_abandoned() -> None:
    """LlamaIndex's own thread reads the stream to its end, whether the consumer stays or not."""
    before = set(threading.enumerate())
    simple().stream_chat(QUESTION)
    for writer in set(threading.enumerate()) - before:
        if not writer.daemon:
            writer.join()


def react_agent(**options: Any) -> object:
    tool = QueryEngineTool.from_defaults(engine(**options), name="kb", description="What is known of pumps")
    return run(lambda: ReActAgent(tools=[tool], llm=Reasoner()), QUESTION)


def react_agent_with_retriever_tool() -> object:
    tool = RetrieverTool.from_defaults(Fixed(), name="search", description="Searches")
    return run(lambda: ReActAgent(tools=[tool], llm=Reasoner(tool="search")), QUESTION)


def today() -> str:
    """The day."""
    return "Saturday"


TODAY = FunctionTool.from_defaults(today)


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


def waiting(**options: Any) -> Flow:
    """A workflow whose model does not answer."""
    flow = Flow(**options)
    flow.llm = Speaker(waits=True)
    return flow


async def workflow_cancelled() -> None:
    handler = waiting().run(query=QUESTION)
    await asyncio.sleep(0.2)
    await handler.cancel_run()
    with contextlib.suppress(Exception):
        await handler


class StreamingFlow(Workflow):
    """Returns an answer that is still to be made."""

    @step
    async def say(self, ev: StartEvent) -> StopEvent:
        return StopEvent(result=await engine(streaming=True).aquery(ev.query))


async def workflow_returns_stream() -> list[str]:
    return await read(StreamingFlow().run(query=QUESTION))


class Say(Workflow):
    """Answers with what it holds."""

    reply: Any = "Yes."

    @step
    async def say(self, ev: StartEvent) -> StopEvent:
        return StopEvent(result=self.reply)


def say(reply: Any) -> Say:
    workflow = Say()
    workflow.reply = reply
    return workflow


def vector_index() -> object:
    index = VectorStoreIndex(NODES[:2], embed_model=MockEmbedding(8))
    return index.as_query_engine(llm=Speaker(), similarity_top_k=2).query(QUESTION)


def fusion() -> object:
    parts = [Fixed(lambda: scored(NODES[:2])), Fixed(lambda: scored(NODES[2:3]))]
    both = QueryFusionRetriever(parts, llm=Speaker(), num_queries=1, similarity_top_k=3, use_async=False, mode="simple")

    class Sorted(BaseRetriever):
        """By id: fusion orders by scores, which tie."""

        def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
            return sorted(both.retrieve(query_bundle), key=lambda found: found.node.node_id)

    return engine(Sorted()).query(QUESTION)


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


def recursive() -> object:
    pointer = IndexNode(text="See the manual.", index_id="manual", id_="pointer")
    parts = {"root": Fixed(lambda: scored([pointer])), "manual": Fixed()}
    return engine(RecursiveRetriever("root", retriever_dict=parts)).query(QUESTION)


def reranked() -> RetrieverQueryEngine:
    rerank = LLMRerank(llm=Speaker(answer="Doc: 3, Relevance: 9\nDoc: 1, Relevance: 7\n"), top_n=2)
    return engine(node_postprocessors=[rerank])


CUTOFF = SimilarityPostprocessor(similarity_cutoff=0.75)
SURROGATE = "half a pair \ud83d here"
NUL = "a\0b"


def down() -> list[Any]:
    raise ConnectionError("the store is down")


class Odd(TextNode):
    """A node whose content is no text."""

    def get_content(self, *args: Any, **kwargs: Any) -> Any:
        return "" if args or kwargs else {"table": [1, 2]}


def odd(kind: type[TextNode], text: Any, **metadata: str) -> NodeWithScore:
    """A node that LlamaIndex has not validated."""
    node = kind.model_construct(id_="odd", text=text, metadata=metadata, relationships={})
    return NodeWithScore.model_construct(node=node, score=0.5)


def found(*nodes: Any, **options: Any) -> RetrieverQueryEngine:
    return engine(Fixed(lambda: list(nodes)), **options)


def without_model(node: NodeWithScore, question: str, answer: str) -> object:
    """Retrieves a node, and answers without a model: LlamaIndex would split a big node for minutes."""

    class Query(Workflow):
        @step
        async def say(self, ev: StartEvent) -> StopEvent:
            Fixed(lambda: [node]).retrieve(ev.query)
            return StopEvent(result=answer)

    return run(Query, query=question)


RUNS: dict[str, Callable[[], object]] = {
    "query": lambda: engine().query(QUESTION),
    "aquery": lambda: asyncio.run(engine().aquery(QUESTION)),
    "query_stream": lambda: list(streamed()),
    "aquery_stream": lambda: asyncio.run(read(engine(streaming=True).aquery(QUESTION))),
    "query_stream_read_elsewhere": query_stream_read_elsewhere,
    "query_stream_closed": query_stream_closed,
    "query_stream_abandoned": query_stream_abandoned,
    "query_stream_never_read": query_stream_never_read,
    "query_stream_breaks": lambda: quietly(RuntimeError, lambda: list(streamed(llm=Speaker(fails_after=2)))),
    "aquery_stream_closed": lambda: asyncio.run(aquery_stream_closed()),
    "open_stream_then_another_user": open_stream_then_another_user,
    # A synthesizer called by hand: the request's root, with the nodes that it was given.
    "retrieve_and_synthesize": lambda: get_response_synthesizer(llm=Speaker()).synthesize(QUESTION, scored()),
    "simple_chat": lambda: simple().chat(QUESTION),
    "context_chat": lambda: chat_engine.ContextChatEngine.from_defaults(Fixed(), llm=Speaker()).chat(QUESTION),
    "condense_plus_context_chat": lambda: context(chat_history=EARLIER).chat(QUESTION),
    "condense_question_chat": lambda: condense().chat(QUESTION),
    "simple_stream_chat": lambda: list(simple().stream_chat(QUESTION).response_gen),
    "stream_chat": lambda: list(context().stream_chat(QUESTION).response_gen),
    "stream_chat_abandoned": stream_chat_abandoned,
    "astream_chat": lambda: asyncio.run(read(context().astream_chat(QUESTION))),
    "condense_question_astream_chat": lambda: asyncio.run(read(condense().astream_chat(QUESTION))),
    "stream_chat_breaks": lambda: quietly(
        RuntimeError, lambda: list(simple(fails_after=2).stream_chat(QUESTION).response_gen)
    ),
    "react_agent": react_agent,
    "react_agent_with_retriever_tool": react_agent_with_retriever_tool,
    "function_agent": lambda: run(lambda: FunctionAgent(name="helper", tools=[TODAY], llm=Caller()), QUESTION),
    "workflow": lambda: run(Flow, query=QUESTION),
    "workflow_cancelled": lambda: asyncio.run(workflow_cancelled()),
    "workflow_timed_out": lambda: quietly(Exception, lambda: run(lambda: waiting(timeout=0.2), query=QUESTION)),
    "workflow_returns_stream": lambda: asyncio.run(workflow_returns_stream()),
    "ten_threads": ten_threads,
    "gather": lambda: asyncio.run(ten(engine().aquery)),
    "gather_streams": lambda: asyncio.run(ten(engine(streaming=True).aquery, read)),
    "cancelled": lambda: asyncio.run(cancelled()),
    "timed_out": lambda: quietly(
        TimeoutError, lambda: asyncio.run(asyncio.wait_for(engine(llm=Speaker(waits=True)).aquery(QUESTION), 0.05))
    ),
    "vector_index": vector_index,
    "fusion": fusion,
    "auto_merging": auto_merging,
    "recursive": recursive,
    "reranker": lambda: reranked().query(QUESTION),
    "areranker": lambda: asyncio.run(reranked().aquery(QUESTION)),
    "similarity_cutoff": lambda: engine(node_postprocessors=[CUTOFF]).query(QUESTION),
    "react_agent_with_cutoff": lambda: react_agent(node_postprocessors=[CUTOFF]),
    "model_fails": lambda: quietly(RuntimeError, lambda: engine(llm=Speaker(fails_after=0)).query(QUESTION)),
    "retriever_fails": lambda: quietly(ConnectionError, lambda: engine(Fixed(down)).query(QUESTION)),
    "no_documents": lambda: found().query(QUESTION),
    "content_that_is_no_text": lambda: found(odd(Odd, {"table": [1, 2]})).query(QUESTION),
    "ten_megabytes": lambda: without_model(odd(TextNode, "x" * 10_000_000), QUESTION, ANSWER),
    "score_that_is_no_number": lambda: found(NodeWithScore(node=NODES[0], score=float("nan"))).query(QUESTION),
    "lone_surrogates": lambda: without_model(odd(TextNode, SURROGATE, title=SURROGATE), SURROGATE, SURROGATE),
    "nul_bytes": lambda: found(*scored([TextNode(text=NUL, id_="odd")]), llm=Speaker(answer=NUL)).query(NUL),
    "answer_that_is_a_dictionary": lambda: run(lambda: say({"answer": ANSWER, "pages": [1, 2]}), question=QUESTION),
}
CASES = {name: Case(name, RUNS[name], **expected) for name, expected in table(__file__, "cases").items()}
