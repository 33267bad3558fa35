"""What the probability of a claim is made of: the head's opinion and what counting words, numbers and negations says.

The two err on different texts, so that the combination is better than each of them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import IntEnum
from typing import TYPE_CHECKING

from ragtrace.models.answer_features import FUNCTION_WORDS, logit, normal
from ragtrace.text.quantities import Quantity, missing, quantities
from ragtrace.text.sentences import split

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_READ = 400_000
_SENTENCES = 4_000
_QUANTITIES = 4_000
_STEM = 5
_WORD = re.compile(r"\w+")
_NEGATION = re.compile(
    r"\b(?:not|never|no|none|nobody|nothing|neither|nor|without|cannot|except|unless|unable|fails? to|non)\b"
    r"|n['\u2019]t\b",
    re.I,
)
_NAME = re.compile(r"(?<![.!?:] )(?<!^)\b[A-Z][\w-]{2,}")


class ClaimColumn(IntEnum):
    """The features of a claim, in the order that the calibration reads."""

    HEAD = 0
    """Logit of the head's probability that the claim is supported."""
    WORDS = 1
    """Share of the claim's content words that the context has."""
    OVERLAP = 2
    """Share of them that the closest sentence of the context has."""
    QUANTITY = 3
    """Quantities that the context does not hold, at most 2."""
    NAME = 4
    """Share of its capitalised words that the context does not hold."""
    NEGATION = 5
    """OVERLAP where either the claim or its closest sentence has a negation, else 0."""
    SHORT = 6
    """1 / (1 + number of content words)."""
    HEAD_WORDS = 7
    """HEAD times WORDS: how much the head counts depends on how much of the claim is a copy."""


CLAIM_FEATURES = len(ClaimColumn)


class ContextFacts:
    """What of a context all claims of an answer are compared with."""

    def __init__(self, chunks: Sequence[str], query: str) -> None:
        texts = [chunk[:_READ] for chunk in chunks]
        self._sentences = [t[s.start : s.end] for t in texts for s in split(t, _SENTENCES)][:_SENTENCES]
        self._stems = [stems(sentence) for sentence in self._sentences]
        self.quantities: list[Quantity] = [q for t in (*texts, query) for q in quantities(t, _QUANTITIES)]
        self.stems = stems(query).union(*self._stems)

    def closest(self, claim: frozenset[str]) -> tuple[str, float]:
        """The sentence that shares most stems with the claim's, and the share of the claim's stems that it has."""
        if not self._stems or not claim:
            return "", 0.0
        best = max(range(len(self._stems)), key=lambda i: len(self._stems[i] & claim))
        return self._sentences[best], len(self._stems[best] & claim) / len(claim)


def stems(text: str) -> frozenset[str]:
    """The first five letters of each word that carries meaning, small numbers as digits."""
    return frozenset(w[:_STEM] for w in map(normal, _WORD.findall(text)) if w not in FUNCTION_WORDS)


def claim_features(claim: str, facts: ContextFacts, supported: float) -> NDArray[np.float64]:
    """(CLAIM_FEATURES,) of one claim; `supported` is the head's probability."""
    import numpy as np

    own = stems(claim)
    closest, overlap = facts.closest(own)
    names = [stem for match in _NAME.finditer(claim) for stem in stems(match.group())]
    negated = (_NEGATION.search(claim) is None) != (_NEGATION.search(closest) is None)
    share = len(own & facts.stems) / max(1, len(own))
    head = logit(supported)
    return np.array(
        [
            head,
            share,
            overlap,
            min(2, len(missing(quantities(claim), facts.quantities))),
            sum(name not in facts.stems for name in names) / max(1, len(names)),
            negated * overlap,
            1 / (1 + len(own)),
            head * share,
        ],
        np.float64,
    )
