"""What is counted of a request: taken down in its own thread, counted in another."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from ragtrace.records import Facts, Trace
from ragtrace.sampling import Decision
from ragtrace.tracing.timing import STAGES
from ragtrace_prometheus.catalogue import Catalogue
from ragtrace_prometheus.families import Distribution, Number
from ragtrace_prometheus.labels import Caps, Origin

_STATUSES = ("ok", "error", "cancelled")
_STAGES = frozenset(STAGES.values())
DIRECTIONS = ("input", "output")
_FEEDBACK = ("up", "down", "other")


class Request(NamedTuple):
    """A finished request without its texts, which must not wait with it."""

    trace_id: int
    at: float
    """When it was taken down, in Unix seconds."""
    duration: object
    failed: bool
    reason: str
    keep: bool
    documents: int
    scores: list[float | None]
    facts: Facts


def _without_texts(facts: Facts) -> Facts:
    return replace(facts, steps=(), spans=()) if facts.steps or facts.spans else facts


def take_down(trace: Trace, decision: Decision) -> Request:
    """What is counted later. Runs in the request's thread: nothing here computes."""
    return Request(
        trace.trace_id,
        time.time(),
        trace.duration,
        bool(trace.error),
        decision.reason,
        decision.keep,
        len(trace.documents),
        [document.score for document in trace.documents],
        _without_texts(trace.facts),
    )


class Requests:
    """Counts requests. Not safe for several threads: the sink's lock is around it."""

    def __init__(
        self,
        catalogue: Catalogue,
        base: tuple[str, str],
        caps: Caps,
        prices: Mapping[str, tuple[float, float]],
        strata: Sequence[str],
    ) -> None:
        self._metrics, self._base, self._caps, self._prices = catalogue, base, caps, prices
        self._of_status: dict[Origin, dict[str, Number]] = {}
        self._of_decision: dict[tuple[str, bool], Number] = {}
        self._of_stage: dict[str, Distribution] = {}
        self._of_model: dict[str, list[Number]] = {}
        self._prepare(strata)

    def _prepare(self, strata: Sequence[str]) -> None:
        """Children at 0: `increase()` misses the first event of a series that was not there before it."""
        m, base = self._metrics, self._base
        self._statuses(("", ""))
        for stratum in strata:
            for keep in (True, False):
                self._decision(stratum, keep)
        for direction in DIRECTIONS:
            Number(m.tokens, (*base, direction, ""))
        for model in self._prices:
            Number(m.cost, (*base, "generation", self._caps.model(model)))
        self._feedback = {value: Number(m.feedback, (*base, value)) for value in _FEEDBACK}
        self._duration, self._first_chunk = Distribution(m.duration, base), Distribution(m.first_chunk, base)
        self._documents, self._top_score = Distribution(m.documents, base), Distribution(m.top_score, base)
        self._empty = Number(m.empty, base)

    def count(self, request: Request) -> None:
        """Count a finished request; never raises for what it holds."""
        facts = request.facts
        origin = self._caps.origin(facts.model, facts.prompt_version)
        # A trace that the application's own sampler drops is named by none: nobody could open it.
        named = None if facts.unrecorded else f"{request.trace_id:032x}"
        self._statuses(origin)["error" if request.failed else "cancelled" if facts.cancelled else "ok"].inc()
        self._decision(request.reason, request.keep).inc()
        self._duration.observe(amount(request.duration), named, request.at)
        if facts.time_to_first_chunk is not None:
            self._first_chunk.observe(amount(facts.time_to_first_chunk), named, request.at)
        for stage, seconds in facts.stages.items():
            if stage in _STAGES:
                self._stage(stage).observe(amount(seconds))
        self._count_documents(request)
        self._count_tokens(facts)

    def count_feedback(self, value: str) -> None:
        """Count what a user said."""
        self._feedback[value if value in self._feedback else "other"].inc()

    def _statuses(self, origin: Origin) -> dict[str, Number]:
        found = self._of_status.get(origin)
        if found is None:
            found = {status: Number(self._metrics.requests, (*self._base, status, *origin)) for status in _STATUSES}
            self._of_status[origin] = found
        return found

    def _decision(self, stratum: str, keep: bool) -> Number:
        number = self._of_decision.get((stratum, keep))
        if number is None:
            word = "sampled" if keep else "sampled_out"
            number = Number(self._metrics.decisions, (*self._base, word, self._caps.stratum(stratum)))
            if len(self._of_decision) < 200:
                self._of_decision[stratum, keep] = number
        return number

    def _stage(self, stage: str) -> Distribution:
        found = self._of_stage.get(stage)
        if found is None:  # made late: most applications have two of the five
            found = self._of_stage[stage] = Distribution(self._metrics.stages, (*self._base, stage))
        return found

    def _count_documents(self, request: Request) -> None:
        if not request.documents:
            if request.facts.retrievals:
                self._documents.observe(0.0)
                self._empty.inc()
            return
        self._documents.observe(float(request.documents))
        scores = [score for score in request.scores if score is not None]
        if scores:
            self._top_score.observe(amount(max(scores)))

    def _count_tokens(self, facts: Facts) -> None:
        if facts.usage:
            for model, counts in facts.usage.items():
                self._spend(model, [amount(count) for count in counts])
        elif facts.input_tokens is not None or facts.output_tokens is not None:
            self._spend(facts.model or "", [amount(facts.input_tokens), amount(facts.output_tokens)])

    def _spend(self, model: object, counts: Sequence[float]) -> None:
        label = self._caps.model(model)
        numbers = self._of_model.get(label)
        if numbers is None:
            numbers = [Number(self._metrics.tokens, (*self._base, way, label)) for way in DIRECTIONS]
            self._of_model[label] = numbers
        for number, count in zip(numbers, counts, strict=True):
            number.inc(count)
        prices = self._prices.get(model) if isinstance(model, str) else None
        if prices is not None:
            dollars = sum(count * price for count, price in zip(counts, prices, strict=True)) / 1e6
            Number(self._metrics.cost, (*self._base, "generation", label)).inc(dollars)


def amount(value: object) -> float:
    """A number that a counter or a histogram may take: 0 for one below it, for NaN and infinity, and for what is none.
    A clock that is set back and a model that miscounts must not make a counter fall or stay NaN for good."""
    if isinstance(value, (int, float)) and 0 < value < math.inf:
        return float(value)
    return 0.0
