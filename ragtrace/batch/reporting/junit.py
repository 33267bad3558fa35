"""A run as JUnit's XML, which CI systems show: a suite for each evaluator, and in it a test case for each row.

A row that fails the evaluator's threshold is a failure, a row at which the evaluator failed an error; a row to which it
does not apply, and a refusal, are skipped. The gates (`--fail-under`) are a suite of their own. The file is valid by
the schema of Apache Ant's JUnit task (https://github.com/windyroad/JUnit-Schema)."""

import platform
import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from xml.etree import ElementTree

from ragtrace.batch.reporting.files import replacing
from ragtrace.batch.reporting.gates import GateResult
from ragtrace.batch.reporting.results import FAIL, PASS, EvaluationRun, Metric, Result
from ragtrace.batch.reporting.score_text import detail_lines, problem_text
from ragtrace.errors import DataError
from ragtrace.records import Score

_NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 cannot hold."""


def write_junit(
    run: EvaluationRun, gates: Sequence[GateResult], path: Path, seconds: Mapping[str, float] | None = None
) -> None:
    """Write a run to `path`. `seconds` is what each evaluator took. Rows that are perturbed are left out.

    The file appears complete or not at all. Raises DataError if it cannot be written."""
    root = ElementTree.Element("testsuites")
    for metric in run.metrics.values():
        cases = [_row_case(metric, row) for row in run.originals() if metric.name in row.scores]
        _add_suite(root, metric.name, cases, run, (seconds or {}).get(metric.name, 0.0))
    if gates:
        _add_suite(root, "fail-under", [_gate_case(result) for result in gates], run, 0.0)
    text = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as part:
            part.write_bytes(text)
    except OSError as error:
        raise DataError(f"{path} cannot be written: {error.strerror or error}") from error


def _add_suite(
    root: ElementTree.Element, name: str, cases: Sequence[ElementTree.Element], run: EvaluationRun, seconds: float
) -> None:
    counts = {kind: sum(case.find(kind) is not None for case in cases) for kind in ("failure", "error", "skipped")}
    started = time.gmtime(run.info.started or 0.0)
    suite = ElementTree.SubElement(
        root, "testsuite", name=name, package="ragtrace", id=str(len(root)),
        timestamp=time.strftime("%Y-%m-%dT%H:%M:%S", started), hostname=platform.node() or "localhost",
        tests=str(len(cases)), failures=str(counts["failure"]), errors=str(counts["error"]),
        skipped=str(counts["skipped"]), time=f"{seconds:.3f}",
    )  # fmt: skip
    properties = ElementTree.SubElement(suite, "properties")
    pairs = {"file": run.info.file, "ragtrace": run.info.version}
    if (metric := run.metrics.get(name)) is not None:
        pairs |= {"version": metric.version, "condition": metric.condition}
    for key, value in pairs.items():
        ElementTree.SubElement(properties, "property", name=key, value=_xml_text(value))
    suite.extend(cases)
    ElementTree.SubElement(suite, "system-out")
    ElementTree.SubElement(suite, "system-err")


def _row_case(metric: Metric, row: Result) -> ElementTree.Element:
    score = row.scores[metric.name]
    case = _case(".".join(filter(None, (metric.name, row.model))), row.id)
    problem = problem_text(score, metric)
    if score.error is None and score.value is None and score.label not in (PASS, FAIL):
        ElementTree.SubElement(case, "skipped")
    elif problem:
        _add_problem(case, score, problem, "\n".join([problem, *detail_lines(score, row)]))
    return case


def _add_problem(case: ElementTree.Element, score: Score, problem: str, text: str) -> None:
    kind = "failure" if score.error is None else "error"
    element = ElementTree.SubElement(
        case, kind, message=_xml_text(problem), type=_xml_text(score.error or score.label or "fail")
    )
    element.text = _xml_text(text)


def _gate_case(result: GateResult) -> ElementTree.Element:
    case = _case(".".join(filter(None, ("fail-under", result.model))), result.gate.text)
    if result.problem:
        _add_problem(case, Score(result.gate.name), result.problem, result.problem)
    return case


def _case(classname: str, name: str) -> ElementTree.Element:
    return ElementTree.Element("testcase", classname=_xml_text(classname), name=_xml_text(name), time="0")


def _xml_text(text: str) -> str:
    return _NO_XML.sub("\N{REPLACEMENT CHARACTER}", text)
