"""The one door for outgoing texts: what it redacts, where it cuts, and that it never raises."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragtrace.text.redaction import mask_named, mask_pii
from ragtrace.text.sanitizer import Sanitizer, sendable
from tests.row_files import table

SECRET = "MARKED-7f3a9c"


def hide(text: str) -> str:
    return text.replace(SECRET, "[hidden]")


@given(st.integers(0, 400), st.integers(0, 3))
def test_a_secret_at_the_cut_is_redacted_whole(position: int, copies: int) -> None:
    """Redaction comes before the cut, so no half of a secret remains at the end of a text that is cut."""
    text = "x" * position + SECRET * copies + "y" * 500
    assert "MARKED" not in Sanitizer(hide).text(text, 200)


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
    bare = Sanitizer(lambda text: text.replace("491712345678", "[number]"))
    assert json.loads(bare.text('{"id": -491712345678, "ok": [null], "said": "a: 491712345678, b"}')) == {
        "id": "[number]", "ok": [None], "said": "a: [number], b",
    }  # fmt: skip


def test_what_a_name_says_is_a_secret_stays() -> None:
    """Whatever the value looks like; counts of tokens do not."""
    names = ("password", "http.request.header.x_api_key", "Set-Cookie", "accessToken", "user.pin")
    kept = {"max_tokens": 5, "stop": "token", "keyboard": "qwerty"}
    one = Sanitizer(hide)
    assert one.attributes(dict.fromkeys(names, ("Kq7v",)) | kept) == dict.fromkeys(names, "[secret]") | kept
    assert json.loads(one.json({"auth": dict.fromkeys(names, "Kq7v")})) == {"auth": dict.fromkeys(names, "[secret]")}


def test_a_value_is_redacted_behind_its_name() -> None:
    """Of `1985-07-04` only the name says what it is; numbers that open a door are no counts."""
    one = Sanitizer(mask_pii, redact_named=mask_named)
    values = {"app.dateOfBirth": "1985-07-04", "pin": 4711, "db_password_prod": "correcthorse"}
    masked = {"app.dateOfBirth": "[date_of_birth]", "pin": "[secret]", "db_password_prod": "[secret]"}
    kept = table(__file__, "names_that_say_nothing")
    assert one.attributes(values | kept) == masked | kept
    assert json.loads(one.json({"deep": values | kept})) == {"deep": masked | kept}


def test_a_text_of_many_masks_is_read_further() -> None:
    text = "jane.doe@corp.example, " * 1_000
    cut = Sanitizer(mask_pii).text(text, 2_000)
    assert cut.startswith("[email], [email]")
    assert 1_500 < len(cut) < 2_100
    assert len(Sanitizer(mask_pii).text(text)) > 7_000


def test_an_exception_is_redacted_with_its_causes() -> None:
    try:
        try:
            raise KeyError(SECRET)
        except KeyError as error:
            raise ValueError(f"outer {SECRET}") from error
    except ValueError as error:
        attributes = Sanitizer(hide).exception(error)
    assert (attributes["exception.type"], attributes["exception.message"]) == ("ValueError", "outer [hidden]")
    assert "KeyError" in attributes["exception.stacktrace"]
    assert SECRET not in json.dumps(attributes)


@pytest.mark.parametrize("value", ["a", 1, None, {"a": 1}, object(), "\ud800\0"])
def test_a_redaction_that_fails_lets_nothing_out(value: object) -> None:
    assert Sanitizer(lambda text: 1 // 0 and text).text(value) == "[redaction failed]"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (f"请{SECRET}谢谢".encode(), "请[hidden]谢谢"),
        (bytearray(SECRET.encode()), "[hidden]"),
        (memoryview(SECRET.encode()), "[hidden]"),
        (SECRET.encode("utf-16-le"), "[hidden]"),
        ("\0".join(SECRET), "[hidden]"),
        (f"ä{SECRET}".encode("latin-1"), "<"),
        ({SECRET.encode(): [SECRET.encode()]}, '{"[hidden]": ["[hidden]"]}'),
    ],
)
def test_no_value_hides_in_bytes(value: object, text: str) -> None:
    """Bytes are read as a text, also with NUL between the letters; of those that are none only their number leaves."""
    out = Sanitizer(hide)
    assert out.text(value).startswith(text)
    assert "MARK" not in out.text(value)
    assert "MARK" not in out.json({"metadata": value})
    assert "MARK" not in json.dumps(out.attributes({"attribute": value}))


def test_bytes_that_are_a_text_are_read_without_redaction() -> None:
    """A tool that returns what it read from a file or a socket."""
    assert (Sanitizer().text("größer".encode()), Sanitizer().text(b"\x89PNG\xff")) == ("größer", "<5 bytes>")


def test_keys_within_an_attribute_and_numbers_of_other_classes_are_redacted() -> None:
    """An attribute's own name stays; what is inside of its value is the application's."""
    digits = Sanitizer(lambda text: "[number]" if text == "4111111111111111" else hide(text))
    card = type("Number", (float,), {})(4111111111111111.0)  # as numpy's float64
    attributes = {"user": {SECRET: {SECRET: 1}}, "card": card, "cards": [card], "share": 0.5, "on": True}
    assert digits.attributes(attributes) == {
        "user": {"[hidden]": {"[hidden]": 1}}, "card": "[number]", "cards": ("[number]",), "share": 0.5, "on": True,
    }  # fmt: skip


class Proxy:
    """A proxy of a text, e.g. of a web framework's user name, has the class `str` without being one."""

    def __init__(self, value: str | None) -> None:
        self.value = value

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        if self.value is None:
            raise RuntimeError("outside of a request")
        return type(self.value)

    def __str__(self) -> str:
        return str(self.value)


def test_a_proxy_is_a_text() -> None:
    """Also one whose class cannot be asked for."""
    assert sendable(Proxy("ada@acme.io")) == "ada@acme.io"
    assert Sanitizer(mask_pii).text(Proxy("ada@acme.io")) == "[email]"
    assert sendable(Proxy(None)) == "<Proxy>"
