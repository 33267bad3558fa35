"""What tests of personal data and secrets ask of a text."""

from __future__ import annotations

from ragtrace.text.privacy.find import find_masks, find_secrets


def is_masked(text: str, value: str) -> bool:
    """Whether a mask hides the whole first occurrence of a value."""
    start = text.index(value)
    return any(mask.start <= start and start + len(value) <= mask.end for mask in find_masks(text))


def is_found_and_masked(text: str, secret: str) -> bool:
    """Whether the whole first occurrence of a secret is reported and masked."""
    start = text.index(secret)
    is_reported = any(match.start <= start and start + len(secret) <= match.end for match in find_secrets(text))
    return is_reported and is_masked(text, secret)
