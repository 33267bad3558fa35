"""Whether the answer is in the question's language."""

from __future__ import annotations

import math

from ragtrace.evaluation import evaluator
from ragtrace.records import Score, Trace

_SURE = 0.5
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

    Does not apply where one of them is too short, is code, or is not told with more than even odds.
    """
    from ragtrace.models.language import likely

    asked, answered = likely(trace.query), likely(trace.answer)
    if not asked or not answered or max(asked.values()) < _SURE or max(answered.values()) < _SURE:
        return None
    one, other = next(iter(asked)), next(iter(answered))
    same = one == other or any({one, other} <= group for group in _CLOSE) or _agreement(asked, answered) >= _AGREE
    return Score(
        "language_mismatch",
        value=1.0 if same else 0.0,
        explanation=f"question {one} ({asked[one]:.2f}), answer {other} ({answered[other]:.2f})",
    )


def _agreement(asked: dict[str, float], answered: dict[str, float]) -> float:
    """Cosine of the two distributions: a short text may be taken for a neighbour's language, and leaves its own as the
    second guess."""
    shared = sum(p * answered.get(language, 0.0) for language, p in asked.items())
    return shared / math.sqrt(sum(p * p for p in asked.values()) * sum(p * p for p in answered.values()))
