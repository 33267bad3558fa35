"""The readers of data sets: what importing them loads, and which columns they read."""

import csv
import json
import subprocess
import sys
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from ragtrace.base.readers import records
from ragtrace.base.rows import Row, read, row_of
from ragtrace.errors import DataError
from ragtrace.records import INPUTS, has_input
from tests.row_files import rows

PIPELINE = {"ragtrace.live.init", "ragtrace.live.pipeline", "ragtrace.capture.recorder"}


@pytest.mark.process
def test_reading_data_sets_does_not_load_the_pipeline() -> None:
    """Importing the readers of data sets, the choice of evaluators or the reports loads no part of the pipeline."""
    modules = "ragtrace.console.chatlogs.ingest, ragtrace.batch.selection, ragtrace.batch.reporting"
    code = f"import sys, {modules}; print(*sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not PIPELINE & set(result.stdout.split())


@pytest.mark.parametrize("name", INPUTS)
def test_every_input_is_a_column(name: str) -> None:
    """Each input that an evaluator can need is a column of a data set, and arrives in the trace."""
    values = {"documents": ["a text"], "steps": [{"tool": "search"}], "constraints": [["a", "b"]]}
    assert has_input(row_of({"answer": "yes", name: values.get(name, "a text")}, 1).trace, name)


@pytest.mark.parametrize("line", rows(__file__, "lines_that_are_no_rows"))
def test_lines_that_are_no_rows(line: str, tmp_path: Path) -> None:
    """Broken JSON, another type, and fields of another type are each an error with the number of the line."""
    path = tmp_path / "in.jsonl"
    path.write_text(f'{{"answer": "yes"}}\n{line}\n')
    first, second = read(path)
    assert isinstance(first, Row)
    assert "line 2:" in str(second)


def test_a_cell_of_brackets_is_a_text(tmp_path: Path) -> None:
    """A cell that looks like a JSON list without end is read as it is."""
    path = tmp_path / "a.csv"
    path.write_text("answer\n" + "[" * 100_000 + "\n")
    ((_, fields),) = list(records(path))
    assert fields == {"answer": "[" * 100_000}


def _contexts(path: Path) -> list[list[str]]:
    return [
        [document.content for document in item.trace.documents] if isinstance(item, Row) else [str(item)]
        for item in read(path)
    ]


@pytest.mark.parametrize(("name", "content"), rows(__file__, "chunks_are_read_in_the_forms_in_which_tools_write_them"))
def test_chunks_are_read_in_the_forms_in_which_tools_write_them(tmp_path: Path, name: str, content: str) -> None:
    """Semicolons, names in another case, lists of JSON, Python and numpy in a text, objects of other libraries."""
    path = tmp_path / name
    path.write_text(content, encoding="utf-8")
    assert _contexts(path) == [["one", "two"]]


@pytest.mark.parametrize("text", ["[1] The notice period", "[1, 2]", "['one', 2]", '["one', "[]x", "['a' + 'b']"])
def test_a_text_in_brackets_that_is_no_list_of_chunks_is_one_chunk(text: str) -> None:
    """A citation, numbers, a list that breaks off, code."""
    assert [document.content for document in row_of({"contexts": text}, 1).trace.documents] == [text]


def test_the_same_rows_from_json_and_csv(tmp_path: Path) -> None:
    """An empty list in a cell says that nothing was found; a null column hides no other name of the field."""
    assert row_of({"answer": "a", "contexts": "[]"}, 1).trace.facts.retrievals == 1
    assert row_of({"answer": None, "response": "a"}, 1).trace.answer == "a"
    (tmp_path / "cut.csv").write_text('question,answer\nq1,a\nq2,"half\nq3,b\n')
    first, second = read(tmp_path / "cut.csv")
    assert (first.trace.answer, "ends inside quotes" in str(second)) == ("a", True)  # type: ignore[union-attr]


def test_an_exact_name_goes_before_one_in_another_case() -> None:
    """Where a file has both, the column whose name is the field's. Ids and numbers have their own names alone."""
    row = row_of({"Answer": "gold", "response": "live", "QUERY": "q", "ID": "7", "Duration": "3 min"}, 1)
    assert (row.trace.answer, row.trace.query, row.id, row.duration) == ("live", "q", 1, None)


@pytest.mark.parametrize(
    ("fields", "message"),
    [({"duration": 10**400}, "duration is too large"), *rows(__file__, "a_row_that_cannot_be_says_why")],
)
def test_a_row_that_cannot_be_says_why(fields: dict[str, Any], message: str) -> None:
    """An integer of 400 digits, a cost with its currency, and a chunk without a text, whose keys are named."""
    with pytest.raises(ValueError, match=message):
        row_of({"answer": "yes", **fields}, 1)


DEEP = [["deep.jsonl", "[" * 100_000, "deep.jsonl"], ["deep.json", "[" * 100_000 + "]" * 100_000, "deep.json"]]


@pytest.mark.parametrize(("name", "content", "words"), [*rows(__file__, "a_file_in_another_form"), *DEEP])
def test_a_file_in_another_form_is_named(tmp_path: Path, name: str, content: str, words: str) -> None:
    """One line, which says what to do; also of a carriage return in the column names, and of brackets without end."""
    path = tmp_path / name
    path.write_bytes(content.encode("latin-1"))
    with pytest.raises(DataError, match=words):
        list(records(path))


def parquet(path: Path, **columns: Any) -> Path:
    import pyarrow
    import pyarrow.parquet

    pyarrow.parquet.write_table(pyarrow.table(columns), path, compression="none")
    return path


def test_a_value_that_python_does_not_have_costs_its_row(tmp_path: Path) -> None:
    """A time after the year 9999 in Parquet: the other rows are read."""
    import pyarrow

    times = pyarrow.array([0, 2**40, 0], pyarrow.timestamp("s"))
    path = parquet(tmp_path / "a.parquet", answer=["a", "b", "c"], time=times)
    first, second, third = (fields for _, fields in records(path))
    assert (first["answer"], third["answer"]) == ("a", "c")
    assert isinstance(second, ValueError)
    assert "a value cannot be read" in str(second)


def test_parquet_with_broken_bytes_is_one_clear_error(tmp_path: Path) -> None:
    path = parquet(tmp_path / "a.parquet", answer=["plain"])
    content = path.read_bytes()
    path.write_bytes(content.replace(b"answer", b"answ\xffr"))
    with pytest.raises(DataError, match=r"a\.parquet"):
        list(records(path))
    path.write_bytes(content.replace(b"plain", b"pl\xffin"))
    ((_, fields),) = records(path)
    assert isinstance(fields, ValueError)


@pytest.mark.parametrize("cell", ['["a", "b"]', "[1]", "[1, 2, 3]"])
def test_a_list_in_a_cell_is_the_text_of_an_answer(tmp_path: Path, cell: str) -> None:
    """What an answer says in brackets is its text; constraints and steps in a cell are lists."""
    with (tmp_path / "a.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["answer", "reference", "constraints", "steps"], [cell, cell, cell, cell]])
    (row,) = read(tmp_path / "a.csv")
    assert (row.trace.answer, row.trace.reference) == (cell, cell)
    assert (row.trace.constraints, row.trace.steps) == (json.loads(cell), tuple(json.loads(cell)))


def test_numbers_and_times_of_tables_are_read(tmp_path: Path) -> None:
    """A number as an answer, NaN for what is missing, decimals, times as ids and as durations, as Parquet has them."""
    times, costs, durations = [datetime(2024, 1, 1), datetime(2024, 1, 2), None], [Decimal("0.5")], [timedelta(0, 2)]
    columns = {"id": times, "cost": [*costs, None, None], "latency": [*durations, None, None]}
    path = parquet(tmp_path / "a.parquet", answer=[42.0, 2.5, float("nan")], question=["Q?"] * 3, **columns)
    rows = [row for row in read(path) if isinstance(row, Row)]
    assert [row.trace.answer for row in rows] == ["42", "2.5", ""]
    assert [row.id for row in rows] == ["2024-01-01 00:00:00", "2024-01-02 00:00:00", 3]
    assert [(row.cost, row.duration) for row in rows] == [(0.5, 2.0), (None, None), (None, None)]


def test_what_json_does_not_have_is_missing() -> None:
    """NaN as an id or a duration: the line's number is the id, and the output stays JSON."""
    row = row_of({"answer": "yes", "id": float("nan"), "duration": float("inf")}, 3)
    assert (row.id, row.duration) == (3, None)
