"""Records what real servers' clients export, for tests/rescore/golden:

    COMPAT_PHOENIX=…/bin/phoenix COMPAT_MLFLOW=…/bin/mlflow python -m tests.rescore.record

Each server receives the golden spans of tests/spans over OTLP, and its own client exports them; MLflow traces, too."""

import os
import subprocess
import urllib.request
from pathlib import Path

from tests.backends.servers import MLFLOW, PHOENIX, Backend, Server, running
from tests.spans.golden_spans import golden_spans
from tests.spans.otlp_messages import message_of
from tests.worker.running import wait_for

GOLDEN = Path(__file__).parent / "golden"
CASES = ("chain", "agent")
"""Of LangChain, traced by OpenInference."""
_PHOENIX = """
import json, sys
from phoenix.client import Client
client, folder = Client(base_url=sys.argv[1]), sys.argv[2]
spans = client.spans.get_spans(project_identifier="default", limit=1000)
assert len(spans) == int(sys.argv[3]), len(spans)
with open(f"{folder}/phoenix-spans.json", "w") as file:
    json.dump(spans, file, indent=1)
frame = client.spans.get_spans_dataframe(project_identifier="default")
frame.to_json(f"{folder}/phoenix-dataframe.jsonl", orient="records", lines=True)
"""
_MLFLOW = """
import sys, time
import mlflow
from mlflow.entities import Document, SpanType
mlflow.set_tracking_uri(sys.argv[1])
folder = sys.argv[2]

@mlflow.trace(span_type=SpanType.RETRIEVER)
def search(question):
    return [Document("The pump is covered for 24 months from delivery.", {"doc_uri": "d0"}, "d0")]

@mlflow.trace(span_type=SpanType.CHAT_MODEL)
def call(messages):
    return {"role": "assistant", "content": "The pump is covered for 24 months."}

@mlflow.trace(span_type=SpanType.CHAIN)
def answer(question):
    search(question)
    return call([{"role": "user", "content": question}])["content"]

answer("How long is the pump covered?")
mlflow.flush_trace_async_logging()
until = time.time() + 60
while True:
    traces = mlflow.search_traces(locations=["0"], return_type="list")
    if len(traces) == 3 and all(trace.data.spans for trace in traces) or time.time() > until:
        break
    time.sleep(0.5)
with open(f"{folder}/mlflow-traces.jsonl", "w") as file:
    file.writelines(trace.to_json() + "\\n" for trace in traces)
frame = mlflow.search_traces(locations=["0"])
frame.head(1).to_json(f"{folder}/mlflow-dataframe.jsonl", orient="records", lines=True, default_handler=str)
"""


def _export(backend: Backend, script: str) -> None:
    program = Path(os.environ[backend.variable])
    with running(backend, program) as server:
        spans = sum(_send(server, case) for case in CASES)
        command = [str(program.with_name("python")), "-c", script, server.url, str(GOLDEN), str(spans)]
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "OTEL_"))}
        wait_for(lambda: subprocess.run(command, env=inherited, check=False).returncode, lambda code: code == 0)


def _send(server: Server, case: str) -> int:
    spans = golden_spans("langchain-openinference")[case]
    headers = {"Content-Type": "application/x-protobuf", **server.headers}
    body = message_of(spans, "shop").SerializeToString()
    urllib.request.urlopen(urllib.request.Request(f"{server.url}/v1/traces", body, headers), timeout=60).close()
    return len(spans)


if __name__ == "__main__":
    GOLDEN.mkdir(exist_ok=True)
    _export(PHOENIX, _PHOENIX)
    _export(MLFLOW, _MLFLOW)
