"""Evaluation in a child process: the same scores, and a child that hangs or dies is replaced."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from ragtrace import plugins
from ragtrace.base.model_prices import ModelUsage
from ragtrace.evaluation import run
from ragtrace.live.breaker import Breaker, Runners
from ragtrace.live.child_process import ProcessRunner, portable
from ragtrace.live.pipeline import Limits, Pipeline
from ragtrace.records import Facts
from ragtrace.testing import Capture, make_trace

pytestmark = pytest.mark.process
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
    sent = portable(make_trace(facts=facts, attributes={"plan": "paid"}))
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


def test_a_blank_answer_is_seen(runner: ProcessRunner) -> None:
    """The child knows that a model was called for an answer that is blank."""
    blank = make_trace(answer="", facts=Facts(usage={"m": ModelUsage(10, 0)}))
    found = runner.evaluate(plugins.load("no_answer"), [blank, make_trace(answer="")], [0, 1], 60)
    assert [scores[0].label for scores in found] == ["fail", "not_applicable"]


def test_a_copy_of_the_child_does_not_answer(
    runner: ProcessRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An evaluator that forks has one answer, and no process is left behind."""
    (tmp_path / "forking.py").write_text(
        "import os\nfrom ragtrace import evaluator\n@evaluator(needs={'answer'})\n"
        "def forks(trace):\n    child = os.fork()\n    child and os.waitpid(child, 0)\n    return 1.0\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    check = plugins.load("forking:forks")
    for _ in range(3):  # a second answer would be taken for that of the next request
        assert runner.evaluate(check, [make_trace()], [0], 30)[0][0].value == 1.0


def test_a_call_that_takes_too_long_is_given_up(runner: ProcessRunner) -> None:
    """The child is killed, the score says timeout, and after enough of that the evaluator rests."""
    check = replace(plugins.load("looping_compression_ratio"), timeout=0.05)
    batch = [make_trace()]
    assert runner.evaluate(check, batch, [0], 60)
    assert runner._child is not None
    os.kill(runner._child.pid, signal.SIGSTOP)
    runners = Runners([check])
    runners.process = runner
    breaker = Breaker()
    assert breaker.run(check, batch, [0], runners)[0][0].error == "timeout"
    assert breaker.run(replace(check, timeout=60), batch, [0], runners)[0][0].error is None


def test_a_pipeline_with_a_child() -> None:
    """Named evaluators run in the child, objects of the application's in a thread; close ends the child."""
    capture = Capture()
    mine = replace(plugins.load("looping_compression_ratio"), name="mine", fn=lambda trace: 0.5)
    checks = [*(plugins.load(name) for name in NAMES), mine]
    pipeline = Pipeline(checks, [capture], limits=Limits(wait=0.01), isolated_names=NAMES)
    for _ in range(20):
        pipeline.submit(make_trace())
    evaluations = capture.wait(20, 60)
    assert all({s.name for s in e.scores} == {*NAMES, "mine"} for e in evaluations)
    assert not any(s.error for e in evaluations for s in e.scores)
    child = next(iter(pipeline._runners.values())).process._child
    assert child is not None
    pipeline.close(5)
    deadline = time.monotonic() + 10
    while child.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)
    assert child.poll() is not None


def test_a_child_can_be_replaced_while_many_descriptors_are_open(runner: ProcessRunner) -> None:
    """A server with thousands of connections replaces a dead child, too: no descriptor's number is too large."""
    check, batch = plugins.load("looping_compression_ratio"), [make_trace()]
    assert runner.evaluate(check, batch, [0], 60)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4_096, hard), hard))
    null = os.open(os.devnull, os.O_RDONLY)
    runner.stop()  # the descriptors of the next child come after all others
    copies = [os.dup(null) for _ in range(1_200)]
    try:
        assert runner.evaluate(check, batch, [0], 60)
        assert runner._connection is not None
        assert runner._connection.fileno() > 1_024
    finally:
        runner.stop()
        for descriptor in (null, *copies):
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_child_of_another_version_is_refused_and_replaced(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """After an upgrade under a running application the log says so; the next evaluation starts another child."""
    flag = tmp_path / "upgraded"
    code = (
        "import pathlib, sys\nfrom ragtrace.live import child_main, messages\n"
        f"flag = pathlib.Path({str(flag)!r})\n"
        "if flag.exists():\n    child_main.main(int(sys.argv[1]))\n"
        "flag.touch()\n"
        "child_main.Ready = lambda: messages.Ready(protocol='1 of ragtrace 99.0')\n"
        "child_main.main(int(sys.argv[1]))\n"
    )
    runner = ProcessRunner(command=(sys.executable, "-c", code))
    check, batch = plugins.load("looping_compression_ratio"), [make_trace()]
    try:
        with pytest.raises(ConnectionError, match=r"protocol 1 of ragtrace 99\.0"):
            runner.evaluate(check, batch, [0], 60)
        assert "restart the application" in caplog.text
        assert runner.evaluate(check, batch, [0], 60)
    finally:
        runner.stop()


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_process_has_a_child_of_its_own(runner: ProcessRunner) -> None:
    """It neither uses nor ends the child of its parent."""
    check, batch = plugins.load("looping_compression_ratio"), [make_trace()]
    assert runner.evaluate(check, batch, [0], 60)
    assert runner._child is not None
    process = runner._child.pid
    fork = os.fork()
    if not fork:
        code = 1
        try:
            runner.stop()  # nothing is there to stop
            scores = runner.evaluate(check, batch, [0], 60)
            code = 0 if scores and runner._child is not None and runner._child.pid != process else 2
            runner.stop()
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(fork, 0)[1]) == 0
    assert runner.evaluate(check, batch, [0], 60)
    assert runner._child.pid == process


def test_the_child_ends_with_its_parent(tmp_path: object) -> None:
    """A parent that is killed without a chance to say so leaves no child behind."""
    code = (
        "import os, time\nfrom ragtrace.live.child_process import ProcessRunner\nfrom ragtrace import plugins\n"
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
