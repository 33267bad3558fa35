"""Passwords in sentences that have words between the name and the value ("La password del router è …"), quote the value
("the pass phrase 'marble otter gravel'"), or have the name elsewhere ("when it asks, type …").

Such sentences announce other things, too. So a value needs letters and digits or signs, quotes, or several words.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ragtrace.text.item_checks import is_default_password
from ragtrace.text.item_search import SearchText, Span, is_example, is_test_behind
from ragtrace.text.login_phrases import is_address, is_drawn, is_refused
from ragtrace.text.secret_assignments import is_call, is_password

# The names in each group of languages, and the verbs that lead from a name to its value.
_NAMES = (
    (
        r"pass(?:word|phrase|code)s?|pass\sphrase|passwd|passwort|kennwort|zugangscode|wachtwoord|mot\sde\spasse|"
        r"contraseña|contrasena|clave\sde\sacceso|senha|palavra[\s-]passe|parola\sd['’]ordine|parola\schiave|parola|"
        r"lösenord(?:et)?|adgangskoden?|kodeord(?:et)?|passord(?:et)?|adgangsord(?:et)?",
        r"is|reads|was|ist|lautet|heißt|luidt|est|es|è|e['’]|é|är|er|este",
    ),
    (
        r"has[łl][oa]|heslo|hesla|lozink[ae]|gesl[oa]|пароль|password",
        r"to|je|jest|brzmi|zní|znie|glasi|это",
    ),
    (r"salasana\w{0,4}|tunnussana\w{0,4}", r"on"),
    (r"jelsz\w{1,6}|parolas\w|şifre\w{0,4}", r"olan|az"),
)
_ANY_NAME = "|".join(names for names, _ in _NAMES)
_MARKS = (
    "passw",
    "passp",
    "passc",
    "pass phrase",
    "passor",
    "kennwort",
    "zugangscode",
    "de passe",
    "-passe",
    "a passe",
    "woord",
    "contrase",
    "de acceso",
    "senha",
    "parola",
    "ösenord",
    "adgangs",
    "kodeord",
    "hasł",
    "hasl",
    "hesl",
    "lozink",
    "gesl",
    "пароль",
    "salasana",
    "tunnussana",
    "jelsz",
    "şifre",
)
# Behind these words something else is named than a password: "the password hash of the account is …".
_NO_PASSWORD_NEXT = (
    r"(?!\s(?:hash\w*|polic\w*|length|manager\w*|managers?|fields?|files?|columns?|reset\w*|rules?|strength|format\w*|"
    r"encryption|generator|checker|prompt|errors?|message|validat\w*|requirements?|lists?|database|recovery|attempts?|"
    r"vault|protocol|algorithm|app|hint|change\w*|expir\w*|protect\w*|authentication|options?|parameter|variable|"
    r"settings?|page|link|url|must|should|can|may|needs?|has|have|contains?|requires?|muss|soll\w*|darf|kann|doit|peut|"
    r"debe|puede|deve|può|pode|moet|mag|måste|skal|kan|musi|powinno|może|musí|může|pitää|täytyy|kell|trebuie)\b)"
)
_BETWEEN = r"(?:\s[^\s.:;=!?,()<>{}\"“”„«»]{1,30}){0,9}?"
_QUOTED = r"(?P<quote>[\"'`«„“‘]{1,2})(?P<phrase>[^\n\"'`«»„“”‘’]{4,80})[\"'`»“”’]"
_VALUE = rf"(?:{_QUOTED}|\*{{0,2}}(?P<value>[^\s\"'`<>(){{}}\[\],;«»“”„|*][^\s\"'`<>(){{}}\[\],;«»“”„|]{{4,80}}))"
_ANNOUNCED = [
    re.compile(rf"(?i)(?:{names})(?!\w){_NO_PASSWORD_NEXT}{_BETWEEN}(?:\s(?:{links})|\s?[:：=])\s{{1,2}}:?\s?{_VALUE}")
    for names, links in _NAMES
]
# "log in with the pass phrase 'marble otter gravel'": nothing between the name and the quotes
_BARE_QUOTED = re.compile(rf"(?i)(?:{_ANY_NAME})\s{{1,2}}{_QUOTED}")
_LOGIN_BEFORE = re.compile(
    r"(?i)(?<!\w)(?:log(?:ged|s)?[\s-]?in|sign(?:ed|s)?[\s-]?in|user(?:name)?|account|accepts?|benutzer\w*|anmeld\w*|konto|utente|"
    r"usuario|utilisateur|utilizador|usuário|identifiant|gebruiker\w*|användar\w*|bruger\w*|bruker\w*|użytkownik\w*|"
    r"uživatel\w*|käyttäj\w*)\b[^\n.;]{0,60}\Z"
)
_LOGIN_BEHIND = re.compile(
    r"(?i)[^\n.;]{0,25}\b(?:user(?:name)?|login|account|benutzer\w*|konto|utente|usuario)\s[\"'`«„“‘]"
)
_MESSAGE = re.compile(
    r"(?i)\b(?:errors?|message|fields?|labels?|options?|parameters?|arguments?|columns?|keys|strings?|forms?|attributes?)\b"
)
_ENDS = re.compile(r"[.!?]?(?:\s*(?:[,;.!?)\n]|\Z)|\s(?:and|but|for|und|aber|et|y|e|en|och|og|i|a|ja)\b)")
# "accepts the password WORD", with nothing behind it
_ACCEPTED = re.compile(
    r"(?i)(?<!\w)(?:accepts?|takes|(?:un)?locks?\swith|opens?\swith|protected\s(?:with|by)|encrypted\swith|"
    r"(?:log(?:s|ged)?[\s-]?in|sign(?:ed|s)?[\s-]?in|connects?)\s(?:[^\s.,;]{1,30}\s){0,4}with)\s(?:the\s)?"
    r"pass(?:word|phrase|code)\s(?P<value>[a-z]{10,40})(?=\s*(?:[.;!)\n]|\Z))"
)
_ENGLISH_WORD = re.compile(
    r"(?i)\w*(?:ly|tions?|ments?|ness|ities|ity|ings?|where|selves|self|wards?|hand|times|ors?|ists?|isms?|ships?|"
    r"ances?|ences?|ures?|ages?|als?|ables?|ibles?|ives?|ed|ants?|ents?|ory|ary|ics?|ous|fully?|less|one|thing|ever|fore|phrases?)"
)
# "the previous admin set it to …; nobody has changed that password since"
_SET = re.compile(
    r"(?i)(?<!\w)(?:(?:set|changed|reset|switched|updated)\s(?:it|this|that|them)\s(?:back\s)?to|(?:hat|habe|haben)\ses\sauf|"
    r"(?:l['’]a|l['’]ai)\s(?:mis|changé)\sà|la\s(?:cambió|puso)\sa|l['’]ha\scambiata\sin|ändrade\sdet\still|"
    rf"veranderde\shet\sin)\s{_VALUE}"
)
_NAME_NEAR = re.compile(rf"(?i)(?:{_ANY_NAME})")
# "ssh …, and when it asks, type …"
_ASKS = (
    r"(?:asks?|asked|asking|prompt(?:s|ed)?|fragt|gefragt|verlangt|demandé?e?|invite|pida|pide|solicite|pregunte|chiede|"
    r"chiesta|richiede|richiest[ao]|pedir|pede|solicitar|solicitad[ao]|vraagt|gevraagd|frågar|spør(?:ger)?|poprosi|"
    r"zapyta|kysyy|požádá|zeptá)"
)
_TYPE = (
    r"(?:type|enter|answer|use|give|gib|geben\ssie|tippe|tippen\ssie|tapez|saisissez|entrez|escriba|escribe|introduzca|"
    r"introduce|teclee|digita|digiti|inserisci|inserisca|digite|escreva|insira|typ|vul|voer|geef|skriv|ange|indtast|"
    r"tast\sinn|wpisz|podaj|kirjoita|syötä|zadejte|napište)"
)
_PROMPTED = re.compile(
    rf"(?i)(?<!\w){_ASKS}\b(?P<what>[^\n.]{{0,40}}?)[,;\s]\s?(?:(?:then|just|simply|dann|dan)\s)?{_TYPE}\s"
    rf"(?:(?:in|then|dann|dan|alors|luego|poi)\s)?{_VALUE}"
)
_LOGIN_CONTEXT = re.compile(
    r"(?i)(?<!\w)(?:ssh|sftp|scp|telnet|sudo|rdp|vpn|log(?:ging)?[\s-]?in|sign[\s-]in|"
    rf"{_ANY_NAME})(?!\w)"
)
_NO_PASSWORD_PROMPT = re.compile(
    r"(?i)\b(?:user\s?name|user|host\w*|server|address|domain|port|files?|filename|path|url|version|model|serial|part|"
    r"benutzer\w*|utente|usuario|utilisateur|gebruiker\w*)\b"
)
# "El código del wifi de la biblioteca es …", "The code for the guest Wi-Fi is …", "wifikode: …"
_WIRELESS = r"(?:wi-?fi|wlan|w-lan|hotspot|ssid)"
_CODE = (
    r"(?:code|key|schlüssel|zugangscode|clé|código|clave|llave|codice|chiave|chave|sleutel|nyckel(?:n)?|kod(?:en)?|"
    r"kode(?:n)?|nøgle(?:n)?|nøkkel(?:en)?|kod|klucz|koodi|avain|kód|heslo|klíč)"
)
_OF = r"(?:for|of|to|für|zum|vom|von|des|de|du|del|della|di|do|da|para|pour|per|van|voor|till|til|av|k|ke)"
_WIRELESS_CODE = re.compile(
    rf"(?i)(?<!\w)(?:{_CODE}\s(?:{_OF}\s(?:[^\s.:;=!?,]{{1,20}}\s){{0,3}}?)?{_WIRELESS}|{_WIRELESS}[\s-]?{_CODE})(?!\w)"
    rf"(?:\s[^\s.:;=!?,()]{{1,30}}){{0,6}}?(?:\s(?:is|ist|lautet|est|es|è|é|är|er|on|to|je|jest)|\s?[:=])\s{{1,2}}{_VALUE}"
)
_CHAIN = re.compile(r"[^\W\d_]{2,}(?:[-_.][^\W\d_]{2,}){2,}")
# Words of sentences: a phrase with one of them is no password.
_SENTENCE_WORDS = """
the a an is are was be been of to by at in on and or not no must should can could may your you it its this that with for
from well too as all then if please enter has have incorrect invalid wrong required error field
der die das ist sind nicht und oder bitte le les est et ou sont el los es y son il lo gli sono o os são het een en niet
dans la sur au aux du des por para nel nella sul sulla auf dem den im am bei unter op bij på av
"""
_PLAIN_WORDS = frozenset(_SENTENCE_WORDS.split())


def sentence_passwords(text: SearchText) -> Iterator[Span]:
    """Passwords in sentences of English, German, French, Spanish, Italian, Portuguese, Dutch, Swedish, Danish,
    Norwegian, Polish, Czech, Finnish and a few more."""
    for start, end in text.around(_MARKS, 4, 260):
        for pattern in _ANNOUNCED:
            yield from _spans(text.text, pattern, start, end)
        for match in _BARE_QUOTED.finditer(text.text, start, end):
            if _is_free(text.text, match) and _is_bare_phrase(text.text, match):
                yield match.span("phrase")
    for start, end in text.around(("password", "passphrase", "passcode"), 90, 80):
        for match in _ACCEPTED.finditer(text.text, start, end):
            if is_password(match["value"], ends=True) and not _ENGLISH_WORD.fullmatch(match["value"]):
                yield match.span("value")
    yield from _changed_passwords(text)
    yield from _prompted_passwords(text)
    for start, end in text.around(("wifi", "wi-fi", "wlan", "w-lan", "hotspot", "ssid"), 90, 220):
        for match in _WIRELESS_CODE.finditer(text.text, start, end):
            long_number = match["value"] is not None and re.fullmatch(r"\d{8,63}[.!?]?", match["value"])
            if _is_free(text.text, match) and (long_number or _is_value(match)):
                yield _span(match)


def _spans(text: str, pattern: re.Pattern[str], start: int, end: int) -> Iterator[Span]:
    for match in pattern.finditer(text, start, end):
        if _is_free(text, match) and _is_value(match):
            yield _span(match)


def _changed_passwords(text: SearchText) -> Iterator[Span]:
    marks = (" to ", " auf ", " à ", " a ", " in ", " till ")
    for start, end in text.around(_MARKS, 220, 120):
        if not any(mark in text.lower[start:end] for mark in marks):
            continue
        for match in _SET.finditer(text.text, start, end):
            near = _NAME_NEAR.search(text.text, max(0, match.start() - 120), match.end() + 80)
            if near is not None and _is_strong(match) and _is_free(text.text, match, before=0):
                yield _span(match)


def _prompted_passwords(text: SearchText) -> Iterator[Span]:
    for start, end in text.around(_ASK_MARKS, 8, 140):
        for match in _PROMPTED.finditer(text.text, start, end):
            context = _LOGIN_CONTEXT.search(text.text, max(0, match.start() - 160), match.end("what"))
            if (
                context is not None
                and _is_strong(match)
                and not _NO_PASSWORD_PROMPT.search(match["what"])
                and _is_free(text.text, match)
            ):
                yield _span(match)


_ASK_MARKS = (
    " ask",
    "prompt",
    "fragt",
    "verlangt",
    "demand",
    "invite",
    "pid",
    "solicit",
    "pregunte",
    "chiede",
    "chiest",
    "richie",
    "pedir",
    "pede",
    "vraagt",
    "gevraagd",
    "frågar",
    "spør",
    "poprosi",
    "zapyta",
    "kysyy",
    "požádá",
    "zeptá",
)


def _span(match: re.Match[str]) -> Span:
    if match["phrase"]:
        return match.span("phrase")
    first = match.start("value")
    return first, first + len(match["value"].rstrip(".?:*"))


def _is_free(text: str, match: re.Match[str], before: int = 40) -> bool:
    """Whether no word around the value refuses it, makes it an example or calls it. `before`: the characters before the
    match that are read; "the password was weak, so I set it to …" refuses nothing."""
    first = match.start("phrase") if match["phrase"] else _span(match)[0]
    end = match.end("phrase") if match["phrase"] else match.end()
    begin = max(0, match.start() - before)
    return not (
        is_example(text, begin, first)
        or is_refused(text, begin, first)
        or is_test_behind(text, end)
        or is_call(text, first, end)
    )


def _is_value(match: re.Match[str]) -> bool:
    """Whether what is announced can be a password: drawn, a chain of words, or quoted."""
    phrase = match["phrase"]
    if phrase is None:
        value = match["value"].rstrip(".!?:*")
        return (is_drawn(value) and not is_address(value)) or _is_word_chain(value)
    return _is_phrase(phrase) or (
        " " not in phrase.strip()
        and _ENDS.match(match.string, match.end()) is not None
        and not is_default_password(phrase.strip())
        and is_password(phrase.strip(), quoted=True, ends=True)
    )


def _is_phrase(phrase: str) -> bool:
    """Whether quotes hold a drawn value, a chain of words or a pass phrase of three words or more."""
    words = phrase.split()
    if len(words) == 1:
        return (is_drawn(words[0]) and not is_address(words[0])) or _is_word_chain(words[0])
    return 3 <= len(words) <= 10 and _are_random_words(words)


def _is_bare_phrase(text: str, match: re.Match[str]) -> bool:
    """A plain word in quotes behind the name counts where a login is beside it."""
    phrase = match["phrase"].strip()
    if _is_phrase(phrase):
        return True
    before = max(0, match.start() - 80), match.start()
    is_plain_word = len(phrase) >= 6 and phrase.isalpha() and is_password(phrase, quoted=True, ends=True)
    has_login = _LOGIN_BEFORE.search(text, *before) or _LOGIN_BEHIND.match(text, match.end())
    is_message = _MESSAGE.search(text, *before) is not None
    return is_plain_word and not is_message and not is_default_password(phrase) and has_login is not None


def _is_word_chain(value: str) -> bool:
    """Three words or more, with marks between them, that are no phrase of a sentence ("up-to-date")."""
    words = re.split(r"[-_.]", value)
    return _CHAIN.fullmatch(value) is not None and len(value) >= 15 and _are_random_words(words)


def _are_random_words(words: list[str]) -> bool:
    letters = all(word.isalpha() and word[1:].islower() for word in words)
    return letters and sum(map(len, words)) >= 12 and _PLAIN_WORDS.isdisjoint(map(str.lower, words))


def _is_strong(match: re.Match[str]) -> bool:
    """Whether a value has three of small letters, capitals, digits and signs: words around it say little."""
    value = (match["phrase"] or match["value"]).rstrip(".!?:*")
    classes = (str.islower, str.isupper, str.isdigit, lambda c: not c.isalnum())
    return (
        sum(any(map(is_kind, value)) for is_kind in classes) >= 3
        and " " not in value
        and is_drawn(value)
        and not is_address(value)
    )
