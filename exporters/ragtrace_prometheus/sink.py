"""The metrics. Names, labels and buckets are a contract with dashboards and alert rules.

`app` and `env` stand on every series; evaluator names, verdicts and reasons are bounded; ids and text are never
labels. A trace is named by exemplars alone, which OpenMetrics scrapes show.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from ragtrace import semconv
from ragtrace._version import __version__
from ragtrace.errors import SettingError
from ragtrace.evaluation import NOT_APPLICABLE, Evaluator
from ragtrace.records import Evaluation, Score, Trace
from ragtrace.sampling import Decision
from ragtrace.settings import in_force
from ragtrace_prometheus.labels import LabelCap

if TYPE_CHECKING:
    from ragtrace_prometheus.server import MetricsServer

_SECONDS = (0.1, 0.25, 0.5, 1, 2.5, 3, 4, 5, 7, 10, 15, 20, 30, 60)
_EVALUATOR_SECONDS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_LAG = (1, 5, 15, 30, 60, 300, 900, 3600)
_DOCUMENTS = (0, 1, 2, 3, 5, 8, 10, 15, 20)
_TENTHS = tuple(round(0.1 * i, 1) for i in range(1, 11))
_VERDICTS = ("pass", "fail", "none", "refusal", NOT_APPLICABLE, "error")
_OUTCOMES = ("sampled_out", "scored", "failed", "dropped")
_KINDS = ("retrieval", "generation", "parse")
_JUDGE_REASONS = (
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


def asks_judge(check: Evaluator) -> bool:
    """Whether an evaluator may ask the judge."""
    return check.method == "judge" or check.name.endswith("_cascade")


class PlainRegistry(CollectorRegistry):
    """A registry without the `_created` series, which nearly double the counters. prometheus_client knows only a
    switch for the whole process, which is the application's to set."""

    def collect(self) -> Iterator[Metric]:
        """Every metric of this moment."""
        for metric in super().collect():
            metric.samples = [s for s in metric.samples if not s.name.endswith("_created")]
            yield metric


class PrometheusSink:
    """A sink for evaluations and an observer of requests, in a registry of its own.

    One process owns the evaluation metrics of an application; prometheus_client's multi-process mode would drop the
    exemplars.
    """

    def __init__(
        self, *, app: str, env: str, evaluators: Sequence[Evaluator], registry: CollectorRegistry | None = None
    ) -> None:
        """`registry` defaults to a new one; SettingError for one that holds ragtrace's metrics already."""
        self.registry = registry or PlainRegistry()
        if "ragtrace_requests_total" in getattr(self.registry, "_names_to_collectors", ()):
            raise SettingError("this registry holds ragtrace's metrics already; give each PrometheusSink its own")
        self._labels = {"app": app, "env": env}
        self._evaluator = LabelCap(100)
        self._reason = LabelCap(50)
        base = ("app", "env")
        per = (*base, "evaluator")
        self._requests = self._counter("ragtrace_requests", "Finished requests.", (*base, "status"))
        self._duration = self._histogram("ragtrace_request_duration_seconds", "Duration of requests.", base, _SECONDS)
        self._documents = self._histogram(
            "ragtrace_retrieved_documents", "Documents that the model saw.", base, _DOCUMENTS
        )
        self._empty = self._counter("ragtrace_retrieval_empty", "Requests whose retrieval found nothing.", base)
        self._decisions = self._counter(
            "ragtrace_sampling_decisions", "Sampling decisions.", (*base, "decision", "reason")
        )
        self._evaluations = self._counter("ragtrace_evaluations", "Evaluations by verdict.", (*per, "verdict"))
        self._weight = self._counter(
            "ragtrace_evaluation_weight",
            "Sum of 1/p: the requests that the evaluated ones stand for.",
            (*per, "verdict"),
        )
        self._weight_squared = self._counter(
            "ragtrace_evaluation_weight_squared", "Sum of 1/p squared: for effective sample sizes.", (*per, "verdict")
        )
        self._weighted_score = self._counter(
            "ragtrace_evaluation_weighted_score", "Sum of score/p, for scores of at least 0.", per
        )
        self._clipped = self._counter("ragtrace_evaluation_weight_clipped", "Weights cut at their bound.", per)
        self._score = self._score_histograms(evaluators)
        self._errors = self._counter("ragtrace_evaluator_errors", "Failed evaluations by reason.", (*per, "reason"))
        self._lag = self._histogram(
            "ragtrace_evaluation_lag_seconds", "From the end of a request to that of its evaluation.", base, _LAG
        )
        self._took = self._histogram(
            "ragtrace_evaluator_duration_seconds", "An evaluator's time for one trace.", per, _EVALUATOR_SECONDS
        )
        self._failures = self._counter(
            "ragtrace_evaluation_failures",
            "Of checks that pass or fail: the retrieved context failed (retrieval), the answer did on its own "
            "(generation), the judge's answer could not be read (parse).",
            (*per, "kind"),
        )
        self._tokens = self._counter("ragtrace_judge_tokens", "Tokens of the judge.", (*per, "direction"))
        self._cost = self._counter("ragtrace_judge_cost_usd", "What the judge cost.", per)
        self._causes = self._counter("ragtrace_failure_causes", "Causes of answers.", (*base, "cause"))
        self._dropped = self._counter(
            "ragtrace_evaluations_dropped", "Sampled requests that were not evaluated.", (*base, "reason")
        )
        self._last = Gauge(
            "ragtrace_last_evaluation_timestamp_seconds", "When an evaluation ended last.", base, registry=self.registry
        )
        self._prepare(evaluators)

    def _counter(self, name: str, text: str, labels: Sequence[str]) -> Counter:
        return Counter(name, text, labels, registry=self.registry)

    def _histogram(self, name: str, text: str, labels: Sequence[str], buckets: Sequence[float]) -> Histogram:
        return Histogram(name, text, labels, buckets=buckets, registry=self.registry)

    def _score_histograms(self, evaluators: Sequence[Evaluator]) -> Histogram:
        # Every threshold is a bound, so that the share beyond it can be read off the buckets.
        thresholds = {e.threshold for e in evaluators if e.threshold is not None and math.isfinite(e.threshold)}
        return self._histogram(
            "ragtrace_evaluation_score",
            "Scores as they are, not weighted.",
            ("app", "env", "evaluator"),
            sorted({*_TENTHS, 0.0, *thresholds}),
        )

    def _prepare(self, evaluators: Sequence[Evaluator]) -> None:
        """Children at 0: `increase()` misses the first event of a series that was not there before it."""
        for evaluator in evaluators:
            labels = {**self._labels, "evaluator": self._evaluator(evaluator.name)}
            for verdict in _VERDICTS:
                for metric in (self._evaluations, self._weight, self._weight_squared):
                    metric.labels(**labels, verdict=verdict)
            for reason in ("timeout", "circuit_open", "not_a_number"):
                self._errors.labels(**labels, reason=self._reason(reason))
            for kind in _KINDS:
                self._failures.labels(**labels, kind=kind)
            if asks_judge(evaluator):
                for reason in _JUDGE_REASONS:
                    self._errors.labels(**labels, reason=self._reason(reason))
                for direction in ("input", "output"):
                    self._tokens.labels(**labels, direction=direction)
                self._cost.labels(**labels)
            for unlabelled in (self._weighted_score, self._clipped, self._score, self._took):
                unlabelled.labels(**labels)
        for reason in ("queue_full", "queue_bytes", "shutdown", "internal"):
            self._dropped.labels(**self._labels, reason=self._reason(reason))
        for cause in semconv.CAUSES:
            self._causes.labels(**self._labels, cause=cause)
        # Looked up once: requests pass here in their own thread.
        self._of_status = {s: self._requests.labels(**self._labels, status=s) for s in ("ok", "error", "cancelled")}
        self._of_app = (
            self._duration.labels(**self._labels),
            self._documents.labels(**self._labels),
            self._empty.labels(**self._labels),
        )
        self._of_decision: dict[tuple[str, bool], Counter] = {}
        self._lag.labels(**self._labels)

    # --- requests: in their own thread -----------------------------------------------------------

    def observe_request(self, trace: Trace, decision: Decision) -> None:
        """Count a finished request. A handful of additions under short locks."""
        self._of_status["error" if trace.error else "cancelled" if trace.attributes.get("cancelled") else "ok"].inc()
        duration, documents, empty = self._of_app
        duration.observe(trace.duration)
        if trace.documents or trace.attributes.get("retrievals"):
            documents.observe(len(trace.documents))
            if not trace.documents:
                empty.inc()
        key = (decision.reason, decision.keep)
        counter = self._of_decision.get(key)
        if counter is None:
            word = "kept" if decision.keep else "sampled_out"
            counter = self._decisions.labels(**self._labels, decision=word, reason=self._reason(decision.reason))
            if len(self._of_decision) < 200:
                self._of_decision[key] = counter
        counter.inc()

    # --- evaluations: in the pipeline's threads --------------------------------------------------

    def __call__(self, evaluation: Evaluation) -> None:
        """Count an evaluation."""
        if evaluation.status == "dropped":
            self._dropped.labels(**self._labels, reason=self._reason(evaluation.reason or "unknown")).inc()
            return
        exemplar = {"trace_id": f"{evaluation.trace.trace_id:032x}"}
        for score in evaluation.scores:
            self._count(score, exemplar)
        if evaluation.cause is not None:
            cause = evaluation.cause if evaluation.cause in semconv.CAUSES else "none"
            self._causes.labels(**self._labels, cause=cause).inc()
        self._lag.labels(**self._labels).observe(evaluation.lag, exemplar)
        self._last.labels(**self._labels).set(time.time())

    def observe_duration(self, evaluator: str, seconds: float) -> None:
        """Note how long an evaluator took for one trace."""
        self._took.labels(**self._labels, evaluator=self._evaluator(evaluator)).observe(seconds)

    def _count(self, score: Score, exemplar: dict[str, str]) -> None:
        labels = {**self._labels, "evaluator": self._evaluator(score.name)}
        verdict = "error" if score.error else score.label if score.label in _VERDICTS else "none"
        weight = 1.0 / score.sampling_probability if score.sampling_probability > 0 else _MAX_WEIGHT
        if weight > _MAX_WEIGHT:
            weight = _MAX_WEIGHT
            self._clipped.labels(**labels).inc()
        self._evaluations.labels(**labels, verdict=verdict).inc(exemplar=exemplar if verdict == "fail" else None)
        self._weight.labels(**labels, verdict=verdict).inc(weight)
        self._weight_squared.labels(**labels, verdict=verdict).inc(weight * weight)
        for kind in (*score.failures, *(("parse",) if score.error == "parse_failure" else ())):
            self._failures.labels(**labels, kind=kind if kind in _KINDS else "other").inc()
        if score.model is not None:
            self._tokens.labels(**labels, direction="input").inc(score.input_tokens)
            self._tokens.labels(**labels, direction="output").inc(score.output_tokens)
            self._cost.labels(**labels).inc(score.cost)
        if score.error is not None:
            self._errors.labels(**labels, reason=self._reason(score.error)).inc()
        elif score.value is not None:
            self._score.labels(**labels).observe(score.value, exemplar)
            self._weighted_score.labels(**labels).inc(weight * max(0.0, score.value))

    # --- the pipeline's own state, at each scrape ------------------------------------------------

    def watch(self, pipeline: Any, telemetry: Any = None) -> None:
        """Read the pipeline's counts and the exporters' at each scrape."""
        self.registry.register(_Watcher(self._labels, pipeline, telemetry, (self._evaluator, self._reason)))

    def serve(self, port: int, host: str = "127.0.0.1") -> MetricsServer:
        """Serve /metrics. Raises SettingError if the port cannot be had."""
        from ragtrace_prometheus.server import serve

        return serve(self.registry, port, host)


class _Watcher:
    """A collector over snapshots: what belongs together is read together."""

    def __init__(self, labels: Mapping[str, str], pipeline: Any, telemetry: Any, caps: Sequence[LabelCap]) -> None:
        self._names = list(labels)
        self._values = list(labels.values())
        self._pipeline = pipeline
        self._telemetry = telemetry
        self._caps = caps

    def collect(self) -> Iterator[Metric]:
        """The metrics of this moment."""
        yield from self._accounting()
        yield from self._state()
        if self._telemetry is not None:
            yield from self._export()
        overflow = self._family(CounterMetricFamily, "ragtrace_label_overflow", "Label values turned into `other`.")
        overflow.add_metric(self._values, sum(cap.overflows for cap in self._caps))
        yield overflow
        if any(asks_judge(check) for check in self._pipeline.evaluators):
            budget = self._family(
                GaugeMetricFamily, "ragtrace_judge_budget_usd", "What the judge may spend in a window.", ("window",)
            )
            budget.add_metric([*self._values, "hour"], in_force().judge_budget_hour)
            budget.add_metric([*self._values, "day"], in_force().judge_budget_day)
            yield budget
        build = self._family(GaugeMetricFamily, "ragtrace_build_info", "This release.", ("version",))
        build.add_metric([*self._values, __version__], 1)
        yield build

    def _family(self, kind: Any, name: str, text: str, more: Sequence[str] = ()) -> Any:
        return kind(name, text, labels=[*self._names, *more])

    def _accounting(self) -> Iterator[Metric]:
        eligible = self._family(
            CounterMetricFamily,
            "ragtrace_evaluation_eligible",
            "Requests that the evaluator could have scored: sampled_out + scored + failed + dropped.",
            ("evaluator",),
        )
        outcomes = self._family(
            CounterMetricFamily, "ragtrace_evaluation_outcomes", "What became of them.", ("evaluator", "outcome")
        )
        info = self._family(
            GaugeMetricFamily, "ragtrace_evaluator_info", "Evaluators that run.", ("evaluator", "version", "threshold")
        )
        for name, counts in self._pipeline.counts().items():
            eligible.add_metric([*self._values, name], counts.eligible)
            for outcome in _OUTCOMES:
                outcomes.add_metric([*self._values, name, outcome], getattr(counts, outcome))
        for check in self._pipeline.evaluators:
            threshold = "" if check.threshold is None else f"{check.threshold:g}"
            model = in_force().judge_model if asks_judge(check) else ""
            info.add_metric([*self._values, check.name, check.version, threshold, model], 1)
        yield from (eligible, outcomes, info)

    def _state(self) -> Iterator[Metric]:
        stats = self._pipeline.stats()
        for name, text, value in (
            ("ragtrace_evaluation_queue_items", "Traces that wait.", stats.queued),
            ("ragtrace_evaluation_queue_bytes", "Text that waits.", stats.queued_bytes),
            ("ragtrace_evaluation_queue_oldest_age_seconds", "How long the oldest has waited.", stats.oldest_age),
        ):
            gauge = self._family(GaugeMetricFamily, name, text)
            gauge.add_metric(self._values, value)
            yield gauge
        drops = self._family(CounterMetricFamily, "ragtrace_pipeline_dropped", "Sampled requests dropped.", ("reason",))
        for reason in sorted({"queue_full", "queue_bytes", "shutdown", "internal", *stats.dropped}):
            drops.add_metric([*self._values, reason], stats.dropped.get(reason, 0))
        yield drops
        busy = self._family(
            CounterMetricFamily, "ragtrace_evaluator_busy_seconds", "Time spent in evaluators.", ("evaluator",)
        )
        for check in self._pipeline.evaluators:
            busy.add_metric([*self._values, check.name], stats.busy.get(check.name, 0.0))
        yield busy
        internal = self._family(CounterMetricFamily, "ragtrace_internal_errors", "Failures inside ragtrace.")
        internal.add_metric(self._values, stats.internal_errors + sum(stats.sink_errors.values()))
        yield internal

    def _export(self) -> Iterator[Metric]:
        stats = self._telemetry.stats()
        items = self._family(CounterMetricFamily, "ragtrace_export_items", "Items exported.", ("sink",))
        failures = self._family(
            CounterMetricFamily, "ragtrace_export_failures", "Items not exported.", ("sink", "reason")
        )
        for sink, export in (("spans", stats.spans), ("events", stats.events)):
            if export is not None:
                items.add_metric([*self._values, sink], export.exported)
                lost = stats.spans_dropped if sink == "spans" else stats.events_dropped
                failures.add_metric([*self._values, sink, "queue_full"], lost)
                for reason, count in export.failed.items():
                    failures.add_metric([*self._values, sink, reason], count)
        dropped = self._family(CounterMetricFamily, "ragtrace_spans_dropped", "Spans that a full queue dropped.")
        dropped.add_metric(self._values, stats.spans_dropped)
        yield from (items, failures, dropped)
        if stats.hold is not None:
            held = self._family(GaugeMetricFamily, "ragtrace_held_spans", "Root spans that wait for their scores.")
            held.add_metric(self._values, stats.hold.held)
            expired = self._family(CounterMetricFamily, "ragtrace_hold_expired", "Root spans that left unscored.")
            expired.add_metric(self._values, stats.hold.expired)
            yield from (held, expired)
