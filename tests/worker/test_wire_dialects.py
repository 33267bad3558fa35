"""The spans of real libraries give the same Trace over the wire as in the process."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import pytest
from google.protobuf import json_format
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from ragtrace.capture import seen_context
from ragtrace.records import Trace
from ragtrace.worker import open_traces
from tests.spans.carried import traces_by_case
from tests.spans.golden_spans import golden_files, golden_spans
from tests.spans.otlp_messages import message_of
from tests.worker.running import ANSWER, QUESTION, Running, running


@pytest.fixture(scope="module")
def run() -> Iterator[Running]:
    with patch.object(open_traces, "LONGEST", 3.0), running({"quiet_seconds": 0.05}) as run:
        yield run


def _by_root(traces: list[Trace], service: str) -> list[Trace]:
    """The traces in the order of their ids, with the service that the wire names."""
    named = [replace(trace, facts=replace(trace.facts, app=trace.facts.app or service)) for trace in traces]
    return sorted(named, key=lambda trace: (trace.trace_id, trace.span_id))


VERCEL = json.loads((Path(__file__).parent / "golden" / "vercel-ai.json").read_text(encoding="utf-8"))
CASES = [(name, case) for name in golden_files() for case in golden_spans(name)]


@pytest.mark.parametrize(("name", "case"), CASES)
def test_the_wire_gives_the_same_traces(name: str, case: str, run: Running) -> None:
    records = [record for record in golden_spans(name)[case] if record.ended]  # a span that never ends is never sent
    service = f"{name} {case}"  # what two libraries recorded of one framework is of different services
    expected = _by_root(traces_by_case(name)[case], service)
    seen_context._chunks.clear()
    before, count = run.worker.stats(), len(run.evaluated)
    assert run.post(message_of(records, service).SerializeToString())[0] == 200
    run.wait(lambda s: s.sent == before.sent + len(records))
    assert _by_root(run.evaluated[count:], service) == expected


@pytest.mark.parametrize("case", VERCEL)
def test_spans_of_the_vercel_ai_sdk_are_requests(case: str, run: Running) -> None:
    message = json_format.ParseDict(VERCEL[case], ExportTraceServiceRequest())
    seen_context._chunks.clear()  # each case is the session's first turn
    trace = run.evaluate(message)
    facts = trace.facts
    calls = 2 if case == "tool" else 1
    failed = case == "error"
    assert (trace.query, trace.answer) == (QUESTION, "" if failed else ANSWER)
    assert (facts.session_id, facts.user_id, facts.app) == ("conversation-1", "user-ada", "shop")
    assert (facts.model, facts.provider) == ("gpt-4o-mini", "openai")
    tokens = (None, None) if failed else (40 * calls, 9 * calls)
    assert (facts.input_tokens, facts.output_tokens) == tokens
    assert trace.error == ("TypeError" if failed else None)
    assert facts.finish_reason == (None if failed else "stop")
    chunks = [(d.id, d.content, d.score) for d in trace.documents]
    assert chunks == ([("d0", "The pump is covered for 24 months from delivery.", 0.9)] if case == "tool" else [])
    assert [step["tool"] for step in trace.steps] == (["search"] if case == "tool" else [])
    assert (facts.time_to_first_chunk is not None) is (case == "stream")
