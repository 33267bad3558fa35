"""Personal data that only a label identifies: "passport number C01X00T47". The labels are in `data/labels.toml`."""

import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from functools import cache, lru_cache
from itertools import islice
from typing import NamedTuple

from ragtrace.text.privacy.checks import is_sample, is_stdnum
from ragtrace.text.privacy.rule_engine import Rule, SearchText, Span, count_digits, data, filled, pattern


class LabelRow(NamedTuple):
    """Labels, and the form of the value beside one of them."""

    kind: str
    labels: list[str]
    value: re.Pattern[str]
    checks: str
    """Modules of python-stdnum, separated by blanks: one of them has to accept the value. Empty: no check digit."""
    digits: int
    """Digits that the value has at least."""


class LabelItem(NamedTuple):
    """A value beside a label, before the check of its digits."""

    kind: str
    checks: str
    start: int
    end: int


_SUFFIX = r"(?:s?(?:nummern?|nr)|numbers?|num|no|id|s|karte|kaart|card)?"
_CAPITALS = re.compile(r"(?<![^\W_])[A-Z]{1,2}")
_FIRST_WORD = re.compile(r"[^\W\d_][^\W_]*")
_WINDOW = 64
"""Characters after a label in which its value begins."""
_BREAK, _LIST = pattern("value_break"), pattern("list_mark")
# Words between a label and a number that give the number to something else.
_STRANGER = pattern("stranger")
# "the SSN on the W-2 reads …": forms whose names have digits, and which hold the number.
_TAX_FORM = pattern("tax_form")
_BACKWARDS = pattern("backwards")
_CALENDAR = pattern("calendar")


class LabelSearch:
    """Finds the values beside labels, in one pass over the text."""

    def __init__(self, rows: Sequence[LabelRow]) -> None:
        self._rows: dict[str, list[LabelRow]] = {}
        acronyms: set[str] = set()
        words: set[str] = set()
        for row in rows:
            for label in row.labels:
                is_acronym = label.isupper() and label.isascii()
                (acronyms if is_acronym else words).add(label if is_acronym else label.lower())
                self._rows.setdefault(label if is_acronym else label.lower(), []).append(row)
        self._acronyms = re.compile(rf"(?:{_alternatives(acronyms)})(?![^\W_])")
        self._prefixes = frozenset(_FIRST_WORD.findall(word)[0][:4] for word in words if not _is_unspaced(word))
        alphabetic = {word for word in words if not _is_unspaced(word)}
        self._words = re.compile(rf"(?:{_alternatives(alphabetic)}){_SUFFIX}(?![^\W\d_])")
        self._unspaced = re.compile(_alternatives(words - alphabetic))
        self._longest_first = sorted(words, key=len, reverse=True)
        self._label_of = lru_cache(maxsize=10_000)(self._first_label)

    def items(self, text: SearchText) -> list[LabelItem]:
        """All values beside labels, in the order of the labels."""
        if not any(map(str.isdigit, text.text)) and "BIC" not in text.text and "swift" not in text.lower:
            return []
        labels = self._labels(text)
        items: list[LabelItem] = []
        for number, (start, end, rows) in enumerate(labels):
            # A label inside of this one ("patient id number") does not end it.
            following = next(
                (label[0] for label in islice(labels, number + 1, None) if label[0] >= end), len(text.text)
            )
            stop = min(end + _WINDOW, following)
            before = max(0, start - 40, labels[number - 1][1] if number else 0)
            for row in rows:
                for first, last in _values(text.text, row, (before, start, end, stop)):
                    items.append(LabelItem(row.kind, row.checks, first, last))
        return items

    def has_label(self, text: str) -> bool:
        """Whether a text has a label."""
        return bool(self._labels(SearchText(text)))

    def _labels(self, text: SearchText) -> list[tuple[int, int, list[LabelRow]]]:
        matches: list[tuple[int, int, str]] = []
        for start, end in text.values or [(0, len(text.text))]:
            for capitals in _CAPITALS.finditer(text.text, start, end):
                acronym = self._acronyms.match(text.text, capitals.start(), end)
                if acronym is not None:
                    matches.append((*acronym.span(), acronym.group()))
            for word in _FIRST_WORD.finditer(text.lower, start, end):
                # Few words begin like a label: one look into a set refuses the others.
                label = self._words.match(text.lower, word.start(), end) if word[0][:4] in self._prefixes else None
                if label is not None:
                    matches.append((*label.span(), self._label_of(label.group())))
        if not text.text.isascii():
            matches += [(*m.span(), self._label_of(m.group())) for m in self._unspaced.finditer(text.lower)]
        return [(start, end, self._rows[label]) for start, end, label in sorted(matches)]

    def _first_label(self, match: str) -> str:
        """The label that a match begins with."""
        plain = _plain(match)
        return next(word for word in self._longest_first if plain.startswith(_plain(word)))


def _is_unspaced(word: str) -> bool:
    """Whether a word is written in a script that puts no blanks between words (Chinese, Japanese, Korean)."""
    return any("\u3040" <= c <= "\u9fff" or "\uac00" <= c <= "\ud7af" for c in word)


def _plain(label: str) -> str:
    return re.sub(r"[\s_./'’-]+", "", label)


def _alternatives(labels: Iterable[str]) -> str:
    """A pattern of these words, grouped by their first letter: most positions are then refused by one comparison."""
    groups: dict[str, list[str]] = {}
    for label in sorted(labels, key=lambda label: (-len(label), label)):
        rest = re.sub(r"(?:\\ )+", r"[\\s_./-]{0,3}", re.escape(label[1:])).replace("'", "['’]?")
        groups.setdefault(label[0], []).append(rest)
    return "|".join(f"{re.escape(first)}(?:{'|'.join(rests)})" for first, rests in sorted(groups.items()))


def _values(text: str, row: LabelRow, places: tuple[int, int, int, int]) -> Iterator[Span]:
    """The values after a label, else the one before it. `places`: where the text before the label begins, the label's
    start and end, and where the text after it ends."""
    before, start, end, stop = places
    value = row.value
    if text.startswith(".", end) and end - start <= 5:
        end += 1  # of an abbreviation: "D.O.B. 1-2-1985"
    limit = _BREAK.search(text, end, stop)
    last_start = limit.start() if limit else stop
    at = end
    while (match := value.search(text, at, stop + 40)) is not None and match.start() < last_start:
        gap = text[at : match.start()]
        if (
            _fits(text, match, row.digits)
            and not _STRANGER.search(plain_gap := _TAX_FORM.sub(" ", gap))
            and not count_digits(plain_gap)
        ):
            yield match.span()
            yield from _rest_of_list(text, value, match.end(), row.digits)
        if row.kind == "date_of_birth" or _CALENDAR.match(text, match.start()) is None:
            return
        at = match.end()  # "Her account, opened on 15-03-2023, is 7730021984"
    if at > end:
        return
    last = deque(value.finditer(text, before, start), maxlen=1)
    match = last[0] if last else None
    if match is not None and _BACKWARDS.fullmatch(text, match.end(), start) and _fits(text, match, row.digits):
        yield match.span()


def _fits(text: str, match: re.Match[str], digits: int) -> bool:
    numbers = [c for c in match.group() if c.isdigit()]
    return len(numbers) >= digits and (len(set(numbers)) > 1 or len(numbers) < 6)


def _rest_of_list(text: str, value: re.Pattern[str], at: int, digits: int) -> Iterator[Span]:
    for _ in range(100):
        gap = _LIST.match(text, at)
        match = value.match(text, gap.end()) if gap else None
        if match is None or not _fits(text, match, digits):
            return
        yield match.span()
        at = match.end()


@cache
def _search() -> LabelSearch:
    """The search for all labels, which is compiled when the first text is searched."""
    form = r"(?<![\w@])(?<!\w-)(?:{})(?![\w@])(?!-\w)"
    rows = (
        (row, re.compile(form.format(filled(row["value"]))), " ".join(row.get("checks", ())))
        for row in data("labels")["labels"]
    )
    return LabelSearch([
        LabelRow(row["kind"], row["labels"], value, checks, row.get("digits", 4)) for row, value, checks in rows
    ])  # fmt: skip


def has_label(text: str) -> bool:
    """Whether a text has a label of personal data."""
    return _search().has_label(text)


def _is_reported(text: str, kind: str, at: int) -> bool:
    """Whether a value is no example, and no date. After a label of a birth, a date counts."""
    return not is_sample(text, at) and (kind == "date_of_birth" or _CALENDAR.match(text, at) is None)


def labelled_values(rule: Rule, text: SearchText, masks: bool) -> Iterator[Span]:
    """The values of the rule's kind. Masks also hide dates, examples, and values with wrong check digits: a typo is
    as private."""
    for kind, checks, start, end in text.once(_search().items):
        if kind == rule.kind and (
            masks or (is_stdnum(text.text[start:end], checks) and _is_reported(text.text, kind, start))
        ):
            yield start, end
