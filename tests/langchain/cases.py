"""What an application can do with LangChain and LangGraph, one function a case. Nothing here knows of any tracer, so
that the same cases can be run under other tracing libraries."""

import asyncio
import contextlib
import gc
import inspect
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypedDict

from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.language_models import FakeListChatModel, FakeListLLM
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import Runnable, RunnableLambda, RunnableParallel, RunnablePassthrough
from langchain_core.tools import BaseTool, tool
from langchain_core.vectorstores import InMemoryVectorStore
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode

from tests.row_files import table

QUESTION = "How long is the pump covered?"
ANSWER = "The pump is covered for 24 months."
PASSAGES = tuple(f"Passage {i} on pumps." for i in range(5))
WHO = {"metadata": {"session_id": "conversation-1", "user_id": "user-ada"}, "tags": ["tag-beta"]}
Config = dict[str, Any]
DOCUMENTS = [
    Document(page_content=text, id=f"d{i}", metadata={"source": f"m{i}", "score": 0.9 - i / 10})
    for i, text in enumerate(PASSAGES)
]


class Fixed(BaseRetriever):
    documents: list[Any] = DOCUMENTS

    def _get_relevant_documents(self, query: str, *, run_manager: CallbackManagerForRetrieverRun) -> list[Document]:
        return self.documents


class Broken(BaseRetriever):
    def _get_relevant_documents(self, query: str, *, run_manager: CallbackManagerForRetrieverRun) -> list[Document]:
        raise ConnectionError("down")


class Waiting(FakeListChatModel):
    async def _agenerate(self, *args: Any, **kwargs: Any) -> Any:
        await asyncio.sleep(30)


def join(found: list[Document]) -> str:
    return "\n".join(str(d.page_content) for d in found)


def chain(retriever: Any = None, model: Any = None) -> Runnable[Any, Any]:
    prompt = ChatPromptTemplate.from_messages([("system", "Answer."), ("human", "{context} {question}")])
    steps = (
        {"context": (retriever or Fixed()) | RunnableLambda(join), "question": RunnablePassthrough()} | prompt
        | (model or FakeListChatModel(responses=[ANSWER])) | StrOutputParser()
    )  # fmt: skip
    return steps.with_config(run_name="rag")


@dataclass(frozen=True, slots=True)
class Case:
    """A case and what a tracer should make of it. Fields that are None are not asked about."""

    name: str
    row: str
    """What it stands for in the capture matrix."""
    run: Callable[[Config], object]
    traces: int = 1
    question: str | None = QUESTION
    answer: str | None = ANSWER
    """Text that the trace holds in full, or as far as it was made."""
    documents: Sequence[str] | None = PASSAGES
    """Passages that the model saw, in its order."""
    unordered: bool = False
    error: bool = False
    cancelled: bool = False
    who: bool = False
    """Conversation, user and tag on every span."""
    inner: int = 0
    """Spans below the outermost retrieval."""
    spans: Sequence[str] = ("chat", "retrieval")
    """Operations right below the root of each trace, sorted, as ragtrace names them."""


RUNS: dict[str, Callable[[Config], object]] = {
    "invoke": lambda config: chain().invoke(QUESTION, config),
    "batch": lambda config: chain().batch([QUESTION] * 3, config),
    "abatch": lambda config: asyncio.run(chain().abatch([QUESTION] * 3, config)),
    "langgraph": lambda config: graph().invoke({"question": QUESTION}, config),
    "react_agent": lambda config: agent().invoke({"messages": [("user", QUESTION)]}, config),
    "stream": lambda config: "".join(chain().stream(QUESTION, config)),
    "astream": lambda config: asyncio.run(read(chain().astream(QUESTION, config))),
    "text_completion": lambda config: chain(model=FakeListLLM(responses=[ANSWER])).invoke(QUESTION, config),
    "session_and_user": lambda config: asyncio.run(chain().abatch([QUESTION] * 3, {**config, **WHO})),
    "nothing_found": lambda config: chain(Fixed(documents=[])).invoke(QUESTION, config),
}  # fmt: skip


def case(run: Callable[[Config], Any]) -> Callable[[Config], Any]:
    """Enter a function, or a coroutine's, into the runs of cases."""
    RUNS[run.__name__] = (lambda config: asyncio.run(run(config))) if inspect.iscoroutinefunction(run) else run
    return run


async def read(pieces: Any) -> list[Any]:
    return [piece async for piece in pieces]


@case
def batch_then_two(config: Config) -> object:
    made = chain()
    return [*made.batch([QUESTION] * 3, config), made.invoke(QUESTION, config), made.invoke(QUESTION, config)]


@case
def open_stream(config: Config) -> object:
    stream = chain().stream(QUESTION, config)
    first = next(stream)
    chain().invoke(QUESTION, config)
    return [first, *stream]


@case
def ten_threads(config: Config) -> object:
    made = chain()
    threads = [threading.Thread(target=made.invoke, args=(QUESTION, config)) for _ in range(10)]
    for thread in threads:
        thread.start()
    return [thread.join() for thread in threads]


@case
async def ten_ainvoke(config: Config) -> object:
    made = chain()
    tasks = [asyncio.create_task(made.ainvoke(QUESTION, config)) for _ in range(10)]
    return [await task for task in tasks]


@case
async def gather(config: Config) -> object:
    made = chain()
    streams = (read(chain().astream(QUESTION, config)) for _ in range(2))
    return await asyncio.gather(made.ainvoke(QUESTION, config), *streams, made.ainvoke(QUESTION, config))


@case
def parallel(config: Config) -> object:
    left, right = Fixed(documents=DOCUMENTS[:3]), Fixed(documents=DOCUMENTS[2:])
    both = RunnableParallel(a=left | RunnableLambda(join), b=right | RunnableLambda(join))
    return both.with_config(run_name="both").invoke(QUESTION, config)


class State(TypedDict, total=False):
    question: str
    documents: list[Any]
    answer: str


def graph() -> Any:
    """A node that retrieves and a node that answers, as an application writes them: no configuration handed on."""
    builder = StateGraph(State)
    model = FakeListChatModel(responses=[ANSWER])
    builder.add_node("find", lambda s: {"documents": Fixed().invoke(s["question"])})
    builder.add_node("say", lambda s: {"answer": model.invoke(s["question"]).content})
    builder.add_edge(START, "find")
    builder.add_edge("find", "say")
    builder.add_edge("say", END)
    return builder.compile()


@case
async def langgraph_concurrent(config: Config) -> object:
    made = graph()
    return await asyncio.gather(*(made.ainvoke({"question": QUESTION}, config) for _ in range(5)))


@tool
def look_up(what: str) -> str:
    """Look something up."""
    return join(Fixed().invoke(what))


def agent(tool_: BaseTool = look_up, answer: str = ANSWER, name: str | None = None) -> Any:
    """Model and tool in a loop, as the prebuilt ReAct agent has them; the model calls its tool once."""
    call = {"name": tool_.name, "args": {"what": "pump"}, "id": "c1", "type": "tool_call"}
    model = GenericFakeChatModel(messages=iter([AIMessage(content="", tool_calls=[call]), AIMessage(content=answer)]))
    builder = StateGraph(MessagesState)
    builder.add_node("agent", lambda s: {"messages": [model.invoke(s["messages"])]})
    builder.add_node("tools", ToolNode([tool_]))
    builder.add_edge(START, "agent")
    builder.add_conditional_edges("agent", lambda s: "tools" if s["messages"][-1].tool_calls else END)
    builder.add_edge("tools", "agent")
    return builder.compile(name=name)


@case
def vector_store(config: Config) -> object:
    store = InMemoryVectorStore.from_documents(DOCUMENTS, DeterministicFakeEmbedding(size=8))
    return chain(store.as_retriever(search_kwargs={"k": 5})).invoke(QUESTION, config)


@case
def ensemble(config: Config) -> object:
    from langchain_classic.retrievers import EnsembleRetriever

    parts = [Fixed(documents=DOCUMENTS[:3]), Fixed(documents=DOCUMENTS[3:])]
    return chain(EnsembleRetriever(retrievers=parts, weights=[0.9, 0.1])).invoke(QUESTION, config)


@case
def multi_query(config: Config) -> object:
    from langchain_classic.retrievers import MultiQueryRetriever

    rewriter = FakeListChatModel(responses=["pump warranty\npump guarantee"])
    return chain(MultiQueryRetriever.from_llm(Fixed(), rewriter)).invoke(QUESTION, config)


@case
def parent_document(config: Config) -> object:
    from langchain_classic.retrievers import ParentDocumentRetriever
    from langchain_core.stores import InMemoryStore
    from langchain_text_splitters import CharacterTextSplitter

    found = ParentDocumentRetriever(
        vectorstore=InMemoryVectorStore(DeterministicFakeEmbedding(size=8)),
        docstore=InMemoryStore(),
        child_splitter=CharacterTextSplitter(separator=" ", chunk_size=8, chunk_overlap=0),
    )
    found.add_documents(DOCUMENTS[:1])
    return chain(found).invoke(QUESTION, config)


@case
def compression(config: Config) -> object:
    from langchain_classic.retrievers import ContextualCompressionRetriever
    from langchain_core.documents import BaseDocumentCompressor

    class Second(BaseDocumentCompressor):
        def compress_documents(self, documents: Any, query: str, callbacks: Any = None) -> Any:
            return list(documents)[1:2]

    found = ContextualCompressionRetriever(base_compressor=Second(), base_retriever=Fixed())
    return chain(found).invoke(QUESTION, config)


@case
def stream_abandoned(config: Config) -> object:
    pieces = chain().stream(QUESTION, config)
    first = next(pieces)
    del pieces
    gc.collect()
    return first


@case
async def astream_closed(config: Config) -> None:
    pieces: Any = chain().astream(QUESTION, config)
    await pieces.__anext__()
    await pieces.aclose()
    await asyncio.sleep(0.05)  # LangChain ends the runs after aclose has returned


@case
async def cancelled(config: Config) -> None:
    task = asyncio.create_task(chain(model=Waiting(responses=[""])).ainvoke(QUESTION, config))
    await asyncio.sleep(0.1)
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


@case
async def timed_out(config: Config) -> None:
    with contextlib.suppress(asyncio.TimeoutError):
        await asyncio.wait_for(chain(model=Waiting(responses=[""])).ainvoke(QUESTION, config), 0.1)


@case
def stream_breaks(config: Config) -> None:
    broken = FakeListChatModel(responses=[ANSWER], error_on_chunk_number=5)
    with contextlib.suppress(Exception):
        list(chain(model=broken).stream(QUESTION, config))


@case
def retriever_fails(config: Config) -> None:
    with contextlib.suppress(ConnectionError):
        chain(Broken()).invoke(QUESTION, config)


CASES = {name: Case(name, run=RUNS[name], **fields) for name, fields in table(__file__, "cases").items()}
