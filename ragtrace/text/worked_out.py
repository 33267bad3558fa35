"""Results that an answer works out from its context: "three months cost 60 EUR" where a month costs 20 EUR.

The context does not have such a number, and the models take it for an invention. Where it follows from amounts of the
context, the claim is read with the amount that it was worked out from.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import combinations, islice, product

from ragtrace.text.quantities import StatedNumber, same, stated_numbers
from ragtrace.text.sentences import split

_READ = 400
"""Sentences of a chunk that are read, and amounts of a context that may be operands."""
_READ_OF_STATEMENT = 20
_OPERANDS = 6
"""Amounts of one kind from which a result may be worked out. From many of them any number follows by chance."""
_FACTORS = 4
_STEPS = 3
"""How many results of a statement may follow from each other."""
_LARGEST_FACTOR = 1_000
_RESULTS = 4
"""Of a statement with more amounts that its context does not have, none is worked out."""
_ATTEMPTS = 100
"""Of an answer."""
_NO_AMOUNTS = frozenset({"number", "clock", "temperature", "percent", "time", "months"})
_COUNTS = frozenset({"number", "time", "months"})
_SUM = re.compile(
    r"\b(?:total|together|sum|combined|plus|in all|both|overall|add(?:ed|ing|s)?|altogether|namely)\b|\+", re.I
)
_DIFFERENCE = re.compile(
    r"\b(?:more|less|cheaper|dearer|higher|lower|differ\w*|sav\w+|remain\w*|rest|left|longer|shorter|older|younger|lighter"
    r"|heavier|balance|reduc\w+|discount\w*|extra|bigger|larger|smaller|above|below|instead|gap)\b",
    re.I,
)
_YEAR = re.compile(r"\b(?:years?|annual(?:ly)?|yearly)\b", re.I)
_TWICE = re.compile(r"\b(?:twice|double|both)\b", re.I)
_WORD = re.compile(r"[^\W\d_]{3,}")
_DIGIT = re.compile(r"\d")
_STEM = 5
_EMPTY = frozenset(
    re.findall(r"\w+", "the and for are was were with you your from that this have has does much many what how")
)

Operand = tuple[StatedNumber, str]
"""An amount, and how the context writes it."""


class WorkedOut:
    """What can be worked out from a context for a question."""

    def __init__(self, query: str, chunks: Sequence[str]) -> None:
        self._query = query
        self._question_amounts = list(islice(stated_numbers(query), _FACTORS))
        self._stems = _stems(query)
        self._chunks = chunks
        self._earlier: list[Operand] = []
        self._attempts = 0

    @cached_property
    def _operands(self) -> dict[str, list[tuple[StatedNumber, str, frozenset[str]]]]:
        """The amounts of the context by their kinds, how they are written, and the words of their sentences."""
        operands = defaultdict(list)
        for number, written, stems in islice(_operands(self._chunks), _READ):
            operands[number.quantity.kind].append((number, written, stems))
        return operands

    def with_operands(self, statement: str) -> str | None:
        """The statement with what its results were worked out from, in their place; None where it has no results, or
        amounts that do not follow. Statements are asked about in their order: the results of one may be operands of the
        next."""
        numbers = list(islice(stated_numbers(statement), _READ_OF_STATEMENT))
        amounts = [n for n in numbers if n.quantity.kind not in _NO_AMOUNTS]
        origins = {n: written for n in amounts if (written := self._stated(n)) is not None}
        results: list[StatedNumber] = []
        if len(amounts) - len(origins) > _RESULTS:
            return None
        for _ in range(_STEPS):
            for number in amounts:
                if number in origins or self._attempts >= _ATTEMPTS:
                    continue
                self._attempts += 1
                if (operand := self._operand_of(number, statement, numbers, origins)) is not None:
                    origins[number] = operand
                    results.append(number)
        if not results or len(origins) < len(amounts):
            return None
        self._earlier = [*self._earlier, *((number, origins[number]) for number in results)][-_OPERANDS:]
        pieces: list[str] = []
        at = 0
        for number in sorted(results):
            pieces += (statement[at : number.start], origins[number])
            at = number.unit_end
        return "".join((*pieces, statement[at:]))

    def _stated(self, number: StatedNumber) -> str | None:
        """How the context writes an amount, or the question does, or what an earlier result was worked out from."""
        operands = ((o, written) for o, written, _ in self._operands.get(number.quantity.kind, ()))
        from_question = ((n, self._query[n.start : n.unit_end]) for n in self._question_amounts)
        everywhere = (*operands, *self._earlier, *from_question)
        return next((written for o, written in everywhere if same(o.quantity, number.quantity)), None)

    def _operand_of(
        self, result: StatedNumber, statement: str, numbers: Sequence[StatedNumber], origins: dict[StatedNumber, str]
    ) -> str | None:
        """How an amount is written from which a result follows."""
        value, kind = result.quantity.value, result.quantity.kind
        own = [(n, written) for n, written in origins.items() if n.quantity.kind == kind][:_OPERANDS]
        pool = [*own, *self._closest(statement, kind)]
        others = [n for n in numbers if n is not result]
        factors = self._factors(statement, others)
        percents = (
            n.value for n in (*others, *self._question_amounts, *self._percents()) if n.quantity.kind == "percent"
        )
        shares = [share / 100 for share in islice(percents, _FACTORS)]
        multiples = (*factors, *(1 / f for f in factors), *shares, *(1 - s for s in shares), *(1 + s for s in shares))
        for (operand, written), multiple in product(pool, multiples):
            if _near(operand.quantity.value * multiple, value):
                return written
        # A statement that names its operands is taken at its word.
        pairs = combinations(own, 2) if len(own) > 1 else product(own, pool) if own else combinations(pool, 2)
        is_sum, is_difference = (own or cue.search(statement) for cue in (_SUM, _DIFFERENCE))
        for (one, written), (other, _) in pairs:
            a, b = one.quantity.value, other.quantity.value
            if same(one.quantity, other.quantity):
                continue
            if is_difference and _near(abs(a - b), value):
                return written
            if is_sum and any(_near(f * a + g * b, value) for f, g in product((1.0, *factors), repeat=2)):
                return written
        return None

    def _closest(self, statement: str, kind: str) -> list[Operand]:
        """The amounts of a kind in the sentences with most words of a statement and its question."""
        stems = self._stems | _stems(statement)
        ranked = [(-len(words & stems), o, written) for o, written, words in self._operands.get(kind, ())]
        alike = sorted((each for each in ranked if each[0]), key=lambda each: each[0])
        earlier = (each for each in self._earlier if each[0].quantity.kind == kind)
        return [*((o, written) for _, o, written in alike[:_OPERANDS]), *earlier]

    def _percents(self) -> Iterator[StatedNumber]:
        return (o for o, _, _ in self._operands.get("percent", ()))

    def _factors(self, statement: str, numbers: Sequence[StatedNumber]) -> list[float]:
        """How often an amount may count: three for three months, twelve for a year."""
        counts = (n.value for n in (*numbers, *self._question_amounts) if n.quantity.kind in _COUNTS)
        factors = (value for value in counts if 2 <= value <= _LARGEST_FACTOR)
        text = f"{statement} {self._query}"
        extra = [12.0] * (_YEAR.search(text) is not None) + [2.0] * (_TWICE.search(text) is not None)
        return list(dict.fromkeys((*extra, *factors)))[:_FACTORS]


def _operands(chunks: Sequence[str]) -> Iterator[tuple[StatedNumber, str, frozenset[str]]]:
    for chunk in chunks:
        for span in islice(split(chunk), _READ):
            sentence = chunk[span.start : span.end]
            numbers = islice(stated_numbers(sentence), _READ_OF_STATEMENT)
            amounts = [n for n in numbers if n.quantity.kind not in _NO_AMOUNTS or n.quantity.kind == "percent"]
            # "Thousands of euros" is no amount.
            amounts = [n for n in amounts if _DIGIT.search(sentence, n.start, n.end)]
            stems = _stems(sentence) if amounts else frozenset[str]()
            yield from ((n, sentence[n.start : n.unit_end], stems) for n in amounts)


def _near(one: float, other: float) -> bool:
    return abs(one - other) <= 0.001 * abs(other) and other != 0


def _stems(text: str) -> frozenset[str]:
    words = (match.group().lower() for match in islice(_WORD.finditer(text), _READ))
    return frozenset(word[:_STEM] for word in words if word not in _EMPTY)
