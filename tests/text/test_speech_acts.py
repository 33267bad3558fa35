"""What the parts of a sentence do, and the file of the weights that tell."""

from __future__ import annotations

from pathlib import Path

import pytest

from ragtrace.errors import ModelError
from ragtrace.text import speech_acts


@pytest.mark.parametrize(
    ("sentence", "acts"),
    [
        ("Have a nice day, and do not forget that the shop closes at 6 pm.", ["courtesy", "claim"]),
        ("The pages don't say, so please ask the reception.", ["abstention", "redirect"]),
        ("I could not find the price, but the valve opens at 3 bar.", ["abstention", "claim"]),
        ("The fee, the tax and the rent are due on Monday.", ["claim"]),
    ],
)
def test_a_sentence_is_divided_where_its_parts_do_different_things(sentence: str, acts: list[str]) -> None:
    """Runs cover the sentence, in order; a comma inside a claim divides nothing."""
    found = speech_acts.runs(sentence)
    assert [run.act for run in found] == acts
    assert [(0 if k == 0 else found[k - 1].end) for k in range(len(found))] == [run.start for run in found]
    assert found[-1].end == len(sentence)


def test_bytes_that_are_no_text_are_taken_for_something() -> None:
    """Lone surrogates, NUL, and nothing at all."""
    for text in ("\ud800 \0", "", " "):
        assert speech_acts.act_of(text) in speech_acts.ACTS


@pytest.mark.parametrize("damage", ["missing", "cut", "altered"])
def test_damaged_weights_are_refused(damage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the file and what to do."""
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
