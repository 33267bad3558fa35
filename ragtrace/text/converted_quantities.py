"""An answer in the units of its context: "2 years" becomes "24 months", "2 pm" "14:00" where the context says so.

The models compare words and numbers as they are written. A claim that converts a quantity rightly is read in the
context's own units, so that only the rest of it is compared.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import islice, pairwise
from typing import NamedTuple

from ragtrace.text.quantities import Quantity, StatedNumber, same, stated_numbers
from ragtrace.text.worked_out import WorkedOut

_READ = 400
"""Numbers of the answer and of each chunk that are read, and quantities of the whole context that are compared."""
_RANGE = re.compile(r"\s*(?:and|to|or|[-\u2013])\s*", re.I)
_PLAIN = frozenset({"number"})


class ConvertedAnswer(NamedTuple):
    """An answer with other units, and where its statements are."""

    text: str
    statements: list[tuple[int, int]]
    changed: list[bool]
    """By statement, whether a quantity in it was converted."""


def in_units_of_context(
    answer: str, statements: Sequence[tuple[int, int]], chunks: Sequence[str], query: str = ""
) -> ConvertedAnswer | None:
    """The answer with each quantity of a statement in the writing of the context's equal one, and each result in the
    writing of what it was worked out from; None where the answer has neither.
    `statements` are characters (start, end), in order. The time is linear in the lengths and in the number of
    quantities, each of which is compared with at most 400 of the context."""
    if all(n.quantity.kind in _PLAIN for n in _numbers(answer)):
        return None
    comparable = (
        (n, chunk[n.start : n.unit_end]) for chunk in chunks for n in _numbers(chunk) if n.quantity.kind not in _PLAIN
    )
    of_context = list(islice(comparable, _READ))
    worked_out = WorkedOut(query, chunks)
    pieces: list[str] = []
    places: list[tuple[int, int]] = []
    changed: list[bool] = []
    at = length = 0
    for start, end in statements:
        pieces.append(answer[at:start])
        length += start - at
        own = worked_out.with_operands(answer[start:end])
        text = _converted(own or answer[start:end], of_context) or own
        changed.append(text is not None)
        pieces.append(answer[start:end] if text is None else text)
        places.append((length, length + len(pieces[-1])))
        length, at = places[-1][1], end
    if not any(changed):
        return None
    return ConvertedAnswer("".join((*pieces, answer[at:])), places, changed)


def _converted(statement: str, of_context: Sequence[tuple[StatedNumber, str]]) -> str | None:
    pieces: list[str] = []
    at = 0
    for number in _numbers(statement):
        if number.quantity.kind in _PLAIN:
            continue
        equal = [(n, written) for n, written in of_context if same(n.quantity, number.quantity)]
        own = statement[number.start : number.unit_end]
        # A number that the context has as it is needs no other unit; a time of the day is converted as it is written.
        if equal and not any(w == own if n.quantity.kind == "clock" else n.value == number.value for n, w in equal):
            # The full stop of "7 pm." may end the sentence.
            pieces += (statement[at : number.start], equal[0][1].rstrip(".") + "." * own.endswith("."))
            at = number.unit_end
    return "".join((*pieces, statement[at:])) if pieces else None


def _numbers(text: str) -> Iterator[StatedNumber]:
    """The numbers of a text; the first one of a range ("70 to 110 cm") has the unit of the second."""
    numbers = list(islice(stated_numbers(text), _READ))
    for number, following in pairwise((*numbers, None)):
        if (
            number is not None
            and following is not None
            and number.quantity.kind == "number"
            and following.quantity.kind not in _PLAIN
            and following.value
            and _RANGE.fullmatch(text, number.end, following.start)
        ):
            factor = following.quantity.value / following.value
            yield number._replace(quantity=Quantity(number.value * factor, following.quantity.kind))
        elif number is not None:
            yield number
