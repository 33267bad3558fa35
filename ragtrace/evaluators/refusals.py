"""What an answer claims, and whether it declines to answer: one reading for all evaluators."""

from __future__ import annotations

from functools import lru_cache

from ragtrace.text.claims import AnswerParts, read

_CACHED_ANSWERS = 256


@lru_cache(maxsize=_CACHED_ANSWERS)
def read_answer(answer: str) -> AnswerParts:
    """The answer's statements, and its text without what states nothing. Several evaluators ask it of one answer."""
    return read(answer)


def is_refusal(answer: str) -> bool:
    """Whether the answer declines: it abstains, and claims nothing beside that."""
    return declines(read_answer(answer))


def declines(reading: AnswerParts) -> bool:
    """Whether no claim and no code is left beside an abstention."""
    kinds = [s.kind for s in reading.statements]
    return "abstention" in kinds and "claim" not in kinds and "code" not in kinds
