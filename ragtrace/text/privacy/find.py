"""What is personal or secret in a text: what the leak checks report, and what masks hide.

The leak checks report what `find_personal_data` and `find_secrets` return. Masks hide what `find_masks` returns, which
is all of that and more: everything that is reported is also masked. Names, and addresses that no word calls
a home, need a model (`ragtrace.evaluate.models.person_names`); here they are neither found nor masked.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import lru_cache
from operator import attrgetter
from typing import NamedTuple

from ragtrace.settings import PHONE_REGIONS
from ragtrace.text.privacy import checks, passwords, phones
from ragtrace.text.privacy.decoded import DecodedText, decoded, plain_views, rejoined, unwrapped
from ragtrace.text.privacy.label_search import labelled_values
from ragtrace.text.privacy.layout import csv_rows, laid_out
from ragtrace.text.privacy.rule_engine import Group, Rule, SearchText, load

_MODULES = (checks, passwords, phones)
RULES = load({name: value for module in _MODULES for name, value in vars(module).items()} | {"labels": labelled_values})
"""All rules, in order. Where two overlap, the first one is reported, and its placeholder is shown."""
KINDS = {group: frozenset(r.kind for r in RULES if r.report and r.group == group) for group in ("personal", "secret")}
"""What is reported of each group."""
CONTACT_KINDS = frozenset(rule.kind for rule in RULES if rule.contact)
"""The kinds by which a person can be reached."""
_MAX_CHARS = 200_000
"""Characters of one text that the leak checks search. Masks read the whole text."""


class Match(NamedTuple):
    """The kind of an item and its place, end exclusive. Never holds the item itself."""

    kind: str
    start: int
    end: int


class Mask(NamedTuple):
    """A place to hide, end exclusive, and the text that replaces it."""

    start: int
    end: int
    placeholder: str


def find_personal_data(text: str, regions: Sequence[str] = PHONE_REGIONS) -> list[Match]:
    """Personal data, in order: addresses (e-mail, home, IP, MAC), phone numbers, cards, accounts and wallets, national
    ids, passports, driver's licenses, plates and vehicles, dates of birth, medical records and diagnoses.

    `regions` (ISO 3166) are those whose national phone numbers are recognised by their form. Where kinds overlap, the
    first of `RULES` counts. The first 200,000 characters are searched.
    """
    return _find("personal", text, regions)


def find_secrets(text: str) -> list[Match]:
    """Private keys, provider keys and tokens, JSON web tokens, activation keys, cookies of sessions, passwords in URLs,
    assignments, sentences and commands, in order. The first 200,000 characters are searched."""
    return _find("secret", text)


_WITHOUT_KEYWORDS = [rank for rank, rule in enumerate(RULES) if not rule.keywords]
_OF_KEYWORD = {k: [rank for rank, rule in enumerate(RULES) if k in rule.keywords] for r in RULES for k in r.keywords}


def possible(text: SearchText) -> list[tuple[int, Rule]]:
    """The rules that can find an item in a text, each with its rank: one of their keywords is in it, and it has parts
    that they search."""
    ranks = {rank for keyword in text.keywords for rank in _OF_KEYWORD[keyword]}.union(_WITHOUT_KEYWORDS)
    rules = ((rank, RULES[rank]) for rank in sorted(ranks))
    return [(rank, rule) for rank, rule in rules if rule.pattern is None or getattr(text, rule.within)]


def _find(group: Group, text: str, regions: Sequence[str] = ()) -> list[Match]:
    prepared = SearchText(text[:_MAX_CHARS], regions)
    matches: list[Match] = []
    occupied = bytearray(len(prepared.text))
    for match in (*_reported(group, prepared), *_laid_out(group, prepared.text)):
        if not any(occupied[match.start : match.end]):
            matches.append(match)
            occupied[match.start : match.end] = b"\1" * (match.end - match.start)
    return sorted(matches, key=lambda match: match.start)


def _reported(group: Group, text: SearchText) -> Iterator[Match]:
    for _, rule in possible(text):
        if rule.report and rule.group == group:
            for start, end in rule.find(text):
                yield Match(rule.kind, start, end)


def _laid_out(group: Group, text: str) -> Iterator[Match]:
    """What is found in the text without its layout. A national phone number needs no view where only its form tells."""
    for view in _layout_views(DecodedText(text, [])):
        for match in _reported(group, SearchText(view.text)):
            start, end = view.place(match.start, match.end)
            if start < end:  # not so where it is in a label
                yield Match(match.kind, start, end)


def _layout_views(text: DecodedText) -> list[DecodedText]:
    """The texts that hold the same values as lines "label: value"."""
    return [view for view in (laid_out(text), csv_rows(text)) if view is not None]


def is_refuted(name: str, text: str) -> bool:
    """Whether a text has the form of this kind of personal data but fails its check (a wrong check digit, say)."""
    return any(
        rule.pattern.fullmatch(text) is not None and not rule.check(text)
        for rule in RULES
        if rule.kind == name and rule.pattern is not None and rule.check is not None
    )


_TOKEN_REST = re.compile(r"(?:[^\s\"'`<>{}()\[\],;]*\w)?")


def find_masks(text: str) -> list[Mask]:
    """The places to hide in order to mask a text, in order; they do not overlap. Values that letters of other scripts,
    underscores, no-break spaces or dashes hide from the patterns are found in `plain_views` of the text, and those that
    escapes, invisible characters, a layout, CSV or line breaks hide in what `decoded`, `laid_out`, `csv_rows` and
    `unwrapped` return."""
    spans = [span for each in (text, *plain_views(text)) for span in _mask_spans(each)]
    if (view := decoded(text)) is not None:
        spans_of_view = (span for each in (view.text, *plain_views(view.text)) for span in _mask_spans(each))
        spans += [(*view.place(start, end), rank) for start, end, rank in spans_of_view]
    plain = DecodedText(text, []) if view is None else view
    for view in _layout_views(plain):
        places = ((*view.place(start, end), rank) for start, end, rank in _mask_spans(view.text))
        spans += [(start, end, rank) for start, end, rank in places if start < end]
    if (view := unwrapped(plain)) is not None:
        spans += [
            (*view.place(start, end), rank)
            for start, end, rank in _mask_spans(view.text, _CHECKED_NUMBERS, strict=True)
        ]
    if (view := rejoined(plain)) is not None:
        # An item that ends with its line is whole.
        hidden = _merged(sorted(spans))
        places = ((*view.place(start, end), rank) for start, end, rank in _mask_spans(view.text, strict=True))
        spans += [span for span in places if not _is_in(hidden, span[0])]
    return _merged(sorted(spans))


def _is_in(masks: Sequence[Mask], at: int) -> bool:
    """Whether one of these masks, which are in order and do not overlap, has this character."""
    index = bisect_right(masks, at, key=attrgetter("start")) - 1
    return index >= 0 and at < masks[index].end


def _mask_spans(text: str, kinds: frozenset[str] | None = None, strict: bool = False) -> list[tuple[int, int, int]]:
    """Start, end and rank of the rule of what is hidden, as far as the patterns see it; with `kinds` only of these.
    With `strict` personal data have to pass their check, or begin with +."""
    prepared = SearchText(text)
    spans: list[tuple[int, int, int]] = []
    for rank, rule in possible(prepared):
        if kinds is None or rule.kind in kinds:
            is_strict = strict and rule.group == "personal"
            for start, end in rule.find(prepared, masks=not is_strict or rule.check is None):
                if is_strict and rule.check is None and text[start] != "+":
                    continue
                # Patterns have a greatest length; the rest of a longer secret must not stay.
                rest = _TOKEN_REST.match(text, end) if rule.group == "secret" else None
                spans.append((start, rest.end() if rest else end, rank))
    return spans


_CHECKED_NUMBERS = frozenset({"credit_card", "iban", "us_ssn", "phone"})
"""Kinds for which numbers in a column are rarely taken."""


def _merged(spans: Sequence[tuple[int, int, int]]) -> list[Mask]:
    """One mask for all spans (start, end, rank of the kind) that overlap, with the placeholder of the first kind."""
    merged: list[tuple[int, int, int]] = []
    for start, end, rank in spans:
        if merged and start < merged[-1][1]:
            first, last, best = merged.pop()
            merged.append((first, max(last, end), min(best, rank)))
        else:
            merged.append((start, end, rank))
    return [Mask(start, end, RULES[rank].placeholder) for start, end, rank in merged]


# --- public contacts --------------------------------------------------------------------------------------------------

_SEPARATORS = str.maketrans("", "", " -.()/\t\n")
_TRUNK = re.compile(r"\(0\)|^\s*(?:\+|00)|\D")


def bare(text: str) -> str:
    """The text without what people put between digits: the same card, written in another way, is the same card."""
    return text.translate(_SEPARATORS).lower()


class PublicContacts:
    """Domains, e-mail addresses, phone numbers, and any other texts."""

    def __init__(self, contacts: Sequence[str]) -> None:
        contacts = [contact.strip().lower() for contact in contacts]
        self._addresses = {contact for contact in contacts if "@" in contact[1:]}
        names = {contact.lstrip("@") for contact in contacts} - self._addresses
        self._domains = tuple(name for name in names if re.fullmatch(r"(?:[\w-]+\.)+[^\W\d_]{2,}", name))
        self._numbers = tuple(filter(None, map(_number, names)))
        self._texts = {bare(contact) for contact in contacts}

    def __contains__(self, item: str) -> bool:
        """Whether an item is one of the contacts: an address of a domain, or a number with or without its country."""
        address = item.lower()
        domain = address.partition("@")[2]
        if address in self._addresses or any(domain == d or domain.endswith(f".{d}") for d in self._domains):
            return True
        number = _number(item)
        if number and any(number.endswith(own) or own.endswith(number) for own in self._numbers):
            return True
        return bare(item) in self._texts


def _number(text: str) -> str:
    """The digits of a phone number without prefixes and trunk zeros; empty for what is no number."""
    digits = _TRUNK.sub("", text).lstrip("0")
    return digits if len(digits) >= 5 and not any(map(str.isalpha, text)) else ""


@lru_cache(maxsize=16)
def public_contacts(contacts: tuple[str, ...]) -> PublicContacts:
    """The contacts of a setting, prepared once."""
    return PublicContacts(contacts)
