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


def test_a_value_that_python_does_not_have_costs_its_row(tmp_path: Path) -> None:
    """A time after the year 9999 in Parquet: the other rows are read."""
    import pyarrow
    import pyarrow.parquet

    times = pyarrow.array([0, 2**40, 0], pyarrow.timestamp("s"))
    pyarrow.parquet.write_table(pyarrow.table({"answer": ["a", "b", "c"], "time": times}), tmp_path / "a.parquet")
    first, second, third = (fields for _, fields in records(tmp_path / "a.parquet"))
    assert isinstance(first, dict)
    assert isinstance(third, dict)
    assert (first["answer"], third["answer"]) == ("a", "c")
    assert isinstance(second, ValueError)
    assert "a value cannot be read" in str(second)


def test_parquet_with_broken_bytes_is_one_clear_error(tmp_path: Path) -> None:
    """Names of columns, and texts, that are no UTF-8."""
    import pyarrow
    import pyarrow.parquet

    path = tmp_path / "a.parquet"
    pyarrow.parquet.write_table(pyarrow.table({"answer": ["plain"]}), path, compression="none")
    content = path.read_bytes()
    path.write_bytes(content.replace(b"answer", b"answ\xffr"))
    with pytest.raises(DataError, match=r"a\.parquet"):
        list(records(path))
    path.write_bytes(content.replace(b"plain", b"pl\xffin"))
    ((_, fields),) = records(path)
    assert isinstance(fields, ValueError)
