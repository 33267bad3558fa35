"""Small RAG applications on LangChain, LlamaIndex and the OpenAI client alone, written without regard to any tracer.

Each case is a function of the model server's address and of what a library wants to be passed (`Wishes`)."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from tests.spans.model_server import FAILING, MODEL, QUESTION, TOOL

SESSION, USER, TAG = "conversation-1", "user-ada", "tag-beta"
PASSAGES = {"d0": "The pump is covered for 24 months from delivery.", "d1": "The hose is covered for 6 months."}


@dataclass(frozen=True, slots=True)
class Wishes:
    """How a library is told who asks."""

    config: Mapping[str, Any] = field(default_factory=dict)
    """The configuration of a LangChain call."""
    context: Callable[[], AbstractContextManager[Any]] = nullcontext
    """Is entered around a request."""
    client: Callable[..., Any] | None = None
    """The library's own class in place of `openai.OpenAI`."""


Case = Callable[[str, Wishes], None]


def _langchain_retriever() -> Any:
    from langchain_core.documents import Document
    from langchain_core.retrievers import BaseRetriever

    class ManualRetriever(BaseRetriever):
        def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
            scores = {"d0": 0.9, "d1": 0.8}
            return [
                Document(page_content=text, id=name, metadata={"source": "manual", "score": scores[name]})
                for name, text in PASSAGES.items()
            ]

    return ManualRetriever()


def _langchain_model(base: str, **options: Any) -> Any:
    from langchain_openai import ChatOpenAI

    return ChatOpenAI(model=MODEL, base_url=base, api_key="none", temperature=0.5, max_retries=0, **options)


def _langchain_parts(base: str, **options: Any) -> tuple[Any, Any, Any]:
    from langchain_core.output_parsers import StrOutputParser
    from langchain_core.prompts import ChatPromptTemplate

    prompt = ChatPromptTemplate.from_messages([("system", "Answer from: {context}"), ("human", "{question}")])
    return prompt, _langchain_model(base, **options), StrOutputParser()


def _langchain_chain(base: str, **options: Any) -> Any:
    from langchain_core.runnables import RunnableLambda, RunnablePassthrough

    prompt, model, parser = _langchain_parts(base, **options)
    join = RunnableLambda(lambda documents: "\n".join(d.page_content for d in documents))
    steps = {"context": _langchain_retriever() | join, "question": RunnablePassthrough()} | prompt | model | parser
    return steps.with_config(run_name="manual_rag")


def langchain_chain(base: str, wishes: Wishes, question: str = QUESTION) -> None:
    with wishes.context():
        _langchain_chain(base).invoke(question, wishes.config)


def langchain_stream(base: str, wishes: Wishes) -> None:
    with wishes.context():
        for _ in _langchain_chain(base, stream_usage=True).stream(QUESTION, wishes.config):
            pass


def langchain_agent(base: str, wishes: Wishes) -> None:
    from langchain.agents import create_agent
    from langchain_core.tools import tool

    retriever = _langchain_retriever()

    @tool(TOOL)
    def search(query: str) -> str:
        """Search the manual."""
        return "\n".join(d.page_content for d in retriever.invoke(query))

    agent = create_agent(_langchain_model(base), [search], system_prompt="Use the manual.", name="manual_agent")
    with wishes.context():
        agent.invoke({"messages": [{"role": "user", "content": QUESTION}]}, wishes.config)


def langchain_steps(base: str, wishes: Wishes) -> None:
    """As tutorials do: each step is called by itself."""
    prompt, model, parser = _langchain_parts(base)
    with wishes.context():
        documents = _langchain_retriever().invoke(QUESTION, wishes.config)
        context = "\n".join(d.page_content for d in documents)
        messages = prompt.invoke({"context": context, "question": QUESTION}, wishes.config)
        parser.invoke(model.invoke(messages, wishes.config), wishes.config)


def _index(base: str) -> tuple[Any, Any]:
    from llama_index.core import VectorStoreIndex
    from llama_index.core.embeddings import MockEmbedding
    from llama_index.core.schema import TextNode
    from llama_index.llms.openai import OpenAI

    nodes = [TextNode(id_=name, text=text, metadata={"source": "manual"}) for name, text in PASSAGES.items()]
    llm = OpenAI(model=MODEL, api_base=base, api_key="none", max_retries=0, temperature=0.5)
    return VectorStoreIndex(nodes, embed_model=MockEmbedding(embed_dim=2)), llm


def llama_index_query(base: str, wishes: Wishes, question: str = QUESTION) -> None:
    index, llm = _index(base)
    with wishes.context():
        index.as_query_engine(llm=llm).query(question)


def llama_index_stream(base: str, wishes: Wishes) -> None:
    index, llm = _index(base)
    with wishes.context():
        for _ in index.as_query_engine(llm=llm, streaming=True).query(QUESTION).response_gen:
            pass


def llama_index_chat(base: str, wishes: Wishes) -> None:
    index, llm = _index(base)
    with wishes.context():
        index.as_chat_engine(chat_mode="context", llm=llm).chat(QUESTION)


def llama_index_agent(base: str, wishes: Wishes) -> None:
    import asyncio

    from llama_index.core.agent.workflow import FunctionAgent
    from llama_index.core.tools import FunctionTool

    index, llm = _index(base)
    retriever = index.as_retriever()

    def search(query: str) -> str:
        """Search the manual."""
        return "\n".join(node.text for node in retriever.retrieve(query))

    async def ask() -> None:
        tool = FunctionTool.from_defaults(search, name=TOOL)
        agent = FunctionAgent(name="manual_agent", tools=[tool], llm=llm, streaming=False)
        await agent.run(QUESTION)

    with wishes.context():
        asyncio.run(ask())


_MESSAGES = [
    {"role": "system", "content": "Answer from: " + " ".join(PASSAGES.values())},
    {"role": "user", "content": QUESTION},
]
_PARAMETERS = {"type": "object", "properties": {"query": {"type": "string"}}}
_TOOLS = [{"type": "function", "function": {"name": TOOL, "parameters": _PARAMETERS}}]


def _client(base: str, wishes: Wishes) -> Any:
    import openai

    return (wishes.client or openai.OpenAI)(base_url=base, api_key="none", max_retries=0)


def openai_call(base: str, wishes: Wishes) -> None:
    with wishes.context():
        _client(base, wishes).chat.completions.create(model=MODEL, messages=_MESSAGES, temperature=0.5)


def openai_stream(base: str, wishes: Wishes) -> None:
    options = {"stream": True, "stream_options": {"include_usage": True}}
    with wishes.context():
        for _ in _client(base, wishes).chat.completions.create(model=MODEL, messages=_MESSAGES, **options):
            pass


def openai_error(base: str, wishes: Wishes) -> None:
    with wishes.context():
        messages = [{"role": "user", "content": FAILING}]
        _client(base, wishes).chat.completions.create(model=MODEL, messages=messages)


def openai_server(base: str, wishes: Wishes) -> None:
    """A web application's request: it embeds the question, asks for a search, and answers, below its server span."""
    from opentelemetry import trace

    tracer, client = trace.get_tracer("opentelemetry.instrumentation.fastapi"), _client(base, wishes)
    kinds = trace.SpanKind
    with wishes.context(), tracer.start_as_current_span("POST /ask", kind=kinds.SERVER):
        client.embeddings.create(model="text-embedding-3-small", input=[QUESTION])
        question = [{"role": "user", "content": QUESTION}]
        first = client.chat.completions.create(model=MODEL, messages=question, tools=_TOOLS)
        with tracer.start_as_current_span("SELECT manual", kind=kinds.CLIENT):
            result = "\n".join(PASSAGES.values())
        call = first.choices[0].message
        answer = {"role": "tool", "tool_call_id": call.tool_calls[0].id, "content": result}
        messages = [*question, call.model_dump(exclude_none=True), answer]
        client.chat.completions.create(model=MODEL, messages=messages, tools=_TOOLS)


CASES: dict[str, dict[str, Case]] = {
    "langchain": {
        "chain": langchain_chain, "stream": langchain_stream, "error": partial(langchain_chain, question=FAILING),
        "agent": langchain_agent, "steps": langchain_steps,
    },
    "llama_index": {
        "query": llama_index_query, "stream": llama_index_stream, "error": partial(llama_index_query, question=FAILING),
        "chat": llama_index_chat, "agent": llama_index_agent,
    },
    "openai": {"call": openai_call, "stream": openai_stream, "error": openai_error, "server": openai_server},
}  # fmt: skip
"""Cases by framework."""
