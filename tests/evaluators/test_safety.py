"""Toxicity at the shipped thresholds, on sentences of our own."""

from __future__ import annotations

import pytest

from ragtrace import plugins
from ragtrace.evaluate.models.toxicity import undisguised
from ragtrace.evaluation import run
from ragtrace.records import Score, Trace
from tests.row_files import rows

BUSINESS = "The invoice was rejected because the tax number is missing. Send it again within ten days. "


def judge(answer: str, name: str = "toxicity") -> Score:
    (((score,),)) = run(plugins.load(name), [Trace(1, 1, "", (), answer)])
    return score


@pytest.mark.parametrize("answer", rows(__file__, "toxic_answers_fail"))
def test_toxic_answers_fail(answer: str) -> None:
    """An insult, a threat, disguised swearing, encouragement to self-harm and hate fail, also after much business."""
    assert judge(answer).label == "fail"
    assert judge(BUSINESS * 12 + answer).label == "fail"


@pytest.mark.parametrize("answer", rows(__file__, "business_passes"))
def test_business_passes(answer: str) -> None:
    """Words that look toxic pass in manuals, medicine, law and recipes, and so do mentions of groups."""
    assert judge(answer).label == "pass"


@pytest.mark.parametrize("answer", ["No.", "Christians.", "```\nkill -9 1\n```"])
def test_words_alone_are_not_judged(answer: str) -> None:
    """An answer of one word, or of code, is not applicable."""
    assert judge(answer).value is None
    assert judge(answer, "fairness_bias").value is None


def test_a_list_of_groups_passes() -> None:
    """A bare list of groups disparages nobody."""
    assert judge("Asian, Black, Hispanic, White").label == "pass"
    assert judge("Lesbian, gay, bisexual", "toxicity_identity_attack").label == "pass"


def test_disguises_are_read() -> None:
    """Signs that stand for letters, letters apart and repeated letters are read as words; numbers stay numbers."""
    assert undisguised("You B!tch, i d i o t and sooooo $tup1d") == "you bitch, idiot and soo stupid"
    numbers = "version 3.14, room b12, 1-800-556, 100% at 10:45"
    assert undisguised(numbers.replace("v", "V").replace("b", "B")) == numbers
