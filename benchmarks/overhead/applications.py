"""The applications whose requests are measured. Each one serves a number of requests and returns their durations."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

TEXT = (
    "Every delivery of the nursery is guaranteed for eighteen months, provided that the roots are watered twice a week "
    "in the first summer and the trunk is tied to a post until the second winter. "
) * 4
CHUNKS = [f"({i}) {TEXT}" for i in range(5)]
ANSWER = (
    "A tree is guaranteed for eighteen months. Water its roots twice a week in the first summer. "
    "Tie the trunk to a post. Take the post away after the second winter."
)
TASKS = 200

Ask = Callable[[str], Any]
Wrap = Callable[[Ask], Ask]
Serve = Callable[[int], list[float]]
"""Serves so many requests, and returns the duration of each one in microseconds."""


def _question(number: int) -> str:
    return f"How long is tree {number} guaranteed?"


def in_turn(ask: Ask) -> Serve:
    """Serves requests one after the other."""

    def serve(requests: int) -> list[float]:
        return [_timed(ask, number) for number in range(requests)]

    return serve


def _timed(ask: Ask, number: int) -> float:
    started = time.perf_counter_ns()
    ask(_question(number))
    return (time.perf_counter_ns() - started) / 1000


def _in_tasks(ask: Callable[[str], Awaitable[Any]]) -> Serve:
    """Serves TASKS requests at a time on one event loop."""
    loop = asyncio.new_event_loop()

    async def timed(number: int) -> float:
        started = time.perf_counter_ns()
        await ask(_question(number))
        return (time.perf_counter_ns() - started) / 1000

    async def together(numbers: Iterable[int]) -> list[float]:
        return await asyncio.gather(*(timed(number) for number in numbers))

    def serve(requests: int) -> list[float]:
        durations: list[float] = []
        for first in range(0, requests, TASKS):
            durations += loop.run_until_complete(together(range(first, min(first + TASKS, requests))))
        return durations

    return serve


# --- LangChain -----------------------------------------------------------------------------------


def _retriever() -> Any:
    from langchain_core.documents import Document
    from langchain_core.retrievers import BaseRetriever

    documents = [
        Document(page_content=text, id=str(i), metadata={"source": f"guide-{i}.pdf", "score": 0.9 - i / 10})
        for i, text in enumerate(CHUNKS)
    ]

    class Fixed(BaseRetriever):
        def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
            return documents

        async def _aget_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
            return documents

    return Fixed()


def _model() -> Any:
    """A model that answers at once. It has a name, as real ones do: OpenTelemetry records no call of another."""
    from langchain_core.language_models import FakeListChatModel

    class Named(FakeListChatModel):
        model_name: str = "gpt-4o-mini"

        @property
        def _identifying_params(self) -> dict[str, Any]:
            return {"model_name": self.model_name, "temperature": 0.2}

    return Named(responses=[ANSWER])


def _chain() -> Any:
    """A chain of a retriever, a prompt, a model and a parser."""
    from langchain_core.output_parsers import StrOutputParser
    from langchain_core.prompts import ChatPromptTemplate
    from langchain_core.runnables import RunnablePassthrough

    prompt = ChatPromptTemplate.from_messages([("system", "Use the context."), ("human", "{context}\n\n{question}")])
    return (
        {
            "context": _retriever() | (lambda documents: "\n\n".join(d.page_content for d in documents)),
            "question": RunnablePassthrough(),
        }
        | prompt
        | _model()
        | StrOutputParser()
    )


def langchain(wrap: Wrap) -> Serve:
    """A chain that is called in one thread."""
    return in_turn(wrap(_chain().invoke))


def langchain_tasks(_wrap: Wrap) -> Serve:
    """The chain in 200 tasks at a time; spans by hand are not measured here."""
    return _in_tasks(_chain().ainvoke)


def langchain_stream(wrap: Wrap) -> Serve:
    """The chain, streamed character by character."""
    chain = _chain()
    return in_turn(wrap(lambda question: "".join(chain.stream(question))))


def langgraph(wrap: Wrap) -> Serve:
    """A graph of two nodes: one retrieves, one asks the model."""
    from langgraph.graph import END, START, StateGraph
    from typing_extensions import TypedDict

    class State(TypedDict):
        question: str
        documents: list[Any]
        answer: str

    retriever, model = _retriever(), _model()

    def retrieve(state: State) -> dict[str, Any]:
        return {"documents": retriever.invoke(state["question"])}

    def generate(state: State) -> dict[str, Any]:
        context = "\n\n".join(document.page_content for document in state["documents"])
        prompt = [("system", "Use the context."), ("human", f"{context}\n\n{state['question']}")]
        return {"answer": model.invoke(prompt).content}

    graph = StateGraph(State)
    graph.add_node("retrieve", retrieve)
    graph.add_node("generate", generate)
    graph.add_edge(START, "retrieve")
    graph.add_edge("retrieve", "generate")
    graph.add_edge("generate", END)
    compiled = graph.compile()
    return in_turn(wrap(lambda question: compiled.invoke({"question": question})["answer"]))


# --- LlamaIndex ----------------------------------------------------------------------------------


def _index_parts() -> tuple[Any, Any]:
    from llama_index.core.base.base_retriever import BaseRetriever
    from llama_index.core.llms import MockLLM
    from llama_index.core.schema import NodeWithScore, TextNode

    nodes = [
        NodeWithScore(node=TextNode(text=text, id_=str(i), metadata={"source": f"guide-{i}.pdf"}), score=0.9 - i / 10)
        for i, text in enumerate(CHUNKS)
    ]

    class Fixed(BaseRetriever):
        def _retrieve(self, query_bundle: Any) -> list[NodeWithScore]:
            return nodes

    return Fixed(), MockLLM(max_tokens=60)


def llama_index(wrap: Wrap) -> Serve:
    """A query engine over a retriever."""
    from llama_index.core.query_engine import RetrieverQueryEngine
    from llama_index.core.response_synthesizers import get_response_synthesizer

    retriever, model = _index_parts()
    synthesizer = get_response_synthesizer(llm=model, response_mode="compact")  # type: ignore[arg-type]
    engine = RetrieverQueryEngine(retriever=retriever, response_synthesizer=synthesizer)
    return in_turn(wrap(lambda question: str(engine.query(question))))


APPLICATIONS: dict[str, Callable[[Wrap], Serve]] = {
    "langchain": langchain, "langchain-tasks": langchain_tasks,
    "langchain-stream": langchain_stream, "langgraph": langgraph, "llama-index": llama_index,
}  # fmt: skip
