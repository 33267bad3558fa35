"""Reads a text as its reader would: escapes decoded, invisible characters and marks inside of a value left out.

`jane%40acme.io`, `jane&#64;acme.io`, `jane\\u0040acme.io` and a key with a zero-width space in it are the same value as
without. Patterns do not see them, so masks are also searched in the decoded text and moved back to the places of the
text itself.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from html import unescape
from typing import NamedTuple
from urllib.parse import unquote

_ROUNDS = 3
"""Decodings of one text: JSON in a URL in JSON."""
INVISIBLE = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f"
    "\ufeff\uffa0\u0300-\u036f\u0489\u20d0-\u20f0\U000e0001\U000e0020-\U000e007f\U000e0100-\U000e01ef"
)
"""Marks that show nothing, for a class of a pattern: soft hyphens, zero-width spaces and joiners, directions,
variations, accents of their own."""
_VALUE = r"[\w@.+:/=-]"
_CP1252 = "\u0152\u0153\u0160\u0161\u0178\u017d\u017e\u0192\u02c6\u02dc\u2013-\u2122"
_TAGS = "b|em|font|hl|i|mark|s|small|span|strong|sub|sup|u|wbr"
"""Tags inside of a line, as those with which a search marks its words."""
# Backslashes, "25" and "amp;" recur where a text was escaped twice. Of a longer run only the last backslashes count:
# otherwise each of them would read the whole run.
_HIDDEN = re.compile(
    r"(?P<pair>\\{1,32}u[dD][89abAB][0-9a-fA-F]{2}\\{1,32}u[dD][c-fC-F][0-9a-fA-F]{2})"
    r"|(?P<code>\\{1,32}(?:u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|u\{[0-9a-fA-F]{1,6}\}|x[0-9a-fA-F]{2}))"
    r"|(?P<css>\\{1,32}(?:0{4}[2-7][0-9a-fA-F][ \t]?|0{0,3}[2-7][0-9a-fA-F](?:[ \t]|(?![0-9a-fA-F]))))"
    r"|(?P<url>%(?:25)*[0-7][0-9a-fA-F]|(?:%(?:25)*[89a-fA-F][0-9a-fA-F])+)"
    r"|(?P<entity>&(?:amp;)*(?:\#\d{1,7}|\#[xX][0-9a-fA-F]{1,6}|[a-zA-Z][a-zA-Z0-9]{1,31});)"
    r"|(?P<line>\\{1,32}[nrt](?=[\w@.+:/=-]|[ \t]+\d)|(?<=[\w@.+:/= -])<br ?/?>)"
    rf"|(?<=\w)\\{{1,32}}(?P<mark>[!-/:-@\[\]-`{{-~])|(?P<bytes>[\u00c2-\u00f4][\u0080-\u00bf{_CP1252}]{{1,3}})"
    rf"|(?P<nothing>[{INVISIBLE}]+|\x1b\[[\d;]*m"
    rf"|(?:(?<={_VALUE})|(?<=\d ))</?(?:{_TAGS})(?:\s[^<>]{{0,80}})?>(?={_VALUE}| \d)"
    rf"|(?<={_VALUE})(?:\*{{2,3}}|~~|`)(?={_VALUE})|(?<=\d )\*\*(?=\d)|(?<=\d)\*\*(?= \d))"
)
_MARK = re.compile(rf"[\\%&*~`<\x1b]|[{INVISIBLE}]+|[\u00c2-\u00f4](?=[\u0080-\u00bf{_CP1252}])")
_ASCII_MARK = re.compile(r"[\\%&*~`<\x1b]")
"""What an escape begins with: a search for it costs little in a text without one. A run of invisible characters is one
beginning: it would be read again from each of them."""
_PLUS = re.compile(r"(?<=\w)\+(?=\w)(?![\w.-]{1,64}%40)")
_FORM = re.compile(r"%[0-9a-fA-F]{2}|[?&]\w+=|^\w+=")
"""A query of a URL or the body of a form, in which a plus is a blank."""
_WRAP = re.compile(r"(?<=\d)(?: *+[\r\n\t][ \t\r\n]*+|\+)(?=\d)")
_BROKEN = re.compile(r"\d *[\r\n\t+]")
_BREAK = re.compile(r"\n[ \t>]*(?=[\w@.+:/=-]{2})")
_LONGEST_HALF = 200
_SHORTEST_VALUE = 9
_NO_WORD = re.compile(r"[\d@]|\w[._+/-]\w|[a-z][A-Z]|[A-Z]{9}")


class Edit(NamedTuple):
    """What one place of the text became: characters start to end of the view, and of the text."""

    view_start: int
    view_end: int
    start: int
    end: int


class DecodedText:
    """A text after replacements, which knows where its characters come from."""

    def __init__(self, text: str, edits: list[Edit], source: DecodedText | None = None) -> None:
        self.text = text
        self._edits = edits
        self._ends = [edit.view_end for edit in edits]
        self._source = source

    def place(self, start: int, end: int) -> tuple[int, int]:
        """The place in the original text of the characters from `start` to `end` (exclusive, not empty)."""
        first, last = self._character(start)[0], self._character(end - 1)[1]
        return (first, last) if self._source is None else self._source.place(first, last)

    def _character(self, at: int) -> tuple[int, int]:
        index = bisect_right(self._ends, at)
        if index < len(self._edits) and self._edits[index].view_start <= at:
            return self._edits[index].start, self._edits[index].end
        if index:
            at += self._edits[index - 1].end - self._ends[index - 1]
        return at, at + 1


class ViewParts:
    """A view that is put together of parts of a text, and of other characters before, between and behind them."""

    def __init__(self, source: DecodedText) -> None:
        self.source = source
        self.edits: list[Edit] = []
        self.length = 0
        self.last = 0
        """Where what was added last ends in the text."""
        self._pieces: list[str] = []

    def copy(self, start: int, end: int) -> None:
        """Add characters of the text."""
        if start != self.last:
            self.edits.append(Edit(self.length, self.length, self.last, start))
        self._pieces.append(self.source.text[start:end])
        self.length += end - start
        self.last = end

    def replace(self, start: int, end: int, characters: str) -> None:
        """Add other characters in the place of those of the text, which may be none."""
        self.edits.append(Edit(self.length, self.length + len(characters), start, end))
        self._pieces.append(characters)
        self.length += len(characters)
        self.last = end

    def view(self) -> DecodedText:
        """What was added so far."""
        return DecodedText("".join(self._pieces), self.edits, self.source)


def decoded(text: str) -> DecodedText | None:
    """The text with its escapes (JSON, Python, URL, HTML, CSS, Markdown) decoded and without marks that show nothing;
    None where it has none. Linear in the length."""
    original = view = DecodedText(text, [])
    if "+" in text and _FORM.search(text):
        view = replaced(view, _PLUS.finditer(text), lambda _: " ") or view  # before %2B is a plus
    for _ in range(_ROUNDS):
        further = replaced(view, _escapes(view.text), _meaning)
        if further is None:
            break
        view = further
    return None if view is original else view


def unwrapped(source: DecodedText) -> DecodedText | None:
    """The text with a blank where a line break, a tab or a plus is between two digits; None where none does."""
    if not _BROKEN.search(source.text):
        return None
    return replaced(source, _WRAP.finditer(source.text), lambda _: " ")


def rejoined(source: DecodedText) -> DecodedText | None:
    """The words that a line break may have cut in two, put together, one a line: those with an @ before the break, and
    those that are no words on both sides. None where the text has no such break. Linear in the length."""
    text = source.text
    parts = ViewParts(source)
    for match in _BREAK.finditer(text):
        line = text[max(parts.last, match.start() - _LONGEST_HALF) : match.start()]
        after = text[match.end() : match.end() + _LONGEST_HALF].split(None, 1)[0]
        before = line.removesuffix("\r").removesuffix("=").rsplit(None, 1)[-1:]
        if before and not line.endswith((" ", "\t")) and _can_be_a_value(before[0], after):
            start = match.start() - len(line) + line.rindex(before[0])
            parts.replace(parts.last, start, "\n")
            parts.copy(start, start + len(before[0]))
            parts.copy(match.end(), match.end() + len(after))
    return parts.view() if parts.edits else None


def _can_be_a_value(before: str, after: str) -> bool:
    if len(before) + len(after) < _SHORTEST_VALUE:
        return False
    return "@" in before or (_NO_WORD.search(before) is not None and _NO_WORD.search(after) is not None)


def replaced(
    source: DecodedText, matches: Iterable[re.Match[str]], meaning: Callable[[re.Match[str]], str]
) -> DecodedText | None:
    parts = ViewParts(source)
    for match in matches:
        new = meaning(match)
        if match.start() >= parts.last and new != match.group():
            parts.copy(parts.last, match.start())
            parts.replace(*match.span(), new)
    if not parts.edits:
        return None
    parts.copy(parts.last, len(source.text))
    return parts.view()


def _escapes(text: str) -> Iterator[re.Match[str]]:
    url_end = 0
    for mark in (_ASCII_MARK if text.isascii() else _MARK).finditer(text):
        if mark.start() >= url_end and (match := _HIDDEN.match(text, mark.start())):
            url_end = match.end() if match.lastgroup == "url" else url_end
            yield match


def _meaning(match: re.Match[str]) -> str:
    """What an escape stands for; itself where it stands for nothing."""
    kind, whole = match.lastgroup, match.group()
    if kind in {"nothing", "line"}:
        return "\n" if kind == "line" else ""
    if kind == "bytes":  # UTF-8 that was read as Latin-1, as WSGI gives a path, or as Windows' code page
        codes = [c.encode("latin-1" if c < "\u0100" else "cp1252", "replace") for c in whole]
        return b"".join(codes).decode(errors="replace")
    if kind == "css":
        return chr(int(whole.strip("\\ \t"), 16))
    if kind == "mark":
        return match["mark"]
    if kind == "url":
        return unquote(whole.replace("%25", "%").replace("%25", "%") if "%25" in whole else whole)
    if kind == "entity":
        return unescape(whole.replace("amp;", "")) if "amp;" in whole else unescape(whole)
    digits = re.findall(r"[uUx]\{?([0-9a-fA-F]+)", whole)
    code = int(digits[0], 16)
    if kind == "pair":
        code = 0x10000 + ((code - 0xD800) << 10) + int(digits[1], 16) - 0xDC00
    return chr(code) if code < 0x110000 and not 0xD800 <= code < 0xE000 else whole


# --- other scripts ----------------------------------------------------------------------------------------------------

# A no-break space or an en dash inside a number, full-width digits, a Chinese letter or an underscore right beside a
# value, Cyrillic letters that look like Latin ones: patterns that look for word boundaries and ASCII separators do not
# see such values.

_OTHER = re.compile(r"[^\x00-\x7f]")
_NEIGHBOUR = re.compile(
    r"[^\W\d_a-zA-Z\u00aa-\u024f](?=[0-9A-Za-z+@/$-])|(?<=[0-9A-Za-z=/@-])[^\W\d_a-zA-Z\u00aa-\u024f]"
)
"""A letter of another script that touches what may be a value."""
_EDGE = re.compile(r"\b_+(?=[0-9A-Za-z+])|(?<=[0-9A-Za-z=])_+\b")
_PLAIN_WORD = re.compile(r"[\w:.+-]+")
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

    A view has the length of the text, so a place in the view is the same place in the text. The first has plain spaces,
    dashes and digits, and blanks for the letters of other scripts and the underscores that touch a value. The second
    has blanks for the underscores in words with a digit, too. The third has Latin letters for those that look like
    them, in words that have both. Linear in the length.
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
    if "_" in view:
        spread = _PLAIN_WORD.sub(lambda word: word[0].replace("_", " ") if _DIGIT.search(word[0]) else word[0], view)
        views += [spread] if spread != view else []
    if not text.isascii() and _LOOK_ALIKE.search(text):
        latin = _MIXED.sub(lambda word: word[0].translate(_LOOK_ALIKES) if _LATIN.search(word[0]) else word[0], text)
        if latin != text:
            views.append(latin)
    return views


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
