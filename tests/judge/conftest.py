"""What the tests of the judge share."""

from collections.abc import Callable
from typing import Any

import pytest

from ragtrace import settings
from ragtrace.evaluate.judge import Judge, client, use_judge
from ragtrace.evaluate.judge.ledger import Ledger
from ragtrace.testing import ScriptedJudge
from tests.judge_settings import own_settings  # noqa: F401 a fixture

pytest.importorskip("litellm", reason="litellm is not installed: pip install 'ragtrace-otel[judge]'")


@pytest.fixture
def judging(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Judge]:
    """Make a judge that asks a server, quickly and with a price of a dollar a million tokens, and use it."""

    def make(url: str, store: Ledger | None = None, **options: Any) -> Judge:
        given = {
            "judge_model": "openai/judge", "judge_api_base": url, "judge_timeout": 1.0,
            "model_prices": ("openai/judge=1/1", "openai/other=1/1"), "judge_max_tokens": 100, **options,
        }  # fmt: skip
        monkeypatch.setattr(client, "RETRIES", given.pop("retries", 1))
        judge = Judge(settings.load(given, environ={}), store)
        use_judge(judge)
        return judge

    return make


@pytest.fixture
def scripted() -> Callable[..., Any]:
    """Use a judge whose answers are written down."""

    def use(**answers: Any) -> Any:
        judge: Any = ScriptedJudge(answers)
        use_judge(judge)
        return judge

    return use
