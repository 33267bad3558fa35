"""What counts as a request, and what is a fragment: calls outside of a query engine."""

from __future__ import annotations

from llama_index.core.embeddings import MockEmbedding
from llama_index.core.prompts import PromptTemplate

from tests.conftest import Recorded
from tests.llama_index.cases import NODES, Fixed, Speaker

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
