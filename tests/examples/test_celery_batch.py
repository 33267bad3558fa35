"""examples/celery_batch: a real worker answers a batch, and each answer arrives with scores."""

import re
from pathlib import Path

import pytest

from tests.examples.example_folder import run_script, scored_spans, started, stored_request

WORKER = ("celery", "-A", "tasks", "worker", "--concurrency", "2")


@pytest.mark.parametrize("broker", ["folder", "redis"])
def test_a_batch_is_answered_and_scored(broker: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    address = request.getfixturevalue("redis_server").url if broker == "redis" else ""
    with started("celery_batch", tmp_path, WORKER, BROKER=address) as (folder, received, worker):
        output = run_script(folder, "ask.py", BROKER=address)
        worker.stop()
    answers = re.findall(r"^(\S.*)\n    (.+)  \(trace (\w{32})\)$", output, re.MULTILINE)
    assert [question for question, _, _ in answers] == (folder / "questions.txt").read_text().splitlines()
    spans = scored_spans(received, "groundedness")
    assert spans.keys() == {trace_id for _, _, trace_id in answers}, worker.tail()
    for _, answer, trace_id in answers:
        verdict = "fail" if "Oslo" in answer else "pass"
        assert spans[trace_id]["gen_ai.evaluation.groundedness.label"] == verdict
        assert spans[trace_id]["gen_ai.conversation.id"] == "questions.txt"
    stored = stored_request(folder / "chatlogs.db", answers[0][2])
    assert next(document.id for document in stored.trace.documents).startswith("paragraph-")
