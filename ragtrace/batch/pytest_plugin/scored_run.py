"""What all tests of a run measured: the table at its end, and the report that `ragtrace eval` writes of a data set."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ragtrace._version import __version__
from ragtrace.base import terminal
from ragtrace.batch.reporting.files import metric_from_dict, result_from_dict, write_run
from ragtrace.batch.reporting.results import EvaluationRun, Info, Metric
from ragtrace.batch.table import RunFigures
from ragtrace.errors import RagtraceError

Answers = Sequence[Mapping[str, Any]]
"""What `check_answer` keeps, each with the name of its test."""


def table_lines(answers: Answers) -> list[str]:
    """The table of evaluators. A row passes where it meets the test's limit."""
    figures = RunFigures(())
    for answer in answers:
        figures.add(result_from_dict(answer["row"]).scores)
        figures.add_time(answer["seconds"])
    return figures.lines(terminal.width())


def scored_run(answers: Answers) -> EvaluationRun:
    """The answers as a run with a row each, whose id is the name of the test. A metric's threshold is the limit of the
    tests where all have the same, and otherwise none."""
    metrics: dict[str, Metric] = {}
    limits: defaultdict[str, set[float | None]] = defaultdict(set)
    count: Counter[str] = Counter()
    rows = []
    for answer in answers:
        test = answer["test"]
        count[test] += 1
        id = test if count[test] == 1 else f"{test} #{count[test]}"
        rows.append(replace(result_from_dict(answer["row"]), id=id))
        for metric in map(metric_from_dict, answer["metrics"]):
            metrics[metric.name] = metric
            limits[metric.name].add(metric.threshold)
    metrics = {name: m if len(limits[name]) == 1 else replace(m, threshold=None) for name, m in metrics.items()}
    return EvaluationRun(tuple(rows), metrics, Info(file="pytest", version=__version__))


def write_folder(run: EvaluationRun, folder: str) -> str:
    """Write the report into a folder. Returns where it is, or why it could not be written."""
    from ragtrace.batch.reporting.analysis import analyse
    from ragtrace.batch.reporting.html import write_report

    try:
        analysis = analyse(run)
        write_run(run, folder, analysis)
        return f"the report is {write_report(analysis, folder)}"
    except (RagtraceError, OSError) as error:
        return f"the report {folder} cannot be written: {error}"
