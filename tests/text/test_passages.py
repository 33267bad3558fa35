"""An answer's pieces whose relevance is measured: sentences, and lists and tables as one; turns that ask nothing."""

import pytest

from ragtrace.text.sentences import passages, split
from ragtrace.text.words import asks_nothing
from tests.row_files import rows


def pieces(text: str) -> list[str]:
    return [text[s.start : s.end] for s in passages(text)]


@pytest.mark.parametrize("text", rows(__file__, "a_list_is_one_passage"))
def test_a_list_is_one_passage(text: str) -> None:
    """Its lines name no subject alone; the line that announces them belongs to it."""
    assert pieces(text) == [text]


def test_sentences_stay_apart() -> None:
    assert pieces("The lid is blue. The filter is white.") == ["The lid is blue.", "The filter is white."]
    texts = ["The filter is white.", "You need:\n- a brush\n- warm water", "The lid is blue and needs no care at all."]
    assert pieces("{}\n{}\n\n{}".format(*texts)) == texts


def test_a_long_list_is_cut() -> None:
    entries = pieces("\n".join(f"- entry {i} of the long list of spare parts" for i in range(40)))
    assert 1 < len(entries) < 40
    assert max(map(len, entries)) <= 400


def test_only_code() -> None:
    assert len(pieces("```python\nx = 3\n```")) == 1
    assert max(map(len, pieces("```\n" + "x = [1, 2];" * 200 + "\n```"))) <= 400
    assert pieces("") == []


@pytest.mark.parametrize("marks", ["?", ".", "…", ".)", "?\"'"])
def test_a_long_run_of_marks_is_read_in_one_pass(marks: str) -> None:
    """400,000 marks in a row are one sentence, found before the test's time is up."""
    text = marks * (400_000 // len(marks))
    assert (split(f"{text}x"), len(split(f"{text} Next."))) == ([(0, len(text) + 1)], 2)


@pytest.mark.parametrize("query", rows(__file__, "small_talk_asks_nothing"))
def test_small_talk_asks_nothing(query: str) -> None:
    assert asks_nothing(query)


@pytest.mark.parametrize("query", rows(__file__, "a_subject_is_asked_about"))
def test_a_subject_is_asked_about(query: str) -> None:
    assert not asks_nothing(query)
