"""What became of the requests, by evaluator: nothing is lost without being counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from ragtrace.evaluation import Evaluator
from ragtrace.records import INPUTS, Trace, has_input


@dataclass(frozen=True, slots=True)
class Counts:
    """What became of the traces that one evaluator could have scored.

    `eligible = sampled_out + scored + failed + dropped` in every snapshot; traces still waiting are in none of them.
    """

    eligible: int = 0
    sampled_out: int = 0
    scored: int = 0
    failed: int = 0
    dropped: int = 0


@dataclass(frozen=True, slots=True)
class Stats:
    """A snapshot of the pipeline. `offered = sampled_out + settled + dropped + queued + running`."""

    offered: int
    sampled_out: int
    settled: int
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


def counted(
    check: Evaluator, sampled_out: Counter[int], dropped: Counter[int], outcomes: Counter[tuple[str, str]]
) -> Counts:
    """One evaluator's counts, from requests by the inputs that they had and outcomes by evaluator."""
    needed = sum(1 << INPUTS.index(need) for need in check.needs)
    out = sum(n for inputs, n in sampled_out.items() if inputs & needed == needed)
    out += outcomes[check.name, "sampled_out"]
    lost = sum(n for inputs, n in dropped.items() if inputs & needed == needed)
    scored, failed = outcomes[check.name, "scored"], outcomes[check.name, "failed"]
    return Counts(out + lost + scored + failed, out, scored, failed, lost)


def inputs_of(trace: Trace) -> int:
    """Which inputs the trace has, as bits: cheap enough for the request's thread, and enough to tell later which
    evaluators could have scored it. Agrees with `Evaluator.applies`."""
    return sum(has_input(trace, name) << place for place, name in enumerate(INPUTS))
