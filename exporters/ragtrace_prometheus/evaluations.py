"""What is counted of an evaluation."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass

from ragtrace import semconv
from ragtrace.evaluation import NOT_APPLICABLE, Evaluator
from ragtrace.records import Evaluation, Score
from ragtrace.settings import in_force
from ragtrace_prometheus.catalogue import Catalogue
from ragtrace_prometheus.families import Distribution, Exemplar, Family, Number
from ragtrace_prometheus.labels import Caps, Origin
from ragtrace_prometheus.requests import DIRECTIONS, amount
from ragtrace_prometheus.watcher import DROPS

_VERDICTS = frozenset({"pass", "fail", "none", "refusal", NOT_APPLICABLE, "error"})
_KINDS = ("retrieval", "generation", "parse")
_ERRORS = ("timeout", "circuit_open", "not_a_number")
_JUDGE_ERRORS = (
    "parse_failure",
    "judge_budget",
    "judge_rate_limited",
    "judge_timeout",
    "judge_unavailable",
    "judge_refused",
    "no_judge",
)
_MAX_WEIGHT = 1_000.0
"""1/p is cut here, and the cut counted: one trace of a millionfold weight would be the whole average."""


@dataclass(frozen=True, slots=True)
class _OfEvaluator:
    """One evaluator's series that do not depend on the request. Looked up once: that costs more than counting."""

    name: str
    usual: tuple[str, ...]
    """The verdicts to expect of it."""
    clipped: Number
    score: Distribution
    took: Distribution


@dataclass(frozen=True, slots=True)
class _OfVerdict:
    """The three counts of one verdict."""

    evaluations: Number
    weight: Number
    weight_squared: Number


class Evaluations:
    """Counts evaluations. Not safe for several threads: the sink's lock is around it."""

    def __init__(
        self, catalogue: Catalogue, base: tuple[str, str], caps: Caps, evaluators: Sequence[Evaluator]
    ) -> None:
        self._metrics, self._base, self._caps = catalogue, base, caps
        self._of_evaluator: dict[str, _OfEvaluator] = {}
        self._of_verdict: dict[tuple[str, str, Origin], _OfVerdict] = {}
        self._of_score: dict[tuple[str, Origin], Number] = {}
        self._lag = Distribution(catalogue.lag, base)
        for reason in DROPS:
            self._number(catalogue.dropped, caps.reason(reason))
        for cause in semconv.CAUSES:
            self._number(catalogue.causes, cause)
        for check in evaluators:
            self._prepare(check)
        self._prepare_judge([check for check in evaluators if check.asks_judge])

    def _number(self, family: Family, *labels: str) -> Number:
        """The family's series for this application, at 0 where it is new."""
        return Number(family, (*self._base, *labels))

    # --- series at 0: `increase()` misses the first event of a series that was not there before it -------------------

    def _prepare(self, check: Evaluator) -> None:
        m, name = self._metrics, self._caps.evaluator(check.name)
        usual = ("none", "error") if check.threshold is None else ("pass", "fail", "error")
        self._of_evaluator[check.name] = self._known(name, usual)
        # Without a model and a prompt's version: rules sum over both, and each verdict needs one series from the start.
        for verdict in usual:
            self._verdict(name, verdict, ("", ""))
        for verdict in ("refusal", NOT_APPLICABLE):  # no rate is made of their weights
            self._number(m.evaluations, name, verdict, "", "")
        self._weighted(name, ("", ""))
        for reason in _ERRORS:
            self._number(m.errors, name, self._caps.reason(reason))
        for kind in _KINDS:
            self._number(m.failures, name, kind)

    def _prepare_judge(self, checks: Sequence[Evaluator]) -> None:
        m = self._metrics
        for check in checks:
            name = self._caps.evaluator(check.name)
            for reason in _JUDGE_ERRORS:
                self._number(m.errors, name, self._caps.reason(reason))
            for direction in DIRECTIONS:
                self._number(m.judge_tokens, name, direction)
            self._number(m.judge_cost, name)
        if checks:
            self._number(m.cost, "judge", self._caps.model(in_force().judge_model))

    def _known(self, name: str, usual: tuple[str, ...]) -> _OfEvaluator:
        m, labels = self._metrics, (*self._base, name)
        score, took = Distribution(m.score, labels), Distribution(m.took, labels)
        return _OfEvaluator(name, usual, Number(m.clipped, labels), score, took)

    def _verdict(self, name: str, verdict: str, origin: Origin) -> _OfVerdict:
        key = (name, verdict, origin)
        found = self._of_verdict.get(key)
        if found is None:
            m = self._metrics
            families = (m.evaluations, m.weight, m.weight_squared)
            found = _OfVerdict(*(self._number(family, name, verdict, *origin) for family in families))
            self._of_verdict[key] = found
        return found

    def _weighted(self, name: str, origin: Origin) -> Number:
        found = self._of_score.get((name, origin))
        if found is None:
            found = self._of_score[name, origin] = self._number(self._metrics.weighted_score, name, *origin)
        return found

    # --- counting ------------------------------------------------------------------------------------

    def count(self, evaluation: Evaluation) -> None:
        """Count an evaluation."""
        m, now = self._metrics, time.time()
        if evaluation.status == "dropped":
            self._number(m.dropped, self._caps.reason(evaluation.reason or "unknown")).inc()
            return
        named = f"{evaluation.trace.trace_id:032x}"
        facts = evaluation.trace.facts
        origin = self._caps.origin(facts.model, facts.prompt_version)
        for score in evaluation.scores:
            self._count(score, origin, named, now)
        if evaluation.cause is not None:
            self._number(m.causes, evaluation.cause if evaluation.cause in semconv.CAUSES else "none").inc()
        self._lag.observe(amount(evaluation.lag), named, now)
        self._number(m.last).set(now)

    def count_duration(self, evaluator: str, seconds: float) -> None:
        """Count how long an evaluator took for one trace."""
        self._found(evaluator).took.observe(amount(seconds))

    def _found(self, evaluator: str) -> _OfEvaluator:
        found = self._of_evaluator.get(evaluator)
        return found if found is not None else self._known(self._caps.evaluator(evaluator), ("error",))

    def _count(self, score: Score, origin: Origin, named: str, now: float) -> None:
        m, of = self._metrics, self._found(score.name)
        verdict = "error" if score.error else score.label if score.label in _VERDICTS else "none"
        weight = self._weight(score, of)
        if (of.name, "error", origin) not in self._of_verdict:
            for usual in of.usual:  # the first of this model and prompt: what else may follow begins at 0
                self._verdict(of.name, usual, origin)
        counts = self._verdict(of.name, verdict, origin)
        counts.evaluations.inc(1.0, Exemplar(named, 1.0, now) if verdict == "fail" else None)
        counts.weight.inc(weight)
        counts.weight_squared.inc(weight * weight)
        for kind in (*score.failures, *(("parse",) if score.error == "parse_failure" else ())):
            self._number(m.failures, of.name, kind if kind in _KINDS else "other").inc()
        if score.model is not None:
            self._count_judge(score, of.name)
        if score.error is not None:
            self._number(m.errors, of.name, self._caps.reason(score.error)).inc()
        elif score.value is not None and math.isfinite(score.value):
            of.score.observe(score.value, named, now)
            self._weighted(of.name, origin).inc(weight * max(0.0, score.value))

    def _weight(self, score: Score, of: _OfEvaluator) -> float:
        weight = 1.0 / score.sampling_probability if score.sampling_probability > 0 else _MAX_WEIGHT
        if weight <= _MAX_WEIGHT:
            return weight
        of.clipped.inc()  # also for NaN
        return _MAX_WEIGHT

    def _count_judge(self, score: Score, name: str) -> None:
        m, dollars = self._metrics, amount(score.cost)
        self._number(m.judge_tokens, name, "input").inc(amount(score.input_tokens))
        self._number(m.judge_tokens, name, "output").inc(amount(score.output_tokens))
        self._number(m.judge_cost, name).inc(dollars)
        self._number(m.cost, "judge", self._caps.model(score.model)).inc(dollars)
