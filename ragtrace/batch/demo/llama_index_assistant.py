"""The demo's LlamaIndex assistant: a typical query engine."""

from collections.abc import Sequence
from typing import Any

from llama_index.core import get_response_synthesizer
from llama_index.core.base.llms.types import (
    ChatMessage,
    ChatResponse,
    ChatResponseGen,
    CompletionResponse,
    CompletionResponseGen,
    LLMMetadata,
    MessageRole,
)
from llama_index.core.base.response.schema import StreamingResponse
from llama_index.core.llms import CustomLLM
from llama_index.core.llms.callbacks import llm_chat_callback
from llama_index.core.prompts import ChatPromptTemplate
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
from llama_index_instrumentation.dispatcher import instrument_tags

from ragtrace.batch.demo.corpus import Index
from ragtrace.batch.demo.language_models import SYSTEM, Model, user_message
from ragtrace.batch.demo.traffic import Call, Reply, current_reply, documents_for
from ragtrace.records import Document

PASSAGES = 3


class LlamaIndexRetriever(BaseRetriever):
    """Retrieves passages from the corpus."""

    def __init__(self, index: Index) -> None:
        super().__init__()
        self._index = index

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return [_node(document) for document in documents_for(query_bundle.query_str, self._index, PASSAGES)]


def _node(document: Document) -> NodeWithScore:
    # The model gets the text without metadata, as in the other assistant.
    metadata = dict(document.metadata)
    keys = list(metadata)
    node = TextNode(id_=document.id, text=document.content, metadata=metadata, excluded_llm_metadata_keys=keys)
    return NodeWithScore(node=node, score=document.score)


class AssistantLLM(CustomLLM):
    """Returns the recorded answer of the current request."""

    model: str

    @property
    def metadata(self) -> LLMMetadata:
        """The model's name, and a context window that is large enough for the demo's messages."""
        return LLMMetadata(model_name=self.model, context_window=16_384, num_output=128, is_chat_model=True)

    @llm_chat_callback()
    def chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponse:
        """The whole answer."""
        return _response(current_reply(), None)

    @llm_chat_callback()
    def stream_chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponseGen:
        """The answer word by word."""
        reply = current_reply()

        def words() -> ChatResponseGen:
            for i, word in enumerate(reply.text.split(" ")):
                yield _response(reply, word if i == 0 else f" {word}", i + 1)

        return words()

    def complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        """LlamaIndex asks a chat model for chats alone."""
        raise NotImplementedError

    def stream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponseGen:
        """As `complete`."""
        raise NotImplementedError


def _response(reply: Reply, delta: str | None, words: int | None = None) -> ChatResponse:
    text = " ".join(reply.text.split(" ")[:words])
    message = ChatMessage(role=MessageRole.ASSISTANT, content=text)
    return ChatResponse(message=message, delta=delta, additional_kwargs=_extra(reply))


def _extra(reply: Reply) -> dict[str, Any]:
    tokens = {"prompt_tokens": reply.input_tokens, "completion_tokens": reply.output_tokens}
    return (tokens if reply.output_tokens else {}) | {"finish_reason": reply.finish_reason}


Engines = tuple[RetrieverQueryEngine, RetrieverQueryEngine]


def engines(index: Index, model: Model) -> Engines:
    """The query engine without and with streaming."""
    llm = AssistantLLM(model=model.name)
    template = ChatPromptTemplate.from_messages(
        [("system", SYSTEM), ("user", user_message("{query_str}", ["{context_str}"]))]
    )
    retriever = LlamaIndexRetriever(index)

    def engine(streaming: bool) -> RetrieverQueryEngine:
        synthesizer = get_response_synthesizer(llm=llm, text_qa_template=template, streaming=streaming)
        return RetrieverQueryEngine(retriever=retriever, response_synthesizer=synthesizer)

    return engine(False), engine(True)


def answer(pair: Engines, call: Call, streamed: bool) -> str:
    """Sends one request, streamed or not, as an application does."""
    tags: dict[str, Any] = {"session_id": call.session, "user_id": call.user, "tags": ["demo"]}
    with instrument_tags(tags):
        response = pair[streamed].query(call.question)
        return "".join(response.response_gen) if isinstance(response, StreamingResponse) else str(response)
