"""The readers of data sets: what importing them loads, and which columns they read."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ragtrace.errors import DataError
from ragtrace.offline.readers import records
from ragtrace.offline.rows import row_of
from ragtrace.records import INPUTS, has_input

PIPELINE = {"ragtrace.startup", "ragtrace.online.pipeline", "ragtrace.tracing.recorder"}


@pytest.mark.process
@pytest.mark.parametrize("module", ["ragtrace.chatlogs.ingest", "ragtrace.offline.selection", "ragtrace.reporting"])
def test_reading_data_sets_does_not_load_the_pipeline(module: str) -> None:
    """Importing the readers of data sets, the choice of evaluators or the reports loads no part of the pipeline."""
    code = f"import sys, {module}; print(*sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not PIPELINE & set(result.stdout.split())


@pytest.mark.parametrize("name", INPUTS)
def test_every_input_is_a_column(name: str) -> None:
    """Each input that an evaluator can need is a column of a data set, and arrives in the trace."""
    values = {"documents": ["a text"], "steps": [{"tool": "search"}], "constraints": [["a", "b"]]}
    row = row_of({"answer": "yes", name: values.get(name, "a text")}, 1)
    assert has_input(row.trace, name)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("bare.csv", b"query,ans\rwer,contexts\na,b,c\n"),
        ("deep.jsonl", b"[" * 100_000),
        ("deep.json", b"[" * 100_000 + b"]" * 100_000),
    ],
)
def test_a_file_that_cannot_be_read_is_one_clear_error(tmp_path: Path, name: str, content: bytes) -> None:
    """A carriage return in the column names, and brackets without end: the error names the file."""
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(DataError, match=name):
        list(records(path))


def test_a_cell_of_brackets_is_a_text(tmp_path: Path) -> None:
    """A cell that looks like a JSON list without end is read as it is."""
    path = tmp_path / "a.csv"
    path.write_text("answer\n" + "[" * 100_000 + "\n")
    ((_, fields),) = list(records(path))
    assert fields == {"answer": "[" * 100_000}


def test_a_number_that_no_float_holds_is_an_error_of_its_row() -> None:
    """An integer of 400 digits in `duration`."""
    with pytest.raises(ValueError, match="duration is too large"):
        row_of({"answer": "yes", "duration": 10**400}, 1)
