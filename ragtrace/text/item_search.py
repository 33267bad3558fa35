"""The text that is searched: the parts of it that can hold an item, and what the words around a number say of it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any, TypeVar

T = TypeVar("T")
Span = tuple[int, int]
"""The characters from the first offset to the second, end exclusive."""
_ASCII_LOWER = {upper: upper + 32 for upper in range(ord("A"), ord("Z") + 1)}
# What one number may have between its digits; "x", "e" and "t" come from "x" and "ext" before an extension.
_DIGIT_CLUSTER = re.compile(r"\d(?:[ ().\-/+xet]{0,16}\d){3,}")
_DIGITS = re.compile(r"\d+")
_LONG_WORD = re.compile(r"(?<!\S)\S{14,}")
_IBAN_START = re.compile(r"[A-Z]{2}\d{2}")


class SearchText:
    """A text and its parts that are worth a search: to try each pattern on the whole text would take ten times as
    long."""

    def __init__(self, text: str, regions: Sequence[str] = ()) -> None:
        self.text = text
        self.regions = regions
        """Regions (ISO 3166, e.g. "DE") whose national phone numbers are searched for."""
        self._results: dict[Any, Any] = {}

    def once(self, search: Callable[[SearchText], T]) -> T:
        """The result of a search that several kinds share, which is done once."""
        if search not in self._results:
            self._results[search] = search(self)
        result: T = self._results[search]
        return result

    @cached_property
    def lower(self) -> str:
        """The text in lower case, with the same offsets."""
        lower = self.text.lower()
        return lower if len(lower) == len(self.text) else self.text.translate(_ASCII_LOWER)  # "İ" would become two

    @property
    def whole(self) -> list[Span]:
        """The whole text."""
        return [(0, len(self.text))]

    @cached_property
    def long_words(self) -> list[Span]:
        """The runs of 14 characters and more without white space: no shorter one is a key."""
        return [match.span() for match in _LONG_WORD.finditer(self.text)]

    @cached_property
    def numbers(self) -> list[Span]:
        """The neighbourhoods of many digits that are close together."""
        clusters = (match for match in _DIGIT_CLUSTER.finditer(self.text))
        # Less is a year or a price: neither a phone number nor an IP address.
        return _joined(c.span() for c in clusters if c.group().count(".") >= 3 or count_digits(c.group()) >= 7)

    @cached_property
    def values(self) -> list[Span]:
        """The neighbourhoods of all digits."""
        return _joined(match.span() for match in _DIGITS.finditer(self.text))

    def around(self, marks: Sequence[str], before: int, after: int) -> list[Span]:
        """The neighbourhoods of all words (in lower case) that begin an item, in order."""
        lower = self.lower
        places = sorted(at for mark in marks if mark in lower for at in occurrences(mark, lower))
        return _joined(((at, at + after) for at in places), before)

    @cached_property
    def addresses(self) -> list[Span]:
        """The neighbourhoods of each @."""
        return _joined((at, at + 400) for at in occurrences("@", self.text))

    @cached_property
    def accounts(self) -> list[Span]:
        """The neighbourhoods of two capital letters before two digits."""
        return _joined((match.start(), match.end() + 48) for match in _IBAN_START.finditer(self.text))


def _joined(spans: Iterable[Span], before: int = 72) -> list[Span]:
    """The spans with a margin on both sides, in order; those that overlap become one."""
    parts: list[Span] = []
    for start, end in spans:
        begin = max(0, start - before)
        if parts and begin <= parts[-1][1]:
            begin, _ = parts.pop()
        parts.append((begin, end + 24))
    return parts


def count_digits(text: str) -> int:
    """The number of digits in a text."""
    return sum(map(str.isdigit, text))


def occurrences(word: str, text: str) -> Iterator[int]:
    """The offsets at which a word is in a text."""
    at = text.find(word)
    while at >= 0:
        yield at
        at = text.find(word, at + 1)


# --- the words around a number ----------------------------------------------------------------------------------------

_UNIT = re.compile(
    r"(?i)\s?(?:words?|wörter|mots|palabras|parole|palavras|woorden|char(?:acter)?s|zeichen|tokens?|"
    r"lines?|zeilen|nm|mm|cm|dm|km|"
    r"m[²³]|kg|mg|ml|°|kw|kwh|mwh|hz|khz|mhz|ghz|rpm|bar|psi|pa|lux|db|bytes?|[kmgt]i?b|%|€|\$|£|eur|usd|gbp|chf|"
    r"euros?|dollars?|people|persons|pages?|seiten|steps|users?|items?|pieces|units|hours?|minutes?|"
    r"seconds?|ms|days|years)"
    r"(?![\w/])"
)
_OTHER_LABEL = re.compile(
    r"(?i)(?:\b(?:orders?|order id|invoice|receipt|tickets?|cases?|case id|tracking|shipment|parcel|"
    r"contract|policy|parts?|sku|"
    r"models?|serial|bar ?codes?|strichcode|code-barres|"
    r"isbn(?:-1[03])?|issn|doi|gtin|ean|upc|asin|builds?|versions?|pages?|sections?|"
    r"articles?|chapter|request|"
    r"session|commit|rma|batch|lot|item|product|artikel|reference|ref|booking|transaction|figures?|"
    r"bestell|bestellung|auftrag|auftrags|rechnung|rechnungs|vertrag|vertrags|seite|seiten|teile|artikelnummer|"
    r"bestellnummer|rechnungsnummer|auftragsnummer|sendungsnummer|aktenzeichen|commande|facture|contrat|"
    r"colis|dossier|"
    r"pedido|factura|contrato|envío|ordine|fattura|contratto|encomenda|fatura|bestelling|factuur|订单号?|发票)"
    r"(?:-\d{1,2})?[\s_-]?(?:numbers?|no|nr|num|id|ids|code|ref(?:erence)?|nummern?)?|n°\sde\s\w+|numéro\sde\scommande)"
    r"[.:#°]{0,2}\s{0,2}(?:(?:is|are|was|ist|lautet|est|es|è|é)\s)?[#(\"'`]?\Z|#\Z"
)
_EXAMPLE_WORDS = re.compile(
    r"(?i)\b(?:format|formats|formatted|pattern|syntax|such as|looks? like|"
    r"examples?|sample|specimen|placeholder|dummy|fictitious|fictional|template|mask|regex|beispiel\w*|"
    r"muster\w*|exemple|"
    r"ejemplo|esempio|exemplo|voorbeeld|documentation|documentación|dokumentation)\b"
)
# These make an example only of what follows in the same sentence: "e.g. AB1234567", "the test card 4242 …".
_SAME_SENTENCE = r"(?:[^.!?;\n]|(?<=\b[Nn][or])\.)"
_TEST_WORDS = (
    r"(?:(?:test|demo)[ -]?(?:(?:credit |debit |visa |payment |bank )?(?:cards?|accounts?)|"
    r"visa|mastercard|amex|payments?|mode|environment)|(?:visa|mastercard|amex|card) test numbers?|"
    r"sandbox(?:es)?|(?:for|in) testing,? (?:purposes|pay|use|enter|try|with)|"
    r"testkarten?(?:nummern?)?|testkonto|testumgebung|testmodus|zum testen|"
    r"cartes? de test|tarjetas? de prueba|carte di prova|cartões de teste|testkaarten|测试卡)"
)
_BEGINS_EXAMPLE = re.compile(
    r"(?i)(?<!\w)(?:(?:(?:e\.\s?g|z\.\s?b|p\.\s?ex|p\.\s?ej|por ej|ad es|bijv)\.|"
    rf"for instance\b|par exemple\b|zum beispiel\b){_SAME_SENTENCE}{{0,40}}|"
    rf"{_TEST_WORDS}(?!\w){_SAME_SENTENCE}{{0,80}})\Z"
)
_TEST_BEHIND = re.compile(
    rf"(?i)[^.!?;\n]{{0,30}}(?<!\w){_TEST_WORDS}(?!\w)|"
    r"\s(?:is|are)\s(?:just |only )?(?:an? )?(?:examples?|placeholders?|dummy|dummies|fictitious|samples?)\b"
)


def followed_by_unit(text: str, end: int) -> bool:
    """Whether a unit follows a number: it counts or measures something."""
    return _UNIT.match(text, end) is not None


def is_labelled_otherwise(text: str, start: int, _end: int = 0) -> bool:
    """Whether the words before a number say that it is an order's, a part's, a page's or a book's."""
    return _OTHER_LABEL.search(text, max(0, start - 40), start) is not None


def is_example(text: str, start: int, end: int) -> bool:
    """Whether the words between two offsets announce the form of an item, or an example of it."""
    return _EXAMPLE_WORDS.search(text, start, end) is not None


def announces_no_example(text: str, start: int, _end: int = 0) -> bool:
    """Whether the words before an item do not announce a form or an example."""
    return not is_example(text, max(0, start - 40), start)


def begins_example(text: str, start: int) -> bool:
    """Whether an abbreviation ("e.g.") or the word for a test ("sandbox") makes an example of what begins at an offset.
    Only for what is reported: a mask hides such an example, too."""
    return _BEGINS_EXAMPLE.search(text, max(0, start - 110), start) is not None


def is_test_behind(text: str, end: int) -> bool:
    """Whether the words behind an item make it a test's or an example: "… is a placeholder". As `begins_example`."""
    return _TEST_BEHIND.match(text, end) is not None


def is_no_sample(text: str, start: int, _end: int = 0) -> bool:
    """Whether neither a word ("format") nor an abbreviation ("e.g.") makes an example of an item. Only for what is
    reported."""
    return announces_no_example(text, start) and not begins_example(text, start)


_REMOTE_COMMAND = re.compile(r"(?<![\w./@-])(?:ssh|scp|sftp|rsync|mosh|ssh-copy-id)(?=[ \t])")
_NO_COMMAND = re.compile(r"[\n,;|&]")
_ARGUMENT_MARK = re.compile(r"[./~:\d]")


def is_no_remote_login(text: str, start: int, _end: int = 0) -> bool:
    """Whether an address is not the user and host of a command: `ssh -p 22 anna@host`, `scp a.txt anna@host:/tmp`."""
    before = text[max(0, start - 160) : start]
    commands = list(_REMOTE_COMMAND.finditer(before))
    if not commands or not before[-1].isspace() or _NO_COMMAND.search(before, commands[-1].end()):
        return True
    words = before[commands[-1].end() :].split()
    previous = ["", *words]
    return not all(
        word.startswith("-") or option.startswith("-") or _ARGUMENT_MARK.search(word)
        for option, word in zip(previous, words, strict=False)
    )


def is_free_number(text: str, start: int, end: int) -> bool:
    """Whether the words around a number leave open what it is: no order's, part's or page's, and no example."""
    if not announces_no_example(text, start) or is_labelled_otherwise(text, start, end):
        return False
    # Digits are masked whatever is around them; an id with letters is masked only if this returns true.
    is_test = begins_example(text, start) or is_test_behind(text, end)
    return not is_test or not set(text[start:end]) <= _DIGITS_AND_MARKS


_DIGITS_AND_MARKS = frozenset("0123456789 .-")


_SECRET_NAME = re.compile(
    r"(?i)secret|token|passw|pwd|private|access|credential|login|auth|api|(?<![a-z])pat(?![a-z])|key(?!word|board)"
)


def is_named_secret(text: str, start: int, end: int) -> bool:
    """Whether a secret's name is close before a value, or at the value's beginning without a blank between."""
    return _SECRET_NAME.search(text, max(0, start - 30), min(end, start + 16)) is not None


_CONTRACT = re.compile(r"(?i)\b(?:contract|token|null|burn|zero|genesis|transaction|tx|hash|commit)\b[^\n.]{0,30}\Z")


def is_nobodys_contract(text: str, start: int, _end: int = 0) -> bool:
    """Whether the words before an address of a block chain do not make it a contract's or a transaction's."""
    return announces_no_example(text, start) and not _CONTRACT.search(text, max(0, start - 60), start)
