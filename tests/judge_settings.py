"""Settings of tests that ask a judge; tests beside an import of `own_settings` have no settings of the machine's."""

import os
from collections.abc import Iterator

import pytest

from ragtrace.evaluate.judge import use_judge


@pytest.fixture(autouse=True)
def own_settings(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No test sees another's judge, and none a key or a setting of the machine's."""
    for name in list(os.environ):
        if name.endswith("_API_KEY") or name.startswith("RAGTRACE_"):
            monkeypatch.delenv(name)
    yield
    use_judge(None)


@pytest.fixture
def judge_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """A judge that costs money."""
    pytest.importorskip("litellm", reason="litellm is not installed: pip install 'ragtrace-otel[judge]'")
    monkeypatch.setenv("RAGTRACE_JUDGE_MODEL", "openai/x")
    monkeypatch.setenv("RAGTRACE_JUDGE_RETRIES", "0")
    monkeypatch.setenv("RAGTRACE_MODEL_PRICES", "openai/x=1/1")
