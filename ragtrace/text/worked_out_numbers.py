"""Numbers that an answer works out from those of one text: a sum, a product, a share of another number.

With many numbers almost any value is a sum or a product of some of them. So one step is looked for, among few numbers,
and only where the answer or its question has a word of calculation.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import permutations

_OPERANDS = 12
"""Numbers at most: the more there are, the more values are the result of some step by chance."""
_READ = 400
"""Characters of a question that are read."""
_TOLERANCE = 0.0051
"""Results are rounded to cents."""
_CALCULATION = re.compile(
    r"\b(?:so|thus|totals?|sum|altogether|combined|together|both|differ\w*|grew|increas\w*|decreas\w*|rose|fell|drop\w*"
    r"|higher|lower|more|less|fewer|longer|shorter|dearer|cheaper|than|per|each|average|years? later|earlier|after"
    r"|sav(?:es?|ing)|means|equals?|which is|that is|namely|percent|half|halves|twice|double[sd]?|triple[sd]?|times"
    r"|plus|minus|comes? to|makes|adds? up|would|(?:you|it)['\u2019]d|multipl\w+|remaining|left|short of|above|below"
    r"|if you|third|quarter|fifth|tenth|because|since|counting)\b|[%×=+−]|\bi\.e\.",
    re.I,
)
_AMOUNT_ASKED = re.compile(
    r"\d(?!\d* words)|\b(?:total|sum|together|altogether|both|add|difference|more|longer|less|fewer|shorter"
    r"|two|three|four|five|six|seven|eight|nine|ten|twelve|fifteen|twenty|thirty|fifty|hundred|thousand|half|twice|double|couple|pair|dozen"
    r"|second|third)\b",
    re.I,
)
_FACTORS = {
    2: "half halves twice double doubled doubles both two pair couple semester term",
    3: "third thirds triple three term",
    4: "quarter quarters month",
    5: "fifth",
    7: "week weekly weeks day days",
    10: "tenth",
    12: "dozen year yearly annual annually month months monthly",
    24: "day days hours",
    30: "month",
    52: "year week weekly",
    60: "hour hours minutes",
    365: "year",
}
_FACTORS_OF_WORD: dict[str, list[float]] = {}
for _factor, _words in _FACTORS.items():
    for _word in _words.split():
        _FACTORS_OF_WORD.setdefault(_word, []).append(float(_factor))
_WORD = re.compile(r"[a-z]+")


def calculates(claim: str, query: str) -> bool:
    """Whether a claim has a word of calculation, or its question names an amount."""
    return _CALCULATION.search(claim) is not None or _AMOUNT_ASKED.search(query, 0, _READ) is not None


def factors(text: str) -> set[float]:
    """What the words of a text multiply or divide by: 2 for "twice", 12 for "per year"."""
    return {factor for word in _WORD.findall(text.lower()) for factor in _FACTORS_OF_WORD.get(word, ())}


def is_worked_out(value: float, numbers: Iterable[float], by: Iterable[float]) -> bool:
    """Whether one step gives the value.

    The step is a sum, a difference, a product, a quotient or a percentage of two of the numbers, or of a number and one
    of the factors `by`. False for more than 12 numbers.
    """
    own = sorted({abs(number) for number in numbers})
    if len(own) > _OPERANDS:
        return False
    pairs = [*permutations(own, 2), *((number, factor) for number in own for factor in by)]
    return any(abs(step - value) <= _TOLERANCE for a, b in pairs for step in _steps(a, b))


def _steps(a: float, b: float) -> tuple[float, ...]:
    """Sum, difference, product, quotient, b percent of a, and a with b percent more and less."""
    share = a * b / 100
    return a + b, abs(a - b), a * b, a / b if b else a, share, a + share, a - share
