"""What people see whose role may not read personal data: the same page, with texts masked and evidence in its place."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from difflib import SequenceMatcher
from itertools import pairwise

from fastapi import Request

from ragtrace.chatlogs.records import Row, Stored
from ragtrace.console.access import User, settings_of
from ragtrace.records import Document, Evidence, Score
from ragtrace.redaction import mask_pii

_TOKEN = re.compile(r"\w+|\W", re.S)
_OPEN = frozenset({"app", "env", "model", "prompt_version", "finish_reason", "provider", "spans", "stages", "usage"})
"""Attributes that are the application's, not its users'."""


def masks(request: Request, user: User) -> bool:
    """Whether this user sees masked texts."""
    return user.role not in settings_of(request).unmasked_roles


def masked_row(row: Row) -> Row:
    """A row of a list."""
    return replace(row, query=mask_pii(row.query), answer=mask_pii(row.answer))


def masked_stored(stored: Stored) -> Stored:
    """A stored trace: question, answer, chunks, explanations, feedback, metadata. Evidence points where it did."""
    trace = stored.trace
    answer, moved = _masked(trace.answer)
    chunks, moves = [], []
    for chunk in trace.documents:
        content, move = _masked(chunk.content)
        chunks.append(Document(mask_pii(chunk.id), content, chunk.score, _values(chunk.metadata)))
        moves.append(move)
    masked = replace(
        trace,
        query=mask_pii(trace.query),
        answer=answer,
        documents=tuple(chunks),
        reference=trace.reference and mask_pii(trace.reference),
        attributes=_values(trace.attributes),
    )

    def score(found: Score) -> Score:
        evidence = tuple(_moved(e, moved, moves) for e in found.evidence)
        return replace(found, explanation=found.explanation and mask_pii(found.explanation), evidence=evidence)

    return replace(
        stored,
        evaluation=replace(stored.evaluation, trace=masked, scores=tuple(map(score, stored.evaluation.scores))),
        history=tuple((when, score(found)) for when, found in stored.history),
        feedback=tuple(replace(f, comment=f.comment and mask_pii(f.comment)) for f in stored.feedback),
    )


def _values(known: Mapping[str, object]) -> dict[str, object]:
    return {key: value if key in _OPEN else _value(value) for key, value in known.items()}


def _value(value: object) -> object:
    if isinstance(value, str):
        return mask_pii(value)
    if isinstance(value, Mapping):
        return {str(key): _value(inner) for key, inner in value.items()}
    return [_value(inner) for inner in value] if isinstance(value, (list, tuple)) else value


_Move = Callable[[int], int]


def _masked(text: str) -> tuple[str, _Move]:
    """The text masked, and from an offset in it as it was to the one in it as it is."""
    masked = mask_pii(text)
    if masked == text:
        return text, lambda at: at
    old, new = _TOKEN.findall(text), _TOKEN.findall(masked)
    places, a, b = [(0, 0)], 0, 0
    for _, i1, i2, j1, j2 in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        before, after = sum(map(len, old[i1:i2])), sum(map(len, new[j1:j2]))
        a, b = a + before, b + after
        places.append((a, b))
    return masked, lambda at: _place(places, at)


def _place(places: list[tuple[int, int]], at: int) -> int:
    """Within a stretch that is the same, as far from its end; within one that was masked, at its end."""
    for (a0, b0), (a1, b1) in pairwise(places):
        if at <= a1:
            return max(b0, b1 - (a1 - at)) if at > a0 else b0
    return places[-1][1]


def _moved(e: Evidence, answer: _Move, chunks: list[_Move]) -> Evidence:
    rank, start, end = e.document_rank, e.document_start, e.document_end
    if rank is not None and start is not None and end is not None and 0 <= rank < len(chunks):
        start, end = chunks[rank](start), chunks[rank](end)
    return replace(e, start=answer(e.start), end=answer(e.end), document_start=start, document_end=end)
