"""Whether the answer is in the question's language."""

from __future__ import annotations

from ragtrace.evaluation import evaluator
from ragtrace.records import Score, Trace

_SURE = 0.5
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
    from ragtrace.models.language import identify

    asked, answered = identify(trace.query), identify(trace.answer)
    if asked is None or answered is None or asked[1] < _SURE or answered[1] < _SURE:
        return None
    same = asked[0] == answered[0] or any({asked[0], answered[0]} <= group for group in _CLOSE)
    return Score(
        "language_mismatch",
        value=1.0 if same else 0.0,
        explanation=f"question {asked[0]} ({asked[1]:.2f}), answer {answered[0]} ({answered[1]:.2f})",
    )
