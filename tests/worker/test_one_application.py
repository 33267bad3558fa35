"""One application, traced by each of five libraries, is one request with the same scores behind the real worker."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from ragtrace.capture import seen_context
from tests.otlp.receivers import plain
from tests.spans.applications import PASSAGES, SESSION, USER
from tests.spans.golden_spans import golden_spans
from tests.spans.model_server import ANSWER, MODEL, QUESTION
from tests.spans.otlp_messages import message_of
from tests.worker.running import Running, running

EVALUATORS = ("faithfulness", "groundedness", "answer_relevance", "context_relevancy_recall", "toxicity", "pii_leakage")
WITH_CHUNKS = {"faithfulness", "groundedness", "context_relevancy_recall"}
LIBRARIES = {
    ("langchain", "chain"): ("openinference", "opentelemetry", "traceloop", "langfuse", "mlflow"),
    ("llama_index", "query"): ("openinference", "traceloop", "mlflow"),
}
"""By framework and case. OpenTelemetry's and Langfuse's libraries record no request of a LlamaIndex query."""
WITHOUT = {("langchain", "opentelemetry"): "chunks", ("llama_index", "traceloop"): "model"}
"""What a library's spans do not carry."""

pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: pip install 'ragtrace-otel[models]'")


@pytest.fixture(scope="module")
def run() -> Iterator[Running]:
    """One worker with real evaluators for all applications."""
    with running({"quiet_seconds": 0.2}, evaluators=EVALUATORS) as run:
        yield run


def scored_root(run: Running, framework: str, case: str, library: str) -> dict[str, Any]:
    """The attributes of the request's root as it arrives behind the worker."""
    seen_context._chunks.clear()
    records = [record for record in golden_spans(f"{framework}-{library}")[case] if record.ended]
    before = run.worker.stats()
    assert run.post(message_of(records, f"{framework}-{library}").SerializeToString())[0] == 200
    run.wait(lambda s: s.sent == before.sent + len(records))
    ids = {record.span_id for record in records}
    spans = [s for s in run.sent_spans() if int.from_bytes(s.span_id, "big") in ids]
    [root] = [s for s in spans if any(a.key == "ragtrace.evaluation.status" for a in s.attributes)]
    return plain(root.attributes)


@pytest.mark.parametrize(("framework", "case"), LIBRARIES)
def test_each_library_gives_the_same_scores(framework: str, case: str, run: Running) -> None:
    """Each evaluator gives the same score within rounding, whichever library traced the application; where its spans
    carry no chunks, the evaluators that need them give none."""
    scores: dict[str, dict[str, float]] = {}
    for library in LIBRARIES[framework, case]:
        root = scored_root(run, framework, case, library)
        assert root["ragtrace.evaluation.status"] == "scored"
        missing = WITH_CHUNKS if WITHOUT.get((framework, library)) == "chunks" else set()
        values = {name: root.get(f"gen_ai.evaluation.{name}.score") for name in EVALUATORS}
        assert {name for name, value in values.items() if value is None} == missing
        scores[library] = {name: value for name, value in values.items() if value is not None}
    first = scores[LIBRARIES[framework, case][0]]
    for library, values in scores.items():
        assert values == pytest.approx({name: first[name] for name in values}, abs=1e-6), library


@pytest.mark.parametrize(("framework", "case"), LIBRARIES)
def test_each_library_gives_the_same_trace(framework: str, case: str) -> None:
    """Question, answer, chunks, model, tokens, session, user and error are the same from each library that carries
    them."""
    traces = {}
    with running({"quiet_seconds": 0.2}) as run:
        for library in LIBRARIES[framework, case]:
            count = len(run.evaluated)
            scored_root(run, framework, case, library)
            [traces[library]] = run.evaluated[count:]
    for library, trace in traces.items():
        without, facts = WITHOUT.get((framework, library)), trace.facts
        assert (trace.query, trace.answer, trace.error) == (QUESTION, ANSWER, None)
        assert without == "chunks" or [d.content for d in trace.documents] == list(PASSAGES.values())
        expected = (None, None, None) if without == "model" else (MODEL, 40, 9)
        assert (facts.model, facts.input_tokens, facts.output_tokens) == expected, library
        assert (facts.session_id or SESSION, facts.user_id or USER) == (SESSION, USER)
