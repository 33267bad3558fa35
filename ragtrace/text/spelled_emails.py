"""Email addresses that their writers spell so that machines do not collect them: `ada (at) acme.de`, `ada at acme dot
de`, `ada AT acme DOT de`."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ragtrace.text.item_checks import is_real_email
from ragtrace.text.item_search import SearchText, Span

_AT = r"[ \t]?[\[({<][ \t]?(?:at|ät|arroba|chez|chiocciola|@)[ \t]?[\])}>][ \t]?"
_DOT = r"[ \t]?[\[({<][ \t]?(?:dot|punkt|punto|point|ponto|\.)[ \t]?[\])}>][ \t]?"
_LABEL = r"[^\W_](?:[\w-]{0,61}[^\W_])?"
_LOCAL = rf"(?<![\w.+-])[^\W_](?:[\w+-]|\.(?=\w)|{_DOT}(?=\w)){{0,63}}"
_BRACKETS = rf"{_LOCAL}{_AT}{_LABEL}(?:(?:\.|{_DOT}|[ \t]dot[ \t]){_LABEL}){{1,4}}"
# Without brackets "at" is an English word, so that every dot must be spelled, too.
_WORDS = rf"{_LOCAL}(?:[ \t]at[ \t]|_at_){_LABEL}(?:(?:[ \t]dot[ \t]|_dot_){_LABEL}){{1,4}}"
_SPELLED = re.compile(rf"(?i)(?:{_BRACKETS}|{_WORDS})(?![\w@-])")
_MARKS = (
    " dot ",
    "_dot_",
    "at]",
    "at)",
    "at}",
    "at>",
    "at ]",
    "at )",
    "ät",
    "arroba",
    "chez",
    "chiocciola",
    "(@",
    "[@",
    "{@",
)
_ANNOUNCED = re.compile(r"(?i)mail|contact|write|reach|schreib|écri|escri|scriv|kontakt|adres")
_ENDS_OF_AT = re.compile(rf"(?i){_AT}|[ \t]at[ \t]|_at_")
_ENDS_OF_DOT = re.compile(rf"(?i){_DOT}|[ \t]dot[ \t]|_dot_")


def spelled_emails(text: SearchText) -> Iterator[Span]:
    """The places of all spelled addresses, those that nobody reads as a person's too."""
    for start, end in text.around(_MARKS, 160, 160):
        for match in _SPELLED.finditer(text.text, start, end):
            yield match.span()


def real_spelled_emails(text: SearchText) -> Iterator[Span]:
    """The places of the spelled addresses that can be a person's (`is_real_email`). "Visit us at acme dot com" is not
    one: words alone must be announced, or begin with more than a word."""
    for start, end in spelled_emails(text):
        spelled = text.text[start:end]
        address = written(spelled)
        is_plain = address.partition("@")[0].isalpha() and not re.search(r"[\[({<_]", spelled)
        if is_real_email(address) and (not is_plain or _ANNOUNCED.search(text.text, max(0, start - 60), start)):
            yield start, end


def written(spelled: str) -> str:
    """The address as it is written: `ada@acme.de`."""
    return _ENDS_OF_DOT.sub(".", _ENDS_OF_AT.sub("@", spelled, count=1))
