"""The query engine: LlamaIndex searches the library's rules, and answers from what it finds.

It knows nothing of ragtrace. Put your own model in `load_model`, and your own index in `query_engine`.
"""

import os
import re
from pathlib import Path
from typing import Any

from llama_index.core import PromptTemplate
from llama_index.core.llms import LLM, CompletionResponse, CompletionResponseGen, CustomLLM, LLMMetadata
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode

RULES = Path(__file__).parents[1] / "rules"
PROMPT = PromptTemplate("Answer from these rules only.\n\n{context_str}\n\nQuestion: {query_str}")
COMMON = "a an and are at can do does for how i is it long many may much my of on the to what which"


def content_words(text: str) -> set[str]:
    """The words of a text that say what it is about, without the ending of a plural."""
    return {word.removesuffix("s") for word in re.findall(r"[a-z0-9]+", text.lower()) if word not in COMMON.split()}


class KeywordRetriever(BaseRetriever):
    """Returns the two paragraphs of the rules that share most words with the question."""

    def __init__(self) -> None:
        """Read one node for each paragraph of `rules/*.md`."""
        super().__init__()
        self._nodes = [
            TextNode(
                text=paragraph,
                id_=f"{file.stem}-{number}",
                metadata={"source": file.name},
                excluded_llm_metadata_keys=["source"],  # the model sees the text alone
            )
            for file in sorted(RULES.glob("*.md"))
            for number, paragraph in enumerate(file.read_text(encoding="utf-8").strip().split("\n\n")[1:], start=1)
        ]

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        words = content_words(query_bundle.query_str)
        shares = [len(words & content_words(node.text)) / max(len(words), 1) for node in self._nodes]
        best = sorted(zip(shares, self._nodes, strict=True), key=lambda pair: -pair[0])[:2]
        return [NodeWithScore(node=node, score=share) for share, node in best]


class OfflineModel(CustomLLM):
    """Stands for a language model: no key, no network, and the same answer each time.

    It repeats the sentence of its prompt that is closest to the question. Where no sentence is close, it invents an
    answer, as language models do.
    """

    @property
    def metadata(self) -> LLMMetadata:
        """The name on the spans."""
        return LLMMetadata(model_name="offline")

    def complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        """Answer at once."""
        return CompletionResponse(text="".join(self._words(prompt)))

    def stream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponseGen:
        """Answer word by word."""
        text = ""
        for word in self._words(prompt):
            text += word
            yield CompletionResponse(text=text, delta=word)

    def _words(self, prompt: str) -> list[str]:
        rules, _, query = prompt.partition("\n\n")[2].rpartition("\n\nQuestion: ")
        question = content_words(query)
        best = max(re.split(r"(?<=\.)\s+", rules), key=lambda sentence: len(question & content_words(sentence)))
        is_close = len(question & content_words(best)) >= len(question) / 2
        answer = best if is_close else "Ask Mister Novak on the third floor, who opens the archive on Sundays."
        return re.findall(r"\S+\s*", answer)


def load_model() -> LLM:
    """OpenAI's model that `ASSISTANT_MODEL` names, e.g. `gpt-4o-mini`; without it the offline one."""
    if name := os.environ.get("ASSISTANT_MODEL"):
        from llama_index.llms.openai import OpenAI

        return OpenAI(model=name)
    return OfflineModel()


def query_engine() -> RetrieverQueryEngine:
    """The engine that streams its answers. With an index of yours: `index.as_query_engine(streaming=True)`."""
    return RetrieverQueryEngine.from_args(KeywordRetriever(), llm=load_model(), text_qa_template=PROMPT, streaming=True)
