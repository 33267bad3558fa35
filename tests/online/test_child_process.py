"""Evaluation in a child process: the same scores, and a child that hangs or dies is replaced."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest

from ragtrace import plugins
from ragtrace.evaluation import run
from ragtrace.online.breaker import Breaker, Runners
from ragtrace.online.child_process import ProcessRunner, _portable
from ragtrace.online.pipeline import Limits, Pipeline
from ragtrace.records import Facts
from ragtrace.testing import Capture, make_trace

NAMES = ("groundedness", "pii_leakage", "toxicity", "looping_compression_ratio")


@pytest.fixture
def runner() -> Iterator[ProcessRunner]:
    made = ProcessRunner()
    yield made
    made.stop()


def test_the_scores_are_the_same(runner: ProcessRunner) -> None:
    """Each evaluator says in the child what it says here, evidence and thresholds of one's own included."""
    batch = [make_trace(), make_trace(answer="Mail jo@acme.io."), make_trace(query="", answer="Bananas are yellow.")]
    for name in NAMES:
        check = replace(plugins.load(name), threshold=0.6)
        found = runner.evaluate(check, batch, [0, 2], 60)
        assert found == run(check, [batch[0], batch[2]])


def test_metadata_that_cannot_be_sent_is_left_behind(runner: ProcessRunner) -> None:
    """An application's metadata may hold anything; the evaluators' inputs arrive all the same."""
    trace = make_trace(attributes={"lock": lambda: None, "constraints": ["24 months"]})
    found = runner.evaluate(plugins.load("tokens_presence"), [trace], [0], 60)
    assert found is not None
    assert found[0][0].label == "pass"


def test_what_a_request_took_is_not_sent() -> None:
    """Seconds, tokens and versions are the metrics' matter: no evaluator reads them."""
    facts = Facts(
        stages={"tool": 1.0}, time_to_first_chunk=0.1, input_tokens=1, prompt_version="v1", finish_reason="stop"
    )
    sent = _portable(make_trace(facts=facts, attributes={"plan": "paid"}))
    assert (sent.facts, sent.attributes) == (Facts(finish_reason="stop"), {})


def test_a_child_that_dies_is_replaced(runner: ProcessRunner) -> None:
    """Its death is an error on the scores at hand; the next evaluation has a new child."""
    check, batch = plugins.load("looping_compression_ratio"), [make_trace()]
    assert runner.evaluate(check, batch, [0], 60)
    assert runner._child is not None
    os.kill(runner._child.pid, signal.SIGKILL)
    runner._child.wait()
    with pytest.raises(ConnectionError):
        runner.evaluate(check, batch, [0], 60)
    assert runner.evaluate(check, batch, [0], 60)


def test_a_call_that_takes_too_long_is_given_up(runner: ProcessRunner) -> None:
    """The child is killed, the score says timeout, and after enough of that the evaluator rests."""
    check = replace(plugins.load("looping_compression_ratio"), timeout=0.05)
    batch = [make_trace()]
    assert runner.evaluate(check, batch, [0], 60)
    assert runner._child is not None
    os.kill(runner._child.pid, signal.SIGSTOP)
    runners = Runners(frozenset({check.name}))
    runners.process = runner
    breaker = Breaker()
    assert breaker.run(check, batch, [0], runners)[0][0].error == "timeout"
    assert breaker.run(replace(check, timeout=60), batch, [0], runners)[0][0].error is None


def test_a_pipeline_with_a_child() -> None:
    """Named evaluators run in the child, objects of the application's in a thread; close ends the child."""
    capture = Capture()
    mine = replace(plugins.load("looping_compression_ratio"), name="mine", fn=lambda trace: 0.5)
    checks = [*(plugins.load(name) for name in NAMES), mine]
    pipeline = Pipeline(checks, [capture], limits=Limits(wait=0.01), isolated=NAMES)
    for _ in range(20):
        pipeline.submit(make_trace())
    evaluations = capture.wait(20, 60)
    assert all({s.name for s in e.scores} == {*NAMES, "mine"} for e in evaluations)
    assert not any(s.error for e in evaluations for s in e.scores)
    child = pipeline._runners[0].process._child
    assert child is not None
    pipeline.close(5)
    deadline = time.monotonic() + 10
    while child.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)
    assert child.poll() is not None


def test_the_child_ends_with_its_parent(tmp_path: object) -> None:
    """A parent that is killed without a chance to say so leaves no child behind."""
    import sys

    code = (
        "import os, time\nfrom ragtrace.online.child_process import ProcessRunner\nfrom ragtrace import plugins\n"
        "from ragtrace.testing import make_trace\nr = ProcessRunner()\n"
        "r.evaluate(plugins.load('looping_compression_ratio'), [make_trace()], [0], 60)\n"
        "print(r._child.pid, flush=True)\ntime.sleep(60)\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    parent.kill()
    parent.wait()
    parent.stdout.close()
    deadline = time.monotonic() + 10
    while _runs(child) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not _runs(child)


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        with open(f"/proc/{pid}/stat", encoding="ascii") as stat:
            return stat.read().split(")")[-1].split()[0] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False
