"""Results that an answer works out from its context: "three months cost 60 EUR" where a month costs 20 EUR.

The context does not have such a number, and the models take it for an invention. Where it follows from what the context
says of the same things, the claim is read with the number that it was worked out from.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import islice, product
from typing import NamedTuple

from ragtrace.text.clauses import Clause, Slot, context_clauses
from ragtrace.text.quantities import Quantity, StatedNumber, same, stated_numbers

_OPERANDS = 24
"""Amounts of the context that may be operands of a result."""
_FACTORS = 8
_READ = 20
"""Numbers of a statement that are read."""
_DAY, _HALF_DAY, _MONTHS = 1440.0, 720.0, 12.0
_MINUTE, _DAY_SECONDS = 60.0, 86400.0
_SUM = re.compile(
    r"\b(?:total|together|altogether|sum|combined|plus|in all|both|includ|overall|add(?:ed|ing)?\b|and\b)|\+", re.I
)
_DIFFERENCE = re.compile(
    r"\b(?:more|less|fewer|cheaper|dearer|higher|lower|differ\w*|sav\w+|remain\w*|rest|left|longer|shorter|older|younger|"
    r"later|earlier|after|before|lighter|heavier|instead|reduc\w+|discount\w*|as|takes?|took|lasts?|open|gap|extra|rose|fell|"
    r"bigger|larger|smaller|margin|between|were|was|apart)\b|-|\u2212",
    re.I,
)
_YEAR = re.compile(r"\b(?:years?|annual(?:ly)?|yearly)\b", re.I)
_NO_RESULTS = frozenset({"clock", "temperature"})
_AND = re.compile(r"\s*(?:and|,)?\s*")
_WORD = re.compile(r"[^\W\d_]{2,}")


class Operand(NamedTuple):
    """An amount, a year, a date or a time of the context, and how it is written there."""

    kind: str
    value: float
    written: str


class Result(NamedTuple):
    """A number of a statement, at text[start:end], and how the context writes what it was worked out from."""

    start: int
    end: int
    written: str


class Sums:
    """What can be worked out from a context for a question."""

    def __init__(self, query: str, chunks: Sequence[str]) -> None:
        self._query = query
        self._numbers_asked = list(islice(stated_numbers(query), _FACTORS))
        self._clauses = [(_words(clause), chunk, clause) for chunk, clause in context_clauses(tuple(chunks)).clauses]
        self._asked = _stems(query)
        self._earlier: list[Operand] = []

    def results_in(self, statement: str) -> list[Result]:
        """The numbers of a statement that are worked out. Statements are asked about in their order: the results of one
        may be operands of the next."""
        numbers = list(islice(_joined(statement), _READ))
        own = [Operand(n.quantity.kind, n.quantity.value, statement[n.start : n.unit_end]) for n in numbers]
        context = self._operands(_stems(statement) | self._asked)
        results: list[Result] = []
        for place, number in enumerate(numbers):
            if number.quantity.kind in _NO_RESULTS or any(_equals(o, number.quantity) for o in context) or any(
                same(n.quantity, number.quantity) for n in self._numbers_asked
            ):
                continue
            others = [o for i, o in enumerate(own) if i != place]
            operand = self._operand_of(number.quantity, statement, [*context, *self._earlier], others)
            if operand is not None:
                results.append(Result(number.start, number.unit_end, operand.written))
                kind, value = number.quantity.kind, number.quantity.value
                self._earlier = [*self._earlier[-_OPERANDS:], Operand(kind, value, operand.written)]
        return results

    def _operands(self, stems: frozenset[str]) -> list[Operand]:
        """The numbers of the clauses that share a word or a name with a statement or its question."""
        sharing = [(len(words & stems), chunk, c) for words, chunk, c in self._clauses if words & stems]
        sharing.sort(key=lambda each: -each[0])
        operands = (operand for _, chunk, clause in sharing for slot in clause.slots for operand in _operand(chunk, slot))
        return list(islice(operands, _OPERANDS))

    def _operand_of(
        self, result: Quantity, statement: str, context: Sequence[Operand], own: Sequence[Operand]
    ) -> Operand | None:
        """The operand of the context from which a result follows, if it follows."""
        asked = [Operand(n.quantity.kind, n.value, "") for n in self._numbers_asked]
        factors = {_own_value(o) for o in (*own, *asked)} | ({_MONTHS} if _YEAR.search(statement + self._query) else set())
        factors = set(islice((f for f in sorted(factors) if 2 <= f <= 1000), _FACTORS))
        alike = [o for o in context if o.kind == result.kind]
        for o, factor in product(alike, factors):
            if _near(o.value * factor, result.value):
                return o
        amounts = [*alike, *(o for o in own if o.kind == result.kind), *(o for o in asked if o.kind == result.kind)]
        percents = [o for o in (*context, *own, *asked) if o.kind == "percent"]
        for p, o in product(percents, amounts):
            part = o.value * p.value / 100
            if any(_near(v, result.value) for v in (part, o.value - part, o.value + part)):
                return next((x for x in (o, p) if x in context), None)
        return self._by_two(result, statement, context, amounts, factors)

    def _by_two(
        self,
        result: Quantity,
        statement: str,
        context: Sequence[Operand],
        amounts: Sequence[Operand],
        factors: set[float],
    ) -> Operand | None:
        pairs = [(a, b) for i, a in enumerate(amounts) for b in amounts[i + 1 :] if (a in context or b in context)]
        if _SUM.search(statement):
            for a, b in pairs:
                for f, g in product({1.0, *factors}, repeat=2):
                    if _near(f * a.value + g * b.value, result.value):
                        return a if a in context else b
        if _DIFFERENCE.search(statement):
            for a, b in (*pairs, *_times(result, context)):
                if any(_near(abs(v), result.value) for v in _spans(a, b, result)):
                    return a if a in context else b
        return None


def _times(result: Quantity, context: Sequence[Operand]) -> list[tuple[Operand, Operand]]:
    """Pairs of years, dates or clock times between which a duration may lie."""
    if result.kind not in ("months", "time", "number"):
        return []
    marks = [o for o in context if o.kind in ("year", "date", "clock")]
    return [(a, b) for i, a in enumerate(marks) for b in marks[i + 1 :] if a.kind == b.kind]


def _spans(a: Operand, b: Operand, result: Quantity) -> Iterator[float]:
    """What lies between two operands, in the result's unit."""
    distance = b.value - a.value
    if a.kind == "year":
        yield distance * (_MONTHS if result.kind == "months" else 1)
    elif a.kind == "date":
        yield distance * (_DAY_SECONDS if result.kind == "time" else 1)
    elif a.kind == "clock":
        yield from (_MINUTE * ((sign * distance) % _DAY) for sign in (1, -1))
    else:
        yield distance


def _own_value(operand: Operand) -> float:
    """How often a quantity counts as a factor: three for three months."""
    match = next(stated_numbers(operand.written), None) if operand.written else None
    return match.value if match is not None else operand.value


def _operand(chunk: str, slot: Slot) -> Iterator[Operand]:
    written = chunk[slot.start : slot.end]
    if slot.quantity is not None and slot.kind.startswith("amount"):
        yield Operand(slot.quantity.kind, slot.quantity.value, written)
    elif slot.kind == "year":
        yield Operand("year", float(str(slot.value)), written)
    elif slot.kind == "date":
        month, day = slot.value  # type: ignore[misc]
        yield Operand("date", _DAYS[month] + day, written)


_DAYS = dict(
    zip(
        "january february march april may june july august september october november december".split(),
        (0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334),
        strict=True,
    )
)
"""Days of a year before each month."""


def _joined(statement: str) -> Iterator[StatedNumber]:
    """The numbers of a statement; "11 hours and 35 minutes" is one."""
    last: StatedNumber | None = None
    for number in stated_numbers(statement):
        is_rest = (
            last is not None
            and last.quantity.kind == number.quantity.kind == "time"
            and number.quantity.value < last.quantity.value
            and _AND.fullmatch(statement, last.unit_end, number.start)
        )
        if last is not None and is_rest:
            value = Quantity(last.quantity.value + number.quantity.value, "time")
            last = last._replace(quantity=value, unit_end=number.unit_end)
            continue
        if last is not None:
            yield last
        last = number
    if last is not None:
        yield last


def _equals(operand: Operand, quantity: Quantity) -> bool:
    return same(Quantity(operand.value, operand.kind), quantity)


def _near(a: float, b: float) -> bool:
    return abs(a - b) <= 0.001 * abs(b) and b != 0


def _words(clause: Clause) -> frozenset[str]:
    names = (s.value for s in (*clause.slots, *clause.shared_slots) if s.kind == "name")
    return clause.words | clause.shared | {word[:5] for name in names for word in name}  # type: ignore[attr-defined]


def _stems(text: str) -> frozenset[str]:
    return frozenset(match.group().lower()[:5] for match in _WORD.finditer(text[:2_000]))
