"""examples/worker: an application without ragtrace sends OTLP to a real worker, and its requests leave with scores.

No test runs the Collector or the containers; tests/worker/test_examples.py reads their files.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.applications.processes import WAIT, running
from tests.examples.example_folder import copy_example, scored_spans, stored_request
from tests.otlp.receivers import http_server

WORKER = ("ragtrace", "worker", "--http", "127.0.0.1:{port}", "--buffer", "buffer.db")


def test_an_application_without_ragtrace_gets_scores(tmp_path: Path) -> None:
    """Each question of the application leaves the worker with its session and verdict, and is in the worker's store."""
    folder = copy_example("worker", tmp_path)
    with (
        http_server() as (endpoint, received),
        running(folder, endpoint, WORKER, RAGTRACE_OTLP_ENDPOINT=endpoint) as worker,
    ):
        worker.wait(lambda: bool(worker.get("/readyz")))
        variables = {**os.environ, "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{worker.port}"}
        command = [sys.executable, "application.py"]
        done = subprocess.run(
            command, cwd=folder, env=variables, capture_output=True, text=True, check=False, timeout=WAIT
        )
        assert done.returncode == 0, done.stderr
        worker.stop()
    spans = scored_spans(received, "groundedness")
    verdicts = {span["output.value"]: span["gen_ai.evaluation.groundedness.label"] for span in spans.values()}
    assert verdicts == {
        "The helmet is under the seat.": "pass",
        "The first 30 minutes cost one euro.": "pass",
        "Yes, children below twelve ride for free in Vienna.": "fail",
    }, worker.tail()
    assert {span["session.id"] for span in spans.values()} == {"s-1"}
    for trace_id, span in spans.items():
        stored = stored_request(folder / "chatlogs.db", trace_id)
        assert (stored.trace.answer, stored.trace.facts.app) == (span["output.value"], "bike-rental")
