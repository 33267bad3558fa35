"""The passage of the context that a claim is compared with: the sentences that share most of its words."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import groupby

from ragtrace.models.answer_features import normal
from ragtrace.text.function_words import FUNCTION_WORDS
from ragtrace.text.sentences import split

PASSAGE_CHARS = 640
"""Characters of a passage at most. As in training."""
CHUNK_BREAK = "\n\n"
"""Between sentences of two chunks; no sentence has one inside."""
_SEGMENT_CHARS = 260
"""A longer sentence is cut at a comma or a semicolon."""
_READ = 400_000
_SEGMENTS = 4_000
_STEM = 5
_WORD = re.compile(r"\w+")
_JOINT = re.compile(r"[,;}\]]\s+")
_OF_QUERY = 0.3
_OF_CHUNK = 0.35
_OF_FIRST = 0.15


class Segments:
    """The sentences of a context with their words, read once for all claims of an answer."""

    def __init__(self, chunks: Sequence[str]) -> None:
        self.texts: list[str] = []
        self.chunk: list[int] = []
        self._words: list[frozenset[str]] = []
        self._rarity: dict[str, float] = {}
        for number, chunk in enumerate(chunks):
            for text in _segments(chunk[:_READ]):
                if len(self.texts) < _SEGMENTS:
                    self.texts.append(text)
                    self.chunk.append(number)
                    self._words.append(stems(text))
        count = Counter(word for words in self._words for word in words)
        self._rarity = {word: math.log(1 + len(self._words) / n) for word, n in count.items()}

    def passage(self, claim: str, query: str = "") -> str:
        """The segments that share the rarest words with the claim and its question, in their order, joined.

        Between segments of two chunks is a CHUNK_BREAK, between others a space.
        """
        if sum(map(len, self.texts)) + len(CHUNK_BREAK) * len(self.texts) <= PASSAGE_CHARS:
            return self._joined(range(len(self.texts)))
        order = sorted(range(len(self.texts)), key=self._worths(stems(claim), stems(query)).__getitem__, reverse=True)
        room, selection = PASSAGE_CHARS, []
        for i in order:
            if len(self.texts[i]) <= room:
                selection.append(i)
                room -= len(self.texts[i]) + len(CHUNK_BREAK)
            if room < 40:
                break
        return self._joined(sorted(selection)) or self.texts[order[0]][:PASSAGE_CHARS]

    def _joined(self, selection: Iterable[int]) -> str:
        of_chunks = groupby(selection, key=self.chunk.__getitem__)
        return CHUNK_BREAK.join(" ".join(self.texts[i] for i in members) for _, members in of_chunks)

    def _worths(self, claim: frozenset[str], query: frozenset[str]) -> list[float]:
        own = [self._worth(words, claim, query) for words in self._words]
        best: dict[int, float] = {}
        words_of: dict[int, set[str]] = {}
        for number, words in zip(self.chunk, self._words, strict=True):
            words_of.setdefault(number, set()).update(words & (claim | query))
        for number, words_of_chunk in words_of.items():
            best[number] = self._worth(frozenset(words_of_chunk), claim, query)
        worths = [worth + _OF_CHUNK * best[number] for worth, number in zip(own, self.chunk, strict=True)]
        for i, number in enumerate(self.chunk):
            if i == 0 or self.chunk[i - 1] != number:  # a chunk's first sentence often says what it is about
                worths[i] += _OF_FIRST * best[number]
        return worths

    def _worth(self, words: frozenset[str], claim: frozenset[str], query: frozenset[str]) -> float:
        rarity = self._rarity
        return sum(rarity[w] for w in words & claim) + _OF_QUERY * sum(rarity[w] for w in (words & query) - claim)


def _segments(chunk: str) -> list[str]:
    segments: list[str] = []
    for span in split(chunk, _SEGMENTS):
        start = span.start
        while span.end - start > _SEGMENT_CHARS:
            cuts = [m.end() for m in _JOINT.finditer(chunk, start + 80, start + _SEGMENT_CHARS)]
            cut = (
                cuts[-1]
                if cuts
                else (chunk.rfind(" ", start + 80, start + _SEGMENT_CHARS) + 1 or start + _SEGMENT_CHARS)
            )
            segments.append(chunk[start:cut].strip())
            start = cut
        segments.append(chunk[start : span.end].strip())
    return [s for s in segments if s]


def stems(text: str) -> frozenset[str]:
    """The first five letters of each word that carries meaning, small numbers as digits."""
    return frozenset(w[:_STEM] for w in map(normal, _WORD.findall(text)) if w not in FUNCTION_WORDS)
