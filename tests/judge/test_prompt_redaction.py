"""What the judge reads of a text that the application hides."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from ragtrace import settings
from ragtrace.errors import SettingError
from ragtrace.evaluate.judge import Judge, JudgeError, Prompt
from ragtrace.evaluate.privacy_modes import redact_texts
from tests.judge import server as s
from tests.row_files import rows

PROMPT = Prompt("p", "1", "Is it?\n\n{answer}", {"type": "object", "properties": {}, "required": []})
ADDRESS = "anna.berg@example-mail.com"
TEXT = f"Anna Berg writes from {ADDRESS} today."


def shout(text: str) -> str:
    return text.upper()


def fail(text: str) -> str:
    raise ValueError(text)


@pytest.mark.parametrize(("options", "text"), rows(__file__, "the_judge_reads_what_may_leave"))
def test_the_judge_reads_what_may_leave(judging: Callable[..., Judge], options: dict[str, Any], text: str) -> None:
    """Its texts are redacted as `redact` says, or as `judge_redact` says."""
    with s.serving(s.says("{}")) as served:
        judging(served.url, **options).ask(PROMPT, {"answer": TEXT})
        assert f"<answer>\n{text}\n</answer>" in served.requests[0]["messages"][1]["content"]


def test_a_value_at_the_cut_is_hidden_whole(judging: Callable[..., Judge]) -> None:
    """Texts are redacted before they are cut, and the answer says that they were cut."""
    text = "a word " * 8_570 + ADDRESS + " and more" * 1_000
    with s.serving(s.says("{}")) as served:
        assert judging(served.url, redact="pii").ask(PROMPT, {"answer": text}).cut
        assert "anna" not in json.dumps(served.requests)
        assert "[email" in json.dumps(served.requests)


def test_a_text_that_cannot_be_redacted_is_not_sent(judging: Callable[..., Judge]) -> None:
    """The question fails by name, without the text, and the server gets nothing."""
    with s.serving(s.says("{}")) as served:
        with pytest.raises(JudgeError, match="redact function failed for answer") as caught:
            judging(served.url, redact=f"{__name__}:fail").ask(PROMPT, {"answer": TEXT})
        assert caught.value.reason == "judge_redaction"
        assert ADDRESS not in str(caught.value)
        assert served.requests == []


@pytest.mark.parametrize(("options", "message"), rows(__file__, "a_judge_that_may_read_nothing"))
def test_a_judge_that_may_read_nothing(judging: Callable[..., Judge], options: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingError, match=message):
        judging("http://127.0.0.1:9/v1", **options)


def test_a_function_given_in_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """The process that asks the judge gets it by its name; a function without one is refused if there is a judge."""
    used = settings.load({"judge_model": "openai/x"}, environ={})
    assert redact_texts(used, shout)[0].judge_redact == f"{__name__}:shout"
    with pytest.raises(SettingError, match="cannot import"):
        redact_texts(used, lambda text: text)
    assert redact_texts(settings.load({}, environ={}), lambda text: text)[0].judge_redact == ""
