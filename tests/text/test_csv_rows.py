"""Cells of CSV that a label announces are found and masked, at their place in the text."""

from __future__ import annotations

import pytest

from ragtrace.text.privacy.decoded import DecodedText
from ragtrace.text.privacy.find import find_personal_data, find_secrets
from ragtrace.text.privacy.layout import csv_rows
from ragtrace.text.redaction import mask_pii


def _items(text: str) -> list[tuple[str, str]]:
    return [(match.kind, text[match.start : match.end]) for match in (*find_personal_data(text), *find_secrets(text))]


@pytest.mark.parametrize(
    ("text", "items"),
    [
        (
            "name,passport\nNora Hale,XDB519302\nTim Ode,GH5193027",
            [("passport", "XDB519302"), ("passport", "GH5193027")],
        ),
        ("Kunde\tKontonummer\nVoss\t5312907741", [("bank_account", "5312907741")]),
        ('"name","date_of_birth"\n"Hale, Nora","1971-06-04"', [("date_of_birth", "1971-06-04")]),
        ("site;admin_password\nshop;Fjord!204", [("assigned_secret", "Fjord!204")]),
        ('"login";"kennwort"\n"nora";"Kranich#55"', [("assigned_secret", "Kranich#55")]),
        ("setting,value\nadmin_password,Fjord!204\nretries,3", [("assigned_secret", "Fjord!204")]),
        ("column,type\npassword,varchar255", []),
        ("code,name\nDE,Germany\nFR,France", []),
        ("order,amount,sku\n5312907741,12,KX-1\n5312907742,13,KX-2", []),
        ("Dear Nora, Tim\nwe have 12 chairs, and 30 plates.", []),
    ],
)
def test_a_cell_of_csv_belongs_to_its_head(text: str, items: list[tuple[str, str]]) -> None:
    """Commas, semicolons and tabs separate cells; quotes may hold them."""
    assert _items(text) == items
    assert all(value not in mask_pii(text) for _, value in items)


def test_the_line_after_csv_is_no_row() -> None:
    """A heading's label does not reach the text behind its rows."""
    assert _items("name,passport\nNora Hale,XDB519302\n\nRoom 519302118 is free.") == [("passport", "XDB519302")]


def test_only_labelled_cells_are_in_the_view() -> None:
    """The others would be searched twice; without a label there is no view."""
    view = csv_rows(DecodedText("name,pin,city\nNora,4471,Leeds 14\n", []))
    assert view is not None
    assert view.text == "\nPIN: 4471 ;"
    assert csv_rows(DecodedText("name,city\nNora,Leeds 14\n", [])) is None
    assert csv_rows(DecodedText("name,pin", [])) is None
