"""The judge in a running ragtrace: asked by the evaluating process, within its budget, seen in the metrics."""

import json
import tempfile
import urllib.request
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

import ragtrace
from ragtrace.errors import SettingError
from ragtrace.evaluate.cascade import cascade, width
from ragtrace.evaluate.judge import Judge, use_judge
from ragtrace.evaluate.judge.ledger import NANO, Ledger
from ragtrace.evaluation import evaluator, run
from ragtrace.live import init
from ragtrace.live.runtime import Runtime
from ragtrace.plugins import load
from ragtrace.records import Document, Trace
from ragtrace.settings import Settings
from ragtrace.testing import Capture, Clock, make_trace
from tests.judge import server as s

GOOD = '{"claims": [{"claim": "a", "verdict": "supported"}, {"claim": "b", "verdict": "unsupported"}]}'


@pytest.fixture
def runtimes() -> Iterator[list[Runtime]]:
    started: list[Runtime] = []
    yield started
    for runtime in started:
        runtime.close(1.0)


def online(url: str, capture: Capture, **own: Any) -> Runtime:
    """A ragtrace whose judge is at `url`, where 100 tokens cost 0.0001. The check at start is left out."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ragtrace.live.init._check_judge", lambda *_: None)
        return ragtrace.init(
            sinks=[capture], judge_model="openai/x", judge_api_base=url, model_prices=("openai/x=0/1",),
            judge_max_tokens=100, sample_per_second=0, frameworks=(), **own,
        )  # fmt: skip


def test_scores_costs_and_a_budget_that_ends(runtimes: list[Runtime]) -> None:
    """Scores until the money ends, then errors that name the budget, and metrics of both; local scores stay."""
    capture = Capture()
    with s.serving(s.says(GOOD, tokens=(100, 100))) as served:
        names = ["faithfulness_judge", "looping_unique_sentences"]
        own: dict[str, Any] = {"judge_budget_hour": 0.00035, "judge_concurrency": 1, "prometheus_port": 0}
        runtime = online(served.url, capture, evaluators=names, redact="pii", **own)
        runtimes.append(runtime)
        for i in range(6):
            texts = (f"{place} {i} of anna@example.org is this one." for place in ("Question", "Chunk", "Answer"))
            query, chunk, answer = texts
            runtime.pipeline.submit(make_trace(query, [chunk], answer, trace_id=i + 1))
        assert runtime.flush(100.0)
        with urllib.request.urlopen(runtime.metrics_url) as answer:
            shown = answer.read().decode()
    by_name = [{score.name: score for score in e.scores} for e in capture.evaluations]
    judged = [scores["faithfulness_judge"] for scores in by_name]
    assert [score.value for score in judged].count(0.5) == 3
    assert [score.error for score in judged].count("judge_budget") == 3
    assert len(served.requests) == 3
    assert "anna" not in json.dumps(served.requests)
    for place in ("Question", "Chunk", "Answer"):
        assert f"{place} 0 of [email]" in json.dumps(served.requests)
    assert all(scores["looping_unique_sentences"].value == 1.0 for scores in by_name)
    found = {
        (sample.name, *(sample.labels.get(k) for k in ("evaluator", "direction", "reason", "window"))): sample.value
        for family in text_string_to_metric_families(shown)
        for sample in family.samples
    }
    name = "faithfulness_judge"
    assert found["ragtrace_judge_tokens_total", name, "output", None, None] == 300
    assert found["ragtrace_judge_cost_usd_total", name, None, None, None] == pytest.approx(0.0003)
    assert found["ragtrace_evaluator_errors_total", name, None, "judge_budget", None] == 3
    assert found["ragtrace_judge_budget_usd", None, None, None, "hour"] == 0.00035


def test_a_judge_that_cannot_be_asked_is_an_error_at_start() -> None:
    """`init` says what is missing, before anything is started."""
    with pytest.raises(SettingError, match="model_prices"):
        ragtrace.init(evaluators=["sexism"], judge_model="openai/unheard-of")


def test_a_slow_litellm_does_not_stop_the_start(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, runtimes: list[Runtime]
) -> None:
    """`init` goes on with a warning: the application does not wait for a library of the judge."""
    monkeypatch.setattr("ragtrace.live.init._LOADING", 0)
    runtimes.append(ragtrace.init(evaluators=["sexism"], judge_model="openai/unheard-of", frameworks=()))
    assert "litellm did not load within 0 s" in caplog.text


@pytest.mark.parametrize("name", ["faithfulness_cascade", "ragas_judge"])
def test_a_suite_of_cascades_alone_needs_a_judge_to_start(name: str) -> None:
    """A cascade asks the judge, although its method is that of its local evaluator."""
    with pytest.raises(SettingError, match="judge_model is not set"):
        ragtrace.init(evaluators=[name], prometheus_port=-1)


@evaluator(needs={"answer"}, threshold=0.5, method="model", version="3")
def as_long(trace: Trace) -> float:
    """Tenths of the answer's length."""
    return min(1.0, len(trace.answer) / 10)


def test_a_cascade_asks_where_it_is_in_doubt(scripted: Callable[..., Any]) -> None:
    """Values far from the threshold stand; near it the judge answers, and the score says who did."""
    judge = scripted(claims={"claims": [{"claim": "c", "verdict": "supported"}]})
    made = cascade(as_long, load("faithfulness_judge"), band=lambda: 0.2)
    found = [score for (score,) in run(made, [make_trace(answer="x" * n) for n in (1, 4, 6, 9)])]
    assert [f.method for f in found] == ["model", "judge", "judge", "model"]
    assert [f.value for f in found] == [0.1, 1.0, 1.0, 0.9]
    assert [f.label for f in found] == ["fail", "pass", "pass", "pass"]
    assert {f.name for f in found} == {"as_long_cascade"}
    assert len(judge.asked) == 2
    assert "locally 0.40" in (found[1].explanation or "")
    assert found[1].cost > 0


def test_a_cascade_stands_without_its_judge(scripted: Callable[..., Any]) -> None:
    """Where the judge fails or there is none, the local score stands and says so."""
    scripted(claims=RuntimeError("down"))
    ((score,),) = run(cascade(as_long, load("faithfulness_judge"), band=lambda: 0.2), [make_trace(answer="xxxx")])
    assert (score.value, score.label, score.method) == (0.4, "fail", "model")
    assert "gave none: RuntimeError" in (score.explanation or "")
    use_judge(None)
    ((alone,),) = run(load("faithfulness_cascade"), [make_trace()])
    assert alone.error is None
    assert alone.method == "model"


def test_the_band_follows_the_budget(scripted: Callable[..., Any]) -> None:
    """With half of the hour's money gone at its very beginning the band is half as wide, and nothing left closes it."""
    judge = scripted()
    judge.store = Ledger(hour=1.0, day=100.0, clock=Clock(86_400.0 * 5))
    assert width(Settings()) == pytest.approx(0.05)
    for expected in (0.025, 0.0):
        judge.store.reserve(NANO // 2)
        assert width(Settings()) == pytest.approx(expected)


@pytest.mark.parametrize(("words", "cut"), [(20, False), (20_000, True)])
def test_an_explanation_says_what_was_cut(judging: Callable[..., Judge], words: int, cut: bool) -> None:
    """A context beyond 60,000 characters is read in part, and the score says so."""
    trace = make_trace(documents=[Document("d", "word " * words)])
    with s.serving(s.says(GOOD)) as served:
        judging(served.url)
        ((score,),) = run(load("faithfulness_judge"), [trace])
    assert score.value == 0.5
    assert ("only the first part" in (score.explanation or "")) is cut


@evaluator(needs={"answer"}, threshold=0.5)
def doubtful(trace: Trace) -> float:
    """At its threshold: the judge is asked."""
    return 0.5


doubtful_cascade = cascade(doubtful, load("faithfulness_judge"))


def test_all_workers_have_one_budget(runtimes: list[Runtime], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two processes with money for two requests two are sent; the sum's file goes with the runtime."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(init, "Limits", partial(init.Limits, batch=1))
    capture = Capture()
    with s.serving(s.says(GOOD, tokens=(100, 100))) as served:
        name = f"{__name__}:doubtful_cascade"
        runtime = online(served.url, capture, evaluators=[name], judge_budget_hour=0.00025, workers=2)
        runtimes.append(runtime)
        for i in range(12):
            runtime.pipeline.submit(make_trace(trace_id=i + 1, query=f"Question {i}?"))
        runtime.flush(90.0)
        assert len(capture.evaluations) == 12
        (folder,) = tmp_path.iterdir()
        assert b"Question" not in b"".join(file.read_bytes() for file in folder.iterdir())
        runtime.close(1.0)
    assert len(served.requests) == 2
    scores = [score for e in capture.evaluations for score in e.scores]
    assert sorted((score.method, score.error) for score in scores) == [("code", None)] * 10 + [("judge", None)] * 2
    assert not list(tmp_path.iterdir())
