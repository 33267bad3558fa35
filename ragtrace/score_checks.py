"""What a score may hold: types of its fields, and how long its texts and lists are. Evaluators are anybody's code."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import replace
from itertools import islice
from types import NoneType

from ragtrace.records import Evidence, Score

SCORE_NAME = re.compile(r"[a-z0-9_]{1,100}\Z")
MAX_CHARS = 20_000
"""Characters of an explanation that are kept: a verdict travels between processes, into the store and onto spans."""
MAX_EVIDENCE = 1_000
"""Pieces of evidence of a score that are kept."""
_MAX_WORD = 1_000
"""Characters of a label, a document's id and the name of a model that are kept."""
_MAX_FAILURES = 10


def problem(score: Score) -> str:
    """What makes a score unfit for the sinks; empty where nothing does."""
    if not isinstance(score.name, str) or not SCORE_NAME.match(score.name):
        name = score.name[:100] if isinstance(score.name, str) else score.name
        return f"the score's name is {name!r:.100}; use at most 100 lower-case letters, digits and underscores"
    for name in ("label", "error", "explanation", "cause", "model"):
        if not isinstance(getattr(score, name), (str, NoneType)):
            return f"the score's {name} is a {type(getattr(score, name)).__name__}; give a string"
    if not isinstance(score.method, str):
        return f"the score's method is a {type(score.method).__name__}; give a string"
    for name in ("input_tokens", "output_tokens", "cost"):
        if not _is_amount(getattr(score, name)):
            return f"the score's {name} is a {type(getattr(score, name)).__name__}; give a finite number, 0 or more"
    if isinstance(score.value, (str, bytes)):
        return f"the score's value is a {type(score.value).__name__}; give a number"
    return ""


def _is_amount(value: object) -> bool:
    return isinstance(value, (int, float)) and math.isfinite(value) and value >= 0


def bounded(score: Score) -> Score:
    """The score with texts and lists of at most so many characters and items; the explanation says what was left out.

    Raises TypeError for evidence that is something else than Evidence.
    """
    evidence, cut = _first_pieces(score.evidence)
    if not all(isinstance(one, Evidence) for one in evidence):
        raise TypeError("the score's evidence holds something else than Evidence")
    explanation = score.explanation
    if explanation is not None and len(explanation) > MAX_CHARS:
        explanation = f"{explanation[:MAX_CHARS]}… [{len(explanation) - MAX_CHARS} characters cut]"
    if cut:
        explanation = f"{explanation or ''} [only the first {MAX_EVIDENCE} pieces of evidence are kept]".lstrip()
    return replace(
        score,
        explanation=explanation,
        evidence=tuple(map(_bounded_evidence, evidence)),
        label=_word(score.label),
        cause=_word(score.cause),
        model=_word(score.model),
        failures=tuple(islice(score.failures, _MAX_FAILURES)),
    )


def _first_pieces(evidence: Iterable[Evidence]) -> tuple[list[Evidence], bool]:
    pieces = list(islice(evidence, MAX_EVIDENCE + 1))
    return pieces[:MAX_EVIDENCE], len(pieces) > MAX_EVIDENCE


def _bounded_evidence(one: Evidence) -> Evidence:
    document = one.document_id
    if isinstance(document, str) and len(document) > _MAX_WORD:
        one = replace(one, document_id=_word(document))
    if isinstance(one.verdict, str) and len(one.verdict) > _MAX_WORD:
        one = replace(one, verdict=one.verdict[:_MAX_WORD])
    return one


def _word(text: str | None) -> str | None:
    return text if text is None or len(text) <= _MAX_WORD else f"{text[:_MAX_WORD]}…"
