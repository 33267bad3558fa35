"""The command line."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ragtrace import plugins
from ragtrace.cli import main
from tests.row_files import rows


@pytest.mark.parametrize(("arguments", "word"), rows(__file__, "what_cannot_be_done_is_said"))
def test_what_cannot_be_done_is_said(arguments: list[str], word: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    assert word in capsys.readouterr().err


def test_evaluators(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluators", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["name"] for row in rows] == plugins.builtin_names()
    assert main(["evaluators"]) == 0
    assert "groundedness" in capsys.readouterr().out
    assert main(["evaluators", "judge", "FAITHFULNESS"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("faithfulness_judge ") and line.endswith("by the judge.") for line in lines)
    assert all("judge" in line.lower() for line in lines)
    assert main(["evaluators", "--json", "pii"]) == 0
    assert "pii_leakage" in [row["name"] for row in json.loads(capsys.readouterr().out)]
    assert main(["evaluators", "nothing like it"]) == 2
    assert "no evaluator has 'nothing like it'" in capsys.readouterr().err


@pytest.mark.server
def test_doctor(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        monkeypatch.setenv("RAGTRACE_OTLP_ENDPOINT", f"http://127.0.0.1:{server.getsockname()[1]}")
        assert main(["doctor", "--json"]) == 0
        findings = {f["what"]: f for f in json.loads(capsys.readouterr().out)}
    assert (findings["langchain-core"]["state"], findings["model embedding"]["state"]) == ("ok", "ok")
    assert findings["OTLP endpoint"]["state"] == "ok"


@pytest.mark.parametrize(("variables", "words"), rows(__file__, "doctor_says_what_is_wrong"))
def test_doctor_says_what_is_wrong(
    variables: dict[str, str], words: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert main(["doctor"]) == 2
    printed = capsys.readouterr().out
    assert [word for word in words if word not in printed] == []
    assert "s3cret" not in printed


@pytest.mark.process
def test_evaluators_in_the_working_directory_are_found(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text("def good(trace): return True\n")
    environment = {**os.environ, "RAGTRACE_EVALUATORS": "own:good", "PYTHONPATH": ""}
    command = [str(Path(sys.executable).with_name("ragtrace")), "doctor"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, "own" in done.stdout) == (0, False), done.stdout


@pytest.mark.parametrize("name", ["store", "spans_file", "phoenix_url", "redact"])
def test_doctor_says_what_init_would_refuse(name: str, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    """A folder that is not there, an address without a scheme, a key that is missing."""
    value = {"phoenix_url": "localhost:6006", "redact": "hash"}.get(name, "/nowhere/x.db")
    monkeypatch.setenv(f"RAGTRACE_{name.upper()}", value)
    assert main(["doctor", "--json"]) == 2
    wrong = [found["what"] for found in json.loads(capsys.readouterr().out) if found["state"] == "wrong"]
    assert wrong == ["backends" if name == "phoenix_url" else name]
