"""pytest's plugin of ragtrace: reviewed logs as cases, `assert_scores`, requests in memory, and a report of all scores.

pytest loads it where ragtrace is installed, so importing it loads nothing else; docs/testing.md shows its use.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from ragtrace.batch.pytest_plugin.reviewed_logs import ReviewedCase
    from ragtrace.evaluation import Evaluator
    from ragtrace.live.memory_recorder import Recording

__all__ = ["ReviewedCase", "assert_scores"]

_answers: list[dict[str, Any]] = []
"""What `assert_scores` measured since the last report of pytest, as `check_answer` gives it."""


def assert_scores(
    answer: str, contexts: Sequence[Any] = (), *, query: str = "", reference: str | None = None,
    constraints: object = None, steps: Sequence[Any] = (), **limits: float,
) -> None:  # fmt: skip
    """Evaluate an answer and fail unless each named evaluator gives a value within its limit.

    `assert_scores(answer, contexts, faithfulness=0.8, toxicity=0.1)`: a limit is the least value where higher is
    better, and the greatest where lower is; True stands for the evaluator's own threshold. `contexts` are texts, or
    documents of ragtrace, LangChain or LlamaIndex, in rank order. Evaluators of your own:
    `**{"myapp.checks:cites": True}`.

    Raises AssertionError with the evaluator, its value, the limit, the explanation and the worst sentences of the
    answer; also where there is no value, e.g. for a refusal. Raises SettingError for an unknown evaluator, missing
    packages and a limit outside of the evaluator's range.
    """
    __tracebackhide__ = True
    from ragtrace.batch.pytest_plugin.score_assertions import answer_trace, check_answer
    from ragtrace.errors import RagtraceError

    try:
        trace = answer_trace(answer, contexts, query=query, reference=reference, constraints=constraints, steps=steps)
        problems = check_answer(trace, limits, _answers.append)
    except RagtraceError as error:
        raise error.with_traceback(None) from None  # pytest shows the line of the test
    if problems:
        raise AssertionError("\n".join(problems))


def __getattr__(name: str) -> Any:
    if name == "ReviewedCase":
        from ragtrace.batch.pytest_plugin.reviewed_logs import ReviewedCase

        return ReviewedCase
    raise AttributeError(f"module 'ragtrace.pytest' has no attribute {name!r}")


@pytest.fixture
def ragtrace_evaluators() -> Sequence[str | Evaluator]:
    """The evaluators of `ragtrace_recording`: none, unless a test file or conftest.py has a fixture of this name."""
    return ()


@pytest.fixture
def ragtrace_recording(ragtrace_evaluators: Sequence[str | Evaluator]) -> Iterator[Recording]:
    """The test's requests in memory: `spans`, `traces`, `scores` and `feedback`. See `ragtrace.testing.record`."""
    from ragtrace.live.memory_recorder import record

    with record(ragtrace_evaluators) as recording:
        yield recording


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of the plugin."""
    group = parser.getgroup("ragtrace", "ragtrace: scores of answers")
    logs = "reviewed logs, a case of each test with the argument ragtrace_log: a store, or a file of `ragtrace export`"
    group.addoption("--ragtrace-logs", metavar="SOURCE", help=logs)
    parser.addini("ragtrace_logs", f"{logs}; a relative path starts at the root folder", default="")
    files = "report.html, results.json and results.parquet, which `ragtrace compare` reads"
    report = f"write what assert_scores measured to this folder: {files}"
    group.addoption("--ragtrace-report", metavar="FOLDER", help=report)


def pytest_configure(config: pytest.Config) -> None:
    """Register the summary. Raises UsageError where the packages for the report are not installed."""
    if config.getoption("--ragtrace-report"):
        from ragtrace.errors import MissingExtraError, require

        try:
            for module in ("pyarrow", "jinja2", "numpy"):
                require(module, "eval", "--ragtrace-report")
        except MissingExtraError as error:
            raise pytest.UsageError(str(error)) from None
    config.pluginmanager.register(_ScoreSummary(), "ragtrace_score_summary")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Make each reviewed log a case of a test with the argument `ragtrace_log`."""
    if "ragtrace_log" not in metafunc.fixturenames:
        return
    from ragtrace.batch.pytest_plugin.reviewed_logs import logs_of
    from ragtrace.errors import RagtraceError

    try:
        logs = logs_of(metafunc.config)
    except RagtraceError as error:
        raise pytest.Collector.CollectError(f"ragtrace_log: {error}") from None
    metafunc.parametrize("ragtrace_log", logs, ids=[log.id for log in logs])


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """Put the scores into the test's report, which pytest-xdist brings to the process that shows them, and into the
    test's properties, which `pytest --junitxml` writes."""
    answers = [{**answer, "test": item.nodeid} for answer in _answers]
    _answers.clear()
    item.user_properties += [
        (f"ragtrace.{name}", value) for answer in answers for name, value in answer["values"].items()
    ]
    outcome: Any = yield
    if answers:
        outcome.get_result().ragtrace_answers = [json.dumps(answer) for answer in answers]


class _ScoreSummary:
    """The scores of all tests: a table at the end of the run, and the report."""

    def __init__(self) -> None:
        self._answers: list[Mapping[str, Any]] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep what a test measured, in this process or in one of pytest-xdist."""
        self._answers += map(json.loads, getattr(report, "ragtrace_answers", ()))

    def pytest_terminal_summary(self, terminalreporter: Any, config: pytest.Config) -> None:
        """Show the table, and write the report where it is wanted."""
        folder = config.getoption("--ragtrace-report")
        if not self._answers:
            if folder:
                terminalreporter.write_line("ragtrace: no test called assert_scores, so no report is written")
            return
        from ragtrace.batch.pytest_plugin.scored_run import scored_run, table_lines, write_folder

        terminalreporter.section("ragtrace scores")
        for line in table_lines(self._answers):
            terminalreporter.write_line(line)
        if folder:
            terminalreporter.write_line(f"ragtrace: {write_folder(scored_run(self._answers), folder)}")
