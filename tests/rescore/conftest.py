"""The settings of these tests are their own."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from ragtrace.capture import seen_context
from ragtrace.evaluate.judge import use_judge


@pytest.fixture(autouse=True)
def _settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.endswith("_API_KEY") or (name.startswith("RAGTRACE_") and name != "RAGTRACE_TEST_POSTGRES"):
            monkeypatch.delenv(name)
    seen_context._chunks.clear()  # the session's first turn


@pytest.fixture
def judge_settings(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A judge that costs money."""
    monkeypatch.setenv("RAGTRACE_JUDGE_MODEL", "openai/x")
    monkeypatch.setenv("RAGTRACE_JUDGE_RETRIES", "0")
    monkeypatch.setenv("RAGTRACE_MODEL_PRICES", "openai/x=1/1")
    yield
    use_judge(None)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory of a test."""
    monkeypatch.chdir(tmp_path)
    return tmp_path
