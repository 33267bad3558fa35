"""The capture matrix on LlamaIndex: one tree per request, whatever way it is called."""

import importlib.metadata

import pytest
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans

from tests.conftest import Recorded
from tests.llama_index.cases import CASES, Case
from tests.llama_index.conftest import arrived

WORKFLOWS = int(importlib.metadata.version("llama-index-workflows").split(".")[0])
UNSAID = ("workflow_cancelled", "workflow_timed_out")


# LlamaIndex's writer thread dies of the model's error.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_case(instrumented: Recorded, case: Case) -> None:
    """One trace per request. Whatever it holds, its spans can be encoded, hold no NUL and stay small."""
    if case.name in UNSAID and WORKFLOWS < 2:
        pytest.skip("llama-index-workflows 1 does not say how a workflow failed")
    case.run()
    if case.name.endswith("_closed"):  # such a stream ends its request there and then
        assert instrumented.traces
    arrived(instrumented, case.traces)
    for trace in instrumented.traces:
        assert (trace.query, trace.answer) == (case.question, case.answer)
        assert [document.id for document in trace.chunks] == list(case.documents)
        assert trace.error == case.error
        assert bool(trace.facts.cancelled) == case.cancelled
        if case.name == "score_that_is_no_number":
            assert trace.documents[0].score is None
    assert b"\0" not in "".join(str(span.attributes) for span in instrumented.spans).encode()
    assert len(encode_spans(instrumented.spans).SerializeToString()) < 100_000 * case.traces
    # Indexing embeds outside of every request.
    roots = [name for name, _ in instrumented.tree()]
    assert len(roots) == case.traces + sum(name.startswith("embeddings") for name in roots)
