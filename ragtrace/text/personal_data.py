"""The one table of what is personal or secret: how each kind is recognised, and what replaces it in a masked text.

The leak checks report what `find_personal_data` and `find_secrets` return. Masks hide what `find_masks` returns, which
is all of that and more: everything that is reported is also masked. Names, and addresses that no word calls
a home, need a model (`ragtrace.evaluate.models.person_names`); here they are neither found nor masked.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import partial
from operator import attrgetter
from typing import NamedTuple

from ragtrace.settings import PHONE_REGIONS
from ragtrace.text import life_facts
from ragtrace.text.csv_rows import csv_rows
from ragtrace.text.decoded_text import DecodedText, decoded, rejoined, unwrapped
from ragtrace.text.item_checks import is_card, is_host_ip, is_iban, is_real_email, is_ssn, is_wallet
from ragtrace.text.item_kinds import Group, Kind, Parts, personal
from ragtrace.text.item_labels import label_search
from ragtrace.text.item_search import (
    SearchText,
    announces_no_example,
    is_free_number,
    is_no_remote_login,
    is_no_sample,
    is_nobodys_contract,
)
from ragtrace.text.layout_views import laid_out
from ragtrace.text.network_addresses import (
    IPV4,
    IPV4_FORM,
    IPV4_IN_DASHES,
    IPV6,
    MAC,
    NAMED_MAC,
    is_device,
    is_host_in_context,
    is_public_ip,
)
from ragtrace.text.phone_numbers import phone_forms, phones
from ragtrace.text.plain_views import plain_views
from ragtrace.text.secret_assignments import assigned_secrets, spoken_codes, spoken_passwords
from ragtrace.text.secret_formats import NAMED_SECRET, SECRET_KINDS
from ragtrace.text.spelled_emails import real_spelled_emails, spelled_emails
from ragtrace.text.stdnum_checks import is_valid

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


_EMAIL = (
    r"(?<![\w.+'-])(?<!://)[^\W_][\w.+'-]{0,63}@(?:[^\W_](?:[\w-]{0,61}[^\W_])?\.)"
    r"{1,5}[^\W\d_]{2,24}(?![\w@-]|:[\w~]|\.\w)"
)
_WIDE_EMAIL = r"\b[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,4}"
_IBAN = r"(?<![A-Za-z0-9])[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?(?![A-Za-z0-9])"
_SMALL_IBAN = r"(?<![A-Za-z0-9])[a-z]{2}\d{2}[a-z0-9]{11,30}(?![A-Za-z0-9])"
_CARD = r"(?<![\w.-])\d(?:[ -]?\d){11,18}(?![\w-]|\.\d)"
_WALLET = r"(?<![A-Za-z0-9])(?:[13LMDTX][1-9A-HJ-NP-Za-km-z]{25,34}|bc1[02-9ac-hj-np-z]{11,71})(?![A-Za-z0-9])"
_ETHEREUM = r"(?<![A-Za-z0-9])0x[0-9a-fA-F]{40}(?![A-Za-z0-9])"
# Forms that nothing else has; their check digits are checked.
_UNLABELLED_IDS: tuple[tuple[str, str, Parts], ...] = (
    # Form, module of python-stdnum, parts
    (r"[A-Z]{6}\d\d[A-EHLMPRST]\d\d[A-Z]\d{3}[A-Z]", "it.codicefiscale", "long_words"),
    (r"[A-Z]{4}\d{6}[HM][A-Z]{5}[A-Z\d]\d", "mx.curp", "long_words"),
    (r"[1-9]\d{5}(?:19|20)\d\d(?:0[1-9]|1[0-2])\d{5}[\dX]", "iso7064.mod_11_2", "numbers"),
    (r"\d{3}\.\d{3}\.\d{3}-\d\d", "br.cpf", "numbers"),
    (r"756\.\d{4}\.\d{4}\.\d\d", "ch.ssn", "numbers"),
    (r"[12] \d\d (?:0[1-9]|1[0-2]) (?:\d\d|2[AB]) \d{3} \d{3} \d\d", "fr.nir", "numbers"),
    (r"[XYZ]-?\d{7}-?[A-Z]", "es.nie", "numbers"),
    (r"\d{8}-?[TRWAGMYFPDXBNJZSQVHLCKE]", "es.dni", "numbers"),
    (r"\d{6}[-+A]\d{3}[\dA-Y]", "fi.hetu", "numbers"),
)


def _labelled(name: str, placeholder: str) -> tuple[Kind, Kind]:
    """A kind whose items a label announces. Masks do not check digits: that takes longer, and a typo is as private."""
    return (
        Kind("personal", name, placeholder, search=label_search(name), masked=False),
        Kind("personal", name, placeholder, search=label_search(name, check=False), reported=False),
    )


_PERSONAL_KINDS = (
    personal("email", _EMAIL, is_real_email, "addresses", "[email]", context=is_no_remote_login, contact=True),
    personal("email", _WIDE_EMAIL, None, "addresses", "[email]", reported=False),
    Kind("personal", "email", "[email]", search=real_spelled_emails, masked=False, contact=True),
    Kind("personal", "email", "[email]", search=spelled_emails, reported=False),
    personal("iban", _IBAN, is_iban, "accounts", "[iban]", context=is_no_sample),
    personal("iban", _IBAN, None, "accounts", "[iban]", reported=False),
    personal("iban", _SMALL_IBAN, is_iban, "long_words", "[iban]", reported=False),
    personal("wallet", _WALLET, is_wallet, "long_words", "[wallet]", context=is_no_sample),
    personal("wallet", _WALLET, is_wallet, "long_words", "[wallet]", reported=False),
    personal("wallet", _ETHEREUM, None, "long_words", "[wallet]", context=is_nobodys_contract),
    *_labelled("passport", "[passport]"),
    *_labelled("drivers_license", "[drivers_license]"),
    *_labelled("vin", "[vin]"),
    *_labelled("imei", "[imei]"),
    *_labelled("medical_record", "[medical_record]"),
    *_labelled("date_of_birth", "[date_of_birth]"),
    Kind("personal", "date_of_birth", "[date_of_birth]", search=life_facts.birth_dates),
    Kind("personal", "address", "[address]", search=life_facts.home_addresses, contact=True),
    Kind("personal", "health", "[health]", search=life_facts.diagnoses),
    Kind("personal", "position", "[position]", search=life_facts.positions),
    *_labelled("license_plate", "[license_plate]"),
    *_labelled("bank_routing", "[bank_routing]"),
    *_labelled("us_ssn", "[number]"),
    *_labelled("national_id", "[national_id]"),
    personal("credit_card", _CARD, is_card, "numbers", context=is_free_number),
    *_labelled("bank_account", "[bank_account]"),
    *(
        personal("national_id", rf"(?<![\w.-])(?:{form})(?![\w-]|\.\d)", partial(is_valid, modules=check), parts,
                 "[national_id]", context=is_free_number)
        for form, check, parts in _UNLABELLED_IDS
    ),
    personal("us_ssn", r"(?<![\w.-])\d{3}([- ])\d{2}\1\d{4}(?![\w-]|\.\d)", is_ssn, "numbers", context=is_free_number),
    personal("ip_address", IPV4, is_public_ip, "numbers", "[ip_address]", context=is_host_in_context),
    personal("ip_address", IPV4_FORM, is_host_ip, "numbers", "[ip_address]", reported=False),
    personal("ip_address", IPV4_IN_DASHES, is_public_ip, "numbers", "[ip_address]", reported=False,
             context=is_host_in_context),
    personal("ip_address", IPV6, is_public_ip, "long_words", "[ip_address]", marks=(":",), context=is_host_in_context),
    personal("ip_address", IPV6, is_public_ip, "long_words", "[ip_address]", marks=(":",), reported=False),
    personal("mac_address", MAC, is_device, "long_words", "[mac_address]", context=announces_no_example),
    personal("mac_address", MAC, is_device, "long_words", "[mac_address]", reported=False),
    personal("mac_address", NAMED_MAC, is_device, "values", "[mac_address]"),
    Kind("personal", "phone", "[number]", search=phones, masked=False, contact=True),
    Kind("personal", "phone", "[number]", search=phone_forms, reported=False),
    # Nine digits or more: a phone, a card or a national id, whether its check digit is right or not.
    personal("number", r"(?<!\w)\+?\d(?:[ ().\-/]{0,2}\d){8,18}(?!\w|\.\d)", None, "numbers", reported=False),
)  # fmt: skip
KINDS: tuple[Kind, ...] = (
    *SECRET_KINDS,
    Kind("secret", "assigned_secret", "[secret]", search=assigned_secrets),
    Kind("secret", "assigned_secret", "[secret]", search=spoken_passwords),
    Kind("secret", "code", "[code]", search=spoken_codes),
    *_PERSONAL_KINDS,
    NAMED_SECRET,
)
"""All kinds. Where two overlap, the first one is reported, and its placeholder is shown."""

CONTACT_KINDS = frozenset(kind.name for kind in KINDS if kind.contact)
"""The kinds by which a person can be reached."""


def find_personal_data(text: str, regions: Sequence[str] = PHONE_REGIONS) -> list[Match]:
    """Personal data, in order: addresses (e-mail, home, IP, MAC), phone numbers, cards, accounts and wallets, national
    ids, passports, driver's licenses, plates and vehicles, dates of birth, medical records and diagnoses.

    `regions` (ISO 3166) are those whose national phone numbers are recognised by their form. Where kinds overlap, the
    first of `KINDS` counts. The first 200,000 characters are searched.
    """
    return _find("personal", text, regions)


def find_secrets(text: str) -> list[Match]:
    """Private keys, provider keys and tokens, JSON web tokens, activation keys, cookies of sessions, passwords in URLs,
    assignments, sentences and commands, in order. The first 200,000 characters are searched."""
    return _find("secret", text)


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
    for kind in KINDS:
        if kind.reported and kind.group == group:
            for start, end in kind.find(text):
                yield Match(kind.name, start, end)


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
        kind.pattern.fullmatch(text) is not None and not kind.check(text)
        for kind in KINDS
        if kind.name == name and kind.pattern is not None and kind.check is not None
    )


_TOKEN_REST = re.compile(r"(?:[^\s\"'`<>{}()\[\],;]*\w)?")


def find_masks(text: str) -> list[Mask]:
    """The places to hide in order to mask a text, in order; they do not overlap. Values that letters of other scripts,
    underscores, no-break spaces or dashes hide from the patterns are found in `plain_views` of the text, and those that
    escapes, invisible characters, a layout, CSV or line breaks hide in what `decoded`, `laid_out`, `csv_rows` and
    `unwrapped` return."""
    spans = _seen_spans(text)
    if (view := decoded(text)) is not None:
        spans += [(*view.place(start, end), rank) for start, end, rank in _seen_spans(view.text)]
    plain = DecodedText(text, []) if view is None else view
    for view in _layout_views(plain):
        places = ((*view.place(start, end), rank) for start, end, rank in _mask_spans(view.text))
        spans += [(start, end, rank) for start, end, rank in places if start < end]
    if (view := unwrapped(plain)) is not None:
        spans += [(*view.place(start, end), rank) for start, end, rank in _mask_spans(view.text, _CHECKED_NUMBERS)]
    if (view := rejoined(plain)) is not None:
        # An item that ends with its line is whole.
        hidden = _merged(sorted(spans))
        spans += [span for span in _rejoined_spans(view) if not _is_in(hidden, span[0])]
    return _merged(sorted(spans))


def _is_in(masks: Sequence[Mask], at: int) -> bool:
    """Whether one of these masks, which are in order and do not overlap, has this character."""
    index = bisect_right(masks, at, key=attrgetter("start")) - 1
    return index >= 0 and at < masks[index].end


def _rejoined_spans(view: DecodedText) -> list[tuple[int, int, int]]:
    return [
        (*view.place(start, end), rank)
        for start, end, rank in _mask_spans(view.text)
        if KINDS[rank].group == "secret" or (KINDS[rank].pattern and KINDS[rank].check) or view.text[start] == "+"
    ]


def _seen_spans(text: str) -> list[tuple[int, int, int]]:
    spans = _mask_spans(text)
    for view in plain_views(text):
        spans += _mask_spans(view)
    return spans


def _mask_spans(text: str, names: frozenset[str] | None = None) -> list[tuple[int, int, int]]:
    """Start, end and rank of the kind of what is hidden, as far as the patterns see it; with `names` only the items of
    these kinds that have a check, or begin with +."""
    prepared = SearchText(text)
    spans: list[tuple[int, int, int]] = []
    for rank, kind in enumerate(KINDS):
        if kind.masked and (names is None or kind.name in names):
            for start, end in kind.find(prepared):
                if names is not None and kind.check is None and text[start] != "+":
                    continue
                # Patterns have a greatest length; the rest of a longer secret must not stay.
                rest = _TOKEN_REST.match(text, end) if kind.group == "secret" else None
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
    return [Mask(start, end, KINDS[rank].placeholder) for start, end, rank in merged]
