"""The values that travel through ragtrace. Frozen, slotted, without behaviour: any thread may hold them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Document:
    """One retrieved chunk. Its rank is its place in `Trace.documents`, from 0."""

    id: str
    content: str
    score: float | None = None
    """The retriever's own score, on the retriever's own scale; None where it gives none."""
    metadata: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Trace:
    """One finished RAG request, as the evaluators see it."""

    trace_id: int
    """128-bit OpenTelemetry trace id."""
    span_id: int
    """64-bit id of the request's root span; scores belong to that span."""
    query: str
    documents: tuple[Document, ...]
    """What the model saw, in rank order: after reranking, inner retrievals not doubled."""
    answer: str
    reference: str | None = None
    """The expected answer, where the application knows it."""
    started: float = 0.0
    """Unix time of the request's start, in seconds."""
    duration: float = 0.0
    """Seconds."""
    error: str | None = None
    """Type name of the error that ended the request."""
    sampling_probability: float = 1.0
    """Probability in (0, 1] with which this trace was chosen for evaluation."""
    attributes: Mapping[str, object] = field(default_factory=dict)
    """What else is known: `app`, `session_id`, `user_id`, `model`, `prompt_version`, `finish_reason`, `cancelled`,
    `stages` (seconds by stage), `spans` (of a sampled request, as `measuring.spans` has them), `time_to_first_chunk`
    (seconds), `input_tokens`, `output_tokens`, `usage` (both by model, of several), tags, metadata."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """Where one sentence of the answer stands in the documents. Offsets are characters, end exclusive."""

    start: int
    end: int
    """The sentence is `answer[start:end]`."""
    verdict: str
    """`supported`, `unsupported` or `contradicted`."""
    probability: float | None = None
    """How strongly the best document supports the sentence, in [0, 1]."""
    document_id: str | None = None
    document_rank: int | None = None
    document_start: int | None = None
    document_end: int | None = None
    """The closest passage is `documents[document_rank].content[document_start:document_end]`."""


@dataclass(frozen=True, slots=True)
class Score:
    """What one evaluator says of one trace. A check that failed has `error` and neither value nor label."""

    name: str
    value: float | None = None
    label: str | None = None
    """`pass`, `fail`, `not_applicable`, or None where the evaluator has no threshold."""
    explanation: str | None = None
    """For people. May quote the answer, so it leaves the process only where content may."""
    cause: str | None = None
    """This evaluator's share in the cause of a bad answer: one of `semconv.CAUSES`, or None."""
    evidence: tuple[Evidence, ...] = ()
    error: str | None = None
    """Low-cardinality reason: `timeout`, `circuit_open`, `not_a_number`, or the exception's type name."""
    version: str = "1"
    method: str = "code"
    """`code`, `model`, `judge` or `human`."""
    sampling_probability: float = 1.0
    """Probability with which this evaluator saw a trace like this one."""
    failures: tuple[str, ...] = ()
    """Of a check that passes or fails: `retrieval` if the retrieved context itself fails it, `generation` if the answer
    fails though the context does not cause it."""
    model: str | None = None
    """The judge's model, where one was asked."""
    input_tokens: int = 0
    """Tokens that the judge read for this score; 0 where its answer was remembered."""
    output_tokens: int = 0
    cost: float = 0.0
    """US dollars that the judge cost for this score."""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """All scores of one trace: what a sink receives."""

    trace: Trace
    scores: tuple[Score, ...]
    status: str = "scored"
    """`scored`, `error` (no evaluator succeeded) or `dropped` (accepted, never evaluated)."""
    cause: str | None = None
    """Cause of a bad answer, one of `semconv.CAUSES`; None where no evaluator can tell."""
    lag: float = field(default=0.0)
    """Seconds from the end of the request to the end of its evaluation."""
    reason: str | None = None
    """Why it was dropped: `queue_full`, `queue_bytes`, `shutdown`."""
