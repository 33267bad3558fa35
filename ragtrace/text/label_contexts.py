"""What the words around a label and a number say of the number. The leak checks report only what `belongs_to_label`
accepts; masks hide the rest, too."""

from __future__ import annotations

import re

from ragtrace.text.identity_numbers import YEAR
from ragtrace.text.item_search import Span, begins_example, is_test_behind

# A day, or a span of years.
_DAY, _MONTH = r"(?:0?[1-9]|[12]\d|3[01])", r"(?:0?[1-9]|1[0-2])"
_CALENDAR = re.compile(
    rf"(?:{_DAY}[./-]{_MONTH}[./-]{YEAR}|{_MONTH}[./-]{_DAY}[./-]{YEAR}|{YEAR}[./-]{_MONTH}[./-]{_DAY}|"
    rf"{YEAR} ?[-/] ?{YEAR})(?!\d|[./-]\d)"
)

# Labels that name a thing: it has a balance, costs and an age, too, so its number must be announced as one.
_THING_LABELS = """
bank account; bankkonto; konto; compte bancaire; cuenta bancaria; cuenta corriente; conto corrente; conta corrente;
conta bancária; rekening; bankrekening; medical record; patient file; health insurance; health card; health plan;
medicaid; krankenversicherung; krankenversicherten; krankenkassen; versicherten; patienten; mutuelle; dossier médical;
dossier patient; historia clínica; tarjeta sanitaria; cartella clinica; tessera sanitaria; prontuário; utente;
zorgpolis; license plate; licence plate; number plate; registration plate; vehicle registration; car registration;
kennzeichen; kfz kennzeichen; nummernschild; immatriculation; plaque d'immatriculation; plaque; matrícula; targa;
targata; kenteken; chapa de matrícula
"""
_THINGS = frozenset(re.sub(r"[\s'’._/-]", "", label) for label in _THING_LABELS.split(";"))
# What is directly before the number of a thing: nothing, a mark, "is" or "is still the", "number", or its bank.
_IS = r"(?:is|are|was|were|ist|sind|war|lautet|lauten|est|était|es|son|è|é|são|as|als|comme|como|come)"
_STILL = r"(?:\s(?:still|now|currently|the|noch|jetzt|die|das|le|la|el|il|het))?"
_NUMBER = (
    r"(?:numbers?|no\.?|nr\.?|ids?|code|nummern?|numéro|número|numero|n[°º.]|reads?|ending(?: in)?|"
    r"member|policy|recipient|subscriber|beneficiary)"
)
_AT_BANK = r"\s(?:at|with|from|bei|chez|en|presso|bij)\s(?:(?-i:[A-ZÄÖÜ])[\w&]*\s){1,3}"
_ANNOUNCES_NUMBER = re.compile(
    rf"(?i)[^\w.]*\Z|.*(?:[:：=#(\"'`*,)–—]|\s-|\b{_IS}{_STILL}|\b{_NUMBER}|{_AT_BANK}|"
    r"\d (?:and|or|und|oder|et|ou|y|e|en))\s*[\"'`*(]*\Z",
    re.DOTALL,
)
_AMOUNT_BEFORE = re.compile(
    r"(?i)\b(?:balance|limit|deductible|premiums?|charges?|minimum|maximum|interest|amount|coverage|deposits?|bonus|"
    r"holders|members|saldo|kontostand|guthaben|beitrag|solde|cotisation|franquicia|franchise)\b"
)
_AMOUNT_BEHIND = re.compile(
    r"(?i)\s(?:members|patients|customers|clients|holders|americans|adults|children|employees|citizens|inhabitants|"
    r"beneficiaries|enrollees|subscribers|participants|versicherte\w*|mitglieder\w*|kunden|patienten|assurés|"
    r"asegurados|assistiti|leden)\b"
)

# A plate of one group of letters: "YOLO 8" has this form, too.
_WEAK_PLATE = re.compile(r"[A-ZÄÖÜ]+ ?\d+|\d+ ?[A-ZÄÖÜ]+")
_NO_PLATE = re.compile(
    r"(?:DIN|ISO|EN|IEC|VDE|ANSI|ASTM|SAE)[ -]?\d+|DIN[ -](?:EN|ISO)[ -]?\d+|"
    r"\d+ ?(?:EUR|USD|GBP|CHF|CAD|AUD|INR|BRL|PLN|GHZ|MHZ|KW|KWH|KM|CM|MM|KG|PS|HP|AM|PM|DPI|MB|GB)|"
    r"(?:EUR|USD|GBP|CHF|CAD|AUD|INR|BRL|PLN) ?\d+"
)

_COMPANY = (
    r"(?:compan(?:y|ies)|corporat(?:e|ion)|firm|business|partnership|vendor|supplier|brand|products?|firm[ae]n?|vereins?|"
    r"unternehmens?|gesellschaft|société|entreprise|empresa|azienda|società|bedrijf|gmbh|inc|llc|ltd)"
)
_COMPANY_BEFORE = re.compile(rf"(?i)\b{_COMPANY}(?:['’]?s)?['’]?\s\Z")
_COMPANY_BETWEEN = re.compile(rf"(?i)\b{_COMPANY}\b")
_COMPANY_BEHIND = re.compile(
    rf"(?i)\s(?:of|is|der|des|de|della|van)\s(?:(?:the|our|unserer|la|l['’]|het)\s?)?{_COMPANY}\b"
)
_TAX_LABEL = re.compile(r"(?i)tax|steuer|fiscal|contribu|\b(?:EIN|FEIN|TIN|NIF|RUT|CUIT|NIP|INN|UTR|IRD)\b")
_NEXT_WORD = re.compile(r"\s[^\W\d_]")
_FOUNDED = re.compile(
    r"(?i)\b(?:founded|established|launched|released|introduced|gegründet|fondée?|lancée?|fundad[oa]|fondat[oa])\b"
)


def belongs_to_label(text: str, kind: str, label: Span, value: Span) -> bool:
    """Whether a value that has the form is the number of what the label names: not a date, an amount or a name beside
    it, not an example, and not a company's."""
    between = text[label[1] : value[0]] if label[1] <= value[0] else text[value[1] : label[0]]
    number = text[value[0] : value[1]]
    if begins_example(text, value[0]) or is_test_behind(text, value[1]):
        return False
    if kind == "date_of_birth":
        return not _FOUNDED.search(between) and not _is_behind_company(text, label)
    if kind == "license_plate" and _NO_PLATE.fullmatch(number):
        return False
    if kind == "bank_routing":
        return _is_bank_code(text, text[slice(*label)], between, number, value[1])
    if _TAX_LABEL.search(text, *label) and (
        _is_behind_company(text, label) or _COMPANY_BETWEEN.search(between) or _COMPANY_BEHIND.match(text, value[1])
    ):
        return False
    if is_date(text, value[0]):
        return False
    return not _names_a_thing(text[slice(*label)]) or _is_announced(text, kind, label, value)


def is_date(text: str, at: int) -> bool:
    """Whether a day, or a span of years, begins at an offset."""
    return _CALENDAR.match(text, at) is not None


def _names_a_thing(label: str) -> bool:
    plain = re.sub(r"[\s'’._/-]", "", label.lower())
    return plain in _THINGS or plain.removesuffix("s") in _THINGS


def _is_announced(text: str, kind: str, label: Span, value: Span) -> bool:
    """Whether the words between a thing and a value, and those behind, make the value the thing's number."""
    number, behind = text[slice(*value)], text[label[1] : label[1] + 24]
    if kind == "license_plate" and not _WEAK_PLATE.fullmatch(number):
        return True
    if value[1] <= label[0]:
        return not _AMOUNT_BEFORE.match(behind.lstrip())
    between = text[label[1] : value[0]]
    is_amount = _AMOUNT_BEFORE.search(between) or _AMOUNT_BEHIND.match(text, value[1])
    return not is_amount and _ANNOUNCES_NUMBER.match(between) is not None


def _is_behind_company(text: str, label: Span) -> bool:
    """Whether the word before a label names a company: "the company's tax ID"."""
    return _COMPANY_BEFORE.search(text, max(0, label[0] - 24), label[0]) is not None


def _is_bank_code(text: str, label: str, between: str, code: str, end: int) -> bool:
    """Whether letters beside "SWIFT" are a code of a bank, no word in capitals: "SWIFT MESSAGES are …"."""
    is_word = label == "SWIFT" and code.isalpha() and not code.endswith("XXX") and not between.strip()
    return not is_word or _NEXT_WORD.match(text, end) is None
