"""The evaluating process takes the processor time that the application leaves."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ragtrace import plugins
from ragtrace.live import child_process
from ragtrace.live.child_process import ProcessorTimes, ProcessRunner, is_starved, processor_times
from ragtrace.testing import make_trace
from tests.waiting import until

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(not hasattr(os, "SCHED_IDLE"), reason="the policy SCHED_IDLE is Linux's"),
]


def policy_of(runner: ProcessRunner) -> set[int]:
    assert runner._child is not None
    return {os.sched_getscheduler(int(thread)) for thread in os.listdir(f"/proc/{runner._child.pid}/task")}


def test_the_child_takes_what_is_left(runner: ProcessRunner, monkeypatch: pytest.MonkeyPatch) -> None:
    """All its threads have the policy once its models are loaded, in the application's session, as Linux compares."""
    monkeypatch.setattr(child_process, "is_starved", lambda begin, now: False)  # on a busy machine it is replaced
    runner.wait_until_ready()
    until(lambda: policy_of(runner) == {os.SCHED_IDLE})
    assert runner._child is not None
    assert (os.getsid(runner._child.pid), os.getpgid(runner._child.pid)) == (os.getsid(0), runner._child.pid)


def test_a_starved_child_gets_its_share(runner: ProcessRunner, tmp_path: Path) -> None:
    """Where the application leaves nothing, another child evaluates at the ordinary policy, and the score is there."""
    (tmp_path / "busy_checks.py").write_text(
        "import time\nfrom ragtrace.evaluation import evaluator\n\n"
        "@evaluator(needs={'answer'})\ndef computes(trace):\n"
        "    end = time.thread_time() + 0.5\n    while time.thread_time() < end: pass\n    return 1.0\n"
    )
    sys.path.insert(0, str(tmp_path))
    processors = sorted(os.sched_getaffinity(0))
    busy: list[subprocess.Popen[bytes]] = []
    try:
        check = plugins.load("busy_checks:computes")
        os.sched_setaffinity(0, processors[:1])  # the child and the busy process are both on this processor
        runner.wait_until_ready()
        code = "import os\nparent = os.getppid()\nwhile os.getppid() == parent: pass"
        busy.append(subprocess.Popen([sys.executable, "-c", code]))
        (scores,) = runner.evaluate(check, [make_trace()], [0], 100)
        assert scores[0].value == 1.0
        assert policy_of(runner) == {os.SCHED_OTHER}
    finally:
        os.sched_setaffinity(0, processors)
        sys.path.remove(str(tmp_path))
        for process in busy:
            process.kill()
            process.wait()


def test_when_a_process_is_starved() -> None:
    """A process that waits for processors nearly all the time is; one that works, sleeps or cannot be seen is not."""
    begin = ProcessorTimes(1.0, 1.0)
    assert is_starved(begin, ProcessorTimes(1.05, 4.0))
    for now in (ProcessorTimes(1.05, 2.0), ProcessorTimes(2.0, 4.0), begin, None):
        assert not is_starved(begin, now)
    assert not is_starved(None, begin)


def test_times_of_a_process() -> None:
    before = processor_times(os.getpid())
    end = time.thread_time() + 0.2
    while time.thread_time() < end:
        pass
    after = processor_times(os.getpid())
    assert before is not None
    assert after is not None
    assert after.ran - before.ran >= 0.15
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    assert processor_times(gone.pid) is None
