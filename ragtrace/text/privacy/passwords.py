"""Secrets without a form of their own, which a name announces: `api_key = …`, "the password is …", `mysql -p…`."""

import re
import unicodedata
from collections.abc import Iterator

from ragtrace.text.privacy.checks import is_no_example, is_random
from ragtrace.text.privacy.rule_engine import Rule, SearchText, Span, count_digits, pattern, words

# --- keys and tokens --------------------------------------------------------------------------------------------------

# Tried before `_ASSIGNMENT`, which is slow: the words must be followed by something that is no plain word. A name of at
# most 40 characters may lead up to them.
_ASSIGNMENT_NEXT, _NAME_START, _ASSIGNMENT = map(pattern, ("assignment_next", "assignment_name", "assignment"))
# What has such a name is public, or describes a secret.
_OPEN_NAME = pattern("open_name")
# Keys and tokens that open nothing: of a cache, of the next page.
_OPEN_WORD = pattern("open_word")
# A name in code, or an address on the net: words and small numbers with marks between them.
_DOTTED = re.compile(r"(?:[A-Za-z_]+\d{0,5}[A-Za-z_]*\.)+[A-Za-z_]+\d{0,5}[A-Za-z_]*")
_ADDRESS = re.compile(r"(?i)(?:[a-z0-9](?:[a-z0-9-]{0,30}[a-z0-9])?\.){1,5}[a-z]{2,12}(?::\d{1,6})?(?:/\S*)?")
_PUBLIC_VALUE = re.compile(r"pk_(?:live|test)_.*|Iv\d\.\w+|.*\.apps\.googleusercontent\.com|https?://[^?@]*")
_HASH_VALUE = re.compile(
    r"(?i)(?:sha\d{1,3}|md5)[:-].*|\$2[aby]\$.*|\{sha\}.*|(?:base\d\d|tls|aes|rsa|pbkdf\d|utf)[\d.-]*-[^\W\d_]+"
)
_ARGUMENT = re.compile(r"[a-z_][a-z0-9_]*=[^=].*")
_IDENTIFIER = re.compile(r"[A-Za-z_][\w.]*")
_LAST_WORD = re.compile(r"(?i)(?:key|token)[\w.-]*\Z")
_PUBLIC_ID = re.compile(r"(?i)(?:access|client)[_ .-]?id|^key$")
_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_NO_SECRETS = (_HASH_VALUE, _DOTTED, _ADDRESS, _PUBLIC_VALUE)


def assigned_secrets(rule: Rule, text: SearchText, _masks: bool) -> Iterator[Span]:
    """Values that are assigned to a name such as `client_secret` or `api_key`."""
    last = 0
    places = sorted((at, at + len(word.lstrip("*"))) for word in rule.keywords for at in text.keywords.get(word, ()))
    for start, end in places:
        if start < last or not _ASSIGNMENT_NEXT.match(text.text, end):
            continue
        name = _NAME_START.search(text.text, max(last, start - 52), start)
        match = _ASSIGNMENT.match(text.text, name.start() if name else start)
        if match is not None:
            last = match.end()
            group = "value" if match["value"] else "bare"
            word = _LAST_WORD.search(match["name"])
            word_start = match.start() + (word.start() if word else 0)  # 6 in `cache_key`
            is_open = _OPEN_WORD.search(text.text, max(0, match.start() - 24), word_start) is not None
            is_call = _IDENTIFIER.fullmatch(match[group]) and text.text.startswith("(", match.end(group))
            is_argument = match["comma"] and _ARGUMENT.fullmatch(match["value"])
            if not (is_open or is_call or is_argument) and _is_secret_value(match["name"], match[group]):
                yield match.span(group)


def _is_secret_value(name: str, value: str) -> bool:
    value = value.rstrip(".!?")
    if not is_no_example(value) or any(form.fullmatch(value) for form in _NO_SECRETS):
        return False
    if _PUBLIC_ID.search(name) and _UUID.fullmatch(value):
        return False
    many = len(value) >= 14 and count_digits(value) > 0 and value[0] != "/"
    return many and _OPEN_NAME.search(name) is None and is_random(value, 3.2 if len(value) >= 16 else 2.8)


# --- passwords --------------------------------------------------------------------------------------------------------

_PASSWORD, _END = pattern("password"), pattern("password_end")
# Statements about passwords, in the seven languages: no password ends so.
_SAID_OF_PASSWORDS = pattern("said_of_passwords")
_NO_PASSWORDS = words("no_passwords")
_CODE = re.compile(
    r"[$%#@{<\\/~.].*|.*(?:\(|\{|::|->|\.\.|__)|[A-Za-z_][\w]*(?:[._][A-Za-z_]\w*)+|[A-Z][A-Z_]*_[A-Z_]*|"
    r"[#*x•.-]+"
)
# What code reads a password from, names of a password, and addresses.
_REFERENCE = pattern("password_reference")
_SIGN = re.compile(r"[!@#$%^&*]")

_VERB = re.compile(r"(?i)\b(?:set|reset|chang\w+|updat\w+|switch\w*|is|was)\b")


def spoken_passwords(rule: Rule, text: SearchText, _masks: bool) -> Iterator[Span]:
    """Passwords that are assigned or stated, in English, German, French, Spanish, Italian, Portuguese and Dutch."""
    matches = (
        match
        for start, end in text.around(rule.keywords, rule.near)
        for match in _PASSWORD.finditer(text.text, start, end)
    )
    for match in matches:
        group = "phrase" if match["phrase"] else "value"
        is_call = match[group].isalpha() and text.text.startswith("(", match.end(group))
        if not (is_call or _OPEN_NAME.search(match["name"]) or _is_purpose(match)) and is_password(
            match[group],
            quoted=group == "phrase",
            ends=match["link"] == "=" or _END.match(text.text, match.end()) is not None,
        ):
            yield match.span(group)


def _is_purpose(match: re.Match[str]) -> bool:
    """Whether a verb follows "to", as in "the password to verify"; after "set" or "changed" a password does."""
    is_verb = match["link"].startswith("to") and match["value"].rstrip(".!?:").isalpha()
    return is_verb and _VERB.search(match.string, max(0, match.start() - 40), match.start()) is None


def is_password(value: str, quoted: bool = False, ends: bool = False) -> bool:
    """Whether a value can be a password. A word without digits and signs counts where it is quoted, or ends a
    clause."""
    value = value if quoted else value.rstrip(".!?:")
    if len(value) < 5 or not is_no_example(value) or value.lower() in _NO_PASSWORDS or _REFERENCE.fullmatch(value):
        return False
    digits, letters = count_digits(value), sum(map(str.isalpha, value))
    if letters and (digits or _SIGN.search(value)):
        shapeless = _CODE.fullmatch(value) is None or (digits and value[0] not in "$%<{/")
        return len(value) >= 6 and bool(shapeless) and not _HASH_VALUE.fullmatch(value)
    if not letters:
        return digits >= 6 and digits == len(value)
    if not ends or _CODE.fullmatch(value) or (not quoted and "_" in value):
        return False
    return quoted or not any(map(_SAID_OF_PASSWORDS.fullmatch, (value, _without_accents(value))))


def _without_accents(word: str) -> str:
    return "".join(c for c in unicodedata.normalize("NFD", word) if not unicodedata.combining(c))
