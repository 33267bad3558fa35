"""Phone numbers: by a label in the text, by their shape, and by the numbering plans of the regions that are set."""

import re
from collections.abc import Iterator

from ragtrace.text.privacy.checks import is_labelled_otherwise, is_sample
from ragtrace.text.privacy.rule_engine import Rule, SearchText, Span, count_digits, filled, pattern

_MAX_LOOKUPS = 400
"""Numbers of one text that are looked up in numbering plans, once for each region: prose has fewer."""

_HINT = re.compile(filled(r"(?<![\w.]){{no_date}}(?:\+|\(|0|\d{3}[-.) ])[\d ().\-/x+]{6,20}"))
# Where the text says that a phone number follows, its shape is enough: many real ones follow no numbering plan.
_LABELLED, _SHAPE = pattern("phone_labelled"), pattern("phone_shape")
# National forms: a trunk prefix and groups, "030 1234567", "(030) 123 45 67", "06 12 34 56 78".
_NATIONAL = pattern("phone_national")
# "His number is 612 345 678", "le numéro de Paul est 06 …": a person's number, in digits of any plan.
_PERSONS = pattern("persons_number")
# Numbers of firms and services that are free of charge or share the cost: nobody's own.
_SERVICE = pattern("service_number")
# Who answers is a firm or an office, not a person.
_SWITCHBOARD, _OWN_LINE = pattern("switchboard"), pattern("own_line")
_PHONE_WORD = re.compile(filled(r"(?i)\b(?:{{phone_labels}})"))
# "Chrome/126.0.6478.127", "build 22.0.3155.41": groups of one digit are no part of a phone number with dots.
_VERSION = re.compile(r"\d+(?:\.\d+){2,5}")
_PRODUCT_SLASH = re.compile(r"[A-Za-z]{3,}/\Z")
_LAST_DIGIT = re.compile(r"\d\D*\Z")


def _shapes(text: SearchText) -> Iterator[Span]:
    """Numbers of 7 to 20 digits that a label announces or that are written like phone numbers."""
    spans: list[Span] = []
    for start, end in text.numbers:
        spans.extend(match.span("number") for match in _LABELLED.finditer(text.text, start, end))
        spans.extend(match.span() for match in _SHAPE.finditer(text.text, start, end))
    last = 0
    for start, end in sorted(spans):
        if start >= last and 7 <= count_digits(text.text[start:end]) <= 20:
            last = end
            yield start, end


def _hints(text: SearchText) -> Iterator[re.Match[str]]:
    for start, end in text.numbers:
        yield from _HINT.finditer(text.text, start, end)


def phones(_rule: Rule, text: SearchText, masks: bool) -> Iterator[Span]:
    """Phone numbers of persons, as far as their form and label tell. Service numbers, switchboards, versions and
    examples are not reported. Masks hide all that could be one, without the numbering plans: fit for a request's
    thread."""
    if masks:
        yield from _forms(text)
        return
    for start, end in (*_shapes(text), *_planned(text)):
        number = text.text[start:end]
        if not (
            _SERVICE.fullmatch(number)
            or is_sample(text.text, start)
            or is_labelled_otherwise(text.text, start)
            or _is_version(text.text, start, end)
            or _is_switchboard(text.text, start)
            or len(set(filter(str.isdigit, number))) < 3  # 000-000-0000
        ):
            yield start, end


def _is_version(text: str, start: int, end: int) -> bool:
    """Whether a number in dots is a program's: behind its name and a slash, or with groups of one digit."""
    number = text[start:end]
    if _VERSION.fullmatch(number) is None:
        return False
    is_product = _PRODUCT_SLASH.search(text, max(0, start - 24), start) is not None
    is_label = _PHONE_WORD.search(text, max(0, start - 24), start) is not None
    return not is_label and (is_product or any(len(group) == 1 for group in number.split(".")[1:]))


def _is_switchboard(text: str, start: int) -> bool:
    """Whether a word before a number says that a firm answers, with no person between the word and the number."""
    match = _SWITCHBOARD.search(text, max(0, start - 100), start)
    return match is not None and _OWN_LINE.search(match["rest"]) is None


def _planned(text: SearchText) -> Iterator[Span]:
    """Numbers that are valid in a numbering plan: international ones, and national ones whose form or owner says that
    they are phone numbers."""
    # phonenumbers is thorough and slow, so it reads only the neighbourhood of what looks like a number.
    import phonenumbers

    american = "US" if {"US", "CA"} & set(text.regions) else None
    lookups = 0
    for hint in _hints(text):
        lookups += 1
        region = None if hint.group().lstrip("(").startswith("+") else american
        if lookups > _MAX_LOOKUPS:
            break
        for match in phonenumbers.PhoneNumberMatcher(hint.group(), region, leniency=phonenumbers.Leniency.VALID):
            if count_digits(match.raw_string) >= 9:
                yield hint.start() + match.start, hint.start() + match.end
    for start, end in _national_forms(text):
        lookups += 1
        if lookups > _MAX_LOOKUPS:
            break
        if any(_is_valid(text.text[start:end], region) for region in text.regions):
            yield start, end


def _national_forms(text: SearchText) -> Iterator[Span]:
    for start, end in text.numbers:
        for match in _NATIONAL.finditer(text.text, start, end):
            if 9 <= count_digits(match.group()) <= 12 and len(match.group()) <= 20:
                yield match.span()
        for match in _PERSONS.finditer(text.text, start, end):
            if 9 <= count_digits(match.group(match.lastgroup or 0)) <= 15:
                yield match.span(match.lastgroup or 0)


def _is_valid(number: str, region: str) -> bool:
    import phonenumbers

    try:
        return bool(phonenumbers.is_valid_number(phonenumbers.parse(number, region)))
    except phonenumbers.NumberParseException:
        return False


def _forms(text: SearchText) -> Iterator[Span]:
    yield from _shapes(text)
    yield from _national_forms(text)
    for hint in _hints(text):
        if count_digits(hint.group()) >= 9:
            trailing = _LAST_DIGIT.search(hint.group())
            yield hint.start(), hint.end() if trailing is None else hint.start() + trailing.start() + 1
