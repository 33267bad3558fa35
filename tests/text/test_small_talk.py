"""Turns that ask nothing of documents."""

from __future__ import annotations

import pytest

from ragtrace.text.words import asks_nothing
from tests.row_files import rows


@pytest.mark.parametrize("query", rows(__file__, "small_talk_asks_nothing"))
def test_small_talk_asks_nothing(query: str) -> None:
    """There is nothing in it that a chunk could be about."""
    assert asks_nothing(query)


@pytest.mark.parametrize(
    "query", ["", "Who won?", "wifi?", "and on Sundays?", "My screen stays black.", "X200", "How much is 7?", "退款"]
)
def test_a_subject_is_asked_about(query: str) -> None:
    """One word that names a subject is enough."""
    assert not asks_nothing(query)
