"""What an answer claims, and whether it declines to answer: one reading for all evaluators."""

from functools import lru_cache

from ragtrace.text.claims import AnswerParts, read, states_amount
from ragtrace.text.speech_acts import claim_probability
from ragtrace.text.words import is_empty

_CACHED_ANSWERS = 256
_CLAIMS = 100
"""Claims that the classifier is asked about."""
_WHOLE, _SURE, _ONE_CLAIM = 0.4, 0.9, 0.3
"""An answer whose opening has the first probability, and one of whose claims has the third, declines although it goes
on: it says why, and what to do instead. With an amount in a claim the opening needs the second. All four were chosen on
XSTest's development prompts, cross-validated: .85 of the refusals are recognised, and .02 of the answers are taken for
one."""
_ALONE, _CLEAR = 0.5, 0.9
"""What the opening needs where it is the only claim: nothing beside it speaks for a refusal, and a fact with "not" in
it is near one in words. From own sentences in eight languages. From the second probability on the claim is one, as in
"I can't recommend it enough": of `benchmarks/refusal_answers.jsonl` two facts less are taken for refusals."""


def read_answer(answer: str) -> AnswerParts:
    """The answer's statements, and its text without what states nothing. Several evaluators ask it of one answer.

    Raises MissingExtraError or ModelError where the refusal classifier cannot be loaded."""
    return _read(answer)[0]


def refusal_probability(answer: str) -> float:
    """The probability in [0, 1] that the answer declines; from 0.5 on where what `read_answer` returns declines."""
    return _read(answer)[1]


def declines(parts: AnswerParts) -> bool:
    """Whether no claim and no code is left beside an abstention."""
    kinds = [s.kind for s in parts.statements]
    return "abstention" in kinds and "claim" not in kinds and "code" not in kinds


@lru_cache(maxsize=_CACHED_ANSWERS)
def _read(answer: str) -> tuple[AnswerParts, float]:
    from ragtrace.evaluate.models import heads

    parts = read(answer)
    if is_empty(answer):
        return parts, 0.0
    claims = [(i, parts.text[s.start : s.end]) for i, s in enumerate(parts.statements) if s.kind == "claim"]
    whole, *each = heads.refusal([answer, *(text for _, text in claims[:_CLAIMS])])
    if declines(parts):
        return parts, max(whole, 0.95)
    by_claim = dict(zip((i for i, _ in claims), each, strict=False))
    first = next((i for i, s in enumerate(parts.statements) if s.kind in ("claim", "abstention", "code")), None)
    if first in by_claim and by_claim[first] < _ONE_CLAIM:
        return parts, min(whole, 0.49)  # it answers, and says at its end what the documents do not mention
    if len(claims) == 1 and claim_probability(claims[0][1]) >= _CLEAR:
        return parts, min(whole, 0.49)
    amount = any(states_amount(text) for _, text in claims)
    enough = _SURE if amount else _ALONE if len(claims) == 1 else _WHOLE
    if whole >= enough and max(each, default=0.0) >= _ONE_CLAIM and len(claims) <= _CLAIMS:
        # Above 0.5, the threshold of `refusal`: a value that equals a threshold passes.
        return parts.declined(), max(whole, 0.51)
    return parts, min(whole, 0.49)
