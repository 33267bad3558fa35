"""OpenTelemetry's SDK for JavaScript as a sender: gRPC, JSON and protobuf over HTTP."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.otlp.receivers import plain
from tests.worker.running import ANSWER, QUESTION, is_balanced, running

SENDERS = Path(__file__).parent / "senders"

pytestmark = [
    pytest.mark.skipif(
        shutil.which("node") is None or not (SENDERS / "node_modules").is_dir(),
        reason="node or OpenTelemetry's SDK for JavaScript is not installed: npm install in tests/worker/senders",
    )
]


@pytest.mark.parametrize("protocol", ["grpc", "http/json", "http/protobuf"])
def test_a_request_of_the_javascript_sdk_is_scored_and_sent_on(protocol: str) -> None:
    with running() as run:
        port = run.worker.grpc_port if protocol == "grpc" else run.worker.http_port
        environment = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
        environment["OTEL_EXPORTER_OTLP_ENDPOINT"] = f"http://127.0.0.1:{port}"
        command = ["node", str(SENDERS / "otel_sdk.mjs"), protocol]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=100)
        assert done.returncode == 0, done.stderr
        stats = run.wait(lambda s: s.sent == 3)
        spans = run.received.spans()
        assert sorted(spans) == ["chain", "chat", "search"]
        assert plain(spans["chain"].attributes)["gen_ai.evaluation.kept.score"] == 1.0
        assert [s.parent_span_id for s in (spans["chat"], spans["search"])] == [spans["chain"].span_id] * 2
        assert [event.name for event in spans["chat"].events] == ["cut"]
        [trace] = run.evaluated
        facts = trace.facts
        assert f"{trace.trace_id:032x}" == spans["chain"].trace_id.hex()
        assert (trace.query, trace.answer) == (f"{QUESTION} (24 \N{CALENDAR})", ANSWER)
        assert [(d.id, d.score) for d in trace.documents] == [("d0", 0.9)]
        assert (facts.model, facts.provider, facts.finish_reason) == ("gpt-4o-mini", "openai", "stop")
        assert (facts.input_tokens, facts.output_tokens) == (40, 9)
        assert (facts.session_id, facts.user_id, facts.app) == ("conversation-1", "user-ada", "shop")
        assert is_balanced(stats)
