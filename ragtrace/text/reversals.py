"""Claims that say the reverse of their context in a single place: "fell by 12 %", "from 61 to 70", "used" for "unused".

Few claims are concerned, and most of them are wrong. Models of meaning hardly see such a place in a long sentence.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from functools import cached_property
from itertools import islice, pairwise
from typing import NamedTuple

from ragtrace.text.quantities import StatedNumber, same, stated_numbers

_READ = 400
"""Numbers of a text, sentences with a word that is looked for, and words of a claim that are read."""
_CHECKED = 20
"""Numbers of a claim that are looked up."""
_WORDS = 40_000
"""Words of a context that are read."""
_STEM = 5
_SHARE = 0.65
"""Of a claim's other words, so many are in the sentence that has the negated word, or it is about something else."""
_NEAR = 6
"""Words to either side of a word among which a negation concerns it."""
_BEFORE = 60
"""Characters before a number in which its direction is named."""
_PREFIXES = ("un", "in", "im", "non", "ir", "il")
_NEGATIONS = frozenset(
    re.findall(
        r"\w+",
        "not no never none neither nor without cannot except unless unable fail fails failed lack lacks rather instead",
    )
)
_COMMON = frozenset(
    re.findall(
        r"\w+",
        "the a an of to in on at and or is are was were be for with as by it that this they he she you i his her their "
        "its from not",
    )
)
_WORD = re.compile(r"[A-Za-z]+(?:['\u2019][A-Za-z]+)?")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n")
_ABOUT = r"\s*(?:about|around|nearly|almost|over|just|some|only|approximately)?\s*[$€£]?\s*"
_FROM = re.compile(rf"\bfrom{_ABOUT}$", re.I)
_TO = re.compile(rf"[^.;\d]{{0,40}}\bto{_ABOUT}", re.I)
_DOWN = re.compile(
    r"\b(?:f[ae]ll(?:s|ing|en)?|drop(?:s|ped|ping)?|declin(?:e|es|ed|ing)|decreas(?:e|es|ed|ing)|shr[aiu]nk|slid"
    r"|plunged|sank|lower(?:ed|s)|reduc(?:e|es|ed|ing)|down|slipped|tumbled)\b",
    re.I,
)
_UP = re.compile(
    r"\b(?:r[io]se(?:s|n)?|rising|increas(?:e|es|ed|ing)|gr[eo]w(?:s|n|ing)?|climb(?:s|ed|ing)?|jump(?:s|ed|ing)?"
    r"|rais(?:e|es|ed|ing)|up|soared|surged)\b",
    re.I,
)
_BY = re.compile(rf"\bby{_ABOUT}$", re.I)
_SHARE_SIGN = re.compile(r"%|\bper ?cent", re.I)
_CLAUSE_END = re.compile(r"[.;,]\s")
_AFTER = (
    re.compile(r"\s*(?:decrease|decline|drop|fall|reduction)\b", re.I),
    re.compile(r"\s*(?:increase|rise|growth|gain)\b", re.I),
)
Change = tuple[StatedNumber, StatedNumber]


class Direction(NamedTuple):
    """A number, and whether what it measures rises (1), falls (-1), or none or both of it (0)."""

    number: StatedNumber
    sign: int
    is_by: bool
    """It says by how much."""


class ContextWording:
    """The words of a context, its changes from A to B, and what rises or falls in it."""

    def __init__(self, texts: Sequence[str], numbers: Sequence[Sequence[StatedNumber]]) -> None:
        """`numbers` are those of each text, as `stated_numbers` reads them."""
        self._numbers = [(text, own[:_READ]) for text, own in zip(texts, numbers, strict=True)]
        self._sentences: list[list[str]] = []
        count = 0
        for text in texts:
            for sentence in _SENTENCE_END.split(text):
                words = [match.group().lower() for match in islice(_WORD.finditer(sentence), _WORDS - count)]
                count += len(words)
                self._sentences.append(words)
        self._vocabulary = frozenset(word for sentence in self._sentences for word in sentence)

    @cached_property
    def _changes(self) -> list[Change]:
        return [change for text, numbers in self._numbers for change in _changes(text, numbers)]

    @cached_property
    def _directions(self) -> list[Direction]:
        return [direction for text, numbers in self._numbers for direction in _directions(text, numbers)]

    def reversed_change_in(self, claim: str) -> tuple[int, int] | None:
        """Returns the start and the end of a change in the claim that is reversed, or None: its two numbers are the
        other way round in the context or contradict its verb, or everywhere in the context the amount has the other
        direction."""
        numbers = list(islice(stated_numbers(claim), _CHECKED))
        for first, second in _changes(claim, numbers):
            if self._is_reversed(claim, first, second):
                return first.start, second.unit_end
        for number, sign, is_by in _directions(claim, numbers):
            if sign and is_by:
                signs = {each.sign for each in self._directions if same(each.number.quantity, number.quantity)}
                if signs == {-sign}:
                    return number.start, number.unit_end
        return None

    def _is_reversed(self, claim: str, first: StatedNumber, second: StatedNumber) -> bool:
        if same(first.quantity, second.quantity):
            return False
        if any(same(first.quantity, a.quantity) and same(second.quantity, b.quantity) for a, b in self._changes):
            return False
        if any(same(first.quantity, b.quantity) and same(second.quantity, a.quantity) for a, b in self._changes):
            return True
        if first.quantity.kind != second.quantity.kind or first.quantity.kind == "clock":
            return False
        sign = _sign(claim, first)
        return sign != 0 and sign != math.copysign(1, second.quantity.value - first.quantity.value)

    def reversed_word_in(self, claim: str) -> tuple[int, int] | None:
        """Returns the start and the end of a word that the context has only with, or only without, a negating prefix,
        in a sentence with most of the claim's other words; or None."""
        matches = list(islice(_WORD.finditer(claim), _READ))
        words = [match.group().lower() for match in matches]
        own = {word[:_STEM] for word in words if word not in _COMMON}
        for place, word in enumerate(words):
            if word in self._vocabulary or len(word) < 4 or _is_negated(words, place):
                continue
            rest = own - {word[:_STEM]}
            for form in _forms(word):
                if form in self._vocabulary and rest and self._has_beside(form, rest):
                    return matches[place].span()
        return None

    def _has_beside(self, form: str, rest: set[str]) -> bool:
        """Whether a sentence has this word, not negated, and most of the rest of a claim."""
        for sentence in islice((s for s in self._sentences if form in s), _READ):
            if not _is_negated(sentence, sentence.index(form)):
                stems = {word[:_STEM] for word in sentence}
                if len(rest & stems) >= _SHARE * len(rest):
                    return True
        return False


def _changes(text: str, numbers: Sequence[StatedNumber]) -> list[Change]:
    return [
        (a, b)
        for a, b in pairwise(numbers)
        if _FROM.search(text, max(0, a.start - 25), a.start) and _TO.fullmatch(text, a.unit_end, b.start)
    ]


def _directions(text: str, numbers: Sequence[StatedNumber]) -> list[Direction]:
    return [
        Direction(
            number,
            _sign(text, number),
            _BY.search(text, max(0, number.start - 25), number.start) is not None
            or _SHARE_SIGN.search(text, number.start, number.unit_end) is not None,
        )
        for number in numbers
        if number.value not in (0, 1)
    ]


def _sign(text: str, number: StatedNumber) -> int:
    """Whether what a number measures rises (1) or falls (-1), by the words before it in its clause, or right after."""
    clause = _CLAUSE_END.split(text[max(0, number.start - _BEFORE) : number.start])[-1]
    falls, rises = _DOWN.search(clause) is not None, _UP.search(clause) is not None
    if not falls and not rises:
        falls, rises = (each.match(text, number.unit_end) is not None for each in _AFTER)
    return int(rises) - int(falls)


def _forms(word: str) -> list[str]:
    """The word with each prefix that negates, and without its own one."""
    without = [word[len(p) :] for p in _PREFIXES if word.startswith(p) and len(word) - len(p) >= 4]
    return [p + word for p in _PREFIXES] + without


def _is_negated(words: Sequence[str], place: int) -> bool:
    near = words[max(0, place - _NEAR) : place + _NEAR + 1]
    return any(word in _NEGATIONS or word.endswith(("n't", "n\u2019t")) for word in near)
