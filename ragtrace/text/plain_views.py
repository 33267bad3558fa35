"""Rewrites a text, character by character, so that forms are found that the text's script or layout hides.

A no-break space or an en dash inside a number, full-width digits, a Chinese letter or an underscore right beside a
value, Cyrillic letters that look like Latin ones: patterns that look for word boundaries and ASCII separators do not
see such values. A view has the length of the text, so a place in the view is the same place in the text.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

_OTHER = re.compile(r"[^\x00-\x7f]")
_NEIGHBOUR = re.compile(
    r"[^\W\d_a-zA-Z\u00aa-\u024f](?=[0-9A-Za-z+@/$-])|(?<=[0-9A-Za-z=/@-])[^\W\d_a-zA-Z\u00aa-\u024f]"
)
"""A letter of another script that touches what may be a value."""
_EDGE = re.compile(r"\b_+(?=[0-9A-Za-z+])|(?<=[0-9A-Za-z=])_+\b")
_WORD = re.compile(r"[\w:.+-]+")
_DIGIT = re.compile(r"\d")
# Letters of other scripts that look like Latin ones, each before its Latin letter (Unicode's table of confusables).
_PAIRS = """
аa сc еe ԁd һh іi јj кk мm оo рp ԛq ѕs тt υu νv вb хx уy ԝw ωw αa γy εe ιi κk οo ρp τt χx
АA ΑA ВB ΒB СC ЕE ΕE НH ΗH ІI ΙI ЈJ КK ΚK МM ΜM ΝN ОO ΟO РP ΡP ЅS ТT ΤT УY ΥY ХX ΧX ΖZ
"""
_LOOK_ALIKES = {ord(pair[0]): pair[1] for pair in _PAIRS.split()}
_LETTERS = "".join(map(chr, _LOOK_ALIKES))
_LOOK_ALIKE = re.compile(rf"[{_LETTERS}]")
_MIXED = re.compile(rf"[0-9A-Za-z@.:+/=_%{_LETTERS}-]+")
_LATIN = re.compile(r"[0-9A-Za-z@]")


def plain_views(text: str) -> list[str]:
    """Up to three views of a text that differ from it; none for most English texts.

    The first has plain spaces, dashes and digits, and blanks for the letters of other scripts and the underscores that
    touch a value. The second has blanks for the underscores in words with a digit, too. The third has Latin letters for
    those that look like them, in words that have both. Linear in the length.
    """
    views: list[str] = []
    view = text
    if not text.isascii():
        view = _OTHER.sub(lambda match: _plain(match[0]), text)
        view = _NEIGHBOUR.sub(" ", view)
    if "_" in view:
        view = _EDGE.sub(lambda match: " " * len(match[0]), view)
    if view != text:
        views.append(view)
    if "_" in view and (spread := _WORD.sub(_without_underscores, view)) != view:
        views.append(spread)
    if not text.isascii() and _LOOK_ALIKE.search(text):
        latin = _MIXED.sub(_in_latin, text)
        if latin != text:
            views.append(latin)
    return views


def _without_underscores(word: re.Match[str]) -> str:
    return word[0].replace("_", " ") if _DIGIT.search(word[0]) else word[0]


def _in_latin(word: re.Match[str]) -> str:
    return word[0].translate(_LOOK_ALIKES) if _LATIN.search(word[0]) else word[0]


@lru_cache(4_096)
def _plain(character: str) -> str:
    """The ASCII character that looks or counts like it; the character itself where no other does."""
    category = unicodedata.category(character)
    if category in {"Zs", "Cf"}:
        return " "
    if category == "Pd" or character == "\u2212":
        return "-"
    digit = unicodedata.digit(character, None)
    if digit is not None:
        return str(digit)
    folded = unicodedata.normalize("NFKC", character)
    return folded if len(folded) == 1 and folded.isascii() else character
