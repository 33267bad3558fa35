"""What stands on the spans of a LlamaIndex request."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from llama_index.core import VectorStoreIndex
from llama_index.core.base.response.schema import Response
from llama_index.core.embeddings import MockEmbedding
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.schema import NodeWithScore, TextNode
from opentelemetry.sdk.trace import ReadableSpan

from ragtrace.capture.content import ContentPolicy
from ragtrace_llama_index.conversion import documents_of, origin, sources_of
from tests.conftest import Recorded
from tests.hostile import Unbound
from tests.llama_index.cases import ANSWER, CASES, NODES, QUESTION, Fixed, Speaker, engine, scored
from tests.llama_index.conftest import traced
from tests.row_files import table

GOLDEN = table(__file__, "golden_tree")


def whole(recorded: Recorded) -> list[Any]:
    """Spans as [name, kind, attributes, children], JSON strings read."""

    def value(given: Any) -> Any:
        if isinstance(given, tuple):
            return {"sequence": list(given)}
        return json.loads(given) if isinstance(given, str) and given[:1] in "[{" and given else given

    def below(parent: int | None) -> list[Any]:
        children = [s for s in recorded.spans if (s.parent.span_id if s.parent else None) == parent]
        children.sort(key=lambda s: s.start_time or 0)
        return [
            [s.name, s.kind.name, {k: value(v) for k, v in (s.attributes or {}).items()}, below(s.context.span_id)]
            for s in children
        ]

    return below(None)


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def test_golden_tree(instrumented: Recorded) -> None:
    engine(Fixed(lambda: scored(NODES[:2]))).query(QUESTION)
    assert whole(instrumented) == [GOLDEN]


def test_a_stream_has_the_same_tree(instrumented: Recorded) -> None:
    list(engine(Fixed(lambda: scored(NODES[:2])), streaming=True).query(QUESTION).response_gen)
    (root,) = whole(instrumented)
    model = root[3][1]
    for span in (root, model):
        assert span[2].pop("gen_ai.request.stream") is True
        assert span[2].pop("gen_ai.response.time_to_first_chunk") >= 0
    assert root == GOLDEN


def test_embeddings_and_index(instrumented: Recorded) -> None:
    """Retrieval names its store and limit; embeddings tell their size, no numbers; those of indexing are no request."""
    index = VectorStoreIndex(NODES[:2], embed_model=MockEmbedding(8, model_name="embedder-1"))
    index.as_query_engine(llm=Speaker(), similarity_top_k=2).query(QUESTION)
    embeddings = ("embeddings embedder-1", [])
    query = [("retrieval VectorIndexRetriever", [embeddings]), ("text_completion speaker-1", [])]
    assert instrumented.tree() == [embeddings, ("invoke_workflow RetrieverQueryEngine", query)]
    assert len(instrumented.traces) == 1
    told = attributes(instrumented.named("retrieval")[0])
    assert (told["gen_ai.retrieval.top_k"], told["gen_ai.provider.name"]) == (2, "SimpleVectorStore")
    assert attributes(instrumented.named("embeddings")[0]) == table(__file__, "embeddings")


def test_reranker(instrumented: Recorded) -> None:
    """A reranker's span has what it was given, with the scores of then, and what it left; that is what is evaluated."""

    class Rerank(BaseNodePostprocessor):
        """Writes new scores into the nodes that it was given, as many rerankers do."""

        model: str = "cross-1"
        top_n: int = 1

        def _postprocess_nodes(self, nodes: list[NodeWithScore], query_bundle: Any = None) -> list[NodeWithScore]:
            for i, node in enumerate(nodes):
                node.score = i / 100
            return nodes[-1:]

    engine(Fixed(lambda: scored(NODES[:2])), node_postprocessors=[Rerank()]).query(QUESTION)
    (rerank,) = instrumented.named("rerank")
    told = attributes(rerank)
    assert rerank.name == "rerank Rerank"
    assert told["openinference.span.kind"] == "RERANKER"
    assert (told["reranker.query"], told["reranker.model_name"], told["reranker.top_k"]) == (QUESTION, "cross-1", 1)
    assert [told[f"reranker.input_documents.{i}.document.score"] for i in (0, 1)] == [0.9, 0.8]
    assert told["reranker.output_documents.0.document.id"] == "n1"
    (trace,) = instrumented.traces
    assert [(d.id, d.score) for d in trace.documents] == [("n1", 0.01)]


def test_nested_retrievers(instrumented: Recorded) -> None:
    """Inner retrievals are there, below the outer one; `retrieve` and `_retrieve` of one retriever are one span."""
    CASES["recursive"].run()
    CASES["fusion"].run()
    inner, model = [("retrieval Fixed", [])] * 2, ("text_completion speaker-1", [])
    outer = ("retrieval RecursiveRetriever", inner), ("retrieval Sorted", [("retrieval QueryFusionRetriever", inner)])
    assert instrumented.tree() == [("invoke_workflow RetrieverQueryEngine", [each, model]) for each in outer]


def test_override_that_calls_its_base(instrumented: Recorded) -> None:
    class Counting(Fixed):
        def retrieve(self, str_or_query_bundle: Any) -> list[NodeWithScore]:
            return super().retrieve(str_or_query_bundle)

    Counting().retrieve(QUESTION)
    assert instrumented.tree() == [("retrieval Counting", [])]


def test_agent(instrumented: Recorded) -> None:
    CASES["react_agent"].run()
    chat, tool = ("chat speaker-1", []), [("retrieval Fixed", []), ("text_completion speaker-1", [])]
    assert instrumented.tree() == [("invoke_agent ReActAgent", [chat, ("execute_tool kb", tool), chat])]
    told = attributes(instrumented.named("execute_tool")[0])
    assert told["gen_ai.tool.name"] == told["tool.name"] == "kb"
    assert (told["gen_ai.tool.call.arguments"], told["gen_ai.tool.call.result"]) == ("pump cover", ANSWER)
    (trace,) = instrumented.traces
    assert trace.facts.steps == ({"tool": "kb", "args": "pump cover", "result": ANSWER},)


def test_tool_calls_of_a_model(instrumented: Recorded) -> None:
    CASES["function_agent"].run()
    assert instrumented.tree() == [
        ("invoke_agent helper", [("chat caller-1", []), ("execute_tool today", []), ("chat caller-1", [])])
    ]
    first, second = (attributes(span) for span in instrumented.named("chat"))
    (call,) = json.loads(first["gen_ai.output.messages"])[0]["parts"]
    assert call == {"type": "tool_call", "id": "call-1", "name": "today", "arguments": {}}
    answered = json.loads(second["gen_ai.input.messages"])[-1]
    assert answered["parts"] == [{"type": "tool_call_response", "id": "call-1", "response": "Saturday"}]


def test_events(recorded: Recorded) -> None:
    with traced(recorded, capture=ContentPolicy.of("EVENT_ONLY")):
        engine().query(QUESTION)
    assert len(recorded.spans) == 3
    assert not [span for span in recorded.spans if "covered" in span.to_json()]


def test_one_bad_node_hides_no_other() -> None:
    class Broken:
        text = "broken"

        @property
        def metadata(self) -> Any:
            raise RuntimeError("no metadata")

    class Mean:
        def get_content(self) -> str:
            raise RuntimeError("not for you")

    first, second = scored()[:2]
    assert [each.id for each in documents_of([first, Broken(), Mean(), second])] == ["n0", "n1"]
    assert documents_of(object()) == []
    assert origin(["a"]) == {}


CHANGES: dict[str, Callable[[NodeWithScore], None]] = {
    "nothing": lambda item: None, "another score": lambda item: setattr(item, "score", 0.9),
    "another text": lambda item: item.node.set_content("Oil it."),
    "more metadata": lambda item: item.node.metadata.update(page=2),
}  # fmt: skip


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_node_is_read_again(change: str) -> None:
    """Otherwise the response's document is the retrieval's. A source that raises hides no other."""
    item = NodeWithScore(node=TextNode(text="Oil the pump.", id_="1", metadata={"page": 1}), score=0.5)
    (document,) = documents_of([item])
    CHANGES[change](item)
    sources = sources_of(Response("answer", source_nodes=[Unbound(), item]), {id(item): document})  # type: ignore[list-item]
    assert sources == documents_of([item])
    assert (sources[0] is document) == (sources == [document]) == (change == "nothing")
