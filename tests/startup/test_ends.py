"""`ragtrace.flush` and `ragtrace.shutdown`: what they wait for, what they answer, and how a process ends with them."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from langchain_core.language_models import FakeListChatModel
from langchain_core.runnables import RunnableLambda

import ragtrace
from ragtrace import plugins
from ragtrace.evaluation import Evaluator, evaluator
from ragtrace.live import init as live_init
from ragtrace.live.pipeline import Pipeline
from ragtrace.live.runtime import Parts, Runtime
from ragtrace.records import Evaluation, Trace
from ragtrace.settings import Settings
from ragtrace.testing import Capture, make_trace
from tests.startup.conftest import Start, quick

_NOBODY = "http://127.0.0.1:9"


def ask(question: str = "How?") -> None:
    chain = RunnableLambda(lambda q: q) | FakeListChatModel(responses=["An answer."])
    chain.with_config(run_name="ends").invoke(question)


def blocked() -> tuple[Evaluator, threading.Event]:
    release = threading.Event()

    @evaluator(needs={"answer"}, timeout=60)
    def slow(trace: Trace) -> float:
        release.wait(60)
        return 1.0

    return slow, release


def test_without_init_there_is_nothing_to_wait_for() -> None:
    assert ragtrace.flush(0.1)
    assert ragtrace.shutdown(0.1)


def test_flush_waits_for_evaluations_and_spans(start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_init, "Limits", partial(live_init.Limits, wait=30.0))
    start(spans_file=str(tmp_path / "spans.jsonl"))
    ask()
    assert ragtrace.flush(60)
    assert "gen_ai.evaluation.quick.score" in (tmp_path / "spans.jsonl").read_text()


@pytest.mark.parametrize(("endpoint", "protocol"), [(None, ""), (_NOBODY, "http/protobuf"), (_NOBODY, "grpc")])
@pytest.mark.parametrize("file", [None, "/dev/full"])
def test_flush_says_that_spans_did_not_arrive(
    start: Start, monkeypatch: pytest.MonkeyPatch, file: str | None, endpoint: str | None, protocol: str
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", protocol)
    runtime = start(spans_file=file, otlp_endpoint=endpoint)
    ask()
    assert ragtrace.flush(30) == (file is endpoint is None)
    spans = runtime.export.spans
    assert endpoint is None or (spans.exported, sum(spans.failed.values())) == (0, 2)
    assert None in (file, endpoint) or runtime.export.file_spans.failed == {"rejected": 2}


def test_a_file_of_spans_outlives_half_a_line_and_its_rotation(start: Start, tmp_path: Path) -> None:
    """What a killed process left spoils no span after it; a name that cannot be opened for a while is tried again."""
    file = tmp_path / "spans.jsonl"
    file.write_text('{"trace_id": "ab"')
    start(spans_file=str(file))
    results = []
    for step in (lambda: None, lambda: (file.rename(tmp_path / "old"), file.mkdir()), file.rmdir):
        step()
        ask()
        results.append(ragtrace.flush(60))
    assert results == [True, False, True]
    lines = [*(tmp_path / "old").read_text().splitlines(), *file.read_text().splitlines()]
    assert len(list(map(json.loads, lines[1:]))) == 4


def test_flush_says_once_that_a_queue_was_full(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    slow, release = blocked()
    monkeypatch.setattr(live_init, "Limits", partial(live_init.Limits, batch=1))
    runtime = start(evaluators=[slow], queue_items=1)
    for i in range(5):
        runtime.pipeline.submit(make_trace(trace_id=i + 1))
    release.set()
    assert not ragtrace.flush(30)
    assert runtime.pipeline.stats().dropped["queue_full"] >= 3
    assert ragtrace.flush(60)


def test_flush_says_that_the_evaluating_process_was_stopped(start: Start) -> None:
    """An evaluating process that does not answer makes flush False: at first it has not answered, then it never did."""
    check = replace(plugins.load("looping_compression_ratio"), timeout=2.0)
    runtime = start(evaluators=[check])
    runtime.pipeline.submit(make_trace())
    assert ragtrace.flush(60)
    (runners,) = runtime.pipeline._runners.values()
    assert runners.process._child is not None
    runners.process._child.send_signal(signal.SIGSTOP)
    runtime.pipeline.submit(make_trace(trace_id=2))
    assert not ragtrace.flush(0.1)
    assert not ragtrace.flush(30)
    assert runtime.pipeline.stats().errors["looping_compression_ratio", "timeout"] == 1
    runtime.pipeline.submit(make_trace(trace_id=3))
    assert ragtrace.flush(60)


def test_flush_says_that_a_sink_failed(start: Start) -> None:
    def broken(evaluation: Evaluation) -> None:
        raise OSError("for the test")

    runtime = start(sinks=[broken])
    runtime.pipeline.submit(make_trace())
    assert not ragtrace.flush(30)


def test_flush_waits_for_a_store_that_is_locked(start: Start, tmp_path: Path) -> None:
    runtime = start(store=str(tmp_path / "chatlogs.db"))
    with sqlite3.connect(tmp_path / "chatlogs.db", isolation_level=None) as other:
        other.execute("BEGIN EXCLUSIVE")
        runtime.pipeline.submit(make_trace())
        assert not ragtrace.flush(0.5)
        other.execute("COMMIT")
    other.close()
    assert ragtrace.flush(60)
    assert runtime.store.written == 1


def test_flush_says_that_the_store_lost_a_row(start: Start, tmp_path: Path) -> None:
    runtime = start(store=str(tmp_path / "chatlogs.db"))
    (tmp_path / "chatlogs.db").unlink()
    (tmp_path / "chatlogs.db").mkdir()
    (tmp_path / "chatlogs.db.spill").mkdir()
    runtime.store._store.close()
    runtime.store._store = None
    runtime.pipeline.submit(make_trace())
    assert not ragtrace.flush(3)


def test_shutdown_twice_and_init_again(start: Start) -> None:
    first = start()
    ask()
    assert ragtrace.shutdown()
    assert ragtrace.shutdown()
    assert ragtrace.flush(0.1)
    ask("nobody evaluates this one")
    capture = Capture()
    start(sinks=[capture])
    ask("again")
    assert ragtrace.flush(60)
    assert first.counts()["quick"].scored == 1
    assert [evaluation.trace.query for evaluation in capture.evaluations] == ["again"]


def test_init_with_the_same_settings_changes_nothing(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """What runs goes on where a cell of a notebook runs again; another setting, sink or variable starts it anew."""
    capture = Capture()
    first = start(sinks=[capture])
    ask()
    assert start(sinks=[capture]) is first
    ask()
    assert ragtrace.flush(60)
    assert len(capture.evaluations) == 2
    second = start(sinks=[Capture()])
    assert second is not first
    third = start(sinks=[], sample=0.5)
    assert third is not second
    monkeypatch.setenv("RAGTRACE_ENV", "staging")
    fourth = start(sinks=[], sample=0.5)
    assert fourth is not third
    monkeypatch.setenv("RAGTRACE_REDACT", "pii")
    function = start(sinks=[], sample=0.5, redact=str.upper)
    assert start(sinks=[], sample=0.5, redact="pii") is not function


def test_shutdown_says_what_it_left_behind(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    slow, release = blocked()
    monkeypatch.setattr(live_init, "Limits", partial(live_init.Limits, batch=1))
    runtime = start(evaluators=[slow, quick])
    for i in range(3):
        runtime.pipeline.submit(make_trace(trace_id=i + 1))
    assert not ragtrace.shutdown(0.5)
    for counts in runtime.counts().values():
        assert (counts.eligible, counts.dropped) == (3, 3)
    release.set()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_shutdown_in_a_forked_child_leaves_the_parent_alone(start: Start, tmp_path: Path) -> None:
    spans = tmp_path / "spans.jsonl"
    runtime = start(spans_file=str(spans))
    ask("parent")
    assert ragtrace.flush(60)
    pid = os.fork()
    if pid == 0:
        ask("child")
        os._exit(0 if ragtrace.shutdown(20) and ragtrace.shutdown() else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    ask("parent again")
    assert ragtrace.flush(60)
    assert runtime.counts()["quick"].scored == 2
    assert spans.read_text().count("gen_ai.evaluation.quick.score") == 3


class _Silent:
    undelivered = 0

    def __init__(self) -> None:
        self.seconds = -1.0

    def close(self, timeout: float = 30.0) -> None:
        self.seconds = timeout
        time.sleep(timeout / 4)


def test_senders_share_one_deadline_at_the_end() -> None:
    """The first leaves some of the time for the others, so that many silent endpoints cost no more than one."""
    senders = [_Silent() for _ in range(3)]
    first, *others = senders
    parts = Parts(store=first, deliveries=others)  # type: ignore[arg-type]  # a delivery is closed as a store is
    Runtime(Settings(enabled=False, frameworks=()), Pipeline(()), parts).close(1.0)
    seconds = [each.seconds for each in senders]
    assert seconds[0] == 0.5 <= min(seconds[1:]) <= max(seconds) < 1.0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_signal_that_reaches_a_new_child_at_once_ends_it(tmp_path: Path) -> None:
    """Python forgets one that comes before the hooks of the fork have run. The mask of the parent stays as it was."""
    program = """
import os, signal, time
import ragtrace
ragtrace.init(evaluators=["looping_compression_ratio"], frameworks=())
ends = []
for _ in range(5):
    pid = os.fork()
    if pid == 0:
        time.sleep(30)
    os.kill(pid, signal.SIGTERM)
    ends.append(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
assert ends == [-signal.SIGTERM] * 5, ends
assert not signal.pthread_sigmask(signal.SIG_BLOCK, ())
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
