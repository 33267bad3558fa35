"""Short answers to a question ("Yes.", "No, you can't.") that the next sentence explains.

"Yes! There are three dishes." says what "Yes, there are three dishes." says, so both are one statement: alone, "Yes!"
has no word that could be compared with the documents.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TypeVar

K = TypeVar("K", bound=str)

_MAX_CHARS = 40
_SHORT = re.compile(
    r"""[\W_]*(?:
    (?:yes|no|yeah|yep|nope|ja|jawohl|nein|doch|nee|oui|non|si|sí|sì|sim|não)
        (?:[\s,]+(?:
            (?:you|they|we|he|she|it|this|that|there|i)\s+
                (?:can|could|may|do|does|did|is|are|was|were|will|would|must|should|has|have|am|need)(?:n't|\s?not)?
            | absolutely | certainly | definitely | exactly | indeed | please
            | of\s+course | that(?:'s|\s+is)\s+(?:right|correct|true|possible|allowed)
        ))?
    | correct | right | true | false | wrong | exactly | indeed | absolutely | certainly | definitely | of\s+course
    | (?:only\s+)?part(?:ly|ially) | in\s+part | both | neither | (?:it|that)\s+depends | sometimes | usually
    | (?:yes,\s|no,\s)?not\s+(?:really|quite|exactly|always|necessarily|yet)
    | teilweise | teils | en\s+partie | parcialmente | en\s+parte | in\s+parte
    | 是的? | 不是? | 可以 | 不可以 | はい | いいえ
    )[\W_]*""",
    re.VERBOSE | re.IGNORECASE,
)


def joined(text: str, statements: Sequence[tuple[int, int, K]]) -> list[tuple[int, int, K]]:
    """The statements of a text (start, end, kind), where a short answer is one with the claim that follows it."""
    result: list[tuple[int, int, K]] = []
    for start, end, kind in statements:
        if kind == "claim" and result and result[-1][2] == kind and _is_short(text, *result[-1][:2], start):
            result[-1] = (result[-1][0], end, kind)
        else:
            result.append((start, end, kind))
    return result


def _is_short(text: str, start: int, end: int, following: int) -> bool:
    """Whether text[start:end] is a short answer, with nothing but signs before the next statement."""
    between = text[end:following].strip(" \t\r\n-–—:,.!")
    return not between and end - start <= _MAX_CHARS and _SHORT.fullmatch(text, start, end) is not None
