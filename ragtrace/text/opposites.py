"""Claims that say the opposite of their context in a single word: "at least" for "at most", "after" for "before".

All their other words are those of the context, so models of meaning hardly see the difference. Few claims are concerned
and nearly all of them are wrong, so each rule here is on the side of the claim.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import islice
from typing import NamedTuple

from ragtrace.text.function_words import FUNCTION_WORDS
from ragtrace.text.quantities import StatedNumber, stated_numbers

_READ = 2_000
"""Sentences of a text, and characters of a sentence, that are read."""
_CHECKED = 20
"""Markers of a sentence that are read."""
_STEM = 5
_WORDS_PER_OTHER = 7
"""Of so many words around a marker one may be missing in the sentence with its opposite. Otherwise that speaks of
another case: "above 23 kg they cost 20 EUR" does not contradict "up to 23 kg they are free"."""
_WORDS_NEAR = 8
_DENIAL_NEAR = 60
"""Characters to either side of a marker in which a negation may concern it."""
_AMOUNT_NEAR = 12
"""Characters between a limit and its amount at most."""
_MORE = "more|longer|older|greater|higher|larger|heavier|bigger|later"
_LESS = "less|fewer|lower|shorter|younger|smaller|lighter|earlier|sooner"
_MARKER = re.compile(
    rf"\b(?:(?P<lower>at least|not? (?:{_LESS}) than|(?:a )?minimum(?: \w+)? of|(?<!no )(?<!not )(?:{_MORE}) than"
    rf"|over|above|(?<!not )exceed(?:s|ing)?)|(?P<lower_behind>(?:or|and) (?:{_MORE}|above|over|upwards?))"
    rf"|(?P<upper>at (?:the )?most|not? (?:{_MORE}) than|(?:a )?maximum(?: \w+)? of|up to"
    rf"|(?<!no )(?<!not )(?:{_LESS}) than|under|below|not exceed(?:ing)?|within)"
    rf"|(?P<upper_behind>(?:or|and) (?:{_LESS}|below|under))"
    r"|(?P<before>before|prior to)|(?P<after>after|once(?! (?:a|per|every)\b))"
    r"|(?P<must>must|ha(?:s|ve) to|(?:is|are) (?:required|obliged) to)"
    r"|(?P<may>may|can|could|might|(?:is|are) (?:free|allowed|advised|encouraged) to)"
    r"|(?P<mandatory>mandatory|compulsory|obligatory)|(?P<optional>optional|voluntary)"
    r"|(?P<all>all|every|each|always)"
    r"|(?P<some>some|several|certain|sometimes|occasionally|most|few|rarely|seldom|many|usually|often)"
    r"|(?P<first>first)|(?P<second>second)|(?P<third>third))\b",
    re.I,
)
_OPPOSITES = {
    "lower": {"upper"},
    "upper": {"lower"},
    "before": {"after"},
    "after": {"before"},
    "must": {"may"},
    "mandatory": {"optional"},
    "optional": {"mandatory"},
    "all": {"some"},
    "first": {"second", "third"},
    "second": {"first", "third"},
    "third": {"first", "second"},
}
"""A claim with the key is wrong where the context has one of the values. What may be done can also be a part of what
must be done, and some are a part of all."""
_LIMITS = frozenset({"lower", "upper"})
_COMPLETE = frozenset({"mandatory", "optional"})
"""Markers that need no word after them."""
_AHEAD = re.compile(r"\W*\w+ (?:in advance|before|prior|ahead|early|earlier|of notice|notice)\b", re.I)
"""After an amount: "up to two days before" a date is "at least two days before" it."""
_NEGATION = re.compile(
    r"\b(?:not|no|never|none|nobody|nothing|neither|nor|without|cannot|except|exclud\w+|unless|only|forbidden|prohibited)\b"
    r"|n['\u2019]t\b",
    re.I,
)
_ANSWER = re.compile(r"\A\W*(?:yes|no)\b[,.:;]?", re.I)
_SENTENCE_END = re.compile(r"(?<=[.!?;])\s+|\n|\|")
_WORD = re.compile(r"[^\W\d_]+(?:['\u2019][^\W\d_]+)?|\d+(?:[.,:]\d+)*")
_EMPTY = FUNCTION_WORDS | {"every", "get", "him", "yes"}


class Marker(NamedTuple):
    """A word or a phrase with an opposite, at text[start:end]."""

    start: int
    end: int
    value: str
    """A group of _MARKER."""
    about: str
    """The amount of a limit; of others the next word; empty where it is missing."""
    stems: frozenset[str]
    """Of the words around it and what it is about."""
    is_denied: bool


class Sentence(NamedTuple):
    """A sentence of a context that has markers."""

    stems: frozenset[str]
    values: frozenset[str]


class Opposites:
    """The markers of a context, which are read when the first claim needs them."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._texts = texts

    @cached_property
    def _markers(self) -> dict[str, list[tuple[Marker, Sentence]]]:
        """The markers by what they are about."""
        markers: dict[str, list[tuple[Marker, Sentence]]] = defaultdict(list)
        for text in self._texts:
            for part in islice(_parts(text), _READ):
                own = list(_markers(part))
                stems = _stems(match.group().lower() for match in _WORD.finditer(part)) if own else frozenset[str]()
                sentence = Sentence(stems, frozenset(marker.value for marker in own))
                for marker in own:
                    markers[marker.about].append((marker, sentence))
        return markers

    def opposite_in(self, claim: str) -> tuple[int, int] | None:
        """Returns the start and the end of a word of the claim of which the context has only the opposite, about the
        same thing and among the same words; or None."""
        blank = _ANSWER.sub(lambda match: " " * len(match.group()), claim[:_READ])
        own = list(_markers(blank))
        for marker in own:
            is_about_nothing = not marker.about and marker.value not in _COMPLETE
            if marker.value not in _OPPOSITES or marker.is_denied or is_about_nothing or len(marker.stems) < 2:
                continue
            # A claim of the first coat and the second one tells them apart itself.
            if any(m.about == marker.about and m.value in _OPPOSITES[marker.value] for m in own):
                continue
            others = self._markers.get(marker.about, ())
            is_stated = any(o.value == marker.value and (marker.about or _is_among(marker, s)) for o, s in others)
            if not is_stated and any(_is_opposite(marker, other, sentence) for other, sentence in others):
                return marker.start, marker.end
        return None


def _is_opposite(marker: Marker, other: Marker, sentence: Sentence) -> bool:
    """Whether a marker of the context, in its sentence, contradicts a claim's one."""
    if other.is_denied or other.value not in _OPPOSITES[marker.value]:
        return False
    # "Before noon it costs 5 EUR, and 8 EUR after" has both. Of limits each has its own amount.
    if marker.value not in _LIMITS and marker.value in sentence.values:
        return False
    return _is_among(marker, sentence)


def _is_among(marker: Marker, sentence: Sentence) -> bool:
    """Whether a sentence has the words around a claim's marker."""
    return len(marker.stems - sentence.stems) <= len(marker.stems) // _WORDS_PER_OTHER


def _parts(text: str) -> Iterator[str]:
    """The sentences of a text, each up to a limit."""
    at = 0
    for match in _SENTENCE_END.finditer(text):
        yield text[at : min(match.start(), at + _READ)]
        at = match.end()
    yield text[at : at + _READ]


def _markers(sentence: str) -> Iterator[Marker]:
    matches = list(islice(_MARKER.finditer(sentence), _CHECKED))
    if not matches:
        return
    numbers = list(stated_numbers(sentence))
    words = [(match.start(), match.group().lower()) for match in _WORD.finditer(sentence)]
    for match in matches:
        value, _, is_behind = (match.lastgroup or "").partition("_")
        start, end, about = *match.span(), ""
        if value in _LIMITS:
            amount = _amount(numbers, match, bool(is_behind))
            if amount is None or _AHEAD.match(sentence, amount.end):
                continue
            start, end = min(start, amount.start), max(end, amount.unit_end)
            about = f"{amount.quantity.value:.6g} {amount.quantity.kind}"
        before = [word for _, word in words[: bisect_left(words, (start,))]]
        after = [word for _, word in words[bisect_left(words, (end,)) :]]
        if value not in _LIMITS and value not in _COMPLETE:
            about = next((word[:_STEM] for word in after[:6] if word not in _EMPTY), "")
        stems = _stems((*before[-_WORDS_NEAR:], *after[:_WORDS_NEAR])) - {about}
        near = sentence[max(0, match.start() - _DENIAL_NEAR) : match.end() + _DENIAL_NEAR]
        # The negation in "no more than" is a part of the marker.
        is_denied = any(word.lower() not in match.group().lower() for word in _NEGATION.findall(near))
        yield Marker(*match.span(), value, about, stems, is_denied)


def _amount(numbers: Sequence[StatedNumber], limit: re.Match[str], is_behind: bool) -> StatedNumber | None:
    """The amount that a limit belongs to: the next one, or the last one before "or more"."""
    if is_behind:
        return next((n for n in reversed(numbers) if 0 <= limit.start() - n.unit_end <= _AMOUNT_NEAR), None)
    return next((n for n in numbers if 0 <= n.start - limit.end() <= _AMOUNT_NEAR), None)


def _stems(words: Sequence[str] | Iterator[str]) -> frozenset[str]:
    return frozenset(word[:_STEM] for word in words if word not in _EMPTY)
