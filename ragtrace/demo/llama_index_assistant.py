"""The demo's LlamaIndex assistant: a query engine over the same corpus."""

from __future__ import annotations

from typing import Any

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.llms import (
    CompletionResponse,
    CompletionResponseGen,
    CustomLLM,
    LLMMetadata,
)
from llama_index.core.llms.callbacks import llm_completion_callback
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.response_synthesizers import get_response_synthesizer
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
from llama_index_instrumentation.dispatcher import instrument_tags
from pydantic import PrivateAttr

from ragtrace.demo import prompts
from ragtrace.demo.corpus import Index
from ragtrace.demo.live import Ask
from ragtrace.demo.traffic import Call, Reply, current


class ReferenceRetriever(BaseRetriever):
    """Finds passages in the corpus, or gives those that were recorded."""

    def __init__(self, index: Index | None, k: int = 3) -> None:
        super().__init__()
        self._index = index
        self._k = k

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        call = current.get()
        if call is not None and call.contexts is not None:
            return [NodeWithScore(node=TextNode(text=text, id_=str(i))) for i, text in enumerate(call.contexts)]
        assert self._index is not None
        return [
            NodeWithScore(node=TextNode(text=chunk.text, id_=chunk.id, metadata={"topic": chunk.topic}), score=score)
            for chunk, score in self._index.search(query_bundle.query_str, self._k)
        ]


class AssistantLLM(CustomLLM):
    """Answers what was recorded for the present request, or asks a model now."""

    model: str
    _ask: Any = PrivateAttr(default=None)

    @property
    def metadata(self) -> LLMMetadata:
        """The model's name, and a context that fits the demo's prompts."""
        return LLMMetadata(model_name=self.model, context_window=16_384, num_output=128)

    def _reply(self, prompt: str) -> Reply:
        call = current.get()
        if call is not None and call.reply is not None:
            return call.reply
        reply: Reply = self._ask([{"role": "system", "content": prompts.SYSTEM}, {"role": "user", "content": prompt}])
        return reply

    @llm_completion_callback()
    def complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        """The whole answer."""
        reply = self._reply(prompt)
        return CompletionResponse(text=reply.text, additional_kwargs=_extra(reply))

    @llm_completion_callback()
    def stream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponseGen:
        """The answer word by word."""
        reply = self._reply(prompt)

        def words() -> CompletionResponseGen:
            text = ""
            for i, word in enumerate(reply.text.split(" ")):
                delta = word if i == 0 else f" {word}"
                text += delta
                yield CompletionResponse(text=text, delta=delta, additional_kwargs=_extra(reply))

        return words()


def _extra(reply: Reply) -> dict[str, Any]:
    return {
        "prompt_tokens": reply.input_tokens,
        "completion_tokens": reply.output_tokens,
        "finish_reason": reply.finish_reason,
    }


Engines = tuple[RetrieverQueryEngine, RetrieverQueryEngine]


def engines(index: Index | None, model_name: str, ask: Ask | None = None) -> Engines:
    """The query engine, and the same with a streamed answer."""
    llm = AssistantLLM(model=model_name)
    llm._ask = ask
    retriever = ReferenceRetriever(index)
    made = [
        RetrieverQueryEngine(
            retriever=retriever,
            response_synthesizer=get_response_synthesizer(llm=llm, response_mode="compact", streaming=streaming),  # type: ignore[arg-type]
        )
        for streaming in (False, True)
    ]
    return made[0], made[1]


def answer(made: Engines, call: Call, streamed: bool) -> str:
    """One request, streamed or not, as an application would make it."""
    with instrument_tags({"session_id": call.session, "user_id": call.user, "tags": ["demo"]}):
        response = made[streamed].query(call.question)
        if streamed:
            return "".join(response.response_gen)  # type: ignore[union-attr, arg-type]
        return str(response)
