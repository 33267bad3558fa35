"""Evaluation in a child process: the same scores, and a child that hangs or dies is replaced."""

import os
import resource
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from ragtrace import plugins
from ragtrace.base.model_prices import ModelUsage
from ragtrace.evaluation import run
from ragtrace.live.child_process import ProcessRunner, portable
from ragtrace.records import Facts
from ragtrace.testing import make_trace
from tests.waiting import in_fork

pytestmark = pytest.mark.process
CHECK, BATCH = plugins.load("looping_compression_ratio"), [make_trace()]
NAMES = ("groundedness", "pii_leakage", "toxicity", "looping_compression_ratio")


def test_the_scores_are_the_same(runner: ProcessRunner) -> None:
    """Each evaluator says in the child what it says here: of a blank answer too, and whatever else metadata hold."""
    blank = make_trace(answer="", facts=Facts(usage={"m": ModelUsage(10, 0)}))
    odd = make_trace(attributes={"lock": lambda: None, "constraints": ["24 months"]})
    batch = [make_trace(), make_trace(answer="Mail jo@acme.io."), make_trace(query="", answer="Bananas are yellow.")]
    batch += [blank, make_trace(answer=""), odd]
    for name in (*NAMES, "no_answer", "tokens_presence"):
        check = replace(plugins.load(name), threshold=0.6)
        chosen = {"no_answer": [3, 4], "tokens_presence": [5]}.get(name, [0, 2])
        found = runner.evaluate(check, batch, chosen, 60)
        assert found == run(check, [batch[i] for i in chosen])
    assert found is not None
    assert found[0][0].label == "pass"


def test_what_a_request_took_is_not_sent() -> None:
    """Tokens and versions are the metrics' matter. Its stages say whether a model was called."""
    facts = Facts(
        stages={"tool": 1.0}, time_to_first_chunk=0.1, input_tokens=1, prompt_version="v1", finish_reason="stop"
    )
    sent = portable(make_trace(facts=facts, attributes={"plan": "paid"}))
    assert (sent.facts, sent.attributes) == (Facts(finish_reason="stop", stages={"tool": 1.0}), {})


def test_a_copy_of_the_child_is_silent(runner: ProcessRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An evaluator that forks has one answer, and no process is left behind."""
    (tmp_path / "forking.py").write_text(
        "import os\nfrom ragtrace import evaluator\n@evaluator(needs={'answer'})\n"
        "def forks(trace):\n    child = os.fork()\n    child and os.waitpid(child, 0)\n    return 1.0\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    check = plugins.load("forking:forks")
    for _ in range(3):  # a second answer would be taken for that of the next request
        assert runner.evaluate(check, [make_trace()], [0], 30)[0][0].value == 1.0


def test_a_child_can_be_replaced_while_many_descriptors_are_open(runner: ProcessRunner) -> None:
    """A server with thousands of connections replaces a dead child, too: no descriptor's number is too large."""
    assert runner.evaluate(CHECK, BATCH, [0], 60)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4_096, hard), hard))
    null = os.open(os.devnull, os.O_RDONLY)
    runner.stop()  # the descriptors of the next child come after all others
    copies = [os.dup(null) for _ in range(1_200)]
    try:
        assert runner.evaluate(CHECK, BATCH, [0], 60)
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
        f"flag = pathlib.Path({str(flag)!r})\n" "if flag.exists():\n    child_main.main(int(sys.argv[1]))\n"
        "flag.touch()\n" "child_main.Ready = lambda: messages.Ready(protocol='1 of ragtrace 99.0')\n"
        "child_main.main(int(sys.argv[1]))\n"
    )  # fmt: skip
    runner = ProcessRunner(command=(sys.executable, "-c", code))
    try:
        with pytest.raises(ConnectionError, match=r"protocol 1 of ragtrace 99\.0"):
            runner.evaluate(CHECK, BATCH, [0], 60)
        assert "restart the application" in caplog.text
        assert runner.evaluate(CHECK, BATCH, [0], 60)
    finally:
        runner.stop()


def test_a_forked_process_has_a_child_of_its_own(runner: ProcessRunner) -> None:
    assert runner.evaluate(CHECK, BATCH, [0], 60)
    assert runner._child is not None
    process = runner._child.pid

    def evaluate() -> None:
        runner.stop()  # nothing is there to stop
        assert runner.evaluate(CHECK, BATCH, [0], 60)
        assert runner._child is not None
        assert runner._child.pid != process
        runner.stop()

    in_fork(evaluate)
    assert runner.evaluate(CHECK, BATCH, [0], 60)
    assert runner._child.pid == process
