"""The span tree of a fixed LangChain chain, compared whole: every span, every attribute."""

from __future__ import annotations

from typing import Any

from ragtrace_langchain import RagtraceCallbackHandler
from tests.conftest import Recorded
from tests.langchain.test_handler import DOCUMENTS, Fixed, make_chain

COMMON = {
    "tag.tags": ("beta",),
    "session.id": "conv-1",
    "gen_ai.conversation.id": "conv-1",
    "user.id": "ada",
}
DOCUMENTS_JSON = (
    '[{"id": "d0", "score": 0.9, "content": "Passage 0 on pumps.", '
    '"metadata": {"source": "m0", "score": 0.9}}, '
    '{"id": "d1", "score": 0.8, "content": "Passage 1 on pumps.", '
    '"metadata": {"source": "m1", "score": 0.8}}]'
)
SENT = (
    '[{"role": "system", "parts": [{"type": "text", "content": "Answer."}]}, '
    '{"role": "user", "parts": [{"type": "text", "content": '
    '"Passage 0 on pumps.\\nPassage 1 on pumps. How long?"}]}]'
)
RECEIVED = '[{"role": "assistant", "parts": [{"type": "text", "content": "24 months."}], "finish_reason": "stop"}]'
METADATA = {"metadata": '{"session_id": "conv-1", "user_id": "ada", "plan": "paid"}'}
PROMPT = "Passage 0 on pumps.\nPassage 1 on pumps. How long?"
WITH_CONTENT = [
    (
        "invoke_workflow rag",
        "INTERNAL",
        {
            "gen_ai.operation.name": "invoke_workflow",
            "gen_ai.workflow.name": "rag",
            "openinference.span.kind": "CHAIN",
            "gen_ai.input.messages": '[{"role": "user", "parts": [{"type": "text", "content": "How long?"}]}]',
            "gen_ai.output.messages": RECEIVED,
            "input.value": "How long?",
            "input.mime_type": "text/plain",
            "output.value": "24 months.",
            "output.mime_type": "text/plain",
            "ragtrace.evaluation.sampled": True,
            "ragtrace.sampling.probability": 1.0,
            **COMMON,
            **METADATA,
        },
    ),
    (
        "retrieval Fixed",
        "CLIENT",
        {
            "gen_ai.operation.name": "retrieval",
            "gen_ai.data_source.id": "Fixed",
            "gen_ai.retrieval.query.text": "How long?",
            "gen_ai.retrieval.documents": DOCUMENTS_JSON,
            "ragtrace.retrieval.documents.count": 2,
            "openinference.span.kind": "RETRIEVER",
            "input.value": "How long?",
            "input.mime_type": "text/plain",
            "output.value": DOCUMENTS_JSON.replace('"content"', '"page_content"'),
            "output.mime_type": "application/json",
            "retrieval.documents.0.document.id": "d0",
            "retrieval.documents.0.document.score": 0.9,
            "retrieval.documents.0.document.content": "Passage 0 on pumps.",
            "retrieval.documents.0.document.metadata": '{"source": "m0", "score": 0.9}',
            "retrieval.documents.1.document.id": "d1",
            "retrieval.documents.1.document.score": 0.8,
            "retrieval.documents.1.document.content": "Passage 1 on pumps.",
            "retrieval.documents.1.document.metadata": '{"source": "m1", "score": 0.8}',
            **COMMON,
            **METADATA,
        },
    ),
    (
        "chat FakeListChatModel",
        "CLIENT",
        {
            "gen_ai.operation.name": "chat",
            "gen_ai.workflow.name": "rag",
            "gen_ai.provider.name": "fakelistchatmodel",
            "llm.provider": "fakelistchatmodel",
            "openinference.span.kind": "LLM",
            "gen_ai.input.messages": SENT,
            "gen_ai.output.messages": RECEIVED,
            "llm.prompt_template.template": "Answer.\n{context} {question}",
            "llm.prompt_template.variables": (
                '{"context": "Passage 0 on pumps.\\nPassage 1 on pumps.", "question": "How long?"}'
            ),
            "llm.input_messages.0.message.role": "system",
            "llm.input_messages.0.message.content": "Answer.",
            "llm.input_messages.1.message.role": "user",
            "llm.input_messages.1.message.content": PROMPT,
            "llm.output_messages.0.message.role": "assistant",
            "llm.output_messages.0.message.content": "24 months.",
            "input.value": SENT,
            "input.mime_type": "application/json",
            "output.value": "24 months.",
            "output.mime_type": "text/plain",
            **COMMON,
            **METADATA,
        },
    ),
]
WITHOUT_CONTENT = [
    (
        "invoke_workflow rag",
        "INTERNAL",
        {
            "gen_ai.operation.name": "invoke_workflow",
            "gen_ai.workflow.name": "rag",
            "openinference.span.kind": "CHAIN",
            "ragtrace.input.length": 9,
            "ragtrace.output.length": 10,
            "ragtrace.evaluation.sampled": True,
            "ragtrace.sampling.probability": 1.0,
            **COMMON,
        },
    ),
    (
        "retrieval Fixed",
        "CLIENT",
        {
            "gen_ai.operation.name": "retrieval",
            "gen_ai.data_source.id": "Fixed",
            "gen_ai.retrieval.documents": '[{"id": "d0", "score": 0.9}, {"id": "d1", "score": 0.8}]',
            "ragtrace.retrieval.documents.count": 2,
            "ragtrace.input.length": 9,
            "openinference.span.kind": "RETRIEVER",
            "retrieval.documents.0.document.id": "d0",
            "retrieval.documents.0.document.score": 0.9,
            "retrieval.documents.1.document.id": "d1",
            "retrieval.documents.1.document.score": 0.8,
            **COMMON,
        },
    ),
    (
        "chat FakeListChatModel",
        "CLIENT",
        {
            "gen_ai.operation.name": "chat",
            "gen_ai.workflow.name": "rag",
            "gen_ai.provider.name": "fakelistchatmodel",
            "llm.provider": "fakelistchatmodel",
            "openinference.span.kind": "LLM",
            "ragtrace.input.length": len("Answer.") + len(PROMPT),
            "ragtrace.output.length": 10,
            **COMMON,
        },
    ),
]


def spans_of(recorded: Recorded, capture: bool) -> list[tuple[str, str, dict[str, Any]]]:
    handler = RagtraceCallbackHandler(recorded.provider, capture, consumer=recorded.consumer)
    config: Any = {
        "callbacks": [handler],
        "metadata": {"session_id": "conv-1", "user_id": "ada", "plan": "paid"},
        "tags": ["beta"],
    }
    make_chain(Fixed(documents=DOCUMENTS[:2])).invoke("How long?", config)
    spans = sorted(recorded.spans, key=lambda s: s.start_time or 0)
    return [(s.name, s.kind.name, dict(s.attributes or {})) for s in spans]


def test_with_content(recorded: Recorded) -> None:
    """With content captured each span says all that is known, in both dialects, and nothing else."""
    assert spans_of(recorded, True) == WITH_CONTENT


def test_without_content(recorded: Recorded) -> None:
    """Without content the same tree has ids, scores, counts and lengths alone."""
    assert spans_of(recorded, False) == WITHOUT_CONTENT
