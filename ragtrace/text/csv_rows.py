"""Reads rows of CSV as the lines "label: cell", for the cells that a label announces.

Patterns know "Passport: x". They do not know a cell below "passport", nor the one beside it. Other cells are left out:
exports have many, and to search them twice takes long.
"""

from __future__ import annotations

import re
from functools import cache

from ragtrace.text.decoded_text import DecodedText
from ragtrace.text.item_labels import has_label
from ragtrace.text.layout_views import GROWTH, SECRET_NAME, TELLING, Cell, ViewParts, cells_between, label
from ragtrace.text.phone_numbers import PHONE_LABELS
from ragtrace.text.secret_assignments import PASSWORD_NAMES

_NAME = r"[ \t]?\"?[^\W\d][\w ./-]{0,30}\"?"
# A line of names, and lines with the same mark.
_BLOCK = re.compile(
    rf"^(?P<heads>{_NAME}(?P<mark>[,;\t]){_NAME}(?:(?P=mark){_NAME}){{0,40}})[ \t\r]*"
    r"(?P<rows>(?:\n[^\n]*(?P=mark)[^\n]*)+)",
    re.M,
)
_LINE = re.compile(r"[^\n]+")
_MARKS = {mark: re.compile(rf"\"[^\"\n]*\"|(?P<mark>{mark})") for mark in ",;\t"}
_OTHER_LABEL = re.compile(
    rf"(?i)\b(?:{PHONE_LABELS}|{PASSWORD_NAMES}|pin|cvv2?|cvc|login|user ?name)\b|code|combination|"
    r"addr|anschrift|direcci|indirizzo|endereço|residen|domicil|wohn"
)
"""The labels that are neither in `item_labels` nor names of secrets."""


def csv_rows(source: DecodedText) -> DecodedText | None:
    """The cells of CSV below the name of an item, or behind it in a row, as lines; None without one."""
    text = source.text
    parts = ViewParts(source)
    announced = cache(_announced)  # many rows begin alike
    for block in _BLOCK.finditer(text) if "\n" in text else ():
        mark = _MARKS[block["mark"]]
        heads = [announced(text[slice(*cell)]) for cell in _cells(text, *block.span("heads"), mark)]
        for line in _LINE.finditer(text, *block.span("rows")):
            first, *others = _cells(text, *line.span(), mark)
            name = announced(text[slice(*first)])
            if not name and not any(heads):
                continue
            _add(parts, heads[0], first)
            for number, cell in enumerate(others, 1):
                _add(parts, heads[number] if number < len(heads) else "", cell)
                _add(parts, name, cell)
    return parts.view() if parts.length else None


def _cells(text: str, start: int, end: int, mark: re.Pattern[str]) -> list[Cell]:
    return cells_between(text, start, end, [m.start() for m in mark.finditer(text, start, end) if m["mark"]])


def _announced(cell: str) -> str:
    """The cell as a label, if items may be below or beside it; empty otherwise."""
    name = label(cell, (0, len(cell)))
    return name if SECRET_NAME.search(name) or _OTHER_LABEL.search(name) or (name and has_label(name)) else ""


def _add(parts: ViewParts, name: str, cell: Cell) -> None:
    text = parts.source.text
    if name and TELLING.match(text, *cell) and parts.length < GROWTH * len(text):
        parts.add_line(name, cell)
