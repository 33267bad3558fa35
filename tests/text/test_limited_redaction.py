"""The application's redaction function has a limit, and what it does not redact does not leave."""

import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from unittest import mock

import pytest

from ragtrace.text.redaction import TimeLimited
from ragtrace.text.sanitizer import RedactionTimeoutError, Sanitizer


def test_a_function_in_time_redacts() -> None:
    """Its result leaves, from many threads at once, each its own."""
    limited = TimeLimited(str.upper, 5.0)
    with ThreadPoolExecutor(20) as pool:
        assert list(pool.map(limited, [f"text {n}" for n in range(500)])) == [f"TEXT {n}" for n in range(500)]


def test_a_function_that_hangs_holds_the_request_up_no_more_than_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first text waits for the limit, the others not at all; nothing of them leaves, and each is counted."""
    free, waited_for = threading.Event(), []
    wait = TimeLimited._wait
    monkeypatch.setattr(TimeLimited, "_wait", lambda self, call: waited_for.append(call.text) or wait(self, call))
    sanitizer = Sanitizer(TimeLimited(lambda text: str(free.wait(60)) + text, 0.05))
    assert {sanitizer.text(f"secret {n}") for n in range(200)} == {"[redaction failed]"}
    assert waited_for == ["secret 0"]
    assert sanitizer.failures.by_reason == {"timeout": 200, "error": 0}
    free.set()


def test_a_function_that_is_late_three_times_is_left_alone() -> None:
    """Then its thread is not even asked, until the pause is over."""
    calls: list[str] = []
    proceed = threading.Event()

    def slow(text: str) -> str:
        calls.append(text)
        proceed.wait(60)
        return text

    limited = TimeLimited(slow, 0.25, pause=3600)
    for n in range(3):
        proceed.clear()
        with pytest.raises(RedactionTimeoutError):
            limited(str(n))
        proceed.set()
        while limited._hangs():
            time.sleep(0.01)
    with pytest.raises(RedactionTimeoutError):
        limited("not asked")
    assert calls == ["0", "1", "2"]
    limited._resume = 0.0  # the pause is over
    assert limited("asked") == "asked"


@pytest.mark.parametrize("function", [lambda text: 1 // 0 and text, sys.exit])
def test_a_function_that_raises_lets_nothing_out(function: object) -> None:
    sanitizer = Sanitizer(TimeLimited(function, 5.0))  # type: ignore[arg-type]
    assert [sanitizer.text("secret") for _ in range(5)] == ["[redaction failed]"] * 5
    assert sanitizer.failures.by_reason == {"timeout": 0, "error": 5}


def test_a_text_that_waited_for_others_has_its_whole_time() -> None:
    """Its own time begins when the thread takes it: four threads at once, each text half of the limit."""
    sanitizer = Sanitizer(TimeLimited(lambda text: [time.sleep(0.3), text.upper()][1], 0.6))
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(sanitizer.text, "abcd")) == ["A", "B", "C", "D"]
    assert sanitizer.failures.by_reason == {"timeout": 0, "error": 0}


def test_without_a_further_thread_nothing_leaves() -> None:
    """At the system's limit of threads a text is not redacted, so it does not leave; the next one is tried again."""
    sanitizer = Sanitizer(TimeLimited(str.upper, 5.0))
    with mock.patch.object(threading.Thread, "start", side_effect=RuntimeError("can't start new thread")):
        assert sanitizer.text("secret") == "[redaction failed]"
    assert sanitizer.text("secret") == "SECRET"
