"""The application of a reader: what the code blocks of the documentation use without defining it.

A page says `from assistant import chain`, or uses a name as it is."""

import time
from collections.abc import Iterator  # noqa: F401 blocks use it
from types import SimpleNamespace
from typing import Any

from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.language_models import FakeListChatModel
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnablePassthrough

import ragtrace  # noqa: F401 blocks use it
from ragtrace.records import Evaluation, Facts, Score
from ragtrace.testing import make_trace

Chunk = dict[str, Any]
MODEL = "words"
PASSAGE = "The pump is covered for 24 months from delivery."
question = "How long is the pump covered?"
answer = "The pump is covered for 24 months."
reply = SimpleNamespace(
    choices=[SimpleNamespace(message=SimpleNamespace(content=answer))],
    usage=SimpleNamespace(prompt_tokens=20, completion_tokens=8),
    model=MODEL,
)
client = SimpleNamespace(chat=SimpleNamespace(completions=SimpleNamespace(create=lambda **_: reply)))


class Manual(BaseRetriever):
    """Finds the passage about the warranty."""

    def _get_relevant_documents(self, query: str, *, run_manager: CallbackManagerForRetrieverRun) -> list[Document]:
        return [Document(PASSAGE, id="d7")]


retriever = Manual()
model = FakeListChatModel(responses=[answer])
_prompt = ChatPromptTemplate.from_messages([("system", "Use only: {context}"), ("human", "{question}")])
chain: Any = {"context": retriever, "question": RunnablePassthrough()} | _prompt | model | StrOutputParser()


def prepare_store() -> int:
    """Write a store `chatlogs.db` with scored requests and a reviewer called anna, whose id is returned."""
    from ragtrace.console import accounts
    from ragtrace.console.chatlogs.store import open_store
    from ragtrace.plugins import load

    store = open_store("chatlogs.db")
    reviewer = accounts.add(store, "anna", "reviewer", "twelve pumps in a row")
    labels = ("fail", "pass")
    evaluations = [
        Evaluation(
            make_trace(trace_id=i + 1, span_id=i + 1, started=time.time() - 60 - i, facts=Facts(app="shop")),
            (Score("faithfulness", i / 40, labels[i >= 20], version="2", method="model"),),
        )
        for i in range(40)
    ]
    store.write(evaluations, [load("faithfulness")])
    store.close()
    return reviewer.id


def notify(app: str, evaluator: str, alarm: object) -> None:
    """Tell somebody of an alarm."""


def prompt(text: str, chunks: Any) -> list[dict[str, Any]]:
    """The messages of a question."""
    return [{"role": "system", "content": str(chunks)}, {"role": "user", "content": text}]


def search(query: str) -> list[Chunk]:
    """The passage that answers."""
    return [{"content": PASSAGE, "id": "d7"}]


def show(text: str, feedback_id: str) -> None:
    """Show an answer."""


class _Query:
    def query(self, text: str) -> str:
        """Answer with LlamaIndex."""
        from llama_index.core.llms import MockLLM
        from llama_index.core.query_engine import RetrieverQueryEngine
        from llama_index.core.retrievers import BaseRetriever as LlamaRetriever
        from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode

        class Passages(LlamaRetriever):
            def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
                return [NodeWithScore(node=TextNode(text=PASSAGE, id_="d7"), score=0.9)]

        return str(RetrieverQueryEngine.from_args(Passages(), llm=MockLLM()).query(text))


query_engine = _Query()
