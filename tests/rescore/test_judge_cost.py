"""What a run of `ragtrace rescore` costs is said before it starts, and money needs an agreement."""

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ragtrace.base.rows import Row
from ragtrace.batch.rescore.cost_estimate import estimate_cost
from ragtrace.batch.rescore.job import load_suite
from ragtrace.console.chatlogs.store import open_store
from ragtrace.plugins import builtin_names, load
from ragtrace.records import Document
from ragtrace.settings import load as load_settings
from tests.chatlogs.evaluations import fill, made
from tests.judge import server as s
from tests.reporting.terminal_sessions import in_terminal, ragtrace
from tests.rescore.test_rescore_store import rescore

pytest.importorskip("litellm", reason="litellm is not installed: pip install 'ragtrace-otel[judge]'")
GOOD = s.says('{"answer_fails": false, "context_fails": false, "reason": ""}')
pytestmark = pytest.mark.usefixtures("judge_settings")


@pytest.fixture
def judge(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A server that judges every answer as good."""
    with s.serving(GOOD) as served:
        monkeypatch.setenv("RAGTRACE_JUDGE_API_BASE", served.url)
        yield served


@pytest.mark.server
def test_money_needs_an_agreement(store_url: str, judge: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """Without a terminal a judge that costs money is asked with --yes alone, as often as the command said."""
    fill(store_url, 6)
    assert rescore(store_url, "sexism") == 2
    messages = capsys.readouterr().err
    assert "the judge openai/x: about 6 calls, 0.00" in messages
    assert "add --yes to agree" in messages.splitlines()[-1]
    assert len(judge.requests) == 0
    assert rescore(store_url, "sexism", "--yes") == 0
    assert len(judge.requests) == 6


@pytest.mark.server
def test_a_judge_that_may_be_asked_needs_an_agreement(store_url: str, judge: Any) -> None:
    """A judge of doubtful answers needs the agreement also where none of the sample is doubtful."""
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: pip install 'ragtrace-otel[models]'")
    store = open_store(store_url)
    chunk = Document("d0", "The pump is covered for 24 months.")
    store.write([made(n, documents=(chunk,), answer="The pump is covered for 24 months.") for n in range(2)])
    store.close()
    assert rescore(store_url, "faithfulness_cascade") == 2
    assert rescore(store_url, "faithfulness_cascade", "--yes") == 0
    assert len(judge.requests) == 0


@pytest.mark.server
def test_a_judge_without_a_price_needs_no_agreement(
    store_url: str, judge: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server of one's own that costs nothing is asked at once."""
    fill(store_url, 3)
    monkeypatch.setenv("RAGTRACE_MODEL_PRICES", f"{os.environ['RAGTRACE_JUDGE_MODEL']}=0/0")
    assert rescore(store_url, "sexism") == 0
    assert len(judge.requests) == 3


@pytest.mark.server
def test_a_budget_that_is_too_small_is_said(
    store_url: str, judge: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A run that costs more than the hour's budget says so; what the budget has no room for is evaluated later."""
    fill(store_url, 12)
    monkeypatch.setenv("RAGTRACE_JUDGE_BUDGET_HOUR", "0.003")
    monkeypatch.setenv("RAGTRACE_JUDGE_CONCURRENCY", "1")
    rescore(store_url, "sexism", "--yes")
    messages = capsys.readouterr().err
    assert "that is more than judge_budget_hour: what it has no room for fails" in messages
    failed = int(re.search(r"(\d+) evaluations failed", messages)[1])  # type: ignore[index]  # the line is there
    assert failed == 12 - len(judge.requests)
    monkeypatch.setenv("RAGTRACE_JUDGE_BUDGET_HOUR", "1")
    assert rescore(store_url, "sexism", "--yes") == 0
    assert len(judge.requests) == 12


@pytest.mark.server
@pytest.mark.process
@pytest.mark.parametrize(("reply", "code", "requests"), [("y\n", 0, 2), ("\n", 2, 0)])
def test_a_terminal_is_asked(reply: str, code: int, requests: int, tmp_path: Path, judge: Any) -> None:
    """In a terminal the command asks before it spends; anything but yes ends it with nothing evaluated."""
    fill(str(tmp_path / "s.db"), 2)
    command = ragtrace("rescore", "--store", "s.db", "--evaluators", "sexism", "--jobs", "1")
    own = {name: value for name, value in os.environ.items() if name.startswith(("RAGTRACE_JUDGE_", "RAGTRACE_MODEL_"))}
    variables = {"PYTHONPATH": os.pathsep.join(sys.path), **own}
    result, printed = in_terminal(command, tmp_path, 160, variables, typed=reply)
    assert result == code, printed
    assert "go on? [y/N]" in printed
    assert len(judge.requests) == requests
    assert ("rescore was not confirmed; nothing was evaluated" in printed) is (code == 2)


def test_every_judge_can_be_estimated(monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls and dollars are estimated without a request, with imagined replies that are valid."""
    monkeypatch.setenv("RAGTRACE_JUDGE_API_BASE", "http://127.0.0.1:9")
    monkeypatch.setenv("RAGTRACE_JUDGE_PROMPT", "Is {actual_answer} right?")
    chunks = tuple(Document(f"d{n}", f"Pump {n} is covered for {n + 12} months.") for n in range(3))
    trace = made(0, documents=chunks, answer="Pump 1 is covered for 13 months. Ask us.", reference="13 months.").trace
    names = [name for name in builtin_names() if load(name).asks_judge and not name.endswith("_cascade")]
    for name in names:
        cost = estimate_cost(load_suite(name, load_settings()), [Row("a", trace)], {name: 100}, 0)
        assert cost.calls >= 100, name
        assert cost.calls * 1.5e-4 < cost.dollars < cost.calls * 2e-3, name
    assert len(names) > 20
