"""What a score says, as text for a failed test: the value, the wanted one, the explanation, and the evidence."""

from collections.abc import Iterator

from ragtrace.batch.reporting.formats import clip, number
from ragtrace.batch.reporting.results import FAIL, PASS, Metric, Result
from ragtrace.batch.reporting.views import badness
from ragtrace.evaluation import NOT_APPLICABLE
from ragtrace.records import Evidence, Score

_SENTENCES = 3
_CHARS = 300
"""Characters of a sentence, a passage and an explanation that are shown."""


def problem_text(score: Score, metric: Metric) -> str:
    """Why a score is no pass, in one line: `faithfulness is 0.120, wanted ≥ 0.8`. Empty for a pass, and for a value
    with neither a verdict nor a threshold. A refusal and a score that failed are no pass."""
    condition = f", wanted {metric.condition}" if metric.threshold is not None else ""
    if score.error is not None:
        return f"{metric.name} has no value: the evaluator failed with {score.error}"
    if score.label == PASS:
        return ""
    if score.label == NOT_APPLICABLE:
        return f"{metric.name} has no value: it does not apply to this answer"
    if score.value is None:
        return f"{metric.name} has no value{condition}: its verdict is {score.label}"
    if score.label == FAIL or metric.meets(score.value) is False:
        return f"{metric.name} is {number(score.value)}{condition or ', which fails'}"
    return ""


def detail_lines(score: Score, row: Result) -> list[str]:
    """The explanation of a score, and the three worst sentences of the answer that its evidence does not support, each
    with the closest passage."""
    lines = [clip(score.explanation, _CHARS)] if score.explanation else []
    for one in sorted(score.evidence, key=badness)[:_SENTENCES]:
        if one.verdict != "supported":
            lines += _evidence_lines(one, row)
    return lines


def _evidence_lines(one: Evidence, row: Result) -> Iterator[str]:
    share = "" if one.probability is None else f" (probability of support {one.probability:.2f})"
    yield f"{one.verdict}{share}: “{clip(row.answer[max(0, one.start) : one.end], _CHARS)}”"
    rank, start, end = one.document_rank, one.document_start, one.document_end
    if rank is not None and start is not None and end is not None and 0 <= rank < len(row.contexts):
        yield f"  closest passage, in contexts[{rank}]: “{clip(row.contexts[rank][max(0, start) : end], _CHARS)}”"
