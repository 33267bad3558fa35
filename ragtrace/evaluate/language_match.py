"""Whether the answer is in the question's language."""

import math

from ragtrace.evaluate.arithmetic import failures
from ragtrace.evaluation import evaluator
from ragtrace.records import Score, Trace
from ragtrace.text.language_names import asks_for_language, names_language

_SURE = 0.5
_READ = 1_000
_AGREE = 0.1
"""From dev, where it gives the highest F1."""
_SURE_ANSWER, _ABSENT, _AGREE_UNSURE = 0.95, 0.02, 0.6
"""Of a question whose language is not certain, an answer that is certain tells: another language where the question has
hardly any of it, the same one where the two agree. From dev, where these give more verdicts and lose no F1."""
_CLOSE = (
    frozenset({"hr", "bs", "sr", "sh", "me"}), frozenset({"id", "ms"}), frozenset({"no", "nb", "nn"}),
    frozenset({"zh", "yue", "wuu"}), frozenset({"pt", "gl"}),
)  # fmt: skip
"""Languages that short texts do not tell apart."""


@evaluator(
    needs={"query", "answer"},
    threshold=0.5,
    method="model",
    version="2",
    source="H2O Eval Studio, Language Mismatch Evaluator; by identification instead of a judge",
)
def language_mismatch(trace: Trace) -> Score | None:
    """Whether question and answer are in the same language: 1 (pass) or 0 (fail).

    An answer in the language that the question asks for passes: "Answer in German: …". The retrieval fails where the
    chunks are in another language than the question. Does not apply where question or answer is too short, is code, or
    its language is not certain, and where the question only names the other language of the answer."""
    from ragtrace.evaluate.models.language_id import likely

    question, answer = likely(trace.query), likely(trace.answer)
    same = _same(question, answer)
    if same is None:
        return None
    one, other = next(iter(question)), next(iter(answer))
    is_requested = not same and any(asks_for_language(trace.query, language) for language in _group(other))
    if not same and not is_requested and any(names_language(trace.query, language) for language in _group(other)):
        return None
    retrieved = likely("\n".join(d.content[:_READ] for d in trace.documents)[: 5 * _READ]) if trace.documents else {}
    foreign = _same(question, retrieved) is False
    explanation = f"question {one} ({question[one]:.2f}), answer {other} ({answer[other]:.2f})"
    if is_requested:
        explanation += ", which the question asks for"
    return Score(
        "language_mismatch", value=1.0 if same or is_requested else 0.0,
        explanation=f"{explanation}, context {next(iter(retrieved))}" if foreign else explanation,
        failures=failures(not same and not is_requested, foreign),
    )  # fmt: skip


def _same(question: dict[str, float], other: dict[str, float]) -> bool | None:
    """Whether two texts are in one language; None if the language of one is not certain."""
    if not question or not other or max(other.values()) < _SURE:
        return None
    if max(question.values()) < _SURE:
        return _same_as_certain(question, other)
    pair = {next(iter(question)), next(iter(other))}
    return len(pair) == 1 or any(pair <= group for group in _CLOSE) or _agreement(question, other) >= _AGREE


def _same_as_certain(question: dict[str, float], other: dict[str, float]) -> bool | None:
    """The same for a question whose language is not certain, as of "how do i reset my password"."""
    language = next(iter(other))
    if other[language] < _SURE_ANSWER:
        return None
    if sum(question.get(one, 0.0) for one in _group(language)) < _ABSENT:
        return False
    return True if _agreement(question, other) >= _AGREE_UNSURE else None


def _group(language: str) -> frozenset[str]:
    """A language with those that short texts do not tell from it."""
    return next((group for group in _CLOSE if language in group), frozenset({language}))


def _agreement(question: dict[str, float], answer: dict[str, float]) -> float:
    """Cosine of the two distributions: a short text may be taken for a neighbour's language, and leaves its own as the
    second guess."""
    shared = sum(p * answer.get(language, 0.0) for language, p in question.items())
    return shared / math.sqrt(sum(p * p for p in question.values()) * sum(p * p for p in answer.values()))
