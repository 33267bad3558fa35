"""Personal data and secrets as sentences of seven languages, files and commands hold them, and what looks like them."""

from __future__ import annotations

import pytest

from ragtrace.text.privacy.find import find_personal_data, find_secrets
from ragtrace.text.redaction import mask_pii

HEX = "9c4f2e7a1b8d3f60" + "58e7c2a9d4b1f306"


def _items(text: str) -> list[tuple[str, str]]:
    return [(match.kind, text[match.start : match.end]) for match in (*find_personal_data(text), *find_secrets(text))]


@pytest.mark.parametrize(
    ("text", "item"),
    [
        ("Llame a la señora Ibáñez: 687 30 49 12.", ("phone", "687 30 49 12")),
        ("Unter dieser Nummer: 0711 / 53 29 174.", ("phone", "0711 / 53 29 174")),
        ("Je kunt Noor bereiken op 0612349876.", ("phone", "0612349876")),
        ("Sie ist am 9. Mai 1958 geboren.", ("date_of_birth", "9. Mai 1958")),
        ("nato a Bari il 4 giugno 1971", ("date_of_birth", "4 giugno 1971")),
        ("nascida a 2 de abril de 1990", ("date_of_birth", "2 de abril de 1990")),
        ("Voiture immatriculée BK-519-XT", ("license_plate", "BK-519-XT")),
        ("Registration number: MT21 KVB", ("license_plate", "MT21 KVB")),
        ("Cuenta: 2100 0813 61 0123456789", ("bank_account", "2100 0813 61 0123456789")),
        ("Kto. 5312907741 bei der Volksbank", ("bank_account", "5312907741")),
        ("Kto: 5312907741", ("bank_account", "5312907741")),
        ("Log in by ssh and mail nora@orbit-mail.net", ("email", "nora@orbit-mail.net")),
        ("We use ssh\nnora@orbit-mail.net", ("email", "nora@orbit-mail.net")),
        ("Schreib an christelle@atelier-nord.org.", ("email", "christelle@atelier-nord.org")),
        ("Wohnhaft: Ahornweg 14, 04109 Leipzig", ("address", "Ahornweg 14, 04109 Leipzig")),
        ("Abita a Parma, in via Verdi 31", ("address", "via Verdi 31")),
        ("Elle vit au 8 rue Monge, 21000 Dijon.", ("address", "8 rue Monge, 21000 Dijon")),
        ("Residente in Corso Cavour 60, Bari", ("address", "Corso Cavour 60, Bari")),
        ("bsn: 111222333", ("national_id", "111222333")),
    ],
)
def test_personal_data_in_seven_languages(text: str, item: tuple[str, str]) -> None:
    """Each language has its own order of words beside what it announces."""
    assert _items(text) == [item]
    assert item[1] not in mask_pii(text)


@pytest.mark.parametrize(
    "text",
    [
        "La signora Ferri soffre di asma.",
        "El señor Prats padece epilepsia.",
        "Frau Weiß leidet seit Jahren an Migräne.",
        "Der Patient, Herr Voss, ist HIV-positiv.",
        "Nora Hale was treated for leukaemia in 2020.",
        "Herr Kolb hat eine chronische Bronchitis.",
        "El señor Prats tiene cáncer de pulmón.",
        "Mevrouw Post heeft de ziekte van Parkinson.",
        "Mrs Lowe has been living with diabetes.",
    ],
)
def test_an_illness_of_a_person_is_health_data(text: str) -> None:
    """A title or a full name, and an illness."""
    assert [kind for kind, _ in _items(text)] == ["health"]


@pytest.mark.parametrize(
    ("text", "item"),
    [
        (f"Clave de API: {HEX}", HEX),
        ("La password provvisoria è Tramonto!62.", "Tramonto!62"),
        ("Contraseña temporal: Otoño#58", "Otoño#58"),
        ("Votre code de vérification est 530917.", "530917"),
        ("El código de acceso es 530917.", "530917"),
        ("Ihr Sicherheitscode lautet 530917.", "530917"),
        ("Recovery codes: k4wpn-tzrqm, 8hn2c-55xvd", "k4wpn-tzrqm, 8hn2c-55xvd"),
        ("Das Passwort fürs Gästenetz lautet Kranich#55", "Kranich#55"),
        ("Die PIN der Karte ist 9042.", "9042"),
        ("-----BEGIN PRIVATE KEY----- MIIEvQIBADANBg -----END PRIVATE KEY-----", "MIIEvQIBADANBg"),
        ("-----BEGIN PGP PRIVATE KEY BLOCK-----\nVersion: GnuPG v2\n\nlQdGBF8x", "Version: GnuPG v2"),
        ("-----BEGIN EC PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\nMHcCAQEE", "Proc-Type: 4,ENCRYPTED"),
        ("-----BEGIN EC PRIVATE KEY-----\\nMHcCAQEE", "MHcCAQEE"),
        ('The password at the gate is "velvet otter lamp"', "velvet otter lamp"),
    ],
)
def test_secrets_in_seven_languages(text: str, item: str) -> None:
    """Keys and codes are announced by each language's own words."""
    assert any(item in value for _, value in _items(text))
    assert item not in mask_pii(text)


@pytest.mark.parametrize(
    "text",
    [
        "Direction : direction@mairie-dijon.fr",
        "receptie@hotel-plein.nl",
        "Termine: studienberatung@uni-west.de",
        "apoio.cliente@loja-norte.pt",
        "ssh nora@bastion.orbit-mail.net -p 2222",
        "scp -P 22 a.txt nora@files.orbit-mail.net:/home/nora",
        "Over ssh: ssh -i ~/.ssh/id -p 2222 nora@bastion.orbit-mail.net",
        "Use the form initial.lastname@orbit-mail.net.",
        "An IBAN, e.g. GB29 NWBK 6016 1331 9268 19, has a check digit.",
        "The barcode 5901234123457 is below.",
        "The SSN 123-45-6789 is a placeholder.",
        "MAC addresses look as 00:1A:2B:3C:4D:5E does.",
        "An SSN such as 078-05-1120 was printed on wallets.",
        "Steuernummer des Vereins: 27/530/91744",
        "password_reset_timeout = 259200",
        "The PIN code of the district is 560034.",
        "Begin the file with -----BEGIN RSA PRIVATE KEY----- as in the manual.",
        "-----BEGIN PRIVATE KEY-----\n...\n-----END PRIVATE KEY-----",
        "Meldungen: meldestelle@stadt-nord.de",
        "Frau Weber hat ein Buch über Depressionen geschrieben.",
        "Mr. Hill has experience with cancer.",
        "Mme Faure a rejoint l'Académie du cancer.",
        "The Harbour Fund was treated for tax purposes as a trust.",
        "Building code: 12-4-1",
        "La clave del plan es 2025.",
        "Wer seit Jahren an Migräne leidet, kennt das.",
        "Clara Schumann, geboren am 13. September 1919 in Leipzig, spielte Klavier.",
        "Reference: 2024/0053291/A",
    ],
)
def test_what_only_looks_like_it_is_not_reported(text: str) -> None:
    """Functions, commands, forms, examples and public facts."""
    assert _items(text) == []
