"""Reads Markdown, tables, CSV, JSON and XML as the lines "label: value" that they show.

Patterns know "Password: x". They do not know `**Password:** x`, a table's cell below "Password", `"password": "x"` or
`<password>x</password>`, a cell of CSV below "passport". The view of a text has the first form for all of them, and its
places can be moved back to the text.
"""

import re
from functools import cache
from itertools import pairwise

from ragtrace.text.privacy.decoded import DecodedText, ViewParts, replaced
from ragtrace.text.privacy.label_search import has_label
from ragtrace.text.privacy.rule_engine import pattern, words

_MARKS = ("*", "`", "|", "<", "_", "](", '"', "':", ": '", "='", "= '", " \u2013 ", " \u2014 ", " - ")
_QUOTE = r"[\\\"'`*]{0,4}"
_INLINE = "a abbr b big code del em font i ins kbd label mark s samp small span strong sub sup tt u wbr"
_BLOCKS = """
article body br caption center dd div dl dt footer form h1 h2 h3 h4 h5 h6 head header hr html li main nav ol p pre
section table tbody tfoot thead tr ul
"""
_INLINE_TAGS = frozenset(_INLINE.split())
_TAG = "|".join(f"{_INLINE} {_BLOCKS} td th".split())
_PIECE = re.compile(
    # The name of a value: in JSON, in code or in settings.
    rf"(?<![\w-])(?P<key>[^\W\d][\w-]{{1,40}})(?![\w-])(?P<link>{_QUOTE}[ \t]?[:=]{_QUOTE}[ \t]{{0,3}}{_QUOTE})"
    r"(?=[^\s\"'`*\\])"
    # A name and its value side by side: name="password" value="x".
    r"|(?<=\w)(?P<pair>[\"']?,?\s{1,40}[\"']?(?i:value)[\"']?[ \t]?[:=][ \t]{0,3}[\"']?)(?=\S)"
    rf"|<(?P<close>/?)(?P<tag>(?i:{_TAG}))(?:\s[^<>]{{0,300}})?/?>(?P<blanks>\s{{0,80}})"
    r"|<(?P<element>[A-Za-z][\w:.-]{0,40})"
    r"(?:>(?P<parent>\s{0,80})(?=<[A-Za-z])|(?:\s[^<>]{0,300})?>(?=[^<>]{1,200}</))"
    r"|\\{1,4}(?=[\"'])"
    r"|\[(?=[^\[\]\n]{1,80}\]\()"
    # An item of a list, a dash and its value.
    r"|^(?P<item>[ \t]{0,8}(?:[-*+•]|\d{1,2}[.)])[ \t]{1,3}[^\W\d_][\w'/ -]{0,40})"
    r"[ \t](?:[\u2013\u2014\u2192-]|->)[ \t]"
    r"|^[ \t]{0,3}>[ \t]?"
    r"|(?P<fence>(?:\r?\n){1,2}[ \t]{0,8}(?:```|~~~)[\w+-]{0,20}[ \t]{0,8}\r?\n)"
    # Emphasis and code. Stars and underscores inside of a value belong to it.
    r"|(?=[*_`])(?:(?<=[^\s*_`])[*_`]{1,6}[ \t](?P<dash>(?:[\u2013\u2014\u2192-]|->)[ \t])"
    r"|(?<![0-9A-Za-z*_`])[*_`]{1,6}(?=[^\s*_`|,;.:)-])|(?<=[^\s*_`-])[*_`]{1,6}(?![\w*_`]))",
    re.M,
)
_TELLING = re.compile(r"[^\"'`\n<>|]{0,80}?(?:[\d!@#$%^&]|[a-z][A-Z]|[A-Z]{8})")
"""What may be an item: "string" and "required" are in the cells and keys of many texts about code."""
_SECRET_NAME = re.compile(r"(?i)pass(?!port|enger)|pwd|secret|token|key|credential|auth(?!or)|client_?id")
"""The patterns of secrets know such names as they are in code, and which of them are public."""
_WORD_BORDER = re.compile(r"(?<=[a-z])(?=[A-Z])|[_-]+")
_ACRONYMS = words("small_acronyms")
"""The labels that are known in capitals and written small as keys; not those that are words, as "fin" and "run"."""
# Begins with the colon, for few texts have one: a search for all acronyms takes as long as all other marks together.
_SMALL_ACRONYM = "|".join(
    rf"(?<=\b(?:{'|'.join(sorted(word for word in _ACRONYMS if len(word) == length))})[:=])"
    for length in sorted(set(map(len, _ACRONYMS)))
)
_MARK = re.compile(
    r"[*`|<_]|\]\(|(?<=[ \t])[\u2013\u2014-](?=[ \t])|"
    rf"[:=](?:(?<=[\"'].)|(?<=[\"'][ \t].)|(?=[ \t]{{0,3}}[\"'])|{_SMALL_ACRONYM})"
)
_MARK_START = re.compile(r"[*`|<_\]:=\u2013\u2014-]")
"""A search for one of these characters is ten times as fast as one for `_MARK`."""
_KEY = re.compile(f"[:=](?:{_SMALL_ACRONYM})")
_LETTER = re.compile(r"[^\W\d_]")
_PIPE = re.compile(r"(?<!\\)\|")
_RULE = frozenset("|:-+= \t\r")
"""The characters of a line between the head and the rows of a table."""
_LONGEST_LABEL = 40
_GROWTH = 4
"""How many times as long as the text a view becomes: labels are written again for each row."""


def laid_out(source: DecodedText) -> DecodedText | None:
    """The lines that have a layout, without emphasis and tags, with "label: value" for keys, cells and elements; None
    where none has. Linear in the length."""
    is_marked = any(mark in source.text for mark in _MARKS) or _KEY.search(source.text) is not None
    lines = _marked_lines(source) if is_marked else None
    if lines is None:
        return None
    view = replaced(lines, _PIECE.finditer(lines.text), _meaning)
    plain = lines if view is None else view
    return (_with_rows(plain) if "|" in plain.text else None) or view


def _marked_lines(source: DecodedText) -> DecodedText | None:
    """The lines with a mark of a layout, two lines before each and one after it; None where no line has a mark."""
    text = source.text
    parts = ViewParts(source)
    searched = copied = 0
    while (mark := _next_mark(text, searched)) is not None:
        start = max(copied, _two_lines_before(text, mark.start()))
        if start > copied:
            parts.replace(start, start, "\n")  # what follows belongs to another paragraph
        searched = _line_end(text, mark.end())
        copied = _line_end(text, searched)
        parts.copy(start, copied)
    return parts.view() if parts.length else None


def _next_mark(text: str, at: int) -> re.Match[str] | None:
    return next(filter(None, (_MARK.match(text, c.start()) for c in _MARK_START.finditer(text, at))), None)


def _two_lines_before(text: str, at: int) -> int:
    """Where the second line before that of a character begins."""
    for _ in range(3):
        at = text.rfind("\n", 0, max(0, at))
    return at + 1


def _line_end(text: str, at: int) -> int:
    """Where the line of a character ends, with its line break."""
    return text.find("\n", at) + 1 or len(text)


def _meaning(match: re.Match[str]) -> str:
    """Returns the text that replaces a mark of the layout: the mark itself where it must stay."""
    if match["key"]:
        return _key(match)
    if match["tag"]:
        return _tag(match)
    if match["element"]:
        return _element(match)
    if match["item"] or match["pair"]:
        label = (match["item"] or "").rstrip()
        return f"{label}: " if _TELLING.match(match.string, match.end()) else match.group()
    if match["fence"]:
        return "\n"
    return ": " if match["dash"] else ""


def _key(match: re.Match[str]) -> str:
    key, link = match["key"], match["link"]
    if not _TELLING.match(match.string, match.end()):
        return key + link.replace("*", "").replace("`", "")
    mark = ":" if ":" in link else "="
    return _words(key) + (link if link.strip() == mark else f"{mark} ")


def _words(name: str) -> str:
    """A name in code as words: "phoneNumber" is "phone Number", "ssn" is "SSN"."""
    words = [name] if _SECRET_NAME.search(name) else _WORD_BORDER.sub(" ", name).split()
    return " ".join(word.upper() if word.lower() in _ACRONYMS else word for word in words)


def _tag(match: re.Match[str]) -> str:
    """The text in the place of a tag of HTML."""
    name, is_end = match["tag"].lower(), bool(match["close"])
    if name in _INLINE_TAGS:
        return " " if is_end and match.string.startswith("<", match.end()) else match["blanks"]
    if name in ("td", "th"):
        if not is_end:
            return "| "
        # The row of heads ends here.
        return " |\n|-" if name == "th" and match.string.startswith("</tr", match.end()) else " "
    if name == "dt":
        return ": " if is_end else "\n"
    return "|\n" if name == "tr" and is_end else "\n"


def _element(match: re.Match[str]) -> str:
    """The label in the place of an element's start in XML; a parent's name is the first word of its child's label."""
    if match["parent"] is not None:
        return f" {_words(match['element'])} "
    return f" {_words(match['element'])}: " if _TELLING.match(match.string, match.end()) else match.group()


# --- tables -----------------------------------------------------------------------------------------------------------

Cell = tuple[int, int]
"""The characters of one cell, without the blanks around them."""


def _with_rows(source: DecodedText) -> DecodedText | None:
    """The text with "label: value" in the place of each row of a table; None where it has no row with a value."""
    text = source.text
    parts = ViewParts(source)
    copied = 0
    heads: list[str] = []
    is_ruled = False
    cells: list[Cell] = []
    for start, end in _lines(text):
        line = text[start:end].strip()
        if not line:
            continue
        if "-" in line and _RULE.issuperset(line):
            heads, is_ruled = [label(text, cell) for cell in cells], bool(cells)
            continue
        cells = _cells(text, start, end)
        if not cells:
            heads, is_ruled = [], False
        elif line[0] == "|" or is_ruled:
            if (labelled := _labelled(text, cells, heads)) and parts.length < _GROWTH * len(text):
                parts.copy(copied, start)
                for name, cell in labelled:
                    _add_line(parts, name, cell)
                copied = end
            heads = heads or [label(text, cell) for cell in cells]
    if not copied:
        return None
    parts.copy(copied, len(text))
    return parts.view()


def _labelled(text: str, cells: list[Cell], heads: list[str]) -> list[tuple[str, Cell]]:
    """The cells that may be an item, each with its head, and with the first cell of its row."""
    values = [(number, cell) for number, cell in enumerate(cells) if _TELLING.match(text, *cell)]
    first = label(text, cells[0]) if values else ""
    labelled = [(heads[number], cell) for number, cell in values if number < len(heads) and heads[number]]
    return labelled + [(first, cell) for number, cell in values if number and first]


def _lines(text: str) -> list[tuple[int, int]]:
    borders = [-1, *(match.start() for match in re.finditer("\n", text)), len(text)]
    return [(start + 1, end) for start, end in pairwise(borders)]


def _cells(text: str, start: int, end: int) -> list[Cell]:
    """The cells of a line with a pipe."""
    pipes = [match.start() for match in _PIPE.finditer(text, start, end)]
    if not pipes:
        return []
    cells = _cells_between(text, start, end, pipes)
    return cells[1:] if cells[0][0] == cells[0][1] else cells


def _cells_between(text: str, start: int, end: int, marks: list[int]) -> list[Cell]:
    """The cells of a line that these marks separate, without blanks and quotes around them."""
    return [_trimmed(text, first + 1, last) for first, last in pairwise([start - 1, *marks, end])]


def _trimmed(text: str, start: int, end: int) -> Cell:
    part = text[start:end]
    start += len(part) - len(part.lstrip())
    end = max(start, start + len(part.strip()))
    is_quoted = end - start > 2 and text[start] == text[end - 1] == '"'
    return (start + 1, end - 1) if is_quoted else (start, end)


def label(text: str, cell: Cell) -> str:
    """A cell as the label of others; empty where it is not one."""
    start, end = cell
    if not 0 < end - start <= _LONGEST_LABEL or not _LETTER.search(text, start, end):
        return ""
    return " ".join(map(_words, text[start:end].strip(" :").split()))


# --- CSV --------------------------------------------------------------------------------------------------------------

_HEAD = r"[ \t]?\"?[^\W\d][\w ./-]{0,30}\"?"
# A line of names, and lines with the same mark.
_BLOCK = re.compile(
    rf"^(?P<heads>{_HEAD}(?P<mark>[,;\t]){_HEAD}(?:(?P=mark){_HEAD}){{0,40}})[ \t\r]*"
    r"(?P<rows>(?:\n[^\n]*(?P=mark)[^\n]*)+)",
    re.M,
)
_LINE = re.compile(r"[^\n]+")
_CELL_MARKS = {mark: re.compile(rf"\"[^\"\n]*\"|(?P<mark>{mark})") for mark in ",;\t"}
_OTHER_LABEL = pattern("column_label")
"""The labels that are neither in `labels` nor names of secrets."""


def csv_rows(source: DecodedText) -> DecodedText | None:
    """The cells of CSV below the name of an item, or behind it in a row, as lines; None without one. Other cells are
    left out: exports have many, and to search them twice takes long."""
    text = source.text
    parts = ViewParts(source)
    announced = cache(_announced)  # many rows begin alike
    for block in _BLOCK.finditer(text) if "\n" in text else ():
        mark = _CELL_MARKS[block["mark"]]
        heads = [announced(text[slice(*cell)]) for cell in _csv_cells(text, *block.span("heads"), mark)]
        for line in _LINE.finditer(text, *block.span("rows")):
            first, *others = _csv_cells(text, *line.span(), mark)
            name = announced(text[slice(*first)])
            if not name and not any(heads):
                continue
            _add(parts, heads[0], first)
            for number, cell in enumerate(others, 1):
                _add(parts, heads[number] if number < len(heads) else "", cell)
                _add(parts, name, cell)
    return parts.view() if parts.length else None


def _csv_cells(text: str, start: int, end: int, mark: re.Pattern[str]) -> list[Cell]:
    return _cells_between(text, start, end, [m.start() for m in mark.finditer(text, start, end) if m["mark"]])


def _announced(cell: str) -> str:
    """The cell as a label, if items may be below or beside it; empty otherwise."""
    name = label(cell, (0, len(cell)))
    return name if _SECRET_NAME.search(name) or _OTHER_LABEL.search(name) or (name and has_label(name)) else ""


def _add(parts: ViewParts, name: str, cell: Cell) -> None:
    text = parts.source.text
    if name and _TELLING.match(text, *cell) and parts.length < _GROWTH * len(text):
        _add_line(parts, name, cell)


def _add_line(parts: ViewParts, name: str, cell: Cell) -> None:
    """Add a line with a name and the characters of a cell."""
    start, end = cell
    parts.replace(start, start, f"\n{name}: ")
    parts.copy(start, end)
    parts.replace(end, end, " ;")
