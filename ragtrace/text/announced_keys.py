"""Keys without a form of their own: cookies of sessions, and the keys of authenticators."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ragtrace.text.item_checks import is_no_example, is_random
from ragtrace.text.item_search import SearchText, Span, count_digits, is_example

_COOKIE_MARKS = (
    "sessionid",
    "session_id",
    "phpsessid",
    "aspsessionid",
    "connect.sid",
    "aspxauth",
    "aspnetcore",
    "laravel_session",
    "ci_session",
    "_session=",
    "sid=",
    "wordpress_logged_in",
    "remember_",
    "rack.session",
    "__host-",
    "__secure-",
    "session cookie",
    "sitzungscookie",
    "session-cookie",
    "cookie de session",
    "cookie de sesión",
    "cookie di sessione",
    "cookie de sessão",
    "sessiecookie",
    "sessionskaka",
    "sessionscookie",
)
_COOKIE = re.compile(
    r"(?i)(?:(?<![a-z0-9])(?P<name>jsessionid|phpsessid|connect\.sid|asp\.net_sessionid|aspsessionid\w{0,12}|"
    r"(?:\.?aspxauth)|\.aspnetcore\.[\w.]{3,40}|laravel_session|ci_session|_?session_?id|\w{0,30}_session(?==)|sid(?==)|"
    r"wordpress_logged_in_\w{3,40}|remember_(?:user_)?token|rack\.session|__(?:secure|host)-[\w.-]{2,40})[\"'`]?|"
    r"(?:session[ -]cookie|sitzungscookie|cookie\sde\sses+i[oó]n|cookie\sde\ssessão|cookie\sdi\ssessione|sessiecookie|"
    r"sessionskaka|sessionscookie)(?:\s(?:value|is|ist|est|es|è|é|är|er|lautet)){0,2})"
    r"(?:\s?[=:]\s?|\s(?:is|ist|est|es|è|é|är|er|auf|to)\s|\s)[\"'`]?(?P<value>[\w%.~+/=-]{16,600})"
)
_LOOSE_COOKIES = frozenset({"session_id", "_session_id", "sid"})
"""Names that conversations and logs have, too: only beside the word "cookie"."""
_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


def session_cookies(text: SearchText) -> Iterator[Span]:
    """Values of cookies by which a session is taken over."""
    for start, end in text.around(_COOKIE_MARKS, 32, 680):
        for match in _COOKIE.finditer(text.text, start, end):
            value = match["value"].rstrip(".")
            name = (match["name"] or "").lower()
            is_loose = name in _LOOSE_COOKIES and "cookie" not in text.lower[max(0, match.start() - 80) : match.start()]
            if (
                not is_loose
                and _is_token(value)
                and not (_UUID.fullmatch(value) and "session" in name and name.endswith("id"))
                and not is_example(text.text, max(0, match.start() - 40), match.start("value"))
            ):
                yield match.start("value"), match.start("value") + len(value)


def _is_token(value: str) -> bool:
    """Whether a value is random: digits, at least 8 different characters and no words with marks between them."""
    words = re.split(r"[._-]", value)
    return (
        count_digits(value) >= 2
        and len(set(value)) >= 8
        and is_random(value, 2.8)
        and not all(word.isalpha() or word.isdigit() for word in words)
    )


_NO_VOWEL = re.compile(r"[B-DF-HJ-NP-TV-XZ2-7]{4}")


def is_totp_key(text: str) -> bool:
    """Whether a text is a random key in Base32 (RFC 4648)."""
    key = re.sub(r"[ =-]", "", text)
    # Small words of four letters are Base32, too.
    has_digits = count_digits(key) >= 2 or any(map(_NO_VOWEL.fullmatch, re.split(r"[ -]", text)))
    return (
        re.fullmatch(r"(?i)[a-z2-7]{16,128}", key) is not None
        and (has_digits or (key.isupper() and " " not in text.strip() and "-" not in text))
        and is_random(key, 2.7)
    )


_OTP_SECRET = re.compile(r"(?i)[?&]secret=(?P<key>[^&\s\"'<>#]*)")


def is_otp_address(text: str) -> bool:
    """Whether an address of an authenticator ("otpauth://…") holds a key, not a word that stands for one."""
    match = _OTP_SECRET.search(text)
    return match is not None and is_totp_key(match["key"].rstrip(".,;:!?`)")) and is_no_example(match["key"])
