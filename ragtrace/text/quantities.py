"""Numbers with their units, so that "24 months" and "two years" are the same quantity.

A small table of units instead of a library: quantulum3 loads a pickled classifier, which takes seconds and fails with
another release of scikit-learn; pint converts units but does not find quantities in a text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import NamedTuple


class Quantity(NamedTuple):
    """A number in the base unit of its kind, for example seconds for `time`; kind `number` has no unit."""

    value: float
    kind: str


class StatedNumber(NamedTuple):
    """A number in a text, with its unit."""

    start: int
    end: int
    """text[start:end] is the number without its unit."""
    value: float
    """The number in its own unit: 24 for "24 months". For a clock time, the hours since midnight."""
    quantity: Quantity
    unit_end: int
    """text[start:unit_end] is the number with its unit; `end` where it has none."""


_HOUR, _DAY = 3600.0, 86400.0
_TABLE: dict[str, dict[str, float]] = {
    "time": {
        "ms millisecond milliseconds": 1e-3,
        "s sec secs second seconds": 1,
        "min mins minute minutes": 60,
        "h hr hrs hour hours": _HOUR,
        "day days": _DAY,
        "week weeks": 7 * _DAY,
        "fortnight fortnights": 14 * _DAY,
    },
    "months": {
        "month months": 1,
        "year years yr yrs": 12,
        "decade decades": 120,
        "century centuries": 1200,
    },
    "length": {
        "mm millimetre millimetres millimeter millimeters": 1e-3,
        "cm centimetre centimetres centimeter centimeters": 1e-2,
        "m metre metres meter meters": 1,
        "km kilometre kilometres kilometer kilometers": 1e3,
        "inch inches": 0.0254,
        "ft foot feet": 0.3048,
        "yd yard yards": 0.9144,
        "mi mile miles": 1609.344,
    },
    "mass": {
        "mg milligram milligrams": 1e-6,
        "g gram grams gramme grammes": 1e-3,
        "kg kilo kilos kilogram kilograms": 1,
        "t tonne tonnes": 1e3,
        "lb lbs pound pounds": 0.45359237,
        "oz ounce ounces": 0.028349523,
    },
    "volume": {
        "ml millilitre millilitres milliliter milliliters": 1e-3,
        "cl": 1e-2,
        "l litre litres liter liters": 1,
        "gallon gallons": 3.785411784,
        "pint pints": 0.473176473,
    },
    "data": {
        "kb kilobyte kilobytes": 1e3,
        "mb megabyte megabytes": 1e6,
        "gb gigabyte gigabytes": 1e9,
        "tb terabyte terabytes": 1e12,
        "kib": 1024,
        "mib": 1024**2,
        "gib": 1024**3,
    },
    "percent": {"% percent": 1},
    "power": {"w watt watts": 1, "kw kilowatt kilowatts": 1e3},
    "euro": {"€ eur euro euros": 1},
    "dollar": {"$ usd dollar dollars": 1},
    "pound": {"£ gbp": 1},
}
_UNITS = {
    name: (kind, float(factor))
    for kind, factors in _TABLE.items()
    for names, factor in factors.items()
    for name in names.split()
}
_TEMPERATURE = {"c": (1.0, 0.0), "celsius": (1.0, 0.0), "f": (5 / 9, -160 / 9), "fahrenheit": (5 / 9, -160 / 9)}
_ONES = """
zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen
eighteen nineteen
"""
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety"
_SMALL = {w: float(i) for i, w in enumerate(_ONES.split())} | {w: 10.0 * i for i, w in enumerate(_TENS.split(), 2)}
_LARGE = {"hundred": 1e2, "thousand": 1e3, "million": 1e6, "billion": 1e9, "bn": 1e9, "k": 1e3}
_WORDS = "|".join([*_SMALL, "hundred", "thousand", "million", "billion", "dozen"])
_NUMBER = re.compile(
    r"(?P<currency>[€$£]) ?(?=\d)"
    r"|(?P<clock>(?<![\w.:])(?:[01]?\d|2[0-3]):[0-5]\d(?: ?[ap]\.?m\b\.?)?"
    r"|(?<![\w.:])(?:1[0-2]|\d) ?[ap]\.?m\b\.?)"
    r"|(?P<digits>(?<![\w.,])\d{1,3}(?:,\d{3})+(?:\.\d+)?|(?<![\w.,])\d+(?:\.\d+)?)"
    r"(?P<scale> ?(?:million|billion|thousand|bn|k)\b)?"
    rf"|(?P<words>\b(?:{_WORDS})(?:[ -](?:and )?(?:{_WORDS}))*\b)"
    r"|(?P<half>\bhalf an? (?=hour|day|year|dozen|minute|litre|kilo))"
    r"|(?P<single>\b(?:an?|one) "
    r"(?=(?:hour|day|week|month|year|minute|fortnight|dozen|kilo|litre|mile|decade|century)\b))"
    r"|(?P<fortnight>\b(?=fortnight))",
    re.I,
)
_UNIT = re.compile(r"[ \-\u00a0]?(?:°\s?)?(?:degrees? )?(%|€|\$|£|[A-Za-z]+)")
_AND_A_HALF = re.compile(r" and a half\b", re.I)
_MILLIONS = re.compile(r" ?m\b", re.I)


def quantities(text: str, limit: int = 400) -> list[Quantity]:
    """The quantities of a text in their order, at most `limit`. Linear in the text's length.

    It reads digits with thousands separators, number words, halves, clock times, and the common units of time, length,
    mass, volume, data, temperature, percent and three currencies. "30 m" is a length, "$30m" an amount of money. Months
    and days are kept apart: a month has no fixed number of days. A quarter is a fraction as often as a time and is left
    out.
    """
    return [number.quantity for number in islice(stated_numbers(text), limit)]


def stated_numbers(text: str) -> Iterator[StatedNumber]:
    """The numbers of a text in their order, as `quantities` reads them."""
    currency = ""
    for match in _NUMBER.finditer(text):
        if match.lastgroup == "currency":
            currency = match.group().strip()
            continue
        if match["clock"]:
            minutes = _clock(match["clock"])
            yield StatedNumber(*match.span(), minutes / 60, Quantity(minutes, "clock"), match.end())
        else:
            value, end = _value(match), match.end()
            if more := _AND_A_HALF.match(text, end):
                value, end = value + 0.5, more.end()
            quantity, unit_end = _with_unit(value, text, end, currency)
            if (more := _AND_A_HALF.match(text, unit_end)) and quantity.kind in ("time", "months"):
                unit_end = more.end()
                quantity = Quantity(quantity.value * (value + 0.5) / value, quantity.kind)
            yield StatedNumber(match.start(), end, value, quantity, unit_end)
        currency = ""


def missing(claim: Iterable[Quantity], context: Iterable[Quantity]) -> list[Quantity]:
    """The claim's quantities that the context does not hold; values count as equal up to half a percent. A plain 1 is
    never missing: "one" is more often a pronoun than a number."""
    present = list(context)
    return [q for q in claim if q != (1.0, "number") and not any(same(q, other) for other in present)]


def same(a: Quantity, b: Quantity) -> bool:
    """Whether two quantities are equal up to half a percent; days and months up to 2 %."""
    close = abs(a.value - b.value) <= 0.005 * max(abs(a.value), abs(b.value), 1e-9)
    if a.kind == b.kind:
        return close
    if {a.kind, b.kind} == {"time", "months"}:
        days = a.value / _DAY if a.kind == "time" else b.value / _DAY
        months = a.value if a.kind == "months" else b.value
        return abs(days - 365 * months / 12) <= 0.02 * max(days, 1)
    return close and "number" in (a.kind, b.kind) and not {a.kind, b.kind} & {"clock", "temperature"}


def _value(match: re.Match[str]) -> float:
    if match["digits"]:
        scale = (match["scale"] or "").strip().lower()
        return float(match["digits"].replace(",", "")) * _LARGE.get(scale, 1.0)
    if match["words"]:
        return _of_words(re.split(r"[ -]", match["words"].lower()))
    return 0.5 if match["half"] else 1.0


def _of_words(words: list[str]) -> float:
    total, part = 0.0, 0.0
    for word in words:
        if word in _SMALL:
            part += _SMALL[word]
        elif word == "dozen":
            part = (part or 1.0) * 12
        elif word == "hundred":
            part = (part or 1.0) * 100
        elif word in _LARGE:
            total, part = total + (part or 1.0) * _LARGE[word], 0.0
    return total + part


def _with_unit(value: float, text: str, end: int, currency: str) -> tuple[Quantity, int]:
    if currency:
        millions = _MILLIONS.match(text, end)
        return Quantity(value * 1e6 if millions else value, _UNITS[currency][0]), end
    match = _UNIT.match(text, end)
    if match is None:
        return Quantity(value, "number"), end
    name = match.group(1)
    degree = "°" in match.group() or "degree" in match.group()
    if name.lower() in _TEMPERATURE and (degree or name.lower() in ("celsius", "fahrenheit") or name in ("C", "F")):
        factor, shift = _TEMPERATURE[name.lower()]
        return Quantity(value * factor + shift, "temperature"), match.end()
    if name == "dozen":
        return Quantity(value * 12, "number"), match.end()
    unit = _UNITS.get(name.lower())
    if unit is None or (len(name) == 1 and name.isupper() and name not in ("W", "L")):
        return Quantity(value, "number"), end
    return Quantity(value * unit[1], unit[0]), match.end()


def _clock(text: str) -> float:
    """Minutes since midnight."""
    digits = [int(d) for d in re.findall(r"\d+", text)]
    hour, minute = digits[0], digits[1] if len(digits) > 1 else 0
    low = text.lower()
    if "p" in low and hour < 12:
        hour += 12
    elif "a" in low and hour == 12:
        hour = 0
    return float(60 * hour + minute)
