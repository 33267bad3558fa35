"""`ragtrace rescore --out FILE.parquet`: scores as a table."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from ragtrace.batch.rescore.score_table import COLUMNS
from ragtrace.cli import main
from ragtrace.records import Facts, Score
from tests.chatlogs.evaluations import fill

GOLDEN = Path(__file__).parent / "golden"
BRIEF, FRAGILE = "tests.rescore.checks:brief", "tests.rescore.checks:fragile"


def _table(path: Path) -> list[dict[str, Any]]:
    table = pytest.importorskip("pyarrow.parquet", reason="pip install 'ragtrace-otel[eval]'").read_table(path)
    assert {field.name: str(field.type).replace("double", "float64") for field in table.schema} == dict(COLUMNS)
    rows: list[dict[str, Any]] = table.to_pylist()
    return rows


def test_the_scores_of_a_file_as_parquet(tmp_path: Path) -> None:
    """One line for each score, failures included, with the ids of the request, and no text."""
    out = tmp_path / "scores.parquet"
    command = ["rescore", str(GOLDEN / "mlflow-traces.jsonl"), "--evaluators", f"{BRIEF},{FRAGILE}", "--jobs", "1"]
    assert main([*command, "--out", str(out)]) == 0
    rows = _table(out)
    assert [row["trace_id"][:4] for row in rows] == ["e498", "e498", "5854", "5854", "039d", "039d"]
    assert [(row["evaluator"], row["value"]) for row in rows] == [("brief", 0.25), ("fragile", 1.0)] * 3
    assert rows[0]["span_id"] == "dc2244b7c9c3c225"
    assert rows[0]["started"] == pytest.approx(1795338572.65216)
    assert (rows[0]["version"], rows[0]["label"], rows[0]["model"]) == ("2", "fail", "gpt-4o-mini")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["scores.parquet"]


@pytest.mark.parametrize("name", ["scores.parquet", "scores.jsonl", "-"])
def test_the_scores_of_a_store_as_a_table(
    name: str, store_url: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """All scores of the store, the newest log first; a second call evaluates nothing and writes the same."""
    own: dict[str, Any] = {"facts": Facts(app="shop", model="m1"), "sampling_probability": 0.5}
    fill(store_url, 3, Score("brief", 1.0, version="1"), **own)
    command = ["rescore", "--store", store_url, "--evaluators", BRIEF, "--jobs", "1", "--out", name]
    tables = []
    for _ in range(2):
        assert main(command) == 0
        printed = capsys.readouterr()
        text = printed.out if name == "-" else ""
        text = Path(name).read_text() if name.endswith("jsonl") else text
        tables.append([json.loads(line) for line in text.splitlines()] if text else _table(Path(name)))
        assert f"{name}: 3 scores of the store" in printed.err
    assert tables[0] == tables[1]
    assert [int(row["trace_id"], 16) for row in tables[0]] == [3, 2, 1]
    assert tables[0][0] == {
        **dict.fromkeys(COLUMNS),
        **{"trace_id": f"{3:032x}", "span_id": f"{3:016x}", "started": tables[0][0]["started"], "app": "shop"},
        **{"model": "m1", "evaluator": "brief", "version": "2", "value": 1.0, "label": "pass", "method": "code"},
        **{"sampling_probability": 0.5, "input_tokens": 0, "output_tokens": 0, "cost": 0.0},
    }


def test_parquet_without_pyarrow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without pyarrow the command says what to install before anything is evaluated."""
    for name in ("pyarrow", "pyarrow.parquet"):
        monkeypatch.setitem(sys.modules, name, None)
    command = ["rescore", str(GOLDEN / "mlflow-traces.jsonl"), "--evaluators", BRIEF]
    assert main([*command, "--out", str(tmp_path / "a.parquet")]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert "needs the package 'pyarrow'" in line
