"""Long texts in pieces that a model can read."""

import re
from collections.abc import Callable, Sequence

from ragtrace.text.sentences import split

_WORD = re.compile(r"\w{3,}")


def windows(text: str, room: int, tokens: Callable[[str], int]) -> list[str]:
    """The text in pieces of at most `room` tokens, cut at white space where there is some; each but the first begins
    in the last quarter of the one before, so that each sentence or two is whole in one of them."""
    if tokens(text) <= room:
        return [text]
    size = max(1, len(text) * room // tokens(text))
    pieces = []
    start = 0
    while start < len(text):
        end = min(len(text), start + size)
        while end > start + 1 and tokens(text[start:end]) > room:
            end = start + max(1, (end - start) * 4 // 5)
        if end < len(text):
            end = _space(text, start + (end - start) // 2, end)
        pieces.append(text[start:end])
        if end == len(text):
            break
        start = max(start + 1, _space(text, start + (end - start) // 2, end - (end - start) // 4))
    return pieces


def _space(text: str, low: int, high: int) -> int:
    """The end of the last word between two places; the second place where there is no white space."""
    for i in range(high, low, -1):
        if text[i - 1].isspace():
            return i
    return high


def passages(text: str, room: int, size: Callable[[str], int]) -> list[str]:
    """The text in pieces of whole sentences, each of at most `room` by `size`; a longer sentence is a piece alone."""
    pieces: list[str] = []
    start = end = used = 0
    for sentence in split(text):
        length = size(text[sentence.start : sentence.end])
        if used and used + length > room:
            pieces.append(text[start:end])
            start, used = sentence.start, 0
        used += length
        end = sentence.end
    return [*pieces, text[start:end]] if used else pieces


def nearest(pieces: Sequence[str], text: str, most: int) -> list[str]:
    """At most so many of the pieces, in order: those that share most words with a text."""
    if len(pieces) <= most:
        return list(pieces)
    words = set(_WORD.findall(text.lower()))
    shared = [len(words & set(_WORD.findall(piece.lower()))) for piece in pieces]
    best = sorted(range(len(pieces)), key=lambda i: -shared[i])[:most]
    return [pieces[i] for i in sorted(best)]
