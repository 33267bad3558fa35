"""What leaves in each mode of the setting `redact`."""

from pathlib import Path
from typing import Any

import pytest

import ragtrace
from ragtrace.errors import SettingError
from ragtrace.evaluate.privacy_modes import redact_texts
from ragtrace.settings import load
from ragtrace.text.sanitizer import Sanitizer
from tests.row_files import rows

KEY = "a key of sixteen characters or more"
ADDRESS = "anna.berg@example.org"
TEXT = f"Anna Berg ({ADDRESS}, +49 171 2345678) asked."


def sanitizer(monkeypatch: pytest.MonkeyPatch, **options: Any) -> Sanitizer:
    monkeypatch.setenv("REDACT_KEY", KEY)
    return redact_texts(load(options))[1]


def test_off_changes_nothing_and_pii_masks_by_patterns(monkeypatch: pytest.MonkeyPatch) -> None:
    masked = ("Anna Berg ([email], [number]) asked.", "[email]")
    for mode, expected in (("", (TEXT, ADDRESS)), ("off", (TEXT, ADDRESS)), ("pii", masked)):
        own = sanitizer(monkeypatch, redact=mode)
        assert (own.text(TEXT), own.identifier(ADDRESS)) == expected


@pytest.mark.parametrize("redact", [True, ["pii"], 1])
def test_what_is_no_mode_is_refused(redact: Any) -> None:
    with pytest.raises(SettingError, match="redact is "):
        ragtrace.init(redact=redact)


def test_a_text_that_recurs_is_redacted_once() -> None:
    """A text in many attributes is redacted once; one that was not redacted, for the function failed, again."""
    texts: list[str] = []

    def redact(text: str) -> str:
        texts.append(text)
        if len(texts) == 1:
            raise ValueError
        return text.upper()

    own = redact_texts(load(), redact)[1]
    answers = [own.text(TEXT) for _ in range(4)]
    assert answers == ["[redaction failed]", *[TEXT.upper()] * 3]
    assert texts == [TEXT] * 2


def test_hash_keeps_what_belongs_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """One address has one hash wherever the key is the same; another key gives another one; the rest is masked."""
    own, again = (sanitizer(monkeypatch, redact="hash", redact_key="REDACT_KEY") for _ in range(2))
    text = own.text(f"{TEXT} ANNA.BERG@example.org, ada@example.org")
    hashes = [part.partition("]")[0] for part in text.split("[email:")[1:]]
    assert hashes[0] == hashes[1] != hashes[2]
    assert own.text("ada [at] example [dot] org") == own.text("ada@example.org")
    assert all(len(one) == 20 and one.isalpha() for one in hashes)
    assert "[number]" in text
    assert own.identifier("session-1") == again.identifier("session-1") != own.identifier("session-2")
    monkeypatch.setenv("OTHER_KEY", KEY[::-1])
    other = redact_texts(load({"redact": "hash", "redact_key": "OTHER_KEY"}))[1]
    assert other.identifier("session-1") != own.identifier("session-1")


def test_a_key_hashes_ids_in_every_mode(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """`redact_key` names a variable or a file."""
    (tmp_path / "key").write_text(KEY)
    expected = sanitizer(monkeypatch, redact="hash", redact_key="REDACT_KEY").identifier("anna")
    for options in ({"redact": "pii"}, {}, {"redact": "metadata_only"}, {"redact": f"{__name__}:shout"}):
        own = sanitizer(monkeypatch, redact_key=str(tmp_path / "key"), **options)
        assert own.identifier("anna") == expected


def test_names_are_masked_by_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """Names of people and their streets, also far into a long text."""
    pytest.importorskip("onnxruntime")
    own = sanitizer(monkeypatch, redact="names")
    text = own.text(f"{TEXT} She lives at 12 Main Street. " + "The pump runs. " * 900 + "My name is John Smith.")
    assert not any(word in text for word in ("Anna", "Berg", "Main Street", "John", "Smith"))
    assert "The pump runs." in text


def test_metadata_only_exports_no_text(monkeypatch: pytest.MonkeyPatch) -> None:
    settings, own = redact_texts(load({"redact": "metadata_only", "capture_content": "true", "explanations": True}))
    assert (settings.capture_content, settings.explanations) == ("false", False)
    assert own.text("tag of anna@example.org") == "tag of [email]"


def shout(text: str) -> str:
    return text.upper()


def test_a_function_of_the_application(monkeypatch: pytest.MonkeyPatch) -> None:
    assert sanitizer(monkeypatch, redact=f"{__name__}:shout").text("a") == "A"
    assert redact_texts(load(), shout)[1].text("a") == "A"


@pytest.mark.parametrize(("options", "message"), rows(__file__, "a_wrong_mode_is_refused"))
def test_a_wrong_mode_is_refused(monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], message: str) -> None:
    monkeypatch.setenv("SHORT_KEY", "geheim")
    with pytest.raises(SettingError, match=message) as error:
        redact_texts(load(options))
    assert "geheim" not in str(error.value)
