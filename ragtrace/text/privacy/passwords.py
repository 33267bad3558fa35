"""Secrets without a form of their own, which a name announces: `api_key = …`, "the password is …", `mysql -p…`."""

import re
import unicodedata
from collections.abc import Iterator

from ragtrace.text.privacy.checks import UUID, is_no_example, is_random
from ragtrace.text.privacy.contexts import is_example
from ragtrace.text.privacy.rule_engine import Rule, SearchText, Span, count_digits, pattern, words

# --- keys and tokens --------------------------------------------------------------------------------------------------

# Tried before `_ASSIGNMENT`, which is slow: the words must be followed by something that is no plain word. A name of at
# most 40 characters may lead up to them.
_ASSIGNMENT_NEXT, _NAME_START, _ASSIGNMENT = map(pattern, ("assignment_next", "assignment_name", "assignment"))
# What has such a name is public, or describes a secret.
_OPEN_NAME = pattern("open_name")
# Keys and tokens that open nothing.
_OPEN_WORD, _OPEN_PURPOSE = pattern("open_word"), pattern("open_purpose")
# Names whose values are secret even where they look like the name of an entry.
_SECRET_NAME = pattern("secret_name")
# A name in code, or an address on the net: words and small numbers with marks between them.
_DOTTED = re.compile(r"(?:[A-Za-z_]+\d{0,5}[A-Za-z_]*\.)+[A-Za-z_]+\d{0,5}[A-Za-z_]*")
_ADDRESS = re.compile(r"(?i)(?:[a-z0-9](?:[a-z0-9-]{0,30}[a-z0-9])?\.){1,5}[a-z]{2,12}(?::\d{1,6})?(?:/\S*)?")
_WORDS_WITH_NUMBERS = re.compile(r"(?:[A-Za-z]{2,}\d{0,4}[_-])+(?:[A-Za-z]{2,}\d{0,4}|\d{1,4})")
# The name of an entry, a flag, a cipher or a model: words, short numbers and marks, with more letters than digits.
_NAME_PART = r"(?:(?:[A-Z]?[a-z]{2,}(?:[A-Z][a-z]+){0,3}|[A-Z]{2,}|[A-Za-z])\d{0,4}|\d{1,6})"
_NAME = re.compile(rf"{_NAME_PART}(?:[._:/+-]{_NAME_PART})+")
# The next name in a list: a keyword with its value, or a class such as Phi3ForCausalLM.
_ARGUMENT = re.compile(r"\*{1,2}\w.*|[a-z_][a-z0-9_]*=[^=].*|(?=(?:.*[A-Z][a-z]{2,}){2})[A-Za-z]{1,12}\d{1,5}[A-Za-z]+")
_LONG_WORD = re.compile(r"[A-Za-z]{4}|\A[^a-z]+\Z")
_UNSPEAKABLE = re.compile(r"(?i)[bcdfghj-np-tv-xz]{6}")
_PUBLIC_VALUE = re.compile(r"pk_(?:live|test)_.*|Iv\d\.\w+|.*\.apps\.googleusercontent\.com|https?://[^?@]*")
_PUBLIC_ID = re.compile(r"(?i)(?:access|client)[_ .-]?id|^key$")
_HASH_VALUE = re.compile(
    r"(?i)(?:sha\d{1,3}|md5)[:-].*|\$2[aby]\$.*|\{sha\}.*|(?:base\d\d|tls|aes|rsa|pbkdf\d|utf)[\d.-]*-[^\W\d_]+"
)
_LAST_WORD = re.compile(r"(?i)(?:key|token)[\w.-]*\Z")
_CALL = re.compile(r"\((?:[^()\n]{0,80}\)(?![\w!@#$%^&*])|[^)\n]{0,80}\(|[\"'\s]|\Z)")


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
            purpose = match["whose"] and not _SECRET_NAME.search(match["name"]) and _OPEN_PURPOSE.search(match["whose"])
            if (
                _OPEN_WORD.search(text.text, max(0, match.start() - 24), word_start) is None
                and not purpose
                and not _is_call(text.text, *match.span(group))
                and not (match["comma"] and _ARGUMENT.fullmatch(match["value"]))
                and _is_secret_value(match["name"], match[group], bare=group == "bare")
            ):
                yield match.span(group)


def _is_secret_value(name: str, value: str, bare: bool) -> bool:
    value = value.rstrip(".!?")
    if not is_no_example(value) or _OPEN_NAME.search(name) or _HASH_VALUE.fullmatch(value):
        return False
    digits = count_digits(value)
    least = 20 if bare else 14
    if len(value) < least or not digits or "/" in value[:1] or _DOTTED.fullmatch(value) or _ADDRESS.fullmatch(value):
        return False
    if _PUBLIC_ID.search(name) and UUID.fullmatch(value):
        return False
    if _PUBLIC_VALUE.fullmatch(value) or (not _SECRET_NAME.search(name) and _is_name(value)):
        return False
    if _WORDS_WITH_NUMBERS.fullmatch(value) or (bare and digits < 4):
        return False
    return is_random(value, 3.2 if len(value) >= 16 else 2.8)


def _is_name(value: str) -> bool:
    """Whether a value is made of words and short numbers, as the names of entries and ciphers are."""
    many_letters = sum(map(str.isalpha, value)) > count_digits(value)
    has_words = _LONG_WORD.search(value) is not None and _UNSPEAKABLE.search(value) is None
    return many_letters and has_words and _NAME.fullmatch(value) is not None


def _is_call(text: str, start: int, end: int) -> bool:
    """Whether a value is a function that is called: "(" follows its name."""
    name = text[start:end].replace(".", "").replace("_", "")
    return text.startswith("(", end) and name.isalnum() and _CALL.match(text, end) is not None


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
# `DB_PASSWORD=…`, `Password=…;`, `--password=…`, `&pwd=…`, `db.password=…` as a line of a file
_SETTING = re.compile(r"(?:(?<![\w.-])(?:[A-Z][A-Z_]*|[A-Z][a-z]+)|[;&?-]\w+|\A[\w.-]*[._-]\w+|\Aexport\s\w+)=\Z")
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
        if (
            not _OPEN_NAME.search(match["name"])
            and not is_example(text.text, match.start() - 30, match.start(group))
            and (group == "phrase" or not (_is_call(text.text, *match.span(group)) or _is_code_word(match)))
            and is_password(
                match[group],
                quoted=group == "phrase",
                ends=match["link"] == "=" or _END.match(text.text, match.end()) is not None,
            )
        ):
            yield match.span(group)


def _is_code_word(match: re.Match[str]) -> bool:
    """Whether "=" assigns a plain word in code (`password = entered`), and not in a setting; or a verb follows "to"
    ("the password to verify")."""
    if match["link"].startswith("to") and match["value"].rstrip(".!?:").isalpha():
        return _VERB.search(match.string, max(0, match.start() - 40), match.start()) is None
    if match["link"] != "=" or not match["value"].rstrip(".!?:").isalpha():
        return False
    line = match.string.rfind("\n", 0, match.start()) + 1
    is_setting = _SETTING.search(match.string[max(line, match.start() - 80) : match.end("link")]) is not None
    return not is_setting or match.start("value") > match.end("link")


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


# What has digits and opens nothing: algorithms, fields and steps, files.
_NO_SECRET = pattern("no_command_secret")
# An email address, a host or a page, a user of a domain (CORP\\nora).
_LOGIN_ADDRESS = pattern("login_address")


def is_command_password(value: str) -> bool:
    """Whether an argument of a command can be a password: letters, and digits or signs; no word, number or address."""
    return (
        any(map(str.isalpha, value))
        and (count_digits(value) > 0 or _SIGN.search(value) is not None)
        and not value.startswith(("/", "-"))
        and _NO_SECRET.fullmatch(value) is None
        and is_password(value)
        and _LOGIN_ADDRESS.fullmatch(value) is None
    )
