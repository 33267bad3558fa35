"""Groundedness without a neural network: what of an answer's words, numbers, names and phrases its context lacks.

Where the models cannot be installed, and as the floor that a model must beat (docs/quality.md)."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from ragtrace.evaluate.refusals import declines
from ragtrace.evaluation import NOT_APPLICABLE, evaluator
from ragtrace.records import Evidence, Score, Trace
from ragtrace.text.claims import AnswerParts, read
from ragtrace.text.words import FUNCTION_WORDS, is_latin

_WORD = re.compile(r"\w+(?:[.,]\d+)*")
_NUMBERS = """
zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen
eighteen nineteen twenty
"""
_NUMBER_WORDS = {word: str(i) for i, word in enumerate(_NUMBERS.split())}
_STEM = 5
_COMMON = (
    "the of and to that for with are this from by at it which who has have had be been were on as or not you he his "
    "she her they their its"
)
_ENGLISH = frozenset(_COMMON.split())
_LEAST_ENGLISH = 0.05
"""Share of these words under which a text of some length is not English prose."""
_ENOUGH = 10
_SIGNS = re.compile(r"[{}\[\]\":|<>]")
_DATA = 0.03
"""Share of brackets and quotes from which a text is data, in any language."""
_UNSUPPORTED = 0.35
"""Share of a statement's content words that are new, from which it is pointed at."""


def _words(text: str) -> list[str]:
    """The words in lower case, small numbers as digits."""
    return [_NUMBER_WORDS.get(word, word) for word in _WORD.findall(text.lower())]


@dataclass(frozen=True, slots=True)
class Known:
    """What there is to be said: a context's words, the beginnings of words, and pairs and triples of words."""

    words: frozenset[str]
    stems: frozenset[str]
    pairs: frozenset[tuple[str, ...]]
    triples: frozenset[tuple[str, ...]]

    @classmethod
    def of(cls, texts: Sequence[str]) -> Known:
        """From the chunks and the question, each on its own."""
        lists = [_words(text) for text in texts]
        words = frozenset(w for each in lists for w in each)
        return cls(
            words, frozenset(w[:_STEM] for w in words if len(w) >= _STEM),
            frozenset(p for each in lists for p in pairwise(each)),
            frozenset(p for each in lists for p in zip(each, each[1:], each[2:], strict=False)),
        )  # fmt: skip

    def has(self, word: str) -> bool:
        """The word itself, or a longer one that begins alike."""
        return word in self.words or (len(word) >= _STEM and not word.isdigit() and word[:_STEM] in self.stems)


def _new_content(words: Sequence[str], context: Known) -> float:
    content = [w for w in words if w not in FUNCTION_WORDS]
    return sum(not context.has(w) for w in content) / len(content) if content else 0.0


def features(answer: str, parts: Sequence[tuple[int, int]], context: Known) -> list[float]:
    """Eight numbers, each in [0, 1] or nearly, that grow with what is new: shares of content words, pairs and triples
    of words; the worst statement's share of content words; the share of statements with many; numbers and names, five
    or more counting 1; and the answer's length, as the logarithm of its words / 6."""
    words = _words(answer)
    each = [_new_content(_words(answer[a:b]), context) for a, b in parts]
    pairs = list(pairwise(words))
    triples = list(zip(words, words[1:], words[2:], strict=False))
    numbers = {w for w in words if any(c.isdigit() for c in w)} - context.words
    later = [w for a, b in parts for w in _WORD.findall(answer[a:b])[1:] if w[0].isupper()]
    names = {w for w in map(str.lower, later) if w not in FUNCTION_WORDS and not context.has(w)}
    return [
        _new_content(words, context), sum(p not in context.pairs for p in pairs) / max(1, len(pairs)),
        sum(p not in context.triples for p in triples) / max(1, len(triples)), max(each, default=0.0),
        sum(share > _UNSUPPORTED for share in each) / max(1, len(each)), min(1.0, len(numbers) / 5),
        min(1.0, len(names) / 5), math.log1p(len(words)) / 6,
    ]  # fmt: skip


# From RAGTruth's training part: python training/train_lexical.py --data FOLDER
WEIGHTS = (3.146, -0.129, 0.998, 0.492, 0.787, 0.024, 2.283, 1.937)
SHIFT = -4.318


def ungrounded(numbers: Sequence[float]) -> float:
    """Probability that some of the answer is not supported."""
    return 1 / (1 + math.exp(-(sum(w * x for w, x in zip(WEIGHTS, numbers, strict=True)) + SHIFT)))


def _english(text: str) -> bool:
    """False for prose in another language; True for short texts and for data, which have no language here."""
    words = _words(text)
    if not is_latin(text):
        return False
    if len(words) < _ENOUGH or len(_SIGNS.findall(text)) / len(text) > _DATA:
        return True
    return sum(w in _ENGLISH for w in words) / len(words) >= _LEAST_ENGLISH


def _why_not(trace: Trace, reading: AnswerParts) -> str | None:
    if not reading.claims:
        return "the answer claims nothing"
    if not any(d.content.strip() for d in trace.documents):
        return "the chunks hold no text"
    for text, what in ((trace.answer, "answer"), (" ".join(d.content[:500] for d in trace.documents[:4]), "context")):
        if not _english(text[:4_000]):
            return f"the {what} does not look like English prose"
    return None


@evaluator(
    needs={"documents", "answer"},
    version="7",
    threshold=0.7,
    source="Logistic regression over the overlap of words, the floor of published detectors",
)
def groundedness_lexical(trace: Trace) -> Score:
    """Probability that the context supports all of the answer, from words alone: new content words, pairs and triples
    of words, numbers and names. Needs no model and no package.

    It cannot see a wrong statement in the context's own words; `groundedness` can. English."""
    name = groundedness_lexical.name
    reading = read(trace.answer)
    if declines(reading):
        return Score(name, label="refusal", explanation="the answer declines; nothing is claimed")
    if (reason := _why_not(trace, reading)) is not None:
        return Score(name, label=NOT_APPLICABLE, explanation=reason)
    context = Known.of([trace.query, *(d.content for d in trace.documents)])
    claims = [(s.start, s.end) for s in reading.claims]
    text = reading.text
    value = 1 - ungrounded(features(text, claims, context))
    shares = [_new_content(_words(text[a:b]), context) for a, b in claims]
    evidence = tuple(
        Evidence(a, b, "unsupported" if share > _UNSUPPORTED else "supported", 1 - share)
        for (a, b), share in zip(claims, shares, strict=True)
    )
    worst = max(range(len(claims)), key=shares.__getitem__)
    a, b = claims[worst]
    new = [w for w in dict.fromkeys(_words(text[a:b])) if w not in FUNCTION_WORDS and not context.has(w)]
    listed = ", ".join(f"“{w}”" for w in new[:8])
    return Score(
        name, value=value, explanation=f"not in the context: {listed}" if new else "all words are in the context",
        cause=None if value >= (groundedness_lexical.threshold or 0.0) else "unsupported", evidence=evidence,
    )  # fmt: skip
