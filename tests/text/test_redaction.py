"""What is masked in texts that go out or are shown, and where things stand afterwards."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragtrace.text.redaction import mask_pii, mask_pii_at
from tests.row_files import rows, table
from tests.text.test_decoded_text import VALUES


@pytest.mark.parametrize(("beginning", "piece"), rows(__file__, "runs_that_are_read_once"))
def test_a_long_run_is_read_once(beginning: str, piece: str) -> None:
    """To read the rest again from each character would take minutes, in the thread of the request."""
    text = beginning + piece * (200_000 // len(piece))
    assert mask_pii(f"{text} jane.doe@example.org").endswith(" [email]")


_PIECES = st.sampled_from(["a@b.org", "+49 171 2345678", "DE89 3704 0044 0532 0130 00", "sk-abcdefghijklmnopqrst"])
_GLUE = st.sampled_from([" ", ". ", "word", "\n", "12", "x"])


@given(st.lists(_PIECES | _GLUE, max_size=12))
def test_places_move_with_their_text(pieces: list[str]) -> None:
    """The text is `mask_pii`'s, order is kept, and what was not masked stands where its place says."""
    text = "".join(pieces)
    places = range(len(text) + 1)
    masked, moved = mask_pii_at(text, places)
    assert masked == mask_pii(text)
    found = [moved[place] for place in places]
    assert (found, found[0], found[-1]) == (sorted(found), 0, len(masked))
    for at, char in enumerate(text):
        if moved[at + 1] == moved[at] + 1 and masked[moved[at]] not in "[]":
            assert masked[moved[at]] == char or masked[moved[at] : moved[at] + 1].isalpha()


def test_a_sentence_is_found_again_between_masks() -> None:
    text = "Write to jane@example.org. It is so. Or call +49 171 2345678."
    begin = text.index("It is so.")
    masked, moved = mask_pii_at(text, [begin, begin + 9, 12])
    assert masked[moved[begin] : moved[begin + 9]] == "It is so."
    assert masked[: moved[12]] == "Write to [email]", "within what was masked: the mask's end"


@pytest.mark.parametrize("dress", table(__file__, "dresses").values())
@pytest.mark.parametrize("value", VALUES, ids=str)
def test_what_stands_beside_a_value_is_no_shelter(value: str, dress: str) -> None:
    """A letter of another script or an underscore right beside a value hides it from nothing."""
    text = mask_pii(dress.format(VALUES[value]))
    assert VALUES[value] not in text
    assert not re.search(r"\d{4}", text), text


@pytest.mark.parametrize(("before", "after"), rows(__file__, "typographic_separators"))
@pytest.mark.parametrize("value", ["card", "phone", "iban", "ssn"])
def test_typographic_separators_are_no_shelter(value: str, before: str, after: str) -> None:
    """No-break and thin spaces, en dashes, no-break hyphens, minus signs, and digits of other scripts."""
    full_width = {48 + n: 0xFF10 + n for n in range(10)}
    typed = VALUES[value].replace(before, after) if before else VALUES[value].translate(full_width)
    text = mask_pii(f"It is {typed}.")
    assert typed not in text
    assert not any(c.isdigit() for c in text), text


@pytest.mark.parametrize("text", rows(__file__, "random_words_with_a_secret_s_name_are_masked"))
def test_random_words_with_a_secret_s_name_are_masked(text: str) -> None:
    """A random word that stands behind any secret's name is hidden, whatever the vendor; a hash of a password, too."""
    masked = mask_pii(text)
    assert "[" in masked
    assert not re.search(r"[A-Za-z0-9]{14}", masked.replace("awsSecretKey", "")), masked
