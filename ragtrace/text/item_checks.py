"""Checks of texts that have the form of personal data or of a secret: check digits, ranges, entropy."""

from __future__ import annotations

import base64
import hashlib
import math
import re
from collections import Counter
from itertools import pairwise

from ragtrace.text.stdnum_checks import is_valid


def is_luhn_valid(number: str) -> bool:
    """Whether the check digit of a card number is right (ISO/IEC 7812-1, annex B)."""
    digits = [int(c) for c in number if c.isdigit()]
    doubled = [d if i % 2 == 0 else sum(divmod(2 * d, 10)) for i, d in enumerate(reversed(digits))]
    return sum(doubled) % 10 == 0


def is_iban(text: str) -> bool:
    """Whether the check digits of an account number are right (ISO 13616, mod 97 = 1)."""
    compact = text.replace(" ", "").upper()
    if not 15 <= len(compact) <= 34:
        return False
    rotated = compact[4:] + compact[:4]
    try:
        return int("".join(str(int(c, 36)) for c in rotated)) % 97 == 1
    except ValueError:
        return False


def is_ssn(text: str) -> bool:
    """Whether a US social security number could have been issued: no area 000, 666 or 9xx, no group 00, no 0000."""
    area, group, serial = re.split(r"[- ]", text)
    return area not in ("000", "666") and area[0] != "9" and group != "00" and serial != "0000"


# The first digits of the networks and how long their numbers are (ISO/IEC 7812; each network's own lengths).
_CARDS = re.compile(
    r"220[0-4]\d{12}|4\d{12}(?:\d{3}){0,2}|(?:5[1-5]\d\d|222[1-9]|22[3-9]\d|2[3-6]\d\d|27[01]\d|2720)\d{12}|3[47]\d{13}|"
    r"3(?:0[0-5]|09|[689]\d)\d{11,16}|35\d{14,17}|(?:2131|1800)\d{11}|(?:0604|50|5[6-9]|6)\d{8,17}"
)


def is_card(text: str) -> bool:
    """Whether a card of a known network can have this number."""
    digits = re.sub(r"\D", "", text)
    return _CARDS.fullmatch(digits) is not None and len(set(digits)) > 1 and is_luhn_valid(digits)


def is_host_ip(text: str) -> bool:
    parts = [int(p) for p in text.split(".")]
    return all(p <= 255 for p in parts) and parts[0] not in (0, 127, 255) and text not in ("1.1.1.1", "8.8.8.8")


# Functions: an address that begins with one of these words is a mailbox, whatever follows ("refunds-uk@"). Users of
# machines ("deploy") count, too. None of these words is a usual name of a person.
_FUNCTION_WORDS = """
aanmelding aanmeldingen abuse accounting accounts accueil achats acquisti adherents adhesion admin administracion
administratie administration administrator admissions afdeling ajuda alerts alumni amministrazione anagrafe anfrage
anfragen ansible apoio appointments archivo asiakaspalvelu asiakastuki assistenza atencion atencioncliente atendimento
audit ayuda ayuntamiento azureuser backup balie benefits beschwerde beschwerden bestellung bestellungen bewerbung
bewerbungen biglietteria billing biuro boekhouding boekingen bogholderi bokforing booking bookings bounce bounces
boutique buchhaltung buero candidature candidatures career careers centos citas claims clientele clientes clienti
clients cobranca cobranzas cobros collections comercial commandes commercial commerciale communicatie communication
community complaints compliance compras compta comptabilite comune comunicacao comunicacion comunicazione concierge
consultas contabilidad contabilidade contabilita contabilitat controlling crediteuren crediteurenadministratie credito
creditors csirt customer customercare customers daemon data datenschutz debiteuren debiteurenbeheer debitoren debtors
delivery deploy deployment devis direcao direccion directie direction direktion direzione dispatch docker donations
donotreply dpo duvidas economato editorial ehs eingangsrechnung eingangsrechnungen einkauf einkaufsabteilung ekonomi
ekonomia emergency empfang employment encomendas engineering enquiries enquiry ethics etl events expenses facilities
facturacion facturas facturatie facturen factures factuur faktura fakturace fakturaer fakturering fakturor faktury
fatturazione fatture faturacao faturamento feedback finance financeiro fornitori forsaljning founders fournisseurs
fraud ftp gdpr gehaltsabrechnung gemeente geral gerencia gitlab grants hausverwaltung helpdesk hiring hostmaster
housing hr imap imprensa incidencias incident incidents informacion inkoop inkoopfacturen inkop innkjop inquiries
inschrijving inscricoes inscription inscriptions insurance interns internships investor investors invoice invoices
iscrizioni jenkins jobs jugendamt juridique kadry kanzlei karriere kirjanpito klachten klantenservice kontakt
kreditoren kreditorer ksiegowosc kundendienst kundenservice kundeservice kundtjanst laskut laskutus ledenadministratie
legal leveranciers leverandorer leverantorer library licensing lieferanten livraison logistica logistics
lohnbuchhaltung loonadministratie magasin magazijn magazzino mahnwesen mailer mailroom maintenance mairie marketing
matriculas media membership mitgliederservice monitoring myynti nagios newsletter noc nominas noreply notification
notifications obchod objednavky office oficina okonomi onboarding operations ops oracle orders ordini ouvidoria
pagamenti pagamentos paghe pagos paie palkanlaskenta palkat parking partners partnerships payable payables payment
payments payroll pedidos pension pensions permits personalabteilung personalwesen personeelszaken phishing pipeline
podatelna postgres postmaster poststelle praxis prenotazioni prensa presse privacidad privacy procurement production
protocollo proveedores proveeduria psirt purchasing qualidade quality quejas rathaus receivable receivables recepcao
recepcion receptie reception rechnung rechnungen rechnungseingang rechnungspruefung rechnungswesen recibos
reclamaciones reclamacoes reclamation reclamations reclami reclamos recouvrement recruiting recruitment recrutamento
recrutement recursoshumanos redactie redaktion refund refunds registrar registration registro registry regnskab
regnskap reklamace reklamation reklamationen rekrutacja rekrytointi relances renewals rentals reply research reservas
reservation reservations reservering reserveringen reservierung reservierungen reskontra returns risorseumane rma root
rrhh runner safety salarisadministratie sales salg salj scholarships secretaria secretariaat secretariat security
segreteria sekretariat service serviceaccount serviceclient servicedesk servicepunt services servicio servicios
shipping soc soporte sponsorship sprzedaz standesamt stellenangebote subscribe subscription subscriptions sugerencias
suporte suppliers support supporto svc svn sysadmin tax team technik tesoreria tesouraria ticket tickets tienda
tilaukset tourismus travel treasury tresorerie tributi turismo ubuntu ucetni uctarna ufficio ufficiostampa
underwriting unsubscribe urbanisme urbanismo vacatures vagrant vendas vendite vendor vendors ventas verkauf verkoop
vermietung versand versicherung vertrieb verwaltung volunteer volunteers vorstand warehouse warranty webhook webmaster
webshop wellness werkstatt whistleblower widerruf wynagrodzenia zahlungen zahlungsverkehr zamowienia zentrale
"""
# A function, too, if the address ends with one of these ("data.protection@").
_END_WORDS = """
abteilung account affairs aid billing center centre communications coordination department dept desk development
enquiries feedback group help helpdesk hotline inbox info inquiries mailbox management manager mobility notifications
office operations orders payable payments privacy protection receivable recruiting recruitment relations reply
reservations security service services shop support system team user
"""
# Words that are also names, or begin the address of a person: they count only alone and beside each other.
_SHARED_WORDS = """
ap apac ar bot care ci client cliente contact contacto correo dach dev developers email emea eu front general git
guest hallo hello help hg hi hola ict infos it jira latam leden list loja mail member no order patient pec pers
personal personale planning post press rdv return rh sac sav schule servizio shop smtp ssh stadt staff stampa store
student success talent tech ticketing training uk us usa welcome winkel zorg
"""
_FUNCTIONS, _ENDS = frozenset(_FUNCTION_WORDS.split()), frozenset(_END_WORDS.split())
_MAILBOX_WORDS = _FUNCTIONS | _ENDS | frozenset(_SHARED_WORDS.split())
_NO_WORD = re.compile(r"[\d._+-]+")
# German joins words: "studierendensekretariat". Christelle is a name.
_COMPOUND = re.compile(
    r"\w{3,}(?:sekretariat|verwaltung|abteilung|[ents]stelle|beratung|betreuung|anmeldung|service|zentrale|dienst|"
    r"administratie|buchhaltung|rechnung|rechnungen|facturen|fakturor|afdeling|avdelning|ekonomi|tjanst)"
)
# Persons have their mailboxes at these: "anna.info" is one.
_PRIVATE_PROVIDER = re.compile(
    r".*@(?:gmail|googlemail|gmx|yahoo|outlook|hotmail|live|icloud|aol|proton|protonmail|web|orange|libero|qq)\.[a-z.]+"
)


def _is_mailbox(address: str) -> bool:
    """Whether the words of an address (in lower case) are those of a function or of a machine's user."""
    local = address.partition("@")[0]
    parts = [part for part in _NO_WORD.split(local) if part]
    if address.endswith(".gserviceaccount.com"):
        return True
    if not parts:
        return False
    # "sales-de", and two words in one: "servicedesk".
    if parts[0] in _MAILBOX_WORDS and all(len(part) == 2 or part in _MAILBOX_WORDS for part in parts[1:]):
        return True
    if any(local.endswith(end) and local.removesuffix(end) in _MAILBOX_WORDS for end in _ENDS):
        return True
    is_function = parts[0] in _FUNCTIONS or (len(parts) > 1 and parts[-1] in _ENDS)
    is_function = is_function or _COMPOUND.fullmatch(parts[0]) is not None
    # Dots separate the names of persons, too: "vpn-admin" is a function, "maria.sales" may be a person.
    is_function = is_function or ("." not in local and "-" in local and parts[-1] in _FUNCTIONS)
    return is_function and _PRIVATE_PROVIDER.fullmatch(address) is None


# What stands for the reader's own address.
_FORM_ADDRESS = re.compile(
    r"(?i)(?:(?:your|my|dein|deine|ihr|ihre|votre|uw)(?:[._-]\w*|e?mail|name|address|adresse)?|(?:first|"
    r"last|sur|vor|nach|user|given|family)[._-]?name(?:[._-]?\w*name)?|"
    r"f(?:irst)?\.last(?:name)?|(?:first)?initial[._-]?(?:last|sur)(?:name)?|name|name\.surname|surname\.name|nom|nombre|nome|naam|prenom\.nom|nombre\.apellido|nome\.cognome|"
    r"nome\.sobrenome|voornaam\.achternaam|"
    r"user(?:name)?\d?|someone|somebody|anyone|person|example|test(?:er|user)?\d?|foo|bar|abc|xyz|x{2,}|"
    r"(?:max|erika)\.?mustermann|alias|address|recipient|sender)"
    r"@.*|.*@(?:.*\.)?(?:example\.[a-z.]+|(?:your[\w-]*|my-?(?:company|domain|site|firm|org|app))\.\w+|"
    r".+\.(?:example|test|invalid|localhost|local|png|jpe?g|gif|svg|webp|css|js|ts|py))"
)


def is_real_email(text: str) -> bool:
    """Whether an address can be a person's: no mailbox of a function, no form or example, no user of a machine."""
    return not _is_mailbox(text.lower()) and _FORM_ADDRESS.fullmatch(text) is None


def is_basic_login(text: str) -> bool:
    """Whether the text after "Basic" is a user and a password in base64 (RFC 7617)."""
    try:
        login = base64.b64decode(text.rsplit(maxsplit=1)[-1], validate=True).decode("utf-8")
    except ValueError:
        return False
    return ":" in login and login.isprintable() and is_no_example(login)


def is_wallet(text: str) -> bool:
    """Whether a wallet's address has the right check sum: Base58Check, as Bitcoin, Litecoin, Dogecoin and Tron have it,
    or Bitcoin's Bech32 (BIP 173)."""
    if text.lower().startswith("bc1"):
        return is_valid(text, "bitcoin")
    number = 0
    for char in text:
        number = number * 58 + _BASE58.index(char)
    payload = number.to_bytes(40, "big")[-25:]
    return hashlib.sha256(hashlib.sha256(payload[:-4]).digest()).digest()[:4] == payload[-4:]


_BASE58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"


_EXAMPLE = re.compile(
    r"(?i)your|example|changeme|change_me|placeholder|xxxx|\*\*\*|\.\.\.|<|redacted|dummy|sample|insert|"
    r"todo|\$\{|%\(|"
    r"\bnone\b|\bnull\b|\btrue\b|\bfalse\b|process\.env|os\.environ|getenv|secrets?\.|"
    r"test[_-]?(?:key|token)"
)
_SERIES = re.compile(r"(?i)\d*12345\d*|abcdef[a-z]*")


def is_no_example(text: str) -> bool:
    """Whether a value has no word of an example in it, and is more than a series such as "12345"."""
    return _EXAMPLE.search(text) is None and (_SERIES.search(text) is None or _is_drawn(_SERIES.sub("", text)))


def _is_drawn(rest: str) -> bool:
    """Whether what a series leaves of a value is long and random."""
    neighbours = sum(ord(b) - ord(a) == 1 for a, b in pairwise(rest.lower()))
    return len(rest) >= 20 and neighbours * 5 < len(rest) and any(map(str.isdigit, rest)) and _entropy(rest) >= 3.5


def is_random(text: str, bits: float) -> bool:
    """Whether the characters look randomly drawn: Shannon entropy of at least `bits` a character, no example."""
    return _entropy(text) >= bits and is_no_example(text)


def _entropy(text: str) -> float:
    return -sum(n / len(text) * math.log2(n / len(text)) for n in Counter(text).values())


def is_mixed(text: str, bits: float = 3.3) -> bool:
    """Some prefixes are words, too: "secret_manager_settings" has neither numbers nor both kinds of letters."""
    cases = any(c.isupper() for c in text) and any(c.islower() for c in text)
    return (cases or sum(c.isdigit() for c in text) >= 2) and is_random(text, bits)


_URL_LOGIN = re.compile(r"://(?P<user>[^:/@]*):(?P<password>[^@]*)@(?P<host>.*)")
# Passwords that images and manuals come with: "postgres", "mysecretpassword", "redispass".
_DEFAULT_PASSWORD = re.compile(
    r"(?i)(?:(?:my|super|db|database|app|dev|local|demo|test|root|toor|admin|user|guest|default|anonymous|postgres|"
    r"postgresql|pg|mysql|mariadb|mongo|mongodb|redis|rabbit|rabbitmq|minio|elastic|tiger|secret|pass|password|passwd|"
    r"passwort|pwd|pw)[-_]?){1,4}\d{0,3}"
)
_OWN_HOST = re.compile(r"(?i)localhost|127\.[\d.]+|0\.0\.0\.0|host\.docker\.internal")


def is_default_password(text: str) -> bool:
    """Whether a password is one that images and manuals come with."""
    return _DEFAULT_PASSWORD.fullmatch(text) is not None


def is_command_login(text: str) -> bool:
    """Whether an option `-u user:password` holds a password that is neither an example nor a default."""
    return is_no_example(text) and not is_default_password(text.partition(":")[2].rstrip(".,"))


def is_url_password(text: str) -> bool:
    """Whether a URL holds a password that is no placeholder, no default and not the name of the user. A plain word
    opens nothing on the reader's own machine."""
    login = _URL_LOGIN.search(text)
    if login is None or not is_no_example(text):
        return False
    password = login["password"]
    return (
        password.lower() != login["user"].lower()
        and not is_default_password(password)
        and not (password.isalpha() and _OWN_HOST.fullmatch(login["host"]))
    )


_NO_KEY_TEXT = re.compile(r"(?:\s|\\[nr])*(?:(?:[A-Z]?[a-z]{1,14}(?=[\s,.]|\Z)|your|YOUR|[xX.]{3})|[.,\s]*\Z)")


def has_key_text(text: str) -> bool:
    """Whether the line that begins a private key is followed by the key, not by words about it or a placeholder."""
    return _NO_KEY_TEXT.match(text.split("-----")[2]) is None


def is_telegram_token(text: str) -> bool:
    """Whether what follows the number of the bot is random."""
    return is_random(text.partition(":")[2], 3.5)


def is_slack_token(text: str) -> bool:
    """A real token holds the numbers of a workspace; "xoxb-my-bot-token" does not."""
    return any(c.isdigit() for c in text) and is_random(text, 2.5)


def is_slack_webhook(text: str) -> bool:
    """Whether the last part of a webhook's address is random: manuals show "T00000000/B00000000/XXXX…"."""
    return is_random(text.rsplit("/", 1)[-1], 2.5)
