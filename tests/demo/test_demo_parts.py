"""The demo's parts: what its models are asked, its index, and how it ends."""

import asyncio
import hashlib
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest

from ragtrace.batch import demo
from ragtrace.batch.demo import board as boards
from ragtrace.batch.demo import corpus, traffic
from ragtrace.batch.demo.langchain_assistant import AssistantModel
from ragtrace.batch.demo.llama_index_assistant import AssistantLLM
from ragtrace.batch.demo.traffic import Call, Reply
from ragtrace.batch.reporting.formats import NONE
from ragtrace.errors import ModelError
from ragtrace.evaluate.models.embedding import get_embedder
from ragtrace.records import Evaluation, Score
from ragtrace.testing import make_trace

_ANSWERS = Path(traffic.__file__).with_name("answers.jsonl")


@pytest.fixture(scope="module", autouse=True)
def _event_loop() -> Iterator[None]:
    """The loop that LlamaIndex's synchronous calls find, and would else make and leave open."""
    with asyncio.Runner() as runner:
        yield asyncio.set_event_loop(runner.get_loop())


def test_recorded_answers_belong_to_the_prompts_of_today() -> None:
    """Both frameworks ask their model with the passages and the question that the recorded answer was given for."""
    answer = demo.answerer(("langchain", "llama_index"), corpus.build())
    rows = [json.loads(line) for line in _ANSWERS.read_text(encoding="utf-8").splitlines()][::6]
    with (
        patch.object(AssistantModel, "_generate", autospec=True, side_effect=AssistantModel._generate) as chain,
        patch.object(AssistantLLM, "chat", autospec=True, side_effect=AssistantLLM.chat) as engine,
    ):
        for row in rows:
            assert answer(Call(row["assistant"], row["question"], Reply("Yes.")), False) == "Yes."
    messages = [call.args[1] for call in (*chain.call_args_list, *engine.call_args_list)]
    prompts = [user.content for _system, user in messages]
    assert all(f"Question: {row['question']}" in prompt for row, prompt in zip(rows, prompts, strict=True))
    recorded = corpus._load(corpus._RECORDED)
    texts = [f"{c.topic}. {c.text}" for c in corpus.chunks()]
    if all(corpus._key(get_embedder().name, text) in recorded for text in texts):  # the reference of that release
        assert [hashlib.sha256(p.encode()).hexdigest()[:16] for p in prompts] == [r["prompt_sha256"] for r in rows]


@pytest.mark.parametrize("assistant", ["langchain", "llama_index"])
@pytest.mark.parametrize("streamed", [False, True])
def test_an_assistant_returns_what_its_model_says(assistant: str, streamed: bool) -> None:
    """Streamed or whole, the answer is the recorded one, spaces and all."""
    reply = Reply("It  returns None, always.", "stop", 10, 5)
    answer = demo.answerer((assistant,), corpus.build())
    assert answer(Call(assistant, "What does pass do?", reply), streamed) == reply.text


def test_shipped_vectors_are_the_models() -> None:
    """The vectors that come with the demo are what the embedded model gives for the texts, to half precision."""
    index = corpus.build()
    indices = range(0, len(index.chunks), 60)
    fresh = get_embedder().embed([f"{index.chunks[i].topic}. {index.chunks[i].text}" for i in indices])
    cosines = (fresh * index._vectors[list(indices)]).sum(1)
    assert np.all(cosines > 0.999)


def test_an_unknown_corpus_is_embedded_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Texts without shipped vectors are embedded and kept; a kept file that was cut off is made anew."""
    few = corpus.chunks()[:3]
    monkeypatch.setattr(corpus, "_RECORDED", tmp_path / "none.npz")
    monkeypatch.setattr(corpus, "chunks", lambda: few)
    monkeypatch.setattr(corpus, "_cache_folder", lambda: tmp_path / "cache")

    class Counting:
        name = "counting"
        calls = 0

        def embed(self, texts: Sequence[str]) -> np.ndarray:
            self.calls += 1
            return np.eye(4, dtype=np.float32)[: len(texts)]

    embedder = Counting()
    for _ in range(2):
        index = corpus.build(embedder)
        assert np.array_equal(index._vectors, np.eye(4)[:3])
    assert embedder.calls == 1
    (cache_file,) = (tmp_path / "cache").iterdir()
    cache_file.write_bytes(cache_file.read_bytes()[:50])
    corpus.build(embedder)
    assert embedder.calls == 2


def test_a_model_out_of_reach_ends_the_run() -> None:
    """Three failures from the start on are an error that quotes the model's; one among answers is only counted."""

    def refuse(_call: Call, _streamed: bool) -> str:
        raise ConnectionError("no server")

    call = Call("langchain", "Why?", Reply(""))
    board = boards.DemoBoard()
    for _ in range(2):
        demo._ask(board, call, False, refuse)
    with pytest.raises(ModelError, match="no server"):
        demo._ask(board, call, False, refuse)

    board = boards.DemoBoard()
    demo._ask(board, call, False, lambda _call, _streamed: "Because.")
    for _ in range(4):
        demo._ask(board, call, False, refuse)
    assert (board.requests, board.failures) == (5, 4)


def test_a_refusal_neither_passes_nor_fails() -> None:
    """The pass rate of the table is the weighted share of passes among passes and fails; a refusal is neither."""
    board = boards.DemoBoard()
    for label, p in (("pass", 0.5), ("fail", 1.0), ("refusal", 0.1)):
        board(Evaluation(make_trace(), (Score("groundedness", label=label, sampling_probability=p),)))
    (line,) = [line for line in board.figures.lines() if line.startswith("groundedness")]
    assert line.split()[:5] == ["groundedness", "3", NONE, "66.7", "%"]


def test_a_taken_port_and_an_interrupt(tmp_path: Path) -> None:
    """A taken metrics port is replaced; Ctrl-C for all processes ends a served demo with its summary, nothing else."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        process = subprocess.Popen(
            [sys.executable, "-m", "ragtrace", "demo", "--serve", "--requests", "2"], cwd=tmp_path, text=True,
            env={**os.environ, "RAGTRACE_PROMETHEUS_PORT": str(port)}, start_new_session=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        output = []
        for line in process.stdout:
            output.append(line)
            if "continuing" in line:
                break
        os.killpg(process.pid, signal.SIGINT)
        try:
            rest, errors = process.communicate(timeout=25)
        except subprocess.TimeoutExpired:  # Python loses an interrupt that lands in a destructor: people press again
            os.killpg(process.pid, signal.SIGINT)
            rest, errors = process.communicate(timeout=60)
    assert f"port {port} is taken" in "".join(output)
    assert process.returncode == 0, errors
    assert "Traceback" not in errors
    assert "every evaluator accounts for its requests" in rest
    assert (tmp_path / "ragtrace-spans.jsonl").is_file()


def test_verdicts_are_compared_with_the_labels() -> None:
    """The last lines count the verdicts that agree with the labels; where a label says nothing, none is compared."""
    labels = {("q1", "Blue."): traffic.Labels(True, True, False), ("q2", "Red."): traffic.Labels(False, True, False)}
    labels["q3", "I do not know."] = traffic.Labels(None, None, True)
    board = boards.DemoBoard(labels=labels)
    for query, answer in labels:
        scores = tuple(Score(name, 0.9, "pass") for name in ("groundedness", "answer_relevance"))
        board(Evaluation(make_trace(query=query, answer=answer), scores))
    board(Evaluation(make_trace(query="q4", answer="Not recorded."), (Score("groundedness", 0.9, "pass"),)))
    assert [line.strip() for line in boards.agreement_lines(board)[2:]] == [
        "groundedness         1 of 2 (50%): passed 1 of 1 supported, failed 0 of 1 unsupported; AUROC 0.50",
        "answer_relevance     2 of 2 (100%): passed 2 of 2 relevant, failed 0 of 0 irrelevant",
    ]
    assert boards.agreement_lines(boards.DemoBoard()) == []
