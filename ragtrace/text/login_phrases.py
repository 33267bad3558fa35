"""Passwords that looser words announce: "PW: …", "Password → …", "use … as the password", logins with a slash,
and the keys of wireless networks.

Such words announce other things, too. So a value here must have letters, and digits or signs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain

from ragtrace.text.item_search import SearchText, Span, is_example
from ragtrace.text.secret_assignments import PASSWORD_NAMES, is_call, is_password

_VALUE = r"[\"'`«„“]?(?P<value>[^\s\"'`<>(){}\[\],;«»“”„|]{5,80})"
# Most names of passwords; "passage" and "code" are too frequent to look beside each.
_PASSWORD_MARKS = ("passw", "passp", "passc", "de passe", "pwd", "wort", "woord", "mdp", "contrase", "clave", "senha")
# The words without which a form is nowhere, and the form.
_FORMS: tuple[tuple[tuple[str, ...], str], ...] = (
    # "PW: …", "user = maria, pass = …"; no "boarding pass: …" and no "first pass: …"
    (
        ("pw", "pass:", "pass =", "pass=", "pass :", "pass -", "pass →", 'pass"', "pass'", "pass`"),
        r"(?<![\w-])(?:pw|(?:(?<![^\W_][ \t])|(?<=wifi\s|i-fi\s|user\s|root\s|your\s)|(?<=admin\s|guest\s))pass)"
        r"[\"'`]?\s{0,2}(?:[:=→]|\s[-–—]\s|(?<=pw\s)(?:is|ist)\b:?)\s{0,2}" + _VALUE,
    ),
    # "Password → …", "Passwort - …"
    (
        _PASSWORD_MARKS,
        rf"(?<!\w)(?:[\w-]{{1,20}}[ -])?(?:{PASSWORD_NAMES})\s{{0,2}}(?:→|->|\s[-–—]\s)\s{{0,2}}" + _VALUE,
    ),
    # "The WPA2 key is …", "WLAN-Schlüssel: …"
    (
        ("wpa", "wifi", "wi-fi", "wlan", "wireless", "network", "netzwerk", "hotspot", "router"),
        r"(?<!\w)(?:wpa[23]?|wi-?fi|wlan|wireless|network|netzwerk|hotspot|router)[ -]?"
        r"(?:(?:security|network|netzwerk)[ -]?)?(?:key|schlüssel)\s{0,2}"
        r"(?:[:=→]|\s[-–—]\s|(?:is|ist|lautet)\b)\s{0,2}" + _VALUE,
    ),
    # "Wi-Fi: Guest, key …"
    (
        ("wifi", "wi-fi", "wlan", "ssid", "netzwerk"),
        r"(?<!\w)(?:wi-?fi|wlan|ssid|netzwerk)\b[^\n.;]{1,40}[\s,](?:key|schlüssel)(?:[:=]|\s(?:is|ist|lautet))?\s"
        + _VALUE,
    ),
    # "Der API-Schlüssel ist …", "La clé API de la météo est …"
    (
        ("schlüssel", "sleutel", "clé", "clave", "llave", "chiave", "chave"),
        r"(?<!\w)(?:(?:api|zugriffs|zugangs|lizenz|geheim|wlan|wpa2?|netzwerk)[- ]?schlüssel|"
        r"(?:api|toegangs|licentie)[- ]?sleutel|"
        r"(?:clé|clave|llave|chiave|chave)\s(?:d['’]|de\sla\s|del\s|de\s|da\s|di\s)?(?:api|accès|acceso|accesso|"
        r"acesso|secrète|secreta|segreta|privée|privada|privata|licence|licencia|licenza|licença))"
        r"(?:\s(?:für|von|vom|des|der|pour|de|du|d['’]|para|del|di|per|da|do|van|voor)\s?[^\n.:=,;]{1,40}?)?\s{0,2}"
        r"(?:[:=→]|\s[-–—]\s|(?:is|ist|lautet|est|es|è|é)\b\s?:?)\s{0,2}" + _VALUE,
    ),
    # "Login: maria / …", "The credentials are maria and …"
    (
        ("login", "log-in", "cred", "zugangsdaten", "user/pass"),
        r"(?<!\w)(?<!last\s)(?:login|log-in|credentials?|creds|zugangsdaten|user/pass(?:word)?)(?:\s(?:data|details))?\s{0,2}"
        r"(?:[:=]|is\b|are\b|lauten\b|with\b)\s{0,2}[\"'`]?[\w.@+-]{2,40}[\"'`]?"
        r"(?:\s?/\s?|:|\s\|\s|\s(?:and|und)\s)" + _VALUE,
    ),
    # "username maria, pw …", "user maria and pass …"
    (("user",), r"(?<!\w)user(?:name)?:?\s[\w.@+-]{2,40}(?:,|\sand|\swith|,\sand)\s(?:pw|pass)\s" + _VALUE),
    # "Use … as the password.", "… is your new password."
    (
        _PASSWORD_MARKS,
        r"(?<!\S)[\"'`“„]?(?P<value>[^\s\"'`<>(){}\[\],;“”„|]{5,60})[\"'`”“]?\s(?:is|as|ist|als)\s"
        r"(?:the|your|my|our|his|her|their|a|das|dein|ihr|mein|unser)\s(?:[\w-]{1,20}\s){0,2}"
        rf"(?:{PASSWORD_NAMES})(?!\w|[\s-](?!for|of|to|on|at|in|and|für|von|zum|und)\w)",
    ),
)
_PATTERNS = {marks: [re.compile(f"(?i){form}") for other, form in _FORMS if other == marks] for marks, _ in _FORMS}
_REFUSAL = re.compile(r"(?i)\b(?:not|never|avoid|don['’]t|instead of|weak|rejects?|rejected|nicht|nie|kein\w*)\b")
# What has digits and opens nothing: algorithms, fields and steps, files.
_NO_SECRET = re.compile(
    r"(?i)(?:(?:hmac|sha|aes|md|rsa|oauth|tls|ssl|wpa|base|utf|ntlm|scrypt|bcrypt|argon|pbkdf|http|ipv|saml|fido)"
    r"[-_]?v?\d.*|(?:pass(?:word|wort)?|secret|pw|field|column|line|step|input|option|row|param\w*|arg\w*|group|"
    r"build|page|version|user|admin)s?[-_]?\d{0,4}|[\w/.-]+\.(?:[a-z]{2,4}|local)|\d.*(?:am|pm|%)|"
    r"[\d.,-]+\+?[-_]?[a-z]+|v\d[\d.]*)"
)


def announced_passwords(text: SearchText) -> Iterator[Span]:
    """Passwords beside looser words, in the order of the forms."""
    for marks, patterns in _PATTERNS.items():
        for start, end in text.around(marks, 90, 180):
            for match in chain.from_iterable(pattern.finditer(text.text, start, end) for pattern in patterns):
                if _is_announced(text.text, match):
                    first, last = match.span("value")
                    yield first, first + len(text.text[first:last].rstrip(".?:"))


def _is_announced(text: str, match: re.Match[str]) -> bool:
    """Whether the value can be a password, and no word before it refuses it or makes it an example."""
    first, last = match.span("value")
    before = max(0, match.start() - 40)
    return (
        is_drawn(match["value"])
        and not is_call(text, first, last)
        and not is_example(text, before, first)
        and not is_refused(text, before, first)
    )


def is_refused(text: str, start: int, end: int) -> bool:
    """Whether the words between two offsets advise against what follows: "do not use …"."""
    return _REFUSAL.search(text, start, end) is not None


def is_drawn(value: str) -> bool:
    """Whether a value can be a password and no word or number."""
    value = value.rstrip(".!?:")
    letters = any(map(str.isalpha, value))
    others = any(c.isdigit() or c in "!@#$%^&*" for c in value)
    return (
        letters
        and others
        and not value.startswith(("/", "-"))
        and _NO_SECRET.fullmatch(value) is None
        and is_password(value)
    )


# An e-mail address, a host or a page, a user of a domain (CORP\\nora).
_ADDRESS = re.compile(
    r"(?i)[\w.+-]+@[\w-]+(?:\.[\w-]+)*\.[a-z]{2,12}|(?:[a-z0-9-]{1,40}\.){1,5}[a-z]{2,12}(?::\d{1,6})?(?:/\S*)?|"
    r"\w[\w.-]*\\{1,2}[\w.$-]+|\w+://.*"
)


def is_address(value: str) -> bool:
    """Whether a value is an address of a person or a host, or the name of a user with a domain."""
    return _ADDRESS.fullmatch(value) is not None
