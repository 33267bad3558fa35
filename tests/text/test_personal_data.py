"""What is reported as personal or secret, and that whatever is reported is masked."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragtrace.text.privacy.checks import is_card, is_iban, is_ssn
from ragtrace.text.privacy.find import RULES, find_masks, find_personal_data, find_secrets
from ragtrace.text.redaction import mask_pii, mask_pii_at


def test_check_digits() -> None:
    """Luhn, IBAN mod 97 and the rules of social security numbers on published examples."""
    assert is_card("4111 1111 1111 1111")
    assert not is_card("4111 1111 1111 1112")
    assert is_iban("GB82 WEST 1234 5698 7654 32")
    assert not is_iban("GB82 WEST 1234 5698 7654 33")
    assert is_ssn("219-09-9999")
    assert not is_ssn("666-09-9999")


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("Write to jane.doe@acme.io today", ["email"]),
        ("Card 4111 1111 1111 1111, thanks", ["credit_card"]),
        ("IBAN GB82 WEST 1234 5698 7654 32.", ["iban"]),
        ("SSN 219-09-9999", ["us_ssn"]),
        ("Host 84.137.22.91 answers", ["ip_address"]),
        ("Host 10.11.12.13 answers", []),
        ("Call +1 650-253-0000 now", ["phone"]),
        ("Order 4111111111111112 and build 1.2.3.4.5", []),
        ("Chapter 3.10.2, page 1234567890", []),
        ("user@example.com is a placeholder", []),
    ],
)
def test_personal_data(text: str, kinds: list[str]) -> None:
    """What is found is checked; order numbers, versions and placeholders are not personal data."""
    assert [match.kind for match in find_personal_data(text)] == kinds


KEY = "AKIA" + "Q3EGRIP7NZX2LJ5M"
RANDOM = "u7Gq0zXw" + "4LkT9sVb2NfJ6RyC"


@pytest.mark.parametrize(
    ("text", "reported"),
    [
        (f"aws key {KEY}", True),
        ("-----BEGIN RSA PRIVATE KEY-----\nMIIE", True),
        ("-----BEGIN CERTIFICATE-----\nMIID", False),
        ("password: hunter2!x", True),
        ("token = " + "ghp_" + "a8Kd0Xq2LmZp4RtY7vBn1Ws5Ec9Jh3Gf6UiQ", True),
        ("postgres://app:s3cr3tPw@db.internal/x", True),
        ("product key VK7JG-NPHTM-C97JM-9MPGT-3V66T", True),
        ("your api_key=YOUR_API_KEY_HERE", False),
        ("commit 3f786850e387550fdab836ed7e6dc881de23001b", False),
        ("password: ********", False),
        ("It starts with -----BEGIN CERTIFICATE----- and ends.", False),
        ("The token of appreciation is a gift.", False),
        (f"signing_key={RANDOM}", True),
        ("twilio: " + "SK" + "0a9f31c77b2e4d58" * 2, True),
        ("use " + "glpat-" + "Zk3v_Qm8Rt" * 3 + ".01" + "x7k2m9q", True),
        (f"public_token={RANDOM}", False),
        (f"publishable_key={RANDOM}", False),
        (f"token_path={RANDOM}", False),
        ("token = settings.auth2.refresh_token", False),
        ("secret = vault1.internal.acme.io:8200", False),
        ("see secret_manager_configuration and key-value-store-with-replicas", False),
        ("slack: xoxb-put-the-bot-token-here", False),
    ],
)
def test_secrets(text: str, reported: bool) -> None:
    """Keys, passwords and tokens are found; certificates, placeholders, hashes and plain words are not."""
    assert bool(find_secrets(text)) is reported


@pytest.mark.parametrize(
    "text",
    ["Phone: 0490 75 40 81", "Fax: 259.735.7502x459", "call me at 0494 92 82 32 please", "+41 (0)96 471 07 95"],
)
def test_numbers_that_are_said_to_be_phones_are(text: str) -> None:
    """Many real numbers follow no numbering plan; what stands before them tells."""
    (match,) = find_personal_data(text)
    assert match.kind == "phone"


# --- what is reported is masked ---------------------------------------------------------------------------------------

_B64 = "MIIEpAIBAAKCAQEAu7Gq0zXw4LkT9sVb2NfJ6RyC"
_HEX = "0a9f31c77b2e4d58"
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
    "azure_key": (
        "a7b8Q~" + RANDOM + "x7k2m9qZ",
        "AccountKey=" + (RANDOM * 3)[:86] + "==",
    ),
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
    "code": (
        "recovery codes 8f3a-92bd, 11c2-77de",
        "PIN: 4821",
        "seed phrase '" + "ripple dog lamp onion cactus venture glove orbit salad mimic tunnel wedding'",
    ),
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
    "jwt": (
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiI0MiJ9.x7k2m9qAbCdEfGh",
        "ey" + "a" * 12 + ".ey" + "b" * 10 + "." + "c" * 10,
    ),
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
    "phone": (
        "call 555-1234 ext. 9",
        "Fax: 259.735.7502x459",
        "+41 (0)96 471 07 95",
        "+1 650-253-0000",
        "call 1417743",
    ),
}
"""For each kind that is reported: items of it."""
_GLUE = st.sampled_from(
    [
        " ",
        " ",
        " ",
        "\n",
        ". ",
        ", ",
        "; ",
        "(",
        ")",
        '"',
        ":",
        "/",
        "-",
        "_",
        ".",
        "x",
        "é",
        "0",
        "+",
        "word ",
        "2024 ",
    ]
)
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
    masked = mask_pii(text)
    assert text[match.start : match.end] not in masked
    assert masked.startswith("It is here: ")
    assert masked.endswith(" and nowhere else.")
    secret = text[match.start : match.end]
    for piece in re.findall(r"\w{4,}", secret):
        assert piece not in masked, piece


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


@pytest.mark.parametrize("length", [201, 500, 5_000])
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


@pytest.mark.parametrize("text", ["x" * 100_000, "1" * 100_000, "key=" * 25_000, "a@" * 50_000, "-----BEGIN " * 9_000,
                                  "12 " * 40_000, "xoxb-" * 20_000, "token " * 17_000, "AB12" * 25_000,
                                  "\\" * 100_000, "_" * 100_000, "_session" * 12_000, "%C3%A9" * 16_000])  # fmt: skip
def test_masking_ends_on_long_repetitions(text: str) -> None:
    """Texts that make careless patterns take quadratic time are masked before the test's time is up."""
    masked, places = mask_pii_at(text, [0, len(text)])
    assert places[len(text)] == len(masked)
