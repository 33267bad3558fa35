"""What is personal because it is about a person: birth, home, place and illness."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ragtrace.text.identity_numbers import DATE
from ragtrace.text.item_search import SearchText, Span, is_example

_PERSON = re.compile(
    r"\b(?:[Ss]he|[Hh]er?|[Hh]is|[Ii]|[Mm]y|[Yy]ou|M(?:rs?|s|me|iss)\.?|Herrn?|Frau|Sra?\.|customer|"
    r"patient|employee|client|member|user|"
    r"driver|applicant|insured|[Ss]ie|[Ee]r|[Ee]lle|[Ii]l|[Éé]l|[Ee]lla|[Ll]ei|[Ll]ui|[Ee]l[ea]|[Zz]ij|"
    r"[Hh]ij|Kund(?:e|in)|Patient(?:in)?)\b"
)
_BORN = re.compile(
    r"(?i:\b(?:born(?: on)?|geboren(?: am)?|né(?:e|\(e\))? le|nacid[oa] el|nació el|nat[oa] il|"
    r"nascid[oa] (?:em|a|no dia)|nasceu (?:em|a|no dia)|geboren op)|"
    r"(?:born|geboren|née?|nacid[oa]|nat[oa]|nascid[oa]) (?:in|te|à|en|a|em) (?P<place>(?-i:[A-ZÀ-Ý])[\w'’ -]{1,30}?),?"
    r" (?:on|am|op|le|el|il|em))[\s:,]{1,3}"
    rf"(?:the |am |op )?(?P<date>{DATE})(?!\w)"
)
# "am 7. Mai 1964 geboren"
_BORN_BEHIND = re.compile(rf"(?:am|op)\s(?P<date>{DATE})\s(?P<place>(?:in|te)\s[A-ZÀ-Ý][\w-]+\s)?geboren\b")
_FULL_NAME = re.compile(r"[A-ZÀ-Ý][\w'’-]+ (?:[\w.]+ )?[A-ZÀ-Ý][\w'’-]+,? (?:\w+ ){0,2}\Z")
_BORN_MARKS = ("born", "geboren", "né", "naci", "nat", "nasc")
_PLACE = re.compile(r"(?:,? (?:in|at|à|en|a|em|te|near|bei)) [A-ZÀ-Ý]")

_WORDS = r"(?:[A-ZÀ-Ý][\w'’.-]*\s){1,4}"
_STREET = (
    rf"\d{{1,5}}[A-Za-z]?,?\s{_WORDS}(?:Street|St|Road|Rd|Avenue|Ave|Lane|Ln|Drive|Dr|Court|Ct|Boulevard|Blvd|"
    rf"Way|Place|Pl|Square|Sq|"
    r"Terrace|Close|Crescent|Gardens|Grove|Hill|Mews|Row|Park|Circle|Parkway|Highway)\b\.?"
    r"|(?:[A-ZÄÖÜ][\wäöüß.'-]*\s){0,3}[\wäöüß.-]*(?:[Ss]tra(?:ß|ss)e|[Ss]tr\.|[Ww]eg|[Pp]latz|[Gg]asse|"
    r"[Aa]llee|[Rr]ing|[Dd]amm|[Uu]fer|[Hh]of|"
    r"markt|Markt|laan|straat|gracht|plein|kade|singel|dreef)\s\d{1,4}\s?[a-z]?\b"
    r"|\d{1,4}(?:\s?(?:bis|ter))?,?\s(?:[Rr]ue|[Aa]venue|[Bb]oulevard|[Pp]lace|[Cc]hemin|[Aa]llée|"
    r"[Ii]mpasse|[Qq]uai|[Rr]oute|[Cc]ours|[Ss]quare)\s"
    r"[\w'’.-]+(?:\s[\w'’.-]+){0,4}"
    r"|(?:[Cc]alle|C/|[Aa]venida|[Aa]vda\.?|[Pp]laza|[Pp]aseo|[Vv]ia|[Vv]iale|[Pp]iazza|[Cc]orso|[Ll]argo|"
    r"[Vv]icolo|[Rr]ua|[Tt]ravessa|[Pp]raça|"
    r"[Aa]venida)\s?(?:[\w'’ºª.-]+\s){0,4}[\w'’.-]+,?\s(?:n\.?[ºo°]?\s?)?\d{1,4}\b"
)
_TOWN = (
    r"(?:,?\s(?:[A-Z]{1,2}-)?\d{4,5}(?:\s?[A-Z]{2})?,?\s[A-ZÀ-Ý][\wäöüßé-]+(?:[ -][A-ZÀ-Ý]\w+){0,2}|"
    r",\s[A-ZÀ-Ý][\w-]+(?:\s[A-Z]\w+){0,2}(?:,?\s[A-Z]{2})?(?:,?\s\d{5}(?:-\d{4})?|"
    r",?\s[A-Z]{1,2}\d[A-Z\d]?\s\d[A-Z]{2})?)?"
)
_FIRM = (
    r"GmbH|AG\b|KG\b|mbH|B\.?V\b|N\.?V\b|Ltd|Inc\b|LLC|SARL|SAS\b|S\.?A\b|S\.?L\b|S\.?r\.?l|S\.?p\.?A|AB\b|A/S|ApS|AS\b|"
    r"[Aa]potheek|[Aa]potheke|[Pp]harma|[Pp]raxis|[Kk]linik|[Hh]ospital|[Ff]iliale?|[Ll]ager|[Dd]epot|[Ww]arehouse|[Ss]tore|[Ss]hop|"
    r"[Ss]chule|[Ss]chool|[Uu]niversi|[Mm]useum|[Hh]otel|[Kk]anzlei|[Bb]üro|[Ss]ervice|[Ll]ogisti|[Vv]erlag|[Ss]tadt|[Gg]emeente"
)
_CAPITALISED = r"(?:(?:van|de|den|der|von|ten|ter)\s){0,2}[A-ZÀ-Ý][\w'’-]{1,30}"
_ADDRESSEE = (
    r"(?:(?:Mrs?|Ms|Dr|Herrn?|Frau|Mme|Sra?|Mevr|Dhr|[Mm]evrouw|[Dd]e heer|[Mm]eneer|[Ff]amilie)\.?\s)?"
    rf"{_CAPITALISED}(?:\s{_CAPITALISED}){{0,3}}"
)
_HOME = re.compile(
    r"(?i:\b(?:home(?: address)?|private address|residential address|mailing address|shipping address|"
    r"delivery address|billing address|"
    r"residence|(?:privat|wohn|liefer|rechnungs|heim|melde|zustell)(?:adresse|anschrift)|"
    r"adresse personnelle|adresse de livraison|domicile|domicilio|"
    r"dirección particular|dirección de envío|residenza|indirizzo di casa|endereço residencial|residência|"
    r"morada|(?:thuis|huis|woon|privé|post|bezorg|aflever)adres|住址|住所|"
    r"(?:his|her|my|their|customer|patient)(?:'s)? address)(?:\s(?:of|von|des|der|van|de|du|del|della|di|do|da)"
    r"(?:\s[^\s.,:;()\d]{1,20}\.?){1,5}?(?:,|(?=\s(?:is|ist|lautet|luidt|est|es|è|é)\s|:\s)))?"
    r"\s?(?:is|ist|lautet|luidt|est|es|è|é)?[\s:=：]{0,3}"
    r"|\b(?:lives?|living|lived|resides?|residing|moved|wohnt|wohnhaft|lebt|habite|demeurant|demeure|domiciliée?|"
    r"réside|vit|vive|domiciliad[oa]|reside|abita|risiede|residente|mora|woont|wonende):?\s"
    r"(?:(?:a|à|in|en|em|te)\s(?!(?:via|viale|corso|piazza|largo|calle|avenida|plaza|paseo|rua|rue)\b)(?-i:[A-ZÀ-Ý])[\w'’-]{1,30},?\s)?"
    r"(?:(?:at|in|on|to|der|die|dem|am|an|im|au|en|el|la|le|il|na|no|aan|op|de|het)\s){0,2})"
    r"|(?i:\b(?:address|adress?e?|anschrift|dirección|indirizzo)(?: of| von| de| di)?[:,]?\s"
    r"(?:mrs?|ms|dr|herrn?|frau|mme|sra?|mevr(?:ouw)?|dhr|meneer|de heer|fam(?:ilie)?|sig(?:\.ra|nora)?|señora?)\.?\s)"
    r"[A-ZÀ-Ý][\w-]+(?:\s[A-ZÀ-Ý][\w-]+)?[:,]\s"
    # "bezorgd bij Femke Roelofs, …", "zugestellt an Frau Uhl, …"
    r"|(?i:\b(?:delivered|sent|shipped|(?:thuis|af)?(?:be|ge)?(?:zorgd|leverd)|opgehaald|gestuurd|verzonden|woonachtig|"
    r"(?:aus)?geliefert|zugestellt|geschickt|versandt|gesendet|abgeholt|livrée?s?|envoyée?s?|remise?|entregad[oa]|enviad[oa]|"
    r"entregue|consegnat[oa]|spedit[oa]|levererat|levererades|leveret)\s(?:to|at|bij|aan|naar|bei|an|nach|chez|à|a|en|em|hos|til|till)\s)"
    rf"(?!(?:\S+\s){{0,4}}\S*(?:{_FIRM}))(?:{_ADDRESSEE})[:,]\s(?:(?i:te|in)\s)?"
)
_ADDRESS = re.compile(rf"(?:{_STREET}){_TOWN}")

_HOME_MARKS = (
    "home",
    "address",
    "adress",
    "live",
    "living",
    "resid",
    "moved",
    "wohn",
    "lebt",
    "habite",
    "demeur",
    "réside",
    "domicil",
    "vive",
    "abita",
    "risied",
    "mora",
    "vit ",
    "woon",
    "dirección",
    "indirizzo",
    "endereço",
    "anschrift",
    "adres",
    "zorgd",
    "leverd",
    "opgehaald",
    "gestuurd",
    "verzonden",
    "liefert",
    "zugestellt",
    "geschickt",
    "versandt",
    "gesendet",
    "abgeholt",
    "delivered",
    "sent ",
    "shipped",
    "livré",
    "envoyé",
    "remis",
    "entreg",
    "enviad",
    "consegnat",
    "spedit",
    "levere",
    "住址",
    "住所",
)

TITLE = (
    r"(?:(?:Mrs?|Ms|Miss|Dr|Herrn?|Frau|Mme|Sra?|Sig|Sig\.?ra|Mevr|Dhr)\.?|M\.|[Ss]eñora?|[Ss]ignora?|[Ss]enhora?|"
    r"Monsieur|Madame|[Mm]evrouw|[Mm]eneer|[Dd]e heer)"
)
_NAME = (
    rf"(?:{TITLE}\s(?:[A-ZÀ-Ý][\w'’-]+\s){{0,2}}[A-ZÀ-Ý][\w'’-]+|"
    r"[A-ZÀ-Ý][\w'’-]+\s(?:[A-ZÀ-Ý]\.\s)?[A-ZÀ-Ý][\w'’-]+)"
)
_TITLED = rf"(?:{TITLE}\s(?:[A-ZÀ-Ý][\w'’-]+\s){{0,2}}[A-ZÀ-Ý][\w'’-]+)"
_ILLNESS = (
    r"[\w' -]{3,48}?(?=[.,;:!?)\n]|\s(?:in|on|since|and|im|am|seit|und|en|el|le|depuis|et|y|nel|e|em|"
    r"sinds)\s|\Z)"
)
_DISEASE = (
    r"(?i:itis|oma(?<=\w{6})(?<!diploma)|osis|psy|psie|psia|(?<!acad)(?:[eé]mia|ämie|émie)|"
    r"(?:tuber[ck]ul|arthr|por|fibr|[zc]irrh|psych|neur|thromb|[eéo]tri|[ck]oli|ili[kc]|eli|[io]d)ose|"
    r"diab[eè]t\w*|cancer|krebs|c[áâ]ncer|cancro|kanker|tumou?re?|"
    r"depress\w*|depresión|dépression|as(?:th?)?ma|asthme|HIV|VIH|AIDS|SIDA|[eé]pileps\w*|epilessia|"
    r"demen[tcz]\w*|démence|s[ck]l[eé]ros\w*|sclerosi|parkinson|alzheimer|migr\w*|emicrania|"
    r"disorder|störung|disease|krankheit|syndrom\w*|síndrome|infection)"
)
# "She has written about depression", "she has experience with cancer" tell of others.
_OF_OTHERS = r"(?i:about|against|on|to|over|written|experience|research\w*|patients?)"
_ARTICLE = (
    r"(?:ein\w{0,2}|een|un[ae]?|uma?|l[eao]s?|il|o|a|el|type|typ|tipo|\d|chroni\w*|schwere\w?|maladie|de|ziekte|van)"
)
_DIAGNOSIS = re.compile(
    rf"(?P<fact>{_NAME}(?:\s\((?:\d{{1,3}}|[^()]{{1,24}})\))?,?\s(?:(?:was|is|has been|had been|"
    rf"got)\s(?:\w+\s)?diagnosed with|(?:has )?tested positive for|"
    r"(?:fue|ha sido) diagnosticad[oa] (?:con|de)|(?:a été|est) (?:diagnostiquée? (?:avec|comme)|"
    r"atteinte? d(?:e|u|'))|"
    r"è affett[oa] da|(?:foi|é) diagnosticad[oa] com|(?:is|werd) gediagnosticeerd met|"
    r"(?:is|ist|est|es|è|é) (?:HIV|hiv|VIH|(?=s[eié]+ropositi))|"
    r"(?:is|was|has) (?:been |being )?treated for(?!\s\w+\spurposes)|is undergoing)\s?"
    rf"{_ILLNESS}|{_TITLED}\s(?:suffers from|leidet (?:seit [\w ]{{2,20}} )?(?:an|unter)|souffre d(?:e|u|'|’)|"
    rf"padece(?: de)?|sufre(?: de)?|soffre di|sofre de|lijdt aan|has)\s?"
    rf"(?:(?!{_OF_OTHERS}\b)[\w-]{{1,16}}\s){{0,4}}[\w-]{{0,20}}{_DISEASE}\b"
    rf"|{_TITLED}\s(?:hat|a|tiene|ha|tem|heeft)\s(?:{_ARTICLE}\s){{0,3}}(?:l['’])?[\w-]{{0,20}}{_DISEASE}\b"
    rf"|(?:[Bb]ei\s)?{_NAME}\swurde\s[\w -]{{3,40}}\sdiagnostiziert)"
)
_HEALTH_MARKS = (
    "diagn",
    "positive for",
    "suffer",
    "leidet",
    "souffre",
    "padece",
    "sufre",
    "soffre",
    "sofre",
    "lijdt",
    "atteint",
    "affett",
    "treated for",
    "undergoing",
    "hiv",
    "vih",
    "ropositi",
    "diab",
    "cancer",
    "cáncer",
    "câncer",
    "cancr",
    "krebs",
    "kanker",
    "tumo",
    "depres",
    "dépres",
    "asthm",
    "asma",
    "astma",
    "epilep",
    "épilep",
    "demen",
    "démen",
    "sklero",
    "sclero",
    "scléro",
    "parkinson",
    "alzheimer",
    "migr",
    "disorder",
    "störung",
    "disease",
    "krankheit",
    "syndrom",
    "síndrom",
    "itis",
)

_POINT = re.compile(
    r"(?<![\w.])-?\d{1,2}\.\d{4,8}°?(?:\s?[NS]\b)?[,;/ ]\s?-?\d{1,3}\.\d{4,8}°?(?:\s?[EWO]\b)?(?![\w.]*\d)"
)
_WHEREABOUTS = re.compile(
    r"(?i)\b(?:she|he|her|his|my|seen|lives?|home|tracked|location of|position of|whereabouts|last known|"
    r"phone was|device was|gps of|"
    r"mrs?|ms|customer|patient|employee|driver|user|sie|wohnt|standort von|elle|habite|vive|abita|woont|zij|hij)\b"
)


def birth_dates(text: SearchText) -> Iterator[Span]:
    """Dates on which somebody was born, unless the sentence is an encyclopedia's: "NAME was born on DATE in PLACE"."""
    for start, end in text.around(_BORN_MARKS, 8, 64):
        for match in _BORN.finditer(text.text, start, end):
            before = text.text[max(0, match.start() - 40) : match.start()]
            has_place = match["place"] or _PLACE.match(text.text, match.end())
            encyclopedic = has_place and _FULL_NAME.search(before)
            if _PERSON.search(before) or not encyclopedic:
                yield match.span("date")
    for start, end in text.around(("geboren",), 72, 8):
        for match in _BORN_BEHIND.finditer(text.text, start, end):
            is_person = _PERSON.search(text.text, max(0, match.start() - 40), match.start())
            if is_person or not match["place"]:
                yield match.span("date")


def home_addresses(text: SearchText) -> Iterator[Span]:
    """Postal addresses that the words before them call somebody's home."""
    for start, end in text.around(_HOME_MARKS, 16, 48):
        for label in _HOME.finditer(text.text, start, end):
            address = _ADDRESS.match(text.text, label.end())
            if address is not None and not is_example(text.text, max(0, label.start() - 30), label.start()):
                yield address.span()


def diagnoses(text: SearchText) -> Iterator[Span]:
    """What a named person suffers from, with the name."""
    for start, end in text.around(_HEALTH_MARKS, 80, 80):
        for match in _DIAGNOSIS.finditer(text.text, start, end):
            yield match.span("fact")


def positions(text: SearchText) -> Iterator[Span]:
    """Coordinates, to ten metres and finer, of where somebody is or lives."""
    for start, end in text.values:
        for match in _POINT.finditer(text.text, start, end):
            if _WHEREABOUTS.search(text.text, max(0, match.start() - 60), match.start()):
                yield match.span()
