"""Stored traces as the API gives them out."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from pydantic import BaseModel

from ragtrace.console.chatlogs.store_types import Page, StoredTrace, TraceSummary
from ragtrace.records import Document, Feedback, Score, facts_as_dict


class Mark(BaseModel):
    """What an evaluator says, in short."""

    value: float | None
    label: str | None


@dataclass(frozen=True, slots=True)
class TraceRow(TraceSummary):
    """A trace as lists show it."""

    scores: Mapping[str, Mark]  # type: ignore[assignment]


class TracePage(BaseModel):
    """Some traces."""

    rows: list[TraceRow]
    after: str | None
    """Give it as `after` for the next page."""
    total: int | None


@dataclass(frozen=True, slots=True)
class DatedScore(Score):
    """A score, and when it was made."""

    scored: float = 0.0


class TraceOut(BaseModel):
    """A trace, whole."""

    id: int
    trace_id: str
    span_id: str
    started: float
    duration: float
    stored: float
    query: str
    answer: str
    reference: str | None
    documents: list[Document]
    attributes: dict[str, Any]
    error: str | None
    cause: str | None
    sampling_probability: float
    cost: float | None
    """US dollars of its models, where their prices are known."""
    thumbs: int | None
    reviewed: bool
    scores: list[Score]
    feedback: list[Feedback]


def page(page_: Page) -> TracePage:
    """A page of rows."""
    return TracePage(rows=[_row(row) for row in page_.rows], after=page_.after, total=page_.total)


def _row(row: TraceSummary) -> TraceRow:
    scores = {name: Mark(value=finite(value), label=label) for name, (value, label) in row.scores.items()}
    texts = {"query": clean(row.query), "answer": clean(row.answer)}
    return TraceRow(**{f.name: getattr(row, f.name) for f in fields(row)} | texts | {"scores": scores})


def _document(document: Document) -> Document:
    texts = {"id": clean(document.id), "content": clean(document.content), "metadata": plain(document.metadata)}
    return replace(document, score=finite(document.score), **texts)


def whole(stored: StoredTrace) -> TraceOut:
    """A stored trace."""
    trace = stored.trace
    of_store = {name: getattr(stored, name) for name in ("id", "stored", "thumbs", "reviewed")}
    of_trace = {name: getattr(trace, name) for name in ("started", "duration", "error", "sampling_probability")}
    return TraceOut(
        **of_store, **of_trace, trace_id=f"{trace.trace_id:032x}", span_id=f"{trace.span_id:016x}",
        query=clean(trace.query), answer=clean(trace.answer),
        reference=None if trace.reference is None else clean(trace.reference),
        documents=[_document(each) for each in trace.documents],
        attributes=plain({**trace.attributes, **facts_as_dict(trace.facts)}), cause=stored.evaluation.cause,
        cost=trace.facts.cost, scores=[_score(score) for score in stored.evaluation.scores],
        feedback=[replace(f, comment=f.comment and clean(f.comment)) for f in stored.feedback],
    )  # fmt: skip


def history(stored: StoredTrace) -> list[DatedScore]:
    """Every score that was ever made of a trace, oldest first."""
    scores = ((when, _score(score)) for when, score in stored.history)
    return [
        DatedScore(**{f.name: getattr(score, f.name) for f in fields(Score)}, scored=when) for when, score in scores
    ]


def _score(score: Score) -> Score:
    return replace(score, value=finite(score.value), explanation=score.explanation and clean(score.explanation))


def finite(value: float | None) -> float | None:
    """JSON has no NaN and no infinity."""
    return value if value is not None and math.isfinite(value) else None


def clean(text: str) -> str:
    """Text that UTF-8 can say: halves of surrogate pairs become question marks."""
    return text.encode("utf-8", "replace").decode()


def plain(value: object) -> Any:
    """A value of the application's own making as JSON knows it."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int):
        return value if abs(value) < 2**63 else str(value)
    if isinstance(value, float):
        return finite(value)
    if isinstance(value, Mapping):
        return {clean(str(key)): plain(inner) for key, inner in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, bytes):
        return [plain(inner) for inner in value]
    return clean(str(value))
