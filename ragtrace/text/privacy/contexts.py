"""What the words around a match say of it: whether it is an example, a measure, a part's number, a firm's address."""

import re

from ragtrace.text.privacy.checks import UUID
from ragtrace.text.privacy.rule_engine import Span, data, pattern

_UNIT, _OTHER_LABEL = pattern("unit"), pattern("other_label")
_EXAMPLE_WORDS, _TEST_BEHIND = pattern("example_words"), pattern("test_behind")
# These make an example only of what follows in the same sentence: "e.g. AB1234567", "the test card 4242 …".
_BEGINS_EXAMPLE = pattern("begins_example")

# --- examples ---------------------------------------------------------------------------------------------------------


def is_example(text: str, start: int, end: int) -> bool:
    """Whether the words between two offsets announce the form of an item, or an example of it."""
    return _EXAMPLE_WORDS.search(text, max(0, start), end) is not None


def begins_example(text: str, start: int) -> bool:
    """Whether an abbreviation ("e.g.") or the word for a test ("sandbox") makes an example of what begins at an offset.
    Only for what is reported: a mask hides such an example, too."""
    return _BEGINS_EXAMPLE.search(text, max(0, start - 110), start) is not None


def is_test_behind(text: str, end: int) -> bool:
    """Whether the words behind an item make it a test's or an example: "… is a placeholder". As `begins_example`."""
    return _TEST_BEHIND.match(text, end) is not None


def no_example(match: re.Match[str]) -> bool:
    """Whether the words before an item do not announce a form or an example."""
    return not is_example(match.string, match.start() - 40, match.start())


def no_example_before(match: re.Match[str]) -> bool:
    """Whether the words before the label of an item announce no example."""
    return not is_example(match.string, match.start() - 30, match.start())


def no_example_before_value(match: re.Match[str]) -> bool:
    """Whether the words before a value, those of its label too, announce no example."""
    return not is_example(match.string, match.start() - 40, match.start("value"))


def no_sample(match: re.Match[str]) -> bool:
    """Whether neither a word ("format") nor an abbreviation ("e.g.") makes an example of an item. Only for what is
    reported."""
    return no_example(match) and not begins_example(match.string, match.start())


# --- numbers ----------------------------------------------------------------------------------------------------------


def followed_by_unit(text: str, end: int) -> bool:
    """Whether a unit follows a number: it counts or measures something."""
    return _UNIT.match(text, end) is not None


def is_labelled_otherwise(text: str, start: int) -> bool:
    """Whether the words before a number say that it is an order's, a part's, a page's or a book's."""
    return _OTHER_LABEL.search(text, max(0, start - 40), start) is not None


_DIGITS_AND_MARKS = frozenset("0123456789 .-")


def is_free_number(match: re.Match[str]) -> bool:
    """Whether the words around a number leave open what it is: no order's, part's or page's, and no example."""
    text, (start, end) = match.string, match.span()
    if not no_example(match) or is_labelled_otherwise(text, start):
        return False
    # Digits are masked whatever is around them; an id with letters is masked only if this returns true.
    is_test = begins_example(text, start) or is_test_behind(text, end)
    return not is_test or not set(match[0]) <= _DIGITS_AND_MARKS


_CONTRACT = pattern("contract")


def is_nobodys_contract(match: re.Match[str]) -> bool:
    """Whether the words before an address of a block chain do not make it a contract's or a transaction's."""
    return no_example(match) and not _CONTRACT.search(match.string, max(0, match.start() - 60), match.start())


# --- hosts and logins -------------------------------------------------------------------------------------------------

_REMOTE_COMMAND = pattern("remote_command")
_NO_COMMAND = re.compile(r"[\n,;|&]")
_ARGUMENT_MARK = re.compile(r"[./~:\d]")
_VERSION, _NETWORK, _RESOLVER_LABEL = pattern("version_before"), pattern("network_word"), pattern("resolver_label")
_SECRET_NAME = pattern("secret_name_before")


def no_remote_login(match: re.Match[str]) -> bool:
    """Whether an address is not the user and host of a command: `ssh -p 22 anna@host`, `scp a.txt anna@host:/tmp`."""
    before = match.string[max(0, match.start() - 160) : match.start()]
    commands = list(_REMOTE_COMMAND.finditer(before))
    if not commands or not before[-1].isspace() or _NO_COMMAND.search(before, commands[-1].end()):
        return True
    words = before[commands[-1].end() :].split()
    previous = ["", *words]
    return not all(
        word.startswith("-") or option.startswith("-") or _ARGUMENT_MARK.search(word)
        for option, word in zip(previous, words, strict=False)
    )


def is_host_in_context(match: re.Match[str]) -> bool:
    """Whether the words before an address do not make it a version, an example or the address of a service."""
    before = match.string[max(0, match.start() - 48) : match.start()]
    if _VERSION.search(before) or _RESOLVER_LABEL.search(before) or not no_example(match):
        return False
    parts = match[0].split(".")
    # Four small numbers are a version or a section: one random address in 500 is of that form.
    small = len(parts) == 4 and sum(int(part) < 32 for part in parts) >= 3
    return not small or _NETWORK.search(before) is not None


def is_named_secret(match: re.Match[str]) -> bool:
    """Whether a secret's name is close before a value, or at the value's beginning without a blank between."""
    start, end = match.span()
    return _SECRET_NAME.search(match.string, max(0, start - 30), min(end, start + 16)) is not None


_LOOSE_COOKIES = frozenset({"session_id", "_session_id", "sid"})
"""Names that conversations and logs have, too: only beside the word "cookie"."""


def is_session_cookie(match: re.Match[str]) -> bool:
    """Whether a name is that of a cookie, and its value no number of a conversation."""
    name = (match["name"] or "").lower()
    if name in _LOOSE_COOKIES and "cookie" not in match.string[max(0, match.start() - 80) : match.start()].lower():
        return False
    is_number = UUID.fullmatch(match["value"]) and "session" in name and name.endswith("id")
    return not is_number and no_example_before_value(match)


# --- persons ----------------------------------------------------------------------------------------------------------

_PERSON, _PLACE, _WHEREABOUTS = pattern("person"), pattern("place_behind"), pattern("whereabouts")
_FULL_NAME = re.compile(r"[A-ZÀ-Ý][\w'’-]+ (?:[\w.]+ )?[A-ZÀ-Ý][\w'’-]+,? (?:\w+ ){0,2}\Z")
_ANNOUNCES_EMAIL = pattern("announces_email")


def is_private_birth(match: re.Match[str]) -> bool:
    """Whether the sentence is not an encyclopedia's: "NAME was born on DATE in PLACE"."""
    before = match.string[max(0, match.start() - 40) : match.start()]
    has_place = match["place"] or _PLACE.match(match.string, match.end())
    return _PERSON.search(before) is not None or not (has_place and _FULL_NAME.search(before))


def is_persons_birth(match: re.Match[str]) -> bool:
    """Whether a word for a person is before a date, or no place is behind it."""
    is_person = _PERSON.search(match.string, max(0, match.start() - 40), match.start())
    return is_person is not None or not match["place"]


def is_whereabouts(match: re.Match[str]) -> bool:
    """Whether the words before coordinates say that somebody is or lives there."""
    return _WHEREABOUTS.search(match.string, max(0, match.start() - 60), match.start()) is not None


def is_announced_email(match: re.Match[str]) -> bool:
    """Whether a spelled address has brackets, or more than a word before "at", or a word announces it: "visit us at
    acme dot com" is not one."""
    is_plain = re.split(r"[ \t@\[({<_]", match[0])[0].isalpha() and not re.search(r"[\[({<_]", match[0])
    return not is_plain or _ANNOUNCES_EMAIL.search(match.string, max(0, match.start() - 60), match.start()) is not None


# --- labels and their values ------------------------------------------------------------------------------------------

_CALENDAR = pattern("calendar")
_THINGS = frozenset(re.sub(r"[\s'’._/-]", "", label) for label in data("words")["words"]["things"])
_ANNOUNCES_NUMBER = pattern("announces_number")
_AMOUNT_BEFORE, _AMOUNT_BEHIND = pattern("amount_before"), pattern("amount_behind")
# A plate of one group of letters: "YOLO 8" has this form, too.
_WEAK_PLATE = re.compile(r"[A-ZÄÖÜ]+ ?\d+|\d+ ?[A-ZÄÖÜ]+")
_NO_PLATE, _TAX_LABEL, _FOUNDED = pattern("no_plate"), pattern("tax_label"), pattern("founded")
_COMPANY_BEFORE, _COMPANY_BETWEEN = pattern("company_before"), pattern("company_between")
_COMPANY_BEHIND = pattern("company_behind")
_NEXT_WORD = re.compile(r"\s[^\W\d_]")


def belongs_to_label(text: str, kind: str, label: Span, value: Span) -> bool:
    """Whether a value that has the form is the number of what the label names: not a date, an amount or a name beside
    it, not an example, and not a company's."""
    between = text[label[1] : value[0]] if label[1] <= value[0] else text[value[1] : label[0]]
    number = text[value[0] : value[1]]
    if begins_example(text, value[0]) or is_test_behind(text, value[1]):
        return False
    if kind == "date_of_birth":
        return not _FOUNDED.search(between) and not _is_behind_company(text, label)
    if kind == "license_plate" and _NO_PLATE.fullmatch(number):
        return False
    if kind == "bank_routing":
        return _is_bank_code(text, text[slice(*label)], between, number, value[1])
    if _TAX_LABEL.search(text, *label) and (
        _is_behind_company(text, label) or _COMPANY_BETWEEN.search(between) or _COMPANY_BEHIND.match(text, value[1])
    ):
        return False
    if is_date(text, value[0]):
        return False
    return not _names_a_thing(text[slice(*label)]) or _is_announced(text, kind, label, value)


def is_date(text: str, at: int) -> bool:
    """Whether a day, or a span of years, begins at an offset."""
    return _CALENDAR.match(text, at) is not None


def _names_a_thing(label: str) -> bool:
    plain = re.sub(r"[\s'’._/-]", "", label.lower())
    return plain in _THINGS or plain.removesuffix("s") in _THINGS


def _is_announced(text: str, kind: str, label: Span, value: Span) -> bool:
    """Whether the words between a thing and a value, and those behind, make the value the thing's number."""
    number, behind = text[slice(*value)], text[label[1] : label[1] + 24]
    if kind == "license_plate" and not _WEAK_PLATE.fullmatch(number):
        return True
    if value[1] <= label[0]:
        return not _AMOUNT_BEFORE.match(behind.lstrip())
    between = text[label[1] : value[0]]
    is_amount = _AMOUNT_BEFORE.search(between) or _AMOUNT_BEHIND.match(text, value[1])
    return not is_amount and _ANNOUNCES_NUMBER.match(between) is not None


def _is_behind_company(text: str, label: Span) -> bool:
    """Whether the word before a label names a company: "the company's tax ID"."""
    return _COMPANY_BEFORE.search(text, max(0, label[0] - 24), label[0]) is not None


def _is_bank_code(text: str, label: str, between: str, code: str, end: int) -> bool:
    """Whether letters beside "SWIFT" are a code of a bank, no word in capitals: "SWIFT MESSAGES are …"."""
    is_word = label == "SWIFT" and code.isalpha() and not code.endswith("XXX") and not between.strip()
    return not is_word or _NEXT_WORD.match(text, end) is None
