"""`ragtrace eval` and `ragtrace compare`: data in four forms, resumption, gates, reports."""

import csv
import gzip
import importlib
import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from ragtrace import plugins, settings
from ragtrace.base.rows import Row, read, row_of
from ragtrace.batch.checkpoint import run_id
from ragtrace.batch.columns import notes
from ragtrace.batch.reporting.files import read_run
from ragtrace.batch.run import Plan, _checkpoint
from ragtrace.batch.selection import parse_names, suitable
from ragtrace.calibrations import Calibrated, save
from ragtrace.cli import main
from tests.judge import server as s
from tests.judge_settings import judge_settings, own_settings  # noqa: F401 fixtures
from tests.reporting.terminal_sessions import ragtrace
from tests.row_files import rows
from tests.waiting import until

ROWS: list[dict[str, Any]] = rows(__file__, "ROWS")
NAMES = "faithfulness,looping_unique_sentences,pii_leakage"


def jsonl(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def table(path: Path, rows: list[dict[str, Any]]) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows({**row, "contexts": json.dumps(row["contexts"])} for row in rows)
    return path


def lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def plain(rows: Any) -> list[tuple[Any, ...]]:
    return [
        (r.id, r.model, r.trace.query, tuple(d.content for d in r.trace.documents), r.trace.answer, r.trace.reference)
        for r in rows
    ]


@pytest.mark.parametrize("kind", ["jsonl.gz", "json", "csv", "csv.gz", "parquet", "folder"])
def test_every_form_gives_the_same_rows(kind: str, tmp_path: Path) -> None:
    """JSON lines, a JSON array, CSV, Parquet and a data set on disk, packed or not, hold the same rows."""
    expected = plain(read(jsonl(tmp_path / "rows.jsonl", ROWS)))
    path = tmp_path / f"other.{kind}"
    if kind == "jsonl.gz":
        path.write_bytes(gzip.compress((tmp_path / "rows.jsonl").read_bytes()))
    elif kind == "json":
        path.write_text(json.dumps(ROWS, indent=1))
    elif kind == "csv.gz":
        path.write_bytes(gzip.compress(table(tmp_path / "t.csv", ROWS).read_bytes()))
    elif kind == "csv":
        table(path, ROWS)
    elif kind == "parquet":
        pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install 'ragtrace-otel[eval]'")
        importlib.import_module("pyarrow.parquet").write_table(pyarrow.Table.from_pylist(ROWS), path)
    else:
        datasets = pytest.importorskip("datasets", reason="datasets is not installed: ragtrace-otel[eval] brings it")
        datasets.Dataset.from_list(ROWS).save_to_disk(str(path))
    assert plain(read(path)) == expected


def test_columns_are_found_by_other_names_or_mapped(tmp_path: Path) -> None:
    """Names that other tools write are known; others are mapped; one that is not there is named with those that are."""
    names = [{"question": "q", "retrieved_contexts": ["c"], "response": "a", "ground_truth": "r"}]
    (row,) = read(jsonl(tmp_path / "k.jsonl", names))
    assert plain([row]) == [(1, "", "q", ("c",), "a", "r")]
    (row,) = read(jsonl(tmp_path / "m.jsonl", [{"frage": "q", "answer": "a"}]), {"query": "frage"})
    assert plain([row])[0][2] == "q"
    (error,) = read(tmp_path / "m.jsonl", {"answer": "antwort"})
    assert "no column 'antwort' for answer; there are frage, answer" in str(error)
    arguments = ["--map", "query=frage", "--evaluators", "pii_leakage", "--out", str(tmp_path / "o.jsonl")]
    assert main(["eval", str(tmp_path / "m.jsonl"), *arguments]) == 0


def test_a_device_is_not_replaced(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The output is written by another name and renamed, which must not take the place of /dev/null."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    path = jsonl(tmp_path / "rows.jsonl", [{"answer": "a"}])
    assert main(["eval", str(path), "--evaluators", "pii_leakage", "--out", str(pipe)]) == 2
    assert (pipe.is_fifo(), f"{pipe} is no file" in capsys.readouterr().err) == (True, True)


def test_what_cannot_be_used_is_named_with_its_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Ids that come twice, bytes that are no UTF-8, rows of another length: the rest is evaluated."""
    path = tmp_path / "t.csv"
    path.write_bytes(b'id,query,answer\na,q,first\na,q,again\nb,q,caf\xe9\nc,q,"two\nlines"\nd,q\ne,q,last\n')
    out = tmp_path / "o.jsonl"
    assert main(["eval", str(path), "--evaluators", "looping_unique_sentences", "--out", str(out)]) == 1
    assert [row["id"] for row in lines(out)] == ["a", "c", "e"]
    errors = capsys.readouterr().err
    assert "line 3: line 2 has the same id 'a'" in errors
    assert "line 4: the line is not UTF-8" in errors
    assert "line 7: the line has 2 columns, the first line has 3" in errors
    assert "3 rows were scored, 3 unreadable lines were left out" in errors
    assert main(["eval", str(path), "--evaluators", "looping_unique_sentences", "--strict"]) == 2
    assert "line 3" in capsys.readouterr().err


def test_the_lines_of_several_processes(tmp_path: Path) -> None:
    """A packed file, scored by two processes, gives the same lines in the same order, with all fields of a score."""
    many = [{**ROWS[i % 3], "id": i} if i % 3 else {"answer": "Mail jo@acme.io"} for i in range(99)]
    path, packed = jsonl(tmp_path / "in.jsonl", many), tmp_path / "in.jsonl.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    for source, jobs in ((path, "1"), (packed, "2")):
        arguments = ["--evaluators", "groundedness,pii_leakage", "--out", str(tmp_path / jobs), "--jobs", jobs]
        assert main(["eval", str(source), *arguments]) == 0
    assert (tmp_path / "1").read_text() == (tmp_path / "2").read_text()
    rows = lines(tmp_path / "1")
    assert [row["id"] for row in rows[:5]] == [1, 1, 2, 4, 4]
    assert {tuple(row["scores"]) for row in rows} == {("groundedness", "pii_leakage")}
    assert {frozenset(s) for row in rows for s in row["scores"].values()} == {
        frozenset({"value", "label", "explanation", "error"})
    }
    assert [row["scores"]["pii_leakage"]["label"] for row in rows[:3]] == ["fail", "pass", "pass"]
    assert rows[1]["scores"]["groundedness"]["label"] == "pass"


def test_one_id_for_several_models_is_no_double(tmp_path: Path) -> None:
    """A question that several models answered has one row for each of them."""
    rows = [{"id": 1, "answer": "a", "model": m} for m in ("x", "y", "x")]
    assert [isinstance(r, Row) for r in read(jsonl(tmp_path / "r.jsonl", rows))] == [True, True, False]


def test_evaluators_are_chosen_by_what_the_data_has(tmp_path: Path) -> None:
    """Without a name: the default suite, and what references, constraints, steps and labels allow."""
    bare = [r for r in read(jsonl(tmp_path / "a.jsonl", [{"answer": "a"}])) if isinstance(r, Row)]
    assert "faithfulness" not in suitable(bare)
    assert "pii_leakage" in suitable(bare)
    full = [r for r in read(jsonl(tmp_path / "b.jsonl", ROWS)) if isinstance(r, Row)]
    assert {"faithfulness", "context_recall", "answer_similarity", "classification"} <= set(suitable(full))
    assert "tokens_presence" not in suitable(full)
    assert "sexism" not in parse_names("local")
    assert parse_names("default,faithfulness,default").count("faithfulness") == 1


def test_columns_that_are_not_used_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With the evaluators that do not run for lack of them, and the mapping that helps."""
    rows = [{"answer": r["answer"], "frage": r["query"], "ctx": r["contexts"], "note": "x"} for r in ROWS[:2]]
    path = jsonl(tmp_path / "in.jsonl", rows)
    arguments = ["eval", str(path), "--out", str(tmp_path / "o.jsonl"), "--evaluators"]
    assert main([*arguments, "faithfulness,pii_leakage"]) == 1
    errors = capsys.readouterr().err
    assert "these columns are not used: frage, ctx, note" in errors
    assert "none of the first 2 rows has contexts, which faithfulness need. If the column 'ctx' has it" in errors
    assert "--map contexts=ctx" in errors
    assert "faithfulness has no value: 2 rows not applicable" in errors
    assert main([*arguments, "faithfulness,pii_leakage", "--map", "contexts=ctx", "--map", "query=frage"]) == 0
    errors = capsys.readouterr().err
    assert "these columns are not used: note" in errors
    assert "do not run" not in errors


def test_what_the_data_lacks_is_named_for_the_default_suite() -> None:
    """By the input that is lacking, with the column that may hold it: by its name, or where it alone has lists."""
    rows = [row_of({"answer": "a", "question": "q"}, 1)]
    assert "groundedness" in notes((), rows, {})[0]
    assert len(notes((), rows, {})) == 1
    (unused, contexts, reference) = notes((), rows, {"gold_answers": "g", "texts": ["t"]})
    assert unused == "these columns are not used: gold_answers, texts"
    assert contexts.endswith("--map contexts=texts")
    assert "answer_correctness" in reference
    assert reference.endswith("--map reference=gold_answers")
    assert notes(("faithfulness",), rows, {"a": 1, "b": 2})[1].endswith("--map contexts=COLUMN")
    assert notes(("faithfulness",), rows, {"My Docs": 1})[1].endswith("--map 'contexts=My Docs'")
    assert notes(("faithfulness",), rows, {"data": [{"question": "q"}]})[1].endswith("--map contexts=COLUMN")
    assert notes((), [], {}) == []  # no line can be read, and each says why


def test_the_run_ends_with_a_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Rows, mean, share of passes with its interval, failures and time of each evaluator, without perturbed rows."""
    path = jsonl(tmp_path / "in.jsonl", [{**r, "answer": "Mail me: jo@acme.io"} for r in ROWS])
    arguments = ["eval", str(path), "--evaluators", "pii_leakage,tokens_presence", "--jobs", "1"]
    assert main([*arguments, "--perturb", "typos"]) == 1
    shown = [" ".join(line.split()) for line in capsys.readouterr().err.splitlines()]
    assert "evaluator rows mean pass share (95 %) errors not applicable time" in shown
    (line,) = [line for line in shown if line.startswith("pii_leakage ")]
    assert line.startswith("pii_leakage 12 0.000 0.0 % (0.0 to 24.2) 0 0 ")
    assert shown[-1] == "ragtrace eval: tokens_presence has no value: 12 rows not applicable"


@pytest.mark.server
@pytest.mark.usefixtures("judge_settings")
def test_an_evaluator_that_always_fails_is_an_exit_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every row failed at the judge: the command says so with the reason, and ends with 1."""
    path = jsonl(tmp_path / "in.jsonl", ROWS[:3])
    with s.serving(s.status(401, "who are you")) as served:
        monkeypatch.setenv("RAGTRACE_JUDGE_API_BASE", served.url)
        assert main(["eval", str(path), "--evaluators", "sexism,pii_leakage", "--out", str(tmp_path / "o.jsonl")]) == 1
    errors = capsys.readouterr().err
    assert "sexism has no value: 3 rows judge_refused (AuthenticationError" in errors
    assert "pii_leakage has no value" not in errors


def test_evaluators_that_were_chosen_may_suit_no_row(tmp_path: Path) -> None:
    """An evaluator of `default` that applies to no row of the data is no failure of the run."""
    path = jsonl(tmp_path / "in.jsonl", [{"answer": "24 months."}])
    assert main(["eval", str(path), "--evaluators", "default", "--out", str(tmp_path / "o.jsonl")]) == 0


@pytest.mark.parametrize("names", ["syntax:x", "exits:x", "own:refusal,refusal"])
def test_what_cannot_be_loaded_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, names: str
) -> None:
    for name, code in (("syntax", "def"), ("exits", "raise SystemExit(3)"), ("own", "def refusal(trace): return 1.0")):
        (tmp_path / f"{name}.py").write_text(code)
    monkeypatch.syspath_prepend(str(tmp_path))
    path = jsonl(tmp_path / "in.jsonl", ROWS[:1])
    assert main(["eval", str(path), "--evaluators", names, "--out", str(tmp_path / "o.jsonl")]) == 2
    assert ("more than once" if "," in names else "cannot be imported") in capsys.readouterr().err


def test_scores_of_other_names_are_values(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An evaluator may give several scores, none of its own name; a new version evaluates all rows again."""
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "several.py").write_text("from ragtrace.records import Score\ndef two(trace): return [Score('a', 1.0)]")
    path = jsonl(tmp_path / "in.jsonl", ROWS[:1])
    assert main(["eval", str(path), "--evaluators", "several:two", "--out", str(tmp_path / "o.jsonl")]) == 0
    plan, check = Plan(path=path, names=("several:two",)), plugins.load("several:two")
    for version in ("1", "2"):
        checks = {"x": replace(check, version=version)}
        _checkpoint(plan, checks, settings.load(), tmp_path / version).close(remove=False)
    assert (tmp_path / "1.part").read_text() != (tmp_path / "2.part").read_text()


@pytest.mark.process
def test_a_run_that_was_killed_goes_on(tmp_path: Path) -> None:
    """After kill -9 the same command evaluates only what was not done, and the output is that of one run."""
    path = jsonl(tmp_path / "in.jsonl", [{**ROWS[0], "id": i} for i in range(100)])
    slow, calls = "tests.rescore.checks:slow", tmp_path / "calls.txt"
    command = ragtrace("eval", str(path), "--evaluators", slow, "--out", "out.jsonl", "--jobs", "1")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "RESCORE_CALLS": str(calls)}
    first = subprocess.Popen(command, cwd=tmp_path, env=environment, stderr=subprocess.DEVNULL)
    part = tmp_path / "out.jsonl.part"
    until(lambda: part.is_file() and part.read_bytes().count(b"\n") > 20)
    first.send_signal(signal.SIGKILL)
    first.wait()
    done = part.read_bytes().count(b"\n") - 1
    assert 16 <= done < 100
    assert not (tmp_path / "out.jsonl").exists()
    with part.open("ab") as file:
        file.write(b'{"id": 99, "sco')  # what a kill in the middle of a line leaves
    second = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert second.returncode == 0, second.stderr
    assert f"100 rows were scored ({done} of them in an earlier run)" in second.stderr
    assert [row["id"] for row in lines(tmp_path / "out.jsonl")] == list(range(100))
    assert len(set(calls.read_text().split())) == 100
    assert len(calls.read_text().split()) <= 100 + 16  # at most the batch that was under way is done twice
    assert not list(tmp_path.glob("out.jsonl.*"))


def test_another_run_does_not_go_on_with_this_ones_part(tmp_path: Path) -> None:
    """Other evaluators, settings or rows begin anew; so does --fresh."""
    path = jsonl(tmp_path / "in.jsonl", ROWS[:2])
    part = tmp_path / "out.jsonl.part"
    part.write_text(json.dumps({"run": "another"}) + "\n" + json.dumps({"id": "r0", "scores": {}}) + "\n")
    assert main(["eval", str(path), "--evaluators", "pii_leakage", "--out", str(tmp_path / "out.jsonl")]) == 0
    assert all(row["scores"] for row in lines(tmp_path / "out.jsonl"))
    folder = run_id(tmp_path, None)  # a folder whose files were written again
    os.utime(path, (0, 0))
    assert run_id(tmp_path, None) != folder


@pytest.mark.server
@pytest.mark.usefixtures("judge_settings")
def test_the_judge_is_not_paid_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was asked before a stop is not asked again, in a batch that was lost neither; the report has its cost."""
    path = jsonl(tmp_path / "in.jsonl", ROWS)
    good = s.says('{"answer_fails": false, "context_fails": false, "reason": ""}')
    with s.serving(*[good] * 5, s.status(401)) as served:
        monkeypatch.setenv("RAGTRACE_JUDGE_API_BASE", served.url)
        monkeypatch.setenv("RAGTRACE_JUDGE_STORE", str(tmp_path / "judge.db"))
        arguments = ["eval", str(path), "--evaluators", "sexism", "--out", str(tmp_path / "o.jsonl"), "--fresh"]
        assert main([*arguments]) == 0
        assert len(served.requests) == 12
        served.behaviours = [good]
        assert main([*arguments, "--report", str(tmp_path / "report")]) == 0
        assert len(served.requests) == 12 + 7
    assert all(row["scores"]["sexism"]["value"] == 1.0 for row in lines(tmp_path / "o.jsonl"))
    run = read_run(tmp_path / "report")
    assert sum(row.scores["sexism"].cost for row in run.results) == pytest.approx(7 * 110e-6)


@pytest.mark.server
@pytest.mark.usefixtures("judge_settings")
def test_processes_have_one_budget(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two processes, no file, and money for three questions: three are asked, and the settings are as before."""
    path = jsonl(tmp_path / "in.jsonl", ROWS * 4)
    monkeypatch.setenv("RAGTRACE_JUDGE_MAX_TOKENS", "100")
    monkeypatch.setenv("RAGTRACE_JUDGE_BUDGET_HOUR", "0.00035")
    monkeypatch.setenv("RAGTRACE_MODEL_PRICES", "openai/x=0/1")
    good = s.says('{"answer_fails": false, "context_fails": false, "reason": ""}', tokens=(100, 100))
    with s.serving(good) as served:
        monkeypatch.setenv("RAGTRACE_JUDGE_API_BASE", served.url)
        main(["eval", str(path), "--evaluators", "sexism", "--jobs", "2"])
    scores = [json.loads(line)["scores"]["sexism"] for line in capsys.readouterr().out.splitlines()]
    assert len(served.requests) == 3
    assert [score["error"] for score in scores].count(None) == 3
    assert not settings.load().judge_ledger


@pytest.mark.server
def test_a_judge_that_cannot_be_asked_is_said_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without a model, a price or a key: one message, exit code 2, no row touched, no file left."""
    pytest.importorskip("litellm", reason="litellm is not installed: pip install 'ragtrace-otel[judge]'")
    path = jsonl(tmp_path / "in.jsonl", ROWS)
    arguments = ["eval", str(path), "--evaluators", "sexism,pii_leakage", "--out", str(tmp_path / "o.jsonl")]
    assert main(arguments) == 2
    assert "judge_model is not set" in capsys.readouterr().err
    assert main([*arguments, "--judge", "gpt-4o-mini"]) == 2
    assert "OPENAI_API_KEY" in capsys.readouterr().err
    assert main([*arguments, "--judge", "openai/unheard-of"]) == 2
    assert "model_prices" in capsys.readouterr().err
    assert [p.name for p in tmp_path.iterdir() if p.suffix != ".judge"] == ["in.jsonl"]


def test_gates(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A mean worse than the limit gives exit code 3 and says by how much; lower is better where it is."""
    path = jsonl(tmp_path / "in.jsonl", ROWS)
    arguments = ["eval", str(path), "--evaluators", "faithfulness,hallucination", "--out", str(tmp_path / "o.jsonl")]
    assert main([*arguments, "--fail-under", "faithfulness=0.1", "--fail-under", "hallucination=0.9"]) == 0
    assert main([*arguments, "--fail-under", "faithfulness=0.999"]) == 3
    assert "below 0.999" in capsys.readouterr().err
    assert main([*arguments, "--fail-under", "hallucination=0.0001"]) == 3
    assert "above 0.0001" in capsys.readouterr().err
    assert main([*arguments, "--fail-under", "ragtrace.evaluate.groundedness:faithfulness=0.999"]) == 3
    assert "below 0.999" in capsys.readouterr().err
    (tmp_path / "a file").touch()
    assert main([*arguments, "--report", str(tmp_path / "a file")]) == 2
    assert "a file cannot be a folder" in capsys.readouterr().err
    assert main([*arguments, "--fail-under", "faithfulness=0.1", "--fail-under", "faithfulness=67%"]) == 3
    assert "faithfulness: 4 of 6 rows of small pass, fewer than 67 %" in capsys.readouterr().err


def test_calibrated_thresholds_hold_here_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = jsonl(tmp_path / "d.jsonl", [{"query": "q", "answer": "Paris in May.", "contexts": ["Paris in June."]}])
    check = plugins.load("groundedness_lexical")
    file, out = tmp_path / "c.json", tmp_path / "out"
    monkeypatch.setenv("RAGTRACE_CALIBRATION_FILE", str(file))
    labels = []
    for threshold in (0.0, 1.0):
        save(file, [Calibrated(check.name, check.version, 2, threshold, check.direction, 1.0)])
        assert main(["eval", str(data), "--evaluators", check.name, "--out", str(out)]) == 0
        labels.append(lines(out)[0]["scores"][check.name]["label"])
    assert labels == ["pass", "fail"]


@pytest.mark.parametrize("targets", [{"--out": "in"}, {"--junit": "in"}, {"--out": "x", "--junit": "x"}])
def test_no_file_is_written_over(targets: dict[str, str], tmp_path: Path) -> None:
    """Neither the data set nor what the command writes itself."""
    path = jsonl(tmp_path / "in", ROWS)
    before = path.read_bytes()
    (tmp_path / "results.json").hardlink_to(path)
    assert main(["eval", str(tmp_path / "results.json"), "--out", str(tmp_path / "o"), "--report", str(tmp_path)]) == 2
    assert main(["eval", str(path), *(str(o) for k, v in targets.items() for o in (k, tmp_path / v))]) == 2
    assert main(["rescore", str(path), "--out", str(path)]) == 2
    assert path.read_bytes() == before


def test_a_gate_of_an_evaluator_that_is_not_selected(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An evaluator that only --fail-under names is evaluated, beside those that are named and those of `auto`."""
    path = jsonl(tmp_path / "in.jsonl", ROWS)
    gate = ["--fail-under", "looping_unique_sentences=0.5"]
    assert main(["eval", str(path), "--evaluators", "pii_leakage", *gate, "--out", str(tmp_path / "o")]) == 0
    assert set(lines(tmp_path / "o")[0]["scores"]) == {"pii_leakage", "looping_unique_sentences"}
    path = jsonl(tmp_path / "in.jsonl", [{"answer": "a"}])
    assert main(["eval", str(path), "--fail-under", "faithfulness=0.5", "--out", str(tmp_path / "o")]) == 3
    assert "faithfulness: no value for (no model)" in capsys.readouterr().err


@pytest.mark.parametrize(("gate", "message"), rows(__file__, "a_wrong_gate_is_refused_before_any_row"))
def test_a_wrong_gate_is_refused_before_any_row(
    gate: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line says what is wrong; the exit code is 2, and no row is evaluated."""
    path = jsonl(tmp_path / "in.jsonl", ROWS)
    assert main(["eval", str(path), "--fail-under", gate, "--out", str(tmp_path / "o")]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert not (tmp_path / "o").exists()


def test_a_file_without_rows_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An empty file, and a table with column names alone, are refused in one line: nothing would be measured."""
    for name, text in (("in.jsonl", ""), ("in.csv", "query,answer\n")):
        (tmp_path / name).write_text(text)
        assert main(["eval", str(tmp_path / name), "--out", str(tmp_path / "o")]) == 2
        error = capsys.readouterr().err
        assert f"{name} has no rows" in error
        assert error.count("\n") == 1


def test_an_evaluator_without_its_packages_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without the embedded models, one line names the evaluators and the command that installs them."""
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    path = jsonl(tmp_path / "in.jsonl", ROWS)
    assert main(["eval", str(path), "--evaluators", "faithfulness,pii_leakage", "--out", str(tmp_path / "o")]) == 2
    error = capsys.readouterr().err
    assert error.startswith("ragtrace: evaluators names faithfulness, for which these packages are not installed")
    assert "pip install 'ragtrace-otel[models]'" in error


def test_junit_has_what_was_evaluated(tmp_path: Path) -> None:
    """`--junit FILE` has a suite for each evaluator with a case for each row, and one for the gates."""
    path, junit = jsonl(tmp_path / "in.jsonl", ROWS), tmp_path / "junit.xml"
    arguments = ["--evaluators", "looping_unique_sentences,pii_leakage", "--fail-under", "pii_leakage=100%"]
    assert main(["eval", str(path), *arguments, "--out", str(tmp_path / "o"), "--junit", str(junit)]) == 0
    suites = {suite.get("name"): len(suite.findall("testcase")) for suite in ElementTree.parse(junit).getroot()}
    assert suites == {"looping_unique_sentences": 12, "pii_leakage": 12, "fail-under": 2}


def test_a_report_and_a_comparison(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The folder has the three files; perturbed rows show flips; the comparison tells better from worse."""
    pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install 'ragtrace-otel[eval]'")
    for name, changed in (
        ("a", [{**r, "answer": "Nobody covers any pump after the first storm of May."} for r in ROWS]),
        ("b", [{**r, "answer": r["contexts"][0]} for r in ROWS]),
    ):
        path = jsonl(tmp_path / f"{name}.jsonl", changed)
        arguments = ["--out", str(tmp_path / f"{name}.out"), "--report", str(tmp_path / name), "--evaluators", NAMES]
        assert main(["eval", str(path), *arguments, "--perturb", "typos,chunk_order"]) == 0
    assert {p.name for p in (tmp_path / "a").iterdir()} == {"results.parquet", "results.json", "report.html"}
    page = (tmp_path / "a" / "report.html").read_text(encoding="utf-8")
    assert "faithfulness" in page
    assert "<script" not in page
    run = read_run(tmp_path / "a")
    assert {row.perturbation for row in run.results} == {None, "typos", "chunk_order"}
    assert {row.model for row in run.results} == {"big", "small"}
    capsys.readouterr()
    assert main(["compare", str(tmp_path / "a"), str(tmp_path / "b")]) == 0
    output_text = capsys.readouterr().out
    assert "faithfulness" in output_text
    assert "better" in output_text
    assert main(["compare", str(tmp_path / "a"), str(tmp_path / "nowhere")]) == 2
    assert "is not a run" in capsys.readouterr().err
