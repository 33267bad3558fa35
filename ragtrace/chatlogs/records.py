"""What the store gives back. Frozen values; times are Unix seconds."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from ragtrace.records import Evaluation, Feedback, Score, Trace

_TRACE_ID = re.compile(r"[0-9a-f]{32}\Z")


def is_trace_id(text: str) -> bool:
    """Whether a text is 32 lower-case hexadecimal digits."""
    return _TRACE_ID.match(text) is not None


@dataclass(frozen=True, slots=True)
class Filter:
    """Which stored traces; every field that is set must hold."""

    text: str = ""
    """Words that query, answer or chunks contain; a "phrase in quotes" stands together."""
    app: str = ""
    env: str = ""
    model: str = ""
    prompt_version: str = ""
    session_id: str = ""
    user_id: str = ""
    cause: str = ""
    since: float | None = None
    """Of the request's start, inclusive."""
    until: float | None = None
    """Exclusive."""
    evaluator: str = ""
    """The one that `label`, `low` and `high` speak of."""
    version: str = ""
    label: str = ""
    """`pass`, `fail`, `not_applicable`, `refusal`, or `error` for a check that failed."""
    low: float | None = None
    """The least value, inclusive."""
    high: float | None = None
    """The greatest value, inclusive."""
    thumbs: int | None = None
    reviewed: bool | None = None
    errors: bool | None = None
    """Requests that ended in an error."""


@dataclass(frozen=True, slots=True)
class Row:
    """A stored trace as lists show it."""

    id: int
    trace_id: str
    """32 hex digits."""
    started: float
    duration: float
    app: str
    model: str | None
    prompt_version: str | None
    error: str | None
    cause: str | None
    thumbs: int | None
    reviewed: bool
    query: str
    """Its beginning, up to 300 characters."""
    answer: str
    scores: Mapping[str, tuple[float | None, str | None]]
    """Evaluator → value and label, the newest version's."""


@dataclass(frozen=True, slots=True)
class Page:
    """Some rows, newest first, and how to go on."""

    rows: tuple[Row, ...]
    after: str | None
    """Give it as `after` for the next page; None on the last."""
    total: int | None
    """How many there are in all, where counting them was cheap; None for "many"."""


@dataclass(frozen=True, slots=True)
class StoredTrace:
    """One stored trace, whole."""

    id: int
    evaluation: Evaluation
    """The trace, and of every evaluator the newest version's score."""
    history: tuple[tuple[float, Score], ...]
    """Every score with when it was made, oldest first."""
    stored: float
    thumbs: int | None
    reviewed: bool
    feedback: tuple[Feedback, ...] = ()

    @property
    def trace(self) -> Trace:
        """The request."""
        return self.evaluation.trace


@dataclass(frozen=True, slots=True)
class Task:
    """A review that waits for somebody."""

    item: int
    trace: int
    """The stored trace's id."""
    trace_id: str
    reason: str
    """Why it was picked, one of `reviewing.REASONS`."""
    locked_until: float
    slot: int = 0


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a person says of one evaluator's question."""

    evaluator: str
    label: str
    """`pass`, `fail`, `not_applicable` or `unsure`."""


@dataclass(frozen=True, slots=True)
class Review:
    """All that one person said of one trace."""

    trace_id: str
    verdicts: tuple[Verdict, ...]
    comment: str | None = None
    corrected: str | None = None
    """The answer as it should be."""
    reviewer: str | None = None
    seconds: float | None = None
    created: float = 0.0
    source: str = "console"


@dataclass(frozen=True, slots=True)
class ScoredVerdict:
    """One evaluator's score beside one person's verdict, for agreement and calibration."""

    trace: int
    evaluator: str
    version: str
    value: float | None
    label: str | None
    """The evaluator's."""
    verdict: str
    """The person's: `pass`, `fail`, `not_applicable`, `unsure`."""
    reviewer: str
    weight: float
    """1 / (probability of evaluation x probability of review): one verdict stands for so many requests."""
    uniform: bool
    """True where the trace came by the uniform random share: only these agree without bias when unweighted."""
    created: float = field(default=0.0)
