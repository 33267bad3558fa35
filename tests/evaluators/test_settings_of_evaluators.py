"""Evaluators hold their settings: two of them in one process may have different ones."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from ragtrace import plugins
from ragtrace.evaluate.cascade import cascade
from ragtrace.evaluate.judge import use_judge
from ragtrace.evaluation import configure, evaluator, run
from ragtrace.records import Score, Trace
from ragtrace.settings import Settings
from ragtrace.testing import ScriptedJudge, make_trace


@pytest.fixture
def judge() -> Iterator[ScriptedJudge]:
    fails = {"answer_fails": True, "context_fails": False, "reason": ""}
    scripted: Any = ScriptedJudge({"judge": {"verdict": True}, "sexism": fails})
    use_judge(scripted)
    yield scripted
    use_judge(None)


def test_two_evaluators_of_one_name_have_settings_of_their_own(judge: ScriptedJudge) -> None:
    """The same evaluator is loaded with two prompts; each is asked, and a third one has none."""
    for prompt in ("Is {actual_answer} short?", "Is {actual_answer} an answer to {question}?"):
        run(plugins.load("judge", Settings(judge_prompt=prompt)), [make_trace()])
    assert ["context" in fields or "question" in fields for _, fields, _ in judge.asked] == [True, True]
    ((score,),) = run(plugins.load("judge", Settings()), [make_trace()])
    assert score.error == "no_prompt"


@evaluator(needs={"answer"}, threshold=0.5)
def band(trace: Trace, *, settings: Settings) -> Score:
    """The value of a setting."""
    return Score("band", settings.judge_budget_hour, explanation=settings.model("likelihood"))


def test_a_function_gets_settings_by_a_keyword() -> None:
    """A keyword-only parameter `settings` is filled; settings that an evaluator has are kept."""
    own = configure(band, Settings(judge_budget_hour=0.25, models={"likelihood": "one"}))
    ((score,),) = run(configure(own, Settings(judge_budget_hour=0.75)), [make_trace()])
    assert (score.value, score.explanation) == (0.25, "one")
    assert own(make_trace()).value == 0.25


def test_without_settings_the_environment_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """An evaluator that was given none reads them when it runs."""
    monkeypatch.setenv("RAGTRACE_JUDGE_BUDGET_HOUR", "0.125")
    ((score,),) = run(band, [make_trace()])
    assert score.value == 0.125


@pytest.mark.parametrize(("width", "method"), [(0.5, "judge"), (0.1, "code")])
def test_a_cascade_hands_its_settings_down(judge: ScriptedJudge, width: float, method: str) -> None:
    """The local evaluator, the band and the judge's evaluator have the settings of the cascade."""
    own = cascade(band, plugins.load("sexism"), band=lambda: width)
    check = configure(own, Settings(judge_budget_hour=0.75, models={"likelihood": "two"}))
    ((score,),) = run(check, [make_trace()])
    assert score.method == method
    assert (score.value == 0.0) is (method == "judge")
    assert ("two" in (score.explanation or "")) is (method == "code")
