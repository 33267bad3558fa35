"""What is reported as personal or secret, and that whatever is reported is masked."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragtrace.text.privacy.checks import is_card, is_iban, is_no_example, is_ssn, is_stdnum
from ragtrace.text.privacy.find import RULES, PublicContacts, find_masks, find_personal_data, find_secrets
from ragtrace.text.redaction import mask_pii, mask_pii_at

ROWS = [json.loads(line) for line in Path(__file__).with_name("privacy_rows.jsonl").read_text("utf-8").splitlines()]
"""Texts with what is reported of them (kind and item, in order), and as they are masked."""


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["text"][:40])
def test_row(row: dict[str, Any]) -> None:
    """What is reported of a text, and what its mask hides, in seven languages; and what only looks like it."""
    text = row["text"]
    matches = sorted(find_personal_data(text) + find_secrets(text), key=lambda match: (match.start, match.kind))
    assert [[match.kind, text[match.start : match.end]] for match in matches] == row["reported"]
    assert mask_pii(text) == row["masked"]


def test_check_digits() -> None:
    """Luhn, IBAN mod 97 and the rules of social security numbers on published examples."""
    assert is_card("4111 1111 1111 1111")
    assert not is_card("4111 1111 1111 1112")
    assert is_iban("GB82 WEST 1234 5698 7654 32")
    assert not is_iban("GB82 WEST 1234 5698 7654 33")
    assert is_ssn("219-09-9999")
    assert not is_ssn("666-09-9999")


KEY = "AKIA" + "Q3EGRIP7NZX2LJ5M"
RANDOM = "u7Gq0zXw" + "4LkT9sVb2NfJ6RyC"


_B64 = "MIIEpAIBAAKCAQEAu7Gq0zXw4LkT9sVb2NfJ6RyC"
_HEX = "0a9f31c77b2e4d58"
_SEED_PHRASE = "ripple dog lamp onion cactus venture glove orbit salad mimic tunnel wedding'"
ITEMS = {
    "private_key": tuple(
        f"-----BEGIN {label}-----\n{_B64}\n{_B64}\n-----END {label}-----"
        for label in ("RSA PRIVATE KEY", "PRIVATE KEY", "PGP PRIVATE KEY BLOCK")
    ),
    "openai_key": ("sk-proj-" + RANDOM * 2, "sk-" + RANDOM * 2),
    "anthropic_key": ("sk-ant-api03-" + "aB3" * 31,),
    "h2o_key": ("pk-h2O-" + RANDOM,),
    "aws_key_id": (KEY,),
    "github_token": ("ghp_" + "a8Kd0Xq2LmZp4RtY7vBn1Ws5Ec9Jh3Gf6UiQ", "github_pat_" + (RANDOM * 4)[:82]),
    "gitlab_token": ("glpat-" + RANDOM, "gldt-" + RANDOM),
    "slack_token": ("xoxb-2147483647-" + RANDOM,),
    "azure_key": ("a7b8Q~" + RANDOM + "x7k2m9qZ", "AccountKey=" + (RANDOM * 3)[:86] + "=="),
    "azure_sas": ("?sv=2022-11-02&sig=" + (RANDOM * 2)[:43] + "%3D",),
    "webhook": ("discord.com/api/webhooks/918273645546372819/" + RANDOM * 2,),
    "google_secret": ("GOCSPX-" + (RANDOM * 2)[:28],),
    "telegram_token": ("5839204716:AAH" + (RANDOM * 2)[:32],),
    "discord_token": ("MTk4NjIyNDgzNDcxOTI1MjQ4.Gx3fK2." + (RANDOM * 2)[:30],),
    "mailgun_key": (_HEX * 2 + "-0a9f31c7-7b2e4d58",),
    "mailchimp_key": (_HEX * 2 + "-us14",),
    "basic_login": ("Authorization: Basic YW5uYTpTb21tZXIyMDI0IQ==",),
    "command_login": ("curl -u anna:winterreise",),
    "otp_secret": ("otpauth://totp/Shop:anna?secret=NB2W45DFOIZA4YLB", "2FA setup key KVKFKRCPNZQUYMLX"),
    "code": ("recovery codes 8f3a-92bd, 11c2-77de", "PIN: 4821", "seed phrase '" + _SEED_PHRASE),
    "slack_webhook": ("hooks.slack.com/services/T0AB12CD3/B0AB12CD3/" + RANDOM,),
    "google_key": ("AIza" + (RANDOM * 2)[:35],),
    "stripe_key": ("sk_live_" + RANDOM,),
    "huggingface_token": ("hf_" + "QwErTyUiOpAsDfGhJkLzXcVbNmPoIuYtRe",),
    "npm_token": ("npm_" + (RANDOM * 2)[:36],),
    "pypi_token": ("pypi-AgEIcHlwaS5vcmc" + RANDOM * 3,),
    "sendgrid_key": ("SG." + RANDOM[:22] + "." + (RANDOM * 2)[:43],),
    "twilio_key": ("SK" + _HEX * 2,),
    "digitalocean_token": ("dop_v1_" + _HEX * 4,),
    "shopify_token": ("shpat_" + _HEX * 2,),
    "square_token": ("EAAA" + RANDOM,),
    "prefixed_token": ("glsa_" + RANDOM, "vault:v1:" + RANDOM, "xai-" + RANDOM),
    "jwt": ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiI0MiJ9.x7k2m9qAbCdEfGh", f"ey{'a' * 12}.ey{'b' * 10}.{'c' * 10}"),
    "windows_key": ("VK7JG-NPHTM-C97JM-9MPGT-3V66T",),
    "url_password": ("postgres://app:s3cr3tPw@db.internal/x",),
    "assigned_secret": (
        "password: hunter2!x",
        f"signing_key={RANDOM}",
        f'"api key": "{RANDOM}"',
        "pwd is Tr0ub4dor&3",
        "plink -l admin -pw Gr4nite!Fox",
        "PHPSESSID=k8q2m4n6p0r1s3t5v7w9x2y4z6",
    ),
    "wallet": ("1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa", "0x52908400098527886E0F7030069857D2E4169EE7"),
    "passport": ("passport number C3JK7P2RT", "Passeport n° 17FV12345"),
    "drivers_license": ("driver's licence B1234567", "Führerschein B072RRE2I55"),
    "vin": ("VIN 1HGCM82633A004352",),
    "imei": ("IMEI 490154203237518",),
    "medical_record": ("MRN 00483726", "Patientennummer 558812"),
    "date_of_birth": ("date of birth: 14/03/1985", "geboren am 7. Juni 1979"),
    "address": ("home address: 14 Elm Street, Springfield", "wohnhaft in der Lindenstraße 5, 10969 Berlin"),
    "health": ("John Miller was diagnosed with epilepsy",),
    "position": ("her home at 52.520008, 13.404954",),
    "license_plate": ("Kennzeichen B-MW 4711", "license plate 7ABC123"),
    "bank_routing": ("routing number 021000021", "BIC: COBADEFFXXX"),
    "bank_account": ("account number 000123456789", "Kontonummer 532013000"),
    "national_id": ("PESEL 02070803628", "Steuer-ID 47036892816", "CPF 390.533.447-05", "NRIC S1234567D"),
    "mac_address": ("3c:22:fb:9a:41:7e",),
    "email": ("jane.doe@acme.io", "a.b+c@post.eu.acme.co.uk"),
    "iban": ("GB82 WEST 1234 5698 7654 32", "DE89370400440532013000"),
    "credit_card": ("4111 1111 1111 1111", "378282246310005"),
    "us_ssn": ("219-09-9999",),
    "ip_address": ("84.137.22.91", "2a02:8108:8ac0:1f00:9c3d:1b2a:77aa:4410"),
    "phone": ("call 555-1234 ext. 9", "Fax: 259.735.7502x459", "+41 (0)96 471 07 95", "call 1417743"),
}
"""For each kind that is reported: items of it."""
_GLUE = st.sampled_from([*'   \n()":/-_.xé0+', ". ", ", ", "; ", "word ", "2024 "])
_PLANTED = st.lists(
    st.one_of(st.sampled_from([item for items in ITEMS.values() for item in items]), _GLUE, _GLUE), max_size=9
).map("".join)


def test_each_reported_kind_has_an_item() -> None:
    """Whoever adds a kind to the table adds an item of it here."""
    assert set(ITEMS) == {rule.kind for rule in RULES if rule.report}


@pytest.mark.parametrize(("kind", "item"), [(kind, item) for kind, items in ITEMS.items() for item in items])
def test_an_item_is_reported_and_gone_from_the_masked_text(kind: str, item: str) -> None:
    """Each item, in a sentence, is reported under its kind; none of its words is in the masked text."""
    text = f"It is here: {item} and nowhere else."
    (match,) = [m for m in find_personal_data(text) + find_secrets(text) if m.kind == kind]
    secret, masked = text[match.start : match.end], mask_pii(text)
    assert [piece for piece in (secret, *re.findall(r"\w{4,}", secret)) if piece in masked] == []
    assert masked.startswith("It is here: ")
    assert masked.endswith(" and nowhere else.")


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
    """A certificate is public, but it names people and hosts."""
    text = f"It is -----BEGIN CERTIFICATE-----\n{_B64}\n{_B64}\n-----END CERTIFICATE----- as sent."
    assert find_secrets(text) == []
    assert mask_pii(text) == "It is [certificate] as sent."


def test_masks_read_the_whole_text() -> None:
    """What comes after the 200,000 characters that the checks search is masked, too."""
    assert "acme" not in mask_pii("word " * 60_000 + "jane.doe@acme.io")


def test_a_series_makes_an_example_of_a_value_that_has_little_else() -> None:
    """Series of digits and letters are examples, unless a long random rest follows."""
    assert not is_no_example("sk-1234567890abcdefghij")
    assert not is_no_example("ghp_abcDEF123456ghiJKL789mnoPQRstu")
    assert is_no_example("xoxb-123456789012-" + RANDOM)


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


@pytest.mark.parametrize(
    ("item", "public"),
    [
        ("Anna.Berg@ACME.com", True),
        ("anna@eu.acme.com", True),
        ("anna@notacme.com", False),
        ("press@other.org", True),
        ("anna@other.org", False),
        ("+49 (0)30 123 4567", True),
        ("030/1234567", True),
        ("030/1234568", False),
        ("Hauptstraße 12, 80331 München", True),
    ],
)
def test_public_contacts_are_recognised_however_they_are_written(item: str, public: bool) -> None:
    """A domain includes all its addresses; a number is the same with and without its country."""
    contacts = ["acme.com", "press@other.org", "+49 30 1234567", "Hauptstraße 12, 80331 München"]
    assert (item in PublicContacts(contacts)) is public


@pytest.mark.parametrize("text", ["passport 12 " * 9_000, "DNI 12345678Z " * 7_000, "password is " * 9_000,
                                  "0123 456 789 " * 8_000, "lives at 1 Elm Ash " * 5_000, "a:b:" * 25_000,
                                  "recovery code 1a2b 3c4d " * 4_000, "login: a/" * 6_000, "mysql -p" * 7_000,
                                  "1234 is your " * 5_000, "x" * 100_000, "1" * 100_000, "key=" * 25_000,
                                  "a@" * 50_000, "-----BEGIN " * 9_000, "12 " * 40_000, "xoxb-" * 20_000,
                                  "token " * 17_000, "AB12" * 25_000, "\\" * 100_000, "_" * 100_000,
                                  "_session" * 12_000, "%C3%A9" * 16_000])  # fmt: skip
def test_long_repetitions_are_read_once(text: str) -> None:
    """They are searched and masked before the test's time is up, and what is there is found once."""
    for matches in (find_personal_data(text), find_secrets(text)):
        assert all(a.end <= b.start for a, b in pairwise(matches))
    masked, places = mask_pii_at(text, [0, len(text)])
    assert places[len(text)] == len(masked)
