"""Codes of doors, gates, safes and alarms in 12 languages, PINs by which something is opened or disarmed, and one-time
codes whose name comes after them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ragtrace.text.item_search import SearchText, Span, followed_by_unit, is_example

_PLACE = (
    r"(?:door|gate|garage|entry|entrance|lock\s?box|key\s?box|key\s?safe|safe|vault|keypad|lobby|elevator|"
    r"intercom|alarm|lock|locker|apartment|building)"
)
_GERMAN_PLACE = (
    r"(?:tür|tor|garage|tresor|safe|schließfach|schlüssel(?:kasten|box|safe)|alarm(?:anlage)?|schranke|eingang)"
)
_NAMES = (
    rf"{_PLACE}(?:\s(?:entry|access|door|gate|lock))?[\s-]?code",
    rf"{_PLACE}\scombination|combination\s(?:for|of|to)\s(?:the|your|our|my|his|her|their)\s(?:[\w-]{{1,20}}\s)?{_PLACE}",
    rf"code\s(?:for|of|to|on)\s(?:(?:the|your|our|my|his|her|their)\s)?(?:[\w-]{{1,20}}\s)?{_PLACE}",
    rf"\w{{0,12}}{_GERMAN_PLACE}(?:n|s)?-?code",
    rf"(?:zahlen)?code\s(?:für|zu|zum|zur|von|vom|der|des)\s(?:(?:die|das|den|der|dem)\s)?\w{{0,12}}{_GERMAN_PLACE}",
    r"code\s(?:de\s(?:la\s|l['’])|du\s|d['’])(?:porte|portail|portillon|garage|immeuble|coffre(?:-fort)?|alarme|entrée)",
    r"código\s(?:de\s(?:la\s)?|del\s)(?:puerta|portal|portón|garaje|alarma|caja\sfuerte|entrada)",
    r"código\sd[aeo]\s(?:porta|portão|garagem|cofre|alarme|entrada|prédio)",
    r"codice\s(?:della\s|del\s|dell['’]|di\s)(?:porta|portone|cancello|garage|cassaforte|allarme|ingresso)",
    r"(?:\w{0,12}deur|poort|kluis|alarm|garage)code",
    r"code\s(?:van|voor)\s(?:de|het)\s(?:\w{0,12}deur|poort|kluis|garage|alarm)",
    r"(?:dörr|port|entré|larm|kassaskåps|garage)kod(?:en)?|kod(?:en)?\still\s(?:\w{0,12}dörren|porten|larmet|kassaskåpet|garaget)",
    r"(?:dør|port|alarm|garasje|garage|boks|safe)kode(?:n)?|kode(?:n)?\stil\s(?:\w{0,12}døren|døra|porten|alarmen|safen|boksen)",
    r"kod\sdo\s(?:\w{0,14}\s)?(?:drzwi|bramy|furtki|domofonu|alarmu|sejfu|garażu)",
    r"(?:oven|ovi|portin|hälytys|kassakaapin)\s?koodi",
    r"kód\s(?:k|ke|od|do)\s(?:\w{0,14}\s)?(?:dveř\w{1,3}|brán\w|branky|alarmu|sejfu|trezoru|garáž\w)",
)
_LINK = (
    r"\s{0,2}(?:[:=→]|\s[-–—]\s|(?:is|ist|lautet|est|es|è|é|är|er|to|on|je)\b(?:\s(?:now|still|jetzt))?\s?:?|"
    r"(?:(?:is|was|has\sbeen)\s)?(?:changed|set|reset)\sto\b|(?<=code)(?=\s\d{4,6}(?!\d)))\s{0,2}[\"'`*]{0,2}"
)
_AFTER = re.compile(
    rf"(?i)(?<!\w)(?P<name>{'|'.join(_NAMES)}){_LINK}#?(?P<code>\d{{1,2}}(?:-\d{{1,2}}){{2,3}}|\d{{3,8}})(?!\w|[.,/-]\d|-)"
)
_KIND = (
    r"(?:(?:verification|security|login|log-in|sign-in|access|one-time|authentication|2fa|unlock|entry|door|gate|"
    r"alarm|garage|safe|lockbox)[\s-](?:code|passcode|pin)|(?:one-time\s)?(?:passcode|pin)|otp|"
    r"(?:bestätigungs|sicherheits|anmelde|login|zugangs|verifizierungs|tür|tor)-?code|"
    r"code\sde\s(?:vérification|sécurité|connexion)|código\sde\s(?:verificación|seguridad|acceso|verificação|segurança)|"
    r"codice\sdi\s(?:verifica|sicurezza|accesso)|(?:verificatie|beveiligings|toegangs)code)"
)
_BEFORE = re.compile(
    r"(?i)(?<![\w.,:/#-])(?:[A-Z]-)?(?P<code>\d{4,8})\s(?:is|ist|est|es|è|é|as|als)\s"
    r"(?:the|your|my|our|das|dein|ihr|mein|unser|votre|ton|le|su|tu|el|il\s(?:tuo|suo)|o\sseu|uw|je|de)\s"
    rf"(?:(?<=your\s)code|(?:\w{{1,20}}\s){{0,2}}?{_KIND})"
    r"(?=\s*(?:[.,;:!)\n]|\Z)|\s(?:for|to|and|at|on|in|für|zum|zur|und|pour|para|per|voor)\b)"
)
# "disarmed with PIN 740916", "mit dem Code 4417 öffnen", "avec le code 4417": what it opens is near.
_OPENS_WITH = re.compile(
    r"(?i)(?<!\w)(?:with|using|by|via|enter|entering|type|key\sin|use|press|takes|accepts|requires|mit|durch|avec|con|com|met|med|tast|s|z|pomocí|"
    r"koodilla|vpište|wpisz|tippe|tippen\ssie|tapez|composez|introduzca|marque|digita|digiti|digite|toets|voer|slå|knappa\sin)\s"
    r"(?:(?:the|a|der|dem|den|die|le|el|la|il|lo|o|de|het|her|his|your|our|their|ihre[rm]?|seine[rm]?|su|votre|kódem|kodem|koden)\s)?"
    r"(?:(?:PIN|pin)(?:[\s-]?code|kod|kode)?|passcode|(?:Zahlen|Tür|Alarm)?code|código|codice|kod(?:en|em)?|kode(?:n)?|kódu|koodi)\s{0,2}"
    r"(?:[:=]\s?)?[\"'`*]{0,2}(?P<code>\d{4,8})(?!\w|[.,/-]\d|-)"
)
# "disarm it with 4471", "the safe opens with 88-12-43"
_UNLOCKED_WITH = re.compile(
    r"(?i)(?<!\w)(?:(?:disarm|unlock)(?:ed|s)?(?:\s\w{1,12}){0,3}?\swith\s[\"'`*]{0,2}(?P<code>\d{4,8})|"
    r"opens?(?:\s\w{1,12}){0,3}?\swith\s[\"'`*]{0,2}(?P<dial>\d{1,2}(?:-\d{1,2}){2,3}))(?!\w|[.,/-]\d|-)"
)
_OPENED = re.compile(
    r"(?i)alarm|disarm|\blarm|hälyt|\b(?:\w{1,5}door|door|gate|garage|vault|keypad|locker|lock ?box|key ?box|unlock\w*|"
    r"entrance|(?:the|a|your|our|her|his) safe)s?\b|\b\w{0,12}tür\b|\btor(?:e|es)?\b|tresor|schließfach|schranke|"
    r"entsperr|\w{0,8}eingang\b|\bporte\b|portail|coffre|immeuble|verrou|puerta|portón|caja fuerte|cassaforte|cancello|"
    r"\bporta\b|portone|portão|\bcofre|\b(?:voor|achter|buiten)?deur\b|\bpoort\b|\bkluis|dörr|\bporten\b|kassaskåp|\bdør|"
    r"\bboks|drzwi|\bbram[aęykie]\b|domofon|\bsejf|\bovi\b|\boven avat|dveř|\bbrán|trezor|\bsim[ -]?(?:card|karte)"
)
_OFFER = re.compile(
    r"(?i)discount|promo|coupon|voucher|rabatt|gutschein|remise|descuento|sconto|korting|newsletter|invoice|rechnung|factuur|factura|facture|fattura|\boff\b"
)
_MEANS = re.compile(
    r"(?i)[\"'`*]{0,2}\s(?:means|indicates|signals|stands|appears|reports|shows|occurs|bedeutet|steht|zeigt|signifie|indique|"
    r"of|significa|indica|betekent|betyder|oznacza|znamená|tarkoittaa)\b"
)
# Codes that open nothing.
_OTHER_CODE = re.compile(
    r"(?i)\b(?:error|fault|source|zip|postal|post|colou?r|ral|paint|product|item|part|parts|model|order|dress|country|"
    r"area|discount|promo|coupon|voucher|tax|hs|tariff|qr|bar|diagnostic|status|exit|hex|material|catalog\w*|article|"
    r"type|fehler|farb|artikel|produkt|d['’]erreur|de\serror|di\serrore)[\s-]{1,2}\Z"
)
_SECTION = re.compile(r"(?:19|20)\d\d|\d{1,2}-.*")


def door_codes(text: SearchText) -> Iterator[Span]:
    """Codes behind the name of what they open, then codes before the name of their kind."""
    for start, end in text.around(("code", "código", "codice", "combination", "kod", "koodi", "kód"), 60, 80):
        for match in _AFTER.finditer(text.text, start, end):
            # A building code is a law, too, and has a year and sections.
            is_law = match["name"].lower().startswith("building") and _SECTION.fullmatch(match["code"])
            if not is_law and _is_code(text.text, match):
                yield match.span("code")
    for start, end in text.around(("code", "código", "codice", " pin", " otp"), 60, 24):
        for match in _BEFORE.finditer(text.text, start, end):
            if _is_code(text.text, match):
                yield match.span("code")
    for start, end in text.around(("code", "código", "codice", " pin", " kod", " kód", "koodi"), 60, 40):
        for match in _OPENS_WITH.finditer(text.text, start, end):
            if _opens(text.text, match) and _is_code(text.text, match):
                yield match.span("code")
    for start, end in text.around(("disarm", "unlock", " open"), 8, 60):
        for match in _UNLOCKED_WITH.finditer(text.text, start, end):
            group = "code" if match["code"] else "dial"
            if _opens(text.text, match) and _is_code(text.text, match, group):
                yield match.span(group)


def _opens(text: str, match: re.Match[str]) -> bool:
    """Whether the words around a code name what it opens, and neither an offer nor a fault."""
    place = max(0, match.start() - 80), match.end() + 60
    is_other = _MEANS.match(text, match.end()) or _OFFER.search(text, *place)
    return not is_other and _OPENED.search(text, *place) is not None


def _is_code(text: str, match: re.Match[str], group: str = "code") -> bool:
    first, last = match.span(group)
    before = max(0, match.start() - 30)
    return (
        len(set(match[group])) > 1
        and not _OTHER_CODE.search(text, before, match.start())
        and not is_example(text, before, first)
        and not followed_by_unit(text, last)
        and re.match(r"\s?(?:digits?|stellig|numbers?|chiffres|dígitos|cifre|cijfers)\b", text[last : last + 12])
        is None
    )
