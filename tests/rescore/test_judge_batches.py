"""`ragtrace rescore --judge-batch`: the judge is asked in the provider's batches, over real HTTP."""

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
from tests.chatlogs.evaluations import made
from tests.judge.server import completion
from tests.rescore.batch_server import BatchServer, verdicts
from tests.rescore.test_rescore_store import _rows

pytest.importorskip("litellm", reason="litellm is not installed: pip install 'ragtrace-otel[judge]'")
pytestmark = pytest.mark.server
COUNT = 6


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, folder: Path, judge_settings: None) -> Iterator[BatchServer]:
    """A judge with batches, and stores with the same logs."""
    monkeypatch.setenv("RAGTRACE_JUDGE_BUDGET_HOUR", "10")
    monkeypatch.setenv("RAGTRACE_G_EVAL_CRITERIA", "The answer is polite.")
    for name in ("s.db", "live.db"):
        with closing(open_store(name)) as store:
            store.write([made(n, answer=f"Answer {n}") for n in range(COUNT)])
    with BatchServer() as served:
        monkeypatch.setenv("RAGTRACE_JUDGE_API_BASE", served.url)
        yield served


def _command(store: str, *more: str, evaluators: str = "sexism,g_eval") -> list[str]:
    return ["rescore", "--store", store, "--evaluators", evaluators, "--jobs", "1", "--yes", *more]


COMMAND = _command("s.db", "--judge-batch", "b.sqlite", evaluators="sexism")


def _costs(path: str) -> float:
    with closing(sqlite3.connect(path)) as database:
        return float(database.execute("SELECT sum(cost) FROM scores").fetchone()[0])


def test_scores_are_those_of_single_calls(server: BatchServer, capsys: pytest.CaptureFixture[str]) -> None:
    """Scores equal those of single calls at half the cost; batches have the same bodies, each once."""
    assert main(_command("live.db")) == 0
    calls = list(server.calls)
    assert main(_command("s.db", "--judge-batch", "b.sqlite")) == 0
    messages = capsys.readouterr().err
    assert "US dollars in batches at 0.5 of the price; its budget is 10 US dollars an hour" in messages
    assert "a batch may take up to 24 hours" in messages
    assert len(server.calls) == len(calls)
    assert _rows("s.db") == _rows("live.db")
    assert {row[4] for row in _rows("live.db")} >= {"pass", "fail"}
    bodies = [line["body"] for line in server.lines]
    assert all(body in calls for body in bodies)
    assert len(bodies) == len(calls)
    assert len({line["custom_id"] for line in server.lines}) == len(bodies)
    assert _costs("s.db") == pytest.approx(_costs("live.db") / 2)
    assert not Path("b.sqlite").exists()
    batches = len(server.batches)
    assert main(_command("s.db", "--judge-batch", "b.sqlite")) == 0
    assert len(server.batches) == batches


def test_samples(server: BatchServer) -> None:
    """Without log-probabilities samples are questions of their own, all of a log in one batch; scores are the same."""
    server.reply = lambda body: verdicts({**body, "logprobs": False})
    assert main(_command("live.db", evaluators="g_eval")) == 0
    assert main(_command("s.db", "--judge-batch", "b.sqlite", evaluators="g_eval")) == 0
    assert len(server.batches) == 3  # steps, ratings, samples
    assert sum(line["body"]["temperature"] == 1.0 for line in server.lines) >= 10 * COUNT
    assert _rows("s.db") == _rows("live.db")


@pytest.mark.parametrize("target", [["--out", "scores.jsonl"], ["--store", "new.db"]])
def test_spans_of_a_file(target: list[str], server: BatchServer) -> None:
    """Requests of a file are judged in batches, too, with a store and without."""
    spans = str(Path(__file__).parent / "golden" / "mlflow-traces.jsonl")
    assert main(["rescore", spans, "--evaluators", "sexism", "--yes", "--judge-batch", "b.sqlite", *target]) == 0
    assert (server.calls, len(server.batches)) == ([], 1)
    if target[0] == "--out":
        lines = [json.loads(line) for line in Path("scores.jsonl").read_text().splitlines()]
        labels = [line["scores"]["sexism"]["label"] for line in lines]
    else:
        labels = [row[4] for row in _rows("new.db")]
    assert (len(labels) > 1, set(labels)) == (True, {"pass"})


@pytest.mark.process
@pytest.mark.parametrize("is_noted", [True, False])
def test_a_run_that_is_killed_waits_for_the_same_batch(is_noted: bool, server: BatchServer) -> None:
    """Killed before or after it notes its batch, the command goes on with it; no question is sent twice."""
    server.is_held = True
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = _command("s.db", "--judge-batch", "b.sqlite")
    process = subprocess.Popen([sys.executable, "-m", "ragtrace", *command], env=environment, stderr=subprocess.PIPE)
    while b"was sent" not in (line := process.stderr.readline()):
        assert line, "the command ended"
    process.send_signal(signal.SIGKILL)
    assert process.wait(60) == -signal.SIGKILL
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


def test_a_line_that_fails(server: BatchServer, capsys: pytest.CaptureFixture[str]) -> None:
    """A question that fails in the batch is counted and not stored; the same command asks it again."""

    def reply(body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        is_bad = "Answer 3" in body["messages"][-1]["content"]
        return (400, {"error": {"message": "policy"}}) if is_bad else verdicts(body)

    server.reply = reply
    main(COMMAND)
    messages = " ".join(capsys.readouterr().err.split())
    assert "6 questions, 1 of them without a reply, the first one because: policy" in messages
    assert "1 evaluations failed; the same command tries them again" in messages
    assert len(_rows("s.db")) == COUNT - 1
    server.reply = verdicts
    assert main(COMMAND) == 0
    assert (len(server.lines), server.calls) == (COUNT + 1, [])
    assert len(_rows("s.db")) == COUNT


def test_an_answer_that_cannot_be_read_is_asked_again(server: BatchServer) -> None:
    """An answer that cannot be read is asked for once more, in the next batch, as with single calls."""
    server.reply = lambda body: verdicts(body) if len(body["messages"]) > 2 else (200, completion("Well."))
    assert main(COMMAND) == 0
    assert len(server.batches) == 2
    assert len(_rows("s.db")) == COUNT


def test_a_line_that_cannot_be_read(server: BatchServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """A line of brackets without end in the provider's file of replies costs none of the others."""
    keep, broken = server.keep, b"[" * 100_000 + b"\n"
    monkeypatch.setattr(server, "keep", lambda text: keep(broken + text if b'"response"' in text else text))
    assert main(COMMAND) == 0
    assert len(_rows("s.db")) == COUNT


def test_a_provider_without_batches(
    server: BatchServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without batches, or with those of another form, nothing is asked, and one line says what to do."""
    server.has_batches = False
    assert main(COMMAND) == 2
    assert "leave --judge-batch away" in capsys.readouterr().err.splitlines()[-1]
    assert (server.calls, server.lines) == ([], [])
    server.has_batches = True
    assert main(COMMAND) == 0
    assert len(server.lines) == COUNT
    monkeypatch.setenv("RAGTRACE_JUDGE_MODEL", "anthropic/claude-3-haiku-20240307")
    monkeypatch.setenv("RAGTRACE_MODEL_PRICES", "anthropic/claude-3-haiku-20240307=1/1")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "none")
    assert main(_command("live.db", "--judge-batch", "b.sqlite", evaluators="sexism")) == 2
    message = capsys.readouterr().err.splitlines()[-1]
    assert "whose provider anthropic has no batches in OpenAI's form; leave --judge-batch away" in message


def test_a_budget_that_is_too_small(
    server: BatchServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without room for all questions nothing is sent; what a batch did not need is given back."""
    monkeypatch.setenv("RAGTRACE_JUDGE_LEDGER", "budget")
    monkeypatch.setenv("RAGTRACE_JUDGE_BUDGET_HOUR", "0.003")
    assert main(COMMAND) == 2
    message = capsys.readouterr().err.splitlines()[-1]
    assert "6 questions may cost up to" in message
    assert "they were not sent: raise the budget" in message
    assert server.files == {}
    monkeypatch.setenv("RAGTRACE_JUDGE_BUDGET_HOUR", "1")
    assert main(COMMAND) == 0
    with closing(sqlite3.connect("budget")) as database:
        spending = database.execute("SELECT nano FROM spending WHERE kind = 'day'").fetchone()[0]
    assert spending == COUNT * 15 * 1_000 // 2


def test_one_command_at_a_time(server: BatchServer, capsys: pytest.CaptureFixture[str]) -> None:
    """A second command with the same file would send the questions twice, and so would machines: both are errors."""
    assert main([*COMMAND, "--ray"]) == 2
    assert "leave --ray away" in capsys.readouterr().err
    file = BatchFile(Path("b.sqlite"))
    assert main(COMMAND) == 2
    assert "another command uses it" in capsys.readouterr().err
    file.close(remove=True)
    assert server.files == {}


def test_a_file_of_something_else_stays(server: BatchServer, capsys: pytest.CaptureFixture[str]) -> None:
    """A store or a text named as the file of --judge-batch is an error, and stays as it is."""
    Path("notes.txt").write_text("notes " * 1_000)
    for name, message in (("live.db", "is another database"), ("notes.txt", "file is not a database")):
        assert main(_command("s.db", "--judge-batch", name, evaluators="sexism")) == 2
        assert message in capsys.readouterr().err
    assert Path("notes.txt").read_text() == "notes " * 1_000
    with closing(sqlite3.connect("live.db")) as database:
        assert not database.execute("SELECT 1 FROM sqlite_master WHERE name = 'batches'").fetchall()


def test_redacted_texts(server: BatchServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a redact function the lines of a batch have no text that a single call would not have."""
    monkeypatch.setenv("RAGTRACE_REDACT", "tests.rescore.checks:without_numbers")
    assert main(COMMAND) == 0
    sent = json.dumps([line["body"]["messages"] for line in server.lines])
    assert "Answer #" in sent
    assert "Answer 1" not in sent
