"""The values that the store returns and takes. They are frozen; times are Unix seconds."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from ragtrace.records import Evaluation, Evidence, Feedback, Score, Trace

_TRACE_ID = re.compile(r"[0-9a-f]{32}\Z")


def is_trace_id(text: str) -> bool:
    """Whether a text is 32 lower-case hexadecimal digits."""
    return _TRACE_ID.match(text) is not None


@dataclass(frozen=True, slots=True)
class Filter:
    """Conditions on stored traces. A trace must fulfil every field that is set."""

    text: str = ""
    """Words that occur in query, answer or chunks; words of a "phrase in quotes" occur together."""
    app: str = ""
    env: str = ""
    model: str = ""
    prompt_version: str = ""
    tenant: str = ""
    session_id: str = ""
    user_id: str = ""
    cause: str = ""
    topic: str = ""
    """The id of the topic of the question, or `none` for questions that fit no topic."""
    since: float | None = None
    """Earliest start of the request, inclusive."""
    until: float | None = None
    """Latest start of the request, exclusive."""
    evaluator: str = ""
    """The evaluator that `version`, `label`, `low` and `high` refer to."""
    version: str = ""
    label: str = ""
    """`pass`, `fail`, `not_applicable`, `refusal`, or `error` for a failed evaluation."""
    low: float | None = None
    """Smallest value, inclusive."""
    high: float | None = None
    """Largest value, inclusive."""
    thumbs: int | None = None
    reviewed: bool | None = None
    errors: bool | None = None
    """Whether the request ended in an error."""


@dataclass(frozen=True, slots=True)
class TraceSummary:
    """A stored trace in a list."""

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
    """The first 500 characters."""
    answer: str
    scores: Mapping[str, tuple[float | None, str | None]]
    """Value and label of the newest version, by evaluator."""


MAX_COMMENT = 10_000
"""Characters of a comment in feedback."""


@dataclass(frozen=True, slots=True)
class Page:
    """Some rows, and the cursor to continue."""

    rows: tuple[TraceSummary, ...]
    after: str | None
    """The argument `after` of the next page; None on the last page."""
    total: int | None
    """Number of all matches if counting was cheap; None for "many"."""


@dataclass(frozen=True, slots=True)
class StoredTrace:
    """A stored trace with scores and feedback."""

    id: int
    evaluation: Evaluation
    """The trace, and the newest score of every evaluator."""
    history: tuple[tuple[float, Score], ...]
    """Every score with its time, oldest first."""
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
    """A log that waits for review."""

    item: int
    trace: int
    """The store's id of the trace."""
    trace_id: str
    reason: str
    """Why it was picked, one of `ragtrace.console.review.policy.REASONS`."""
    locked_until: float
    slot: int = 0
    queue: str = ""
    """The named queue that it is in; empty for the queue of everybody."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """A person's answer to one evaluator's question."""

    evaluator: str
    label: str
    """`pass`, `fail`, `not_applicable` or `unsure`."""


@dataclass(frozen=True, slots=True)
class Review:
    """One person's review of one trace."""

    trace_id: str
    verdicts: tuple[Verdict, ...]
    comment: str | None = None
    corrected: str | None = None
    """The expected answer."""
    reviewer: str | None = None
    seconds: float | None = None
    created: float = 0.0
    source: str = "console"
    answers: Mapping[str, str | float] = field(default_factory=dict)
    """By question of one's own (see `ragtrace.console.review.own_questions`): a category, a number or a text."""
    evidence: tuple[Evidence, ...] = ()
    """The parts of the answer that this person marked as wrong, in order: `unsupported` or `contradicted`."""


@dataclass(frozen=True, slots=True)
class ScoredVerdict:
    """One evaluator's score and one person's verdict, for agreement and calibration."""

    trace: int
    evaluator: str
    version: str
    value: float | None
    label: str | None
    """The evaluator's label."""
    verdict: str
    """The person's label: `pass`, `fail`, `not_applicable`, `unsure`."""
    reviewer: str
    weight: float
    """1 / (probability of evaluation x probability of review): how many requests the verdict represents."""
    created: float = field(default=0.0)
