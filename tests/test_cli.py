"""The command line."""

from __future__ import annotations

import gzip
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

ROWS: list[dict[str, Any]] = [
    {"id": "a", "query": "How long?", "contexts": ["24 months."], "answer": "24 months.", "reference": "24"},
    {"id": 7, "query": "Q", "contexts": [{"id": "x", "content": "c", "score": 0.5}], "answer": "Mail jo@acme.io"},
    {"query": "no id", "contexts": [], "answer": "The same thing. The same thing over again."},
]


def write(path: Path, rows: list[Any]) -> Path:
    path.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))
    return path


def read(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_eval(tmp_path: Path) -> None:
    """Each row comes out in order, with value, label, explanation and error of each evaluator."""
    out = tmp_path / "out.jsonl"
    names = "pii_leakage,groundedness,looping_compression_ratio"
    assert main(["eval", str(write(tmp_path / "in.jsonl", ROWS)), "--evaluators", names, "--out", str(out)]) == 0
    rows = read(out)
    assert [row["id"] for row in rows] == ["a", 7, 3]
    for row in rows:
        assert set(row["scores"]) == set(names.split(","))
        for score in row["scores"].values():
            assert set(score) == {"value", "label", "explanation", "error"}
    assert rows[1]["scores"]["pii_leakage"]["label"] == "fail"
    assert rows[2]["scores"]["groundedness"]["label"] == "fail"
    assert rows[0]["scores"]["groundedness"]["label"] == "pass"
    assert rows[0]["scores"]["groundedness"]["value"] > 0.8


def test_eval_of_a_gzip_file_with_processes(tmp_path: Path) -> None:
    """A gzipped file, scored by two processes, gives the same lines in the same order."""
    many = [{**ROWS[i % 2], "id": i} for i in range(100)]
    plain, packed = tmp_path / "one.jsonl", tmp_path / "in.jsonl.gz"
    packed.write_bytes(gzip.compress(write(tmp_path / "in.jsonl", many).read_bytes()))
    arguments = ["--evaluators", "looping_compression_ratio,pii_leakage"]
    assert main(["eval", str(tmp_path / "in.jsonl"), *arguments, "--out", str(plain), "--jobs", "1"]) == 0
    assert main(["eval", str(packed), *arguments, "--out", str(tmp_path / "two.jsonl"), "--jobs", "2"]) == 0
    assert plain.read_text() == (tmp_path / "two.jsonl").read_text()


BAD = [
    "{broken", "[1]", {"id": 1}, {"query": {"a": 5}, "answer": "x"}, {"contexts": 5, "answer": "y"},
    {"contexts": [1], "answer": ""},
]  # fmt: skip


def test_lines_that_cannot_be_used_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each bad line is named with its number, the rest is scored, and the exit code says so; --strict stops."""
    path = write(tmp_path / "in.jsonl", [ROWS[0], *BAD, ROWS[1]])
    out = tmp_path / "out.jsonl"
    assert main(["eval", str(path), "--evaluators", "pii_leakage", "--out", str(out)]) == 1
    assert [row["id"] for row in read(out)] == ["a", 7]
    errors = capsys.readouterr().err
    assert all(f"line {n}:" in errors for n in range(2, 8))
    assert main(["eval", str(path), "--evaluators", "pii_leakage", "--strict"]) == 2
    assert "line 2:" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["eval", "absent.jsonl", "--evaluators", "pii_leakage"], "absent.jsonl"),
        (["eval", "absent.jsonl", "--evaluators", "toxicty"], "did you mean toxicity"),
        (["eval", "absent.jsonl", "--evaluators", "no.such:thing"], "no.such"),
        (["eval", "absent.jsonl", "--jobs", "-3"], "--jobs"),
        (["ingest", "absent.jsonl", "--store", "absent.db"], "absent.jsonl does not exist"),
    ],
)
def test_what_cannot_be_done_is_said(arguments: list[str], word: str, capsys: pytest.CaptureFixture[str]) -> None:
    """One line that names what is wrong, and exit code 2."""
    assert main(arguments) == 2
    assert word in capsys.readouterr().err


def test_evaluators(capsys: pytest.CaptureFixture[str]) -> None:
    """The list is one JSON array with every built-in evaluator."""
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
    """It finds frameworks, models, settings, and whether the endpoint answers."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        monkeypatch.setenv("RAGTRACE_OTLP_ENDPOINT", f"http://127.0.0.1:{server.getsockname()[1]}")
        assert main(["doctor", "--json"]) == 0
        findings = {f["what"]: f for f in json.loads(capsys.readouterr().out)}
    assert findings["langchain-core"]["state"] == "ok"
    assert findings["model embedding"]["state"] == "ok"
    assert findings["OTLP endpoint"]["state"] == "ok"
    monkeypatch.setenv("RAGTRACE_OTLP_ENDPOINT", "http://ada:s3cret@127.0.0.1:9")
    assert main(["doctor"]) == 2
    printed = capsys.readouterr().out
    assert "127.0.0.1:9 does not answer" in printed
    assert "s3cret" not in printed
    monkeypatch.delenv("RAGTRACE_OTLP_ENDPOINT")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "127.0.0.1:4318")
    assert main(["doctor"]) == 2
    assert "127.0.0.1:4318 does not begin with http://" in capsys.readouterr().out
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://[::1:4318")
    assert main(["doctor"]) == 2
    assert "http://[::1:4318 does not answer (Invalid IPv6 URL)" in capsys.readouterr().out
    monkeypatch.setenv("RAGTRACE_SAMPLE", "2")
    assert main(["doctor"]) == 2
    assert "RAGTRACE_SAMPLE is '2'" in capsys.readouterr().out


@pytest.mark.process
def test_evaluators_in_the_working_directory_are_found(tmp_path: Path) -> None:
    """By the command, as by `python -m ragtrace`."""
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
