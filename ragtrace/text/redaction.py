"""Masks personal data and secrets in texts that leave the process. Evaluators read the unmasked text."""

from __future__ import annotations

import hmac
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from ragtrace.text.privacy.checks import written
from ragtrace.text.privacy.find import Mask, find_masks

_PASSES = 8
_LAST_WORD = re.compile(r"[\d\s().+/-]*[\w.+@!#$%^&*=/:~-]*\Z")
"""Passes over one text, against inputs that were built to need many."""


def mask_pii(text: str) -> str:
    """Replace what looks like personal data or a secret by its kind: `[email]`, `[number]`, `[api_key]`, …

    It hides everything that the leak checks `pii_leakage` and `sensitive_data_leakage` report, and more: nine digits
    are a `[number]` (phone, card, national id), whether their check digit is right or not. Linear in the text's length.
    """
    return mask_pii_at(text, ())[0]


def mask_beginning(text: str, length: int) -> str:
    """`mask_pii` of a text that was cut to `length` characters. A text of that length loses its last word: the
    beginning of a number, an address or a password no longer looks like one."""
    return mask_pii(_LAST_WORD.sub("", text) if len(text) >= length else text)


def mask_pii_at(
    text: str, places: Sequence[int], replacement: Callable[[str, str], str] | None = None
) -> tuple[str, dict[int, int]]:
    """`mask_pii(text)`, and the new offset of each of these offsets into the text. An offset inside of what is masked
    moves to the end of the mask. `replacement` makes the text of a mask from the item and its kind's placeholder."""
    moved = {place: place for place in places}
    for _ in range(_PASSES):
        # A mask can free its neighbour, which was part of a longer word or was behind another label.
        masks = find_masks(text)
        if not masks:
            break
        if replacement is not None:
            masks = [Mask(m.start, m.end, replacement(text[m.start : m.end], m.placeholder)) for m in masks]
        text = replace_spans(text, masks)
        moved = {place: _after(at, masks) for place, at in moved.items()}
    return text, moved


def replace_spans(text: str, spans: Sequence[tuple[int, int, str]]) -> str:
    """The text with a placeholder in the place of each span (start, end exclusive, placeholder); spans are in order and
    do not overlap."""
    pieces: list[str] = []
    last = 0
    for start, end, placeholder in spans:
        pieces += (text[last:start], placeholder)
        last = end
    return "".join((*pieces, text[last:]))


def _after(at: int, masks: Sequence[Mask]) -> int:
    shift = 0
    for mask in masks:
        if at <= mask.start:
            break
        if at < mask.end:
            return mask.start + shift + len(mask.placeholder)
        shift += len(mask.placeholder) - (mask.end - mask.start)
    return at + shift


# --- the setting `redact` ---------------------------------------------------------------------------------------------

MODES = ("off", "pii", "names", "hash", "metadata_only")
"""The names that the setting `redact` accepts beside `module:attribute`."""


@dataclass(frozen=True, slots=True)
class KeyedHash:
    """Replaces identifiers and email addresses by keyed hashes (HMAC-SHA256): the same value has the same hash wherever
    the key is the same, so sessions can still be joined, and nobody without the key can try values out."""

    key: bytes = field(repr=False)

    def identifier(self, value: str) -> str:
        """`id_` and 20 letters for an identifier, e.g. of a user or a session."""
        return f"id_{self._digest(value)}"

    def text(self, text: str) -> str:
        """`mask_pii(text)` with `[email:` and 20 letters in the place of each email address."""
        return mask_pii_at(text, (), self._placeholder)[0]

    def _placeholder(self, item: str, placeholder: str) -> str:
        if placeholder != "[email]":
            return placeholder
        return f"[email:{self._digest(written(item).strip().lower())}]"

    def _digest(self, value: str) -> str:
        # Letters alone: digits would look like a number to the next pass.
        digest = hmac.digest(self.key, value.encode("utf-8", "replace"), "sha256")[:10]
        return digest.hex().translate(_TO_LETTERS)


_TO_LETTERS = str.maketrans("0123456789abcdef", "ghijklmnopqrstuv")
