"""JUnit's XML of a run: valid by the schema, with the right kind of result for each row."""

from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from ragtrace.batch.reporting.gates import gate_results, parse_gate
from ragtrace.batch.reporting.junit import write_junit
from ragtrace.batch.reporting.results import EvaluationRun, Result
from ragtrace.errors import DataError
from ragtrace.records import Score
from tests.reporting.runs import FAITHFULNESS, big, run
from tests.row_files import table

SCHEMA = Path(__file__).parents[1] / "schemas" / "junit.xsd"
SCORES = {name: Score("faithfulness", **fields) for name, fields in table(__file__, "scores").items()}


def of_each_kind() -> EvaluationRun:
    return run([Result(name, "q", "a\ud800", scores={"faithfulness": score}) for name, score in SCORES.items()])


def written(run_: EvaluationRun, path: Path, *gates: str) -> ElementTree.Element:
    write_junit(run_, gate_results(run_, [parse_gate("--fail-under", gate) for gate in gates]), path)
    return ElementTree.parse(path).getroot()


def test_each_row_has_its_kind_of_result(tmp_path: Path) -> None:
    """A fail is a failure, a refusal or what does not apply is skipped, a failed evaluator is an error; all count."""
    (suite,) = written(of_each_kind(), tmp_path / "new" / "junit.xml")
    kinds = {case.get("name"): [child.tag for child in case] for case in suite.iter("testcase")}
    expected = {"good": [], "bad": ["failure"], "refused": ["skipped"], "without chunks": ["skipped"]}
    assert kinds == {**expected, "broken": ["error"]}
    assert [suite.get(n) for n in ("tests", "failures", "errors", "skipped")] == ["5", "1", "1", "2"]
    (failure,) = suite.iter("failure")
    assert failure.get("message") == "faithfulness is 0.100, wanted ≥ 0.75"
    assert "It says <72> & more\N{REPLACEMENT CHARACTER}" in (failure.text or "")


def test_the_gates_are_a_suite(tmp_path: Path) -> None:
    """The file says of each gate whether it is met, as the exit code does."""
    root = written(of_each_kind(), tmp_path / "junit.xml", "faithfulness=0.4", "faithfulness=60%")
    suite = root.find("testsuite[@name='fail-under']")
    results = {case.get("name"): [child.get("message") for child in case] for case in suite.iter("testcase")}
    wanted = "faithfulness: 1 of 2 rows of (no model) pass, fewer than 60 %"
    error = "faithfulness: 1 of 5 rows of (no model) have no score (TimeoutError: 1)"
    assert results == {"faithfulness=0.4": [error], "faithfulness=60%": [wanted]}


@pytest.mark.parametrize("kind", ["each kind", "a large run", "no rows"])
def test_the_file_is_valid(kind: str, tmp_path: Path) -> None:
    """The file is valid by the schema of Apache Ant's JUnit task, which CI systems read."""
    xmlschema = pytest.importorskip("xmlschema", reason="xmlschema is not installed: pip install xmlschema")
    run_ = {"each kind": of_each_kind(), "a large run": big(), "no rows": run([])}[kind]
    written(run_, tmp_path / "junit.xml", "faithfulness=0.9")
    xmlschema.XMLSchema(str(SCHEMA)).validate(str(tmp_path / "junit.xml"))


def test_models_are_told_apart(tmp_path: Path) -> None:
    """Rows with the same id of two models are two cases, in classes named after the models."""
    results = [Result("r", "q", "a", model=m, scores={"faithfulness": SCORES["good"]}) for m in ("a", "b")]
    results.append(replace(results[0], id="p", perturbation="case", original="r"))
    root = written(run(results, FAITHFULNESS), tmp_path / "junit.xml")
    assert [case.get("classname") for case in root.iter("testcase")] == ["faithfulness.a", "faithfulness.b"]


def test_a_file_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match=r"junit\.xml cannot be written: "):
        write_junit(of_each_kind(), [], tmp_path / "file" / "junit.xml")
