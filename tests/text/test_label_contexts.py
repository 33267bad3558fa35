"""Mailboxes of functions, what is beside a label without being its number, and numbers for tests: they are not
reported, persons' data beside them is, and masks hide both."""

from __future__ import annotations

import pytest

from ragtrace.text.privacy.find import find_personal_data
from ragtrace.text.redaction import mask_pii


def _kinds(text: str) -> list[str]:
    return [match.kind for match in find_personal_data(text)]


@pytest.mark.parametrize(
    "local",
    [
        "payroll",
        "events2026",
        "refunds-uk",
        "press.office",
        "payroll.munich",
        "claims.department",
        "data.protection",
        "servicedesk",
        "hrteam",
        "atencion.cliente",
        "lohnbuchhaltung",
        "comptabilite",
        "ec2-user",
        "svc-build",
        "vpn-admin",
    ],
)
def test_mailboxes_of_functions_are_not_reported_but_masked(local: str) -> None:
    """A word of a function begins the address, ends it, or makes it up; masks hide every address."""
    text = f"Write to {local}@acme.io."
    assert _kinds(text) == []
    assert mask_pii(text) == "Write to [email]."


@pytest.mark.parametrize(
    "address",
    [
        "dev.patel@acme.io",
        "success.okafor@acme.io",
        "maria.sales@acme.io",
        "peter.post@acme.io",
        "h.list@acme.io",
        "mail.anna@acme.io",
        "hope.grant-ext@acme.io",
        "clara.info@gmail.com",
        "sales.johnson@outlook.com",
    ],
)
def test_persons_whose_names_are_such_words_are_reported(address: str) -> None:
    """Names that are also words of functions, and private mailboxes at providers."""
    assert _kinds(f"Write to {address}.") == ["email"]


def test_an_account_of_a_service_is_no_person() -> None:
    """Whatever its name, an account of a cloud project has no person behind it."""
    assert _kinds("Grant it to pump-loader@plant-7.iam.gserviceaccount.com.") == []


@pytest.mark.parametrize(
    "text",
    [
        "The bank account was closed on 15-03-2023.",
        "A bank account that was opened in 2022-2023 pays a bonus.",
        "The tax ID is due by 01/07/2025.",
        "The patient ID was assigned on 03-04-2024.",
        "Das Konto wird am 2024-11-30 geschlossen.",
        "The health plan has a deductible of 12000.",
        "Health insurance has 880000 members in the state.",
        "Die Krankenkassen haben 73000000 Versicherte.",
        "The bank account balance is 7654321.",
        "The holder of the bank account paid 500000.",
        "Medicaid spent 734000000 in that year.",
        "Kennzeichen nach DIN 1451 sind Pflicht.",
        "The license plate camera runs YOLO 11.",
        "A number plate costs 25 GBP.",
        "The brand's birthday: launched on 12.09.2001",
        "The tax ID of the company is 94-1234567.",
        "The company's tax ID: 94-1234567",
        "The SWIFT CUSTOMER portal is down.",
    ],
)
def test_dates_amounts_and_words_beside_a_label_are_not_its_number(text: str) -> None:
    """Days and spans of years, sums and counts, standards and products, what is a company's."""
    assert _kinds(text) == []


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("Her bank account at Lloyds: 48201937", "bank_account"),
        ("Her bank account with Lloyds is 48201937.", "bank_account"),
        ("Her bank account, 48201937, was emptied.", "bank_account"),
        ("Her bank account at Lloyds Bank 48201937 was closed.", "bank_account"),
        ("The bank account I use is still 48201937.", "bank_account"),
        ("Su cuenta bancaria es la 7730021984.", "bank_account"),
        ("Health plan member 448120937", "medical_record"),
        ("Konto 7730021984 gehört Frau Ahrens.", "bank_account"),
        ("48201937 is her bank account.", "bank_account"),
        ("Sort code 12-11-20 is his.", "bank_account"),
        ("His health plan number is 448120937.", "medical_record"),
        ("Krankenversicherung Nr. M448120937", "medical_record"),
        ("Medical record 4481209 shows an allergy.", "medical_record"),
        ("The patient number changed from 4481209.", "medical_record"),
        ("Kennzeichen: DIN-KA 812", "license_plate"),
        ("Das Auto mit dem Kennzeichen HH-KL 2094 steht dort.", "license_plate"),
        ("A white van, license plate KDR 4421, fled.", "license_plate"),
        ("Her national insurance number at the company is AB 12 34 56 C.", "national_id"),
        ("Ann's birthday, the company says, is 3 May 1991.", "date_of_birth"),
        ("Ann's birthday is 12.09.1991.", "date_of_birth"),
        ("Her tax ID is 48 392 017 465.", "national_id"),
        ("SWIFT: NWBKGB2L", "bank_routing"),
        ("BIC DEUTDEFF", "bank_routing"),
    ],
)
def test_the_number_of_what_a_label_names_is_reported(text: str, kind: str) -> None:
    """With "is", a colon, "number", or nothing between the label and its number."""
    assert _kinds(text) == [kind]


def test_the_number_behind_a_date_is_found() -> None:
    """A date between a label and its number is passed over."""
    text = "Her bank account, opened on 15-03-2023, is 7730021984."
    assert [text[match.start : match.end] for match in find_personal_data(text)] == ["7730021984"]


@pytest.mark.parametrize("text", ["bank accounts 48201937 and 48201938", "license plates KDR 442 and KDR 443"])
def test_all_numbers_of_a_list_are_found(text: str) -> None:
    """What a label names in the plural has several numbers."""
    assert len(_kinds(text)) == 2


@pytest.mark.parametrize(
    "text",
    [
        "In the sandbox, 5105 1051 0510 5100 is always accepted.",
        "Pay with the test card 6011 1111 1111 1117.",
        "4000 0000 0000 9995 is a test card that is declined.",
        "Use the demo card number 5555 5555 5555 4444.",
        "For testing, pay with 5200 8282 8282 8210.",
        "The provider's test card number is 4000 0566 5566 5556.",
        "Card numbers, e.g. 3714 496353 98431, are checked.",
        "Eine Kartennummer, z. B. 4539 7877 8932 8790, hat 16 Stellen.",
        "Un SSN, p. ex. 536-22-8741, a neuf chiffres.",
        "An account number, for instance 48201937, has eight digits.",
        "An NHS number (e.g. 943 476 5919) has ten digits.",
    ],
)
def test_numbers_for_tests_and_examples_are_not_reported_but_masked(text: str) -> None:
    """An abbreviation is followed by a blank; the word for a test is before or behind its number."""
    assert _kinds(text) == []
    assert "[" in mask_pii(text)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("Bring a document, e.g. a licence. Her SSN is 536-22-8741.", "us_ssn"),
        ("The payment test failed for card 4539 7877 8932 8790.", "credit_card"),
        ("Her test results are in; MRN 4481209.", "medical_record"),
        ("See it in the sandbox. Mr Hale's card is 4539 7877 8932 8790.", "credit_card"),
        ("For testing call Mrs Ode on +49 151 23456789.", "phone"),
    ],
)
def test_an_example_ends_with_its_sentence(text: str, kind: str) -> None:
    """Data after the sentence, or beside a test that is no test of payments, is reported."""
    assert _kinds(text) == [kind]


@pytest.mark.parametrize(
    ("text", "item"),
    [
        ("The bank account was closed on 15-03-2023.", "15-03-2023"),
        ("The health plan has a deductible of 12000.", "12000"),
        ("Kennzeichen nach DIN 1451 sind Pflicht.", "DIN 1451"),
        ("Bring an ID, e.g. passport C01X00T47, to the desk.", "C01X00T47"),
        ("The SWIFT CUSTOMER portal is down.", "CUSTOMER"),
    ],
)
def test_masks_hide_what_the_words_beside_a_label_leave_open(text: str, item: str) -> None:
    """A mask does not judge the words between a label and what may be its number."""
    assert item not in mask_pii(text)


def test_a_broken_number_that_is_announced_as_an_example_stays() -> None:
    """Digits in two lines are joined to a card only where the words before let it be one: a test card is nobody's."""
    assert mask_pii("Pay with the test card 6011 1111\n1111 1117.") == "Pay with the test card 6011 1111\n1111 1117."
    assert mask_pii("Pay with the card 6011 1111\n1111 1117.") == "Pay with the card [number]."
