"""A value in Markdown, a table, CSV, JSON or XML is found and masked as in "label: value", at its place in the text."""

import pytest

from ragtrace.text.privacy.decoded import DecodedText
from ragtrace.text.privacy.find import find_personal_data, find_secrets
from ragtrace.text.privacy.layout import csv_rows, laid_out
from ragtrace.text.redaction import mask_pii
from tests.row_files import rows, table

PERSONAL = table(__file__, "personal")
SECRETS = table(__file__, "secrets")
FORMS: dict[str, str] = table(__file__, "forms")


def _text(form: str, label: str, value: str) -> str:
    key = label.lower().replace(" ", "_").replace("-", "_")
    first, *others = key.split("_")
    camel = first + "".join(map(str.capitalize, others))
    return FORMS[form].format(label=label, value=value, key=key, camel=camel, upper=key.upper())


@pytest.mark.parametrize("form", FORMS)
def test_values_in_a_layout_are_found_and_masked(form: str) -> None:
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


@pytest.mark.parametrize(("text", "values"), rows(__file__, "a_value_is_reported_once_and_as_in_the_text"))
def test_a_value_is_reported_once_and_as_in_the_text(text: str, values: list[str]) -> None:
    assert [text[match.start : match.end] for match in find_personal_data(text) + find_secrets(text)] == values


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
