"""A claim aligned with the sentences of the passage that is closest to it."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ragtrace.models.claim_words import Words, likeness, read_words
from ragtrace.models.closest_passage import CHUNK_BREAK
from ragtrace.text.sentences import split

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_SENTENCES = 40
"""Sentences of a passage that are read."""


@dataclass(frozen=True, slots=True)
class AlignedClaim:
    """A claim, its question, and the sentences of its passage."""

    claim: Words
    query: Words
    sentences: tuple[Words, ...]
    alike: tuple[NDArray[np.float32], ...]
    """Per sentence `likeness` of the claim and it."""
    rarity: NDArray[np.float32]
    """Per content word of the claim: how rare it is in the passage."""
    cover: tuple[NDArray[np.float32], ...]
    """Per sentence and content word of the claim the highest likeness."""
    covered: tuple[float, ...]
    """Per sentence the share of the claim that it covers, rare words weighing more."""
    question_cover: tuple[float, ...]
    """Per sentence the mean likeness of the question's words with it."""
    chunks: tuple[Words, ...]
    """The sentences of each chunk as one."""

    @property
    def closest(self) -> int:
        """The sentence that covers most of the claim."""
        return max(range(len(self.covered)), key=self.covered.__getitem__)

    @property
    def closest_to_both(self) -> int:
        """The sentence that covers most of the claim and its question."""
        return max(range(len(self.covered)), key=self.covered_with_question)

    def covered_with_question(self, sentence: int) -> float:
        """What a sentence covers of the claim, and a little of what it covers of the question."""
        return self.covered[sentence] + 0.6 * self.question_cover[sentence]


def align(claim: str, query: str, passage: str) -> AlignedClaim:
    """A claim beside the sentences of a passage of `Segments.passage`, of which the first 40 are read."""
    import numpy as np

    sentences = tuple(read_words(passage[s.start : s.end]) for s in split(passage, _SENTENCES)) or (read_words(""),)
    own, question = read_words(claim), read_words(query)
    count = Counter(stem for sentence in sentences for stem in sentence.stems)
    rarity = [math.log(1 + (len(sentences) + 1) / (count.get(word.stem, 0) + 0.5)) for word in own.content]
    weights = np.array(rarity, np.float32)
    alike = tuple(likeness(own, sentence) for sentence in sentences)
    cover = tuple(highest(a) for a in alike)
    total = float(weights.sum()) or 1.0
    question_cover = tuple(float(_mean(highest(likeness(question, sentence)))) for sentence in sentences)
    covered = tuple(float(weights @ c) / total for c in cover)
    chunks = tuple(read_words(part) for part in passage.split(CHUNK_BREAK) if part.strip())
    return AlignedClaim(own, question, sentences, alike, weights, cover, covered, question_cover, chunks or sentences)


def highest(alike: NDArray[np.float32]) -> NDArray[np.float32]:
    """The highest likeness of each row; 0 where there are no columns."""
    import numpy as np

    highest: NDArray[np.float32] = alike.max(1) if alike.shape[1] else np.zeros(len(alike), np.float32)
    return highest


def _mean(values: NDArray[np.float32]) -> float:
    return float(values.mean()) if len(values) else 0.0
