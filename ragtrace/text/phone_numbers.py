"""Phone numbers: by a label in the text, by their shape, and by the numbering plans of the regions that are set."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ragtrace.text.item_search import (
    SearchText,
    Span,
    count_digits,
    followed_by_unit,
    is_labelled_otherwise,
    is_no_sample,
)
from ragtrace.text.life_facts import TITLE

_MAX_LOOKUPS = 400
"""Numbers of one text that are looked up in numbering plans, once for each region: prose has fewer."""

_HINT = re.compile(r"(?<![\w.])(?:\+|\(|0|\d{3}[-.) ])[\d ().\-/x+]{6,20}")
PHONE_LABELS = (
    r"(?:tele)?phone|telefon|tel|mobile|mobil(?:funk|telefon)?|cell(?:phone)?|fax|desk|whatsapp|hotline|"
    r"landline|call|dial|text(?=\s(?:me|us|him|her|them)\b)|"
    r"reach|ring|sms|rufnummer|handy|durchwahl|festnetz|erreichbar unter|"
    r"(?:bereiken|bereikbaar) op|t[ée]l[ée]phone|t[ée]l|portable|fixe|"
    r"appel(?:ez|er)|joi(?:gn(?:able|ez)|ndre)(?: au)?|tel[ée]fono|m[óo]vil|celular|cell?ulare|"
    r"ll[aá]m\w{1,6}(?: al)?|fijo|chiam\w{1,6}|"
    r"telefone|telem[óo]vel|telefoon|mobiel|gsm|lig(?:ue|ar)(?: para)?|tfno|tlfn?o?|telf|puhelin|"
    r"telefonnummer|тел(?:ефон)?"
)
# Where the text says that a phone number follows, its shape is enough: many real ones follow no numbering plan.
_LABELLED = re.compile(
    rf"(?i)(?:\b(?:{PHONE_LABELS})(?:s?nummer(?:et|n)?|numret|s?nr)?|电话|手机|電話|携帯|전화|휴대폰)"
    r"(?:\s?(?:numbers?|no|nr|num(?:éro|ero)?|número|me|us|him|her|them|back|the office))?"
    r"(?:(?:\s[^\W\d][\w.'’-]{0,20}){1,4}(?=\s(?:is|at|on|ist|unter|est|es|al|è|é|"
    r"op)\s[\w ]{0,4}\+?\(?\d[\d ().\-/]{7})|"
    # "El teléfono particular de la paciente Nuria Belmonte es …"
    r"(?:\s[^\W\d][\w'’-]{0,20}){1,9}(?=\s(?:is|ist|lautet|est|es|è|é|är|er|to|je)\s\+?\(?\d[\d ().\-/]{7})|"
    r"\.?(?:\s[^\W\d][\w'’-]{0,20}){0,2}\s(?:of|de|del|von|van|di|do|da|du|till|til|av)(?:\s[\w'’.-]{1,20}){0,2}"
    r"\s(?-i:[A-ZÀ-Ý])[\w'’-]{1,20}(?=:)|"
    rf"(?:\s(?:al|a|le|la|o|den|die|de)(?:\sla)?)?\s{TITLE}(?:\s[^\W\d][\w'’-]{{0,20}}){{1,2}}(?=:))?\.?\s{{0,2}}"
    r"(?:[:=#：]|\b(?:is|at|on|ist|lautet|est(?: le)?|es(?: el)?|al|au|unter|è|é(?: o)?|op|onder|är|er|to|je)\b|是|"
    r"号码|号)?\s{0,2}[:：]?\s{0,2}"
    r"(?P<number>\+?\(?\d[\d ().\-/]{5,19}\d(?:\s?(?:x|ext\.?)\s?\d{1,6})?)(?![\w-]|[.,]\d)"
)
_SHAPE = re.compile(
    r"(?<![\w.+-])(?<!\d/)(?:(?:\+|00)[1-9]\d{0,2}[ .-]?(?:\(0\)[ .-]?)?(?:\(?\d{1,4}\)?[ .-]?){2,5}\d{2,4}"
    r"|(?:\+?1[-. ]|001[-. ])?(?:\(\d{3}\) ?|[2-9]\d\d[-.])\d{3}[-.]\d{4})"
    r"(?:\s?(?:x|ext\.?\s?)\d{1,6})?(?![\w-]|[.,]\d)"
)
# National forms: a trunk prefix and groups, "030 1234567", "(030) 123 45 67", "06 12 34 56 78".
_NATIONAL = re.compile(r"(?<![\w.,+/#-])\(?0\d{1,5}\)?(?:[ ./-]{1,3}\d{1,8}){1,5}(?!\w|[.,/-]\d)")
# "His number is 612 345 678", "le numéro de Paul est 06 …": a person's number, in digits of any plan.
_PERSONS = re.compile(
    r"\b(?:[Nn]umber|[Nn]ummer|[Nn]um[ée]ro|[Nn]úmero|[Nn]umero)\s(?:of|von|de|di|do|da|del|van)\s"
    r"(?:Herrn?\s|Frau\s|M(?:r|rs|s|me|\.)?\.?\s|Sra?\.?\s)?[A-ZÀ-Ý][\w.-]{1,20}(?:\s[A-ZÀ-Ý][\w-]{1,20})?"
    r"\s(?:is|ist|lautet|est|es|è|é)\s(?:le\s|el\s|il\s|o\s)?(?P<a>\+?\(?\d[\d ().\-/]{7,17}\d)(?!\w)"
    r"|\b(?:[Mm]y|[Hh]is|[Hh]er|[Tt]heir|[Ss]eine|[Ii]hre|[Mm]eine|[Ss]on|[Mm]on|[Ss]u|[Mm]i|[Ss]eu|"
    r"[Ss]ua|[Zz]ijn|[Hh]aar|\w+'s)\s"
    r"(?:[Nn]umber|[Nn]ummer|numéro|número|numero)\s(?:is|ist|lautet|est|es|è|é)\s(?:le\s|el\s|il\s|o\s)?"
    r"(?P<b>\+?\(?\d[\d ().\-/]{7,17}\d)(?!\w)"
    r"|(?<![\w.,+/#-])(?P<c>\+?\(?\d[\d ().\-/]{7,17}\d)\s(?:is|ist|est|es|è|é)\s(?:[\w.'’]+\s){0,4}"
    r"(?:phone|mobile|cell|telephone|handy|(?:[Hh]is|[Hh]er|[Mm]y|\w['’]s)\snumber)\b"
)
# Numbers of firms and services that are free of charge or share the cost: nobody's own.
_SERVICE = re.compile(
    r"(?:\+?1[ .-]?)?\(?8(?:00|33|44|55|66|77|88)\)?[ .-]?\d{3}[ .-]?\d{4}"
    r"|(?:(?:\+|00)\d{2,3}[ .-]?(?:\(0\)[ .-]?)?|0)(?:800|808|900|180\d?)[ ./-]?[\d ./-]{5,}"
    r"|0(?:300|345|844|845|870)[ -]\d{3}[ -]?\d{2}[ -]?\d{2}|0 ?8\d{2}[ .]\d{3}[ .]\d{3}|08(?:[ .]\d\d){4}"
    r"|1[38]00[ -]\d{3}[ -]\d{3}|90[0-2][ .-]?\d{3}[ .-]?\d{3}|800[ .-]?\d{3}[ .-]?\d{3}"
    r"|(?:(?:\+|00)46[ .-]?(?:\(0\)[ .-]?)?|0)77\d?[ -]?(?:\d[ -]?){5,6}\d"
)
# Who answers is a firm or an office, not a person.
_SWITCHBOARD = re.compile(
    r"(?i)(?<!\w)(?:switchboard|\w{1,12}hotline|(?:telefon|notruf|leit|ruf)?zentrale|zentralnummer|centralita|centralino|central\s(?:telefónica|telefônica)|"
    r"standard(?=\s(?:téléphonique|de|du|est|d['’])\b)|telefooncentrale|växeln?|växelnummer|omstilling(?:en)?|sentralbord(?:et)?|hovednummer(?:et)?|"
    r"centrala|vaihde|vaihteen\w*|ústředn[ay]|hotline|helpline|help\sline|info(?:line|linia|linka)|kundtjänst(?:en)?|kundeservice|"
    r"kundesenter(?:et)?|asiakaspalvelu\w*|klantenservice|kundenservice|kundendienst|customer\s(?:service|care|line|support)|"
    r"service\s?clients?|(?:servicio|atención)\sal\scliente|servizio\sclienti|(?:atendimento|apoio)\sao\scliente|biuro\sobsługi|"
    r"zákaznick\w{1,3}\s(?:link\w{1,3}|servis\w*)|numero\sverde|linha\sde\sapoio|bürgertelefon|front\sdesk|main\sline|"
    r"reception(?!ist)|rezeption|empfang|recepción|recepção|receptie|accueil|portineria)(?!\w)"
    r"(?P<rest>[^.!?;\n]{0,60})\Z"
)
_OWN_LINE = re.compile(
    rf"(?i:durchwahl|direct|extension|handy|mobil\w*|móvil|cell\w*|portable|privat\w*|home|colleague|\b(?:his|her|my|sein\w*|ihr\w*)\b)|"
    rf"\b{TITLE}\s|(?<![.!?]\s)\b[A-ZÀ-Ý][a-zà-ÿ]+\s[A-ZÀ-Ý][a-zà-ÿ]+(?=\s|,|'|:)"
)
_TRACKING = re.compile(
    r"(?i)(?<!\w)(?:track(?:ing|\s?(?:&|and|\+)\s?trace)|shipment|parcel|consignment|way\s?bill|awb|sendung\w*|paket(?:nummer|nr)|"
    r"(?:numéro\sde\s)?suivi|colis|seguimiento|guía|envío|tracciamento|spedizione|rastreio|rastreamento|zending\w*|pakket(?:nummer|je)|"
    r"spårnings\w*|kolli\w*|försändelse\w*|sporings\w*|pakkenummer\w*|przesyłk\w*|list\sprzewozowy|seuranta\w*|lähetys\w*|zásilk\w*)"
    r"(?P<rest>[^.!?;\n]{0,48})\Z"
)
_PHONE_WORD = re.compile(rf"(?i)\b(?:{PHONE_LABELS})")
_MIXED_CODE = re.compile(r"(?<!\w)(?=[A-Z\d]*[A-Z])(?=[A-Z\d]*\d)[A-Z\d]{2,6}[ -]\Z")
# "Chrome/126.0.6478.127", "build 22.0.3155.41": groups of one digit are no part of a phone number with dots.
_VERSION = re.compile(r"\d+(?:\.\d+){2,5}")
_PRODUCT_SLASH = re.compile(r"[A-Za-z]{3,}/\Z")
_LAST_DIGIT = re.compile(r"\d\D*\Z")


def _shapes(text: SearchText) -> Iterator[Span]:
    """Numbers of 7 to 20 digits that a label announces or that are written like phone numbers."""
    spans: list[Span] = []
    for start, end in text.numbers:
        spans.extend(match.span("number") for match in _LABELLED.finditer(text.text, start, end))
        spans.extend(match.span() for match in _SHAPE.finditer(text.text, start, end))
    last = 0
    for start, end in sorted(spans):
        if start >= last and 7 <= count_digits(text.text[start:end]) <= 20:
            last = end
            yield start, end


def _hints(text: SearchText) -> Iterator[re.Match[str]]:
    for start, end in text.numbers:
        yield from _HINT.finditer(text.text, start, end)


def phones(text: SearchText) -> Iterator[Span]:
    """Phone numbers of persons, as far as their form and label tell. Service numbers, quantities and the numbers of
    orders, parts and pages are not phone numbers."""
    for start, end in (*_shapes(text), *_planned(text)):
        number = text.text[start:end]
        if not (
            _SERVICE.fullmatch(number)
            or _is_version(text.text, start, end)
            or _is_shipment(text.text, start)
            or _is_switchboard(text.text, start)
            or followed_by_unit(text.text, end)
            or is_labelled_otherwise(text.text, start, end)
            or not is_no_sample(text.text, start)
            or len(set(filter(str.isdigit, number))) < 3  # 000-000-0000
        ):
            yield start, end


def _is_version(text: str, start: int, end: int) -> bool:
    """Whether a number in dots is a program's: behind its name and a slash, or with groups of one digit."""
    number = text[start:end]
    if _VERSION.fullmatch(number) is None:
        return False
    is_product = _PRODUCT_SLASH.search(text, max(0, start - 24), start) is not None
    is_label = _PHONE_WORD.search(text, max(0, start - 24), start) is not None
    return not is_label and (is_product or any(len(group) == 1 for group in number.split(".")[1:]))


def _is_shipment(text: str, start: int) -> bool:
    """Whether a word before a number makes it a parcel's, or the number ends a code ("1Z 999 AA1 01 2345 6784")."""
    match = _TRACKING.search(text, max(0, start - 80), start)
    if match is not None and not _PHONE_WORD.search(match["rest"]):
        return True
    return _MIXED_CODE.search(text, max(0, start - 8), start) is not None and "1Z" in text[max(0, start - 24) : start]


def _is_switchboard(text: str, start: int) -> bool:
    """Whether a word before a number says that a firm answers, with no person between the word and the number."""
    match = _SWITCHBOARD.search(text, max(0, start - 100), start)
    return match is not None and _OWN_LINE.search(match["rest"]) is None


def _planned(text: SearchText) -> Iterator[Span]:
    """Numbers that are valid in a numbering plan: international ones, and national ones whose form or owner says that
    they are phone numbers."""
    # phonenumbers is thorough and slow, so it reads only the neighbourhood of what looks like a number.
    import phonenumbers

    american = "US" if {"US", "CA"} & set(text.regions) else None
    lookups = 0
    for hint in _hints(text):
        lookups += 1
        region = None if hint.group().lstrip("(").startswith("+") else american
        if lookups > _MAX_LOOKUPS:
            break
        for match in phonenumbers.PhoneNumberMatcher(hint.group(), region, leniency=phonenumbers.Leniency.VALID):
            if count_digits(match.raw_string) >= 9:
                yield hint.start() + match.start, hint.start() + match.end
    for start, end in _national_forms(text):
        lookups += 1
        if lookups > _MAX_LOOKUPS:
            break
        if any(_is_valid(text.text[start:end], region) for region in text.regions):
            yield start, end


def _national_forms(text: SearchText) -> Iterator[Span]:
    for start, end in text.numbers:
        for match in _NATIONAL.finditer(text.text, start, end):
            if 9 <= count_digits(match.group()) <= 12 and len(match.group()) <= 20:
                yield match.span()
        for match in _PERSONS.finditer(text.text, start, end):
            if 9 <= count_digits(match.group(match.lastgroup or 0)) <= 15:
                yield match.span(match.lastgroup or 0)


def _is_valid(number: str, region: str) -> bool:
    import phonenumbers

    try:
        return bool(phonenumbers.is_valid_number(phonenumbers.parse(number, region)))
    except phonenumbers.NumberParseException:
        return False


def phone_forms(text: SearchText) -> Iterator[Span]:
    """Everything that `phones` could return, without the numbering plans: fit for a request's thread."""
    yield from _shapes(text)
    yield from _national_forms(text)
    for hint in _hints(text):
        if count_digits(hint.group()) >= 9:
            trailing = _LAST_DIGIT.search(hint.group())
            yield hint.start(), hint.end() if trailing is None else hint.start() + trailing.start() + 1
