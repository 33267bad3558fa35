"""Numbers that a claim takes from the wrong text: the price of another tariff, the limit of another model.

Look-alike chunks hold every word of such a claim. Its number is only in texts that have fewer of the words of claim and
question than another text, which has another number of the kind in its place.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import islice

from ragtrace.text.function_words import FUNCTION_WORDS
from ragtrace.text.quantities import StatedNumber, same, stated_numbers
from ragtrace.text.unstated_numbers import is_exempt
from ragtrace.text.worked_out_numbers import calculates

_READ = 6_000
"""Characters of a context at most: in a long one a text with more of the words is there by chance."""
_CHECKED = 20
"""Numbers of a claim that are looked up."""
_STEM = 6
_COMPARED = re.compile(
    r"\b(?:total|sum|together|altogether|both|add|difference|more|longer|less|fewer|shorter)\b", re.I
)
"""Such a question asks for numbers of several texts."""
_WORD = re.compile(r"[A-Za-z]+(?:['\u2019][A-Za-z]+)?|\d[\d.,:]*")


class ContextPlaces:
    """Which texts of a context hold which words and numbers."""

    def __init__(self, texts: Sequence[str], numbers: Sequence[Sequence[StatedNumber]]) -> None:
        """`numbers` are those of each text, as `stated_numbers` reads them."""
        is_read = len(texts) > 1 and sum(map(len, texts)) <= _READ
        self._texts = [(_stems(text), own) for text, own in zip(texts, numbers, strict=True)] if is_read else []

    def misplaced_in(self, claim: str, query: str) -> tuple[int, int] | None:
        """Returns the start and the end of the claim's first number that is at another place, or None; `query` is the
        question."""
        if not self._texts or calculates(claim, "") or _COMPARED.search(query):
            return None
        numbers = list(islice(stated_numbers(claim), _CHECKED))
        of_query = list(islice(stated_numbers(query), _CHECKED))
        target = _stems(claim) | _stems(query)
        for number in numbers:
            if is_exempt(claim, number) or any(_is_same(number, other) for other in of_query):
                continue
            rest = target - _stems(claim[number.start : number.unit_end])
            if self._is_misplaced(number, rest, [*numbers, *of_query]):
                return number.start, number.end
        return None

    def _is_misplaced(
        self, number: StatedNumber, rest: frozenset[str], of_claim_and_query: Sequence[StatedNumber]
    ) -> bool:
        """Whether another text has more of the other words than each text that holds the number, and a rival of it."""
        holds = [any(_is_same(number, other) for other in own) for _, own in self._texts]
        rivals = [
            words & rest
            for (words, own), is_held in zip(self._texts, holds, strict=True)
            if not is_held and any(_is_rival(other, number, of_claim_and_query) for other in own)
        ]
        places = [words & rest for (words, _), is_held in zip(self._texts, holds, strict=True) if is_held]
        return bool(places) and all(any(place < rival for rival in rivals) for place in places)


def _is_same(number: StatedNumber, other: StatedNumber) -> bool:
    return number.value == other.value or same(number.quantity, other.quantity)


def _is_rival(other: StatedNumber, number: StatedNumber, of_claim_and_query: Sequence[StatedNumber]) -> bool:
    """Whether it is another quantity of the same kind, of which neither claim nor question speaks."""
    is_of_kind = other.quantity.kind == number.quantity.kind
    return is_of_kind and not any(same(other.quantity, each.quantity) for each in of_claim_and_query)


def _stems(text: str) -> frozenset[str]:
    words = (match.group().lower() for match in _WORD.finditer(text))
    return frozenset(word[:_STEM] for word in words if word not in FUNCTION_WORDS)
