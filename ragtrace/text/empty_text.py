"""Whether a text says anything at all."""

from __future__ import annotations

import re

_WORD = re.compile(r"\w+")
_READ = 8_000
_REPEATED = 4
"""Mean number of times that an answer repeats each of its words, from which it says nothing."""


def is_empty(text: str) -> str | None:
    """Why a text says nothing, in a few words: it is blank, has signs only, or one word again and again. None where it
    says something."""
    if not text.strip():
        return "the answer is blank"
    words = _WORD.findall(text[:_READ].lower())
    if not words:
        return "the answer has no word"
    if len(words) >= _REPEATED and len(set(words)) <= len(words) / _REPEATED and len(set(words)) <= 2:
        return "the answer repeats one word"
    return None
