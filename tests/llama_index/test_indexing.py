"""What counts as a request: not the building of an index, nor the steps around a model call; and the ids of chunks."""

import uuid
from typing import Any

import pytest
from llama_index.core import Document, VectorStoreIndex
from llama_index.core.embeddings import MockEmbedding
from llama_index.core.extractors import SummaryExtractor
from llama_index.core.ingestion import IngestionPipeline
from llama_index.core.node_parser import SentenceSplitter
from llama_index.core.prompts import PromptTemplate
from llama_index.core.schema import NodeWithScore, TextNode

from llama_index import core
from ragtrace_llama_index import conversion
from tests.conftest import Recorded
from tests.llama_index.cases import NODES, QUESTION, Fixed, Speaker

TEXT = "The pump is covered for 24 months. " * 20


def test_splitting_is_no_request(instrumented: Recorded) -> None:
    IngestionPipeline(transformations=[SentenceSplitter()]).run(documents=[Document(text=TEXT)])
    SentenceSplitter().get_nodes_from_documents([Document(text=TEXT)])
    assert instrumented.tree() == [("ingestion IngestionPipeline", [])]
    assert not instrumented.traces


def test_ingestion_with_a_model_is_no_request(instrumented: Recorded) -> None:
    steps: list[Any] = [SentenceSplitter(), SummaryExtractor(llm=Speaker(), show_progress=False), MockEmbedding(8)]
    IngestionPipeline(transformations=steps).run(documents=[Document(text=TEXT)])
    below = [("text_completion speaker-1", []), ("embeddings MockEmbedding", [])]
    assert instrumented.tree() == [("ingestion IngestionPipeline", below)]
    assert not instrumented.traces


MODELS: dict[str, Any] = {"llm": Speaker(), "embed_model": MockEmbedding(8)}
INDEXES: dict[str, Any] = {
    "summary": lambda documents: core.DocumentSummaryIndex.from_documents(
        documents, response_synthesizer=core.get_response_synthesizer(llm=Speaker()), **MODELS
    ),
    "tree": lambda documents: core.TreeIndex.from_documents(documents, llm=Speaker(), num_children=2),
    "graph": lambda documents: core.PropertyGraphIndex.from_documents(documents, **MODELS),
}


@pytest.mark.parametrize("kind", INDEXES)
def test_index_that_asks_a_model_is_no_request(instrumented: Recorded, kind: str) -> None:
    INDEXES[kind]([Document(text=f"{i} {TEXT}") for i in range(3)])
    assert instrumented.named("text_completion")
    assert not instrumented.traces
    Speaker().complete(QUESTION)
    assert len(instrumented.traces) == 1


def test_the_documents_own_id(instrumented: Recorded) -> None:
    """A chunk has its document's id, with its place if it is a part; ids that LlamaIndex made up stay as they are."""
    parts = " ".join(f"Part {i} is covered for {i} months." for i in range(40))
    documents = [Document(text=TEXT[:33], doc_id="manual-1"), Document(text=parts, doc_id="manual-2")]
    splitters: list[Any] = [SentenceSplitter(chunk_size=100, chunk_overlap=0)]
    index = VectorStoreIndex.from_documents(documents, embed_model=MockEmbedding(8), transformations=splitters)
    index.as_query_engine(llm=Speaker(), similarity_top_k=9).query(QUESTION)
    found = {document.id for document in instrumented.traces[0].documents}
    assert {"manual-1", "manual-2#0"} <= found
    assert len(found) > 2
    assert all(identity.startswith("manual-") for identity in found)
    random = str(uuid.uuid4())
    nodes = [TextNode(text="a", id_="own"), TextNode(text="b", id_=random)]
    assert [d.id for d in conversion.documents_of([NodeWithScore(node=n) for n in nodes])] == ["own", random]


PROMPT = PromptTemplate("{context}\n{question}")


def ask_step_by_step(question: str) -> str:
    MockEmbedding(embed_dim=8).get_query_embedding(question)
    context = "\n".join(found.node.get_content() for found in Fixed().retrieve(question))
    return str(Speaker().complete(PROMPT.format(context=context, question=question)))


def test_five_questions_step_by_step_are_five_requests(instrumented: Recorded) -> None:
    answers = [ask_step_by_step(f"How long is pump {i} covered?") for i in range(5)]
    assert [trace.query for trace in instrumented.traces] == [f"How long is pump {i} covered?" for i in range(5)]
    assert [trace.answer for trace in instrumented.traces] == answers
    assert all([d.id for d in t.documents] == [node.node_id for node in NODES] for t in instrumented.traces)
    assert [name.split()[0] for name, _ in instrumented.tree()[:3]] == ["embeddings", "retrieval", "text_completion"]
