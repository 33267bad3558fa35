"""G-Eval: any criteria, evaluation steps that the judge writes once, and a score weighted by its probabilities.

Liu et al. 2023, G-Eval: NLG Evaluation using GPT-4 with Better Human Alignment."""

import math
import re
from collections.abc import Iterable, Sequence

from ragtrace.errors import PARSE_FAILURE, EvaluationError
from ragtrace.evaluate.arithmetic import mean
from ragtrace.evaluate.judge import Prompt
from ragtrace.evaluate.judge.replies import without_reasoning
from ragtrace.evaluate.judge_questions import Asker, judged, readable, texts_of
from ragtrace.evaluation import Evaluator
from ragtrace.records import Score, Trace

_LOW, _HIGH = 1, 5
_SAMPLES = 10
_TOP = 10
_SOURCE = "RAG evaluation guide, Custom LLM as a Judge; Liu et al. 2023"
_NUMBER = re.compile(r"(?<![\d.-])([1-5](?:\.\d+)?)(?!\d)")
_SCALE = re.compile(r"(?:/|\bout of|(?<=\d) of)\s*5\b|\b1\s*(?:[-\u2013]|to)\s*5\b")
_OTHER_SCALE = re.compile(r"\d\s*(?:/|\bout of)\s*(?!5\b)\d")
_RATED = re.compile(rf"(?i)\b(?:rat(?:e|ing)|score)(?:\s+(?:this|it|is|as|an?|the|answer))*[\s:*=()]*{_NUMBER.pattern}")
_ALONE = re.compile(rf"(?m)(?:\A|:)[\s\"'(*]*{_NUMBER.pattern}(?=[\s\"')*]*(?:[.,;]\s|$|\())")
_TAGS = {"query": "question", "documents": "context", "answer": "answer", "reference": "reference"}


def g_eval_of(
    criteria: str,
    *,
    name: str = "g_eval",
    steps: Sequence[str] = (),
    needs: Iterable[str] = ("query", "answer"),
    threshold: float = 0.5,
) -> Evaluator:
    """An evaluator of criteria of one's own, in [0, 1]. `steps`, where given, are taken instead of being written by the
    judge. `needs` says what the judge sees: of query, documents, answer, reference."""
    inputs = tuple(need for need in _TAGS if need in set(needs))

    def check(trace: Trace, ask: Asker) -> Score:
        return _rate(trace, ask, name=name, criteria=criteria, steps=steps, needs=inputs)

    check.__doc__ = f"G-Eval by the criteria: {criteria}"
    return judged(name=name, needs=inputs, threshold=threshold, version="3", source=_SOURCE)(check)


@judged(needs={"answer"}, threshold=0.5, version="3", source=_SOURCE)
def g_eval(trace: Trace, ask: Asker) -> Score:
    """Rating by the criteria of the setting `g_eval_criteria`, in [0, 1].

    The judge writes evaluation steps for the criteria once, fills in a form with a number from 1 to 5, and the score
    is the mean of the numbers weighted by their probabilities: by its log-probabilities, and by ten samples where it
    gives none."""
    inputs = tuple(need for need in _TAGS if getattr(trace, need))
    return _rate(trace, ask, name="g_eval", criteria=ask.settings.g_eval_criteria, steps=(), needs=inputs)


def _rate(trace: Trace, ask: Asker, *, name: str, criteria: str, steps: Sequence[str], needs: Sequence[str]) -> Score:
    if not steps:
        inputs = ", ".join(_TAGS[s] for s in needs)
        steps = ask.of("g_eval_steps", trace, criteria=criteria, seen=inputs)["steps"]
    listed = "\n".join(f"{i}. {step}" for i, step in enumerate(steps, 1))
    text = (
        f"Rate by the criteria and the steps, from {_LOW} (worst) to {_HIGH} (best). Answer with the number alone.\n\n"
        "{criteria}\n\n{steps}" + "".join(f"\n\n{{{_TAGS[s]}}}" for s in needs)
    )
    texts = texts_of(trace)
    fields = {"criteria": criteria, "steps": listed, **{_TAGS[s]: texts[_TAGS[s]] for s in needs}}
    rating, how = _rating(Prompt("g_eval", "1", text), fields, ask)
    return Score(name, (rating - _LOW) / (_HIGH - _LOW), explanation=f"{rating:.2f} of {_HIGH}, {how}")


def _rating(prompt: Prompt, fields: dict[str, str], ask: Asker) -> tuple[float, str]:
    """The expected rating, and how it was found."""
    if ask.judge.gives_logprobs:
        answer = ask(prompt, fields, top=_TOP)
        weighted = expected(answer.top)
        if weighted is not None:
            return weighted, "by log-probabilities"
    ratings: list[float] = []
    for answer in readable(lambda i: ask(prompt, fields, sample=i, temperature=1.0), range(1, _SAMPLES + 1)):
        if (rating := rating_in(answer.text)) is not None:
            ratings.append(rating)
    average = mean(ratings)
    if average is None:
        raise EvaluationError(PARSE_FAILURE, "the judge gave no number from 1 to 5")
    return average, f"mean of {len(ratings)} samples"


def rating_in(text: str) -> float | None:
    """The rating that a text names after its reasoning; None where it is unclear which, or on another scale."""
    text = without_reasoning(text)
    if _OTHER_SCALE.search(text):
        return None
    plain = _SCALE.sub(" ", text)
    numbers = _RATED.findall(plain)[-1:] or _ALONE.findall(plain)[:1] or set(_NUMBER.findall(plain))
    rating = float(next(iter(numbers))) if len(numbers) == 1 else _HIGH + 1
    return rating if rating <= _HIGH else None


def expected(top: Sequence[tuple[str, float]]) -> float | None:
    """Σ p(s) · s over the ratings s among the likeliest tokens, p scaled to sum to 1; None if they have less than half
    of the probability: the token is not the rating. Tokens are (text, natural log-probability)."""
    weights: dict[int, float] = {}
    for token, logarithm in top:
        if token.strip() in {str(s) for s in range(_LOW, _HIGH + 1)}:
            rating = int(token.strip())
            weights[rating] = weights.get(rating, 0.0) + math.exp(min(0.0, logarithm))
    total = sum(weights.values())
    return sum(s * w for s, w in weights.items()) / total if total >= 0.5 else None
