"""The demo: real frameworks, a real corpus, scores on the spans."""

import json
import os
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from ragtrace import semconv
from ragtrace.batch.demo import corpus, traffic
from ragtrace.cli import main
from ragtrace.console.chatlogs.store import open_store


def demo(tmp_path: Path, *arguments: str) -> tuple[str, list[dict[str, Any]]]:
    """Run it in a process of its own; what it said, and the spans."""
    spans = tmp_path / "spans.jsonl"
    command = [sys.executable, "-m", "ragtrace", "demo"]
    done = subprocess.run(
        [*command, *arguments], capture_output=True, text=True, cwd=tmp_path, check=False,
        env={**os.environ, "RAGTRACE_SPANS_FILE": str(spans)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout, [json.loads(line) for line in spans.read_text(encoding="utf-8").splitlines()]


def question_of(root: dict[str, Any]) -> Any:
    return json.loads(root["attributes"][semconv.INPUT_MESSAGES])[0]["parts"][0]["content"]


def test_the_main_job(tmp_path: Path) -> None:
    """Both assistants answer over the corpus; sampled roots carry question, answer, session and scores."""
    output, spans = demo(tmp_path, "--requests", "8", "--store", "chatlogs.db")
    roots = [s for s in spans if s["parent_id"] is None]
    assert {s["name"] for s in roots} == {"invoke_workflow python-help", "invoke_workflow RetrieverQueryEngine"}
    assert len(roots) == 8
    for root in roots:
        attributes = root["attributes"]
        assert question_of(root) in traffic.QUESTIONS
        assert attributes[semconv.OUTPUT_MESSAGES]
        assert attributes[semconv.CONVERSATION_ID].startswith("session-")
        assert attributes[semconv.STATUS] == "scored"
        label, value = (attributes.get(f"gen_ai.evaluation.answer_relevance.{key}") for key in ("label", "score"))
        assert label == "refusal" or 0 <= value <= 1
    score = "gen_ai.evaluation.groundedness.score"
    grounded = [root["attributes"] for root in roots if score in root["attributes"]]
    assert len(grounded) >= 4  # an answer that the model cut off after "the following steps:" claims nothing
    assert all(0 <= attributes[score] <= 1 and semconv.EVIDENCE in attributes for attributes in grounded)
    retrievals = [s for s in spans if s["name"].startswith("retrieval")]
    assert {s["attributes"]["ragtrace.retrieval.documents.count"] for s in retrievals} == {3, 4}
    assert {s["parent_id"] for s in retrievals} == {s["span_id"] for s in roots}
    for text in (
        "requests 8 = sampled out 0 + evaluated 8 + dropped 0", "sampled out + scored + failed + dropped): yes",
        "least grounded 1:", "verdicts that agree with the labels", "ragtrace_evaluations_total{",
    ):  # fmt: skip
        assert text in output
    with closing(open_store(str(tmp_path / "chatlogs.db"))) as store:
        stored = [store.get(root["trace_id"]) for root in roots]
    for root, log in zip(roots, stored, strict=True):
        assert log.trace.query == question_of(root)
        own = {s.name: s.value for s in log.evaluation.scores}["answer_relevance"]
        assert own == root["attributes"].get("gen_ai.evaluation.answer_relevance.score")


def test_wrong_options_are_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--requests", "-1"]) == 2
    assert "--requests must be at least 0" in capsys.readouterr().err


def test_every_question_was_answered_once_for_each_assistant() -> None:
    """The recording is whole: an answer for each question and assistant, with labels; a refusal claims nothing."""
    recorded = traffic.recorded()
    assert set(recorded) == {(a, q) for a in ("langchain", "llama_index") for q in traffic.QUESTIONS}
    assert all(reply.text and reply.input_tokens > 50 for reply in recorded.values())
    labels = traffic.labels()
    assert {(question, reply.text) for (_, question), reply in recorded.items()} == set(labels)
    assert all(label.supported is None and label.relevant is None for label in labels.values() if label.refusal)
    assert len(traffic.UNANSWERABLE) >= 10


def test_the_corpus_is_found() -> None:
    index = corpus.build()
    questions = {f"What does the {topic} statement do?": topic for topic in ("assert", "nonlocal")}
    for question, topic in (questions | {"How does slicing work?": "slicings"}).items():
        assert topic in {chunk.topic for chunk, _ in index.search(question)}
    assert len({chunk.id for chunk in index.chunks}) == len(index.chunks) > 300
