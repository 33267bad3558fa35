"""An existing LlamaIndex application, and the lines that add ragtrace to it."""

from typing import Any

from llama_index.core import Document, MockEmbedding, VectorStoreIndex
from llama_index.core.llms import CompletionResponse, CompletionResponseGen, CustomLLM, LLMMetadata
from llama_index_instrumentation.dispatcher import instrument_tags

# --- added: spans with scores go to a file; name an endpoint instead with otlp_endpoint="http://localhost:4318" ---
import ragtrace

ragtrace.init(app="pump-help", spans_file="ragtrace-spans.jsonl")
# ------------------------------------------------------------------------------------------------------------------

MANUAL = [
    "The warranty of the pump covers parts and labour for 24 months from delivery.",
    "The filter must be replaced every six months.",
    "Keep the inlet pressure below four bar.",
]


class OfflineLLM(CustomLLM):
    """Stands for a language model, so that the example needs no network."""

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(model_name="offline")

    def complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        return CompletionResponse(text="The pump is covered for 24 months, parts and labour, from delivery.")

    def stream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponseGen:
        yield self.complete(prompt)


index = VectorStoreIndex.from_documents([Document(text=text) for text in MANUAL], embed_model=MockEmbedding(32))
engine = index.as_query_engine(llm=OfflineLLM())

if __name__ == "__main__":
    with instrument_tags({"session_id": "s-1", "user_id": "ada"}):
        print(engine.query("How long is the pump covered?"))
