"""What the probability of a claim is made of: what the head says, what the trees that compare it with its passage say,
and what counting words, numbers and negations says.

They err on different texts, so that the combination is better than each of them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import IntEnum
from typing import TYPE_CHECKING

from ragtrace.models.answer_features import logit
from ragtrace.models.closest_passage import stems
from ragtrace.text.dropped_negations import ContextDenials
from ragtrace.text.misplaced_numbers import ContextPlaces
from ragtrace.text.opposites import Opposites
from ragtrace.text.quantities import missing, quantities
from ragtrace.text.reversals import ContextWording
from ragtrace.text.sentences import split
from ragtrace.text.unstated_numbers import ContextNumbers

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_READ = 400_000
_SENTENCES = 4_000
_WHOLE = 600
"""Characters of a context of which the closest passage holds nearly all that matters to a claim."""
_SURE = 4.0
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
    COMPARISON_PART = 8
    """Logit of the trees' probability (`claim_comparison`), kept in [-4, 4], times PART."""
    HEAD_PART = 9
    """HEAD times PART."""
    OVERLAP_PART = 10
    """OVERLAP times PART."""
    PART = 11
    """Share of the context that a passage holds at most: of a long one the trees see little, and the head more."""


CLAIM_FEATURES = len(ClaimColumn)


class ContextFacts:
    """What of a context all claims of an answer are compared with."""

    def __init__(self, chunks: Sequence[str], query: str) -> None:
        texts = [chunk[:_READ] for chunk in chunks]
        self._sentences = [t[s.start : s.end] for t in texts for s in split(t, _SENTENCES)][:_SENTENCES]
        self._stems = [stems(sentence) for sentence in self._sentences]
        self.numbers = ContextNumbers(texts, query)
        self.wording = ContextWording((*texts, query), self.numbers.by_text)
        self.denials = ContextDenials(texts)
        self.places = ContextPlaces(texts, self.numbers.by_text[:-1])
        self.opposites = Opposites(texts)
        self.stems = stems(query).union(*self._stems)
        self.part = min(1.0, _WHOLE / max(1, sum(map(len, texts))))

    def closest(self, claim: frozenset[str]) -> tuple[str, float]:
        """The sentence that shares most stems with the claim's, and the share of the claim's stems that it has."""
        if not self._stems or not claim:
            return "", 0.0
        best = max(range(len(self._stems)), key=lambda i: len(self._stems[i] & claim))
        return self._sentences[best], len(self._stems[best] & claim) / len(claim)


def claim_features(claim: str, facts: ContextFacts, supported: float, comparison: float) -> NDArray[np.float64]:
    """(CLAIM_FEATURES,) of one claim; `supported` is the head's probability, `comparison` the trees' logit."""
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
            min(2, len(missing(quantities(claim), facts.numbers.quantities))),
            sum(name not in facts.stems for name in names) / max(1, len(names)),
            negated * overlap,
            1 / (1 + len(own)),
            head * share,
            min(_SURE, max(-_SURE, comparison)) * facts.part,
            head * facts.part,
            overlap * facts.part,
            facts.part,
        ],
        np.float64,
    )
