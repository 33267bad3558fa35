"""Keys without a form of their own that the name of their system announces: cookies of sessions, set-up keys of
authenticators, unseal keys, SNMP communities and licence keys."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ragtrace.text.item_checks import is_no_example, is_random
from ragtrace.text.item_search import SearchText, Span, count_digits, is_example, is_test_behind
from ragtrace.text.login_phrases import is_drawn

# --- cookies ----------------------------------------------------------------------------------------------------------

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


# --- keys of authenticators -------------------------------------------------------------------------------------------

_AUTHENTICATOR_MARKS = (
    "authenti",
    "autentica",
    "otp",
    "2fa",
    "mfa",
    "two-factor",
    "two factor",
    "faktor",
    "deux facteurs",
    "dos factores",
    "due fattori",
    "dois fatores",
    "tweestaps",
    "dwuskładnik",
)
_SETUP_KEY = re.compile(
    r"(?i)(?<!\w)(?P<name>set-?\s?up[\s-](?:key|code)|(?:totp|otp|2fa|mfa|authenticator)[\s-](?:set-?up[\s-])?(?:key|secret|seed|code)|"
    r"(?:manual|secret)(?:[\s-](?:entry|set-?up))?[\s-](?:key|code)|"
    r"(?:einrichtungs|konfigurations|geheim|totp-|2fa-)schlüssel|clé\s(?:de\sconfiguration|secrète|totp|manuelle)|"
    r"clave\s(?:de\sconfiguración|secreta|manual|totp)|chiave\s(?:di\sconfigurazione|segreta|di\simpostazione|totp)|"
    r"chave\s(?:de\sconfiguração|secreta|totp)|(?:instel|configuratie|totp-)sleutel|"
    r"(?:konfigurations|inställnings|installations)nyckeln?|(?:konfigurations|opsætnings)nøglen?|"
    r"klucz\s(?:konfiguracyjny|konfiguracji|tajny))(?!\w)[^\n.;\[\]]{0,40}?[\s:=\"'`*(]"
    r"(?P<value>(?-i:[A-Z2-7]{16,64}|(?:[A-Z2-7]{4}[ -]){3,15}[A-Z2-7]{4}|(?:[a-z2-7]{4}[ -]){3,15}[a-z2-7]{4}|"
    r"[a-z2-7]{32,64}))={0,6}(?!\w)"
)
_SETUP_MARKS = (
    "key",
    "secret",
    "seed",
    "code",
    "schlüssel",
    "clé ",
    "clave",
    "chiave",
    "chave",
    "sleutel",
    "nyckel",
    "nøgle",
    "klucz",
)
_SAMPLES = frozenset({"JBSWY3DPEHPK3PXP", "GEZDGNBVGY3TQOJQ", "BASE32SECRET3232"})
"""Keys that manuals and RFC 6238 show. In an address they open an account as any other key does."""


def setup_keys(text: SearchText) -> Iterator[Span]:
    """Base32 keys from which an authenticator makes one-time codes."""
    if not any(mark in text.lower for mark in _AUTHENTICATOR_MARKS):
        return
    for start, end in text.around(_SETUP_MARKS, 32, 180):
        for match in _SETUP_KEY.finditer(text.text, start, end):
            near = text.lower[max(0, match.start() - 160) : match.end() + 120]
            if (
                any(mark in near for mark in _AUTHENTICATOR_MARKS)
                and is_totp_key(match["value"])
                and match["value"] not in _SAMPLES
                and not _is_no_own(text.text, match)
            ):
                yield match.span("value")


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


def _is_no_own(text: str, match: re.Match[str]) -> bool:
    first, last = match.span("value")
    return is_example(text, max(0, match.start() - 40), first) or is_test_behind(text, last)


_OTP_SECRET = re.compile(r"(?i)[?&]secret=(?P<key>[^&\s\"'<>#]*)")


def is_otp_address(text: str) -> bool:
    """Whether an address of an authenticator ("otpauth://…") holds a key, not a word that stands for one."""
    match = _OTP_SECRET.search(text)
    return match is not None and is_totp_key(match["key"].rstrip(".,;:!?`)")) and is_no_example(match["key"])


# --- keys of Vault, communities of SNMP -------------------------------------------------------------------------------

_UNSEAL = re.compile(
    r"(?i)(?<!\w)(?:(?:unseal|vault\srecovery|recovery)[\s-](?:key|schlüssel)(?:\sshare)?|entsiegelungsschlüssel|"
    r"clé\sde\sdescellement|clave\sde\s(?:desellado|desbloqueo)|chiave\sdi\s(?:sblocco|unseal)|unseal[\s-]sleutel)"
    r"(?:\s(?:share\s|no\.?\s|nr\.?\s|#)?\d{1,2}(?:\s?(?:of|/|von|de|di|van)\s?\d{1,2})?)?(?:\s\([^()\n]{1,30}\))?\s{0,2}"
    r"(?:[:=]|\b(?:is|ist|lautet|est|es)\b|\bè\b)\s{0,2}[\"'`]?(?P<value>[A-Za-z0-9+/]{43,88}={0,2}|[0-9a-f]{64,68})(?![\w+/=])"
)
_LINK = r"(?:\s?[:=]\s?|\s(?:is|ist|lautet|est|es|è|é|är|er|to)\s|\s(?=[\"'`])|(?<=string)\s)"
_COMMUNITY = re.compile(
    r"(?i)(?<!\w)(?:"
    rf"(?P<name>communit(?:y|é|à)(?:[\s-](?:strings?|names?|zeichenfolge|name))?|comunidad|comunità|communauté)"
    rf"(?:\s\([^()\n]{{1,20}}\))?"
    rf"(?:\s(?:of|for|on|der|des|für|de|du|del|della|van|voor)(?:\s[^\s.:;,=]{{1,20}}){{1,4}}?)?{_LINK}|"
    r"snmp-server\scommunity\s|r[ow]community6?\s|com2sec\s\S{1,30}\s\S{1,30}\s|"
    r"snmp(?:bulk)?(?:walk|get|getnext|set)\s[^\n;|]{0,60}?-c\s?)"
    r"[\"'`*]{0,2}(?P<value>[^\s\"'`<>(){}\[\],;«»“”„|*]{4,64})"
)
_DEFAULT_COMMUNITIES = frozenset(
    {"public", "private", "community", "string", "strings", "name", "names", "read", "write", "default"}
)


def unseal_keys(text: SearchText) -> Iterator[Span]:
    """Shares of the key with which a vault is unsealed or recovered."""
    marks = ("unseal", "recovery", "entsiegel", "descellement", "desellado", "desbloqueo", "sblocco")
    for start, end in text.around(marks, 8, 200):
        for match in _UNSEAL.finditer(text.text, start, end):
            if is_random(match["value"], 3.0) and not _is_no_own(text.text, match):
                yield match.span("value")


def communities(text: SearchText) -> Iterator[Span]:
    """Community strings of SNMP, which are its passwords, but for the defaults "public" and "private"."""
    for start, end in text.around(("communit", "comunidad", "comunità", "snmp"), 32, 180):
        for match in _COMMUNITY.finditer(text.text, start, end):
            value = match["value"].rstrip(".:")
            if _is_community(text.lower, match, value) and not _is_no_own(text.text, match):
                yield match.start("value"), match.start("value") + len(value)


def _is_community(lower: str, match: re.Match[str], value: str) -> bool:
    first, last = match.span("value")
    if "snmp" not in lower[max(0, match.start() - 120) : first] + lower[last : last + 120]:
        return False
    if match["name"]:
        return is_drawn(value) and not value.lower().startswith(("v1", "v2", "v3"))
    is_placeholder = (value.isalpha() and value.isupper()) or value.startswith(("$", "%", "-"))
    return value.lower() not in _DEFAULT_COMMUNITIES and not is_placeholder and is_no_example(value)


# --- licence keys -----------------------------------------------------------------------------------------------------

_LICENCE_KEY = re.compile(
    r"(?i)(?<!\w)(?:(?:licen[cs]e|product|activation|serial|registration|upgrade)[\s-]key|"
    r"(?:licen[cs]e|activation|unlock)[\s-]code|"
    r"(?:lizenz|aktivierungs|produkt|registrierungs)-?schlüssel|(?:aktivierungs|freischalt|lizenz)-?code|"
    r"clé\s(?:de\s(?:la\s)?licence|de\sproduit|d['’]activation)|code\sd['’]activation|"
    r"clave\s(?:de\s(?:la\s)?licencia|del?\sproducto|de\sactivación)|código\sde\s(?:activación|licencia|ativação|licença)|"
    r"chiave\s(?:di\slicenza|di\sattivazione|del\sprodotto)|codice\s(?:di\sattivazione|di\slicenza)|"
    r"chave\s(?:d[ea]\slicença|de\sativação|do\sproduto)|(?:licentie|activerings|product)sleutel|activerings-?code|"
    r"(?:licens|produkt|aktiverings)nyckeln?|aktiveringskoden?|(?:licens|produkt)nøglen?|(?:lisens|produkt)nøkkelen?|"
    r"klucz\s(?:licencyjny|licencji|produktu|aktywacyjny)|lisenssiavain|tuoteavain|aktivointikoodi|"
    r"(?:licenční|aktivační)\s(?:klíč|kód))(?!\w)"
    r"[^\n.;:=\[\]]{0,70}?(?:[:=]|\s(?:is|ist|lautet|est|es|è|é|är|er|to|on|je)(?=\s))\s{0,2}[\"'`*]{0,2}"
    r"(?P<value>(?-i:[A-Z0-9]{2,10}(?:-[A-Z0-9]{2,10}){2,8}|[A-Z0-9]{16,40}))(?![\w-])"
)
_LICENCE_MARKS = (
    " key",
    "-key",
    "code",
    "schlüssel",
    "clé ",
    "clave",
    "código",
    "chiave",
    "codice",
    "chave",
    "sleutel",
    "nyckel",
    "nøgle",
    "nøkkel",
    "klucz",
    "avain",
    "koodi",
    "koden",
    "klíč",
    "kód",
)
_FORM_GROUP = re.compile(r"(.)\1{2,}|ABCD\w*|ABC\d*|12345?\w*")


def licence_keys(text: SearchText) -> Iterator[Span]:
    """Keys that activate a program, in groups, behind the words for one in 13 languages."""
    for start, end in text.around(_LICENCE_MARKS, 24, 170):
        for match in _LICENCE_KEY.finditer(text.text, start, end):
            if _is_licence_key(match["value"]) and not _is_no_own(text.text, match):
                yield match.span("value")


def _is_licence_key(value: str) -> bool:
    """Whether groups of capitals and digits are random: no "XXXX-0000" and no date or number of an order."""
    groups = value.split("-")
    symbols = "".join(groups)
    return (
        len(symbols) >= 12
        and count_digits(symbols) >= 3
        and any(map(str.isalpha, symbols))
        and not any(_FORM_GROUP.fullmatch(group) for group in groups)
        and is_random(symbols, 2.8)
    )
