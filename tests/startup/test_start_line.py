"""What `init` says: what runs, what leaves and where to look."""

import logging
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import ragtrace
from ragtrace.evaluation import evaluator
from ragtrace.records import Trace

pytestmark = pytest.mark.process


@evaluator(needs={"answer"})
def breaks(trace: Trace) -> float:
    raise ValueError(trace.answer)


def test_init_says_what_runs(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """One line; a password in an address is not in it. The first failure of an evaluator is logged, without texts."""
    caplog.set_level(logging.INFO)
    runtime = ragtrace.init(
        app="shop", env="prod", evaluators=[breaks, "bleu_4"], spans_file=tmp_path / "spans.jsonl", sample_per_second=0,
        otlp_endpoint="http://ada:secret@127.0.0.1:9", capture_content=True, redact="pii",
    )  # fmt: skip
    for _ in range(2):
        with ragtrace.request("q") as request:
            request.answered("I am Ada.")
    runtime.flush(30)
    runtime.close(10)
    (line,) = [record.getMessage() for record in caplog.records if "shop (prod)" in record.getMessage()]
    assert f"evaluators: 2; {tmp_path}/spans.jsonl, http://127.0.0.1:9; texts leave, redacted" in line
    assert line.endswith("; these need a request's reference or constraints: bleu_4")
    assert caplog.text.count("the evaluator breaks failed (ValueError)") == 1
    assert "secret" not in caplog.text
    assert "Ada" not in caplog.text


def test_scores_that_reach_nobody_are_logged(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ragtrace_otlp.provider.current_provider", lambda: None)
    ragtrace.init(evaluators=["no_answer"], frameworks=()).close(1)
    assert "scores reach nobody" in caplog.text


def test_threads_that_start_at_once_have_one_ragtrace(tmp_path: Path) -> None:
    with ThreadPoolExecutor(4) as pool:
        runtimes = set(pool.map(lambda _: ragtrace.init(spans_file=tmp_path / "x", evaluators=["no_answer"]), range(4)))
    ragtrace.shutdown()
    assert len(runtimes) == 1
