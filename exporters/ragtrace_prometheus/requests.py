"""Counts requests: each is noted in its own thread and counted in another."""

import math
import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ragtrace.base.model_prices import ModelUsage
from ragtrace.capture.timing import STAGES
from ragtrace.records import Trace
from ragtrace.sampling import Decision
from ragtrace_prometheus.catalogue import Catalogue
from ragtrace_prometheus.labels import Caps

_STATUSES = ("ok", "error", "cancelled", "waiting")
_STAGES = frozenset(STAGES.values())
DIRECTIONS = ("input", "output")
_FEEDBACK = ("up", "down", "other")


class FeedbackNote(NamedTuple):
    """What a user said of an answer, without a comment."""

    value: str
    score: float | None
    category: str | None


class RequestNote(NamedTuple):
    """A finished request without its texts, which must not wait with it."""

    trace_id: int
    ended: float
    """When it was noted, in Unix seconds."""
    duration: float
    status: str
    decision: Decision
    scores: list[float | None]
    """The retriever's score of each document."""
    retrievals: int
    model: str | None
    prompt_version: str | None
    unrecorded: bool
    time_to_first_chunk: float | None
    stages: Mapping[str, float]
    usage: Mapping[str, ModelUsage]
    app: str | None
    env: str | None


def note(trace: Trace, decision: Decision) -> RequestNote:
    """What is counted later. Runs in the request's thread, so it only copies."""
    facts = trace.facts
    status = "error" if trace.error else "cancelled" if facts.cancelled else "waiting" if facts.waiting else "ok"
    scores = [] if facts.chunks_of_earlier_turns else [document.score for document in trace.chunks]
    return RequestNote(
        trace.trace_id, time.time(), trace.duration, status, decision, scores, facts.retrievals, facts.model,
        facts.prompt_version, facts.unrecorded, facts.time_to_first_chunk, facts.stages, facts.usage,
        facts.app, facts.env,
    )  # fmt: skip


class Requests:
    """Counts requests. Not thread-safe: the sink holds its lock around each use."""

    def __init__(self, catalogue: Catalogue, caps: Caps, priced: Sequence[str], strata: Sequence[str]) -> None:
        """Begins at 0 what is known before the first request: `increase()` misses the first event of a series that was
        not there before it."""
        m = self._metrics = catalogue
        self._caps = caps
        self._begin_statuses("", "")
        for stratum in strata:
            for decision in ("sampled", "sampled_out"):
                m.decisions.begin(decision, caps.stratum(stratum))
        for direction in DIRECTIONS:
            m.tokens.begin(direction, "")
        for model in priced:
            m.cost.begin("generation", caps.model(model))
        for value in _FEEDBACK:
            m.feedback.begin(value)
        for family in (m.duration, m.first_chunk, m.documents, m.top_score, m.empty, m.feedback_score):
            family.begin()

    def _begin_statuses(self, model: str, version: str) -> None:
        for status in _STATUSES:
            self._metrics.requests.begin(status, model, version)

    def count(self, request: RequestNote) -> None:
        """Count a finished request. Raises TypeError for a document's score that is no number."""
        m, caps = self._metrics, self._caps
        # A trace that the application's own sampler drops is no exemplar: nobody could open it.
        source = None if request.unrecorded else ({"trace_id": f"{request.trace_id:032x}"}, request.ended)
        origin = caps.origin(request.model, request.prompt_version)
        if not m.requests.has(request.status, *origin):
            self._begin_statuses(*origin)
        m.requests.inc(request.status, *origin)
        m.decisions.inc("sampled" if request.decision.keep else "sampled_out", caps.stratum(request.decision.reason))
        m.duration.observe(amount(request.duration), source=source)
        if request.time_to_first_chunk is not None:
            m.first_chunk.observe(amount(request.time_to_first_chunk), source=source)
        for stage, seconds in request.stages.items():
            if stage in _STAGES:
                m.stages.observe(amount(seconds), stage)
        if (request.scores or request.retrievals) and request.status != "waiting":  # its chunks count when it goes on
            m.documents.observe(float(len(request.scores)))
            m.empty.inc(by=not request.scores)
        if scores := [score for score in request.scores if score is not None]:
            m.top_score.observe(amount(max(scores)))
        for model, usage in request.usage.items():
            label = caps.model(model)
            for direction, count in zip(DIRECTIONS, usage, strict=False):
                m.tokens.inc(direction, label, by=amount(count))
            if usage.cost is not None:
                m.cost.inc("generation", label, by=amount(usage.cost))

    def count_feedback(self, feedback: FeedbackNote) -> None:
        """Count a user's feedback: `up`, `down`, or anything else as `other`; its score and its category."""
        m = self._metrics
        m.feedback.inc(feedback.value if feedback.value in _FEEDBACK else "other")
        if feedback.score is not None:
            m.feedback_score.observe(feedback.score)
        if feedback.category:
            m.feedback_categories.inc(self._caps.category(feedback.category))


def amount(value: object) -> float:
    """A number that a counter or a histogram may take: 0 for one below it, for NaN and infinity, and for anything else.
    A clock that is set back and a model that miscounts must not make a counter fall or stay NaN for good."""
    return float(value) if isinstance(value, (int, float)) and 0 < value < math.inf else 0.0
