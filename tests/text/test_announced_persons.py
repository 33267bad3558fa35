"""Numbers and homes of persons in longer phrases, and numbers of firms, programs and parcels."""

from __future__ import annotations

import pytest

from ragtrace.settings import PHONE_REGIONS
from ragtrace.text.privacy.find import find_personal_data
from tests.text.leaks import is_masked


@pytest.mark.parametrize(
    ("text", "item"),
    [
        # phones
        ("Tel. particular de Ana Prats: 612 488 903", "612 488 903"),
        ("Ask Herr Kolb at the Zentrale, Durchwahl 0711 5329174", "0711 5329174"),
        ("Adres: mevrouw Smit, Kerklaan 5, 1012 AB Amsterdam", "Kerklaan 5, 1012 AB Amsterdam"),
        ("El móvil del nuevo inquilino del segundo piso es 687 304 912.", "687 304 912"),
        ("El teléfono de la hija de la paciente es 612 488 903.", "612 488 903"),
        ("Le téléphone personnel de la fille de Madame Roche est 06 41 22 90 87.", "06 41 22 90 87"),
        ("Il telefono privato della signora Ricci è 347 5528190.", "347 5528190"),
        ("O telemóvel da vizinha do terceiro andar é 912 345 678.", "912 345 678"),
        ("Telefonnumret till Annika Berg är 073-915 22 48.", "073-915 22 48"),
        ("Telefonnummeret til Lars Holm er 51 22 88 40.", "51 22 88 40"),
        ("Telefon do pani Nowak to 607 221 953.", "607 221 953"),
        ("Puhelin: 040 5528190", "040 5528190"),
        # social security numbers beside the names of forms
        ("His SSN on form W-2 is 512449087.", "512449087"),
        ("The SSN on the 1099-MISC reads 512-44-9087.", "512-44-9087"),
        ("SS# 512449087", "512449087"),
        ("The social security number printed on her W2 is 512449087.", "512449087"),
        ("SS number: 512-44-9087", "512-44-9087"),
        ("The SSN from her 1040 form is 512449087.", "512449087"),
        # definite forms of labels
        ("Personnumret är 19810412-2331.", "19810412-2331"),
        ("Personnumret till Annika är 810412-2331.", "810412-2331"),
        ("Fødselsnummeret er 01010750160.", "01010750160"),
        ("CPR-nummeret er 070761-4285.", "070761-4285"),
        ("Henkilötunnuksesi on 131052-308T.", "131052-308T"),
        ("Peselu: 02070803628", "02070803628"),
        # South African ids
        ("ID number 8609230814089 is on the lease.", "8609230814089"),
        ("Her ID no. is 8609230814089.", "8609230814089"),
        ("RICA: 8609230814089", "8609230814089"),
        ("Identity number: 8609230814089", "8609230814089"),
        ("ID nommer 860923 0814 089", "860923 0814 089"),
        ("The tenant (ID number 8609230814089) paid.", "8609230814089"),
        # homes
        ("Die Privatanschrift von Frau Elke Uhl lautet Ahornweg 4, 04109 Leipzig.", "Ahornweg 4, 04109 Leipzig"),
        ("Wohnanschrift des Mieters: Lindenstraße 12, 10969 Berlin", "Lindenstraße 12, 10969 Berlin"),
        (
            "Het pakket is afgeleverd bij Joost Vermeer, Dorpsstraat 8, 3511 AB Breda.",
            "Dorpsstraat 8, 3511 AB Breda",
        ),
        ("Het privéadres van mevrouw Smit is Kerklaan 5, 1012 AB Amsterdam.", "Kerklaan 5, 1012 AB Amsterdam"),
        ("Das Paket wurde zugestellt an Frau Uhl, Ahornweg 4, 04109 Leipzig.", "Ahornweg 4, 04109 Leipzig"),
        ("It was delivered to Nora Hale, 14 Elm Street, Springfield.", "14 Elm Street, Springfield"),
        ("Het woonadres is Beukenlaan 31, 5611 GL Eindhoven.", "Beukenlaan 31, 5611 GL Eindhoven"),
        ("Geliefert an Peter Kolb, Moorgasse 9, 80331 München.", "Moorgasse 9, 80331 München"),
        # what is beside words of firms
        ("Frau Uhl aus der Zentrale: Handy 0171 5528190", "0171 5528190"),
        ("Call the reception and ask Nora Hale: 030 22446688", "030 22446688"),
        ("Phone 206.555.0123", "206.555.0123"),
        ("+41.44.668.18.00", "+41.44.668.18.00"),
        ("06.12.34.56.78", "06.12.34.56.78"),
        ("The customer service has her number: mobile 0171 5528190", "0171 5528190"),
        ("Tracking stopped. Call 030 22446688.", "030 22446688"),
        ("For parcel questions phone Nora on 030 22446688", "030 22446688"),
        ("Write to maria.pagos@acme.io", "maria.pagos@acme.io"),
        ("Write to nora.kreditor@acme.io", "nora.kreditor@acme.io"),
        ("Her passport number is C01X00T47 and the patient id number 5588123.", "C01X00T47"),
    ],
)
def test_what_belongs_to_a_person_is_found_and_masked(text: str, item: str) -> None:
    """The value is reported, and the mask hides all of it."""
    start = text.index(item)
    end = start + len(item)
    assert any(match.start <= start and end <= match.end for match in find_personal_data(text, PHONE_REGIONS))
    assert is_masked(text, item)


@pytest.mark.parametrize(
    "text",
    [
        # versions
        "Firefox/128.0.6301.88",
        "Edge/126.0.2592.87 is out",
        "Build 22.0.3155.41 of the driver",
        "AppleWebKit/537.36.6301.88",
        "Opera 112.0.5197.53",
        "Chromium version 124.0.6367.207",
        "Mozilla/5.0 Chrome/131.0.6778.205 Safari/537.36",
        # parcels
        "UPS 1Z 204 E38 01 2345 6784",
        "Sendungsnummer 0150 5094 123 456",
        "Numéro de suivi : 06 12 34 56 78",
        "Número de seguimiento 612 488 903",
        "Spårningsnummer: 073 915 22 48",
        "Numer przesyłki 0607 221 953",
        "Zendingnummer 0612 349 876",
        "Tracking number 1Z 5R8 970 03 4471 2290",
        # mailboxes
        "crediteuren@acme.nl",
        "debiteuren@acme.nl",
        "kreditoren@acme.de",
        "tesoreria@acme.es",
        "pagamenti@acme.it",
        "ekonomi@acme.se",
        "regnskab@acme.dk",
        "regnskap@acme.no",
        "laskutus@acme.fi",
        "fakturace@acme.cz",
        "ksiegowosc@acme.pl",
        "rechnungspruefung@acme.de",
        "fournisseurs@acme.fr",
        "salarisadministratie@acme.nl",
        "leverantorsfakturor@acme.se",
        "asiakaspalvelu@acme.fi",
        # switchboards
        "Servicehotline: 0711 5329174",
        "Växeln har nummer 08-508 270 00.",
        "Die Telefonzentrale erreichen Sie unter 030 22446688.",
        "Le standard est joignable au 01 44 55 66 77.",
        "La centralita atiende en el 912 345 678.",
        "Il centralino risponde allo 06 4470 1234.",
        "Omstillingen har telefon 33 95 12 00.",
        "Sentralbordet har nummer 22 41 50 00.",
        "Vaihde: 09 4711 2000",
        "Centrala: 22 694 50 00",
        "Telefooncentrale: 020 624 1111",
        "Our switchboard is 020 7946 0958.",
        "Der Kundendienst ist unter 0711 5329174 erreichbar.",
        # social security numbers beside the names of forms
        "The SSN field is on form W-2.",
        "The W-2 lists box 12 and 512449087 units.",
        "The SSN has 9 digits.",
        "The SSN 1099 form is due 2024.",
        # South African ids
        "Order ID number 8609230814086",
        "The ID number 1234567890123 is invalid.",
        "ID number formats have 13 digits.",
        "Invoice id 4500613982",
        # homes
        "Geliefert an Müller GmbH, Industriestraße 9, 80331 München.",
        "Het pakket is bezorgd bij Apotheek Zuid, Kerklaan 5, 1012 AB Amsterdam.",
        "Das Paket wurde zugestellt an das Bürgerbüro, Rathausplatz 1, 36037 Fulda.",
        "Sent to the warehouse, 14 Elm Street.",
        "Die Anschrift der Firma lautet Moorgasse 9, 80331 München.",
        "Delivered to Acme Store, 14 Elm Street, Springfield.",
    ],
)
def test_what_belongs_to_a_firm_or_a_program_is_not_reported(text: str) -> None:
    """Versions, parcels, mailboxes of accounting, switchboards and addresses of firms."""
    assert find_personal_data(text, PHONE_REGIONS) == []
