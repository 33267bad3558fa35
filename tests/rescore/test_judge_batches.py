"""`ragtrace rescore --judge-batch`: the judge is asked in the provider's batches, over real HTTP."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from ragtrace.batch.rescore.batch_file import BatchFile
from ragtrace.cli import main
from ragtrace.console.chatlogs.store import open_store
from ragtrace.evaluate.judge import use_judge
from tests.chatlogs.evaluations import made
from tests.judge.server import completion
from tests.rescore.batch_server import BatchServer, batch_server, verdicts, verdicts_without_logprobs
from tests.rescore.test_rescore_store import _rows

pytest.importorskip("litellm", reason="litellm is not installed: pip install 'ragtrace-otel[judge]'")
pytestmark = pytest.mark.server
SETTINGS = {"MODEL": "openai/x", "RETRIES": "0", "BUDGET_HOUR": "10"}
COUNT = 6


@pytest.fixture(autouse=True)
def _settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    for name in list(os.environ):
        if name.endswith("_API_KEY") or name.startswith("RAGTRACE_"):
            monkeypatch.delenv(name)
    for name, value in SETTINGS.items():
        monkeypatch.setenv(f"RAGTRACE_JUDGE_{name}", value)
    monkeypatch.setenv("RAGTRACE_MODEL_PRICES", "openai/x=1/1")
    monkeypatch.setenv("RAGTRACE_G_EVAL_CRITERIA", "The answer is polite.")
    monkeypatch.chdir(tmp_path)
    yield
    use_judge(None)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[BatchServer]:
    with batch_server() as served:
        monkeypatch.setenv("RAGTRACE_JUDGE_API_BASE", served.url)
        yield served


def _fill(path: str, count: int = COUNT) -> None:
    store = open_store(path)
    store.write([made(n, answer=f"Answer {n}") for n in range(count)])
    store.close()


def _command(store: str, *more: str, evaluators: str = "sexism,g_eval") -> list[str]:
    return ["rescore", "--store", store, "--evaluators", evaluators, "--jobs", "1", "--yes", *more]


def _costs(path: str) -> float:
    with closing(sqlite3.connect(path)) as database:
        return float(database.execute("SELECT sum(cost) FROM scores").fetchone()[0])


def test_scores_are_those_of_single_calls(server: BatchServer, capsys: pytest.CaptureFixture[str]) -> None:
    """Scores of questions that follow from replies, and of samples, equal those of single calls, at half the cost; the
    batches have the bodies of the single calls, each once, and no single call is made."""
    for name in ("live.db", "batch.db"):
        _fill(name)
    assert main(_command("live.db")) == 0
    calls = list(server.calls)
    assert main(_command("batch.db", "--judge-batch", "b.sqlite")) == 0
    messages = capsys.readouterr().err
    assert "US dollars in batches at 0.5 of the price; its budget is 10 US dollars an hour" in messages
    assert "a batch may take up to 24 hours" in messages
    assert len(server.calls) == len(calls)
    assert _rows("batch.db") == _rows("live.db")
    assert {row[4] for row in _rows("live.db")} >= {"pass", "fail"}
    bodies = [line["body"] for line in server.lines]
    assert all(body in calls for body in bodies)
    assert len(bodies) == len(calls)
    assert len({line["custom_id"] for line in server.lines}) == len(bodies)
    assert _costs("batch.db") == pytest.approx(_costs("live.db") / 2)
    assert not Path("b.sqlite").exists()
    batches = len(server.batches)
    assert main(_command("batch.db", "--judge-batch", "b.sqlite")) == 0
    assert len(server.batches) == batches


def test_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the server gives no log-probabilities, samples are collected as questions of their own, all of a log in one
    batch; the scores are those of single calls."""
    for name in ("live.db", "batch.db"):
        _fill(name)
    with batch_server(verdicts_without_logprobs) as server:
        monkeypatch.setenv("RAGTRACE_JUDGE_API_BASE", server.url)
        assert main(_command("live.db", evaluators="g_eval")) == 0
        assert main(_command("batch.db", "--judge-batch", "b.sqlite", evaluators="g_eval")) == 0
        assert len(server.batches) == 3  # steps, ratings, samples
        assert sum(line["body"]["temperature"] == 1.0 for line in server.lines) >= 10 * COUNT
    assert _rows("batch.db") == _rows("live.db")


@pytest.mark.parametrize("target", [["--out", "scores.jsonl"], ["--store", "s.db"]])
def test_spans_of_a_file(target: list[str], server: BatchServer) -> None:
    """Requests of a file are judged in batches, too, with a store and without."""
    spans = str(Path(__file__).parent / "golden" / "mlflow-traces.jsonl")
    command = ["rescore", spans, "--evaluators", "sexism", "--yes", "--judge-batch", "b.sqlite"]
    assert main([*command, *target]) == 0
    assert server.calls == []
    assert len(server.batches) == 1
    if target[0] == "--out":
        labels = [
            json.loads(line)["scores"]["sexism"]["label"] for line in Path("scores.jsonl").read_text().splitlines()
        ]
    else:
        labels = [row[4] for row in _rows("s.db")]
    assert len(labels) > 1
    assert set(labels) == {"pass"}


@pytest.mark.process
@pytest.mark.parametrize("is_noted", [True, False])
def test_a_run_that_is_killed_waits_for_the_same_batch(is_noted: bool, server: BatchServer) -> None:
    """Killed while its batch is in progress, or between the start of the batch and the note of its id, the command goes
    on with it: no question is sent twice, and the file is its owner's alone."""
    _fill("s.db")
    server.is_held = True
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = _command("s.db", "--judge-batch", "b.sqlite")
    process = subprocess.Popen([sys.executable, "-m", "ragtrace", *command], env=environment, stderr=subprocess.PIPE)
    assert process.stderr is not None
    while b"was sent" not in (line := process.stderr.readline()):
        assert line, "the command ended"
    process.send_signal(signal.SIGKILL)
    assert process.wait(20) == -signal.SIGKILL
    process.stderr.close()
    assert stat.S_IMODE(Path("b.sqlite").stat().st_mode) == 0o600
    if not is_noted:
        with sqlite3.connect("b.sqlite") as database:
            assert database.execute("UPDATE batches SET batch = NULL").rowcount == 1
        database.close()
    server.is_held = False
    assert main(command) == 0
    ids = [line["custom_id"] for line in server.lines]
    assert len(ids) == len(set(ids))
    assert len(_rows("s.db")) == 2 * COUNT


def test_a_line_that_fails(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A question that fails in the batch is counted, its evaluation is not stored, and the same command asks it
    again."""

    def reply(body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        if is_broken and "Answer 3" in body["messages"][-1]["content"]:
            return 400, {"error": {"message": "policy"}}
        return verdicts(body)

    is_broken = True
    _fill("s.db")
    with batch_server(reply) as server:
        monkeypatch.setenv("RAGTRACE_JUDGE_API_BASE", server.url)
        main(_command("s.db", "--judge-batch", "b.sqlite", evaluators="sexism"))
        messages = " ".join(capsys.readouterr().err.split())
        assert "6 questions, 1 of them without a reply, the first one because: policy" in messages
        assert "1 evaluations failed; the same command tries them again" in messages
        assert len(_rows("s.db")) == COUNT - 1
        is_broken = False
        assert main(_command("s.db", "--judge-batch", "b.sqlite", evaluators="sexism")) == 0
        assert len(server.lines) == COUNT + 1
        assert server.calls == []
    assert len(_rows("s.db")) == COUNT


def test_an_answer_that_cannot_be_read_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer that cannot be read is asked for once more, in the next batch, as with single calls."""

    def reply(body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        return verdicts(body) if len(body["messages"]) > 2 else (200, completion("Well."))

    _fill("s.db")
    with batch_server(reply) as server:
        monkeypatch.setenv("RAGTRACE_JUDGE_API_BASE", server.url)
        assert main(_command("s.db", "--judge-batch", "b.sqlite", evaluators="sexism")) == 0
        assert len(server.batches) == 2
    assert len(_rows("s.db")) == COUNT


def test_a_line_that_cannot_be_read(server: BatchServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """A line of brackets without end in the provider's file of replies costs none of the others."""
    keep = server.keep
    broken = b"[" * 100_000 + b"\n"
    monkeypatch.setattr(server, "keep", lambda text: keep(broken + text if b'"response"' in text else text))
    _fill("s.db")
    assert main(_command("s.db", "--judge-batch", "b.sqlite", evaluators="sexism")) == 0
    assert len(_rows("s.db")) == COUNT


def test_a_provider_without_batches(server: BatchServer, capsys: pytest.CaptureFixture[str]) -> None:
    """A server without batches, and a provider whose batches have another form, end the command with one line that
    says what to do; nothing is asked."""
    _fill("s.db")
    server.has_batches = False
    command = _command("s.db", "--judge-batch", "b.sqlite", evaluators="sexism")
    assert main(command) == 2
    assert "leave --judge-batch away" in capsys.readouterr().err.splitlines()[-1]
    assert (server.calls, server.lines) == ([], [])
    server.has_batches = True
    assert main(command) == 0
    assert len(server.lines) == COUNT


def test_another_provider(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A provider whose batches are not OpenAI's ends the command with one line that says what to do."""
    _fill("s.db")
    monkeypatch.setenv("RAGTRACE_JUDGE_MODEL", "anthropic/claude-3-haiku-20240307")
    monkeypatch.setenv("RAGTRACE_MODEL_PRICES", "anthropic/claude-3-haiku-20240307=1/1")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "none")
    assert main(_command("s.db", "--judge-batch", "b.sqlite", evaluators="sexism")) == 2
    message = capsys.readouterr().err.splitlines()[-1]
    assert "whose provider anthropic has no batches in OpenAI's form; leave --judge-batch away" in message


def test_a_budget_that_is_too_small(
    server: BatchServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without room in the budget for all questions nothing is sent, and one line says what to do. What a batch did not
    need is given back."""
    _fill("s.db")
    monkeypatch.setenv("RAGTRACE_JUDGE_LEDGER", "budget")
    monkeypatch.setenv("RAGTRACE_JUDGE_BUDGET_HOUR", "0.003")
    command = _command("s.db", "--judge-batch", "b.sqlite", evaluators="sexism")
    assert main(command) == 2
    message = capsys.readouterr().err.splitlines()[-1]
    assert "6 questions may cost up to" in message
    assert "they were not sent: raise the budget" in message
    assert server.files == {}
    monkeypatch.setenv("RAGTRACE_JUDGE_BUDGET_HOUR", "1")
    assert main(command) == 0
    with closing(sqlite3.connect("budget")) as database:
        spending = database.execute("SELECT nano FROM spending WHERE kind = 'day'").fetchone()[0]
    assert spending == COUNT * 15 * 1_000 // 2


def test_batches_on_a_cluster_are_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    """One process asks in batches."""
    _fill("s.db")
    assert main(_command("s.db", "--judge-batch", "b.sqlite", "--ray")) == 2
    assert "leave --ray away" in capsys.readouterr().err


def test_one_command_at_a_time(server: BatchServer, capsys: pytest.CaptureFixture[str]) -> None:
    """A second command with the same file would send the questions twice: it ends with an error."""
    _fill("s.db")
    file = BatchFile(Path("b.sqlite"))
    assert main(_command("s.db", "--judge-batch", "b.sqlite", evaluators="sexism")) == 2
    assert "another command uses it" in capsys.readouterr().err
    file.close(remove=True)
    assert server.files == {}


def test_a_file_of_something_else_stays(server: BatchServer, capsys: pytest.CaptureFixture[str]) -> None:
    """A store or a text named as the file of --judge-batch is an error, and stays as it is."""
    _fill("s.db")
    _fill("other.db")
    Path("notes.txt").write_text("notes " * 1_000)
    for name, message in (("other.db", "is another database"), ("notes.txt", "file is not a database")):
        assert main(_command("s.db", "--judge-batch", name, evaluators="sexism")) == 2
        assert message in capsys.readouterr().err
    assert Path("notes.txt").read_text() == "notes " * 1_000
    with closing(sqlite3.connect("other.db")) as database:
        assert not database.execute("SELECT 1 FROM sqlite_master WHERE name = 'batches'").fetchall()


def test_redacted_texts(server: BatchServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a redact function the lines of a batch have no text that a single call would not have."""
    _fill("s.db")
    monkeypatch.setenv("RAGTRACE_REDACT", "tests.rescore.checks:without_numbers")
    assert main(_command("s.db", "--judge-batch", "b.sqlite", evaluators="sexism")) == 0
    sent = json.dumps([line["body"]["messages"] for line in server.lines])
    assert "Answer #" in sent
    assert "Answer 1" not in sent
