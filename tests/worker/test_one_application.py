"""One application, traced by each of five libraries, is one request with the same scores behind the real worker."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ragtrace.capture import seen_context
from tests.otlp.receivers import plain
from tests.spans.golden_spans import golden_spans
from tests.spans.otlp_messages import message_of
from tests.worker.running import Running, running

EVALUATORS = ("faithfulness", "groundedness", "answer_relevance", "context_relevancy_recall", "toxicity", "pii_leakage")
WITH_CHUNKS = {"faithfulness", "groundedness", "context_relevancy_recall"}
LIBRARIES = {
    ("langchain", "chain"): ("openinference", "opentelemetry", "traceloop", "langfuse", "mlflow"),
    ("llama_index", "query"): ("openinference", "traceloop", "mlflow"),
}
"""By framework and case. OpenTelemetry's and Langfuse's libraries record no request of a LlamaIndex query."""

pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: pip install 'ragtrace-otel[models]'")


@pytest.fixture(scope="module")
def run() -> Iterator[Running]:
    """One worker with real evaluators for all applications."""
    with running({"quiet_seconds": 0.2}, evaluators=EVALUATORS) as run:
        yield run


@pytest.mark.parametrize(("framework", "case"), LIBRARIES)
def test_each_library_gives_the_same_scores(framework: str, case: str, run: Running) -> None:
    """Scores are the same whichever library traced; without chunks the evaluators that need them give none."""
    scores: dict[str, dict[str, float]] = {}
    for library in LIBRARIES[framework, case]:
        seen_context._chunks.clear()
        records = [record for record in golden_spans(f"{framework}-{library}")[case] if record.ended]
        before = run.worker.stats()
        assert run.post(message_of(records, f"{framework}-{library}").SerializeToString())[0] == 200
        run.wait(lambda s, before=before, records=records: s.sent == before.sent + len(records))  # type: ignore[misc]
        ids = {record.span_id for record in records}
        spans = [s for s in run.sent_spans() if int.from_bytes(s.span_id, "big") in ids]
        [root] = [r for r in (plain(s.attributes) for s in spans) if "ragtrace.evaluation.status" in r]
        assert root["ragtrace.evaluation.status"] == "scored"
        missing = WITH_CHUNKS if (framework, library) == ("langchain", "opentelemetry") else set()
        values = {name: root.get(f"gen_ai.evaluation.{name}.score") for name in EVALUATORS}
        assert {name for name, value in values.items() if value is None} == missing
        scores[library] = {name: value for name, value in values.items() if value is not None}
    first = scores[LIBRARIES[framework, case][0]]
    for library, values in scores.items():
        assert values == pytest.approx({name: first[name] for name in values}, abs=1e-6), library
