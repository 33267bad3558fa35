"""Counts evaluations."""

import math
import time
from collections.abc import Sequence

from ragtrace import semconv
from ragtrace.evaluation import NOT_APPLICABLE, Evaluator
from ragtrace.records import Evaluation, Score
from ragtrace.statistics import weight_of
from ragtrace_prometheus.catalogue import Catalogue
from ragtrace_prometheus.families import Source
from ragtrace_prometheus.labels import Caps, Origin
from ragtrace_prometheus.requests import DIRECTIONS, amount
from ragtrace_prometheus.watcher import DROPS

_VERDICTS = frozenset({"pass", "fail", "none", "refusal", NOT_APPLICABLE, "error"})
_KINDS = ("retrieval", "generation", "parse")
_ERRORS = ("timeout", "circuit_open", "not_a_number")
_JUDGE_ERRORS = (
    "parse_failure", "judge_budget", "judge_rate_limited", "judge_timeout", "judge_unavailable", "judge_refused",
    "no_judge",
)  # fmt: skip
_UNKNOWN: Origin = ("", "")


class Evaluations:
    """Counts evaluations. Not thread-safe: the sink holds its lock around each use."""

    def __init__(self, catalogue: Catalogue, caps: Caps, evaluators: Sequence[Evaluator], judge_model: str) -> None:
        """Begins at 0 what is known before the first evaluation: `increase()` misses the first event of a series that
        was not there before it."""
        self._metrics, self._caps = catalogue, caps
        self._verdicts: dict[str, tuple[str, ...]] = {}
        """The verdicts to expect of an evaluator."""
        self._by_verdict = (catalogue.evaluations, catalogue.weight, catalogue.weight_squared)
        self._places: dict[tuple[str, str, Origin], tuple[int, ...]] = {}
        """Where these three have a series: to look it up takes longer than to count."""
        catalogue.lag.begin()
        for reason in DROPS:
            catalogue.dropped.begin(caps.reason(reason))
        for cause in semconv.CAUSES:
            catalogue.causes.begin(cause)
            catalogue.cause_weight.begin(cause, *_UNKNOWN)
        for check in evaluators:
            self._begin(check)
        if any(check.asks_judge for check in evaluators):
            catalogue.cost.begin("judge", caps.model(judge_model))

    def _begin(self, check: Evaluator) -> None:
        m, name = self._metrics, self._caps.evaluator(check.name)
        self._verdicts[check.name] = ("none", "error") if check.threshold is None else ("pass", "fail", "error")
        # Without a model and a prompt's version: rules sum over both, and each verdict needs one series from the start.
        self._begin_verdicts(check.name, name, _UNKNOWN)
        for verdict in ("refusal", NOT_APPLICABLE):  # no rate is made of their weights
            m.evaluations.begin(name, verdict, *_UNKNOWN)
        for family in (m.clipped, m.score, m.evaluator_duration):
            family.begin(name)
        m.weighted_score.begin(name, *_UNKNOWN)
        for kind in _KINDS:
            m.failures.begin(name, kind)
        for reason in (*_ERRORS, *(_JUDGE_ERRORS if check.asks_judge else ())):
            m.errors.begin(name, self._caps.reason(reason))
        if check.asks_judge:
            m.judge_cost.begin(name)
            for direction in DIRECTIONS:
                m.judge_tokens.begin(name, direction)

    def _begin_verdicts(self, evaluator: str, name: str, origin: Origin) -> None:
        for verdict in self._verdicts.get(evaluator, ("error",)):
            for family in self._by_verdict:
                family.begin(name, verdict, *origin)

    def count(self, evaluation: Evaluation) -> None:
        """Count an evaluation."""
        m, now = self._metrics, time.time()
        if evaluation.status == "dropped":
            m.dropped.inc(self._caps.reason(evaluation.reason or "unknown"))
            return
        source = ({"trace_id": f"{evaluation.trace.trace_id:032x}"}, now)
        facts = evaluation.trace.facts
        origin = self._caps.origin(facts.model, facts.prompt_version)
        for score in evaluation.scores:
            self._count_score(score, origin, source)
            if facts.tenant:
                self._count_tenant(score, self._caps.tenant(facts.tenant))
        if evaluation.cause is not None:
            self._count_cause(evaluation, origin)
        if not evaluation.is_late:
            m.lag.observe(amount(evaluation.lag), source=source)
            m.last.set(now)

    def _count_cause(self, evaluation: Evaluation, origin: Origin) -> None:
        cause = evaluation.cause if evaluation.cause in semconv.CAUSES else "none"
        self._metrics.causes.inc(cause)
        # An evaluator with a share of its own has a smaller probability than the request.
        causes = (cause, semconv.CAUSE_TOLD_BY.get(cause))
        scores = [score for score in evaluation.scores if score.cause and score.cause in causes] or evaluation.scores
        probability = max((score.sampling_probability for score in scores), default=1.0)
        if not self._metrics.cause_weight.has(cause, *origin):
            for each in semconv.CAUSES:
                self._metrics.cause_weight.begin(each, *origin)
        self._metrics.cause_weight.inc(cause, *origin, by=weight_of(probability)[0])

    def count_duration(self, evaluator: str, seconds: float) -> None:
        """Count how long an evaluator took for one trace."""
        self._metrics.evaluator_duration.observe(amount(seconds), self._caps.evaluator(evaluator))

    def _count_score(self, score: Score, origin: Origin, source: Source) -> None:
        m, name = self._metrics, self._caps.evaluator(score.name)
        verdict = "error" if score.error else score.label if score.label in _VERDICTS else "none"
        weight, clipped = weight_of(score.sampling_probability)
        if clipped:
            m.clipped.inc(name)
        places = self._places.get((name, verdict, origin))
        if places is None:  # perhaps the first of this model and prompt
            self._begin_verdicts(score.name, name, origin)
            places = tuple(family.begin(name, verdict, *origin) for family in self._by_verdict)
            self._places[name, verdict, origin] = places
        m.evaluations.add(places[0], 1.0, source if verdict == "fail" else None)
        m.weight.add(places[1], weight)
        m.weight_squared.add(places[2], weight * weight)
        for kind in (*score.failures, *(("parse",) if score.error == "parse_failure" else ())):
            m.failures.inc(name, kind if kind in _KINDS else "other")
        if score.model is not None:
            self._count_judge(score, name)
        if score.error is not None:
            m.errors.inc(name, self._caps.reason(score.error))
        elif score.value is not None and math.isfinite(score.value):
            m.score.observe(score.value, name, source=source)
            m.weighted_score.inc(name, *origin, by=weight * max(0.0, score.value))

    def _count_tenant(self, score: Score, tenant: str) -> None:
        """Counts pass and fail by tenant: apart from model and prompt version, of which each tenant could have all."""
        m, name = self._metrics, self._caps.evaluator(score.name)
        if score.error is not None or score.label not in ("pass", "fail"):
            return
        weight, _ = weight_of(score.sampling_probability)
        for verdict in ("pass", "fail"):
            by = weight if verdict == score.label else 0.0
            m.tenant_weight.inc(name, verdict, tenant, by=by)
            m.tenant_weight_squared.inc(name, verdict, tenant, by=by * by)

    def _count_judge(self, score: Score, name: str) -> None:
        m, dollars = self._metrics, amount(score.cost)
        m.judge_tokens.inc(name, "input", by=amount(score.input_tokens))
        m.judge_tokens.inc(name, "output", by=amount(score.output_tokens))
        m.judge_cost.inc(name, by=dollars)
        m.cost.inc("judge", self._caps.model(score.model), by=dollars)
