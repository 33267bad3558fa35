"""examples/worker: an application without ragtrace sends OTLP to a real worker, and its requests leave with scores.

No test runs the Collector or the containers; tests/worker/test_examples.py reads their files.
"""

from pathlib import Path

from tests.examples.example_folder import run_script, scored_spans, started, stored_request

WORKER = ("ragtrace", "worker", "--http", "127.0.0.1:{port}", "--buffer", "buffer.db")


def test_an_application_without_ragtrace_gets_scores(tmp_path: Path) -> None:
    """Each question of the application leaves the worker with its session and verdict, and is in the worker's store."""
    with started("worker", tmp_path, WORKER) as (folder, received, worker):
        worker.wait(lambda: bool(worker.get("/readyz")))
        run_script(folder, "application.py", OTEL_EXPORTER_OTLP_ENDPOINT=f"http://127.0.0.1:{worker.port}")
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
