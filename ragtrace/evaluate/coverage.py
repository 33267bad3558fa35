"""How much of a question's words a text holds."""

import functools
import math
import re
from collections.abc import Mapping

from ragtrace.evaluate.models import model_file

_WORD = re.compile(r"\w+")
_COMMONEST = 1_996
"""Where the vocabulary's words begin: before it are signs and letters, from here on words, the commonest first."""
_STEM = 5


@functools.cache
def _ranks() -> Mapping[str, int]:
    lines = model_file("vocabulary").read_text(encoding="utf-8").split("\n")
    return {word: i for i, word in enumerate(lines[_COMMONEST:]) if word and not word.startswith("##")}


def _weight(word: str) -> float:
    """Rare words tell more: the squared logarithm of a word's place among the commonest, as tf-idf squares idf. What
    the vocabulary does not know is rarest, but for single signs."""
    if len(word) == 1:
        return 1.0
    return math.log(_ranks().get(word, len(_ranks())) + 2) ** 2


def coverage(question: str, text: str) -> float | None:
    """Share of the question's words that the text holds, rare ones weighing more, in [0, 1].

    Words of more than five letters count as held where one begins alike. None for a question without words."""
    words = {w.lower() for w in _WORD.findall(question)}
    if not words:
        return None
    there = {w.lower() for w in _WORD.findall(text)}
    stems = {w[:_STEM] for w in there if len(w) >= _STEM}
    weights = {w: _weight(w) for w in words}
    covered = sum(n for w, n in weights.items() if w in there or (len(w) > _STEM and w[:_STEM] in stems))
    return covered / sum(weights.values())
