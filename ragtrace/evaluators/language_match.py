"""Whether the answer is in the question's language."""

from __future__ import annotations

import math

from ragtrace.evaluation import evaluator
from ragtrace.evaluators.arithmetic import failures
from ragtrace.records import Score, Trace

_SURE = 0.5
_READ = 1_000
_AGREE = 0.1
"""From dev, where it gives the highest F1."""
_CLOSE = (
    frozenset({"hr", "bs", "sr", "sh", "me"}),
    frozenset({"id", "ms"}),
    frozenset({"no", "nb", "nn"}),
    frozenset({"zh", "yue", "wuu"}),
    frozenset({"pt", "gl"}),
)
"""Languages that short texts do not tell apart."""


@evaluator(
    needs={"query", "answer"},
    threshold=0.5,
    method="model",
    source="H2O Eval Studio, Language Mismatch Evaluator; by identification instead of a judge",
)
def language_mismatch(trace: Trace) -> Score | None:
    """Whether question and answer are in the same language: 1 (pass) or 0 (fail).

    The retrieval fails where the chunks are in another language than the question. Does not apply where question or
    answer is too short, is code, or its language is not certain.
    """
    from ragtrace.models.language_id import likely

    question, answer = likely(trace.query), likely(trace.answer)
    same = _same(question, answer)
    if same is None:
        return None
    retrieved = likely("\n".join(d.content[:_READ] for d in trace.documents)[: 5 * _READ]) if trace.documents else {}
    foreign = _same(question, retrieved) is False
    one, other = next(iter(question)), next(iter(answer))
    explanation = f"question {one} ({question[one]:.2f}), answer {other} ({answer[other]:.2f})"
    return Score(
        "language_mismatch",
        value=1.0 if same else 0.0,
        explanation=f"{explanation}, context {next(iter(retrieved))}" if foreign else explanation,
        failures=failures(not same, foreign),
    )


def _same(question: dict[str, float], other: dict[str, float]) -> bool | None:
    """Whether two texts are in one language; None if the language of one is not certain."""
    if not question or not other or max(question.values()) < _SURE or max(other.values()) < _SURE:
        return None
    pair = {next(iter(question)), next(iter(other))}
    return len(pair) == 1 or any(pair <= group for group in _CLOSE) or _agreement(question, other) >= _AGREE


def _agreement(question: dict[str, float], answer: dict[str, float]) -> float:
    """Cosine of the two distributions: a short text may be taken for a neighbour's language, and leaves its own as the
    second guess."""
    shared = sum(p * answer.get(language, 0.0) for language, p in question.items())
    return shared / math.sqrt(sum(p * p for p in question.values()) * sum(p * p for p in answer.values()))
