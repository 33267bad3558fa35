"""Checks of texts that have the form of personal data or of a secret: check digits, ranges, entropy, no examples.
The words around a match may say that it is an example, a version, or the address of a contract."""

import base64
import hashlib
import ipaddress
import math
import re
from collections import Counter
from importlib import import_module
from itertools import pairwise
from typing import Any

from ragtrace.text.privacy.rule_engine import count_digits, pattern, words

# --- examples and entropy ---------------------------------------------------------------------------------------------

_EXAMPLE = pattern("example_value")


def is_no_example(text: str) -> bool:
    """Whether a value has no word of an example in it."""
    return _EXAMPLE.search(text) is None


def is_random(text: str, bits: float) -> bool:
    """Whether the characters look randomly drawn: Shannon entropy of at least `bits` a character, no example."""
    return _entropy(text) >= bits and is_no_example(text)


def _entropy(text: str) -> float:
    return -sum(n / len(text) * math.log2(n / len(text)) for n in Counter(text).values())


def is_mixed(text: str, bits: float = 3.3) -> bool:
    """Some prefixes are words, too: "secret_manager_settings" has neither numbers nor both kinds of letters."""
    cases = any(c.isupper() for c in text) and any(c.islower() for c in text)
    return (cases or count_digits(text) >= 2) and is_random(text, bits)


# --- keys and logins --------------------------------------------------------------------------------------------------

_URL_LOGIN = re.compile(r"://[^:/@]*:(?P<password>.*[^/])@")
_DEFAULT_PASSWORD = pattern("default_password")


def has_otp_key(text: str) -> bool:
    """Whether an address of an authenticator has a key, and no placeholder."""
    return re.search(r"secret=[A-Za-z2-7]{16}", text) is not None


def is_basic_login(text: str) -> bool:
    """Whether the text after "Basic" is a user and a password in base64 (RFC 7617)."""
    try:
        login = base64.b64decode(text.rsplit(maxsplit=1)[-1], validate=True).decode("utf-8")
    except ValueError:
        return False
    return ":" in login and login.isprintable() and is_no_example(login)


def is_command_login(text: str) -> bool:
    """Whether an option `-u user:password` holds a password that is neither an example nor a default."""
    return is_no_example(text) and _DEFAULT_PASSWORD.fullmatch(text.partition(":")[2].rstrip(".,")) is None


def is_url_password(text: str) -> bool:
    """Whether a URL holds a password that is no placeholder and no default."""
    login = _URL_LOGIN.search(text)
    return login is not None and is_no_example(text) and _DEFAULT_PASSWORD.fullmatch(login["password"]) is None


# --- numbers ----------------------------------------------------------------------------------------------------------

# The first digits of the networks and how long their numbers are (ISO/IEC 7812; each network's own lengths).
_CARDS = re.compile(
    r"220[0-4]\d{12}|4\d{12}(?:\d{3}){0,2}|(?:5[1-5]\d\d|222[1-9]|22[3-9]\d|2[3-6]\d\d|27[01]\d|2720)\d{12}|3[47]\d{13}|"
    r"3(?:0[0-5]|09|[689]\d)\d{11,16}|35\d{14,17}|(?:2131|1800)\d{11}|(?:0604|50|5[6-9]|6)\d{8,17}"
)
_BASE58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"


def is_stdnum(text: str, modules: str) -> bool:
    """Whether one of these modules of python-stdnum (separated by blanks, e.g. `de.idnr`) accepts a number.

    True where none is named: the form is all that can be checked. Never raises.
    """
    compact = re.sub(r"[ ./-]", "", text)
    checkers = (import_module(f"stdnum.{name}") for name in modules.split())
    return not modules or any(_accepts(module, each) for module in checkers for each in (text, compact))


def _accepts(module: Any, text: str) -> bool:
    try:
        return bool(module.is_valid(text))
    except Exception:  # noqa: BLE001 some modules raise on letters and digits of other scripts
        return False


def is_iban(text: str) -> bool:
    """Whether the check digits of an account number are right (ISO 13616, mod 97 = 1)."""
    compact = text.replace(" ", "").upper()
    return 15 <= len(compact) <= 34 and is_stdnum(compact[4:] + compact[:4], "iso7064.mod_97_10")


def is_card(text: str) -> bool:
    """Whether a card of a known network can have this number."""
    digits = re.sub(r"\D", "", text)
    return _CARDS.fullmatch(digits) is not None and len(set(digits)) > 1 and is_stdnum(digits, "luhn")


def is_wallet(text: str) -> bool:
    """Whether a wallet's address has the right check sum: Base58Check, as Bitcoin, Litecoin, Dogecoin and Tron have it,
    or Bitcoin's Bech32 (BIP 173)."""
    if text.lower().startswith("bc1"):
        return is_stdnum(text, "bitcoin")
    number = 0
    for char in text:
        number = number * 58 + _BASE58.index(char)
    payload = number.to_bytes(40, "big")[-25:]
    return hashlib.sha256(hashlib.sha256(payload[:-4]).digest()).digest()[:4] == payload[-4:]


# --- hosts and devices ------------------------------------------------------------------------------------------------

_RESOLVERS = words("resolvers")


def is_host_ip(text: str) -> bool:
    """Whether an IPv4 address is one of another host."""
    parts = [int(p) for p in text.split(".")]
    return all(p <= 255 for p in parts) and parts[0] not in (0, 127, 255) and text not in ("1.1.1.1", "8.8.8.8")


def is_public_ip(text: str) -> bool:
    """Whether an IPv4 or IPv6 address is a public one of a host: not private, reserved, for documentation, or an
    open resolver."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return False
    if not address.is_global or address.is_multicast or str(address) in _RESOLVERS:
        return False
    if isinstance(address, ipaddress.IPv6Address):
        # "abc::def" is a valid address, but rather a name in code.
        return "::" not in text or 0x2000 <= int(address) >> 112 < 0x4000
    return int(address) & 0xFF not in (0, 255)


def is_device(text: str) -> bool:
    """Whether a MAC address can be a device's: not broadcast, multicast, for documentation, or an example."""
    digits = re.sub(r"[^0-9a-f]", "", text.lower())
    steps = {(int(b, 16) - int(a, 16)) % 16 for a, b in pairwise(digits)}
    numbers = [int(digits[i : i + 2], 16) for i in range(0, 12, 2)]
    is_series = len({b - a for a, b in pairwise(numbers[1:])}) == 1  # 00:1A:2B:3C:4D:5E
    is_doubled = all(digits[i] == digits[i + 1] for i in range(0, 12, 2))
    multicast = int(digits[1], 16) & 1
    return not (multicast or is_series or digits.startswith("00005e") or steps <= {1, 0} or is_doubled)


# --- addresses of persons ---------------------------------------------------------------------------------------------

_FUNCTIONS, _ENDS = words("functions"), words("function_ends")
_MAILBOX_WORDS = _FUNCTIONS | _ENDS | words("shared_functions")
_NO_WORD = re.compile(r"[\d._+-]+")
_COMPOUND = pattern("mailbox_compound")
# Persons have their mailboxes at these: "anna.info" is one.
_PRIVATE_PROVIDER = pattern("private_provider")
# Placeholders of documentation: "your@…", "first.last@…", and domains that are reserved for examples.
_FORM_ADDRESS = pattern("form_address")


def is_real_email(text: str) -> bool:
    """Whether an address can be a person's: no mailbox of a function, no form or example, no user of a machine."""
    return not _is_mailbox(text.lower()) and _FORM_ADDRESS.fullmatch(text) is None


def _is_mailbox(address: str) -> bool:
    """Whether the words of an address (in lower case) are those of a function or of a machine's user."""
    local = address.partition("@")[0]
    parts = [part for part in _NO_WORD.split(local) if part]
    if address.endswith(".gserviceaccount.com"):
        return True
    if not parts:
        return False
    # "sales-de", and two words in one: "servicedesk".
    if parts[0] in _MAILBOX_WORDS and all(len(part) == 2 or part in _MAILBOX_WORDS for part in parts[1:]):
        return True
    if any(local.endswith(end) and local.removesuffix(end) in _MAILBOX_WORDS for end in _ENDS):
        return True
    is_function = parts[0] in _FUNCTIONS or (len(parts) > 1 and parts[-1] in _ENDS)
    is_function = is_function or _COMPOUND.fullmatch(parts[0]) is not None
    # Dots separate the names of persons, too: "vpn-admin" is a function, "maria.sales" may be a person.
    is_function = is_function or ("." not in local and "-" in local and parts[-1] in _FUNCTIONS)
    return is_function and _PRIVATE_PROVIDER.fullmatch(address) is None


_BRACKET_AT = r"[ \t]?[\[({<][ \t]?(?:at|ät|arroba|chez|chiocciola|@)[ \t]?[\])}>][ \t]?"
_BRACKET_DOT = r"[ \t]?[\[({<][ \t]?(?:dot|punkt|punto|point|ponto|\.)[ \t]?[\])}>][ \t]?"
_AT = re.compile(rf"(?i){_BRACKET_AT}|[ \t]at[ \t]|_at_")
_DOT = re.compile(rf"(?i){_BRACKET_DOT}|[ \t]dot[ \t]|_dot_")


def written(spelled: str) -> str:
    """A spelled email address as it is written: `ada@acme.de` for `ada (at) acme dot de`."""
    return _DOT.sub(".", _AT.sub("@", spelled, count=1))


def is_spelled_email(text: str) -> bool:
    """Whether a spelled address can be a person's."""
    return is_real_email(written(text))


# --- what the words around a match say of it --------------------------------------------------------------------------

# "e.g. AB1234567", "the test card 4242 …" in the same sentence.
_BEGINS_EXAMPLE = pattern("begins_example")


def is_sample(text: str, at: int) -> bool:
    """Whether the words before an offset ("e.g.", "sandbox") say that the text there is an example. Only for what is
    reported: a mask hides such an example, too."""
    return _BEGINS_EXAMPLE.search(text, max(0, at - 110), at) is not None


def no_sample(match: re.Match[str]) -> bool:
    """Whether the words before an item do not make it an example."""
    return not is_sample(match.string, match.start())


_CONTRACT, _OTHER_LABEL = pattern("contract"), pattern("other_label")


def is_labelled_otherwise(text: str, at: int) -> bool:
    """Whether the words before a number say that it is an order's, a part's, a page's or a book's."""
    return _OTHER_LABEL.search(text, max(0, at - 40), at) is not None


def is_free_number(match: re.Match[str]) -> bool:
    """Whether the words before a number leave open what it is."""
    return no_sample(match) and not is_labelled_otherwise(match.string, match.start())


def is_nobodys_contract(match: re.Match[str]) -> bool:
    """Whether the words before an address of a block chain do not make it a contract's or a transaction's."""
    return not _CONTRACT.search(match.string, max(0, match.start() - 60), match.start())


_VERSION, _NETWORK, _RESOLVER_LABEL = pattern("version_before"), pattern("network_word"), pattern("resolver_label")


def is_host_in_context(match: re.Match[str]) -> bool:
    """Whether the words before an address do not make it a version or the address of a service."""
    before = match.string[max(0, match.start() - 48) : match.start()]
    if _VERSION.search(before) or _RESOLVER_LABEL.search(before):
        return False
    parts = match[0].split(".")
    # Four small numbers are a version or a section: one random address in 500 is of that form.
    small = len(parts) == 4 and sum(int(part) < 32 for part in parts) >= 3
    return not small or _NETWORK.search(before) is not None


_SECRET_NAME = pattern("secret_name_before")


def is_named_secret(match: re.Match[str]) -> bool:
    """Whether a secret's name is close before a value, or at the value's beginning without a blank between."""
    start, end = match.span()
    return _SECRET_NAME.search(match.string, max(0, start - 30), min(end, start + 16)) is not None


_WHEREABOUTS, _ANNOUNCES_EMAIL = pattern("whereabouts"), pattern("announces_email")


def is_whereabouts(match: re.Match[str]) -> bool:
    """Whether the words before coordinates say that somebody is or lives there."""
    return _WHEREABOUTS.search(match.string, max(0, match.start() - 60), match.start()) is not None


def is_announced_email(match: re.Match[str]) -> bool:
    """Whether a spelled address has brackets, or more than a word before "at", or a word announces it: "visit us at
    acme dot com" is not one."""
    is_plain = re.split(r"[ \t@\[({<_]", match[0])[0].isalpha() and not re.search(r"[\[({<_]", match[0])
    return not is_plain or _ANNOUNCES_EMAIL.search(match.string, max(0, match.start() - 60), match.start()) is not None
