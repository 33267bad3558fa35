"""What commands print in a terminal, in a pipe that closes early, on a full disk, and in other encodings."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from ragtrace.base.terminal import fitted
from ragtrace.cli import main
from tests.reporting.terminal_sessions import PERIOD, RECORDING, in_terminal, ragtrace, record, write_files

COLOUR = re.compile(r"\x1b\[[0-9;]*m")
REPORT = ("report", "--file", "steady.jsonl", *PERIOD)
COMMANDS = (("--help",), ("eval", "--help"), ("evaluators",), ("doctor",), REPORT)
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs pseudo-terminals")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("terminal")
    write_files(path)
    return path


def test_sessions_are_as_recorded(tmp_path: Path) -> None:
    """Each recorded session prints the same again; `python -m tests.reporting.terminal_sessions` records them anew."""
    assert record(tmp_path) == RECORDING.read_text(encoding="utf-8")


def test_recorded_lines_fit_their_terminal() -> None:
    """Only errors are wider than the terminal; there is no traceback or colour, and intervals are within 0 and 1."""
    for session in RECORDING.read_text(encoding="utf-8").split("\n$ "):
        head, *lines = session.splitlines()
        columns = int(head.split("# ")[1].split()[0])
        for line in lines:
            assert len(line) <= columns or line.startswith("ragtrace: "), line
            assert "Traceback" not in line
            assert not COLOUR.search(line)
        if "ragtrace report" in head and not lines[0].startswith("ragtrace: "):
            assert re.match(r"WORSE: |Not worse: |No verdict", lines[0])
        for low, high in re.findall(r"0\.\d+ \((-?[\d.]+) to ([\d.]+)\)", session):
            assert 0 <= float(low) <= float(high) <= 1


def test_a_mistyped_store_is_not_created(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """No command that reads a store creates a file; each names the file that is missing and a similar one."""
    monkeypatch.chdir(folder)
    commands = ["serve --port 0", "user list", "user role ada admin", "token list", "store prune"]
    commands += ["store forget-user ada", "export --out x.jsonl", "calibrate --out c.json", "import-labels rows.jsonl"]
    for command in commands:
        assert main([*command.split(), "--store", "chatlog.db"]) == 2
        printed = capsys.readouterr()
        assert printed.err.startswith("ragtrace: the store chatlog.db does not exist; did you mean chatlogs.db?")
        assert not printed.out
    assert not (folder / "chatlog.db").exists()


def test_scores_go_to_the_file_that_standard_output_is(folder: Path) -> None:
    """With a progress bar on the terminal the scores are whole in the file; NO_COLOR takes its colours away."""
    arguments = ragtrace("eval", "rows.jsonl", "--evaluators", "pii_leakage")
    redirected = ["sh", "-c", 'exec "$@" > scores.jsonl', "sh", *arguments]
    assert not COLOUR.search(in_terminal(redirected, folder, variables={"NO_COLOR": "1"})[1])
    code, printed = in_terminal(redirected, folder)
    assert code == 0
    assert COLOUR.search(printed)
    assert "evaluating" in printed
    assert '"scores"' not in printed
    (row,) = (folder / "scores.jsonl").read_text(encoding="utf-8").splitlines()
    assert json.loads(row)["scores"]["pii_leakage"]["label"] == "pass"
    code, printed = in_terminal(arguments, folder, columns=40)
    assert code == 0
    assert json.loads(printed.splitlines()[0])["id"] == "a"


@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
def test_a_pipe_that_closes_early_is_no_error(arguments: tuple[str, ...], folder: Path) -> None:
    """The reader is gone before the first line: exit code 0, and nothing on standard error."""
    reader, writer = os.pipe()
    os.close(reader)
    buffered = {n: v for n, v in os.environ.items() if n != "PYTHONUNBUFFERED"}
    run = subprocess.run(
        ragtrace(*arguments), stdout=writer, stderr=subprocess.PIPE, cwd=folder, env=buffered, check=False
    )
    os.close(writer)
    assert (run.returncode, run.stderr) == (0, b"")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_is_told(folder: Path) -> None:
    """Output that cannot be written ends with one sentence and exit code 2."""
    for arguments in (("evaluators",), ("eval", "rows.jsonl", "--evaluators", "pii_leakage")):
        with Path("/dev/full").open("w") as full:
            run = subprocess.run(ragtrace(*arguments), stdout=full, stderr=subprocess.PIPE, cwd=folder, check=False)
        assert run.returncode == 2
        assert run.stderr.endswith(b"ragtrace: the output cannot be written: No space left on device\n")


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_other_encodings_get_a_mark_for_what_they_lack(encoding: str, folder: Path) -> None:
    """No command fails because of a character; JSON lines are UTF-8 whatever the terminal is."""
    variables = {**os.environ, "PYTHONIOENCODING": encoding, "PYTHONUTF8": "0"}
    for arguments in (*COMMANDS[2:], ("--help",)):
        run = subprocess.run(ragtrace(*arguments), cwd=folder, env=variables, capture_output=True, check=False)
        assert run.returncode == 0, run.stderr
        assert run.stdout.decode(encoding)
    (folder / "umlaut.jsonl").write_text('{"id": "ä", "answer": "Grüße"}\n', encoding="utf-8")
    arguments = ragtrace("eval", "umlaut.jsonl", "--evaluators", "pii_leakage")
    run = subprocess.run(arguments, cwd=folder, env=variables, capture_output=True, check=False)
    assert json.loads(run.stdout.decode("utf-8"))["id"] == "ä"


def test_lines_are_broken_between_words() -> None:
    """No width leaves lines as they are; a long line is broken with its indentation; a long word stays whole."""
    assert fitted(["a b"], None) == ["a b"]
    assert fitted(["  one two three", "short"], 10) == ["  one two", "    three", "short"]
    assert fitted(["x" * 30], 10) == ["x" * 30]
