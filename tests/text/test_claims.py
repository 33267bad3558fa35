"""What an answer claims, and what is only its dress: courtesies, prefaces, citations, abstentions."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragtrace.errors import ModelError
from ragtrace.text import speech_acts
from ragtrace.text.claims import read
from tests.row_files import rows


def claimed(answer: str) -> list[str]:
    reading = read(answer)
    return [" ".join(reading.text[s.start : s.end].split()) for s in reading.claims]


@pytest.mark.parametrize(("answer", "expected"), rows(__file__, "claims"))
def test_claims(answer: str, expected: list[str]) -> None:
    """Facts are claims whatever stands around them; titles, wishes, marks, sources and redirects are none."""
    assert claimed(answer) == expected


@pytest.mark.parametrize(("answer", "expected"), rows(__file__, "kinds"))
def test_kinds(answer: str, expected: list[str]) -> None:
    """What abstains is told from negative facts and from what is stated beside it."""
    assert [statement.kind for statement in read(answer).statements] == expected


@pytest.mark.parametrize("invented", rows(__file__, "an_invented_fact_stays_a_claim_behind_an_abstention"))
def test_an_invented_fact_stays_a_claim_behind_an_abstention(invented: str) -> None:
    """Neither an apology nor a redirect hides an amount, a date, a reason or another statement."""
    for start in ("I couldn't find it.", "I'm sorry, but the manual does not mention this."):
        assert claimed(f"{start} {invented}")


DRESSED = st.lists(st.sampled_from(rows(__file__, "dress"))).map(" ".join)


@settings(max_examples=200, deadline=None)
@given(DRESSED | st.text(max_size=300))
def test_a_reading_keeps_every_place(answer: str) -> None:
    """The blanked text is as long as the answer, but for spaces and apostrophes equal, and statements are in order."""
    reading = read(answer)
    assert len(reading.text) == len(answer)
    plain = answer.replace("\u2019", "'")
    assert all(new in (old, " ") for old, new in zip(plain, reading.text, strict=True))
    last = 0
    for statement in reading.statements:
        assert last <= statement.start < statement.end <= len(answer)
        last = statement.end


@pytest.mark.parametrize(("answer", "text"), rows(__file__, "the_models_read_no_stars"))
def test_the_models_read_no_stars(answer: str, text: str) -> None:
    """Bold and italic words lose their stars and keep their places; code and products keep theirs."""
    assert read(answer).text == text


def test_base64_is_read_as_far_as_prose_of_the_same_cost() -> None:
    """A tokenizer makes three times as many pieces of it: less of it is read, and the rest is not judged."""
    reading = read("\n".join(["65HEZqBGpKhDXlKTTuF4IeQda2TgpB8Vuqow687oKKSU7PSAbS9PQqHgIBln7DyNcL85GAo+"] * 300))
    assert not reading.complete
    assert 8_000 < reading.statements[-1].end < 12_500


@pytest.mark.parametrize(("sentence", "acts"), rows(__file__, "acts"))
def test_a_sentence_is_divided_where_its_parts_do_different_things(sentence: str, acts: list[str]) -> None:
    """Runs cover the sentence, in order; a comma inside a claim divides nothing."""
    found = speech_acts.runs(sentence)
    assert [run.act for run in found] == acts
    assert [(0 if k == 0 else found[k - 1].end) for k in range(len(found))] == [run.start for run in found]
    assert found[-1].end == len(sentence)


def test_bytes_that_are_no_text_are_taken_for_something() -> None:
    for text in ("\ud800 \0", "", " "):
        assert speech_acts.act_of(text) in speech_acts.ACTS


@pytest.mark.parametrize("damage", ["missing", "cut", "altered"])
def test_damaged_weights_are_refused(damage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = bytearray(speech_acts.WEIGHTS.read_bytes())
    path = tmp_path / "speech_acts.gz"
    if damage == "cut":
        path.write_bytes(content[:-2_000])
    if damage == "altered":
        content[len(content) // 2] ^= 255
        path.write_bytes(content)
    monkeypatch.setattr(speech_acts, "WEIGHTS", path)
    with pytest.raises(ModelError, match=r"speech_acts\.gz cannot be read .* reinstall"):
        speech_acts.Classifier()
