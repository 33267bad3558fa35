"""Reads Markdown, tables, JSON and XML as the lines "label: value" that they show.

Patterns know "Password: x". They do not know `**Password:** x`, a table's cell below "Password", `"password": "x"` or
`<password>x</password>`. The view of a text has the first form for all of them, and its places can be moved back to
the text.
"""

from __future__ import annotations

import re

from ragtrace.text.decoded_text import DecodedText, Edit, replaced

_MARKS = ("*", "`", "|", "<", "_", "](", " – ", " — ")
_QUOTES = ('"', "':", ": '", "='")
_QUOTE = r"[\\\"'`*]{0,4}"
_INLINE = frozenset("a abbr b big code del em font i ins kbd label mark s samp small span strong sub sup tt u wbr".split())
_CELLS = frozenset(("td", "th"))
_BLOCKS = frozenset(
    "article body br caption center dd div dl dt footer form h1 h2 h3 h4 h5 h6 head header hr html li main nav ol p pre "
    "section table tbody tfoot thead tr ul".split()
)
_PIECE = re.compile(
    # The name of a value: in JSON, in code or in settings.
    rf"(?<![\w-])(?P<key>[^\W\d][\w-]{{1,40}})(?![\w-])(?P<link>{_QUOTE}[ \t]?[:=]{_QUOTE}[ \t]{{0,3}}{_QUOTE})(?=[^\s\"'`*\\])"
    rf"|<(?P<close>/?)(?P<tag>(?i:{'|'.join(sorted(_INLINE | _CELLS | _BLOCKS))}))(?:\s[^<>]{{0,300}})?/?>"
    r"(?P<blanks>\s{0,80})"
    r"|<(?P<element>[A-Za-z][\w:.-]{0,40})(?:>(?P<parent>\s{0,80})(?=<[A-Za-z])|(?:\s[^<>]{0,300})?>(?=[^<>]{1,200}</))"
    r"|(?P<link_text>\[)(?=[^\[\]\n]{1,80}\]\()"
    # An item of a list, a dash and its value.
    r"|^(?P<item>[ \t]{0,8}(?:[-*+•]|\d{1,2}[.)])[ \t]{1,3}[^\W\d_][\w'/ -]{0,40})[ \t](?:[–—→-]|->)[ \t]"
    r"|^[ \t]{0,3}(?P<citation>>[ \t]?)"
    r"|(?<=[^\s*_`])[*_`]{1,6}[ \t](?P<dash>(?:[–—→-]|->)[ \t])"
    # Emphasis and code. Stars and underscores inside of a value belong to it.
    r"|(?P<emphasis>(?<![0-9A-Za-z*_`])[*_`]{1,6}(?=[^\s*_`|,;.:)-])|(?<=[^\s*_`-])[*_`]{1,6}(?![\w*_`]))",
    re.M,
)
_TELLING = re.compile(r"[^\"'`\n<>|]{0,80}?(?:[\d!@#$%^&]|[a-z][A-Z]|[A-Z]{8})")
"""What may be an item: "string" and "required" are in the cells and keys of many texts about code."""
_SECRET_NAME = re.compile(r"(?i)pass(?!port)|pwd|secret|token|key|credential|auth|client")
"""The patterns of secrets know such names as they are in code, and which of them are public."""
_WORD_BORDER = re.compile(r"(?<=[a-z])(?=[A-Z])|[_-]+")
_ACRONYMS = frozenset(
    "aba abn ahv atin avs bic blz bsb bsn bvn cbu clabe cnic cnp cpf cpr cuil cuit curp cvc cvu cvv dln dni dob egn ein "
    "fein hkid iban imei inn insee ird itin jmbg kvnr meid mbi mrn nhc nhs nic nie nif nino niss nric nss nuss oib otp "
    "pesel pin pps ppsn ptin rrn rtn rvnr ssn svnr swift tckn tfn utr vin".split()
)
"""The labels that are known in capitals and written small as keys; not those that are words, as "fin" and "run"."""
_LETTER = re.compile(r"[^\W\d_]")
_PIPE = re.compile(r"(?<!\\)\|")
_RULE = frozenset("|:-+= \t\r")
"""The characters of a line between the head and the rows of a table."""
_LONGEST_LABEL = 40
_GROWTH = 4
"""How many times as long as the text a view becomes: labels are written again for each row."""


def laid_out(source: DecodedText) -> DecodedText | None:
    """The text without emphasis and tags, with "label: value" for keys, cells and elements; None where it has none of
    them. Linear in the length."""
    text = source.text
    if not any(mark in text for mark in _MARKS) and not any(quote in text for quote in _QUOTES):
        return None
    view = replaced(text, _PIECE.finditer(text), _meaning, source)
    plain = source if view is None else view
    return (_with_rows(plain) if "|" in plain.text else None) or view


def _meaning(match: re.Match[str]) -> str:
    """What a mark of the layout stands for; itself where it stays."""
    if match["key"]:
        return _key(match)
    if match["tag"]:
        return _tag(match)
    if match["element"]:
        return _element(match)
    if match["item"]:
        return f"{match['item'].rstrip()}: " if _TELLING.match(match.string, match.end()) else match.group()
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
    if name in _INLINE:
        return " " if is_end and match.string.startswith("<", match.end()) else match["blanks"]
    if name in _CELLS:
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

_Cell = tuple[int, int]
"""The characters of one cell, without the blanks around them."""


class _Rows:
    """A view that is put together of parts of a text, and of labels between them."""

    def __init__(self, source: DecodedText) -> None:
        self.source = source
        self.edits: list[Edit] = []
        self._pieces: list[str] = []
        self._length = self._last = 0

    def copy(self, start: int, end: int) -> None:
        """Add characters of the text."""
        if start != self._last:
            self.edits.append(Edit(self._length, self._length, self._last, start))
        self._pieces.append(self.source.text[start:end])
        self._length += end - start
        self._last = end

    def insert(self, label: str, at: int) -> None:
        """Add characters that the text has not at this place."""
        self.edits.append(Edit(self._length, self._length + len(label), at, at))
        self._pieces.append(label)
        self._length += len(label)
        self._last = at

    def add_row(self, cells: list[_Cell], heads: list[str]) -> bool:
        """Add the cells of one row: each after its head, and after the first cell. False where they need neither."""
        text = self.source.text
        values = [(number, cell) for number, cell in enumerate(cells) if _TELLING.match(text, *cell)]
        first = _label(text, cells[0]) if cells else ""
        labelled = [(heads[number], cell) for number, cell in values if number < len(heads) and heads[number]]
        labelled += [(first, cell) for number, cell in values if number and first]
        if not labelled or self._length > _GROWTH * len(text):
            return False
        for label, (start, end) in labelled:
            self.insert(f"\n{label}: ", start)
            self.copy(start, end)
            self.insert(" ;", end)
        return True

    def finished(self) -> DecodedText:
        """The view."""
        return DecodedText("".join(self._pieces), self.edits, self.source)


def _with_rows(source: DecodedText) -> DecodedText | None:
    """The text with "label: value" in the place of each row of a table; None where it has no row with a value."""
    text = source.text
    view = _Rows(source)
    copied = 0
    heads: list[str] = []
    is_ruled = False
    before: list[_Cell] = []
    for start, end in _lines(text):
        line = text[start:end].strip()
        if not line:
            continue
        if "-" in line and _RULE.issuperset(line):
            heads, is_ruled = [_label(text, cell) for cell in before], bool(before)
            continue
        before = _cells(text, start, end)
        if not before:
            heads, is_ruled = [], False
        elif line[0] == "|" or is_ruled:
            view.copy(copied, start)
            copied = end if view.add_row(before, heads) else start
            heads = heads or [_label(text, cell) for cell in before]
    view.copy(copied, len(text))
    return view.finished() if view.edits else None


def _lines(text: str) -> list[tuple[int, int]]:
    borders = [-1, *(match.start() for match in re.finditer("\n", text)), len(text)]
    return [(start + 1, end) for start, end in zip(borders, borders[1:], strict=False)]


def _cells(text: str, start: int, end: int) -> list[_Cell]:
    """The cells of a line with a pipe."""
    pipes = [match.start() for match in _PIPE.finditer(text, start, end)]
    if not pipes:
        return []
    borders = [start - 1, *pipes, end]
    cells = [_trimmed(text, first + 1, last) for first, last in zip(borders, borders[1:], strict=False)]
    return cells[1:] if cells[0][0] == cells[0][1] else cells


def _trimmed(text: str, start: int, end: int) -> _Cell:
    part = text[start:end]
    start += len(part) - len(part.lstrip())
    return start, max(start, start + len(part.strip()))


def _label(text: str, cell: _Cell) -> str:
    """A cell as the label of others; empty where it is none."""
    start, end = cell
    if not 0 < end - start <= _LONGEST_LABEL or not _LETTER.search(text, start, end):
        return ""
    return _words_of_label(text[start:end])


def _words_of_label(cell: str) -> str:
    return " ".join(map(_words, cell.strip(" :").split()))
