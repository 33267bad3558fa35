"""A traced application in a process of its own: it asks and answers as its users do, and sends its spans over OTLP.

`python -m tests.backends.assistant`; the environment variable RECEIVER is the URL to which the spans go, and APP is the
application's name. Its models are OpenAI's real clients, which ask a server of the tests."""

import os
from typing import Any

from langchain.agents import create_agent
from langchain.tools import tool
from langchain_core.documents import Document
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnablePassthrough
from langchain_core.vectorstores import InMemoryVectorStore
from langchain_openai import ChatOpenAI
from llama_index.core import VectorStoreIndex
from llama_index.core.memory import ChatMemoryBuffer
from llama_index.core.schema import TextNode
from llama_index.llms.openai import OpenAI
from llama_index_instrumentation.dispatcher import instrument_tags
from openai import OpenAIError

import ragtrace
from ragtrace.evaluation import evaluator
from ragtrace.records import Trace
from tests.backends.conversation import ANSWER, CALLS, DEPLOYMENT, MODEL, ORDER, QUESTIONS, TEMPLATE, USAGE, YES
from tests.tutorials.manual import PASSAGES, KnownWords, KnownWordsOfNodes
from tests.vendors.replies import Reply
from tests.vendors.server import Vendors, serving


@evaluator(needs={"answer", "documents"}, threshold=0.5)
def names_its_years(trace: Trace) -> bool:
    """The answer says how many years."""
    return "two years" in trace.answer


def _reply(text: str = "", **fields: Any) -> Reply:
    return Reply(text, usage=USAGE, model=f"{MODEL}-2024-07-18", **fields)


def _config(name: str) -> Any:
    return {"run_name": name, "tags": ["pilot"], "metadata": {"session_id": f"s-{name}", "user_id": "ada", "shop": 7}}


def ask_langchain(vendors: Vendors) -> None:
    """An agent with two tools, a streamed chain, and a chain whose model fails."""
    store = InMemoryVectorStore(KnownWords())
    store.add_documents([Document(text, id=name, metadata={"page": name}) for name, text in PASSAGES.items()])
    options: Any = {"api_key": "key", "base_url": f"{vendors.url}/v1", "max_retries": 0, "temperature": 0.25}
    model, deployment = ChatOpenAI(model=MODEL, **options), ChatOpenAI(model=DEPLOYMENT, stream_usage=True, **options)

    @tool
    def search_manual(query: str) -> str:
        """Search the manual of the machine."""
        return "\n".join(document.page_content for document, _ in store.similarity_search_with_score(query, k=2))

    @tool
    def order_status(number: int) -> str:
        """Say where an order is."""
        return ORDER

    vendors.answers(_reply(calls=CALLS), _reply(ANSWER))
    agent = create_agent(model, [search_manual, order_status], system_prompt="Use the tools.", name="helper")
    agent.invoke({"messages": [{"role": "user", "content": QUESTIONS["agent"]}]}, _config("agent"))
    prompt = ChatPromptTemplate.from_messages([("system", TEMPLATE), ("human", "{question}")])
    context = store.as_retriever(search_kwargs={"k": 2})
    chain: Any = {"context": context, "question": RunnablePassthrough()} | prompt | deployment | StrOutputParser()
    vendors.answers(_reply(ANSWER))
    assert "".join(chain.stream(QUESTIONS["chain"], _config("chain"))) == ANSWER
    vendors.answers(_reply(status=429))
    try:
        chain.invoke(QUESTIONS["failure"], _config("failure"))
    except OpenAIError as error:
        print(f"as expected: {type(error).__name__}")


def ask_llama_index(vendors: Vendors) -> None:
    """A query engine, and two turns of a chat of which the second one is streamed."""
    nodes = [TextNode(text=text, id_=name, metadata={"page": name}) for name, text in PASSAGES.items()]
    index = VectorStoreIndex(nodes, embed_model=KnownWordsOfNodes(model_name="known-words"))
    options: Any = {"model": MODEL, "api_key": "key", "api_base": f"{vendors.url}/v1", "max_retries": 0}
    model = OpenAI(**options)
    streaming = OpenAI(additional_kwargs={"stream_options": {"include_usage": True}}, **options)
    with instrument_tags({"session_id": "s-query", "user_id": "ada"}):
        vendors.answers(_reply(ANSWER))
        index.as_query_engine(llm=model, similarity_top_k=2).query(QUESTIONS["query"])
    with instrument_tags({"session_id": "s-chat", "user_id": "ada"}):
        memory = ChatMemoryBuffer.from_defaults(llm=model)
        whole, streamed = (
            index.as_chat_engine(chat_mode="context", llm=llm, memory=memory, similarity_top_k=2)
            for llm in (model, streaming)
        )
        whole.chat(QUESTIONS["chat"])
        vendors.answers(_reply(YES))
        assert "".join(streamed.stream_chat(QUESTIONS["stream"]).response_gen) == YES


def main() -> None:
    ragtrace.init(
        app=os.environ["APP"], otlp_endpoint=os.environ["RECEIVER"], evaluators=[names_its_years],
        capture_content=True, openinference=True, sample_per_second=0,
    )  # fmt: skip
    with serving() as vendors:
        ask_langchain(vendors)
        ask_llama_index(vendors)
    if not ragtrace.flush(timeout=240):  # a server's first request may take minutes on a busy machine
        raise SystemExit("some spans did not arrive")


if __name__ == "__main__":
    main()
