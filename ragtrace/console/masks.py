"""Masks chat logs for people who may not read personal data: texts as `redact = "pii"` masks them, with evidence kept
in its place. `ragtrace.console.visible_content` decides who sees them masked."""

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import replace

from ragtrace.console.chatlogs.store_types import MAX_COMMENT, Review, StoredTrace, TraceSummary
from ragtrace.records import MAX_CHARS, Document, Evidence, Facts, Score, Trace
from ragtrace.text.redaction import mask_beginning, mask_named, mask_pii, mask_pii_at
from ragtrace.text.sanitizer import Sanitizer

HIDDEN = "[hidden]"
_SANITIZER = Sanitizer(mask_pii, redact_named=mask_named)
_PERSON_KEYS = frozenset({"user_id", "user", "user_key", "user_name", "username", "email", "enduser.id", "user.id"})
"""Metadata whose values name a person, in any form."""
_CUT_LENGTH = 500
"""The store cuts the beginnings of texts in lists to this many characters."""


def mask_row(row: TraceSummary) -> TraceSummary:
    """A row of a list."""
    return replace(
        row, query=mask_beginning(row.query, _CUT_LENGTH), answer=mask_beginning(row.answer, _CUT_LENGTH),
        error=_mask(row.error),
    )  # fmt: skip


def mask_review(review: Review, answer: str) -> Review:
    """The review of a trace with that answer. Marks point to the same words of the masked answer."""
    moved = mask_pii_at(answer, [at for one in review.evidence for at in (one.start, one.end)])[1]
    evidence = (replace(one, start=moved[one.start], end=moved[one.end]) for one in review.evidence)
    return replace(
        review, comment=_mask(review.comment), corrected=_mask(review.corrected),
        answers={name: mask_pii(value) if isinstance(value, str) else value for name, value in review.answers.items()},
        evidence=tuple(one for one in evidence if one.start < one.end),
    )  # fmt: skip


def unmask_evidence(answer: str, evidence: Sequence[Evidence]) -> tuple[Evidence, ...]:
    """Marks of the masked answer as marks of the answer itself: one that touches a mask covers all that is under it, so
    that it does not show where the marked words are under the mask."""
    text, moved = mask_pii_at(answer, range(len(answer) + 1))
    if text == answer:
        return tuple(evidence)
    places = [moved[at] for at in range(len(answer) + 1)]  # it never falls

    def original(one: Evidence) -> Evidence:
        start = bisect_right(places, one.start) - 1
        end = bisect_right(places, places[bisect_left(places, one.end)]) - 1
        return replace(one, start=start, end=end)

    return tuple(map(original, evidence))


def mask_trace(stored: StoredTrace) -> StoredTrace:
    """A stored trace: question, answer, chunks, scores, feedback, metadata. Evidence points to the same words."""
    trace = stored.trace
    scores = (*stored.evaluation.scores, *(score for _, score in stored.history))
    evidence = [one for score in scores for one in score.evidence]
    answer, answer_places = mask_pii_at(trace.answer, [at for one in evidence for at in (one.start, one.end)])
    chunks = [mask_pii_at(chunk.content, _places(evidence, rank)) for rank, chunk in enumerate(trace.documents)]
    chunk_places = [places for _, places in chunks]

    def masked(score: Score) -> Score:
        moved = tuple(_move(one, answer_places, chunk_places) for one in score.evidence)
        explanation = score.explanation and mask_beginning(score.explanation, MAX_CHARS)
        return replace(score, explanation=explanation, evidence=moved)

    documents = tuple(
        replace(chunk, id=mask_pii(chunk.id), content=content, metadata=_mask_mapping(chunk.metadata))
        for chunk, (content, _) in zip(trace.documents, chunks, strict=True)
    )
    evaluation = replace(
        stored.evaluation,
        trace=_mask_request(trace, answer, documents),
        scores=tuple(map(masked, stored.evaluation.scores)),
    )
    return replace(
        stored,
        evaluation=evaluation,
        history=tuple((when, masked(score)) for when, score in stored.history),
        feedback=tuple(
            replace(
                f,
                comment=f.comment and mask_beginning(f.comment, MAX_COMMENT),
                source=_mask(f.source),
                category=_mask(f.category),
            )
            for f in stored.feedback
        ),
    )


def _mask_request(trace: Trace, answer: str, documents: tuple[Document, ...]) -> Trace:
    return replace(
        trace, query=mask_pii(trace.query), answer=answer, documents=documents, reference=_mask(trace.reference),
        error=_mask(trace.error), attributes=_mask_mapping(trace.attributes), facts=_mask_facts(trace.facts),
    )  # fmt: skip


def _mask_facts(facts: Facts) -> Facts:
    """Facts with the user hidden and texts masked. Names of applications, models, prompts and stages stay."""
    return replace(
        facts, user_id=None if facts.user_id is None else HIDDEN, session_id=_mask(facts.session_id),
        tenant=_mask(facts.tenant), name=mask_pii(facts.name), tags=tuple(mask_pii(tag) for tag in facts.tags),
        steps=tuple(_mask_value(step) for step in facts.steps),
        spans=tuple(_mask_mapping(span) for span in facts.spans),
    )  # fmt: skip


def _mask(text: str | None) -> str | None:
    return None if text is None else mask_pii(text)


def _mask_mapping(values: Mapping[str, object]) -> dict[str, object]:
    return {
        mask_pii(str(key)): HIDDEN if str(key).lower() in _PERSON_KEYS and value is not None
        else _SANITIZER.value_of(key, value, _mask_value) for key, value in values.items()
    }  # fmt: skip


def _mask_value(value: object) -> object:
    if isinstance(value, str):
        return mask_pii(value)
    if isinstance(value, Mapping):
        return _mask_mapping(value)
    if isinstance(value, (list, tuple)):
        return [_mask_value(inner) for inner in value]
    if isinstance(value, (int, float)) and abs(value) >= 10**8 and value == value // 1:
        return mask_pii(str(int(value)))  # a telephone number in metadata, a float beside empty rows
    return value


def _places(evidence: Sequence[Evidence], rank: int) -> list[int]:
    of_chunk = [one for one in evidence if one.document_rank == rank]
    return [at for one in of_chunk for at in (one.document_start, one.document_end) if at is not None]


def _move(one: Evidence, answer: Mapping[int, int], chunks: Sequence[Mapping[int, int]]) -> Evidence:
    """The evidence with its offsets in the masked answer and chunk."""
    rank, start, end = one.document_rank, one.document_start, one.document_end
    if rank is not None and 0 <= rank < len(chunks):
        start = None if start is None else chunks[rank][start]
        end = None if end is None else chunks[rank][end]
    return replace(
        one, start=answer[one.start], end=answer[one.end], document_id=_mask(one.document_id), document_start=start,
        document_end=end,
    )  # fmt: skip
