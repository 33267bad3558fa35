"""Checks of texts that have the form of personal data or of a secret: check digits, ranges, entropy."""

from __future__ import annotations

import base64
import hashlib
import math
import re
from collections import Counter
from itertools import pairwise

from ragtrace.text.stdnum_checks import is_valid


def is_luhn_valid(number: str) -> bool:
    """Whether the check digit of a card number is right (ISO/IEC 7812-1, annex B)."""
    digits = [int(c) for c in number if c.isdigit()]
    doubled = [d if i % 2 == 0 else sum(divmod(2 * d, 10)) for i, d in enumerate(reversed(digits))]
    return sum(doubled) % 10 == 0


def is_iban(text: str) -> bool:
    """Whether the check digits of an account number are right (ISO 13616, mod 97 = 1)."""
    compact = text.replace(" ", "").upper()
    if not 15 <= len(compact) <= 34:
        return False
    rotated = compact[4:] + compact[:4]
    try:
        return int("".join(str(int(c, 36)) for c in rotated)) % 97 == 1
    except ValueError:
        return False


def is_ssn(text: str) -> bool:
    """Whether a US social security number could have been issued: no area 000, 666 or 9xx, no group 00, no 0000."""
    area, group, serial = re.split(r"[- ]", text)
    return area not in ("000", "666") and area[0] != "9" and group != "00" and serial != "0000"


# The first digits of the networks and how long their numbers are (ISO/IEC 7812; each network's own lengths).
_CARDS = re.compile(
    r"220[0-4]\d{12}|4\d{12}(?:\d{3}){0,2}|(?:5[1-5]\d\d|222[1-9]|22[3-9]\d|2[3-6]\d\d|27[01]\d|2720)\d{12}|3[47]\d{13}|"
    r"3(?:0[0-5]|09|[689]\d)\d{11,16}|35\d{14,17}|(?:2131|1800)\d{11}|(?:0604|50|5[6-9]|6)\d{8,17}"
)


def is_card(text: str) -> bool:
    """Whether a card of a known network can have this number."""
    digits = re.sub(r"\D", "", text)
    return _CARDS.fullmatch(digits) is not None and len(set(digits)) > 1 and is_luhn_valid(digits)


def is_host_ip(text: str) -> bool:
    parts = [int(p) for p in text.split(".")]
    return all(p <= 255 for p in parts) and parts[0] not in (0, 127, 255) and text not in ("1.1.1.1", "8.8.8.8")


# Mailboxes of functions, not of persons; "git" and the like are users of machines.
_ROLE_WORDS = """
abuse accounting accounts admin administrator billing booking bookings buchhaltung career careers compliance contact
contacto contact-us customer customercare datenschutz dataprotection desk dev developers donotreply dpo einkauf email
enquiries enquiry events facturacion feedback finance ftp git hallo hello help helpdesk hg hi hola hostmaster hr imap
info infos informacion inquiries investor investors invoice invoices it jira jobs kontakt kundenservice legal mail
mailer mailer-daemon marketing media newsletter no noreply notification notifications office onboarding operations ops
order orders payment payments personal postmaster presse press privacy privacidad procurement purchasing rechnung
recruiting registration reply return returns root rrhh sales security service services servicio shop smtp soporte ssh
staff store subscribe success sugerencias support svn team tech ticket tickets training ubuntu unsubscribe
user-support ventas verkauf vertrieb webmaster welcome zentrale
"""
_ROLES = frozenset(_ROLE_WORDS.split())
# What stands for the reader's own address.
_FORM_ADDRESS = re.compile(
    r"(?i)(?:(?:your|my|dein|deine|ihr|ihre|votre|uw)(?:[._-]\w*|e?mail|name|address|adresse)?|(?:first|"
    r"last|sur|vor|nach|user|given|family)[._-]?name(?:[._-]?\w*name)?|"
    r"f(?:irst)?\.last(?:name)?|name|name\.surname|surname\.name|nom|nombre|nome|naam|prenom\.nom|nombre\.apellido|nome\.cognome|"
    r"nome\.sobrenome|voornaam\.achternaam|"
    r"user(?:name)?\d?|someone|somebody|anyone|person|example|test(?:er|user)?\d?|foo|bar|abc|xyz|x{2,}|"
    r"(?:max|erika)\.?mustermann|alias|address|recipient|sender)"
    r"@.*|.*@(?:.*\.)?(?:example\.[a-z.]+|(?:your[\w-]*|my-?(?:company|domain|site|firm|org|app))\.\w+|"
    r".+\.(?:example|test|invalid|localhost|local|png|jpe?g|gif|svg|webp|css|js|ts|py))"
)


def is_real_email(text: str) -> bool:
    """Whether an address can be a person's: no mailbox of a function, no form or example, no user of a machine."""
    local = text.lower().partition("@")[0]
    parts = re.split(r"[._+-]", local)
    role = local in _ROLES or (parts[0] in _ROLES and all(len(p) <= 3 or p in _ROLES for p in parts[1:]))
    return not role and _FORM_ADDRESS.fullmatch(text) is None


def is_basic_login(text: str) -> bool:
    """Whether the text after "Basic" is a user and a password in base64 (RFC 7617)."""
    try:
        login = base64.b64decode(text.rsplit(maxsplit=1)[-1], validate=True).decode("utf-8")
    except ValueError:
        return False
    return ":" in login and login.isprintable() and is_no_example(login)


def is_wallet(text: str) -> bool:
    """Whether a wallet's address has the right check sum: Base58Check, as Bitcoin, Litecoin, Dogecoin and Tron have it,
    or Bitcoin's Bech32 (BIP 173)."""
    if text.lower().startswith("bc1"):
        return is_valid(text, "bitcoin")
    number = 0
    for char in text:
        number = number * 58 + _BASE58.index(char)
    payload = number.to_bytes(40, "big")[-25:]
    return hashlib.sha256(hashlib.sha256(payload[:-4]).digest()).digest()[:4] == payload[-4:]


_BASE58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"


_EXAMPLE = re.compile(
    r"(?i)your|example|changeme|change_me|placeholder|xxxx|\*\*\*|\.\.\.|<|redacted|dummy|sample|insert|"
    r"todo|\$\{|%\(|"
    r"\bnone\b|\bnull\b|\btrue\b|\bfalse\b|process\.env|os\.environ|getenv|secrets?\.|"
    r"test[_-]?(?:key|token)"
)
_SERIES = re.compile(r"(?i)\d*12345\d*|abcdef[a-z]*")


def is_no_example(text: str) -> bool:
    """Whether a value has no word of an example in it, and is more than a series such as "12345"."""
    return _EXAMPLE.search(text) is None and (_SERIES.search(text) is None or _is_drawn(_SERIES.sub("", text)))


def _is_drawn(rest: str) -> bool:
    """Whether what a series leaves of a value is long and random."""
    neighbours = sum(ord(b) - ord(a) == 1 for a, b in pairwise(rest.lower()))
    return len(rest) >= 20 and neighbours * 5 < len(rest) and any(map(str.isdigit, rest)) and _entropy(rest) >= 3.5


def is_random(text: str, bits: float) -> bool:
    """Whether the characters look randomly drawn: Shannon entropy of at least `bits` a character, no example."""
    return _entropy(text) >= bits and is_no_example(text)


def _entropy(text: str) -> float:
    return -sum(n / len(text) * math.log2(n / len(text)) for n in Counter(text).values())


def is_mixed(text: str, bits: float = 3.3) -> bool:
    """Some prefixes are words, too: "secret_manager_settings" has neither numbers nor both kinds of letters."""
    cases = any(c.isupper() for c in text) and any(c.islower() for c in text)
    return (cases or sum(c.isdigit() for c in text) >= 2) and is_random(text, bits)


_URL_LOGIN = re.compile(r"://(?P<user>[^:/@]*):(?P<password>[^@]*)@(?P<host>.*)")
# Passwords that images and manuals come with: "postgres", "mysecretpassword", "redispass".
_DEFAULT_PASSWORD = re.compile(
    r"(?i)(?:(?:my|super|db|database|app|dev|local|demo|test|root|toor|admin|user|guest|default|anonymous|postgres|"
    r"postgresql|pg|mysql|mariadb|mongo|mongodb|redis|rabbit|rabbitmq|minio|elastic|tiger|secret|pass|password|passwd|"
    r"passwort|pwd|pw)[-_]?){1,4}\d{0,3}"
)
_OWN_HOST = re.compile(r"(?i)localhost|127\.[\d.]+|0\.0\.0\.0|host\.docker\.internal")


def is_url_password(text: str) -> bool:
    """Whether a URL holds a password that is no placeholder, no default and not the name of the user. A plain word
    opens nothing on the reader's own machine."""
    login = _URL_LOGIN.search(text)
    if login is None or not is_no_example(text):
        return False
    password = login["password"]
    return (
        password.lower() != login["user"].lower()
        and _DEFAULT_PASSWORD.fullmatch(password) is None
        and not (password.isalpha() and _OWN_HOST.fullmatch(login["host"]))
    )


def is_telegram_token(text: str) -> bool:
    """Whether what follows the number of the bot is random."""
    return is_random(text.partition(":")[2], 3.5)


def is_slack_token(text: str) -> bool:
    """A real token holds the numbers of a workspace; "xoxb-my-bot-token" does not."""
    return any(c.isdigit() for c in text) and is_random(text, 2.5)
