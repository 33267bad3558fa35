"""Where the sentences of a text are. Linear in its length."""

import re
from typing import NamedTuple

_WORDS = """
mr mrs ms dr prof sr jr st vs etc eg ie cf al approx dept est fig figs inc ltd co corp no nos vol p pp ed eds rev gen
col sgt capt lt jan feb mar apr jun jul aug sep sept oct nov dec mon tue wed thu fri sat sun min max ca bzw usw vgl
evtl ggf nr abb bspw resp
"""
_ABBREVIATIONS = frozenset(_WORDS.split())
_BLOCK = re.compile(
    r"```.*?(?:```|\Z)"  # fenced code is one piece, with any content
    r"|[^\n]+",
    re.S,
)
# A sentence ends at terminal punctuation that closing quotes may follow, before white space; CJK needs no space.
# Only the first mark of a run begins a match, and nothing is given back: thousands of dots in a row cost no more.
_END = re.compile(r"(?<![.!?…])[.!?…]++[\"'”’»)\]]*+(?=\s)|[。！？｡]+[」』”’）]*")
_WORD_BEFORE = re.compile(r"([A-Za-z](?:\.[A-Za-z])*|[A-Za-z]+)\Z")
_NEXT = re.compile(r"\s+([\"'“‘«(\[]*)(\S)")
_MAX_LOOKBACK = 24
_ITEM_NUMBER = 6


class Span(NamedTuple):
    """A piece of a text: characters start to end, end exclusive."""

    start: int
    end: int


def split(text: str, limit: int = 2_000) -> list[Span]:
    """The sentences of a text as offsets, without surrounding white space; at most `limit` of them.

    A line is never joined with the next one, so that list items, table rows and headings are sentences; fenced code is
    one piece. Abbreviations, initials, decimals, ellipses, URLs and e-mail addresses do not end a sentence.
    """
    spans: list[Span] = []
    for block in _BLOCK.finditer(text):
        start, end = block.span()
        if block.group().startswith("```"):
            _add(spans, text, start, end)
        else:
            _split_line(spans, text, start, end, limit)
        if len(spans) >= limit:
            return spans[:limit]
    return spans


def _split_line(spans: list[Span], text: str, start: int, end: int, limit: int) -> None:
    begin = start
    for match in _END.finditer(text, start, end):
        number = match.start() - start <= _ITEM_NUMBER and text[start : match.start()].strip().isdigit()
        if not number and _is_boundary(text, match, end):  # "1. First" is one item, not two sentences
            _add(spans, text, begin, match.end())
            begin = match.end()
            if len(spans) >= limit:
                return
    _add(spans, text, begin, end)


def _is_boundary(text: str, match: re.Match[str], end: int) -> bool:
    mark = match.group()
    if mark[0] in "。！？｡!?":
        return True
    following = _NEXT.match(text, match.end(), end)
    if following is None:
        return True
    if following.group(2).islower() and not following.group(1):
        return False  # "e.g. this", "approx. three", "wait... what"
    if mark.startswith(".") and not mark.startswith(".."):
        before = _WORD_BEFORE.search(text, max(0, match.start() - _MAX_LOOKBACK), match.start())
        if before is not None:
            word = before.group(1).lower().replace(".", "")
            if word in _ABBREVIATIONS or (len(word) == 1 and before.group(1).isupper()):
                return False
    return True


def _add(spans: list[Span], text: str, start: int, end: int) -> None:
    if piece := text[start:end].strip():
        begin = text.index(piece, start)
        spans.append(Span(begin, begin + len(piece)))


def prose(text: str, limit: int = 2_000) -> list[Span]:
    """The sentences that say something: those that hold at least two words, outside code fences, rules and tables'
    lines."""
    return [s for s in split(text, limit) if _says_something(text[s.start : s.end])]


_LIST_MARK = re.compile(r"[ \t]*(?:[-*•+\u2013]\s|\(?\d{1,3}[.)]\s|\|)")
_CLOSED = re.compile(r"[.!?…。！？][\"'”’»)\]*_]*\s*\Z")
_SHORT_LINE = 80
_PASSAGE = 400


def passages(text: str, limit: int = 2_000) -> list[Span]:
    """The sentences that say something, where the lines of a list or a table are one with the line that announces them:
    a line alone names no subject. Up to 400 characters are joined. Of a text that is only code, its beginning."""
    pieces: list[Span] = []
    is_open = False
    for span in split(text, limit):
        begin, end = text.rfind("\n", 0, span.start) + 1, text.find("\n", span.start)
        is_entry = _is_entry(text[begin : end if end >= 0 else None])
        if is_entry and is_open and span.end - pieces[-1].start <= _PASSAGE:
            pieces[-1] = Span(pieces[-1].start, span.end)
        else:
            pieces.append(span)
        is_open = is_entry or text[span.start : span.end].rstrip("*_ ").endswith((":", "\uff1a"))
    prose_like = [s for s in pieces if _says_something(text[s.start : s.end])]
    return prose_like or [Span(s.start, min(s.end, s.start + _PASSAGE)) for s in pieces[:1]]


def _is_entry(line: str) -> bool:
    """Whether a line is marked as a list's or a table's, or is short and ends without a sentence's end."""
    return _LIST_MARK.match(line) is not None or (len(line) <= _SHORT_LINE and not _CLOSED.search(line))


_WORD = re.compile(r"[^\W_]{2,}|[぀-ヿ㐀-鿿가-힯]")


def _says_something(sentence: str) -> bool:
    if sentence.startswith("```"):
        return False
    return len(_WORD.findall(sentence[:2_000])) >= 2
