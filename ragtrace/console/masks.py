"""What people see whose role may not read personal data: texts masked as `redact = "pii"` would, evidence in its place.

A search answers whether a text is there, so it must not be asked for what is masked either: `allowed`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace

from fastapi import Request

from ragtrace.chatlogs.records import Filter, Page, Row, StoredTrace
from ragtrace.console.access import User, settings_of
from ragtrace.console.problems import Problem
from ragtrace.records import Document, Evidence, Facts, Score, Trace
from ragtrace.text.redaction import mask_pii, mask_pii_at

HIDDEN = "[hidden]"
_PERSONS = frozenset({"user_id", "user", "user_key", "user_name", "username", "email", "enduser.id", "user.id"})
"""Attributes that name somebody, in whatever form."""
_DIGITS = 4
_CUT = re.compile(r"[\d\s().+/-]*[\w.+@-]*\Z")


def masks(request: Request, user: User) -> bool:
    """Whether this user sees masked texts."""
    return user.role not in settings_of(request).unmasked_roles


def allowed(request: Request, user: User, filter: Filter) -> Filter:
    """That filter. Raises Problem (403) where it would tell somebody who sees masked texts what is under the masks."""
    if masks(request, user):
        if filter.user_id or filter.session_id:
            raise Problem(403, "Not for your role", "Your role sees no personal data, so it cannot look for a user.")
        # A number is found piece by piece, too; four digits are a year or an error's code.
        if mask_pii(filter.text) != filter.text or sum(c.isdigit() for c in filter.text) > _DIGITS:
            detail = "Your role sees no personal data, so it cannot search for addresses or long numbers."
            raise Problem(403, "Not for your role", detail)
    return filter


def shown(request: Request, user: User, stored: StoredTrace) -> StoredTrace:
    """A stored trace as this user may see it."""
    return masked_stored(stored) if masks(request, user) else stored


def shown_page(request: Request, user: User, page: Page) -> Page:
    """A page of rows as this user may see it."""
    return replace(page, rows=tuple(map(masked_row, page.rows))) if masks(request, user) else page


def masked_row(row: Row) -> Row:
    """A row of a list. What was cut off in the middle may no longer look like what it is: its last piece goes."""
    return replace(row, query=_beginning(row.query), answer=_beginning(row.answer))


def _beginning(text: str) -> str:
    return mask_pii(_CUT.sub("", text) if len(text) >= 300 else text)


def masked_stored(stored: StoredTrace) -> StoredTrace:
    """A stored trace: question, answer, chunks, explanations, feedback, metadata. Evidence points where it did."""
    trace, scores = stored.trace, (*stored.evaluation.scores, *(score for _, score in stored.history))
    every = [evidence for score in scores for evidence in score.evidence]
    answer, moved = mask_pii_at(trace.answer, [at for e in every for at in (e.start, e.end)])
    contents, moves = [], []
    for rank, chunk in enumerate(trace.documents):
        content, move = mask_pii_at(chunk.content, _places(every, rank))
        contents.append(content)
        moves.append(move)

    def masked(score: Score) -> Score:
        evidence = tuple(_moved(e, moved, moves) for e in score.evidence)
        return replace(score, explanation=_text(score.explanation), evidence=evidence)

    return replace(
        stored,
        evaluation=replace(
            stored.evaluation,
            trace=_trace(trace, answer, contents),
            scores=tuple(map(masked, stored.evaluation.scores)),
        ),
        history=tuple((when, masked(score)) for when, score in stored.history),
        feedback=tuple(replace(said, comment=_text(said.comment)) for said in stored.feedback),
    )


def _trace(trace: Trace, answer: str, contents: Iterable[str]) -> Trace:
    documents = tuple(
        Document(mask_pii(chunk.id), content, chunk.score, _values(chunk.metadata))
        for chunk, content in zip(trace.documents, contents, strict=True)
    )
    return replace(
        trace,
        query=mask_pii(trace.query),
        answer=answer,
        documents=documents,
        reference=_text(trace.reference),
        attributes=_values(trace.attributes),
        facts=_facts(trace.facts),
    )


def _facts(facts: Facts) -> Facts:
    """Facts with the user hidden and free texts masked. Names of applications, models and stages stay."""
    return replace(
        facts,
        user_id=None if facts.user_id is None else HIDDEN,
        session_id=_text(facts.session_id),
        name=mask_pii(facts.name),
        tags=tuple(mask_pii(tag) for tag in facts.tags),
        steps=tuple(_value(step) for step in facts.steps),
        spans=tuple(_values(span) for span in facts.spans),
    )


def _text(text: str | None) -> str | None:
    return None if text is None else mask_pii(text)


def _values(known: Mapping[str, object]) -> dict[str, object]:
    return {mask_pii(str(key)): _of(str(key), value) for key, value in known.items()}


def _of(key: str, value: object) -> object:
    return HIDDEN if key.lower() in _PERSONS and value is not None else _value(value)


def _value(value: object) -> object:
    if isinstance(value, str):
        return mask_pii(value)
    if isinstance(value, Mapping):
        return _values(value)
    if isinstance(value, (list, tuple)):
        return [_value(inner) for inner in value]
    if isinstance(value, int) and abs(value) >= 10**8 and not isinstance(value, bool):
        return mask_pii(str(value))  # a telephone number in metadata; times are floats
    return value


def _places(every: Iterable[Evidence], rank: int) -> list[int]:
    of = [e for e in every if e.document_rank == rank]
    return [at for e in of for at in (e.document_start, e.document_end) if at is not None]


def _moved(e: Evidence, answer: Mapping[int, int], chunks: list[dict[int, int]]) -> Evidence:
    rank, start, end = e.document_rank, e.document_start, e.document_end
    if rank is not None and 0 <= rank < len(chunks):
        start = None if start is None else chunks[rank][start]
        end = None if end is None else chunks[rank][end]
    named = None if e.document_id is None else mask_pii(e.document_id)
    return replace(
        e, start=answer[e.start], end=answer[e.end], document_id=named, document_start=start, document_end=end
    )
