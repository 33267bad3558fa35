"""The one door for outgoing texts: what it redacts, where it cuts, and that it never raises."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragtrace.text.sanitizer import Sanitizer

SECRET = "MARKED-7f3a9c"


def hide(text: str) -> str:
    return text.replace(SECRET, "[hidden]")


@given(st.integers(0, 400), st.integers(0, 3))
def test_a_secret_at_the_cut_is_redacted_whole(position: int, copies: int) -> None:
    """Redaction comes before the cut, so no half of a secret remains at the end of a text that is cut."""
    text = "x" * position + SECRET * copies + "y" * 500
    result = Sanitizer(hide).text(text, 200)
    assert "MARKED" not in result


def test_very_long_texts_are_redacted_up_to_their_cut() -> None:
    """A text far beyond the limit is cut first to a bound, and a secret at that bound does not remain in part."""
    for position in range(4_000, 4_600, 7):
        text = (SECRET + " ") * 20 + "x" * position + SECRET + "z" * 50_000
        result = Sanitizer(hide).text(text, 100)
        assert "MARK" not in result
        assert result.endswith("characters cut]")


def test_json_stays_json() -> None:
    """Keys, numbers and nested texts are redacted one by one, so the result can still be parsed."""
    value = {SECRET: [1, {"deep": f"a {SECRET}"}], "phone": 491712345678, "ok": True, "none": None, "set": {SECRET}}
    digits = Sanitizer(lambda text: "[number]" if text == "491712345678" else hide(text))
    assert json.loads(digits.json(value)) == {
        "[hidden]": [1, {"deep": "a [hidden]"}], "phone": "[number]", "ok": True, "none": None, "set": ["[hidden]"],
    }  # fmt: skip
    circle: dict[str, object] = {}
    circle["self"] = circle
    assert isinstance(json.loads(digits.json(circle)), dict)


def test_an_exception_is_redacted_with_its_causes() -> None:
    """Message and stack trace of the whole chain pass through the door."""
    try:
        try:
            raise KeyError(SECRET)
        except KeyError as error:
            raise ValueError(f"outer {SECRET}") from error
    except ValueError as error:
        attributes = Sanitizer(hide).exception(error)
    assert attributes["exception.type"] == "ValueError"
    assert attributes["exception.message"] == "outer [hidden]"
    assert "KeyError" in attributes["exception.stacktrace"]
    assert SECRET not in json.dumps(attributes)


@pytest.mark.parametrize("value", ["a", 1, None, {"a": 1}, object(), "\ud800\0"])
def test_a_redaction_that_fails_lets_nothing_out(value: object) -> None:
    """An exception in the application's function replaces the text by a mark, and is not raised."""
    assert Sanitizer(lambda text: 1 // 0 and text).text(value) == "[redaction failed]"
