"""Masks personal data and secrets in texts that leave the process. Evaluators read the unmasked text."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ragtrace.text.personal_data import Mask, find_masks

_PASSES = 8
"""Passes over one text, against inputs that were built to need many."""


def mask_pii(text: str) -> str:
    """Replace what looks like personal data or a secret by its kind: `[email]`, `[number]`, `[api_key]`, …

    It hides everything that the leak checks `pii_leakage` and `sensitive_data_leakage` report, and more: nine digits
    are a `[number]` (phone, card, national id), whether their check digit is right or not. Linear in the text's length.
    """
    return mask_pii_at(text, ())[0]


def mask_pii_at(text: str, places: Sequence[int]) -> tuple[str, dict[int, int]]:
    """`mask_pii(text)`, and the new offset of each of these offsets into the text. An offset inside of what is masked
    moves to the end of the mask."""
    moved = {place: place for place in places}
    for _ in range(_PASSES):
        # A mask can free its neighbour, which was part of a longer word or stood behind another label.
        masks = find_masks(text)
        if not masks:
            break
        text = _masked(text, masks)
        moved = {place: _after(at, masks) for place, at in moved.items()}
    return text, moved


def _masked(text: str, masks: Sequence[Mask]) -> str:
    pieces: list[str] = []
    last = 0
    for mask in masks:
        pieces += (text[last : mask.start], mask.placeholder)
        last = mask.end
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


BUILT_IN: dict[str, Callable[[str], str]] = {"pii": mask_pii}
"""The names that the setting `redact` accepts; anything else is `module:attribute`."""
