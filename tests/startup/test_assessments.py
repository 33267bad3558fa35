"""`ragtrace.score` and `ragtrace.feedback`: what an application passes on of its answers."""

import gc
import json
import sqlite3
import time
import urllib.request
import weakref
from contextlib import closing
from pathlib import Path
from typing import Any

import ragtrace
from ragtrace.evaluation import evaluator
from ragtrace.live import code_scores
from ragtrace.records import Facts, Trace
from ragtrace.testing import Capture, make_trace
from tests.row_files import rows
from tests.startup.conftest import Start


@evaluator(needs={"answer"})
def slow(trace: Trace) -> float:
    time.sleep(0.5)
    return 1.0


class Step(dict[str, str]):
    """A tool call; a plain dictionary has no weak references."""


def ask() -> str:
    """One request by hand; its trace id."""
    with ragtrace.request("How long?", metadata={"app": "pumps"}) as request:
        request.answered("For 24 months.", model="gpt-4o", usage={"input_tokens": 3, "output_tokens": 4})
    return request.trace_id


def select(path: Path, statement: str) -> list[Any]:
    with closing(sqlite3.connect(path)) as database:
        return database.execute(statement).fetchall()


def read_spans(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_score_before_the_evaluation_leaves_with_it(start: Start, tmp_path: Path, monkeypatch: Any) -> None:
    """Also where the request goes on for longer than other scores wait."""
    monkeypatch.setattr(code_scores, "_WAIT", 0.0)
    capture = Capture()
    start(spans_file=str(tmp_path / "spans.jsonl"), evaluators=[slow], sinks=[capture])
    with ragtrace.request("How long?") as request:
        request.answered("For 24 months.")
        assert ragtrace.score(request.trace_id, "helpful", True, explanation="clicked")
        time.sleep(0.1)
    assert ragtrace.score(int(request.trace_id, 16), "Star rating", 4, label="good")
    assert ragtrace.flush(60)
    (evaluation,) = capture.evaluations
    own = [(s.name, s.value, s.label) for s in evaluation.scores if s.name != "slow"]
    assert own == [("helpful", 1.0, None), ("star_rating", 4.0, "good")]
    (root,) = [span for span in read_spans(tmp_path / "spans.jsonl") if span["name"].startswith("invoke_workflow")]
    assert root["attributes"]["gen_ai.evaluation.helpful.score"] == 1.0
    assert root["attributes"]["gen_ai.evaluation.star_rating.label"] == "good"


def test_a_late_score_leaves_on_a_linked_span(start: Start, tmp_path: Path) -> None:
    """It is on one span that is linked to the root, in the metrics, the store and the sinks, and no request."""
    capture = Capture()
    path, store = tmp_path / "spans.jsonl", tmp_path / "logs.db"
    runtime = start(spans_file=str(path), prometheus_port=0, store=f"sqlite:///{store}", sinks=[capture])
    trace_id = ask()
    assert ragtrace.flush(60)
    assert ragtrace.score(trace_id, "rating", 0.25, "fail", "too short")
    assert ragtrace.flush(60)
    late = capture.evaluations[-1]
    assert (late.is_late, late.trace.facts.app, late.trace.facts.model) == (True, "pumps", "gpt-4o")
    spans = read_spans(path)
    (root,) = [span for span in spans if span["name"].startswith("invoke_workflow")]
    (own,) = [span for span in spans if span["name"] == "evaluation"]
    assert (own["attributes"]["gen_ai.evaluation.rating.score"], own["parent_id"]) == (0.25, root["span_id"])
    assert select(store, "select evaluator, value, label from scores order by evaluator") == [
        ("quick", 1.0, "pass"),
        ("rating", 0.25, "fail"),
    ]
    metrics = _scrape(runtime)
    counted = [line for line in metrics.splitlines() if 'evaluator="rating"' in line and 'verdict="fail"' in line]
    assert any(line.startswith("ragtrace_evaluations_total") and line.endswith(" 1.0") for line in counted)
    assert 'ragtrace_evaluation_lag_seconds_count{app="pumps",env="dev"} 1.0' in metrics


def _scrape(runtime: ragtrace.Runtime) -> str:
    with urllib.request.urlopen(str(runtime.metrics_url), timeout=60) as answer:
        return str(answer.read().decode())


def test_a_request_that_is_not_sampled_can_be_scored(start: Start) -> None:
    capture = Capture()
    start(sample=0.0, sinks=[capture])
    trace_id = ask()
    assert ragtrace.score(trace_id, "rating", 1)
    (evaluation,) = capture.wait(1)
    assert f"{evaluation.trace.trace_id:032x}" == trace_id
    assert evaluation.trace.span_id


def test_a_remembered_request_keeps_nothing_else_alive(start: Start) -> None:
    """Not the tool calls of finished requests, sampled or not. An evaluator's thread keeps the last request it had."""
    runtime = start(sample=0.5)
    alive = []
    for i in range(50):
        step = Step(tool="look_up")
        alive.append(weakref.ref(step))
        runtime.pipeline.submit(make_trace(trace_id=(i + 1) * 2**122 // 26, facts=Facts(app="pumps", steps=(step,))))
        del step
    assert ragtrace.flush(60)
    assert 0 < runtime.pipeline.stats().sampled_out < 50
    gc.collect()
    assert sum(ref() is not None for ref in alive) <= 1


def test_a_score_of_another_process_is_delivered_at_the_end(start: Start) -> None:
    """A score whose request this process does not know waits, and is delivered without a span at the end at latest."""
    capture = Capture()
    start(sinks=[capture])
    assert ragtrace.score("1" * 32, "rating", 1)
    assert ragtrace.flush(60)
    assert capture.evaluations == []
    ragtrace.shutdown(5)
    (evaluation,) = capture.evaluations
    assert (evaluation.is_late, evaluation.trace.span_id) == (True, 0)


def test_scores_that_are_none(start: Start) -> None:
    start()
    cases: list[Any] = [*rows(__file__, "scores_that_are_none"), ["1" * 32, "rating", object()], [2**200, "rating", 1]]
    for arguments in cases:
        assert ragtrace.score(*arguments) is False


def test_feedback_with_a_score_and_a_category(start: Start, tmp_path: Path) -> None:
    runtime = start(store=f"sqlite:///{tmp_path / 'logs.db'}", prometheus_port=0)
    trace_id = ask()
    assert ragtrace.flush(60)
    assert ragtrace.feedback(trace_id, score=4, category="helpful")
    for i in range(30):
        assert ragtrace.feedback(trace_id, category=f"word {i}")
    assert ragtrace.flush(60)
    rows = select(tmp_path / "logs.db", "select thumbs, score, category from feedback order by id")
    assert rows[0] == (None, 4.0, "helpful")
    metrics = _scrape(runtime)
    assert 'ragtrace_feedback_score_bucket{app="rag",env="dev",le="4.0"} 1.0' in metrics
    assert 'ragtrace_feedback_categories_total{app="rag",category="helpful",env="dev"} 1.0' in metrics
    assert 'ragtrace_feedback_categories_total{app="rag",category="other",env="dev"} 11.0' in metrics


def test_feedback_that_is_none(start: Start) -> None:
    assert ragtrace.feedback("1" * 32, thumbs=1) is False
    start(prometheus_port=0)
    for trace_id, fields in rows(__file__, "feedback_that_is_none"):
        assert ragtrace.feedback(trace_id, **fields) is False
    assert ragtrace.feedback("1" * 32, thumbs=-1) is True


def test_thumbs_without_a_store_are_a_score(start: Start) -> None:
    """What people say of an answer reaches what shows scores, without their comment."""
    capture = Capture()
    start(sinks=[capture])
    assert ragtrace.feedback("1" * 32, thumbs=-1, comment="I am Ada")
    assert ragtrace.feedback("2" * 32, score=4)
    assert not ragtrace.feedback("3" * 32, comment="Hm.")
    ragtrace.shutdown(5)
    found = [(s.name, s.value, s.label, s.method) for e in capture.evaluations for s in e.scores]
    assert sorted(found) == [("user_feedback", 0.0, "fail", "human"), ("user_feedback", 4.0, None, "human")]
    assert "Ada" not in str(capture.evaluations)
