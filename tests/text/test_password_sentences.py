"""Passwords in sentences of many languages, and sentences about passwords."""

from __future__ import annotations

import pytest

from ragtrace.text.personal_data import find_secrets
from tests.text.leaks import is_found_and_masked


@pytest.mark.parametrize(
    ("text", "item"),
    [
        # words between the name and the value
        ("La password di accesso al gestionale è Lampone#44.", "Lampone#44"),
        ("Lösenordet för gästnätet är Tallskog&82.", "Tallskog&82"),
        ("Adgangskoden til printeren er Bøgetræ!19.", "Bøgetræ!19"),
        ("Kodeordet til kassen er sommer-Hus77.", "sommer-Hus77"),
        ("Passordet til møterommets skjerm er Fjell%Topp3.", "Fjell%Topp3"),
        ("Hasło administratora do panelu to Dąb_i_Lipa9.", "Dąb_i_Lipa9"),
        ("Heslo k účtu skladu je Borovice+52a!", "Borovice+52a!"),
        ("Wi-Fi-verkon salasana on Kuusi!metsa8.", "Kuusi!metsa8"),
        ("Das Kennwort des alten Archivservers ist Moor&Eiche12.", "Moor&Eiche12"),
        ("Le mot de passe de la salle de réunion est Tilleul-2040.", "Tilleul-2040"),
        ("La contraseña de la cuenta compartida de ventas es Roble_77!", "Roble_77!"),
        ("A senha do servidor de impressão é Coruja*19.", "Coruja*19"),
        ("Het wachtwoord van de kassa op de begane grond is Reiger!31.", "Reiger!31."),
        ("Parola de la panoul de control este Stejar#65.", "Stejar#65"),
        ("The password of the old mailbox at the front desk is Heron&Pike7.", "Heron&Pike7"),
        ("Geslo za tiskalnik je Javor!83x.", "Javor!83x"),
        # in quotes behind the name
        ("Log on with the passphrase 'copper lantern drizzle' and wait.", "copper lantern drizzle"),
        ("Use username 'porter' and password 'greenhouse' on the tablet.", "greenhouse"),
        ("Sign in as nurse with password `springvale` first.", "springvale"),
        ("Benutzer „kasse“ und Passwort „lindenblatt“ am Terminal.", "lindenblatt"),
        ("The account is 'ward3' with the password 'riverbend'.", "riverbend"),
        ('The pass phrase for the backup disk is "violet hammer winter moss".', "violet hammer winter moss"),
        ("Use the password 'maplecreek' with the user 'guest'.", "maplecreek"),
        # a plain word behind a verb
        ("The lift terminal accepts the password bluekettlegarden.", "bluekettlegarden"),
        ("The archive is protected with the password ironlemonriver.", "ironlemonriver"),
        ("He logs in as guest with password tinycanalboat.", "tinycanalboat"),
        # the name is in another part of the sentence
        ("The password was weak, so I set it to Pq7&larch.", "Pq7&larch"),
        ("Someone changed it to Wm4$Birch; the password has stayed since.", "Wm4$Birch"),
        ("Das Passwort war abgelaufen, der Admin hat es auf Ulme!Fels9 gesetzt.", "Ulme!Fels9"),
        ("The root password expired. We reset it to Kx9-Thistle!", "Kx9-Thistle!"),
        ("I switched it to Zr2#Fennel. Tell nobody the password.", "Zr2#Fennel"),
        # codes of wireless networks
        ("Il codice del wifi della sala è gatto-neve-sole-mare.", "gatto-neve-sole-mare"),
        ("Le code du wifi des invités est lune-rouge-table.", "lune-rouge-table"),
        ("The code for the lobby Wi-Fi is 48201977.", "48201977"),
        ("Wifi-koden er bjerg-sol-kaffe-stol.", "bjerg-sol-kaffe-stol"),
        ("WLAN-Code: Spatz7Dach", "Spatz7Dach"),
        ("Le code wifi est citron-vert-2041", "citron-vert-2041"),
        # the name, a mark and the value
        ("Passord = Bjørk!41x", "Bjørk!41x"),
        ("Adgangskode: Ravn#31x", "Ravn#31x"),
        ("Salasana: Koivu!88x", "Koivu!88x"),
        ("La clave del wifi es trigo-azul-perro.", "trigo-azul-perro"),
        ("Kod do wifi to Jesion!44x", "Jesion!44x"),
    ],
)
def test_a_password_in_a_sentence_is_found_and_masked(text: str, item: str) -> None:
    """The value is reported, and the mask hides all of it."""
    assert is_found_and_masked(text, item)


@pytest.mark.parametrize(
    "text",
    [
        # words between the name and the value
        "La password del router è scritta sul retro.",
        "Lösenordet för gästnätet är utgånget.",
        "Adgangskoden til printeren er 8 tegn lang.",
        "Passordet til kontoen er minst 12-tegns.",
        "Hasło do konta to podstawa bezpieczeństwa.",
        "Heslo k účtu je povinné.",
        "Salasana on vaihdettava 90 päivän välein.",
        "The password hash of the account is SHA-256-based.",
        "The password for user7 is stored as bcrypt2.",
        "The password policy for the portal is 8-64 characters.",
        "The password must for all users be 12+ characters.",
        "The password for the account is e.g. Summer#2020.",
        "The password for the VPN is the same as nora@orbit-mail.net.",
        "The reset link for the password is https://acme.io/r2",
        "The password of the demo is up-to-date.",
        "The password is Base64-encoded.",
        "Das Passwort für die Anmeldung ist TLS1.3-verschlüsselt.",
        "Hasło: wymagane",
        "Lösenord: minst 8 tecken",
        "Error: user 'anna' and password 'mismatch'.",
        "Le code du wifi est affiché-dans-la-salle.",
        "Le mot de passe de session est valable 30j.",
        "The password for the database is ${DB_PASS2}.",
        "The password for the database is <your-password1>.",
        # in quotes behind the name
        "The field 'password' and the label 'password' differ.",
        "The password 'field' is required.",
        "Show the password 'too short' error.",
        "It says password 'must not be empty'.",
        "The parameter password 'string' is optional.",
        'The password "required" mark is red.',
        "Choose a pass phrase 'of several words'.",
        "username: 'guest', password: 'guest' by default",
        "In the login form, user and password `autocomplete` are off.",
        # a plain word behind a verb
        "The console accepts the password automatically.",
        "The form accepts the password requirements.",
        "Log in with the password reset.",
        "The disk is protected with the password immediately.",
        "The server accepts the password authentication.",
        "The tool takes the password beforehand.",
        # the name is in another part of the sentence
        "The timeout is in the config; set it to 30min for the password page.",
        "Set it to TLS1.2 and change the password.",
        "Set the password policy and set it to v2.3.1.",
        "If the password expires, set it to never.",
        "set it to nora@orbit-mail.net; the password follows by mail.",
        "Change it to vpn2.acme.io when the password is rejected.",
        # codes of wireless networks
        "The code for the Wi-Fi is on-the-back of the card.",
        "The Wi-Fi key is printed below.",
        "El código del wifi es fácil.",
        "The key to the Wi-Fi problem is 802.11ax.",
        "Le code du wifi est affiché à l'accueil.",
        "Wi-Fi code: see reception.",
    ],
)
def test_a_sentence_about_passwords_has_none(text: str) -> None:
    """Advice, states, placeholders, addresses and words behind the name are no passwords."""
    assert find_secrets(text) == []
