"""The table of personal data that a label identifies: what people call it, the form of its value, its check digits.

The labels are those of English, German, French, Spanish, Italian, Portuguese and Dutch, and each country's own.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LabelRow:
    """Labels, and the form of the value beside one of them."""

    kind: str
    labels: str
    """Separated by ";". Blanks stand for any separators. A label in capitals is an acronym: it has to be in capitals.
    Others may be compounds with "number", "no" and the like."""
    value: str
    """A pattern of the value, case-sensitive."""
    checks: str = ""
    """Modules of python-stdnum, separated by blanks: one of them has to accept the value. Empty: no check digit."""
    digits: int = 4
    """Digits that the value has at least."""


def _digits(least: int, most: int | None = None) -> str:
    """A pattern of so many digits, with single separators between them."""
    return rf"\d(?:[ .\-/]?\d){{{least - 1},{(most or least) - 1}}}"


_CODE = r"(?!\d{4}-\d\d-\d\d)(?=[A-Z\d-]*\d)[A-Z]{0,3} ?\d[A-Z\d]{2,}(?:-[A-Z\d]+){0,4}"
_PASSPORT = r"[A-Z]{1,3} ?\d{6,9}|\d{8,10}|\d{2} \d{2} \d{6}|\d{4} \d{6}|(?=(?:[A-Z]*\d){2})(?=\d*[A-Z])[A-Z\d]{8,10}"
_LICENCE = (
    r"[A-Z]{1,2}\d{3}(?:[- ]\d{1,5}){2,5}|\d{3} \d{3} \d{3}|"
    r"[A-Z]{1,5} ?\d{5,14}[A-Z\d]{0,7}|(?=(?:[A-Z]*\d){3})[A-Z\d]{8,18}"
)
_NINO = r"[A-CEGHJ-PR-TW-Z][A-CEGHJ-NPR-TW-Z] ?\d\d ?\d\d ?\d\d ?[A-D]"
_MONTH = (
    r"(?:[Jj]an|[Ff]e[bv]|[Ff]év|[Mm]ar|[Mm]är|[Mm]rt|[Mm]aa|[Aa]p[rt]|[Aa]br|[Aa]vr|[Mm]a[iyjg]|[Mm]ei|"
    r"[Jj]u[nlií]|[Gg]iu|[Ll]ug|"
    r"[Aa]ug|[Aa]oû|[Aa]go|[Ss]e[pt]|[Oo][ckt]t|[Oo]ut|[Nn]o[vi]|[Dd][eéi][czs]|[Ee]ne|[Gg]en)[^\W\d_]{0,8}\.?"
)
YEAR = r"(?:19[2-9]\d|20[0-3]\d)"
DATE = (
    rf"\d{{1,2}}(?P<mark>[./-]) ?\d{{1,2}}(?P=mark) ?(?:{YEAR}|\d\d)|{YEAR}[./-]\d{{1,2}}[./-]\d{{1,2}}|"
    rf"\d{{1,2}}(?:st|nd|rd|th|er|[.º])?(?: (?:of|de|di))?[ -]{_MONTH}(?: de)?,?[ -]{YEAR}|"
    rf"{_MONTH} \d{{1,2}}(?:st|nd|rd|th)?,? {YEAR}|{YEAR} ?年 ?\d{{1,2}} ?月 ?\d{{1,2}} ?日"
)

BIRTH_LABELS = (
    "date of birth; birth date; birthdate; birthday; DOB; dob; D.O.B; geburtsdatum; geburtstag; geb. am; geb.; GEB; "
    "date de naissance; fecha de nacimiento; fecha de nac; f. nacimiento; "
    "data di nascita; data de nascimento; geboortedatum; "
    "geboortedag; födelsedatum; data urodzenia; дата рождения; 出生日期; 出生年月日; 生年月日; 생년월일"
)


def _ids(labels: str, value: str, checks: str = "", digits: int = 4) -> LabelRow:
    return LabelRow("national_id", labels, value, checks, digits)


_AMERICA = (
    LabelRow(
        "us_ssn",
        "SSN; SS#; SS no.; SS number; social security; social security no.",
        r"\d{3}[- ]?\d\d[- ]?\d{4}",
        "us.ssn",
    ),
    _ids(
        "ITIN; ATIN; PTIN; individual taxpayer identification",
        r"\d{3}[- ]?\d\d[- ]?\d{4}|P\d{8}",
        "us.itin us.atin us.ptin",
    ),
    _ids("EIN; FEIN; employer identification; employer id", r"\d\d-?\d{7}", "us.ein"),
    _ids(
        "TIN; tax id; tax identification; taxpayer id; taxpayer identification; tax file; tax reference", _digits(8, 13)
    ),
    _ids(
        "medicare; medicare beneficiary; MBI",
        r"\d[A-Z][A-Z\d]\d-?[A-Z][A-Z\d]\d-?[A-Z]{2}\d\d|\d{4} ?\d{5} ?\d(?: ?\d)?",
    ),
    _ids("SIN; NAS; social insurance; assurance sociale", _digits(9), "luhn ca.sin"),
    _ids("CPF; cadastro de pessoas físicas", r"\d{3}\.?\d{3}\.?\d{3}[-/]?\d\d", "br.cpf"),
    _ids("RG; registro geral", r"\d{1,2}\.?\d{3}\.?\d{3}-?[\dX]"),
    _ids("PIS; PASEP; NIT; título de eleitor; título eleitoral", _digits(11, 12)),
    _ids("CURP", r"[A-Z]{4}\d{6}[HM][A-Z]{5}[A-Z\d]\d", "mx.curp"),
    _ids("RFC; registro federal de contribuyentes", r"[A-ZÑ&]{4}-?\d{6}-?[A-Z\d]{3}", "mx.rfc"),
    _ids("CUIT; CUIL", r"\d\d-?\d{8}-?\d", "ar.cuit"),
    _ids("RUT; RUN; rol único tributario", r"\d{1,2}\.?\d{3}\.?\d{3}-?[\dKk]", "cl.rut"),
    _ids(
        "cédula; cédula de ciudadanía; cédula de identidad; c.c.",
        r"\d{1,3}(?:\.?\d{3}){2,3}|\d{3}-\d{7}-\d|[VE]-?\d{7,8}",
        digits=6,
    ),
)
_EUROPE = (
    _ids("national insurance; NINO; NI number; NI no; N.I. number", _NINO),
    _ids("NHS", _digits(10), "gb.nhs"),
    _ids("UTR; unique taxpayer reference", _digits(10), "gb.utr"),
    _ids("PPS; PPSN; personal public service", r"\d{7}[A-W][A-IW]?", "ie.pps"),
    _ids(
        "steuer id; steueridentifikations; steuerliche identifikations; steuerident; steuer ident; IdNr; "
        "identifikations; TIN",
        _digits(11),
        "de.idnr",
    ),
    _ids("steuer; st. nr.; steuernr", r"\d{2,3}[ /]\d{3,4}[ /]\d{4,5}|\d{13}"),
    _ids(
        "personalausweis; ausweis; perso; ausweis nr.",
        r"(?=(?:[A-Z]*\d){3})[CFGHJKLMNPRTVWXYZ\d]{9}\d?|\d{10}",
        digits=3,
    ),
    _ids(
        "sozialversicherungs; rentenversicherungs; versicherungs; SVNR; RVNR; SV nummer; SV nr",
        r"\d\d ?\d{6} ?[A-Z] ?\d{3}",
    ),
    _ids("sozialversicherungs; SVNR; SV nummer; SV nr", r"\d{4} ?\d{6}", "at.vnr"),
    _ids("AHV; AVS; sozialversicherungs", r"756\.?\d{4}\.?\d{4}\.?\d\d", "ch.ssn"),
    _ids(
        "sécurité sociale; securite sociale; numéro de sécu; n° de sécu; NIR; INSEE",
        r"[12] ?\d\d ?\d\d ?(?:\d\d|2[AB]) ?\d{3} ?\d{3} ?\d\d",
        "fr.nir",
    ),
    _ids("numéro fiscal; SPI; NIF", _digits(13), "fr.nif"),
    _ids("carte d'identité; carte nationale d'identité; CNI", r"\d{12}|(?=(?:[A-Z]*\d){3})[A-Z\d]{9}"),
    _ids(
        "DNI; NIF; documento nacional de identidad; documento de identidad; documento",
        r"\d{2}\.?\d{3}\.?\d{3}[- ]?[A-Z]",
        "es.dni",
    ),
    _ids(
        "NIE; TIE; DNI; NIF; documento; documento de identidad; número de identidad de extranjero",
        r"[XYZ][- ]?\d{7}[- ]?[A-Z]",
        "es.nie",
    ),
    _ids(
        "seguridad social; NUSS; NSS; NASS; NAF; número de afiliación; segurança social; NISS",
        r"\d{2}[ /-]?\d{7,8}[ /-]?\d\d|\d{11}",
    ),
    _ids("codice fiscale; CF; c.f.", r"[A-Z]{6}\d\d[A-Z]\d\d[A-Z]\d{3}[A-Z]", "it.codicefiscale"),
    _ids(
        "carta d'identità; carta di identità; carta d'identità elettronica; CIE",
        r"[A-Z]{2} ?\d{5} ?[A-Z]{2}|[A-Z]{2} ?\d{7}|\d{7}[A-Z]{2}",
    ),
    _ids("NIF; contribuinte; número de contribuinte", r"[1-9]\d{2} ?\d{3} ?\d{3}", "pt.nif"),
    _ids("cartão de cidadão; bilhete de identidade", r"\d{8} ?\d ?[A-Z\d]{2} ?\d|\d{8}"),
    _ids("BSN; burgerservice; sofi", _digits(9), "nl.bsn"),
    _ids("identiteitskaart; identiteitsbewijs; ID kaart", r"[A-Z]{2}[A-Z\d]{6}\d|\d{3}-?\d{7}-?\d\d"),
    _ids(
        "rijksregister; registre national; numéro national; NISS; INSZ; numéro de registre national",
        r"\d\d[. ]?\d\d[. ]?\d\d[- ]?\d{3}[. ]?\d\d",
        "be.nn be.bis",
    ),
    _ids(
        "personnummer; personnumret; personnummeret; samordningsnummer; samordningsnumret; personal identity; "
        "fødselsnummer; fødselsnummeret; fodselsnummer; fødsels; d nummer",
        r"(?:19|20)?\d{6}[-+ ]?\d{4,5}",
        "se.personnummer no.fodselsnummer",
    ),
    _ids("CPR; cpr nr; cpr nummeret; personnummer; personnummeret", r"\d{6}[- ]?\d{4}", "dk.cpr"),
    _ids(
        "henkilötunnus; henkilötunnuksen; henkilötunnuksesi; henkilötunnuksensa; HETU; hetu",
        r"\d{6}[-+A-FU-Y]\d{3}[\dA-Y]",
        "fi.hetu",
    ),
    _ids("kennitala", r"\d{6}-?\d{4}", "is_.kennitala"),
    _ids("PESEL; pesel; peselu; peselem", r"\d{11}", "pl.pesel"),
    _ids("dowód; dowodu; dowód osobisty; dowodu osobistego", r"[A-Z]{3} ?\d{6}"),
    _ids("NIP", r"\d{3}-?\d{3}-?\d\d-?\d\d", "pl.nip"),
    _ids("rodné číslo; rodné č.; RČ; r.č.", r"\d{6}/?\d{3,4}", "cz.rc sk.rc"),
    _ids("CNP; cod numeric personal", r"\d{13}", "ro.cnp"),
    _ids(
        "егн; EGN; OIB; oib; emšo; EMŠO; JMBG; isikukood; personas kods; asmens kodas",
        r"\d{10,13}|\d{6}-\d{5}",
        "bg.egn hr.oib si.emso ee.ik lv.pk lt.asmens",
    ),
    _ids("αμκα; AMKA; αφμ; AFM", _digits(9, 11), "gr.amka gr.vat"),
    _ids("инн; INN; рнокпп; РНОКПП", r"\d{10}|\d{12}", "ru.inn ua.rntrc"),
    _ids("снилс; SNILS", r"\d{3}-\d{3}-\d{3}[ -]\d\d|\d{11}"),
    _ids("kimlik; T.C. kimlik; TCKN; kimlik numarası; kimlik no", r"[1-9]\d{10}", "tr.tckimlik"),
)
_ASIA = (
    _ids("aadhaar; aadhar; UIDAI; आधार", r"\d{4}[ -]?\d{4}[ -]?\d{4}", "in_.aadhaar"),
    _ids("PAN; permanent account; pan card", r"[A-Z]{5}\d{4}[A-Z]", "in_.pan"),
    _ids("EPIC; voter id; voter", r"[A-Z]{3}\d{7}", "in_.epic"),
    _ids(
        "身份证号码; 身份证号; 身份证; 身份證; 公民身份号码; chinese id; resident identity card; RIC",
        r"[1-9]\d{5}(?:19|20)\d{9}[\dX]",
        "iso7064.mod_11_2",
    ),
    # Since 2020 the last digit of a new number is drawn by lot, so its check digit says nothing.
    _ids(
        "주민등록번호; 주민번호; RRN; resident registration; korean id",
        r"\d\d(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])-?[1-8]\d{6}",
    ),
    _ids("マイナンバー; 個人番号; my number", r"\d{4}[ -]?\d{4}[ -]?\d{4}", "jp.in_"),
    _ids("身分證; 身分證字號; 統一證號; national id; taiwan id", r"[A-Z][12]\d{8}"),
    _ids(
        "HKID; hkid; 身份證; hong kong identity card; hong kong id", r"[A-Z]{1,2}\d{6} ?\([\dA]\)|[A-Z]{1,2}\d{6}[\dA]"
    ),
    _ids("NRIC; nric/fin; FIN; national registration identity card", r"[STFGM]\d{7}[A-Z]"),
    _ids("NRIC; mykad; MyKad; IC number; IC no; kad pengenalan", r"\d{6}-?\d\d-?\d{4}", "my.nric"),
    _ids("NIK; KTP; nomor induk kependudukan", r"\d{16}"),
    _ids("เลขประจำตัวประชาชน; thai national id; thai id", _digits(13), "th.pin"),
    _ids("CNIC; NADRA", r"\d{5}-?\d{7}-?\d", "pk.cnic"),
    _ids("teudat zehut; תעודת זהות; israeli id; mispar zehut", r"\d{8,9}", "il.idnr"),
    _ids("emirates id", r"784-?\d{4}-?\d{7}-?\d"),
    _ids("TFN; tax file", _digits(8, 9), "au.tfn"),
    _ids("IRD; inland revenue", _digits(8, 9), "nz.ird"),
    # A date of birth and a check digit: the plain words "ID number" are enough.
    _ids(
        "south african id; sa id; RSA ID; RICA; identity number; id number; id no.; identity document; id document; "
        "id nommer; identiteitsnommer",
        r"\d{6} ?\d{4} ?\d{3}",
        "za.idnr",
    ),
    _ids(
        "her id; his id; my id; their id; personal id; personal identification; national id; "
        "national identity; national identification; national identity card; identity card; id card; "
        "identity document; citizen id; DNI; documento de identidad; cédula; identity number; NIN",
        rf"{_CODE}|{_digits(7, 14)}",
        digits=6,
    ),
)

_DOCUMENTS = (
    LabelRow(
        "passport",
        "passport; reisepass; pass nr.; pass nr; pass nummer; passeport; pasaporte; passaporto; passaporte; "
        "paspoort; "
        "paszport; паспорт; 护照; 护照号码; 護照; パスポート; パスポート番号; 여권",
        _PASSPORT,
        digits=2,
    ),
    LabelRow(
        "drivers_license",
        "driver's license; driver's licence; drivers license; drivers licence; driver license; "
        "driver licence; "
        "driving license; driving licence; driving permit; DL; D.L.; DLN; führerschein; fahrerlaubnis; "
        "permis de conduire; permis n°; licencia de conducir; "
        "licencia de conducción; permiso de conducir; permiso de conducción; carnet de conducir; "
        "carné de conducir; "
        "patente di guida; patente; carteira de motorista; carteira de habilitação; CNH; carta de condução; "
        "rijbewijs; "
        "prawo jazdy; prawa jazdy; körkort; 驾驶证; 驾照; 運転免許証",
        _LICENCE,
        digits=3,
    ),
    LabelRow(
        "vin",
        "VIN; vehicle identification; chassis; chassis no.; fahrzeug ident; fahrgestell; FIN; FIN nummer; "
        "numéro de série; numéro de châssis; "
        "bastidor; número de bastidor; telaio; numero di telaio; chassi; número do chassi; chassisnummer",
        r"[A-HJ-NPR-Z\d]{17}",
    ),
    LabelRow(
        "license_plate",
        "license plate; licence plate; number plate; plate number; plate no.; vehicle registration; "
        "registration plate; reg. no.; car registration; "
        "kennzeichen; kfz kennzeichen; nummernschild; immatriculation; immatriculé; immatriculée; "
        "plaque d'immatriculation; plaque; "
        "matrícula; targa; targata; "
        "kenteken; chapa de matrícula; 车牌; 车牌号; halter des wagens",
        r"[A-Z]{2,3}-\d\d-(?:\d\d|[A-Z]{2,3})|[A-ZÄÖÜ]{1,3}[- ·]?[A-Z]{1,2}[- ]?\d{1,4}[EH]?|"
        r"[A-Z]{1,3}[- ]?\d{1,4}[- ]?[A-Z]{1,3}|\d{1,4}[- ]?[A-Z]{2,3}[- ]?\d{0,4}|"
        r"[A-Z]{2}\d\d ?[A-Z]{3}|[A-Z]{3}[- ]?\d{3,4}|\d{2}-[A-Z]{2,3}-\d{1,2}|"
        r"[京沪粤津渝冀豫云辽黑湘皖鲁新苏浙赣鄂桂甘晋蒙陕吉闽贵青藏川宁琼][A-Z][A-Z\d]{5}",
        digits=1,
    ),
    LabelRow(
        "license_plate",
        "placa; placas; patente",
        r"[A-Z]{3}-?\d{4}|[A-Z]{3}-?\d[A-Z]\d\d|[A-Z]{3}-\d{3}|[A-Z]{2}-?\d{3}-?[A-Z]{2}|"
        r"[A-Z]{2}-\d\d-[A-Z]{2}",
        digits=2,
    ),
    LabelRow("license_plate", "registration number; reg; reg.; reg no; rego", r"[A-Z]{2}\d\d ?[A-Z]{3}", digits=2),
    LabelRow("imei", "IMEI; imei; MEID", r"\d{2}[- ]?\d{6}[- ]?\d{6}[- ]?\d(?:[- ]?\d\d)?", "imei"),
)
_HEALTH = (
    LabelRow(
        "medical_record",
        "MRN; medical record; medical record no.; patient id; patient no.; patient number; "
        "patient identifier; patient file; hospital number; hospital no.; chart number; "
        "health insurance; health card; health plan; medicaid; insurance member id; krankenversicherung; "
        "krankenversicherungs; krankenversicherten; krankenkassen; versicherten; KVNR; "
        "patienten; patienten id; fallnummer patient; numéro de patient; numéro patient; dossier médical; "
        "dossier patient; IPP; mutuelle; "
        "historia clínica; NHC; N.H.C.; tarjeta sanitaria; CIPA; cartella clinica; tessera sanitaria; "
        "prontuário; cartão sus; CNS; número de utente; utente; patiënt; patiëntnummer; zorgverzekerings; "
        "zorgpolis; 病历号; 病歷號; 医保号",
        r"(?!\d{4}-\d\d-\d\d)(?:[A-Z]{1,4}[ -]?)?\d(?:[- ]?\d){4,17}(?:-?[A-Z\d]{1,3})?",
        digits=5,
    ),
)
_BANKS = (
    LabelRow(
        "bank_account",
        "bank account; account no.; account number; account #; acct; acct. no.; acct no; a/c no; a/c; "
        "kontonummer; konto nr.; konto nr; kto; kto nr.; bankkonto; konto; "
        "numéro de compte; compte bancaire; cuenta bancaria; número de cuenta; cuenta corriente; CLABE; CBU; "
        "CVU; conto corrente; "
        "numero di conto; conta corrente; conta bancária; número da conta; rekening; bankrekening; 银行账号; "
        "银行卡号; 账号; 口座番号; 계좌번호",
        r"\d(?:[ -]?\d){5,21}",
        digits=6,
    ),
    LabelRow("bank_account", "cuenta", r"\d{4}[ -]?\d{4}[ -]?\d\d[ -]?\d{10}"),
    LabelRow(
        "bank_account",
        "sort code; sort code no.; BLZ; bankleitzahl; BSB",
        r"\d\d[- ]?\d\d[- ]?\d\d(?:\d\d)?|\d{3}-\d{3}|\d{3} \d{3} \d\d",
        digits=6,
    ),
    LabelRow(
        "bank_routing", "routing; routing transit; ABA; RTN; ABA routing; transit number", r"\d{4}-?\d{4}-?\d", "us.rtn"
    ),
    LabelRow(
        "bank_routing",
        "BIC; SWIFT; SWIFT/BIC; BIC/SWIFT; swift code; bic code; swift bic",
        r"[A-Z]{6}[A-Z\d]{2}(?:[A-Z\d]{3})?",
        "bic",
        digits=0,
    ),
)

LABEL_ROWS = (
    *_AMERICA,
    *_EUROPE,
    *_ASIA,
    *_DOCUMENTS,
    *_HEALTH,
    *_BANKS,
    LabelRow("date_of_birth", BIRTH_LABELS, DATE),
)
