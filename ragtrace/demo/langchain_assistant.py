"""The demo's LangChain assistant: an LCEL chain like many in production."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from langchain_core.callbacks import CallbackManagerForLLMRun, CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import Runnable, RunnablePassthrough

from ragtrace.demo import prompts
from ragtrace.demo.corpus import Index
from ragtrace.demo.live import Ask
from ragtrace.demo.traffic import Call, Reply, current


class ReferenceRetriever(BaseRetriever):
    """Finds passages in the corpus, or gives those that were recorded."""

    index: Any
    k: int = 4

    def _get_relevant_documents(self, query: str, *, run_manager: CallbackManagerForRetrieverRun) -> list[Document]:
        call = current.get()
        if call is not None and call.contexts is not None:
            return [Document(page_content=text, id=str(i)) for i, text in enumerate(call.contexts)]
        return [
            Document(page_content=chunk.text, id=chunk.id, metadata={"topic": chunk.topic, "score": round(score, 4)})
            for chunk, score in self.index.search(query, self.k)
        ]


class AssistantModel(BaseChatModel):
    """Answers what was recorded for the present request, or asks a model now."""

    model_name: str
    ask: Any = None

    @property
    def _llm_type(self) -> str:
        return "ragtrace-demo"

    def _reply(self, messages: list[BaseMessage]) -> Reply:
        call = current.get()
        if call is not None and call.reply is not None:
            return call.reply
        roles = {"human": "user", "ai": "assistant"}
        reply: Reply = self.ask([{"role": roles.get(m.type, m.type), "content": str(m.content)} for m in messages])
        return reply

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        reply = self._reply(messages)
        message = AIMessage(content=reply.text, usage_metadata=_usage(reply), response_metadata=self._metadata(reply))
        return ChatResult(generations=[ChatGeneration(message=message)])

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        reply = self._reply(messages)
        words = reply.text.split(" ")
        for i, word in enumerate(words):
            text = word if i == 0 else f" {word}"
            piece = AIMessageChunk(content=text)
            if i == len(words) - 1:
                piece = AIMessageChunk(
                    content=text, usage_metadata=_usage(reply), response_metadata=self._metadata(reply)
                )
            chunk = ChatGenerationChunk(message=piece)
            if run_manager is not None:
                run_manager.on_llm_new_token(text, chunk=chunk)
            yield chunk

    def _metadata(self, reply: Reply) -> dict[str, Any]:
        return {"model_name": self.model_name, "finish_reason": reply.finish_reason}


def _usage(reply: Reply) -> Any:
    return {
        "input_tokens": reply.input_tokens,
        "output_tokens": reply.output_tokens,
        "total_tokens": reply.input_tokens + reply.output_tokens,
    }


def chain(index: Index | None, model_name: str, ask: Ask | None = None) -> Runnable[str, str]:
    """The chain: question in, answer out."""
    prompt = ChatPromptTemplate.from_messages([("system", prompts.SYSTEM), ("human", "{passages}")])
    retriever = ReferenceRetriever(index=index)

    def fill(inputs: dict[str, Any]) -> dict[str, str]:
        passages = [document.page_content[:900] for document in inputs["documents"]]
        return {"passages": prompts.user_message(inputs["question"], passages)}

    model = AssistantModel(model_name=model_name, ask=ask)
    made: Runnable[str, str] = (
        {"documents": retriever, "question": RunnablePassthrough()}
        | _runnable(fill)
        | prompt
        | model
        | StrOutputParser()
    )
    return made


def _runnable(function: Callable[[dict[str, Any]], dict[str, str]]) -> Runnable[dict[str, Any], dict[str, str]]:
    from langchain_core.runnables import RunnableLambda

    return RunnableLambda(function)


def answer(made: Runnable[str, str], call: Call, streamed: bool) -> str:
    """One request, streamed or not, as an application would make it."""
    metadata = {"session_id": call.session, "user_id": call.user}
    if call.reference is not None:
        metadata["reference"] = call.reference
    config: Any = {"run_name": "python-help", "metadata": metadata, "tags": ["demo"]}
    if streamed:
        return "".join(made.stream(call.question, config=config))
    return made.invoke(call.question, config=config)
