"""A value in Markdown, a table, CSV, JSON or XML is found and masked as in "label: value", at its place in the text."""

from __future__ import annotations

import pytest

from ragtrace.text.privacy.decoded import DecodedText
from ragtrace.text.privacy.find import find_personal_data, find_secrets
from ragtrace.text.privacy.layout import csv_rows, laid_out
from ragtrace.text.redaction import mask_pii
from tests.row_files import rows, table

PERSONAL = {
    "Phone": "2065550147", "Mobile": "(0171) 5550 133", "SSN": "536228145", "NHS number": "9434765919",
    "VIN": "1M8GDM9AXKP042788", "Date of birth": "3 May 1979", "Account number": "4839201748",
    "Home address": "27 Cedar Lane, Portland, OR 97205",
}  # fmt: skip
SECRETS = {
    "Password": "tr4vel-Owl!",
    "Passwort": "Regen#Bogen77",
    "Wi-Fi password": "LemonTree58",
    "API key": "b71d0f64ac9e4d8193a5e27c60fd8b12",
    "Access token": "Vn4cTz81QbLw6XsDk0RyM",
    "PIN": "7316",
    "Recovery code": "4c9d-81ef-07ab",
}
FORMS: dict[str, str] = table(__file__, "forms")


def _text(form: str, label: str, value: str) -> str:
    key = label.lower().replace(" ", "_").replace("-", "_")
    first, *others = key.split("_")
    camel = first + "".join(map(str.capitalize, others))
    return FORMS[form].format(label=label, value=value, key=key, camel=camel, upper=key.upper())


@pytest.mark.parametrize("form", FORMS)
def test_values_in_a_layout_are_found_and_masked(form: str) -> None:
    """Each kind is found at its place, and no character of it is left by the mask."""
    for labels, find in ((PERSONAL, find_personal_data), (SECRETS, find_secrets)):
        for label, value in labels.items():
            text = f"Here you are.\n\n{_text(form, label, value)}\n\nAnything else?"
            # A password may be reported with the marks around it.
            assert value in {text[match.start : match.end].strip("*`\\\"'.") for match in find(text)}, (label, text)
            masked = mask_pii(text)
            assert value not in masked, text
            assert masked.startswith("Here you are."), text
            assert masked.endswith("Anything else?"), text


@pytest.mark.parametrize("text", rows(__file__, "a_layout_without_values_has_none"))
def test_a_layout_without_values_has_none(text: str) -> None:
    """Tables of fields and settings, schemas, masked values and code hold no personal data and no secret."""
    assert find_personal_data(text) == []
    assert find_secrets(text) == []


@pytest.mark.parametrize(
    ("text", "values"),
    [
        # A key is not cut where a mark of emphasis is inside of it.
        ("**API key:** Ab*c1_Zk*9**2xQ_p7Lm0Rt5vYw8", ["Ab*c1_Zk*9**2xQ_p7Lm0Rt5vYw8"]),
        ("`client_secret`: `q_8Zr__Lm2Xv7_Tb5Nc0Wp`", ["q_8Zr__Lm2Xv7_Tb5Nc0Wp"]),
        # What the text itself shows to the patterns is not reported again from the view.
        ('{"email": "ann.lee@orbit-mail.net", "phone_number": "2065550147"}', ["ann.lee@orbit-mail.net", "2065550147"]),
        # A heading's label does not reach the text behind its rows.
        ("name,passport\nNora Hale,XDB519302\n\nRoom 519302118 is free.", ["XDB519302"]),
    ],
)
def test_a_value_is_reported_once_and_as_in_the_text(text: str, values: list[str]) -> None:
    """Whatever marks are in it and around it."""
    matches = find_personal_data(text) + find_secrets(text)
    assert [text[match.start : match.end] for match in matches] == values


def test_prose_has_no_view() -> None:
    """A text without marks is not read a second time; of others only the lines with marks and their neighbours are."""
    prose = "The meeting starts at 9. Bring the form (page 2): it's short.\n" * 50
    assert laid_out(DecodedText(prose, [])) is None
    view = laid_out(DecodedText(f"{prose}**Phone:** 2065550147\n{prose}", []))
    assert view is not None
    assert len(view.text) < 300


@pytest.mark.parametrize("unit", rows(__file__, "views_grow_with_the_text"))
def test_views_grow_with_the_text(unit: str) -> None:
    """Repeated marks do not make a view that is much longer than its text."""
    text = (unit * 200_000)[:200_000]
    for layout in (laid_out, csv_rows):
        view = layout(DecodedText(text, []))
        assert view is None or len(view.text) < 6 * len(text)


def test_only_labelled_cells_are_in_the_view() -> None:
    """The others would be searched twice; without a label there is no view."""
    view = csv_rows(DecodedText("name,pin,city\nNora,4471,Leeds 14\n", []))
    assert view is not None
    assert view.text == "\nPIN: 4471 ;"
    assert csv_rows(DecodedText("name,city\nNora,Leeds 14\n", [])) is None
    assert csv_rows(DecodedText("name,pin", [])) is None
