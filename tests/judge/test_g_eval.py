"""G-Eval: steps once, ratings weighted by probabilities, samples where there are none; and prompts of one's own."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from ragtrace import plugins
from ragtrace.evaluate.critics import byop
from ragtrace.evaluate.g_eval import expected, g_eval_of
from ragtrace.evaluate.judge import Judge
from ragtrace.evaluation import run
from ragtrace.testing import make_trace
from tests.judge import server as s


def test_expected_rating() -> None:
    """Tokens that are no rating do not count; the rest are scaled to sum to 1."""
    assert expected([("5", math.log(0.5)), ("1", math.log(0.25)), ("maybe", -0.1)]) == pytest.approx(11 / 3)
    assert expected([("5", 0.0), (" 5", -1.0)]) == 5.0
    assert expected([("yes", 0.0)]) is None
    assert expected([]) is None


def test_samples_where_there_are_no_probabilities(scripted: Callable[..., Any]) -> None:
    """Ten answers at temperature 1, their mean; what holds no rating is left out; none at all is a parse failure."""
    answers = ["4", "Rating: 5", "4/5", "no idea", "3", "4", "4", "4", "4", "12"]
    judge = scripted(g_eval_steps={"steps": ["Look."]}, g_eval=list(answers))
    judge.gives_logprobs = False
    ((score,),) = run(plugins.load("g_eval"), [make_trace()])
    assert score.value == pytest.approx((4.0 - 1) / 4)
    assert "8 samples" in (score.explanation or "")
    assert [sample for name, _, sample in judge.asked if name == "g_eval"] == list(range(1, 11))
    judge.answers["g_eval"] = ["hm"] * 10
    ((none,),) = run(plugins.load("g_eval"), [make_trace()])
    assert (none.value, none.error) == (None, "parse_failure")


def test_steps_are_written_once_and_not_where_they_are_given(judging: Callable[..., Judge]) -> None:
    """Two traces ask for steps once; with steps of one's own nothing is asked for them."""
    top = [("4", -0.1), ("5", -2.5)]
    steps = s.says('{"steps": ["Read it.", "Compare."]}')
    with s.serving(steps, s.says("4", top=top)) as served:
        judging(served.url, judge_concurrency=1)
        own = g_eval_of("Is it short?", name="short", needs=("answer",))
        found = run(own, [make_trace(answer="a"), make_trace(answer="b")])
        assert [len(scores) for scores in found] == [1, 1]
        assert len(served.requests) == 3
        assert "Compare." in served.requests[1]["messages"][1]["content"]
        assert served.requests[1]["top_logprobs"] == 10
        given = g_eval_of("Is it short?", name="shorter", steps=["Count the words."], needs=("answer",))
        ((score,),) = run(given, [make_trace(answer="a")])
        assert len(served.requests) == 4
    p5 = math.exp(-2.5) / (math.exp(-0.1) + math.exp(-2.5))
    assert score.value == pytest.approx((4 + p5 - 1) / 4)
    assert score.name == "shorter"


def test_a_prompt_of_ones_own(scripted: Callable[..., Any]) -> None:
    """It sees what it names, its answer is the verdict, and one that names nothing is refused."""
    judge = scripted(polite={"verdict": True})
    check = byop("Is {actual_answer} a polite reply to {question}? true or false", name="polite")
    assert check.needs == {"answer", "query"}
    ((score,),) = run(check, [make_trace()])
    assert (score.value, score.label) == (1.0, "pass")
    assert judge.asked[0][1]["question"] == make_trace().query
    with pytest.raises(ValueError, match="no fields"):
        byop("Is it good?")
    with pytest.raises(ValueError, match="answer"):
        byop("Is {answer} good?")
