"""The assistant that the applications serve, in LangChain or LlamaIndex: it answers from the passage of a question."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator
from typing import Any

import ragtrace
from ragtrace.evaluation import evaluator
from ragtrace.records import Trace

FRAMEWORK = os.environ["FRAMEWORK"]


@evaluator(needs={"answer", "documents"}, threshold=0.5)
def names_its_passage(trace: Trace) -> bool:
    """The answer ends with the number of its passage."""
    return trace.documents[0].content.split()[1] in trace.answer


def start() -> None:
    """Start ragtrace as an application does."""
    ragtrace.init(
        app="assistant", otlp_endpoint=os.environ["RECEIVER"], prometheus_port=int(os.environ["METRICS_PORT"]),
        evaluators=[names_its_passage], capture_content=True, sample_per_second=0,
    )  # fmt: skip


def passage(question: str) -> str:
    """The text that is found for `question 17`."""
    return f"Passage {question.rsplit(maxsplit=1)[-1]} of the manual."


def words(question: str) -> Iterator[str]:
    """The words of the answer, each with the space before it."""
    for i, word in enumerate(f"As passage {question.rsplit(maxsplit=1)[-1]} says.".split()):
        yield word if i == 0 else f" {word}"


if FRAMEWORK == "langchain":
    from langchain_core.callbacks import CallbackManagerForRetrieverRun
    from langchain_core.documents import Document
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
    from langchain_core.output_parsers import StrOutputParser
    from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
    from langchain_core.prompts import ChatPromptTemplate
    from langchain_core.retrievers import BaseRetriever
    from langchain_core.runnables import RunnablePassthrough

    class Passages(BaseRetriever):
        """Finds the passage of a question."""

        def _get_relevant_documents(self, query: str, *, run_manager: CallbackManagerForRetrieverRun) -> list[Document]:
            return [Document(passage(query), id=f"p{query.rsplit(maxsplit=1)[-1]}")]

    class Model(BaseChatModel):
        """Answers with the number of the question."""

        @property
        def _llm_type(self) -> str:
            return "words"

        def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
            text = "".join(words(str(messages[-1].text)))
            return ChatResult(generations=[ChatGeneration(message=AIMessage(text))])

        def _stream(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> Iterator[ChatGenerationChunk]:
            for word in words(str(messages[-1].text)):
                yield ChatGenerationChunk(message=AIMessageChunk(word))

    _prompt = ChatPromptTemplate.from_messages([("system", "Use: {context}"), ("human", "{question}")])
    _chain: Any = {"context": Passages(), "question": RunnablePassthrough()} | _prompt | Model() | StrOutputParser()

    def _config(session: str, user: str) -> Any:
        return {"run_name": "ask", "metadata": {"session_id": session, "user_id": user}}

    def answer(question: str, session: str, user: str) -> str:
        """Answer at once."""
        return str(_chain.invoke(question, _config(session, user)))

    async def stream(question: str, session: str, user: str) -> AsyncIterator[str]:
        """Answer word by word."""
        async for word in _chain.astream(question, _config(session, user)):
            yield word

else:
    from llama_index.core.llms import CompletionResponse, CompletionResponseGen, CustomLLM, LLMMetadata
    from llama_index.core.query_engine import RetrieverQueryEngine
    from llama_index.core.retrievers import BaseRetriever as LlamaRetriever
    from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
    from llama_index_instrumentation.dispatcher import instrument_tags

    class LlamaPassages(LlamaRetriever):
        """Finds the passage of a question."""

        def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
            query = query_bundle.query_str
            return [NodeWithScore(node=TextNode(text=passage(query), id_=f"p{query.split()[-1]}"), score=0.9)]

    class LlamaModel(CustomLLM):
        """Answers with the number of the question."""

        @property
        def metadata(self) -> LLMMetadata:
            return LLMMetadata(model_name="words")

        def complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
            return CompletionResponse(text="".join(words(_question(prompt))))

        def stream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponseGen:
            text = ""
            for word in words(_question(prompt)):
                text += word
                yield CompletionResponse(text=text, delta=word)

    def _question(prompt: str) -> str:
        return prompt.split("Query: ")[1].split("\n", maxsplit=1)[0]

    _whole = RetrieverQueryEngine.from_args(LlamaPassages(), llm=LlamaModel())
    _streaming = RetrieverQueryEngine.from_args(LlamaPassages(), llm=LlamaModel(), streaming=True)

    def answer(question: str, session: str, user: str) -> str:
        """Answer at once."""
        with instrument_tags({"session_id": session, "user_id": user}):
            return str(_whole.query(question))

    async def stream(question: str, session: str, user: str) -> AsyncIterator[str]:
        """Answer word by word."""
        with instrument_tags({"session_id": session, "user_id": user}):
            response: Any = await _streaming.aquery(question)
        async for word in response.async_response_gen():
            yield word
