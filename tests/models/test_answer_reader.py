"""The reader's inputs: sentences of chunks, which of them are read, and windows of answers."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest.mock import MagicMock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragtrace.base.lazy import groups_of
from ragtrace.errors import ModelError
from ragtrace.evaluate import models
from ragtrace.evaluate.models.answer_reader import _WINDOW, AnswerSupport, Question, Reader, _parts, reader
from ragtrace.evaluate.models.evidence import QUESTION, Chunks, joined, passage, stems

TABLE = "# Prices\n| ticket | price |\n|---|---|\n| day | 12 euros |\n| week | 40 euros |"


def chunks() -> Chunks:
    return reader().chunks


def assess(question: str, answer: str, contexts: Sequence[str], spans: Sequence[tuple[int, int]] = ()) -> AnswerSupport:
    """What the reader makes of an answer, as one statement or as those at `spans`."""
    support = reader().assess(Question(question, answer, list(spans) or [(0, len(answer))], contexts))
    assert support is not None
    return support


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=600))
def test_sentences_stand_where_they_say(text: str) -> None:
    """They lie inside the chunk, in order, and each has word pieces and a head that comes before it."""
    last = 0
    for number, sentence in enumerate(chunks().sentences(text)):
        assert last <= sentence.start <= sentence.end <= len(text)
        assert 0 < len(sentence.ids) <= 64
        assert 0 <= sentence.head <= number
        last = sentence.start


def test_a_row_of_a_table_brings_the_names_of_its_columns() -> None:
    """Only one row fits beside the rest, and its columns' names come along."""
    filler = " ".join(f"The museum shop sells postcards of painting number {i}." for i in range(60))
    evidence = chunks().evidence([filler, TABLE], "What does a week ticket cost?", "40 euros.", 60)
    read = chunks().tokenizer.decode(evidence.ids)
    assert "| week | 40 euros |" in read
    assert "| ticket | price |" in read
    assert evidence.share < 1


def test_a_short_context_is_read_whole() -> None:
    evidence = chunks().evidence(["One two.", "Three four. Five."], "", "nothing")
    assert ([place[2:] for place in evidence.places], evidence.share) == ([(0, 0), (1, 0), (1, 1)], 1.0)
    assert len(evidence.ids) > sum(b - a for a, b, _, _ in evidence.places)


def test_a_wrong_value_is_shown_beside_the_chunk_that_was_asked_about() -> None:
    """And not beside the look-alike that it was taken from."""
    lamps = ["The Alba lamp. Its bulb lasts 15,000 hours.", "The Nova lamp. Its bulb lasts 25,000 hours."]
    divided = [chunks().sentences(lamp) for lamp in lamps]
    claim = "The bulb lasts 25,000 hours."
    everything = {(0, 0), (0, 1), (1, 0), (1, 1)}
    assert passage(divided, everything, "How long does the bulb of the Alba lamp last?", claim, "25,000") == (0, 1)
    assert passage(divided, {(0, 0), (1, 0)}, "How long does the Alba lamp last?", claim, "25,000") == (0, 0)
    assert passage(divided, everything, "", "Bananas ripen.", "Bananas") is None


def test_the_end_of_a_long_question_is_read() -> None:
    question = list(range(10, 200))
    ids = joined([5], question, [7])
    assert len(ids) == 3 + QUESTION + 3
    assert question[-1] in ids
    assert question[0] not in ids


def test_stems_are_of_content_words() -> None:
    """Five letters, in lower case."""
    assert stems("The Warranties of 1.5 pumps") == {"warra", "1.5", "pumps"}


def test_windows_hold_whole_statements() -> None:
    """A statement longer than a window is in several parts; others are read together while they fit."""
    parts = _parts([(i, i + 1) for i in range(300)], [(0, 20), (20, 60), (60, 290)])
    assert [k for k, _ in parts] == [0, 1, 2, 2, 2]
    assert [i for _, part in parts for i in part] == list(range(290))
    windows = groups_of(parts, lambda part: len(part[1]), _WINDOW)
    assert [[k for k, _ in window] for window in windows] == [[0, 1], [2], [2], [2]]


def test_the_question_decides_between_look_alikes() -> None:
    """The same answer over the same chunks is right for one question and wrong for another."""
    contexts = (
        "Model A: the filter is changed every 3 months. Its warranty lasts 24 months.",
        "Model B: the filter is changed every 6 months. Its warranty lasts 36 months.",
    )
    answer = "The warranty lasts 36 months."
    right, wrong = (
        assess(f"How long is the warranty of model {model}?", answer, contexts).statements[0] for model in "BA"
    )
    assert right.supported > 0.6
    assert wrong.supported < 0.4
    assert wrong.contradicted > wrong.unsupported


def test_wrong_words_are_whole_content_words() -> None:
    context = "The shop opens at nine in the morning. It closes at five."
    right, wrong = "The shop opens at nine.", "The shop opens at ten."
    assert assess("When does the shop open?", right, [context]).statements[0].spans == ()
    spans = assess("When does the shop open?", wrong, [context]).statements[0].spans
    assert "ten" in [wrong[a:b] for a, b in spans]


def test_a_wrong_claim_does_not_fail_its_neighbours() -> None:
    context = "The pump is blue. Its warranty lasts 24 months. The filter is white."
    answer = "The pump is blue. Its warranty lasts 90 months. The filter is white."
    found = assess("Tell me about the pump.", answer, [context], [(0, 17), (18, 47), (48, 68)])
    assert [s.supported > 0.5 for s in found.statements] == [True, False, True]


def test_threads_share_a_reader() -> None:
    questions = [("", text, ["The pump is blue."]) for text in ("The pump is blue.", "The pump is red.")] * 4
    alone = [assess(*question) for question in questions[:2]] * 4
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda question: assess(*question), questions)) == alone


def test_a_damaged_file_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "reader.onnx").write_bytes(b"something else")
    for name in ("reader_words.npz", "reader_tokenizer.json", "reader_calibration.json"):
        (tmp_path / name).write_bytes((models._DATA / name).read_bytes())
    monkeypatch.setattr(models, "_DATA", tmp_path)
    with pytest.raises(ModelError, match=r"reader model's file .* has sha256 .*reinstall"):
        Reader()


def test_a_long_answer_that_is_wrong_keeps_nobody_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """However long it is, it is read some hundred times; each of its claims is assessed."""
    monkeypatch.setattr(reader(), "read", read := MagicMock(side_effect=reader().read))
    sentences = [f"The ferry to the island leaves at {number} and takes nine hours. " for number in range(100, 500)]
    spans = [(at, at + len(sentences[0])) for at in range(0, 400 * len(sentences[0]), len(sentences[0]))]
    support = assess("When?", "".join(sentences), ["The museum opens at ten."], spans)
    assert len(support.statements) == 400
    assert 50 < read.call_count < 64 + 80
    assert support.ungrounded > 0.5
