"""How letters begin and end: salutations, closing phrases and signatures state no fact."""

from __future__ import annotations

import re

_NAME = r"(?-i:[A-Z\u00c0-\u00de][\w.'-]*)"
SALUTATION = (
    r"(?:dear|hello|hi|hey|greetings|good (?:morning|afternoon|evening)|(?:sehr )?geehrte[rs]?|liebe[rs]?|hallo|"
    r"guten (?:tag|morgen|abend)|bonjour|bonsoir|ch(?:er|ère)s?|estimad[oa]s?|hola|buen[oa]s (?:días|tardes|noches)|"
    r"gentile|buongiorno|caro|cara|prezad[oa]s?|olá|beste|geachte)"
    r"(?: (?:frau|herrn?|madame|monsieur|señora?|signora?|mevrouw|heer|senhora?)\b)?"
    rf"(?: (?!World\b){_NAME}){{1,4}}"
    r"(?=\s*(?:[,!]|$))[,!]?"
)
"""Whom an answer greets by name: "Hello Ms. Miller,"."""
_CLOSING = re.compile(
    r"\W*(?:(?:with )?(?:my |our )?(?:kind(?:est)?|best|warm(?:est)?|many) (?:regards|wishes)|regards|best,|warmly|"
    r"(?:yours )?(?:sincerely|faithfully|truly)(?: yours)?|cheers|thanks|thank you|mit (?:freundlichen|besten) grüßen|"
    r"(?:viele|liebe|beste|freundliche) grüße|cordialement|bien à vous|(?:bien )?cordialmente|atentamente|"
    r"(?:un )?(?:cordial )?saludos?(?: cordiales)?|(?:cordiali|distinti) saluti|atenciosamente|"
    r"met vriendelijke groet(?:en)?)\W*",
    re.I,
)
_SIGNED = re.compile(r"[\s>*_]*[\u2013\u2014-]{1,2} ?(?:the |your )?(?:[\w'&-]+ ){0,4}team[\s.!*_]*", re.I)
_SIGNATURE = re.compile(r"(?:[^\W\d_][\w'&.-]*(?:,? |,?\W*$)){1,6}")
_MOST = 60
"""Characters of a line of a signature."""


def is_closing(line: str) -> bool:
    """Whether a line is how a letter ends: "Kind regards,", "— Your support team"."""
    return len(line) <= _MOST and (_CLOSING.fullmatch(line) or _SIGNED.fullmatch(line)) is not None


def is_signature(line: str) -> bool:
    """Whether a line below the closing phrase could be a name, a role or a company: a few words without a number."""
    words = line.strip(" *_|\t")
    return len(words) <= _MOST and _SIGNATURE.fullmatch(words) is not None and not words.endswith((":", "?"))
