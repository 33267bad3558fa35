"""The metrics that ragtrace counts itself: their names, labels and buckets. A contract with dashboards and alert rules;
docs/metrics.md says what each one means, and a test compares the two."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ragtrace.evaluation import Evaluator
from ragtrace_prometheus.families import Family, Merge, Spec, upper_bounds

_SECONDS = (0.1, 0.25, 0.5, 1, 2.5, 3, 4, 5, 7, 10, 15, 20, 30, 60)
_STAGE_SECONDS = (0.005, 0.025, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_FIRST_SECONDS = (0.1, 0.25, 0.5, 1, 1.5, 2, 3, 5, 10, 30)
_EVALUATOR_SECONDS = (0.001, 0.01, 0.1, 0.5, 2.5, 10)
"""Few: there is one such histogram for each evaluator, and they are a third of a scrape."""
_LAG = (1, 5, 15, 30, 60, 300, 900, 3600)
_DOCUMENTS = (0, 1, 2, 3, 5, 8, 10, 15, 20)
_TENTHS = tuple(round(0.1 * i, 1) for i in range(1, 11))
_BASE = ("app", "env")
_PER = (*_BASE, "evaluator")
_ORIGIN = ("model", "prompt_version")


class Catalogue:
    """Every metric once, in the order of a scrape. `app` and `env` are the first two labels of each."""

    def __init__(self, evaluators: Sequence[Evaluator]) -> None:
        """Every threshold of an evaluator is a bound of the scores' histogram."""
        self.families: list[Family] = []
        self._of_requests()
        self._of_evaluations(evaluators)
        self._of_evaluators()

    def _of_requests(self) -> None:
        self.requests = self._counter("requests", "Finished requests.", (*_BASE, "status", *_ORIGIN))
        self.duration = self._histogram("request_duration_seconds", "Duration of requests.", _BASE, _SECONDS)
        self.first_chunk = self._histogram(
            "time_to_first_chunk_seconds", "From a request's start to its answer's first piece.", _BASE, _FIRST_SECONDS
        )
        self.stages = self._histogram(
            "stage_duration_seconds", "What a stage took of a request, in all.", (*_BASE, "stage"), _STAGE_SECONDS
        )
        self.documents = self._histogram("retrieved_documents", "Documents that the model saw.", _BASE, _DOCUMENTS)
        self.top_score = self._histogram(
            "retrieval_top_score", "Highest score that the retriever gave.", _BASE, (0.0, *_TENTHS)
        )
        self.empty = self._counter("retrieval_empty", "Requests whose retrieval found nothing.", _BASE)
        self.tokens = self._counter("tokens", "Tokens of the application's models.", (*_BASE, "direction", "model"))
        self.cost = self._counter("cost_usd", "US dollars spent on models.", (*_BASE, "component", "model"))
        self.decisions = self._counter("sampling_decisions", "Sampling decisions.", (*_BASE, "decision", "stratum"))
        self.feedback = self._counter("feedback", "What users said of answers.", (*_BASE, "value"))

    def _of_evaluations(self, evaluators: Sequence[Evaluator]) -> None:
        verdicts = (*_PER, "verdict", *_ORIGIN)
        self.evaluations = self._counter("evaluations", "Evaluations by verdict.", verdicts)
        self.weight = self._counter(
            "evaluation_weight", "Sum of 1/p: the requests that the evaluated ones stand for.", verdicts
        )
        self.weight_squared = self._counter(
            "evaluation_weight_squared", "Sum of 1/p squared: for effective sample sizes.", verdicts
        )
        self.weighted_score = self._counter(
            "evaluation_weighted_score", "Sum of score/p, for scores of at least 0.", (*_PER, *_ORIGIN)
        )
        self.clipped = self._counter("evaluation_weight_clipped", "Weights cut at their bound.", _PER)
        # Every threshold is a bound, so that the share beyond it can be read off the buckets.
        thresholds = {e.threshold for e in evaluators if e.threshold is not None and math.isfinite(e.threshold)}
        self.score = self._histogram(
            "evaluation_score", "Scores as they are, not weighted.", _PER, sorted({*_TENTHS, 0.0, *thresholds})
        )
        self.failures = self._counter(
            "evaluation_failures",
            "Of checks that pass or fail: the retrieved context failed (retrieval), the answer did on its own "
            "(generation), the judge's answer could not be read (parse).",
            (*_PER, "kind"),
        )
        self.causes = self._counter("failure_causes", "Causes of answers.", (*_BASE, "cause"))
        self.lag = self._histogram(
            "evaluation_lag_seconds", "From the end of a request to that of its evaluation.", _BASE, _LAG
        )
        self.dropped = self._counter(
            "evaluations_dropped", "Sampled requests that were not evaluated.", (*_BASE, "reason")
        )
        self.last = self._gauge(
            "last_evaluation_timestamp_seconds", "When an evaluation ended last.", _BASE, merge="latest"
        )

    def _of_evaluators(self) -> None:
        self.errors = self._counter("evaluator_errors", "Failed evaluations by reason.", (*_PER, "reason"))
        self.took = self._histogram(
            "evaluator_duration_seconds", "An evaluator's time for one trace.", _PER, _EVALUATOR_SECONDS
        )
        self.judge_tokens = self._counter("judge_tokens", "Tokens of the judge.", (*_PER, "direction"))
        self.judge_cost = self._counter("judge_cost_usd", "What the judge cost.", _PER)

    def _counter(self, name: str, text: str, labels: Sequence[str]) -> Family:
        return self._add(Spec(f"ragtrace_{name}", "counter", text, tuple(labels)))

    def _gauge(self, name: str, text: str, labels: Sequence[str], merge: Merge) -> Family:
        return self._add(Spec(f"ragtrace_{name}", "gauge", text, tuple(labels), merge=merge))

    def _histogram(self, name: str, text: str, labels: Sequence[str], buckets: Sequence[float]) -> Family:
        return self._add(Spec(f"ragtrace_{name}", "histogram", text, tuple(labels), upper_bounds(buckets)))

    def _add(self, spec: Spec) -> Family:
        self.families.append(Family(spec))
        return self.families[-1]
