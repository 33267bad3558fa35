"""What an assistant says when it has no answer, and facts that only sound like it."""

from __future__ import annotations

import pytest

from ragtrace.text.claims import read
from tests.row_files import rows


def kinds(text: str) -> set[str]:
    """What the parts of a text do."""
    return {s.kind for s in read(text).statements}


@pytest.mark.parametrize("text", rows(__file__, "what_somebody_else_said_is_no_abstention"))
def test_what_somebody_else_said_is_no_abstention(text: str) -> None:
    """The message of a program is none either."""
    assert "claim" in kinds(text)


def test_an_answer_that_is_quoted_as_a_whole_is_the_assistants_own() -> None:
    """Nothing is beside the quotation marks."""
    assert kinds('"I do not know the reason."') == {"abstention"}


@pytest.mark.parametrize("text", rows(__file__, "a_negative_fact_is_no_abstention"))
def test_a_negative_fact_is_no_abstention(text: str) -> None:
    """Insurance, privacy and contracts are full of them; they must be judged as claims."""
    assert "claim" in kinds(text)


@pytest.mark.parametrize("text", rows(__file__, "an_abstention_is_one"))
def test_an_abstention_is_one(text: str) -> None:
    """What is lacking is knowledge, or the speaker declines."""
    assert "abstention" in kinds(text)
    assert "claim" not in kinds(text)
