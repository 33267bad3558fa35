"""Numbers of a claim that its context does not hold: neither as they are nor converted, rounded or worked out.

Few claims are concerned, and nearly all of them are wrong, so each rule here is on the side of the claim: the number of
a passage, of a list's item or of an example is no statement, a small plain number may be a count, and a result may be
one that the context does not show.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import combinations, islice, pairwise

from ragtrace.text.quantities import Quantity, StatedNumber, missing, stated_numbers
from ragtrace.text.worked_out_numbers import calculates, factors, is_worked_out

_READ = 4_000
"""Numbers of a context that are read."""
_CHECKED = 20
"""Numbers of a claim that are looked up."""
_WORKED_OUT = 40
"""With more numbers in the context, some sum of two of them is near to any value."""
_COUNTS = 12
"""Plain whole numbers up to this one may count what the context lists."""
_REFERENCES = 40
_MONTHS = 12
_HALF_DAY = 720
_HOURS_OF_DAY = 24
_DAYS_OF_MONTH = 31
"""A plain number of the question or the claim up to this one may be a factor: of days, people or pieces."""
_TIMES = frozenset({"time", "months"})
_DIGITS = re.compile(r"\d+(?:\.\d+)?")
_CLOCK = re.compile(r"\b([01]?\d|2[0-4]):([0-5]?\d)\b")
_REFERENCE = re.compile(
    r"(?:\b(?:passage|step|document|chapter|section|source|chunk|figure|table|option|point|part|page|article|paragraph"
    r"|tip|item|number|no\.)s?\s*(?:\d+\s*(?:,|&|and|or)*\s*)*|[\[(#]\s*)$",
    re.I,
)
_LIST_ITEM = re.compile(r"(?:^|\n|[.:;]\s)[\s\-*(]*$")
_AFTER_LIST_ITEM = re.compile(r"\s*[.):]")
_OF_THE_ANSWER = re.compile(
    r"\W*(?:(?:words?|sentences?|characters?|paragraphs?|bullet)\b|days (?:a|per) week\b)", re.I
)
_ABOUT = re.compile(
    r"(?:about|around|almost|nearly|over|more than|approximately|roughly|under|less than|some|up to|at least|close to"
    r"|~)\s*[€$£]?\s*$",
    re.I,
)
_YEARS = re.compile(r"\b\d{4}[-–/]$")
"""Before the last two digits of "2018-19"."""
_EXAMPLE = re.compile(r"\b(?:for (?:example|instance)\b|e\.g\.)", re.I)
_AROUND_THE_CLOCK = re.compile(r"/7\b")
_RANGE = re.compile(r"\s*(?:and|to|or|[-–])\s*", re.I)


class ContextNumbers:
    """The numbers of a context."""

    def __init__(self, texts: Iterable[str], query: str = "") -> None:
        """`query` is the question: what it states is held, too, and its amounts may be calculated with."""
        self._query = query
        self.by_text: list[list[StatedNumber]] = []
        """Its numbers, in their order."""
        self.quantities: list[Quantity] = []
        """Its quantities, in their order."""
        self._readings: list[Quantity] = []
        self._clocks: set[float] = set()  # minutes, without the half of the day
        values: set[float] = set()
        untimed: set[float] = set()
        for text in (*texts, query):
            numbers = list(islice(stated_numbers(text), _READ))
            self.by_text.append(numbers)
            self.quantities += [number.quantity for number in numbers]
            self._readings += [reading for readings in _readings(text, numbers) for reading in readings]
            clocks = islice(_CLOCK.finditer(text), _READ)
            self._clocks.update((60.0 * int(clock[1]) + int(clock[2])) % _HALF_DAY for clock in clocks)
            timed = {number.start for number in numbers if number.quantity.kind in _TIMES}
            untimed.update(number.value for number in numbers if number.start not in timed)
            # Numbers inside of names and ranges, and thousands with and without their comma.
            untimed.update(float(m.group()) for m in islice(_DIGITS.finditer(text), _READ) if m.start() not in timed)
            values.update(number.value for number in numbers)
            values.update(float(m.group()) for m in islice(_DIGITS.finditer(text.replace(",", "")), _READ))
        self._clocks.update(q.value % _HALF_DAY for q in self.quantities if q.kind == "clock")
        self._values = sorted(filter(math.isfinite, values | untimed))
        self._untimed = sorted(filter(math.isfinite, untimed))

    def unstated_in(self, claim: str) -> tuple[int, int] | None:
        """Returns the start and the end of the claim's first number that the context does not hold, or None."""
        numbers = list(islice(stated_numbers(claim), _CHECKED))
        for number, readings in zip(numbers, _readings(claim, numbers), strict=True):
            if is_exempt(claim, number) or self._holds(claim, number, readings):
                continue
            if not self._is_result(claim, number, numbers):
                return number.start, number.end
        return None

    def _is_result(self, claim: str, number: StatedNumber, numbers: Sequence[StatedNumber]) -> bool:
        """Whether the claim may work the number out from those of one text, the question and its own."""
        if number.quantity.kind == "clock" or not calculates(claim, self._query):
            return False
        value = number.value
        if len(self._values) <= _WORKED_OUT and _is_sum(value, self._values):
            return True
        *of_texts, of_query = self.by_text
        others = [n.value for n in of_query] + [n.value for n in numbers if n.value != value]
        by = factors(f"{claim} {self._query[:_READ]}") | {each for each in others if each <= _DAYS_OF_MONTH}
        return any(is_worked_out(value, others + [n.value for n in own], by) for own in of_texts if own)

    def _holds(self, claim: str, number: StatedNumber, readings: Sequence[Quantity]) -> bool:
        value, quantity = number.value, number.quantity
        if quantity.kind == "clock":
            return not self._clocks or quantity.value % _HALF_DAY in self._clocks or _has(self._values, value)
        # Six years are not six months, but a girl of 13 is a 13-year-old girl.
        values = self._untimed if quantity.kind in _TIMES else self._values
        if _has(values, value) or len(missing(readings, self._readings)) < len(readings):
            return True
        return _has_rounded(values, value) or (
            _ABOUT.search(claim, 0, number.start) is not None and _has(values, value, 0.05)
        )


def _has(values: Sequence[float], value: float, tolerance: float = 0.005) -> bool:
    """Whether an ascending sequence has this value, up to a share of it."""
    margin = tolerance * abs(value)
    place = bisect_left(values, value - margin)
    return place < len(values) and values[place] <= value + margin


def _has_rounded(values: Sequence[float], value: float) -> bool:
    """Whether one of them becomes this value where it is rounded to the value's digits, three at most."""
    digits = len(f"{value:.15g}".partition("e")[0].replace(".", "").strip("0"))
    if not 0 < digits <= 3:
        return False
    half = 0.5 * 10.0 ** (math.floor(math.log10(abs(value))) - digits + 1)
    place = bisect_left(values, value - half)
    return place < len(values) and values[place] < value + half


def _readings(text: str, numbers: Sequence[StatedNumber]) -> list[list[Quantity]]:
    """Per number what it may be: the first one of "70 to 110 cm" has no unit, or that of the second."""
    readings = [[number.quantity] for number in numbers]
    for own, (number, following) in zip(readings, pairwise(numbers), strict=False):
        is_range = number.quantity.kind == "number" and _RANGE.fullmatch(text, number.end, following.start)
        if is_range and following.value:
            unit = following.quantity.value / following.value
            own.append(Quantity(number.value * unit, following.quantity.kind))
    return readings


def is_exempt(claim: str, number: StatedNumber) -> bool:
    """Whether a number says nothing of the context: of a list's item or a passage, of the answer itself, or a count."""
    value, is_plain = number.value, number.quantity.kind == "number"
    is_whole = value == int(value) if math.isfinite(value) else False
    before, after = claim[max(0, number.start - 30) : number.start], claim[number.end : number.end + 20]
    if value in (0.5, 1.0) or not math.isfinite(value) or (is_plain and is_whole and value <= _COUNTS):
        return True
    if _EXAMPLE.search(claim, 0, number.start) or (value == _HOURS_OF_DAY and _AROUND_THE_CLOCK.match(after)):
        return True
    if (
        _YEARS.search(before)
        or _OF_THE_ANSWER.match(after)
        or (_LIST_ITEM.search(before) and _AFTER_LIST_ITEM.match(after))
    ):
        return True
    return is_whole and value <= _REFERENCES and is_plain and _REFERENCE.search(before) is not None


def _is_sum(value: float, values: Sequence[float]) -> bool:
    """Whether the value is the sum or the difference of two values, or what twelve months of one of them are."""

    def near(other: float) -> bool:
        return abs(other - value) <= 0.005 * abs(value)

    if any(near(one * _MONTHS) or near(one / _MONTHS) for one in values):
        return True
    return any(near(one + other) or near(other - one) for one, other in combinations(values, 2))
