"""What may leave the process: masks for content that goes out on spans and events. Evaluators see the unmasked text."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

_MASKS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("private_key", re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.S)),
    (
        "api_key",
        re.compile(r"\b(?:sk|pk|rk|ghp|gho|ghs|glpat|xox[abp]|AKIA|ASIA|AIza|hf|npm)[-_]?[A-Za-z0-9_\-]{16,200}"),
    ),
    ("jwt", re.compile(r"\beyJ[\w-]{8,2000}\.[\w-]{8,4000}\.[\w-]{0,1000}")),
    ("email", re.compile(r"\b[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,4}")),
    ("iban", re.compile(r"\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?\b")),
    ("number", re.compile(r"(?<!\w)\+?\d(?:[ ().\-/]{0,2}\d){8,18}(?!\w|\.\d)")),
)


def mask_pii(text: str) -> str:
    """Replace what looks like personal data or a secret by its kind: `[email]`, `[number]`, `[api_key]`, …

    Meant to hide rather too much than too little: any nine digits or more are a `[number]` (phone, card, national
    id), checked or not. Linear in the length of the text.
    """
    for kind, pattern in _MASKS:
        text = pattern.sub(f"[{kind}]", text)
    return text


def mask_pii_at(text: str, places: Sequence[int]) -> tuple[str, dict[int, int]]:
    """`mask_pii(text)`, and for each of these offsets into the text where it stands in what comes out: within what was
    masked, at the mask's end."""
    moved = {place: place for place in places}
    for kind, pattern in _MASKS:
        masks = [found.span() for found in pattern.finditer(text)]
        text = pattern.sub(f"[{kind}]", text)
        if masks and moved:
            moved = {place: _after(at, masks, len(kind) + 2) for place, at in moved.items()}
    return text, moved


def _after(at: int, masks: Sequence[tuple[int, int]], length: int) -> int:
    shift = 0
    for start, end in masks:
        if at <= start:
            break
        if at < end:
            return start + shift + length
        shift += length - (end - start)
    return at + shift


BUILT_IN: dict[str, Callable[[str], str]] = {"pii": mask_pii}
"""What the setting `redact` may name; anything else is `module:attribute`."""
