"""What is masked in texts that go out or are shown, and where things stand afterwards."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragtrace.text.redaction import mask_pii, mask_pii_at


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("Call +49 171 2345678.", "Call [number]."),
        ("Call +49 171 2345678. Now.", "Call [number]. Now."),
        ("tel.0171 2345678, please", "tel.[number], please"),
        ("It is 4111 1111 1111 1111!", "It is [number]!"),
        ("at 192.0.2.1:8400 and 0.123", "at [ip_address]:8400 and 0.123"),
        ("at 127.0.0.1:8400, version 3.10.2", "at 127.0.0.1:8400, version 3.10.2"),
        ("Call me at 555 1234.", "Call me at [number]."),
        ("The password is hunter2!x", "The password is [secret]"),
        ("post to hooks.slack.com/services/" + "T0AB12CD3" * 5, "post to [webhook]"),
        ("postgres://app:s3cr3tPw@db.internal/x", "[url_password]"),
        ("The password is required, the key to success.", "The password is required, the key to success."),
        ("in 2026 there were 12345678", "in 2026 there were 12345678"),
        ("jane.doe@example.org wrote", "[email] wrote"),
        ("pay DE89 3704 0044 0532 0130 00 now", "pay [iban] now"),
        ("sk-abcdefghijklmnopqrstuvwxyz", "[api_key]"),
    ],
)
def test_what_is_masked(text: str, masked: str) -> None:
    """Addresses, phones, long numbers, accounts, keys and passwords, also at the end of a sentence; no other short
    numbers, and no words."""
    assert mask_pii(text) == masked


_PIECES = st.sampled_from(
    [
        "a@b.org",
        "+49 171 2345678",
        "DE89 3704 0044 0532 0130 00",
        "sk-abcdefghijklmnopqrst",
        " ",
        ". ",
        "word",
        "\n",
        "12",
        "x",
    ]
)


@given(st.lists(_PIECES, max_size=12))
def test_places_move_with_their_text(pieces: list[str]) -> None:
    """The text is `mask_pii`'s, order is kept, and what was not masked stands where its place says."""
    text = "".join(pieces)
    places = range(len(text) + 1)
    masked, moved = mask_pii_at(text, places)
    assert masked == mask_pii(text)
    found = [moved[place] for place in places]
    assert found == sorted(found)
    assert found[0] == 0
    assert found[-1] == len(masked)
    for at, char in enumerate(text):
        if moved[at + 1] == moved[at] + 1 and masked[moved[at]] not in "[]":
            assert masked[moved[at]] == char or masked[moved[at] : moved[at] + 1].isalpha()


def test_a_sentence_is_found_again_between_masks() -> None:
    """Its offsets lead to the same words."""
    text = "Write to jane@example.org. It is so. Or call +49 171 2345678."
    begin = text.index("It is so.")
    masked, moved = mask_pii_at(text, [begin, begin + 9, 12])
    assert masked[moved[begin] : moved[begin + 9]] == "It is so."
    assert masked[: moved[12]] == "Write to [email]", "within what was masked: the mask's end"
