"""Records what commands print in a terminal: `python -m tests.reporting.terminal_sessions` writes the .txt anew.

A session is one command in a pseudo-terminal of a given width, with its output and its exit code."""

import contextlib
import fcntl
import os
import random
import struct
import subprocess
import sys
import tempfile
import termios
from collections.abc import Mapping, Sequence
from pathlib import Path

from ragtrace.batch.reporting.files import write_run
from ragtrace.live.journal import Journal
from ragtrace.records import Evaluation, Facts, Score
from ragtrace.testing import make_trace
from tests.reporting.runs import rows, run
from tests.row_files import rows as rows_of

RECORDING = Path(__file__).with_suffix(".txt")
DAY = 86_400.0
END = 1_700_006_400.0
"""2023-11-15 00:00 UTC."""
PERIOD = ("--since", "2023-11-14", "--until", "2023-11-15")
SESSIONS = rows_of(__file__, "sessions")
"""Columns of the terminal, and arguments of ragtrace."""


def in_terminal(
    command: Sequence[str], folder: Path, columns: int = 80, variables: Mapping[str, str] | None = None, typed: str = ""
) -> tuple[int, str]:
    """The exit code of a command in a pseudo-terminal in which a text is typed, and all that the terminal shows."""
    own, other = os.openpty()
    fcntl.ioctl(other, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    kept = {n: v for n, v in os.environ.items() if not n.startswith("RAGTRACE_") and n not in ("COLUMNS", "NO_COLOR")}
    environment = {**kept, "TERM": "xterm-256color", **(variables or {})}
    process = subprocess.Popen(
        command, stdin=other, stdout=other, stderr=other, cwd=folder, env=environment, start_new_session=True
    )
    os.close(other)
    os.write(own, typed.encode())
    printed = b""
    with contextlib.suppress(OSError):  # Linux's sign that no process has the terminal any more
        while part := os.read(own, 65_536):
            printed += part
    os.close(own)
    return process.wait(60), printed.decode(errors="replace").replace("\r\n", "\n")


def ragtrace(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "ragtrace", *arguments]


def write_files(folder: Path) -> None:
    """Writes the data sets, journals and runs that the sessions read."""
    (folder / "rows.jsonl").write_text(
        '{"id": "a", "query": "How long?", "contexts": ["24 months."], "answer": "24."}\n'
    )
    (folder / "chatlogs.db").touch()
    _write_journal(folder / "steady.jsonl", (0.05,) * 2, count=400, app="shop")
    _write_journal(folder / "fallen.jsonl", (0.05, 0.05, 0.4), count=800, app="shop")
    values = [0.9, 0.8, 0.95, 0.7, 0.85, 0.6] * 10
    write_run(run(rows(list(values))), folder / "before")
    write_run(run(rows([value - 0.2 for value in values])), folder / "after")


def _write_journal(path: Path, fails: Sequence[float], count: int, app: str) -> None:
    chance = random.Random(3)
    journal = Journal(path)
    for day, share in enumerate(fails):
        for i in range(count):
            passed = chance.random() >= share
            value = round(chance.uniform(0.9, 1.0) if passed else chance.uniform(0.0, 0.4), 3)
            score = Score("faithfulness", value, "pass" if passed else "fail", method="model")
            started = END + DAY * (day - len(fails) + i / count)
            facts = Facts(app=app, env="prod", model="m", prompt_version="v1")
            trace = make_trace(started=started, trace_id=chance.getrandbits(128), facts=facts)
            journal(Evaluation(trace, (score,)))
    journal.close()


def record(folder: Path) -> str:
    """Runs all sessions in the folder and returns them as one text."""
    write_files(folder)
    parts = []
    for columns, arguments in SESSIONS:
        code, printed = in_terminal(ragtrace(*arguments.split()), folder, columns)
        parts.append(f"$ ragtrace {arguments}   # {columns} columns\n{printed}[exit {code}]\n")
    return "\n".join(parts)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        RECORDING.write_text(record(Path(name)), encoding="utf-8")
