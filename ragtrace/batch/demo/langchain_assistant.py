"""The demo's LangChain assistant: a typical LCEL chain."""

from collections.abc import Iterator
from typing import Any

from langchain_core.callbacks import CallbackManagerForLLMRun, CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.language_models import BaseChatModel
from langchain_core.language_models.base import LangSmithParams
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import Runnable, RunnableLambda, RunnablePassthrough

from ragtrace.batch.demo.corpus import Index
from ragtrace.batch.demo.language_models import SYSTEM, Model, user_message
from ragtrace.batch.demo.traffic import Call, Reply, current_reply, documents_for

PASSAGES = 4


class LangChainRetriever(BaseRetriever):
    """Retrieves passages from the corpus."""

    index: Any

    def _get_relevant_documents(self, query: str, *, run_manager: CallbackManagerForRetrieverRun) -> list[Document]:
        return [
            Document(
                id=d.id,
                page_content=d.content,
                metadata={**d.metadata, **({} if d.score is None else {"score": round(d.score, 4)})},
            )
            for d in documents_for(query, self.index, PASSAGES)
        ]


class AssistantModel(BaseChatModel):
    """Returns the recorded answer of the current request."""

    model: Any
    """A `ragtrace.batch.demo.language_models.Model`."""

    @property
    def _llm_type(self) -> str:
        return "ragtrace-demo"

    def _get_ls_params(self, stop: list[str] | None = None, **kwargs: Any) -> LangSmithParams:
        return LangSmithParams(ls_provider=self.model.provider, ls_model_name=self.model.name, ls_model_type="chat")

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        reply = current_reply()
        message = AIMessage(content=reply.text, **self._report(reply))
        return ChatResult(generations=[ChatGeneration(message=message)])

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        reply = current_reply()
        words = reply.text.split(" ")
        for i, word in enumerate(words):
            text = word if i == 0 else f" {word}"
            report = self._report(reply) if i == len(words) - 1 else {}  # the last piece reports the tokens
            chunk = ChatGenerationChunk(message=AIMessageChunk(content=text, **report))
            if run_manager is not None:
                run_manager.on_llm_new_token(text, chunk=chunk)
            yield chunk

    def _report(self, reply: Reply) -> dict[str, Any]:
        metadata = {"model_name": self.model.name, "finish_reason": reply.finish_reason}
        total = reply.input_tokens + reply.output_tokens
        usage = {"input_tokens": reply.input_tokens, "output_tokens": reply.output_tokens, "total_tokens": total}
        return {"response_metadata": metadata, "usage_metadata": usage if reply.output_tokens else None}


def chain(index: Index, model: Model) -> Runnable[str, str]:
    """The chain, from a question to an answer."""
    prompt = ChatPromptTemplate.from_messages([("system", SYSTEM), ("human", "{message}")])

    def fill(inputs: dict[str, Any]) -> dict[str, str]:
        passages = [document.page_content for document in inputs["documents"]]
        return {"message": user_message(inputs["question"], passages)}

    assistant: Runnable[str, str] = (
        {"documents": LangChainRetriever(index=index), "question": RunnablePassthrough()} | RunnableLambda(fill)
        | prompt | AssistantModel(model=model) | StrOutputParser()
    )  # fmt: skip
    return assistant


def answer(assistant: Runnable[str, str], call: Call, streamed: bool) -> str:
    """Sends one request, streamed or not, as an application does."""
    metadata = {"session_id": call.session, "user_id": call.user}
    config: Any = {"run_name": "python-help", "metadata": metadata, "tags": ["demo"]}
    if streamed:
        return "".join(assistant.stream(call.question, config=config))
    return assistant.invoke(call.question, config=config)
