"""A run comes back from its folder as it was, and what is no run is named."""

import json
import math
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from ragtrace.batch.reporting.analysis import analyse
from ragtrace.batch.reporting.files import read_run, write_run
from ragtrace.batch.reporting.html import write_report
from ragtrace.batch.reporting.results import EvaluationRun, Info, Metric, Result
from ragtrace.errors import DataError, MissingExtraError
from tests import row_files
from tests.reporting.runs import FAITHFULNESS, big, rows, run

parquet = pytest.importorskip("pyarrow.parquet")


ODD = "\udc80 \x00 保証 \u2028 \U0001f600 </script>"
SAMPLES = {
    "a large run": big(),
    "any text": run([Result(ODD, ODD, ODD, (ODD,), ODD, ODD, duration=0.1, scores=rows([0.5])[0].scores)]),
    "an infinite threshold": run([], Metric("gptscore", "lower", math.inf, (0.0, math.inf))),
    "no usable line": EvaluationRun((), {"faithfulness": FAITHFULNESS}, Info(unusable=("line 1: broken",))),
}


@pytest.mark.parametrize("name", SAMPLES)
def test_round_trip(name: str, tmp_path: Path) -> None:
    """Rows, evidence, errors, infinite ranges, any text and where it came from; the JSON is strict."""
    folder = tmp_path / "new" / "folder"
    write_run(SAMPLES[name], folder)
    assert read_run(folder) == SAMPLES[name]
    assert sorted(path.name for path in folder.iterdir()) == ["results.json", "results.parquet"]
    json.loads((folder / "results.json").read_text(), parse_constant=pytest.fail)


def test_the_table_has_one_line_for_each_row_and_evaluator(tmp_path: Path) -> None:
    """Typed, with the perturbed rows, readable by others, as is the JSON file with all parts."""
    sample = big()
    write_run(sample, tmp_path)
    table = parquet.read_table(tmp_path / "results.parquet")
    assert table.num_rows == sum(len(row.scores) for row in sample.results)
    first = table.slice(0, 1).to_pylist()[0]
    assert (first["id"], first["model"], first["evaluator"]) == ("q0", "gpt-large", "faithfulness")
    assert first["value"] == sample.results[0].scores["faithfulness"].value
    assert first["evidence"][0]["end"] == sample.results[0].scores["faithfulness"].evidence[0].end
    document = json.loads((tmp_path / "results.json").read_text())
    for part in ("info", "metrics", "summary", "models", "classification", "problems", "insights", "flips", "results"):
        assert document[part], part
    assert {str(table.schema.field(name).type) for name in ("value", "duration", "cost")} == {"double"}


def test_a_run_replaces_the_one_before(tmp_path: Path) -> None:
    """A folder that was only half written is not read as a run."""
    write_run(run(rows([0.1])), tmp_path)
    before = (tmp_path / "results.json").read_bytes()
    write_run(run(rows([0.2])), tmp_path)
    assert read_run(tmp_path) == run(rows([0.2]))
    (tmp_path / "results.json").write_bytes(before)
    with pytest.raises(DataError, match="half written or altered"):
        read_run(tmp_path)
    (tmp_path / "results.parquet").unlink()
    with pytest.raises(DataError, match="half written"):
        read_run(tmp_path)


def test_what_is_no_run(tmp_path: Path) -> None:
    for folder in (tmp_path / "absent", tmp_path):
        with pytest.raises(DataError, match=r"there is no results\.json"):
            read_run(folder)
    (tmp_path / ".results.parquet.part").touch()
    with pytest.raises(DataError, match="was not finished"):
        read_run(tmp_path)
    for text, message in row_files.rows(__file__, "what_is_no_run"):
        (tmp_path / "results.json").write_text(text)
        with pytest.raises(DataError, match=message):
            read_run(tmp_path)


@pytest.mark.parametrize(
    ("package", "what"), [("pyarrow", "Writing a run"), ("jinja2", "The report"), ("numpy", "statistics")]
)
def test_missing_packages_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, package: str, what: str) -> None:
    """With the extra that brings them; no half-written file stays."""
    analysis = None if package == "numpy" else analyse(run(rows([0.1, 0.2])))
    monkeypatch.setitem(sys.modules, package, None)
    write: Callable[[], object] = partial(write_run, run(rows([0.1, 0.2])), tmp_path, analysis)
    if package == "jinja2" and analysis:
        write = partial(write_report, analysis, tmp_path)
    with pytest.raises(MissingExtraError, match=what) as caught:
        write()
    assert caught.value.extra == "eval"
    assert list(tmp_path.iterdir()) == []
