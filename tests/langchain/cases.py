"""What an application can do with LangChain and LangGraph, one function a case. Nothing here knows of any tracer, so
that the same cases can be run under other tracing libraries."""

import asyncio
import contextlib
import gc
import inspect
import threading
from collections.abc import Callable
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


class Waiting(FakeListChatModel):
    async def _agenerate(self, *args: Any, **kwargs: Any) -> Any:
        await asyncio.sleep(30)


def join(found: list[Document]) -> str:
    return "\n".join(str(d.page_content) for d in found)


def chain(retriever: Any = None, model: Any = None) -> Runnable[Any, Any]:
    prompt = ChatPromptTemplate.from_messages([("system", "Answer."), ("human", "{context} {question}")])
    steps = (
        {"context": (retriever or Fixed()) | RunnableLambda(join), "question": RunnablePassthrough()}
        | prompt
        | (model or FakeListChatModel(responses=[ANSWER]))
        | StrOutputParser()
    )
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
    documents: tuple[str, ...] | None = PASSAGES
    """Passages that the model saw, in its order."""
    unordered: bool = False
    error: bool = False
    cancelled: bool = False
    who: bool = False
    """Conversation, user and tag on every span."""
    inner: int = 0
    """Spans below the outermost retrieval."""
    spans: tuple[str, ...] = ("chat", "retrieval")
    """Operations right below the root of each trace, sorted, as ragtrace names them."""


CASES: dict[str, Case] = {}


def case(row: str, **expected: Any) -> Callable[[Callable[[Config], object]], Callable[[Config], object]]:
    """Enter a function, or a coroutine's, into the table of cases."""

    def enter(run: Callable[[Config], Any]) -> Callable[[Config], object]:
        is_async = inspect.iscoroutinefunction(run)
        CASES[run.__name__] = Case(
            run.__name__, row, (lambda config: asyncio.run(run(config))) if is_async else run, **expected
        )
        return run

    return enter


@case("one call")
def invoke(config: Config) -> object:
    return chain().invoke(QUESTION, config)


@case("`batch` of 3", traces=3)
def batch(config: Config) -> object:
    return chain().batch([QUESTION] * 3, config)


@case("`batch` of 3, then 2 more users", traces=5)
def batch_then_two(config: Config) -> object:
    made = chain()
    return [*made.batch([QUESTION] * 3, config), made.invoke(QUESTION, config), made.invoke(QUESTION, config)]


@case("an open stream, then another user's call", traces=2)
def open_stream(config: Config) -> object:
    stream = chain().stream(QUESTION, config)
    first = next(stream)
    chain().invoke(QUESTION, config)
    return [first, *stream]


@case("`abatch` of 3", traces=3)
async def abatch(config: Config) -> object:
    return await chain().abatch([QUESTION] * 3, config)


@case("10 threads", traces=10)
def ten_threads(config: Config) -> object:
    made = chain()
    threads = [threading.Thread(target=made.invoke, args=(QUESTION, config)) for _ in range(10)]
    for thread in threads:
        thread.start()
    return [thread.join() for thread in threads]


@case("10 concurrent `ainvoke`", traces=10)
async def ten_ainvoke(config: Config) -> object:
    made = chain()
    tasks = [asyncio.create_task(made.ainvoke(QUESTION, config)) for _ in range(10)]
    return [await task for task in tasks]


@case("`asyncio.gather` of calls and streams", traces=4)
async def gather(config: Config) -> object:
    async def read() -> list[Any]:
        return [piece async for piece in chain().astream(QUESTION, config)]

    made = chain()
    return await asyncio.gather(made.ainvoke(QUESTION, config), read(), read(), made.ainvoke(QUESTION, config))


@case("`RunnableParallel`", answer=None, unordered=True, spans=("retrieval", "retrieval"))
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


@case("LangGraph: nodes that retrieve and answer")
def langgraph(config: Config) -> object:
    return graph().invoke({"question": QUESTION}, config)


@case("LangGraph: 5 concurrent runs", traces=5)
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


@case("LangGraph: a ReAct agent whose tool retrieves", spans=("chat", "chat", "execute_tool"))
def react_agent(config: Config) -> object:
    return agent().invoke({"messages": [("user", QUESTION)]}, config)


@case("a vector store's retriever", unordered=True)
def vector_store(config: Config) -> object:
    store = InMemoryVectorStore.from_documents(DOCUMENTS, DeterministicFakeEmbedding(size=8))
    return chain(store.as_retriever(search_kwargs={"k": 5})).invoke(QUESTION, config)


@case("ensemble retriever", inner=2, spans=("chat", "retrieval"))
def ensemble(config: Config) -> object:
    from langchain_classic.retrievers import EnsembleRetriever

    parts = [Fixed(documents=DOCUMENTS[:3]), Fixed(documents=DOCUMENTS[3:])]
    return chain(EnsembleRetriever(retrievers=parts, weights=[0.9, 0.1])).invoke(QUESTION, config)


@case("multi-query retriever", inner=3, spans=("chat", "retrieval"))
def multi_query(config: Config) -> object:
    from langchain_classic.retrievers import MultiQueryRetriever

    rewriter = FakeListChatModel(responses=["pump warranty\npump guarantee"])
    return chain(MultiQueryRetriever.from_llm(Fixed(), rewriter)).invoke(QUESTION, config)


@case("parent-document retriever", documents=PASSAGES[:1])
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


@case("contextual compression retriever", documents=PASSAGES[1:2], inner=1, spans=("chat", "retrieval"))
def compression(config: Config) -> object:
    from langchain_classic.retrievers import ContextualCompressionRetriever
    from langchain_core.documents import BaseDocumentCompressor

    class Second(BaseDocumentCompressor):
        def compress_documents(self, documents: Any, query: str, callbacks: Any = None) -> Any:
            return list(documents)[1:2]

    found = ContextualCompressionRetriever(base_compressor=Second(), base_retriever=Fixed())
    return chain(found).invoke(QUESTION, config)


@case("stream consumed")
def stream(config: Config) -> object:
    return "".join(chain().stream(QUESTION, config))


@case("asynchronous stream consumed")
async def astream(config: Config) -> object:
    return [piece async for piece in chain().astream(QUESTION, config)]


@case("stream abandoned", answer="T", cancelled=True)
def stream_abandoned(config: Config) -> object:
    pieces = chain().stream(QUESTION, config)
    first = next(pieces)
    del pieces
    gc.collect()
    return first


@case("asynchronous stream closed (`aclose`)", answer="T", cancelled=True)
async def astream_closed(config: Config) -> None:
    pieces: Any = chain().astream(QUESTION, config)
    await pieces.__anext__()
    await pieces.aclose()
    await asyncio.sleep(0.05)  # LangChain ends the runs after aclose has returned


@case("call cancelled", answer=None, cancelled=True)
async def cancelled(config: Config) -> None:
    task = asyncio.create_task(chain(model=Waiting(responses=[""])).ainvoke(QUESTION, config))
    await asyncio.sleep(0.1)
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


@case("call timed out (`asyncio.wait_for`)", answer=None, cancelled=True)
async def timed_out(config: Config) -> None:
    with contextlib.suppress(asyncio.TimeoutError):
        await asyncio.wait_for(chain(model=Waiting(responses=[""])).ainvoke(QUESTION, config), 0.1)


@case("model fails in mid-stream", answer="T", error=True)
def stream_breaks(config: Config) -> None:
    broken = FakeListChatModel(responses=[ANSWER], error_on_chunk_number=5)
    with contextlib.suppress(Exception):
        list(chain(model=broken).stream(QUESTION, config))


@case("text-completion model", spans=("retrieval", "text_completion"))
def text_completion(config: Config) -> object:
    return chain(model=FakeListLLM(responses=[ANSWER])).invoke(QUESTION, config)


@case("session, user and tags on every span", traces=3, who=True)
async def session_and_user(config: Config) -> object:
    return await chain().abatch([QUESTION] * 3, {**config, **WHO})


@case("retriever that finds nothing", documents=())
def nothing_found(config: Config) -> object:
    return chain(Fixed(documents=[])).invoke(QUESTION, config)


@case("retriever that fails", answer=None, documents=None, error=True, spans=("retrieval",))
def retriever_fails(config: Config) -> None:
    class Broken(Fixed):
        def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
            raise ConnectionError("down")

    with contextlib.suppress(ConnectionError):
        chain(Broken()).invoke(QUESTION, config)
