"""How the requests ended, by evaluator: nothing is lost without being counted."""

import logging
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from operator import attrgetter

from ragtrace.base.background import QueueStats
from ragtrace.evaluation import Evaluator
from ragtrace.records import INPUTS, Trace, has_text, is_filled

_log = logging.getLogger(__name__)

UNFINISHED = frozenset({"timeout", "circuit_open", "ConnectionError"})
"""Errors of scores whose evaluator did not end: it took too long, it rests after failures, its process died or could
not be reached."""


@dataclass(frozen=True, slots=True)
class Counts:
    """How the traces ended that one evaluator could have scored.

    `eligible = sampled_out + scored + failed + dropped` in every snapshot; traces still waiting are in none of them."""

    eligible: int = 0
    """Requests that have the inputs which the evaluator needs."""
    sampled_out: int = 0
    """Not evaluated by choice: the request was not sampled, or this evaluator's own rate left it out."""
    scored: int = 0
    """Evaluated, with at least one score without `error`; `not_applicable` is such a score."""
    failed: int = 0
    """Evaluated, but each score has an `error`: the evaluator raised, took too long, or its process died."""
    dropped: int = 0
    """Sampled and then lost without an evaluation: a full queue, an internal error, or the end of the process."""


@dataclass(frozen=True, slots=True)
class Stats:
    """A snapshot of the pipeline. `received = sampled_out + delivered + dropped + queued + running`."""

    received: int
    sampled_out: int
    delivered: int
    """Traces that were evaluated and delivered."""
    queued: int
    queued_bytes: int
    running: int
    oldest_age: float
    """Seconds that the oldest waiting trace has waited."""
    dropped: Mapping[str, int]
    """By reason: `queue_full`, `queue_bytes`, `shutdown`, `internal`."""
    decisions: Mapping[tuple[str, bool], int]
    """Sampling decisions by reason and whether the trace was kept."""
    errors: Mapping[tuple[str, str], int]
    """Failed checks by evaluator and reason."""
    busy: Mapping[str, float]
    """Seconds spent in each evaluator."""
    sink_errors: Mapping[str, int]
    internal_errors: int

    @property
    def undelivered(self) -> int:
        """Losses so far: dropped requests, evaluators that did not end (`UNFINISHED`), failures of sinks and of the
        pipeline itself."""
        unfinished = sum(count for (_, reason), count in self.errors.items() if reason in UNFINISHED)
        return sum(self.dropped.values()) + unfinished + sum(self.sink_errors.values()) + self.internal_errors


@dataclass(slots=True)
class Tally:
    """The pipeline's counters. Read and written under one lock."""

    decisions: Counter[tuple[str, bool]] = field(default_factory=Counter)
    """By reason and whether the trace was kept."""
    sampled_out: Counter[int] = field(default_factory=Counter)
    """Traces that were not sampled, by `inputs_of`."""
    dropped: Counter[int] = field(default_factory=Counter)
    """Sampled traces that were not evaluated, by `inputs_of`."""
    outcomes: Counter[tuple[str, str]] = field(default_factory=Counter)
    """By evaluator and outcome: `scored`, `failed`, `sampled_out`."""
    errors: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Failed checks by evaluator and reason."""
    busy: dict[str, float] = field(default_factory=dict)
    """Seconds spent in each evaluator."""
    sink_errors: Counter[str] = field(default_factory=Counter)
    internal_errors: int = 0

    def log_new(self, errors: Mapping[tuple[str, str], int]) -> None:
        """Log each evaluator and reason that is new; the scores have the message."""
        for name, reason in errors.keys() - self.errors.keys():
            _log.warning("ragtrace: the evaluator %s failed (%s); further ones are only counted", name, reason)

    def counts_of(self, check: Evaluator) -> Counts:
        """One evaluator's counts: what had the inputs that it needs, and its own outcomes."""
        needs = sum(1 << INPUTS.index(need) for need in check.needs)
        sampled_out = sum(n for inputs, n in self.sampled_out.items() if inputs & needs == needs)
        sampled_out += self.outcomes[check.name, "sampled_out"]
        dropped = sum(n for inputs, n in self.dropped.items() if inputs & needs == needs)
        scored, failed = self.outcomes[check.name, "scored"], self.outcomes[check.name, "failed"]
        return Counts(sampled_out + dropped + scored + failed, sampled_out, scored, failed, dropped)

    def stats(self, queue: QueueStats) -> Stats:
        """All counters, with those of the queue."""
        sampled_out = sum(self.sampled_out.values())
        return Stats(
            received=sampled_out + queue.total, sampled_out=sampled_out, delivered=queue.done, queued=queue.waiting,
            queued_bytes=queue.waiting_bytes, running=queue.running, oldest_age=queue.oldest_age,
            dropped={str(reason): count for reason, count in queue.dropped.items()}, decisions=dict(self.decisions),
            errors=dict(self.errors), busy=dict(self.busy), sink_errors=dict(self.sink_errors),
            internal_errors=self.internal_errors + queue.failures,
        )  # fmt: skip


_inputs = attrgetter(*INPUTS)
_DOCUMENTS, _CONTEXT = 1 << INPUTS.index("documents"), 1 << INPUTS.index("context")


def inputs_of(trace: Trace) -> int:
    """Which inputs the trace has, as bits: cheap enough for the request's thread, and enough to find out later which
    evaluators could have scored it. Agrees with `records.has_input`."""
    bits, bit = 0, 1
    for value in _inputs(trace):
        if is_filled(value):
            bits |= bit
        bit <<= 1
    return bits & ~(_DOCUMENTS | _CONTEXT) if trace.documents and not has_text(trace.documents) else bits
