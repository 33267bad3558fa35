"""`ragtrace compare --evaluator`: two versions of an evaluator on stored logs."""

from pathlib import Path

import pytest

from ragtrace.cli import main
from ragtrace.console.chatlogs.side_by_side import Side, compare_sides
from ragtrace.console.chatlogs.store import open_store
from ragtrace.evaluation import Evaluator
from ragtrace.records import Score
from tests.chatlogs.evaluations import NOW, made
from tests.row_files import rows


def _score(version: str, value: float, label: str | None = "") -> Score:
    return Score("brief", value, ("pass" if value >= 0.5 else "fail") if label == "" else label, version=version)


def _fill(url: str, *versions: tuple[str, list[float]], label: str | None = "") -> None:
    """Logs that each version gave these values."""
    store = open_store(url)
    for version, values in versions:
        checks = [Evaluator("brief", len, threshold=0.5, version=version)]
        store.write([made(n, _score(version, value, label)) for n, value in enumerate(values)], checks)
    store.close()


def test_two_versions_are_compared_pair_by_pair(store_url: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Paired intervals, the sentence of the console, and the logs that changed, those that changed most first."""
    before = [0.9] * 60
    _fill(store_url, ("1", before), ("2", [0.9 - (0.6 + n / 50 if n < 15 else 0) for n in range(60)]))
    assert main(["compare", "--store", store_url, "--evaluator", "brief", "1", "2"]) == 0
    printed = capsys.readouterr().out
    lines = [" ".join(line.split()) for line in printed.splitlines()]
    assert lines[:2] == ["A: version 1 B: version 2", "rows in both 60 · only in A 0 · only in B 0"]
    assert any(line.startswith("brief 60 0.900 0.715 -0.185 -0.2") and line.endswith("15/0 worse") for line in lines)
    assert "brief: version differs: 1 and 2" in lines
    store = open_store(store_url)
    sides = [Side(f"version {v}", NOW - 1, NOW + 100, evaluator_version=v) for v in ("1", "2")]
    (row,) = compare_sides(store, sides[0], sides[1], "brief").rows
    store.close()
    assert row.sentence in printed
    assert row.sentence.startswith("version 2 fails 25 points more than version 1 (")
    start = lines.index("15 logs that pass, and fail now:")
    assert lines[start + 1] == f"{15:032x} 2025-10-09 08:53 UTC 0.900 pass → 0.020 fail"
    assert len(lines[start + 1 :]) == 10


def test_values_without_verdicts_are_compared(store_url: str, capsys: pytest.CaptureFixture[str]) -> None:
    """An evaluator without a threshold is compared by its values; the logs whose value changed most are named."""
    _fill(store_url, ("1", [0.5] * 20), ("2", [0.5] * 19 + [0.6]), label=None)
    assert main(["compare", "--store", store_url, "--evaluator", "brief"]) == 0
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    [line] = [line for line in lines if line.startswith("brief 20 0.500 0.505 +0.005")]
    assert line.endswith("no difference shown")
    assert lines[-2] == "logs whose value changed most:"
    assert lines[-1].endswith("0.500 → 0.600")


def test_the_last_two_versions_are_the_default(store_url: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Without names the last two versions are compared, the older one first; with one name, it and the last other."""
    _fill(store_url, ("1", [0.9] * 12), ("2", [0.9] * 12), ("3", [0.9] * 12))
    arguments = ["compare", "--store", store_url, "--evaluator", "brief"]
    assert main(arguments) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("A: version 2   B: version 3")
    assert printed.endswith("no verdict and no value changed\n")
    assert main([*arguments, "1"]) == 0
    assert capsys.readouterr().out.startswith("A: version 1   B: version 3")


@pytest.mark.parametrize(("arguments", "message"), rows(__file__, "what_cannot_be_compared"))
def test_what_cannot_be_compared(
    arguments: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Versions that scored nothing, and fewer than two of them, are errors in one line."""
    url = str(tmp_path / "s.db")
    _fill(url, ("1", [0.9]), ("2", [0.9]))
    assert main(["compare", "--store", url, *arguments]) == 2
    assert message in capsys.readouterr().err
