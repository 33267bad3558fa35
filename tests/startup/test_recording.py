"""ragtrace in other people's tests: switched off, and recording in memory."""

import os
import subprocess
import sys
import textwrap
import threading
from contextlib import closing
from pathlib import Path

import pytest
from langchain_core.language_models import FakeListChatModel

import ragtrace
from ragtrace.evaluation import evaluator
from ragtrace.records import Trace
from ragtrace.testing import Capture, make_trace, record
from tests.langchain import cases

chain = cases.chain(cases.Fixed(documents=cases.DOCUMENTS[:1]), FakeListChatModel(responses=["An answer."]))


@evaluator(needs={"answer"}, threshold=0.5)
def good(trace: Trace) -> float:
    return 1.0


@evaluator(needs={"answer"})
async def later(trace: Trace) -> float:
    return 1.0


def run_program(body: str, folder: Path, **environment: str) -> str:
    script = folder / "program.py"
    script.write_text(textwrap.dedent(body))
    variables = {**os.environ, **environment}
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, check=False, cwd=folder, env=variables
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


OFF = """
import sys, threading
from langchain_core.language_models import FakeListChatModel
from llama_index.core.llms import MockLLM
import llama_index_instrumentation as instrumentation
from langchain_core.tracers import context
hooks, handlers = len(context._configure_hooks), len(instrumentation.root_dispatcher.event_handlers)
threads = threading.active_count()

import ragtrace
from ragtrace_langchain import RagtraceCallbackHandler, RagtraceLangChainInstrumentor
from ragtrace_llama_index import RagtraceLlamaIndexInstrumentor
runtime = ragtrace.init({argument}prometheus_port=9, otlp_endpoint="http://127.0.0.1:9", store="chatlogs.db")
if {instruments}:
    RagtraceLangChainInstrumentor().instrument()
    RagtraceLlamaIndexInstrumentor().instrument()
FakeListChatModel(responses=["x"]).invoke("q", config={{"callbacks": [RagtraceCallbackHandler()]}})
MockLLM().complete("q")
assert ragtrace.feedback("0" * 32, thumbs=1) is False
assert ragtrace.score("0" * 32, "clicked", 1.0) is False
assert ragtrace.flush() is True
assert runtime.flush() is True
assert (runtime.metrics_url, runtime.export, dict(runtime.counts())) == (None, None, {{}})
assert ragtrace.shutdown() is True
assert len(context._configure_hooks) == hooks
assert len(instrumentation.root_dispatcher.event_handlers) == handlers
assert threading.active_count() == threads
heavy = ("onnxruntime", "ragtrace_prometheus", "ragtrace_otlp", "ragtrace.console")
print("OFF", [name for name in heavy if name in sys.modules])
"""


@pytest.mark.process
@pytest.mark.parametrize("way", ["environment", "argument", "file"])
def test_switched_off_nothing_is_patched_and_no_thread_started(way: str, tmp_path: Path) -> None:
    """RAGTRACE_ENABLED=false, enabled=False and ragtrace.toml: no hook, no thread, no package; every call works."""
    if way == "file":
        (tmp_path / "ragtrace.toml").write_text("enabled = false\n")
    body = OFF.format(argument="enabled=False, " if way == "argument" else "", instruments=way == "environment")
    environment = {"RAGTRACE_ENABLED": "false"} if way == "environment" else {}
    assert run_program(body, tmp_path, **environment) == "OFF []\n"


def test_an_argument_wins_over_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """`enabled=True` runs where RAGTRACE_ENABLED is false, and `enabled=False` ends what ran."""
    monkeypatch.setenv("RAGTRACE_ENABLED", "false")
    capture = Capture()
    runtime = ragtrace.init(
        enabled=True, evaluators=[good], sinks=[capture], frameworks=("langchain",), sample_per_second=0
    )
    chain.invoke("q")
    assert runtime.flush(60)
    assert len(capture.evaluations) == 1
    ragtrace.init(enabled=False)
    chain.invoke("q")
    assert ragtrace.flush(60)
    assert len(capture.evaluations) == 1


def test_a_recording_has_spans_traces_and_scores() -> None:
    """In memory, without a thread, each request's root with its scores; nothing is left behind."""
    before = set(threading.enumerate())
    with record([good, "looping_compression_ratio"]) as recording:
        chain.invoke("first")
        chain.invoke("second")
        assert ragtrace.feedback(recording.traces[0].trace_id, thumbs="down")
        assert ragtrace.score(recording.traces[1].trace_id, "clicked", 1.0)
        assert ragtrace.flush()
        assert set(threading.enumerate()) == before
    chain.invoke("third")
    asked = [(trace.query, trace.answer, len(trace.documents)) for trace in recording.traces]
    assert asked == [("first", "An answer.", 1), ("second", "An answer.", 1)]
    both = [("good", "pass"), ("looping_compression_ratio", "pass")]
    assert [(s.name, s.label) for s in recording.scores] == [*both, *both, ("clicked", None)]
    names = [span.name for span in recording.spans]
    assert names == ["retrieval Fixed", "chat FakeListChatModel", "invoke_workflow rag"] * 2
    root = recording.spans[-1].attributes or {}
    assert root["gen_ai.evaluation.good.score"] == root["gen_ai.evaluation.clicked.score"] == 1.0
    assert '"second"' in str(root["gen_ai.input.messages"])
    assert [message.thumbs for message in recording.feedback] == [-1]
    recording.clear()
    assert (recording.spans, recording.traces, recording.scores) == ([], [], [])


def test_an_application_that_starts_ragtrace_is_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    with record() as recording:
        runtime = ragtrace.init(evaluators=[good], prometheus_port=1, otlp_endpoint="http://127.0.0.1:9")
        chain.invoke("q")
        assert runtime.flush()
        assert ([score.name for score in recording.scores], len(recording.spans)) == (["good"], 3)
        assert runtime.metrics_url is None


def test_a_ragtrace_that_runs_rests_during_a_recording() -> None:
    capture = Capture()
    with closing(
        ragtrace.init(evaluators=[good], sinks=[capture], frameworks=("langchain",), sample_per_second=0)
    ) as runtime:
        chain.invoke("before")
        with record([good]) as recording:
            chain.invoke("within")
        chain.invoke("after")
        assert runtime.flush(60)
    assert [trace.query for trace in recording.traces] == ["within"]
    assert sorted(evaluation.trace.query for evaluation in capture.evaluations) == ["after", "before"]


async def test_requests_of_tasks_are_recorded() -> None:
    with record([good]) as recording:
        await chain.abatch(["a", "b", "c"])
    assert sorted(trace.query for trace in recording.traces) == ["a", "b", "c"]
    assert [score.label for score in recording.scores] == ["pass"] * 3


def test_other_evaluators_on_the_same_requests() -> None:
    """`use` evaluates what was recorded anew. Evaluators may be coroutines."""
    with record([later]) as recording:
        chain.invoke("q")
        assert [(score.name, score.value) for score in recording.scores] == [("later", 1.0)]
        recording.use(["looping_compression_ratio"])
        assert [score.name for score in recording.scores] == ["looping_compression_ratio"]
    assert make_trace().query
