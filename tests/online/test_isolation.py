"""Evaluators in the child process: every one that it can load by name, and none of them harms the application."""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy
import pytest

from ragtrace import plugins
from ragtrace.evaluation import Evaluator, Origin, evaluator
from ragtrace.live.child_process import ProcessRunner, can_isolate
from ragtrace.live.pipeline import Limits, Pipeline
from ragtrace.records import Score
from ragtrace.testing import Capture, make_trace
from tests.hostile import Unreadable
from tests.waiting import until

pytestmark = pytest.mark.process

MODULE = """
import ctypes, os, sys, time
from ragtrace.evaluation import evaluator
from ragtrace.records import Score

@evaluator(threshold=0.5)
def short(trace):
    return float(len(trace.answer) < 100)

def bare(trace):
    return True

@evaluator(timeout=60)
def exits(trace):
    if trace.answer == "bad":
        os._exit(3)
    return True

@evaluator(timeout=60)
def crashes(trace):
    if trace.answer == "bad":
        ctypes.string_at(0)
    return True

@evaluator(timeout=60)
def leaves(trace):
    sys.exit("for the test")

@evaluator(timeout=60)
def hangs(trace):
    print(os.getpid(), file=sys.stderr, flush=True)
    time.sleep(600)

@evaluator(timeout=60)
def prints(trace):
    print("noise " * 10_000, flush=True)
    os.write(1, b"noise " * 10_000)
    return sys.stdin.read() == ""

@evaluator(timeout=60)
def descriptors(trace):
    return Score("descriptors", float(len(os.listdir("/proc/self/fd"))))

@evaluator(timeout=60)
def odd(trace):
    return Score("odd", 1.0, explanation=lambda: None)
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The name of a module of the application's that is on its sys.path alone."""
    monkeypatch.syspath_prepend(tmp_path)
    name = f"checks_{abs(hash(tmp_path))}"
    (tmp_path / f"{name}.py").write_text(MODULE, encoding="utf-8")
    yield name
    sys.modules.pop(name, None)


def score_of(runner: ProcessRunner, check: Evaluator) -> Score:
    ((score,),) = runner.evaluate(check, [make_trace()], [0], 60)
    return score


def test_what_can_be_loaded_by_name_is_isolated(module: str) -> None:
    """Also under another threshold or name; neither an object nor another function with a loaded one's name is."""
    for name in (*plugins.builtin_names(), f"{module}:short", f"{module}:bare"):
        check = plugins.load(name)
        assert check.importable_name == name
        assert can_isolate(check)
    check = plugins.load(f"{module}:short")
    assert can_isolate(replace(check, threshold=0.1, name="shorter"))
    assert not can_isolate(replace(check, fn=lambda trace: True))
    assert not can_isolate(evaluator(name="own")(lambda trace: True))
    assert not can_isolate(replace(check, origin=Origin("__main__:short", check.fn)))


def test_the_child_runs_the_evaluator_as_it_is_here(module: str, runner: ProcessRunner) -> None:
    """Neither its output nor its input is the connection; sys.exit() and odd scores are errors of one evaluation."""
    check = replace(plugins.load(f"{module}:short"), name="own_name", version="7", threshold=2.0)
    assert score_of(runner, check) == Score("own_name", 1.0, "fail", version="7")
    for name, error in (("prints", None), ("leaves", "SystemExit"), ("odd", "bad_verdict"), ("bare", None)):
        score = score_of(runner, plugins.load(f"{module}:{name}"))
        assert (score.error, score.label) == (error, None if error else "pass")


def test_the_child_inherits_no_descriptors(module: str, runner: ProcessRunner) -> None:
    """Files and sockets of the application are closed there, even those that it lets others inherit."""
    null = os.open(os.devnull, os.O_RDONLY)
    copies = [os.dup(null) for _ in range(100)]
    for descriptor in copies:
        os.set_inheritable(descriptor, True)
    try:
        value = score_of(runner, plugins.load(f"{module}:descriptors")).value
    finally:
        for descriptor in (null, *copies):
            os.close(descriptor)
    assert value is not None
    assert value < 50


def test_an_evaluator_that_ends_its_process_costs_only_the_trace_that_made_it(module: str) -> None:
    """The application goes on, and so do other traces of the batch and other evaluators; close ends the child."""
    capture = Capture()
    checks = [plugins.load(f"{module}:crashes"), plugins.load("looping_compression_ratio")]
    names = [check.name for check in checks]
    pipeline = Pipeline(checks, [capture], limits=Limits(batch=3, wait=60), isolated_names=names)
    for answer in ("good", "bad", "good"):
        pipeline.submit(make_trace(answer=answer))
    evaluations = capture.wait(3, 90)
    children = [runners.process._child for runners in pipeline._runners.values()]
    pipeline.close(5)
    until(lambda: all(child is not None and child.poll() is not None for child in children))
    errors = {e.trace.answer: {s.name: s.error for s in e.scores} for e in evaluations}
    assert errors["bad"] == {"crashes": "ConnectionError", "looping_compression_ratio": None}
    assert errors["good"] == {"crashes": None, "looping_compression_ratio": None}


APPLICATION = """
import os, sys
import ragtrace
from ragtrace.evaluation import evaluator
from ragtrace.testing import Capture, make_trace

process = []

@evaluator
def own(trace):
    process.append(os.getpid())
    return True

capture = Capture()
runtime = ragtrace.init(
    evaluators=[sys.argv[1] + ":exits", own], sinks=[capture], frameworks=(), sample_per_second=0
)
runtime.pipeline.submit(make_trace(answer="bad"))
(evaluation,) = capture.wait(1, 90)
runtime.close()
print({s.name: s.error for s in evaluation.scores}, process == [os.getpid()])
"""


def test_an_application_outlives_the_evaluators_that_its_settings_name(module: str, tmp_path: Path) -> None:
    """`module:attribute` runs in the child, where os._exit() is a score with `error`; an object runs here."""
    application = tmp_path / "application.py"
    application.write_text(APPLICATION, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, str(application), module], capture_output=True, text=True, check=False, timeout=110
    )
    assert done.stdout.strip() == "{'exits': 'ConnectionError', 'own': None} True", done.stderr


EMBEDDER = """
import os
import numpy

class SentenceTransformer:
    def __init__(self, name, device=None):
        pass

    def get_sentence_embedding_dimension(self):
        return 2

    def encode(self, texts, **options):
        with open(os.path.join(os.path.dirname(__file__), "processes"), "a") as file:
            print(os.getpid(), file=file)
        return numpy.array([[3.0, 4.0]] * len(texts))
"""
EMBEDDING_APPLICATION = """
import os
import ragtrace
from ragtrace.testing import Capture, make_trace

capture = Capture()
runtime = ragtrace.init(
    evaluators=["answer_relevance_cosine"], models={"embedding": "small"}, sinks=[capture],
    frameworks=(), sample_per_second=0,
)
runtime.pipeline.submit(make_trace())
(evaluation,) = capture.wait(1, 90)
runtime.close()
print([round(s.value, 3) for s in evaluation.scores], str(os.getpid()) in open("processes").read().split())
"""


def test_an_embedding_model_that_a_setting_names_works_in_the_child(tmp_path: Path) -> None:
    """The application computes no embedding. A variable that is no setting is warned of once, not by each process."""
    (tmp_path / "sentence_transformers.py").write_text(EMBEDDER, encoding="utf-8")
    (tmp_path / "torch.py").write_text("class cuda:\n    is_available = staticmethod(lambda: False)\n")
    (tmp_path / "application.py").write_text(EMBEDDING_APPLICATION, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "application.py"], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=110,
        env={**os.environ, "RAGTRACE_BLUE": "1"},
    )  # fmt: skip
    assert done.stdout.strip() == "[1.0] False", done.stderr
    assert done.stderr.count("RAGTRACE_BLUE is no setting") == 1


def test_init_does_nothing_in_the_child(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, runner: ProcessRunner) -> None:
    """`ragtrace.init` starts nothing in the evaluating process: no second pipeline, no port, no child of the child."""
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "whole_application.py").write_text(
        "import threading, ragtrace\n" "runtime = ragtrace.init(prometheus_port=0, evaluators=['toxicity'])\n"
        "def idle(trace):\n" "    names = {thread.name for thread in threading.enumerate()}\n"
        "    return not any(name.startswith('ragtrace') for name in names) and not runtime.counts()\n",
        encoding="utf-8",
    )  # fmt: skip
    check = evaluator(name="idle")(lambda trace: None)
    check = replace(check, origin=Origin("whole_application:idle", check.fn))
    assert score_of(runner, check).label == "pass"


def test_a_child_whose_evaluator_hangs_ends_with_its_parent(module: str) -> None:
    code = (
        "import sys\nfrom ragtrace import plugins\nfrom ragtrace.live.child_process import ProcessRunner\n"
        "from ragtrace.testing import make_trace\n"
        "ProcessRunner().evaluate(plugins.load(sys.argv[1] + ':hangs'), [make_trace()], [0], 600)\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    parent = subprocess.Popen([sys.executable, "-c", code, module], stderr=subprocess.PIPE, text=True, env=environment)
    assert parent.stderr is not None
    with parent.stderr as lines:
        child = int(lines.readline())
        parent.kill()
        parent.wait()
        until(lambda: not Path(f"/proc/{child}").exists())


def test_metadata_that_cannot_be_sent_costs_no_other_request(module: str) -> None:
    capture = Capture()
    check = replace(plugins.load(f"{module}:bare"), needs=frozenset({"answer"}))
    pipeline = Pipeline([check], [capture], limits=Limits(batch=5, wait=30), isolated_names=["bare"])
    unsendable = (Unreadable(), threading.Lock(), numpy.array(["a", "b"]))
    for number, constraints in enumerate((["a"], *unsendable, ["a"]), start=1):
        pipeline.submit(make_trace(trace_id=number, attributes={"constraints": constraints}))
    assert pipeline.flush(60)
    pipeline.close()
    assert [evaluation.scores[0].value for evaluation in capture.evaluations] == [1.0] * 5
    assert (pipeline.counts()["bare"].scored, pipeline.stats().internal_errors) == (5, 0)
