"""Values that escapes, invisible characters, look-alike letters and line breaks hide are masked all the same."""

import html
import json
import re
from collections.abc import Callable
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragtrace.text.privacy.decoded import DecodedText, decoded, rejoined, unwrapped
from ragtrace.text.redaction import mask_pii, mask_pii_at
from tests.row_files import rows, table

VALUES = {
    "card": "4111 1111 1111 1111", "phone": "+49 171 2345678", "iban": "DE89 3704 0044 0532 0130 00",
    "ssn": "536-22-8145", "ip": "81.169.145.12", "ipv6": "2a02:8108:9640:1d8c:3c1f:77aa:9b01:12cd",
    "mac": "3c:22:fb:9a:41:7e", "email": "jane.doe@acme.io", "github": "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8",
    "url password": "postgres://app:s3cr3tPw7@db.acme.net/x",
}  # fmt: skip


def _marks(form: str, which: str = "[^A-Za-z0-9]") -> Callable[[str], str]:
    return lambda value: re.sub(which, lambda match: form.format(ord(match[0])), value)


def _replaced(signs: dict[str, str]) -> Callable[[str], str]:
    return lambda value: value.translate(str.maketrans(signs))


def _inside(mark: str) -> Callable[[str], str]:
    return lambda value: mark.join((value[: len(value) // 3], value[len(value) // 3 : -3], value[-3:]))


LOOK_ALIKES = str.maketrans("aceopxyABCEHKMOPTX", "асеорхуАВСЕНКМОРТХ")  # noqa: RUF001 that is the point
ESCAPES: dict[str, Callable[[str], str]] = {
    **{name: _marks(form) for name, form in table(__file__, "marks").items()},
    **{name: _marks(form, ".") for name, form in table(__file__, "every_letter").items()},
    **{name: _inside(mark) for name, mark in table(__file__, "inside").items()},
    **{name: _replaced(signs) for name, signs in table(__file__, "replaced").items()},
    "JSON in JSON": lambda value: json.dumps(_marks(r"\u{:04x}")(value)), "URL": lambda value: quote(value, safe=""),
    "URL form": quote_plus, "URL twice": lambda value: quote(quote(value, safe=""), safe=""),
    "URL in JSON": lambda value: _marks(r"\u{:04x}")(quote(value, safe="")),
    "HTML twice": lambda value: html.escape(_marks("&#{};")(value)),
    "Markdown": lambda value: re.sub(r"([^A-Za-z0-9 ])", r"\\\1", value),
    "after a line feed": lambda value: rf"see\n{value}",
    "mathematical digits": lambda value: value.translate({48 + n: 0x1D7CE + n for n in range(10)}),
    "full width": lambda value: "".join(chr(ord(c) + 0xFEE0) if c != " " else "\u3000" for c in value),
    "Arabic digits": lambda value: value.translate({48 + n: 0x660 + n for n in range(10)}),
    "Cyrillic": lambda value: value.translate(LOOK_ALIKES),
}  # fmt: skip


@pytest.mark.parametrize("escape", ESCAPES, ids=str)
@pytest.mark.parametrize("value", VALUES, ids=str)
def test_an_escape_is_no_shelter(value: str, escape: str) -> None:
    """Whatever writes a value in another form hides it from nothing."""
    form = ESCAPES[escape](VALUES[value])
    masked = mask_pii(f"It is {form} today")
    assert form not in masked
    left = sum(map(str.isalnum, re.sub(r"\[[a-z_]+\]", "", masked))) - len("Itistoday")
    assert left <= 0.4 * sum(map(str.isalnum, form)), masked
    assert masked.startswith("It is ")
    assert masked.endswith(" today"), "no more is hidden"


@pytest.mark.parametrize("value", ["email", "ipv6", "mac", "github"])
@pytest.mark.parametrize("line_break", ["\n", r"\n", "<br>"])
def test_a_line_break_inside_of_a_value_is_no_shelter(value: str, line_break: str) -> None:
    """A value that is wrapped in its middle, as mails and PDFs have it, is hidden whole."""
    text = VALUES[value]
    masked = mask_pii(f"It is {text[: len(text) // 2]}{line_break}{text[len(text) // 2 :]} today")
    assert re.fullmatch(r"It is (\[[a-z_]+\](\s|\\n|<br>)?)+ ?today", masked), masked


@pytest.mark.parametrize("value", [*VALUES, "short ip"])
@pytest.mark.parametrize("dash", ["-", "\u2013", "\u2014", "\u2011"])
def test_dashes_beside_a_value_are_no_shelter(value: str, dash: str) -> None:
    """A dash before and after a value, tight, belongs to neither."""
    masked = mask_pii(f"It is x{dash}{({'short ip': '84.8.32.116'} | VALUES)[value]}{dash}y today")
    assert re.fullmatch(rf"It is (x{dash})?\[[a-z_]+\]({dash}y)? today", masked), masked


@pytest.mark.parametrize("text", rows(__file__, "text_without_a_value_stays"))
def test_text_without_a_value_stays(text: str) -> None:
    """Line breaks, columns, paths, per cents, ampersands and other scripts alone are changed in nothing."""
    assert mask_pii(text) == text


@given(st.text(alphabet="a@.%&\\u0041#;x25\n\r =\u200b*`+1", max_size=60), st.integers(0, 60), st.integers(1, 60))
def test_every_place_of_a_view_is_a_place_of_the_text(text: str, start: int, length: int) -> None:
    """Places are in order, inside of the text, and lead to the same characters where nothing was replaced."""
    for view in (decoded(text), rejoined(DecodedText(text, [])), unwrapped(DecodedText(text, []))):
        if view is not None and start + length <= len(view.text):
            first, last = view.place(start, start + length)
            assert 0 <= first <= last <= len(text)
    places = range(len(text) + 1)
    masked, moved = mask_pii_at(text, places)
    assert [moved[at] for at in places] == sorted(moved[at] for at in places)
    assert moved[len(text)] == len(masked)
