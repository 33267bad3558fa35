"""Claims that affirm what their context denies: "opened software can be returned" where it cannot be.

Apart from the negation such a claim is nearly a copy, so models of meaning hardly see the difference. Few claims are
concerned and nearly all of them are wrong, so each rule here is on the side of the claim.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import islice
from typing import NamedTuple

from ragtrace.text.function_words import FUNCTION_WORDS

_READ = 4_000
"""Characters of a context at most: a longer one may affirm elsewhere in other words what it denies here."""
_CLAIM = 600
_STEM = 5
_MIN_SHARE = 0.6
"""Share of a denied clause that the claim says at least."""
_MORE = 3
"""Words at most that a claim has and neither the sentence with the denial nor the question."""
_NEGATIONS = frozenset({"not", "no", "never", "neither", "nor", "without", "cannot", "none"})
_NEGATIVE = re.compile(
    r"\b(?:not|no|never|neither|nor|without|cannot|none|nothing|nobody|unless|until|except|instead|rather|other than"
    r"|free of|too|only|hardly|rarely|impossible|invalid|lost|else|otherwise|before|after|leave|away|missing"
    r"|inability|(?:avoid|prohibit|forbid|exclud|exempt|fail|lack|refus|prevent|ban|stop|lose|wait)\w*"
    r"|un(?!der|til|it|ion|ique|less|iver)\w+)\b|n['\u2019]t\b",
    re.I,
)
"""A claim with such a word may say the same as a denial."""
_NO_DENIAL = frozenset({"only", "more", "less", "fewer", "longer", "later", "earlier", "exceed", "exceeding", "least"})
"""Behind a negation: "no more than 28 days"."""
_CLAUSE_ENDS = frozenset(",;()|.!?") | {
    *("but", "because", "unless", "until", "although", "while", "whereas", "since", "so"),
}
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n")
_TOKEN = re.compile(r"[A-Za-z]+(?:['\u2019][A-Za-z]+)?|[.,;:!?()|]|\d[\d.,:]*")


class _Denial(NamedTuple):
    """A clause with a negation."""

    words: frozenset[str]
    """The stems of its content words."""
    first: str
    """The first one behind the negation."""
    is_heading: bool
    """It is a list behind "Not covered:"."""
    sentence: frozenset[str]
    """The stems of the whole sentence."""


class ContextDenials:
    """What the sentences of a context deny."""

    def __init__(self, texts: Sequence[str]) -> None:
        sentences: list[list[str]] = []
        if sum(map(len, texts)) <= _READ:
            sentences = [_tokens(part) for text in texts for part in _SENTENCE_END.split(text)]
        self._denials = [denial for tokens in sentences for denial in _denials(tokens)]
        self._affirmed = [_stems(tokens) for tokens in sentences if not any(map(_is_negation, tokens))]

    def affirmed_in(self, claim: str, query: str) -> tuple[int, int] | None:
        """Returns the start and the end of the word in a claim that the context denies, or None; `query` is the
        question."""
        if not self._denials or len(claim) > _CLAIM or _NEGATIVE.search(claim):
            return None
        own, query_stems = _stems(_tokens(claim)), _stems(_tokens(query[:_CLAIM]))
        for denial in self._denials:
            if denial.first in own and self._is_affirmed(denial, own, query_stems):
                matches = _TOKEN.finditer(claim)
                return next((m.span() for m in matches if _stem(m.group()) == denial.first), None)
        return None

    def _is_affirmed(self, denial: _Denial, own: frozenset[str], query_stems: frozenset[str]) -> bool:
        common = denial.words & own
        if len(common) < 2 or any(common <= sentence for sentence in self._affirmed):
            return False
        if denial.is_heading:
            return len(own - common - query_stems) <= _MORE
        return len(common) >= _MIN_SHARE * len(denial.words) and len(own - denial.sentence - query_stems) <= _MORE


def _denials(tokens: Sequence[str]) -> list[_Denial]:
    """The clause around each negation of a sentence."""
    denials = []
    for place, token in enumerate(tokens):
        if not _is_negation(token) or not _NO_DENIAL.isdisjoint(tokens[place + 1 : place + 2]):
            continue
        start = end = place
        while start > 0 and tokens[start - 1] not in _CLAUSE_ENDS:
            start -= 1
        is_heading = ":" in tokens[place : place + 4] and place - start <= 1
        while end < len(tokens) and (tokens[end] not in _CLAUSE_ENDS or (is_heading and tokens[end] != ".")):
            end += 1
        words, behind = _stems(tokens[start:end]), [t for t in tokens[place + 1 : end] if _is_content(t)]
        if len(words) > 1 and behind and behind[0].isalpha():
            denials.append(_Denial(words, _stem(behind[0]), is_heading, _stems(tokens)))
    return denials


def _tokens(text: str) -> list[str]:
    return [m.group().lower().replace("\u2019", "'") for m in islice(_TOKEN.finditer(text), _READ)]


def _is_negation(token: str) -> bool:
    return token in _NEGATIONS or token.endswith("n't")


def _is_content(token: str) -> bool:
    return token[0].isalnum() and token not in FUNCTION_WORDS and not _is_negation(token)


def _stem(token: str) -> str:
    return token.lower()[:_STEM]


def _stems(tokens: Sequence[str]) -> frozenset[str]:
    return frozenset(_stem(token) for token in tokens if _is_content(token))
