"""The passage that a claim is compared with."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ragtrace.models.closest_passage import PASSAGE_CHARS, Segments

FILLER = tuple(f"Room {i} is cleaned on day {i} of the month by the people of shift {i % 3}." for i in range(40))


def test_a_short_context_is_read_whole() -> None:
    """Everything is kept, in its order."""
    assert Segments(["The pump is blue. It hums.", "It weighs 2 kg."]).passage("Blue.") == (
        "The pump is blue. It hums.\n\nIt weighs 2 kg."
    )


def test_of_a_long_context_the_sentences_about_the_claim_are_read() -> None:
    """The sentence with the claim's rare words is in the passage, and the passage is bounded."""
    segments = Segments([" ".join(FILLER), "The boiler must not be opened while it is hot.", " ".join(FILLER)])
    passage = segments.passage("You may open the hot boiler.", "May I open the boiler?")
    assert "The boiler must not be opened while it is hot." in passage
    assert len(passage) <= PASSAGE_CHARS


def test_of_look_alike_chunks_the_named_one_is_read() -> None:
    """A figure is read together with the heading of its chunk."""
    chunks = [
        f"Tariff {name}. " + " ".join(FILLER[:6]) + f" The monthly fee is {fee} euros."
        for name, fee in (("Alder", 12), ("Birch", 17), ("Cedar", 23))
    ]
    passage = Segments(chunks).passage("Tariff Birch has a monthly fee of 17 euros.")
    assert "Tariff Birch." in passage
    assert "17 euros" in passage


def test_a_sentence_without_an_end_is_cut() -> None:
    """One sentence of any length gives a bounded passage."""
    assert 0 < len(Segments(["word, " * 20_000]).passage("A word.")) <= PASSAGE_CHARS


@given(st.lists(st.text()), st.text(), st.text())
def test_any_text_gives_a_passage(chunks: list[str], claim: str, query: str) -> None:
    """No context, claim or question raises, and a passage is bounded."""
    segments = Segments(chunks)
    if segments.texts:
        assert len(segments.passage(claim, query)) <= PASSAGE_CHARS
