"""Evaluates an answer in a test, and says what is wrong with it."""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ragtrace import plugins
from ragtrace.base.rows import field_of
from ragtrace.batch.reporting.files import metric_as_dict, result_as_dict
from ragtrace.batch.reporting.gates import check_limit
from ragtrace.batch.reporting.results import Metric, Result, metric_of
from ragtrace.batch.reporting.score_text import detail_lines, problem_text
from ragtrace.capture.plain_values import documents_of
from ragtrace.errors import SettingError
from ragtrace.evaluate.judge import deadline, get_judge
from ragtrace.evaluation import Evaluator, under
from ragtrace.live import requirements
from ragtrace.live.memory_recorder import evaluate_now
from ragtrace.records import Facts, Score, Trace, has_input
from ragtrace.settings import Settings, load

_NAME = "assert_scores"


def answer_trace(
    answer: object,
    contexts: object,
    *,
    query: object = "",
    reference: str | None = None,
    constraints: object = None,
    steps: Sequence[Any] = (),
) -> Trace:
    """The answer as a trace. Raises SettingError for an answer, a query or a reference that is no text, and for
    contexts that are a text or cannot be read."""
    for name, value in (("answer", answer), ("query", query), ("reference", "" if reference is None else reference)):
        if not isinstance(value, str):
            raise SettingError(f"{_NAME}: {name} is a {type(value).__name__}; give its text")
    if not isinstance(contexts, Sequence) or isinstance(contexts, str):
        raise SettingError(f"{_NAME}: contexts is a {type(contexts).__name__}; give a list of texts or documents")
    documents = documents_of(contexts)
    if len(documents) < len(contexts):
        raise SettingError(f"{_NAME}: only {len(documents)} of {len(contexts)} contexts are texts or documents")
    attributes = {} if constraints is None else {"constraints": constraints}
    return Trace(
        trace_id=1, span_id=1, query=str(query), documents=tuple(documents), answer=str(answer), reference=reference,
        attributes=attributes, facts=Facts(steps=tuple(steps)),
    )  # fmt: skip


def check_answer(trace: Trace, limits: Mapping[str, float], keep: Callable[[dict[str, Any]], None]) -> list[str]:
    """Evaluate the trace: the lines that say what is wrong with it; none if every limit is met.

    `limits` are values by evaluator, or True for an evaluator's own threshold. `keep` is called with what was measured,
    as JSON can hold it. Raises SettingError for a limit, an evaluator or a judge that cannot be used."""
    checks = _checks(limits, load())
    scores, seconds = _evaluate(trace, checks)
    row = Result(
        "", trace.query, trace.answer, tuple(d.content for d in trace.documents), trace.reference, scores=scores
    )
    metrics = {check.name: metric_of(check) for check in checks}
    keep(
        {
            "row": result_as_dict(row),
            "metrics": [metric_as_dict(metric) for metric in metrics.values()],
            "values": {name: score.value for name, score in scores.items() if score.value is not None},
            "seconds": seconds,
        }
    )
    return [line for check in checks for line in _problem_lines(check, metrics[check.name], trace, row)]


def _checks(limits: Mapping[str, float], settings: Settings) -> list[Evaluator]:
    if not limits:
        raise SettingError(f"{_NAME} names no evaluator; give at least one, e.g. faithfulness=0.8")
    checks = plugins.load_all(limits, settings)
    if absent := requirements.missing(checks, settings):
        raise SettingError(requirements.explain(absent))
    if any(check.asks_judge for check in checks):
        get_judge(settings)
    return [_with_limit(check, limit) for check, limit in zip(checks, limits.values(), strict=True)]


def _with_limit(check: Evaluator, limit: object) -> Evaluator:
    if limit is True:
        return check
    if isinstance(limit, bool) or not isinstance(limit, (int, float)):
        raise SettingError(f"{_NAME}: {check.name}={limit!r} is no limit; give a number, or True for its own threshold")
    check_limit(_NAME, check, float(limit))
    return replace(check, threshold=float(limit))


def _evaluate(trace: Trace, checks: Sequence[Evaluator]) -> tuple[dict[str, Score], dict[str, float]]:
    scores: dict[str, Score] = {}
    seconds: dict[str, float] = {}
    for check in checks:
        start = time.monotonic()
        with deadline(math.inf):  # nobody waits: a question to the judge may wait for room in the budget
            evaluation = evaluate_now(trace, [check])
        seconds[check.name] = time.monotonic() - start
        scores.update((score.name, under(check, score)) for score in evaluation.scores)
    return scores, seconds


def _problem_lines(check: Evaluator, metric: Metric, trace: Trace, row: Result) -> list[str]:
    score = row.scores.get(check.name)
    if score is None:
        return [f"{check.name} has no value: the evaluator gave scores of other names only, {', '.join(row.scores)}"]
    absent = [field_of(name) for name in sorted(check.needs) if not has_input(trace, name)]
    if absent:
        return [f"{check.name} has no value: it needs {', '.join(absent)}, but {_NAME} got none"]
    problem = problem_text(score, metric)
    if not problem and metric.threshold is None and score.label is None:
        problem = f"{check.name} has no threshold of its own: give a limit instead of True"
    return [problem, *(f"  {line}" for line in detail_lines(score, row))] if problem else []
