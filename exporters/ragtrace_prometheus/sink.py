"""Requests and evaluations as metrics. What there is stands in `catalogue`.

`app` and `env` stand on every series; evaluator names, models, prompt versions, verdicts and reasons are bounded; ids
and text are never labels. A trace is named by exemplars alone, which OpenMetrics scrapes show.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry, Counter, Histogram

from ragtrace import semconv
from ragtrace.capture import sendable
from ragtrace.errors import SettingError
from ragtrace.evaluation import NOT_APPLICABLE, Evaluator
from ragtrace.measuring import STAGES
from ragtrace.records import Evaluation, Score, Trace
from ragtrace.sampling import Decision
from ragtrace.settings import in_force
from ragtrace_prometheus.catalogue import Catalogue
from ragtrace_prometheus.exposition import PlainRegistry
from ragtrace_prometheus.labels import LabelCap
from ragtrace_prometheus.watcher import DROPS, Watcher, asks_judge

if TYPE_CHECKING:
    from ragtrace_prometheus.server import MetricsServer

_VERDICTS = frozenset({"pass", "fail", "none", "refusal", NOT_APPLICABLE, "error"})
_STATUSES = ("ok", "error", "cancelled")
_STAGES = frozenset(STAGES.values())
_DIRECTIONS = ("input", "output")
_FEEDBACK = ("up", "down", "other")
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
_MAX_ORIGIN = 20
"""Models, and prompt versions, that have a series of their own."""

Origin = tuple[str, str]
"""Model and prompt version, as labels; "" where unknown."""


@dataclass(slots=True)
class _OfEvaluator:
    """One evaluator's children that do not depend on the request. Looked up once: that costs more than counting."""

    name: str
    usual: tuple[str, ...]
    """The verdicts to expect of it."""
    clipped: Counter
    score: Histogram
    took: Histogram


@dataclass(slots=True)
class _OfVerdict:
    """The three counts of one verdict."""

    evaluations: Counter
    weight: Counter
    weight_squared: Counter


class PrometheusSink:
    """A sink for evaluations and an observer of requests, in a registry of its own.

    One process owns the evaluation metrics of an application; prometheus_client's multi-process mode would drop the
    exemplars.
    """

    def __init__(
        self,
        *,
        app: str,
        env: str,
        evaluators: Sequence[Evaluator],
        registry: CollectorRegistry | None = None,
        prices: Mapping[str, tuple[float, float]] | None = None,
        strata: Sequence[str] = ("ratio",),
    ) -> None:
        """`registry` defaults to a new one; SettingError for one that holds ragtrace's metrics already. `prices` are US
        dollars for a million tokens of input and of output, by model. `strata` are the reasons that the sampler gives
        for its decisions, as far as they are known before the first one."""
        self.registry = registry or PlainRegistry()
        if "ragtrace_requests_total" in getattr(self.registry, "_names_to_collectors", ()):
            raise SettingError("this registry holds ragtrace's metrics already; give each PrometheusSink its own")
        self._app, self._env = sendable(app, 200), sendable(env, 200)
        self._evaluator = LabelCap(100)
        self._reason = LabelCap(50)
        self._stratum = LabelCap(20)
        self._model = LabelCap(_MAX_ORIGIN, empty="")
        self._prompt_version = LabelCap(_MAX_ORIGIN, empty="")
        self._prices = dict(prices or {})
        self._metrics = Catalogue(self.registry, evaluators)
        self._of_status: dict[Origin, dict[str, Counter]] = {}
        self._of_model: dict[str, list[Counter]] = {}
        self._of_decision: dict[tuple[str, bool], Counter] = {}
        self._of_evaluator: dict[str, _OfEvaluator] = {}
        self._of_verdict: dict[tuple[str, str, Origin], _OfVerdict] = {}
        self._of_score: dict[tuple[str, Origin], Counter] = {}
        self._prepare_requests(strata)
        for check in evaluators:
            self._prepare(check)
        self._prepare_judge([check for check in evaluators if asks_judge(check)])

    def _labelled(self, metric: Any, *values: str) -> Any:
        """The metric's child for this application, created at 0 where it is new."""
        return metric.labels(self._app, self._env, *values)

    # --- children at 0: `increase()` misses the first event of a series that was not there before it ------------------

    def _prepare_requests(self, strata: Sequence[str]) -> None:
        m = self._metrics
        self._statuses(("", ""))
        for stratum in strata:
            for keep in (True, False):
                self._decision(stratum, keep)
        for direction in _DIRECTIONS:
            self._labelled(m.tokens, direction, "")
        for model in self._prices:
            self._labelled(m.cost, "generation", self._model(model))
        for value in _FEEDBACK:
            self._labelled(m.feedback, value)
        for reason in DROPS:
            self._labelled(m.dropped, self._reason(reason))
        for cause in semconv.CAUSES:
            self._labelled(m.causes, cause)
        # Looked up once: requests pass here in their own thread.
        self._duration, self._first_chunk = self._labelled(m.duration), self._labelled(m.first_chunk)
        self._documents, self._top_score = self._labelled(m.documents), self._labelled(m.top_score)
        self._empty, self._lag = self._labelled(m.empty), self._labelled(m.lag)
        self._of_stage: dict[str, Histogram] = {}

    def _prepare(self, check: Evaluator) -> None:
        m, name = self._metrics, self._evaluator(check.name)
        usual = ("none", "error") if check.threshold is None else ("pass", "fail", "error")
        self._of_evaluator[check.name] = self._known(name, usual)
        # Without a model and a prompt's version: rules sum over both, and each verdict needs one series from the start.
        for verdict in usual:
            self._verdict(name, verdict, ("", ""))
        for verdict in ("refusal", NOT_APPLICABLE):  # no rate is made of their weights
            self._labelled(m.evaluations, name, verdict, "", "")
        self._weighted(name, ("", ""))
        for reason in _ERRORS:
            self._labelled(m.errors, name, self._reason(reason))
        for kind in _KINDS:
            self._labelled(m.failures, name, kind)

    def _prepare_judge(self, checks: Sequence[Evaluator]) -> None:
        m = self._metrics
        for check in checks:
            name = self._evaluator(check.name)
            for reason in _JUDGE_ERRORS:
                self._labelled(m.errors, name, self._reason(reason))
            for direction in _DIRECTIONS:
                self._labelled(m.judge_tokens, name, direction)
            self._labelled(m.judge_cost, name)
        if checks:
            self._labelled(m.cost, "judge", self._model(in_force().judge_model))

    def _known(self, name: str, usual: tuple[str, ...]) -> _OfEvaluator:
        m = self._metrics
        found = (self._labelled(metric, name) for metric in (m.clipped, m.score, m.took))
        return _OfEvaluator(name, usual, *found)

    def _statuses(self, origin: Origin) -> dict[str, Counter]:
        found = self._of_status.get(origin)
        if found is None:
            found = {status: self._labelled(self._metrics.requests, status, *origin) for status in _STATUSES}
            self._of_status[origin] = found
        return found

    def _decision(self, stratum: str, keep: bool) -> Counter:
        counter = self._of_decision.get((stratum, keep))
        if counter is None:
            word = "sampled" if keep else "sampled_out"
            counter = self._labelled(self._metrics.decisions, word, self._stratum(stratum))
            if len(self._of_decision) < 200:
                self._of_decision[stratum, keep] = counter
        return counter

    def _verdict(self, name: str, verdict: str, origin: Origin) -> _OfVerdict:
        key = (name, verdict, origin)
        found = self._of_verdict.get(key)
        if found is None:
            m = self._metrics
            metrics = (m.evaluations, m.weight, m.weight_squared)
            found = _OfVerdict(*(self._labelled(metric, name, verdict, *origin) for metric in metrics))
            self._of_verdict[key] = found
        return found

    def _weighted(self, name: str, origin: Origin) -> Counter:
        found = self._of_score.get((name, origin))
        if found is None:
            found = self._labelled(self._metrics.weighted_score, name, *origin)
            self._of_score[name, origin] = found
        return found

    # --- requests: in their own thread -----------------------------------------------------------

    def observe_request(self, trace: Trace, decision: Decision) -> None:
        """Count a finished request. A handful of additions under short locks; never raises for what a trace holds."""
        known = trace.attributes
        origin = self._origin(known)
        # On the two that somebody follows to a trace: checking an exemplar costs more than counting.
        exemplar = None if known.get("unrecorded") else _exemplar(trace)
        self._statuses(origin)["error" if trace.error else "cancelled" if known.get("cancelled") else "ok"].inc()
        self._decision(decision.reason, decision.keep).inc()
        self._duration.observe(_amount(trace.duration), exemplar)
        if "time_to_first_chunk" in known:
            self._first_chunk.observe(_amount(known["time_to_first_chunk"]), exemplar)
        stages = known.get("stages")
        if isinstance(stages, Mapping):
            for stage, seconds in stages.items():
                if stage in _STAGES:
                    self._stage(stage).observe(_amount(seconds))
        self._observe_documents(trace)
        self._observe_tokens(known)

    def observe_feedback(self, value: str) -> None:
        """Count what a user said of an answer: `up` or `down`; everything else is `other`."""
        self._labelled(self._metrics.feedback, value if value in ("up", "down") else "other").inc()

    def _origin(self, known: Mapping[str, object]) -> Origin:
        model, version = known.get("model"), known.get("prompt_version")
        return (
            "" if model is None else self._model(model),
            "" if version is None else self._prompt_version(version),
        )

    def _stage(self, stage: str) -> Histogram:
        found = self._of_stage.get(stage)
        if found is None:  # made late: most applications have two of the five
            found = self._of_stage[stage] = self._labelled(self._metrics.stages, stage)
        return found

    def _observe_documents(self, trace: Trace) -> None:
        if not trace.documents:
            if trace.attributes.get("retrievals"):
                self._documents.observe(0)
                self._empty.inc()
            return
        self._documents.observe(len(trace.documents))
        scores = [d.score for d in trace.documents if d.score is not None]
        if scores:
            self._top_score.observe(_amount(max(scores)))

    def _observe_tokens(self, known: Mapping[str, object]) -> None:
        usage = known.get("usage")
        if isinstance(usage, Mapping):
            for model, counts in usage.items():
                if isinstance(counts, (tuple, list)) and len(counts) == len(_DIRECTIONS):
                    self._spend(model, [_amount(count) for count in counts])
        elif "input_tokens" in known or "output_tokens" in known:
            counts = [_amount(known.get("input_tokens")), _amount(known.get("output_tokens"))]
            self._spend(known.get("model") or "", counts)

    def _spend(self, model: object, counts: Sequence[float]) -> None:
        label = self._model(model)
        children = self._of_model.get(label)
        if children is None:
            children = [self._labelled(self._metrics.tokens, direction, label) for direction in _DIRECTIONS]
            self._of_model[label] = children
        for child, count in zip(children, counts, strict=True):
            child.inc(count)
        prices = self._prices.get(model) if isinstance(model, str) else None
        if prices is not None:
            dollars = sum(count * price for count, price in zip(counts, prices, strict=True)) / 1e6
            self._labelled(self._metrics.cost, "generation", label).inc(dollars)

    # --- evaluations: in the pipeline's threads --------------------------------------------------

    def __call__(self, evaluation: Evaluation) -> None:
        """Count an evaluation."""
        m = self._metrics
        if evaluation.status == "dropped":
            self._labelled(m.dropped, self._reason(evaluation.reason or "unknown")).inc()
            return
        exemplar = _exemplar(evaluation.trace)
        origin = self._origin(evaluation.trace.attributes)
        for score in evaluation.scores:
            self._count(score, origin, exemplar)
        if evaluation.cause is not None:
            cause = evaluation.cause if evaluation.cause in semconv.CAUSES else "none"
            self._labelled(m.causes, cause).inc()
        self._lag.observe(_amount(evaluation.lag), exemplar)
        self._labelled(m.last).set(time.time())

    def observe_duration(self, evaluator: str, seconds: float) -> None:
        """Note how long an evaluator took for one trace."""
        self._found(evaluator).took.observe(_amount(seconds))

    def _found(self, evaluator: str) -> _OfEvaluator:
        found = self._of_evaluator.get(evaluator)
        return found if found is not None else self._known(self._evaluator(evaluator), ("error",))

    def _count(self, score: Score, origin: Origin, exemplar: dict[str, str]) -> None:
        m, of = self._metrics, self._found(score.name)
        verdict = "error" if score.error else score.label if score.label in _VERDICTS else "none"
        weight = 1.0 / score.sampling_probability if score.sampling_probability > 0 else _MAX_WEIGHT
        if not weight <= _MAX_WEIGHT:
            weight = _MAX_WEIGHT
            of.clipped.inc()
        if (of.name, "error", origin) not in self._of_verdict:
            for usual in of.usual:  # the first of this model and prompt: what else may follow begins at 0
                self._verdict(of.name, usual, origin)
        counts = self._verdict(of.name, verdict, origin)
        counts.evaluations.inc(exemplar=exemplar if verdict == "fail" else None)
        counts.weight.inc(weight)
        counts.weight_squared.inc(weight * weight)
        for kind in (*score.failures, *(("parse",) if score.error == "parse_failure" else ())):
            self._labelled(m.failures, of.name, kind if kind in _KINDS else "other").inc()
        if score.model is not None:
            self._count_judge(score, of.name)
        if score.error is not None:
            self._labelled(m.errors, of.name, self._reason(score.error)).inc()
        elif score.value is not None and math.isfinite(score.value):
            of.score.observe(score.value, exemplar)
            self._weighted(of.name, origin).inc(weight * max(0.0, score.value))

    def _count_judge(self, score: Score, name: str) -> None:
        m, dollars = self._metrics, _amount(score.cost)
        self._labelled(m.judge_tokens, name, "input").inc(_amount(score.input_tokens))
        self._labelled(m.judge_tokens, name, "output").inc(_amount(score.output_tokens))
        self._labelled(m.judge_cost, name).inc(dollars)
        self._labelled(m.cost, "judge", self._model(score.model)).inc(dollars)

    # --- the pipeline's own state, at each scrape ------------------------------------------------

    def watch(self, pipeline: Any, telemetry: Any = None) -> None:
        """Read the pipeline's counts and the exporters' at each scrape."""
        caps = (self._evaluator, self._reason, self._stratum, self._model, self._prompt_version)
        labels = {"app": self._app, "env": self._env}
        self.registry.register(Watcher(labels, pipeline, telemetry, self._evaluator, caps))

    def serve(self, port: int, host: str = "127.0.0.1") -> MetricsServer:
        """Serve /metrics. Raises SettingError if the port cannot be had."""
        from ragtrace_prometheus.server import serve

        return serve(self.registry, port, host)


def _exemplar(trace: Trace) -> dict[str, str]:
    return {"trace_id": f"{trace.trace_id:032x}"}


def _amount(value: object) -> float:
    """A number that a counter or a histogram may take: 0 for one below it, for NaN and infinity, and for what is none.
    A clock that is set back and a model that miscounts must not make a counter fall or stay NaN for good."""
    if isinstance(value, (int, float)) and 0 < value < math.inf:
        return float(value)
    return 0.0
