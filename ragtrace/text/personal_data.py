"""The one table of what is personal or secret: how each kind is recognised, and what replaces it in a masked text.

The leak checks report what `find_personal_data` and `find_secrets` return. Masks hide what `find_masks` returns, which
is all of that and more: everything that is reported is also masked. Names and postal addresses need a model
(`ragtrace.models.person_names`); here they are neither found nor masked.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, NamedTuple

from ragtrace.text.item_checks import (
    is_card,
    is_host_ip,
    is_iban,
    is_mixed,
    is_no_example,
    is_random,
    is_real_email,
    is_slack_token,
    is_ssn,
)
from ragtrace.text.item_search import SearchText, Span, assigned_secrets, phone_forms, phones

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


Group = Literal["personal", "secret"]
Parts = Literal["whole", "long_words", "numbers", "addresses", "accounts"]


@dataclass(frozen=True, slots=True)
class Kind:
    """How one kind of personal data or secret is recognised, and what replaces it."""

    group: Group
    name: str
    placeholder: str
    pattern: re.Pattern[str] | None = None
    check: Callable[[str], bool] | None = None
    """Whether a text that has the form is of this kind (by its check digit, for example)."""
    search: Callable[[SearchText], Iterator[Span]] | None = None
    """Finds the items where pattern and check cannot."""
    marks: tuple[str, ...] = ()
    """Substrings: a text without any of them has no item, so the pattern is not tried."""
    parts: Parts = "whole"
    """The parts of the text that can hold an item."""
    reported: bool = True
    """False for a wider form that is only masked: a mask hides rather too much than too little."""
    masked: bool = True
    """False where another row masks every item of this one with less work."""
    contact: bool = False
    """Whether a person can be reached by it."""

    def find(self, text: SearchText) -> Iterator[Span]:
        """The places of all items in a text."""
        if self.search is not None:
            yield from self.search(text)
        if self.pattern is None or (self.marks and not any(mark in text.text for mark in self.marks)):
            return
        parts: list[Span] = getattr(text, self.parts)
        for start, end in parts:
            for match in self.pattern.finditer(text.text, start, end):
                if self.check is None or self.check(match.group()):
                    yield match.span()


def _kind(
    group: Group, name: str, pattern: str, check: Callable[[str], bool] | float | None, placeholder: str, **more: Any
) -> Kind:
    """A kind with a pattern. A number for `check` is the entropy that an item needs, in bits a character."""
    checks = partial(is_random, bits=check) if isinstance(check, float) else check
    return Kind(group, name, placeholder, re.compile(pattern), checks, **more)


def _secret(
    name: str,
    pattern: str,
    check: Callable[[str], bool] | float | None,
    marks: str = "",
    placeholder: str = "[api_key]",
    **more: Any,
) -> Kind:
    return _kind("secret", name, pattern, check, placeholder, marks=tuple(marks.split(" ")) if marks else (), **more)


def _personal(
    name: str,
    pattern: str,
    check: Callable[[str], bool] | None,
    parts: Parts,
    placeholder: str = "[number]",
    **more: Any,
) -> Kind:
    return _kind("personal", name, pattern, check, placeholder, parts=parts, **more)


_BEGIN_KEY = r"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----"
_WHOLE_KEY = (
    r"(?s)-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----.*?(?:-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----|\Z)"
)
_BEGIN_CERTIFICATE = r"-----BEGIN (?:TRUSTED )?CERTIFICATE-----"
_WHOLE_CERTIFICATE = (
    rf"{_BEGIN_CERTIFICATE}\s*[A-Za-z0-9+/=]{{4}}[A-Za-z0-9+/=\s]*(?:-----END (?:TRUSTED )?CERTIFICATE-----)?"
)
_AWS = "AKIA|ASIA|ABIA|ACCA|A3T[A-Z0-9]"
_GITLAB = "pat|oas|dt|rt|cbt|ptt|ft|imt|agent|soat"
_SLACK = r"hooks\.slack\.com/(?:services|workflows|triggers)"
_SQUARE = r"EAAA[\w-]{22,60}|sq0(?:atp|csp|idp)-[\w-]{22,43}"
_PREFIXES = (
    r"dop_v1_|glsa_|glc_|lin_api_|dp\.pt\.|PMAK-|rubygems_|sntrys_|sntryu_|tfp_|pul-|hvs\.|hvb\.|figd_|"
    r"shippo_(?:live|test)_|NRAK-|NRII-|NRJS-|EZ[AT]K|pscale_(?:tkn|pw|oauth)_|rdme_|ico-|dt0c01\.|age-secret-key-1|"
    r"ops_eyJ|secret_|key-|LTAI|AGE-SECRET-KEY-1|CLOJARS_|duffel_(?:live|test)_|fio-u-|flb_live_|live_|r8_|xai-|gsk_|"
    r"pplx-|sgp_|ATATT3|ATCTT3|ATBB|cio_|nfp_|vault:v\d:|whsec_|rzp_live_|sk_prod_|FLWSECK_(?:TEST|PROD)-"
)
_ANY_KEY = "sk|pk|rk|ghp|gho|ghs|glpat|xox[abp]|AKIA|ASIA|AIza|hf|npm"
_JWT = r"(?<![\w-])ey[A-Za-z0-9_-]{12,2000}\.ey[A-Za-z0-9_-]{10,4000}\.[A-Za-z0-9_-]{10,2000}"
_WINDOWS = "[BCDFGHJKMNPQRTVWXY2346789]{5}"
_URL_PASSWORD = r"\b[a-z][a-z0-9+.-]{1,20}://[^\s:/@]{1,80}:[^\s:/@<>{}$*\[\]]{3,80}@[\w.-]{1,100}"
_EMAIL = r"(?<![\w.+-])[A-Za-z0-9][\w.+-]{0,63}@(?:[A-Za-z0-9-]{1,63}\.){1,5}[A-Za-z]{2,24}(?![\w@-])"
_WIDE_EMAIL = r"\b[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,4}"
_IBAN = r"(?<![A-Za-z0-9])[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?(?![A-Za-z0-9])"

# Formats that providers publish: a fixed prefix, then an alphabet and a length. Most need entropy as well, since an
# example ("sk-your-key-here") has the format, too.
_KEYS = (
    _secret("openai_key", r"(?<![\w-])sk-(?:proj-|svcacct-|admin-)?[A-Za-z0-9_-]{20,180}(?![\w-])", 3.5, "sk-"),
    _secret("anthropic_key", r"(?<![\w-])sk-ant-[a-z0-9]+-[A-Za-z0-9_-]{80,120}(?![\w-])", None, "sk-ant-"),
    _secret("h2o_key", r"(?i)(?<![\w-])(?:sk|pk)-h2o-[A-Za-z0-9_-]{16,80}(?![\w-])", 3.0, "h2o- H2O- H2o- h2O-"),
    _secret("aws_key_id", rf"(?<![A-Z0-9])(?:{_AWS})[A-Z2-7]{{16}}(?![A-Z0-9])", 3.0, "AKIA ASIA ABIA ACCA A3T"),
    _secret("github_token", r"(?<!\w)(?:gh[pousr]_[A-Za-z0-9]{36,251}|github_pat_\w{82})(?!\w)", 3.0, "gh github_"),
    _secret("gitlab_token", rf"(?<!\w)gl(?:{_GITLAB})-[\w-]{{20,300}}(?:\.[0-9a-z]{{9}})?(?![\w-])", 3.0, "gl"),
    _secret("slack_token", r"(?<!\w)xox[abeprs](?:\.xox[bp])?-[A-Za-z0-9-]{10,250}", is_slack_token, "xox"),
    _secret("slack_webhook", rf"{_SLACK}/[A-Za-z0-9+/]{{40,60}}", None, "hooks.slack.com/", "[webhook]"),
    _secret("google_key", r"(?<![\w-])AIza[\w-]{35}(?![\w-])", 4.0, "AIza"),
    _secret("stripe_key", r"(?<!\w)(?:sk|rk)_(?:live|test|prod)_[A-Za-z0-9]{10,99}(?!\w)", 2.5, "sk_ rk_"),
    _secret("huggingface_token", r"(?<!\w)(?:hf_|api_org_)[A-Za-z]{34}(?!\w)", 3.0, "hf_ api_org_"),
    _secret("npm_token", r"(?<!\w)npm_[A-Za-z0-9]{36}(?!\w)", 3.0, "npm_"),
    _secret("pypi_token", r"pypi-AgEIcHlwaS5vcmc[\w-]{50,1000}", None, "pypi-AgEI"),
    _secret("sendgrid_key", r"(?<![\w.])SG\.[\w-]{16,32}\.[\w-]{32,64}(?![\w-])", 3.0, "SG."),
    _secret("twilio_key", r"(?<!\w)SK[0-9a-fA-F]{32}(?!\w)", 3.0, "SK"),
    _secret("digitalocean_token", r"(?<!\w)do[opr]_v1_[a-f0-9]{64}(?!\w)", 3.0, "_v1_"),
    _secret("shopify_token", r"(?<!\w)shp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}(?!\w)", 2.5, "shp"),
    _secret("square_token", rf"(?<!\w)(?:{_SQUARE})(?![\w-])", 3.0, "EAAA sq0"),
    _secret(
        "prefixed_token",
        rf"(?<![\w-])(?:{_PREFIXES})[A-Za-z0-9_./+-]{{16,250}}={{0,2}}",
        is_mixed,
        parts="long_words",
    ),
    _secret("api_key", rf"\b(?:{_ANY_KEY})[-_]?[A-Za-z0-9_\-]{{16,200}}", None, parts="long_words", reported=False),
    _secret("jwt", _JWT, None, ".ey", "[jwt]"),
    _secret("jwt", r"\beyJ[\w-]{8,2000}\.[\w-]{8,4000}\.[\w-]{0,1000}", None, "eyJ", "[jwt]", reported=False),
    _secret("windows_key", rf"(?<![\w-])(?:{_WINDOWS}-){{4}}{_WINDOWS}(?![\w-])", None, "-", "[product_key]"),
    _secret("url_password", _URL_PASSWORD, is_no_example, "://", "[url_password]"),
)
_PERSONAL = (
    _personal("email", _EMAIL, is_real_email, "addresses", "[email]", contact=True),
    _personal("email", _WIDE_EMAIL, None, "addresses", "[email]", reported=False),
    _personal("iban", _IBAN, is_iban, "accounts", "[iban]"),
    _personal("iban", _IBAN, None, "accounts", "[iban]", reported=False),
    _personal("credit_card", r"(?<![\w.-])\d(?:[ -]?\d){11,18}(?![\w-]|\.\d)", is_card, "numbers"),
    _personal("us_ssn", r"(?<![\w.-])\d{3}([- ])\d{2}\1\d{4}(?![\w-]|\.\d)", is_ssn, "numbers"),
    _personal("ip_address", r"(?<![\w.-])(?:\d{1,3}\.){3}\d{1,3}(?![\w-]|\.\d)", is_host_ip, "numbers", "[ip_address]"),
    Kind("personal", "phone", "[number]", search=phones, masked=False, contact=True),
    Kind("personal", "phone", "[number]", search=phone_forms, reported=False),
    # Nine digits or more: a phone, a card or a national id, whether its check digit is right or not.
    _personal("number", r"(?<!\w)\+?\d(?:[ ().\-/]{0,2}\d){8,18}(?!\w|\.\d)", None, "numbers", reported=False),
)
KINDS: tuple[Kind, ...] = (
    _secret("private_key", rf"{_BEGIN_KEY}\s*[A-Za-z0-9+/=:,. -]{{1,4096}}", None, "PRIVATE KEY", "[private_key]"),
    _secret("private_key", _WHOLE_KEY, None, "PRIVATE KEY", "[private_key]", reported=False),
    _secret("certificate", rf"{_BEGIN_CERTIFICATE}\s*[A-Za-z0-9+/=]{{4,4096}}", None, "CERTIFICATE", "[certificate]"),
    _secret("certificate", _WHOLE_CERTIFICATE, None, "CERTIFICATE", "[certificate]", reported=False),
    *_KEYS,
    Kind("secret", "assigned_secret", "[secret]", search=assigned_secrets),
    *_PERSONAL,
)
"""All kinds. Where two overlap, the first one is reported, and its placeholder is shown."""

CONTACT_KINDS = frozenset(kind.name for kind in KINDS if kind.contact)
"""The kinds by which a person can be reached."""


def find_personal_data(text: str) -> list[Match]:
    """E-mail addresses, IBANs, card numbers, US social security numbers, IP addresses and phone numbers, in order.

    What a checked pattern matches is not a phone number as well. The first 200,000 characters are searched.
    """
    return _find("personal", text)


def find_secrets(text: str) -> list[Match]:
    """Private keys, certificates, provider keys and tokens, JSON web tokens, activation keys, passwords in URLs and
    in assignments, in order. The first 200,000 characters are searched."""
    return _find("secret", text)


def _find(group: Group, text: str) -> list[Match]:
    prepared = SearchText(text[:_MAX_CHARS])
    matches: list[Match] = []
    for kind in KINDS:
        if kind.reported and kind.group == group:
            for start, end in kind.find(prepared):
                if not any(start < other.end and other.start < end for other in matches):
                    matches.append(Match(kind.name, start, end))
    return sorted(matches, key=lambda match: match.start)


def is_refuted(name: str, text: str) -> bool:
    """Whether a text has the form of this kind of personal data but fails its check (a wrong check digit, say)."""
    return any(
        kind.pattern.fullmatch(text) is not None and not kind.check(text)
        for kind in KINDS
        if kind.name == name and kind.pattern is not None and kind.check is not None
    )


_TOKEN_REST = re.compile(r"(?:[^\s\"'`<>{}()\[\],;]*\w)?")


def find_masks(text: str) -> list[Mask]:
    """The places to hide in order to mask a text, in order; they do not overlap."""
    prepared = SearchText(text)
    spans: list[tuple[int, int, int]] = []
    for rank, kind in enumerate(KINDS):
        if kind.masked:
            for start, end in kind.find(prepared):
                # Patterns have a greatest length; the rest of a longer secret must not stay.
                rest = _TOKEN_REST.match(text, end) if kind.group == "secret" else None
                spans.append((start, rest.end() if rest else end, rank))
    return _merged(sorted(spans))


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
