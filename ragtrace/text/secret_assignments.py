"""Secrets without a form of their own, which a name announces: `api_key = …`, "the password is …", recovery codes."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

from ragtrace.text.item_checks import is_no_example, is_random
from ragtrace.text.item_search import SearchText, Span, count_digits, is_example, occurrences

# --- keys and tokens --------------------------------------------------------------------------------------------------

_SECRET_WORDS = ("secret", "token", "client", "auth", "key", "credential", "bearer", "access_id", "access id", "jwt")
# What a key is for: "the API key for staging is …".
_KEY_OF = r"(?:\s(?:for|of|für|von)\s[^\n.:=,;]{1,40}?(?=\s?[:=]|\sis\b|\sist\b|\slautet\b))"
# Tried before the pattern below, which is slow: the words must be followed by something that is no plain word. A name
# of at most 40 characters may lead up to them.
_ASSIGNMENT_NEXT = re.compile(
    rf"(?:[_ .-]?id)?[\w.-]{{0,30}}[\"'`]?{_KEY_OF}?\s{{0,3}}"
    r"(?:(?:=>|:=|[=:,]|is\b|ist\b|lautet\b|to\b)\s{0,3}(?:bearer\s)?[\"'`]{0,3}|"
    r"[\"'`]?(?=[\w-]{20}))"
    r"[^\s\"'`<>{}()\[\],;\d!@#$%^&*]{0,200}[\d!@#$%^&*]",
    re.I,
)
_NAME_START = re.compile(r"\b[\w.-]{0,40}(?:(?:api|access|private|signing|encryption|license) )?\Z", re.I)
# An OAuth client's id is public; it counts only in a setting such as ACME_CLIENT_ID.
_ASSIGNMENT = re.compile(
    r"(?i)\b(?P<name>(?:(?:api|access|private|signing|encryption|license) )?[\w.-]{0,40}?(?:secret|token|"
    r"(?<=[a-z][_-])client[_-]?id|access[_ .-]?id|auth(?!ors?(?![a-z]))(?:orization)?|jwt|"
    r"(?:api|access|private|signing|encryption|license)[_ .-]?key|credential|bearer|"
    r"(?<![A-Za-z])key)(?!word|board|note|stroke|chain|frame|stone|ring|pad)[\w.-]{0,20})"
    rf"[\"'`]?(?P<whose>{_KEY_OF})?\s{{0,3}}(?:(?:=>|:=|[:=]|\bis\b|\b(?:ist|lautet)\b|\bto\b|"
    r"(?P<comma>,))\s{0,3}(?:bearer\s)?[\"'`]{0,3}(?P<value>[^\s\"'`<>{}()\[\],;]{6,200})"
    r"|\s{1,3}[\"'`]?(?P<bare>[A-Za-z0-9_-]{20,200})(?![\w-]))"
)
# What has such a name is public, or describes a secret.
_OPEN_NAME = re.compile(
    r"(?i)public|publish|"
    r"(?:length|len|size|(?<!ac)count|limit|type|name|url|uri|host|endpoint|path|(?<!pro)file|dir|format|"
    r"version|expiry|"
    r"timeout|interval|ttl|lifetime|duration|seconds|minutes|hours|days|attempts|retries|policy|enabled|required|rotation|"
    r"hash|checksum|fingerprint|etag|digest|field|column|index|prefix|pattern|vault|manager|store|arn|key[_-]?id)$"
)
# Keys and tokens that open nothing.
_OPEN_WORD = re.compile(
    r"(?i)(?<![a-z])(?:cache|idempotency|partition|primary|foreign|sort|row|range|shard|object|s3|bucket|"
    r"map|dict(?:ionary)?|hash|lookup|"
    r"index|unique|composite|candidate|surrogate|natural|translation|i18n|message|config(?:uration)?|"
    r"registry|public|publish\w*|answer|"
    r"shortcut|redis|kafka|routing|dedup\w*|etag|checksum|hot|arrow|escape|metadata|json|yaml|data|"
    r"dataset|map|header|query|"
    r"sorting|ordering|group(?:ing)?|join|storage object|item|document|record|entity|event|feature|setting|property|"
    r"next|page|pagination|continuation|cancellation|design|mask|pad|eos|bos|cls|sep|stop|special|sync|"
    r"resume|cursor|trace|span|"
    r"request|correlation|transaction|build|commit|image|layer|host|server|ssh host|known|customer|flag)"
    r"[\s_.-]{1,2}\Z"
)
_OPEN_PURPOSE = re.compile(
    r"(?i)\b(?:cache\w*|idempoten\w*|pages?|pagination|cursor|requests?|rows?|columns?|tables?|index|maps?|"
    r"dict(?:ionary)?|records?|entity|entry|entries|items?|partition|shard|translation|lookup|transaction|span|trace)\b"
)
# Names whose values are secret even where they look like the name of an entry.
_SECRET_NAME = re.compile(r"(?i)secret|credential|private|api|access|license|signing|encryption")
# A name in code, or an address on the net: words and small numbers with marks between them.
_DOTTED = re.compile(r"(?:[A-Za-z_]+\d{0,5}[A-Za-z_]*\.)+[A-Za-z_]+\d{0,5}[A-Za-z_]*")
_ADDRESS = re.compile(r"(?i)(?:[a-z0-9](?:[a-z0-9-]{0,30}[a-z0-9])?\.){1,5}[a-z]{2,12}(?::\d{1,6})?(?:/\S*)?")
_WORDS_WITH_NUMBERS = re.compile(r"(?:[A-Za-z]{2,}\d{0,4}[_-])+(?:[A-Za-z]{2,}\d{0,4}|\d{1,4})")
# The name of an entry, a flag, a cipher or a model: words, short numbers and marks, with more letters than digits.
_NAME = re.compile(
    r"(?:(?:[A-Z]?[a-z]{2,}(?:[A-Z][a-z]+){0,3}|[A-Z]{2,}|[A-Za-z])\d{0,4}|\d{1,6})"
    r"(?:[._:/+-](?:(?:[A-Z]?[a-z]{2,}(?:[A-Z][a-z]+){0,3}|[A-Z]{2,}|[A-Za-z])\d{0,4}|\d{1,6}))+"
)
# The next name in a list: a keyword with its value, or a class such as Phi3ForCausalLM.
_ARGUMENT = re.compile(r"\*{1,2}\w.*|[a-z_][a-z0-9_]*=[^=].*|(?=(?:.*[A-Z][a-z]{2,}){2})[A-Za-z]{1,12}\d{1,5}[A-Za-z]+")
_LONG_WORD = re.compile(r"[A-Za-z]{4}|\A[^a-z]+\Z")
_UNSPEAKABLE = re.compile(r"(?i)[bcdfghj-np-tv-xz]{6}")
_PUBLIC_VALUE = re.compile(r"pk_(?:live|test)_.*|Iv\d\.\w+|.*\.apps\.googleusercontent\.com|https?://[^?@]*")
_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_HASH_VALUE = re.compile(
    r"(?i)(?:sha\d{1,3}|md5)[:-].*|\$2[aby]\$.*|\{sha\}.*|(?:base\d\d|tls|aes|rsa|pbkdf\d|utf)[\d.-]*-[^\W\d_]+"
)


def assigned_secrets(text: SearchText) -> Iterator[Span]:
    """Values that are assigned to a name such as `client_secret` or `api_key`."""
    last = 0
    words = sorted((at, at + len(word)) for word in _SECRET_WORDS for at in occurrences(word, text.lower))
    for start, end in words:
        if start < last or not _ASSIGNMENT_NEXT.match(text.text, end):
            continue
        name = _NAME_START.search(text.text, max(last, start - 52), start)
        match = _ASSIGNMENT.match(text.text, name.start() if name else start)
        if match is not None:
            last = match.end()
            group = "value" if match["value"] else "bare"
            open_word = _OPEN_WORD.search(
                text.text, max(0, match.start() - 24), match.start() + _word_start(match["name"])
            )
            purpose = match["whose"] and not _SECRET_NAME.search(match["name"]) and _OPEN_PURPOSE.search(match["whose"])
            if (
                open_word is None
                and not purpose
                and not is_call(text.text, *match.span(group))
                and not (match["comma"] and _ARGUMENT.fullmatch(match["value"]))
                and _is_secret_value(match["name"], match[group], bare=group == "bare")
            ):
                yield match.span(group)


def _word_start(name: str) -> int:
    """Where in a name its last word begins: 6 in `cache_key`."""
    last = re.search(r"(?i)(?:key|token)[\w.-]*\Z", name)
    return last.start() if last else 0


def _is_secret_value(name: str, value: str, bare: bool) -> bool:
    value = value.rstrip(".!?")
    if not is_no_example(value) or _OPEN_NAME.search(name) or _HASH_VALUE.fullmatch(value):
        return False
    digits = count_digits(value)
    least = 20 if bare else 14
    if len(value) < least or not digits or "/" in value[:1] or _DOTTED.fullmatch(value) or _ADDRESS.fullmatch(value):
        return False
    if re.search(r"(?i)(?:access|client)[_ .-]?id|^key$", name) and _UUID.fullmatch(value):
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


_CALL = re.compile(r"\((?:[^()\n]{0,80}\)(?![\w!@#$%^&*])|[^)\n]{0,80}\(|[\"'\s]|\Z)")


def is_call(text: str, start: int, end: int) -> bool:
    """Whether a value is a function that is called: "(" follows its name."""
    name = text[start:end].replace(".", "").replace("_", "")
    return text.startswith("(", end) and name.isalnum() and _CALL.match(text, end) is not None


# --- passwords --------------------------------------------------------------------------------------------------------

PASSWORD_NAMES = (
    r"pass(?:wd|word|wort|ord|phrase|code)s?|pass\sphrase|pwd?|kennwort|zugangscode|mot\sde\spasse|mdp|contraseña|"
    r"contrasena|clave\sde\sacceso|"
    r"clave|senha|palavra[\s-]passe|parola\sd'ordine|parola\schiave|wachtwoord|hasło|пароль|lösenord(?:et)?|"
    r"adgangskoden?|heslo|salasana|密码|密碼|パスワード|비밀번호"
)
_PASSWORD_MARKS = (
    "pass",
    "pwd",
    "wort",
    "code",
    "mdp",
    "contrase",
    "clave",
    "senha",
    "parola",
    "wachtwoord",
    "hasło",
    "пароль",
    "lösenord",
    "adgangskode",
    "heslo",
    "salasana",
    "pw",
    "密码",
    "密碼",
    "パスワード",
    "비밀번호",
)
# In Romance languages an adjective follows its noun: "la password temporanea è …".
_QUALITY = (
    r"(?:temporal|temporaire|temporane[oa]|tempor[áa]ri[oa]|provisoire|provisional|provvisori[oa]|provis[óo]ri[oa]|"
    r"actuelle?|actual|attuale|atual|initiale?|inicial|iniziale|nouveau|nuev[oa]|nuov[oa]|nov[oa]|"
    r"predeterminad[oa]|predefinit[oa]|par défaut|por defecto|maestr[oa]|mestra)"
)
_PASSWORD = re.compile(
    rf"(?i)(?P<name>\b\w{{0,30}}?(?:(?:{PASSWORD_NAMES})\w{{0,20}}|_pass\b))[\"'`]?\s{{0,3}}"
    r"(?P<whose>(?:for|of|at|fürs?|bei|beim|im|chez|zum|zur|vom|von|du|de|des|pour|para|del|per|do|da|van|voor|"
    rf"to)\s[^\n.:=,;]{{1,40}}?\s{{0,2}}|{_QUALITY}\s{{0,2}})?"
    r"(?P<link>=>|:=|[:=：→]|->|[-–—](?=\s)|(?:(?:is|was|has\sbeen|have\sbeen)\s(?:now\s)?)?(?:changed|set|reset|updated)\sto\b\s?:?|"
    r"wurde\sauf\b|(?:is|was|ist|lautet|heißt|est|es|è|é|to)\b\s?[:：]?|是|为|為|は|"
    r"(?<=[^\W\d])\s(?=\S{0,40}\d)|(?=\s?[\"“„«]\w))\s{0,3}"
    r"(?P<adverb>(?:now|still|currently|jetzt|aktuell|simply|just|einfach)\s)?"
    r"(?:(?P<quote>[\"'`«„“”‘’]{1,2})\s?(?P<phrase>[^\n\"'`«»„“”‘’]{4,80}?)\s?[\"'`»“”‘’]|"
    r"(?P<value>[^\s\"'`<>()\[\],;«»“”„]{4,200}))"
)
_END = re.compile(
    r"[\"'`]?[.!?]?(?:\s*(?:[,;)\n\"'`|]|\Z)|\s+(?:(?:and|und|et|y|e|en|for|für|pour|para|per|voor)\b|"
    r"[A-ZÀ-Ý-]))"
)
# Statements about passwords, in the seven languages: no password ends so.
_SAID_OF_PASSWORDS = re.compile(
    r"(?i)\w*(?:ed|able|ible|ive|al|ant|ent|ory|ary|ic|ous|ful|less|lich|ig|bar|los|sam|isch|iert|ée?s?|"
    r"oire|iel(?:le)?|if|uis|ecte?|"
    r"ad[oa]|id[oa]|at[oa]|ut[oa]|it[oa]|ori[oa]|iv[oa]|abile|ibile|lijk|eerd|baar|ungen?|ung)"
)
_NO_PASSWORD_WORDS = """
the your a an not no one same too very only never always hidden shown known kept sent set stored correct wrong invalid
valid empty blank weak strong secure safe short long secret sensitive incorrect in on at by from with what that this
it they you must should may can will none null true false string text varchar bytes boolean any value password
passwort kennwort passwd pwd prompt here below above changed lost unknown case-sensitive case unique private default
different reset again twice once longer shorter das dein deine ihr ihre ein eine nicht nur nie immer falsch leer
geheim korrekt sicher unsicher kurz lang abgelaufen vergessen pflicht pflichtfeld gesperrt hier unten oben zu
mindestens minimum maximum least minimal more fewer between le la les un une votre ton pas trop vide faux invalide
obligatoire incorrect requis sensible secret court long celui ci-dessous el su tu una no muy vacía incorrecta correcta
válida segura obligatoria débil fuerte larga corta aquí il lo suo tuo non troppo vuota errata corretta sicura debole
lunga corta qui o os seu sua não muito vazia errada correta forte fraca het uw je een niet te leeg onjuist juist
ongeldig geldig verplicht geheim sterk zwak lang kort hier verlopen missing expiring pending loading coming working
being likely stored required optional generated encrypted hashed shared user admin's yours ours theirs there see
up-to-date wymagane wymagany puste krävs
please enter type choose use via minlength maxlength char str random nil undefined
"""
_NO_PASSWORDS = frozenset(_NO_PASSWORD_WORDS.split())
_CODE = re.compile(
    r"[$%#@{<\\/~.].*|.*(?:\(|\{|::|->|\.\.|__)|[A-Za-z_][\w]*(?:[._][A-Za-z_]\w*)+|[A-Z][A-Z_]*_[A-Z_]*|"
    r"[#*x•.-]+"
)


# What code reads a password from, names of a password, and addresses.
_REFERENCE = re.compile(
    r"(?i)[a-z_]*pass(?:word|wort|phrase|wd)[a-z_]*[?}]*|string\?|n?(?:var)?(?:char|binary)\d+|[a-z_]+\}+|[a-z]{2,10}://[^@]*|"
    r"(?:self|this|req|request|form|user|config|conf|settings|props|state|args|params|body|data|ctx|context|"
    r"options|opts|env|sys|event|cls|input|model|faker|fake|credentials|creds|account|values)\.[a-z_][\w.\[\]]*"
)


def spoken_passwords(text: SearchText) -> Iterator[Span]:
    """Passwords that are assigned or stated, in English, German, French, Spanish, Italian, Portuguese and Dutch."""
    matches = (
        match
        for start, end in text.around(_PASSWORD_MARKS, 32, 180)
        for match in _PASSWORD.finditer(text.text, start, end)
    )
    for match in matches:
        group = "phrase" if match["phrase"] else "value"
        if (
            not _OPEN_NAME.search(match["name"])
            and not is_example(text.text, max(0, match.start() - 30), match.start(group))
            and (group == "phrase" or not (is_call(text.text, *match.span(group)) or _is_code_word(match)))
            and is_password(
                match[group],
                quoted=group == "phrase",
                ends=match["link"] == "=" or _END.match(text.text, match.end()) is not None,
            )
        ):
            yield match.span(group)


# `DB_PASSWORD=…`, `Password=…;`, `--password=…`, `&pwd=…`, `db.password=…` as a line of a file
_SETTING = re.compile(r"(?:(?<![\w.-])(?:[A-Z][A-Z_]*|[A-Z][a-z]+)|[;&?-]\w+|\A[\w.-]*[._-]\w+|\Aexport\s\w+)=\Z")


_VERB = re.compile(r"(?i)\b(?:set|reset|chang\w+|updat\w+|switch\w*|is|was)\b")


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
    if letters and (digits or re.search(r"[!@#$%^&*]", value)):
        shapeless = _CODE.fullmatch(value) is None or (digits and value[0] not in "$%<{/")
        return len(value) >= 6 and bool(shapeless) and not _HASH_VALUE.fullmatch(value)
    if not letters:
        return digits >= 6 and digits == len(value)
    if not ends or _CODE.fullmatch(value) or (not quoted and "_" in value):
        return False
    return quoted or not any(map(_SAID_OF_PASSWORDS.fullmatch, (value, _without_accents(value))))


def _without_accents(word: str) -> str:
    return "".join(c for c in unicodedata.normalize("NFD", word) if not unicodedata.combining(c))


# --- codes ------------------------------------------------------------------------------------------------------------

# Groups behind a dash may have no digit: they belong to the code.
_CODE_FORM = r"[\"'`•*-]?\s{0,2}(?=[\w-]*\d)[A-Za-z0-9]{4,8}(?:(?:-| (?=[\w-]*\d))[A-Za-z0-9]{4,8}){0,9}[\"'`]?(?!\w)"
_CODES = re.compile(
    r"(?i)(?:\b(?:recovery|backup|rescue|scratch|emergency)[\s-]?(?:codes?|keys?)|"
    r"wiederherstellungs(?:codes?|schlüssel)|"
    r"notfallcodes?|codes?\sde\s(?:récupération|secours)|códigos?\sde\s(?:recuperación|recuperação|respaldo)|"
    r"codic[ei]\sdi\s(?:recupero|backup)|herstelcodes?)"
    rf"[^\n\d.;\[\]]{{0,30}}?[:=\s-]\s{{0,3}}(?P<code>{_CODE_FORM}(?:(?:[,;\s]{{1,3}}|\s(?:and|und|et|y|e|"
    rf"en)\s){_CODE_FORM}){{0,19}})"
)
_CODE_MARKS = (
    "recovery",
    "backup",
    "rescue",
    "scratch",
    "emergency",
    "wiederherstellung",
    "notfallcode",
    "codes de",
    "code de",
    "códigos",
    "código",
    "codici",
    "codice",
    "herstelcode",
    "seed ",
    "mnemonic",
    "secret phrase",
)
_PIN_MARKS = (
    "pin ",
    "pin:",
    "pin=",
    "pin-",
    "pincode",
    "tan ",
    "tan:",
    "otp",
    "cvv",
    "cvc",
    "code is",
    "code:",
    "code for",
    "code ist",
    "code lautet",
    "code est",
    "code de",
    "código de",
    "codice di",
    "code es",
    "code =",
    "one-time",
    "one time",
)
# A district has a PIN code, too: it is its postal code.
_DISTRICT = r"(?:(?:the|this|your|my)\s)?(?:area|city|town|village|district|locality|place|region|post)\b"
_PIN = re.compile(
    r"(?:\bPIN(?:[\s-]?[Cc]ode)?|\bpin[\s-]code|\bTAN|\bOTP|\bCVV2?|\bCVC2?|(?i:\b(?:one[\s-]time|"
    r"verification|security|access|entry|door|gate|alarm|safe|lockbox|"
    r"unlock|authentication|2fa|login|bestätigungs|sicherheits|zugangs|verificatie|beveiligings|toegangs)[\s-]?"
    r"(?:code|password|pin)|code\sde\s(?:vérification|sécurité|connexion)|"
    r"código\sde\s(?:verificación|seguridad|acceso|verificação|segurança|acesso)|"
    r"codice\sdi\s(?:verifica|sicurezza|accesso)))"
    rf"(?:\s(?:for|of|fürs?|der|des|vom|zum|zur|to|de|del|della|da|do|van)\s(?!{_DISTRICT})[^\n.:=,;\d]{{1,40}}?)?\s{{0,2}}(?:[:=]|(?:is|ist|lautet|est|es|è|"
    r"é)\b|(?<=OTP)(?=\s\d{6}\b)|(?<=PIN.code)(?=\s\d{4}\b))\s{0,2}[\"'`]?(?P<pin>\d{3,8})\b"
    r"(?!\s?(?:digits?|stell|zeichen|characters?|numbers?|minutes?|seconds?|chiffres|dígitos|cifre)|[.,-]\d)"
)
_SEED = re.compile(
    r"(?i)(?:seed\s(?:phrase|words?)|recovery\sphrase|mnemonic(?:\sphrase)?|"
    r"secret\sphrase)[^\n:=]{0,30}[:=]?\s{0,3}[\"'`]?"
    r"(?P<seed>(?:[a-z]{3,8}[ ,]{1,2}){11,23}[a-z]{3,8})(?![a-z])"
)


def spoken_codes(text: SearchText) -> Iterator[Span]:
    """Recovery codes, PINs and the words from which a wallet is restored."""
    for start, end in text.around(_CODE_MARKS, 8, 320):
        yield from _codes_between(text, start, end)
    for start, end in text.around(_PIN_MARKS, 24, 80):
        for match in _PIN.finditer(text.text, start, end):
            if not is_example(text.text, max(0, match.start() - 30), match.start("pin")) and len(set(match["pin"])) > 1:
                yield match.span("pin")


def _codes_between(text: SearchText, start: int, end: int) -> Iterator[Span]:
    for match in _CODES.finditer(text.text, start, end):
        if count_digits(match["code"]) >= 3 and not is_example(text.text, match.start(), match.start("code")):
            yield match.span("code")
    for match in _SEED.finditer(text.text, start, end):
        if len(set(match["seed"].lower().split())) >= 10:
            yield match.span("seed")
