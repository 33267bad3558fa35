"""Evaluators hold their settings: two of them in one process may have different ones; and those of the leak checks."""

from collections.abc import Iterator
from typing import Any

import pytest

from ragtrace import plugins
from ragtrace.errors import SettingError
from ragtrace.evaluate.cascade import cascade
from ragtrace.evaluate.judge import use_judge
from ragtrace.evaluation import configure, evaluator, run
from ragtrace.records import Score, Trace
from ragtrace.settings import Settings, for_evaluators, load
from ragtrace.testing import ScriptedJudge, make_trace
from tests.evaluators.test_evaluators import score


@pytest.fixture
def judge() -> Iterator[ScriptedJudge]:
    fails = {"answer_fails": True, "context_fails": False, "reason": ""}
    scripted: Any = ScriptedJudge({"judge": {"verdict": True}, "sexism": fails})
    use_judge(scripted)
    yield scripted
    use_judge(None)


def test_two_evaluators_of_one_name_have_settings_of_their_own(judge: ScriptedJudge) -> None:
    for prompt in ("Is {actual_answer} short?", "Is {actual_answer} an answer to {question}?"):
        run(plugins.load("judge", Settings(judge_prompt=prompt)), [make_trace()])
    assert ["context" in fields or "question" in fields for _, fields, _ in judge.asked] == [True, True]
    ((score,),) = run(plugins.load("judge", Settings()), [make_trace()])
    assert score.error == "no_prompt"


@evaluator(needs={"answer"}, threshold=0.5)
def band(trace: Trace, *, settings: Settings) -> Score:
    return Score("band", settings.judge_budget_hour, explanation=settings.model("likelihood"))


def test_a_function_gets_settings_by_a_keyword() -> None:
    """A keyword-only parameter `settings` is filled; settings that an evaluator has are kept."""
    own = configure(band, Settings(judge_budget_hour=0.25, models={"likelihood": "one"}))
    ((score,),) = run(configure(own, Settings(judge_budget_hour=0.75)), [make_trace()])
    assert (score.value, score.explanation) == (0.25, "one")
    assert own(make_trace()).value == 0.25


def test_without_settings_the_environment_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAGTRACE_JUDGE_BUDGET_HOUR", "0.125")
    ((score,),) = run(band, [make_trace()])
    assert score.value == 0.125


@pytest.mark.parametrize(("width", "method"), [(0.5, "judge"), (0.1, "code")])
def test_a_cascade_hands_its_settings_down(judge: ScriptedJudge, width: float, method: str) -> None:
    own = cascade(band, plugins.load("sexism"), band=lambda: width)
    check = configure(own, Settings(judge_budget_hour=0.75, models={"likelihood": "two"}))
    ((score,),) = run(check, [make_trace()])
    assert score.method == method
    assert (score.value == 0.0) is (method == "judge")
    assert ("two" in (score.explanation or "")) is (method == "code")


def test_public_contacts_never_fail() -> None:
    settings = Settings(public_contacts=("acme.io", "+49 30 1234567"))
    answer = "Write to jane.doe@acme.io or call 030 / 123 45 67."
    for name in ("pii_leakage", "contact_information"):
        passes = score(name, settings, documents=["jane.doe@acme.io"], answer=answer)
        assert (passes.label, passes.explanation) == ("pass", None)
        assert score(name, settings, answer=answer + " Or jane@other.org.").label == "fail"


def test_leaks_from_context_can_be_allowed_by_kind() -> None:
    """What the chunks show and the setting allows passes and is named; what the model adds fails as the model's."""
    settings = Settings(leaks_from_context=("email",))
    chunk, mail, card = "Known: jane.doe@acme.io", "jane.doe@acme.io", "4111 1111 1111 1111"
    passes = score("pii_leakage", settings, documents=[chunk], answer=f"It is {mail}.")
    assert (passes.label, passes.cause, passes.failures) == ("pass", None, ())
    assert passes.explanation == "retrieval: 1 email in the chunks; allowed from the chunks: 1 email"
    invented = score("pii_leakage", settings, documents=["Nothing."], answer=f"It is {mail}.")
    assert (invented.label, invented.cause) == ("fail", "leak_by_model")
    mixed = score("pii_leakage", settings, documents=[f"{chunk} {card}"], answer=f"It is {mail}, {card}.")
    assert (mixed.label, mixed.cause) == ("fail", "leak_from_context")
    assert "credit_card at 24-43 (from the chunks)" in (mixed.explanation or "")
    everything = Settings(leaks_from_context=("personal",))
    assert score("pii_leakage", everything, documents=[f"{chunk} {card}"], answer=f"{mail}, {card}").label == "pass"
    assert score("pii_leakage", Settings(leaks_from_context=("mail",))).error == "SettingError"


def test_the_settings_reach_other_processes() -> None:
    models = {"toxicity": "detoxify:original", "pii": "presidio", "embedding": "/models/version=3,a/e5"}
    contacts = ("acme.io", "+49 30 1")
    chosen = Settings(public_contacts=contacts, leaks_from_context=("email",), phone_regions=("DE",), models=models)
    for settings in (chosen, Settings()):
        assert load(environ=for_evaluators(settings)) == settings


def test_a_region_that_is_none_is_refused() -> None:
    with pytest.raises(SettingError, match="phone_regions has 'Germany'; give ISO 3166 codes"):
        load({"phone_regions": ["Germany"]}, environ={})
