"""What is reported as personal or secret, and that whatever is reported is masked."""

import json
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragtrace.text.privacy.checks import is_stdnum
from ragtrace.text.privacy.find import PublicContacts, find_masks, find_personal_data, find_secrets
from ragtrace.text.redaction import mask_pii, mask_pii_at
from tests.row_files import rows
from tests.text.test_rules import BY_ID, LABELS, expanded
from tests.text.test_rules import ROWS as BY_RULE

ROWS = [json.loads(line) for line in Path(__file__).with_name("privacy_rows.jsonl").read_text("utf-8").splitlines()]
"""Texts with what is reported of them (kind and item, in order), and as they are masked."""


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["text"][:40])
def test_row(row: dict[str, Any]) -> None:
    """What is reported of a text, and what its mask hides, in seven languages; and what only looks like it."""
    text = row["text"]
    matches = sorted(find_personal_data(text) + find_secrets(text), key=lambda match: (match.start, match.kind))
    assert [[match.kind, text[match.start : match.end]] for match in matches] == row["reported"]
    assert mask_pii(text) == row["masked"]


RANDOM = "u7Gq0zXw" + "4LkT9sVb2NfJ6RyC"
_B64 = "MIIEpAIBAAKCAQEAu7Gq0zXw4LkT9sVb2NfJ6RyC"
_REPORTED = [row for name, row in BY_RULE.items() if BY_ID[name].report]
ITEMS = [expanded(text, seed=0) for row in (*_REPORTED, *LABELS) for text in row.get("matches", ())]
"""Items of every kind that is reported: those of its rules."""
_GLUE = st.sampled_from([*'   \n()":/-_.xé0+', ". ", ", ", "; ", "word ", "2024 "])
_PLANTED = st.lists(st.one_of(st.sampled_from(ITEMS), _GLUE, _GLUE), max_size=9).map("".join)


@pytest.mark.parametrize("item", ITEMS)
def test_an_item_is_reported_and_gone_from_the_masked_text(item: str) -> None:
    text = f"It is here: {item} and nowhere else."
    matches, masked = find_personal_data(text) + find_secrets(text), mask_pii(text)
    secrets = [text[match.start : match.end] for match in matches]
    assert secrets
    assert [piece for each in secrets for piece in (each, *re.findall(r"\w{4,}", each)) if piece in masked] == []
    assert masked.startswith("It is here: ")


@given(_PLANTED)
@settings(max_examples=400, deadline=None)
def test_whatever_is_reported_is_masked(text: str) -> None:
    """Whatever stands beside an item: every place that a leak check reports is within a mask."""
    masks = find_masks(text)
    for match in find_personal_data(text) + find_secrets(text):
        assert any(mask.start <= match.start and match.end <= mask.end for mask in masks), match
    assert all(a.end <= b.start for a, b in pairwise(masks))


@given(_PLANTED)
@settings(max_examples=400, deadline=None)
def test_a_masked_text_holds_nothing_to_report_or_to_mask(text: str) -> None:
    """To mask twice is to mask once, and the leak checks pass on a masked text."""
    masked = mask_pii(text)
    assert mask_pii(masked) == masked
    assert find_personal_data(masked) + find_secrets(masked) == []


@pytest.mark.parametrize("length", [201, 5_000])
def test_the_rest_of_a_long_secret_is_masked(length: int) -> None:
    """A token that is longer than its pattern reads leaves no tail."""
    masked = mask_pii(f"token={(RANDOM * length)[:length]}, and xoxb-1{(RANDOM * length)[:length]} too")
    assert masked == "token=[secret], and [api_key] too"


def test_a_certificate_is_masked_but_not_reported() -> None:
    text = f"It is -----BEGIN CERTIFICATE-----\n{_B64}\n{_B64}\n-----END CERTIFICATE----- as sent."
    assert find_secrets(text) == []
    assert mask_pii(text) == "It is [certificate] as sent."


def test_masks_read_the_whole_text() -> None:
    """What comes after the 200,000 characters that the checks search is masked, too."""
    assert "acme" not in mask_pii("word " * 60_000 + "jane.doe@acme.io")


def test_regions_decide_over_national_phone_numbers() -> None:
    """A number in the form of a region is a phone number if the region is set; beside a label it always is one."""
    assert [m.kind for m in find_personal_data("Frau Berger: 0171 2345678", ["DE"])] == ["phone"]
    assert find_personal_data("Frau Berger: 0171 2345678", ["US"]) == []
    assert find_personal_data("Tel. 0171 2345678", [])


def test_checks_by_unknown_letters_never_raise() -> None:
    """Digits and letters of other scripts have no valid check digit."""
    assert not is_stdnum("٤٤٠٥١٤٠١٣٥٩", "pl.pesel")
    assert not is_stdnum("\ud800", "de.idnr fr.nir")
    assert is_stdnum("anything", "")


@pytest.mark.parametrize(("item", "public"), rows(__file__, "public_contacts_are_recognised_however_they_are_written"))
def test_public_contacts_are_recognised_however_they_are_written(item: str, public: bool) -> None:
    """A domain includes all its addresses; a number is the same with and without its country."""
    contacts = ["acme.com", "press@other.org", "+49 30 1234567", "Hauptstraße 12, 80331 München"]
    assert (item in PublicContacts(contacts)) is public


@pytest.mark.parametrize(("piece", "times"), rows(__file__, "long_repetitions_are_read_once"))
def test_long_repetitions_are_read_once(piece: str, times: int) -> None:
    """They are searched and masked before the test's time is up, and what is there is found once."""
    text = piece * times
    for matches in (find_personal_data(text), find_secrets(text)):
        assert all(a.end <= b.start for a, b in pairwise(matches))
    masked, places = mask_pii_at(text, [0, len(text)])
    assert places[len(text)] == len(masked)
