"""Searches that a pattern alone cannot do: the parts of a text worth searching, phone numbers, assigned secrets."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cached_property

from ragtrace.text.item_checks import is_no_example, is_random

Span = tuple[int, int]
"""The characters from the first offset to the second, end exclusive."""
_ASCII_LOWER = {upper: upper + 32 for upper in range(ord("A"), ord("Z") + 1)}
# What one number may have between its digits; "x", "e" and "t" come from "x" and "ext" before an extension.
_DIGIT_CLUSTER = re.compile(r"\d(?:[ ().\-/+xet]{0,16}\d){3,}")
_LONG_WORD = re.compile(r"(?<!\S)\S{16,}")
_IBAN_START = re.compile(r"[A-Z]{2}\d{2}")


class SearchText:
    """A text and its parts that are worth a search: to try each pattern on the whole text would take ten times as
    long."""

    def __init__(self, text: str) -> None:
        self.text = text

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
        """The runs of 16 characters and more without white space: no shorter one is a key."""
        return [match.span() for match in _LONG_WORD.finditer(self.text)]

    @cached_property
    def numbers(self) -> list[Span]:
        """The neighbourhoods of many digits that are close together."""
        clusters = (match for match in _DIGIT_CLUSTER.finditer(self.text))
        # Less is a year or a price: neither a phone number nor an IP address.
        return _joined(c.span() for c in clusters if c.group().count(".") >= 3 or _digits(c.group()) >= 7)

    @cached_property
    def addresses(self) -> list[Span]:
        """The neighbourhoods of each @."""
        return _joined((at, at + 400) for at in occurrences("@", self.text))

    @cached_property
    def accounts(self) -> list[Span]:
        """The neighbourhoods of two capital letters before two digits."""
        return _joined((match.start(), match.end() + 48) for match in _IBAN_START.finditer(self.text))


def _joined(spans: Iterable[Span]) -> list[Span]:
    """The spans with a margin on both sides, in order; those that overlap become one."""
    parts: list[Span] = []
    for start, end in spans:
        begin = max(0, start - 72)
        if parts and begin <= parts[-1][1]:
            begin, _ = parts.pop()
        parts.append((begin, end + 24))
    return parts


def _digits(text: str) -> int:
    return sum(map(str.isdigit, text))


def occurrences(word: str, text: str) -> Iterator[int]:
    """The offsets at which a word is in a text."""
    at = text.find(word)
    while at >= 0:
        yield at
        at = text.find(word, at + 1)


# --- phone numbers ----------------------------------------------------------------------------------------------------

_PHONE_HINT = re.compile(r"(?<![\w.])(?:\+|\(|0|\d{3}[-.) ])[\d ().\-/x+]{6,20}")
# Where the text says that a phone number follows, its shape is enough: many real ones follow no numbering plan.
_PHONE_LABEL = re.compile(
    r"(?i)\b(?:phone|telephone|tel|mobile|cell|fax|desk|whatsapp|hotline|landline|call|dial|text|reach|ring|sms)"
    r"(?:\s?(?:number|no|nr|me|us|him|her|them|back|the office))?\.?\s{0,2}(?:[:=#]|\bis\b|\bat\b|\bon\b)?\s{0,2}"
    r"(?P<number>\+?\(?\d[\d ().\-/]{5,19}\d(?:\s?(?:x|ext\.?)\s?\d{1,6})?)(?![\w-]|[.,]\d)"
)
_PHONE_SHAPE = re.compile(
    r"(?<![\w.+-])(?:(?:\+|00)[1-9]\d{0,2}[ .-]?(?:\(0\)[ .-]?)?(?:\(?\d{1,4}\)?[ .-]?){2,5}\d{2,4}"
    r"|(?:\+?1[-. ]|001[-. ])?(?:\(\d{3}\) ?|\d{3}[-.])\d{3}[-.]\d{4})(?:\s?(?:x|ext\.?\s?)\d{1,6})?(?![\w-]|[.,]\d)"
)
_LAST_DIGIT = re.compile(r"\d\D*\Z")


def _shaped_phones(text: SearchText) -> Iterator[Span]:
    """Numbers of 7 to 20 digits that a label announces or that are written like phone numbers."""
    spans: list[Span] = []
    for start, end in text.numbers:
        spans.extend(match.span("number") for match in _PHONE_LABEL.finditer(text.text, start, end))
        spans.extend(match.span() for match in _PHONE_SHAPE.finditer(text.text, start, end))
    last = 0
    for start, end in sorted(spans):
        if start >= last and 7 <= _digits(text.text[start:end]) <= 20:
            last = end
            yield start, end


def _phone_hints(text: SearchText) -> Iterator[re.Match[str]]:
    for start, end in text.numbers:
        yield from _PHONE_HINT.finditer(text.text, start, end)


def phones(text: SearchText) -> Iterator[Span]:
    """Phone numbers: by their shape, and by the numbering plans of all countries."""
    yield from _shaped_phones(text)
    # phonenumbers is thorough and slow, so it reads only the neighbourhood of what looks like a number.
    import phonenumbers

    for hint in _phone_hints(text):
        region = None if hint.group().lstrip("(").startswith("+") else "US"
        leniency = phonenumbers.Leniency.VALID
        for match in phonenumbers.PhoneNumberMatcher(hint.group(), region, leniency=leniency):
            if len(re.sub(r"\D", "", match.raw_string)) >= 9:
                yield hint.start() + match.start, hint.start() + match.end


def phone_forms(text: SearchText) -> Iterator[Span]:
    """Everything that `phones` could return, without the numbering plans: fit for a request's thread."""
    yield from _shaped_phones(text)
    for hint in _phone_hints(text):
        if _digits(hint.group()) >= 9:
            trailing = _LAST_DIGIT.search(hint.group())
            yield hint.start(), hint.end() if trailing is None else hint.start() + trailing.start() + 1


# --- assigned secrets -------------------------------------------------------------------------------------------------

_SECRET_WORDS = (
    "secret", "token", "passwd", "password", "passphrase", "pwd", "client", "auth", "key", "credential", "bearer"
)  # fmt: skip
# Tried before the pattern below, which is slow: the words must be followed by an assignment of something that is no
# plain word. A name of at most 40 characters may lead up to them.
_ASSIGNMENT_NEXT = re.compile(
    r"(?:[_ .-]?id)?[\w.-]{0,30}[\"'`]?\s{0,3}(?:=>|:=|[=:,]|is\b|to\b)\s{0,3}(?:bearer\s)?[\"'`]{0,3}"
    r"[^\s\"'`<>{}()\[\],;\d!@#$%^&*]{0,200}[\d!@#$%^&*]",
    re.I,
)
_NAME_START = re.compile(r"\b[\w.-]{0,40}(?:(?:api|access|private|signing|encryption|license) )?\Z", re.I)
_ASSIGNMENT = re.compile(
    r"(?i)\b(?P<name>[\w.-]{0,40}?(?:secret|token|passwd|password|passphrase|pwd|client[_ .-]?id|auth(?:orization)?|"
    r"(?:api|access|private|signing|encryption|license)[_ .-]?key|credential|bearer|\bkey)[\w.-]{0,20})"
    r"[\"'`]?\s{0,3}(?:=>|:=|[:=]|\bis\b|\bto\b|,)\s{0,3}(?:bearer\s)?[\"'`]{0,3}(?P<value>[^\s\"'`<>{}()\[\],;]{6,200})"
)
# What has such a name is public, or describes a secret.
_OPEN_NAME = re.compile(
    r"(?i)public|publish|"
    r"(?:length|len|size|(?<!ac)count|limit|type|name|url|uri|host|endpoint|path|(?<!pro)file|dir|format|version|expiry)$"
)
# A name in code, or an address on the net: words and small numbers with marks between them.
_DOTTED = re.compile(r"(?:[A-Za-z_]+\d{0,5}[A-Za-z_]*\.)+[A-Za-z_]+\d{0,5}[A-Za-z_]*")
_ADDRESS = re.compile(r"(?i)(?:[a-z0-9](?:[a-z0-9-]{0,30}[a-z0-9])?\.){1,5}[a-z]{2,12}(?::\d{1,5})?(?:/\S*)?")
_PASSWORD_NAME = re.compile(r"(?i)pass(?:wd|word|phrase)|pwd")


def assigned_secrets(text: SearchText) -> Iterator[Span]:
    """Values that are assigned to a name such as `password` or `api_key`."""
    last = 0
    words = sorted((at, at + len(word)) for word in _SECRET_WORDS for at in occurrences(word, text.lower))
    for start, end in words:
        if start < last or not _ASSIGNMENT_NEXT.match(text.text, end):
            continue
        name = _NAME_START.search(text.text, max(last, start - 52), start)
        match = _ASSIGNMENT.match(text.text, name.start() if name else start)
        if match is not None:
            last = match.end()
            if _is_secret_value(match["name"], match["value"]):
                yield match.span("value")


def _is_secret_value(name: str, value: str) -> bool:
    value = value.rstrip(".!?")
    if not is_no_example(value) or _OPEN_NAME.search(name):
        return False
    digits = _digits(value)
    if _PASSWORD_NAME.search(name):
        mixed = digits and any(c.isalpha() for c in value)
        return len(value) >= 6 and bool(mixed or re.search(r"[!@#$%^&*]", value))
    if len(value) < 16 or not digits or "/" in value[:1] or _DOTTED.fullmatch(value) or _ADDRESS.fullmatch(value):
        return False
    return is_random(value, 3.2)
