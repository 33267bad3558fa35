"""Each class of personal data and of secrets in a sentence, and what looks like it and is none."""

from __future__ import annotations

from itertools import pairwise

import pytest

from ragtrace.text.privacy.checks import is_stdnum
from ragtrace.text.privacy.find import PublicContacts, find_personal_data, find_secrets


def _kinds(text: str) -> list[str]:
    return [match.kind for match in find_personal_data(text)]


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("Bitte an m.öztürk@bäckerei-schön.de schreiben.", "email"),
        ("Le portable de Claire est le 07 61 22 33 44.", "phone"),
        ("El móvil de Marta es 622 334 455.", "phone"),
        ("(0221) 98 76 54 3 is Herr Krüger's number.", "phone"),
        ("Bel Jeroen op 06-12345678.", "phone"),
        ("联系电话 138 1234 5678", "phone"),
        ("The user's IP is 2a02:8108:8ac0:1f00:9c3d:1b2a:77aa:4410.", "ip_address"),
        ("She logged in from 84.137.22.91.", "ip_address"),
        ("MAC-Adresse: A4-83-E7-1C-55-0D", "mac_address"),
        ("Its MAC is 001A.2B3C.4D5F.", "mac_address"),
        ("MAC address 3C22FB9A417E", "mac_address"),
        ("Write to ada.lovelace (at) pump-works (dot) de", "email"),
        ("Schreiben Sie an ada[ät]pump-werk.de!", "email"),
        ("Her mail is ada at pumpworks dot co dot uk", "email"),
        ("Son passeport est le 17FV12345.", "passport"),
        ("Il passaporto n. YA4512367 è di Giulia.", "passport"),
        ("护照号码 E12345678", "passport"),
        ("Rijbewijsnummer 5094962111", "drivers_license"),
        ("His driver\u2019s licence number is B1234567.", "drivers_license"),
        ("NHS number: 401 023 2137", "national_id"),
        ("Seine Steuer-ID lautet 65 929 970 489", "national_id"),
        ("Numéro de sécurité sociale : 2 55 08 14 168 025 38", "national_id"),
        ("El NIE de Olga es X1234567L.", "national_id"),
        ("O CPF dela é 39053344705.", "national_id"),
        ("Burgerservicenummer: 123456782", "national_id"),
        ("주민등록번호 850101-1234567", "national_id"),
        ("046 454 286 is her SIN.", "national_id"),
        ("Social security number: 536228817", "us_ssn"),
        ("Sort code 20-00-00", "bank_account"),
        ("SWIFT code DEUTDEFF", "bank_routing"),
        ("Send it to bc1qar0srrr7xfkvy5l643lydnw9re59gtzzwf5mdq", "wallet"),
        ("Fecha de nacimiento: 23 de abril de 1995", "date_of_birth"),
        ("She was born on 3 May 1991 in Leeds.", "date_of_birth"),
        ("Fahrgestellnummer WVWZZZ1JZXW000001", "vin"),
        ("Plaque d'immatriculation AB-123-CD", "license_plate"),
        ("Versichertennummer: M987654321", "medical_record"),
        ("Frau Schmidt leidet an Depression.", "health"),
        ("Elle habite au 12 rue de la Paix, 75002 Paris.", "address"),
    ],
)
def test_each_class_is_found(text: str, kind: str) -> None:
    """One item of each class, in one of seven languages and more, is found under its kind."""
    assert _kinds(text) == [kind]


@pytest.mark.parametrize(
    "text",
    [
        "Order 4556-7375-8689-9855 has shipped.",
        "Ticket 536-22-8817 was closed.",
        "Part number 800-555-1234, SKU 123-45-6789",
        "Upgrade from version 4.12.8.3 to 31.0.15.3623.",
        "See section 3.2.1.4 of the manual.",
        "The router is at 192.168.1.1, examples use 198.51.100.7 and 2001:db8::1.",
        "Set the DNS to 9.9.9.9 or 2001:4860:4860::8888.",
        "The format is 3c:22:fb:9a:41:7e for MAC addresses.",
        "It ran from 12:30:45 to 13:15:20, std::vector and abc::def.",
        "Write to support@acme.io, info@hotel-adler.de or no-reply@shop.eu.",
        "git clone git@gitlab.com:group/project.git; ssh ubuntu@node7.acme.io",
        "Your login is vorname.nachname@firma.de or user@domain.com; see logo@2x.png",
        "Write a text of 500-1000 words, at 1234567890 mm.",
        "Call the poison line at 1-800-222-1222 or 0800 330 1000.",
        "You need a passport that is valid until 2026-08-01; form DS-11.",
        "The passport number format is two letters and seven digits, e.g. AB1234567.",
        "Fees for a driver's license rose to 45 dollars in 2024.",
        "The DNI has eight digits and a letter; the PESEL is 02070803629.",
        "Albert Einstein was born on 14 March 1879 in Ulm.",
        "Enter your date of birth as DD.MM.YYYY.",
        "Our office: Hauptstraße 12, 80331 München",
        "The tower is at 48.858370, 2.294481.",
        "Patients were diagnosed with influenza. The server suffers from latency.",
        "An IMEI has 15 digits, a VIN 17 characters.",
        "The contract 0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48 is public.",
        "The wallet 1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNb has a wrong check sum.",
    ],
)
def test_what_only_looks_like_personal_data_is_none(text: str) -> None:
    """Numbers of orders and parts, versions, private and documentation addresses, mailboxes of functions, service
    numbers, formats and examples, wrong check digits, and persons of history pass."""
    assert _kinds(text) == []


RANDOM = "k3Jx9LmQ2vT7" + "bR4nW8pY1cZ5"


@pytest.mark.parametrize(
    "text",
    [
        "Das Passwort lautet Sonnenblume.",
        "Mot de passe : soleilbleu",
        "La contraseña es girasol",
        "A senha é abacaxi123",
        "Het wachtwoord is Tulpen2020",
        "The admin password for the router is dragonfly.",
        "password: correct-horse-battery-staple",
        'Passphrase "purple monkey dishwasher lamp"',
        "Login with user admin and password hunter22",
        "Server=db;User Id=sa;Password=Sommerwind;",
        "The password is 84720193.",
        "The door code is 7391.",
        "Twilio auth token 9c4f2e7a1b8d3f60" + "58e7c2a9d4b1f306",
        "OPENAI_AZURE_KEY=3f9a8c7b6d5e4f3a" + "2b1c0d9e8f7a6b5c",
        "The API token is 7d1f0a9c3e5b4826" + "9f0e1d2c3b4a5968.",
        '"private_key": "-----BEGIN PRIVATE KEY-----\\nMIIEvQIBADANBgkq',
        f"dckr_pat_{RANDOM}",
    ],
)
def test_secrets_in_sentences_are_found(text: str) -> None:
    """Passwords in seven languages, also without a digit, codes, and keys that a name announces."""
    assert find_secrets(text)


@pytest.mark.parametrize(
    "text",
    [
        "The password is required and case-sensitive.",
        "Das Passwort ist abgelaufen.",
        "Le mot de passe est obligatoire.",
        "La contraseña es incorrecta.",
        "A senha é obrigatória.",
        "Password: string",
        "password = os.environ['DB_PASSWORD'], or ${DB_PASSWORD}",
        f"The cache key is {RANDOM}.",
        f"Idempotency key: {RANDOM}",
        f"partition key: {RANDOM}",
        "Foreign key: orders.customer_id_fk_2023",
        "Product key format: XXXXX-XXXXX-XXXXX-XXXXX-XXXXX",
        "password_hash: 5f4dcc3b5aa765d61d8327deb882cf99",
        "Your PIN has 4 digits, and the PIN is 4 digits long.",
        "Recovery codes are shown once; 10 codes are generated.",
        "mysql://user:password@localhost/db",
        "Basic authentication is deprecated.",
        "The next page token is CAUQAA4821bcdef09.",
    ],
)
def test_what_only_looks_like_a_secret_is_none(text: str) -> None:
    """What is said of passwords, keys that open nothing, placeholders, hashes and formats pass."""
    assert find_secrets(text) == []


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
    """A domain stands for all its addresses; a number is the same with and without its country."""
    contacts = ["acme.com", "press@other.org", "+49 30 1234567", "Hauptstraße 12, 80331 München"]
    assert (item in PublicContacts(contacts)) is public


@pytest.mark.parametrize("text", ["passport 12 " * 9_000, "DNI 12345678Z " * 7_000, "password is " * 9_000,
                                  "0123 456 789 " * 8_000, "lives at 1 Elm Ash " * 5_000, "a:b:" * 25_000,
                                  "recovery code 1a2b 3c4d " * 4_000])  # fmt: skip
def test_searching_ends_on_long_repetitions(text: str) -> None:
    """Labels and numbers without end are searched before the test's time is up, and what is there is found once."""
    for matches in (find_personal_data(text), find_secrets(text)):
        assert all(a.end <= b.start for a, b in pairwise(matches))
