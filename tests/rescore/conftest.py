"""The settings of these tests are their own."""

from pathlib import Path

import pytest

from ragtrace.capture import seen_context
from tests.judge_settings import judge_settings, own_settings  # noqa: F401 fixtures


@pytest.fixture(autouse=True)
def _first_turn() -> None:
    """Each request is its session's first turn."""
    seen_context._chunks.clear()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path
