"""Personal data and secrets in a text: patterns whose finds are checked, so that an order number is no card number."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator
from typing import NamedTuple

_MAX_CHARS = 200_000
"""Characters of one text that are searched."""


class Find(NamedTuple):
    """Something found: its kind and where. Never the thing itself."""

    kind: str
    start: int
    end: int


def luhn(number: str) -> bool:
    """The check digit of card numbers (ISO/IEC 7812-1, annex B)."""
    digits = [int(c) for c in number if c.isdigit()]
    doubled = [d if i % 2 == 0 else sum(divmod(2 * d, 10)) for i, d in enumerate(reversed(digits))]
    return sum(doubled) % 10 == 0


def iban(text: str) -> bool:
    """The check digits of account numbers (ISO 13616, mod 97 = 1)."""
    compact = text.replace(" ", "").upper()
    if not 15 <= len(compact) <= 34:
        return False
    moved = compact[4:] + compact[:4]
    try:
        return int("".join(str(int(c, 36)) for c in moved)) % 97 == 1
    except ValueError:
        return False


def ssn(text: str) -> bool:
    """Whether a US social security number could have been issued: no area 000, 666 or 9xx, no group 00, no 0000."""
    area, group, serial = re.split(r"[- ]", text)
    return area not in ("000", "666") and area[0] != "9" and group != "00" and serial != "0000"


def _card(text: str) -> bool:
    digits = re.sub(r"\D", "", text)
    issued = digits[0] in "3456" or 2221 <= int(digits[:4]) <= 2720 or digits[:4] in ("1800", "2131", "0604")
    return 12 <= len(digits) <= 19 and issued and len(set(digits)) > 1 and luhn(digits)


def _ip(text: str) -> bool:
    parts = [int(p) for p in text.split(".")]
    return all(p <= 255 for p in parts) and parts[0] not in (0, 127, 255) and text not in ("1.1.1.1", "8.8.8.8")


def _always(_text: str) -> bool:
    return True


def _mixed(text: str) -> bool:
    """Some prefixes are words, too: "secret_manager_settings" has neither numbers nor both kinds of letters."""
    cases = any(c.isupper() for c in text) and any(c.islower() for c in text)
    return (cases or sum(c.isdigit() for c in text) >= 2) and _random(text, 3.3)


def _slack(text: str) -> bool:
    """Real ones hold the numbers of a workspace; "xoxb-my-bot-token" does not."""
    return any(c.isdigit() for c in text) and _random(text, 2.5)


_Rule = tuple[str, re.Pattern[str], Callable[[str], bool]]

_PERSONAL: tuple[_Rule, ...] = (
    (
        "email",
        re.compile(r"(?<![\w.+-])[A-Za-z0-9][\w.+-]{0,63}@(?:[A-Za-z0-9-]{1,63}\.){1,5}[A-Za-z]{2,24}(?![\w@-])"),
        lambda t: not t.lower().endswith(("@example.com", "@example.org", "@example.net")),
    ),
    (
        "iban",
        re.compile(r"(?<![A-Za-z0-9])[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?(?![A-Za-z0-9])"),
        iban,
    ),
    ("credit_card", re.compile(r"(?<![\w.-])\d(?:[ -]?\d){11,18}(?![\w-]|\.\d)"), _card),
    ("us_ssn", re.compile(r"(?<![\w.-])\d{3}([- ])\d{2}\1\d{4}(?![\w-]|\.\d)"), ssn),
    ("ip_address", re.compile(r"(?<![\w.-])(?:\d{1,3}\.){3}\d{1,3}(?![\w-]|\.\d)"), _ip),
)
_PHONE_HINT = re.compile(r"(?<![\w.])(?:\+|\(|0|\d{3}[-.) ])[\d ().\-/x+]{6,20}")
# Where the text says that a phone number follows, its shape is enough: many real ones follow no numbering plan.
_PHONE_SAID = re.compile(
    r"(?i)\b(?:phone|telephone|tel|mobile|cell|fax|desk|whatsapp|hotline|landline|call|dial|text|reach|ring|sms)"
    r"(?:\s?(?:number|no|nr|me|us|him|her|them|back|the office))?\.?\s{0,2}(?:[:=#]|\bis\b|\bat\b|\bon\b)?\s{0,2}"
    r"(?P<number>\+?\(?\d[\d ().\-/]{5,19}\d(?:\s?(?:x|ext\.?)\s?\d{1,6})?)(?![\w-]|[.,]\d)"
)
_PHONE_SHAPE = re.compile(
    r"(?<![\w.+-])(?:(?:\+|00)[1-9]\d{0,2}[ .-]?(?:\(0\)[ .-]?)?(?:\(?\d{1,4}\)?[ .-]?){2,5}\d{2,4}"
    r"|(?:\+?1[-. ]|001[-. ])?(?:\(\d{3}\) ?|\d{3}[-.])\d{3}[-.]\d{4})(?:\s?(?:x|ext\.?\s?)\d{1,6})?(?![\w-]|[.,]\d)"
)


def personal(text: str) -> list[Find]:
    """E-mail addresses, IBANs, card numbers, US social security numbers, IP addresses and phone numbers.

    What a checked pattern found is not a phone number as well. Names and addresses need a model and are not looked
    for. The first 200,000 characters are read.
    """
    text = text[:_MAX_CHARS]
    found: list[Find] = []
    for rule in _PERSONAL:
        found.extend(f for f in _matches(rule, text) if not _overlaps(f, found))
    for find in _phones(text):
        if not _overlaps(find, found):
            found.append(find)
    return sorted(found, key=lambda f: f.start)


def refuted(kind: str, text: str) -> bool:
    """Whether a check of ours says that a text which has the form of this kind is none: no card's check digit, say."""
    return any(
        kind == name and pattern.fullmatch(text) is not None and not holds(text) for name, pattern, holds in _PERSONAL
    )


def _matches(rule: _Rule, text: str) -> Iterator[Find]:
    kind, pattern, holds = rule
    for match in pattern.finditer(text):
        if holds(match.group()):
            yield Find(kind, *match.span())


def _overlaps(find: Find, others: list[Find]) -> bool:
    return any(find.start < o.end and o.start < find.end for o in others)


def _phones(text: str) -> Iterator[Find]:
    taken = 0
    said = [m.span("number") for m in _PHONE_SAID.finditer(text)]
    shaped = [m.span() for m in _PHONE_SHAPE.finditer(text)]
    for start, end in sorted(said + shaped):
        if start >= taken and 7 <= sum(c.isdigit() for c in text[start:end]) <= 20:
            taken = end
            yield Find("phone", start, end)
    # phonenumbers is thorough and slow: it is asked only about the neighbourhood of what looks like a number.
    import phonenumbers

    for hint in _PHONE_HINT.finditer(text):
        begin = hint.start()
        piece = text[begin : hint.end()]
        region = None if piece.lstrip("(").startswith("+") else "US"
        for match in phonenumbers.PhoneNumberMatcher(piece, region, leniency=phonenumbers.Leniency.VALID):
            if len(re.sub(r"\D", "", match.raw_string)) >= 9:
                yield Find("phone", begin + match.start, begin + match.end)


# Formats that providers publish: a fixed prefix, then an alphabet and a length. Finds of the general rules below them
# need entropy, since a placeholder ("sk-your-key-here") has the format, too.
_SECRETS: tuple[_Rule, ...] = (
    (
        "private_key",
        re.compile(r"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----\s*[A-Za-z0-9+/=:,. -]{1,4096}"),
        _always,
    ),
    ("certificate", re.compile(r"-----BEGIN (?:TRUSTED )?CERTIFICATE-----\s*[A-Za-z0-9+/=]{4,4096}"), _always),
    (
        "openai_key",
        re.compile(r"(?<![\w-])sk-(?:proj-|svcacct-|admin-)?[A-Za-z0-9_-]{20,180}(?![\w-])"),
        lambda t: _random(t, 3.5),
    ),
    ("anthropic_key", re.compile(r"(?<![\w-])sk-ant-[a-z0-9]+-[A-Za-z0-9_-]{80,120}(?![\w-])"), _always),
    ("h2o_key", re.compile(r"(?<![\w-])(?:sk|pk)-h2o-[A-Za-z0-9_-]{16,80}(?![\w-])", re.I), lambda t: _random(t, 3.0)),
    (
        "aws_key_id",
        re.compile(r"(?<![A-Z0-9])(?:AKIA|ASIA|ABIA|ACCA|A3T[A-Z0-9])[A-Z2-7]{16}(?![A-Z0-9])"),
        lambda t: _random(t, 3.0),
    ),
    (
        "github_token",
        re.compile(r"(?<!\w)(?:gh[pousr]_[A-Za-z0-9]{36,251}|github_pat_\w{82})(?!\w)"),
        lambda t: _random(t, 3.0),
    ),
    (
        "gitlab_token",
        re.compile(r"(?<!\w)gl(?:pat|oas|dt|rt|cbt|ptt|ft|imt|agent|soat)-[\w-]{20,300}(?:\.[0-9a-z]{9})?(?![\w-])"),
        lambda t: _random(t, 3.0),
    ),
    ("slack_token", re.compile(r"(?<!\w)xox[abeprs](?:\.xox[bp])?-[A-Za-z0-9-]{10,250}"), _slack),
    ("slack_webhook", re.compile(r"hooks\.slack\.com/(?:services|workflows|triggers)/[A-Za-z0-9+/]{40,60}"), _always),
    ("google_key", re.compile(r"(?<![\w-])AIza[\w-]{35}(?![\w-])"), lambda t: _random(t, 4.0)),
    (
        "stripe_key",
        re.compile(r"(?<!\w)(?:sk|rk)_(?:live|test|prod)_[A-Za-z0-9]{10,99}(?!\w)"),
        lambda t: _random(t, 2.5),
    ),
    ("huggingface_token", re.compile(r"(?<!\w)(?:hf_|api_org_)[A-Za-z]{34}(?!\w)"), lambda t: _random(t, 3.0)),
    ("npm_token", re.compile(r"(?<!\w)npm_[A-Za-z0-9]{36}(?!\w)"), lambda t: _random(t, 3.0)),
    ("pypi_token", re.compile(r"pypi-AgEIcHlwaS5vcmc[\w-]{50,1000}"), _always),
    ("sendgrid_key", re.compile(r"(?<![\w.])SG\.[\w-]{16,32}\.[\w-]{32,64}(?![\w-])"), lambda t: _random(t, 3.0)),
    ("twilio_key", re.compile(r"(?<!\w)SK[0-9a-fA-F]{32}(?!\w)"), lambda t: _random(t, 3.0)),
    ("digitalocean_token", re.compile(r"(?<!\w)do[opr]_v1_[a-f0-9]{64}(?!\w)"), lambda t: _random(t, 3.0)),
    ("shopify_token", re.compile(r"(?<!\w)shp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}(?!\w)"), lambda t: _random(t, 2.5)),
    (
        "square_token",
        re.compile(r"(?<!\w)(?:EAAA[\w-]{22,60}|sq0(?:atp|csp|idp)-[\w-]{22,43})(?![\w-])"),
        lambda t: _random(t, 3.0),
    ),
    (
        "prefixed_token",
        re.compile(
            r"(?<![\w-])(?:dop_v1_|glsa_|glc_|lin_api_|dp\.pt\.|PMAK-|rubygems_|sntrys_|sntryu_|tfp_|pul-|hvs\.|hvb\.|"
            r"figd_|shippo_(?:live|test)_|NRAK-|NRII-|NRJS-|EZ[AT]K|pscale_(?:tkn|pw|oauth)_|rdme_|ico-|dt0c01\.|age-secret-key-1|"
            r"ops_eyJ|secret_|key-|LTAI|AGE-SECRET-KEY-1|CLOJARS_|duffel_(?:live|test)_|fio-u-|flb_live_|live_|r8_|xai-|gsk_|pplx-|"
            r"sgp_|ATATT3|ATCTT3|ATBB|cio_|nfp_|vault:v\d:|whsec_|rzp_live_|sk_prod_|FLWSECK_(?:TEST|PROD)-)"
            r"[A-Za-z0-9_./+-]{16,250}={0,2}"
        ),
        _mixed,
    ),
    (
        "jwt",
        re.compile(r"(?<![\w-])ey[A-Za-z0-9_-]{12,2000}\.ey[A-Za-z0-9_-]{10,4000}\.[A-Za-z0-9_-]{10,2000}"),
        _always,
    ),
    (
        "windows_key",
        re.compile(r"(?<![\w-])(?:[BCDFGHJKMNPQRTVWXY2346789]{5}-){4}[BCDFGHJKMNPQRTVWXY2346789]{5}(?![\w-])"),
        _always,
    ),
    (
        "url_password",
        re.compile(r"\b[a-z][a-z0-9+.-]{1,20}://[^\s:/@]{1,80}:[^\s:/@<>{}$*\[\]]{3,80}@[\w.-]{1,100}"),
        lambda t: not _placeholder(t),
    ),
)
_ASSIGNED = re.compile(
    r"(?i)\b(?P<name>[\w.-]{0,40}?(?:secret|token|passwd|password|passphrase|pwd|client[_ .-]?id|auth(?:orization)?|"
    r"(?:api|access|private|signing|encryption|license)[_ .-]?key|credential|bearer|\bkey)[\w.-]{0,20})"
    r"[\"'`]?\s{0,3}(?:=>|:=|[:=]|\bis\b|\bto\b|,)\s{0,3}(?:bearer\s)?[\"'`]{0,3}(?P<value>[^\s\"'`<>{}()\[\],;]{6,200})"
)
# What is named like this is meant to be seen, or says something about a secret.
_OPEN_NAME = re.compile(
    r"(?i)public|publish|"
    r"(?:length|len|size|(?<!ac)count|limit|type|name|url|uri|host|endpoint|path|(?<!pro)file|dir|format|version|expiry)$"
)
# A name in code, or a place on the net: words and small numbers with marks between them.
_DOTTED = re.compile(r"(?:[A-Za-z_]+\d{0,5}[A-Za-z_]*\.)+[A-Za-z_]+\d{0,5}[A-Za-z_]*")
_ADDRESS = re.compile(r"(?i)(?:[a-z0-9](?:[a-z0-9-]{0,30}[a-z0-9])?\.){1,5}[a-z]{2,12}(?::\d{1,5})?(?:/\S*)?")
_PASSWORD_NAME = re.compile(r"(?i)pass(?:wd|word|phrase)|pwd")
_PLACEHOLDER = re.compile(
    r"(?i)your|example|changeme|change_me|placeholder|xxxx|\*\*\*|\.\.\.|<|redacted|dummy|sample|insert|todo|\$\{|%\(|"
    r"\bnone\b|\bnull\b|\btrue\b|\bfalse\b|process\.env|os\.environ|getenv|secrets?\.|12345|abcdef|test[_-]?(?:key|token)"
)


def secrets(text: str) -> list[Find]:
    """Private keys, certificates, provider keys and tokens, JSON web tokens, activation keys, passwords in URLs and
    in assignments. The first 200,000 characters are read."""
    text = text[:_MAX_CHARS]
    found: list[Find] = []
    for rule in _SECRETS:
        found.extend(f for f in _matches(rule, text) if not _overlaps(f, found))
    for match in _ASSIGNED.finditer(text):
        find = Find("assigned_secret", *match.span("value"))
        if _is_secret_value(match["name"], match["value"]) and not _overlaps(find, found):
            found.append(find)
    return sorted(found, key=lambda f: f.start)


def _is_secret_value(name: str, value: str) -> bool:
    value = value.rstrip(".!?")
    if _placeholder(value) or _OPEN_NAME.search(name):
        return False
    digits = sum(c.isdigit() for c in value)
    if _PASSWORD_NAME.search(name):
        mixed = digits and any(c.isalpha() for c in value)
        return len(value) >= 6 and bool(mixed or re.search(r"[!@#$%^&*]", value))
    if len(value) < 16 or not digits or "/" in value[:1] or _DOTTED.fullmatch(value) or _ADDRESS.fullmatch(value):
        return False
    return _random(value, 3.2)


def _placeholder(text: str) -> bool:
    return _PLACEHOLDER.search(text) is not None


def _random(text: str, bits: float) -> bool:
    """Whether the characters look drawn by lot: Shannon entropy of at least `bits` a character, no placeholder."""
    counts = Counter(text)
    entropy = -sum(n / len(text) * math.log2(n / len(text)) for n in counts.values())
    return entropy >= bits and not _placeholder(text)
