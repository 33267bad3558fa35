"""The metrics that ragtrace counts itself: their names, labels and buckets. They are a contract with dashboards and
alert rules; docs/metrics.md says what each one means, and a test compares the two."""

import math
from collections.abc import Iterable, Sequence

from ragtrace.evaluation import Evaluator
from ragtrace_prometheus.families import Base, Family, family

_SECONDS = (0.1, 0.25, 0.5, 1, 2.5, 3, 4, 5, 7, 10, 15, 20, 30, 60)
_STAGE_SECONDS = (0.005, 0.025, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_FIRST_SECONDS = (0.1, 0.25, 0.5, 1, 1.5, 2, 3, 5, 10, 30)
_EVALUATOR_SECONDS = (0.001, 0.01, 0.1, 0.5, 2.5, 10)
"""Few: each evaluator has such a histogram, and together they are a third of a scrape."""
_LAG = (1, 5, 15, 30, 60, 300, 900, 3600)
_DOCUMENTS = (0, 1, 2, 3, 5, 8, 10, 15, 20)
_FEEDBACK_SCORES = (0, 0.25, 0.5, 0.75, 1, 2, 3, 4, 5, 7, 10)
"""Thumbs as 0 and 1, shares, stars, and the ten points of a recommendation."""
_TENTHS = (0.0, *(round(0.1 * i, 1) for i in range(1, 11)))


class Catalogue:
    """Every metric once, in the order of a scrape."""

    def __init__(self, base: Base, evaluators: Sequence[Evaluator]) -> None:
        """Every threshold of an evaluator is a bound of the scores' histogram, so that the share beyond it can be read
        off the buckets."""
        self._base = base
        self.families: list[Family] = []
        self._add_request_metrics()
        self._add_evaluation_metrics({e.threshold for e in evaluators if e.threshold is not None})

    def _add_request_metrics(self) -> None:
        counter, histogram = self._counter, self._histogram
        self.requests = counter("requests", "Finished requests.", "status model prompt_version")
        self.duration = histogram("request_duration_seconds", "Duration of requests.", _SECONDS)
        text = "From a request's start to its answer's first piece."
        self.first_chunk = histogram("time_to_first_chunk_seconds", text, _FIRST_SECONDS)
        text = "What a stage took of a request, in all."
        self.stages = histogram("stage_duration_seconds", text, _STAGE_SECONDS, "stage")
        self.documents = histogram("retrieved_documents", "Documents that the model saw.", _DOCUMENTS)
        self.top_score = histogram("retrieval_top_score", "Highest score that the retriever gave.", _TENTHS)
        self.empty = counter("retrieval_empty", "Requests whose retrieval found nothing.")
        self.tokens = counter("tokens", "Tokens of the application's models.", "direction model")
        self.cost = counter("cost_usd", "US dollars spent on models.", "component model")
        self.decisions = counter("sampling_decisions", "Sampling decisions.", "decision stratum")
        self.feedback = counter("feedback", "What users said of answers.", "value")
        self.feedback_score = histogram("feedback_score", "Scores that users gave to answers.", _FEEDBACK_SCORES)
        self.feedback_categories = counter(
            "feedback_categories", "Users' feedback, by the category that the application gave.", "category"
        )

    def _add_evaluation_metrics(self, thresholds: set[float]) -> None:
        counter, histogram = self._counter, self._histogram
        verdicts = "evaluator verdict model prompt_version"
        self.evaluations = counter("evaluations", "Evaluations by verdict.", verdicts)
        text = "Sum of 1/p: the requests that the evaluated ones stand for."
        self.weight = counter("evaluation_weight", text, verdicts)
        text = "Sum of 1/p squared: for effective sample sizes."
        self.weight_squared = counter("evaluation_weight_squared", text, verdicts)
        text = "Sum of 1/p of what passed or failed, by the tenant that the application names."
        self.tenant_weight = counter("tenant_evaluation_weight", text, "evaluator verdict tenant")
        text = "Sum of 1/p squared, by tenant."
        self.tenant_weight_squared = counter("tenant_evaluation_weight_squared", text, "evaluator verdict tenant")
        text = "Sum of score/p, for scores of at least 0."
        self.weighted_score = counter("evaluation_weighted_score", text, "evaluator model prompt_version")
        self.clipped = counter("evaluation_weight_clipped", "Weights cut at their bound.", "evaluator")
        bounds = {*_TENTHS, *filter(math.isfinite, thresholds)}
        self.score = histogram("evaluation_score", "Scores as they are, not weighted.", bounds, "evaluator")
        text = (
            "Of checks that pass or fail: the retrieved context failed (retrieval), the answer did on its own "
            "(generation), the judge's answer could not be read (parse)."
        )
        self.failures = counter("evaluation_failures", text, "evaluator kind")
        self.causes = counter("failure_causes", "Causes of answers.", "cause")
        text = "Sum of 1/p by cause: the requests that the evaluated ones stand for."
        self.cause_weight = counter("failure_cause_weight", text, "cause model prompt_version")
        self.lag = histogram("evaluation_lag_seconds", "From the end of a request to that of its evaluation.", _LAG)
        self.dropped = counter("evaluations_dropped", "Sampled requests that were not evaluated.", "reason")
        name, text = "last_evaluation_timestamp_seconds", "When an evaluation ended last."
        self.last = self._add(family(self._base, "gauge", name, text, "", merge="latest"))
        self.errors = counter("evaluator_errors", "Failed evaluations by reason.", "evaluator reason")
        name, text = "evaluator_duration_seconds", "An evaluator's time for one trace."
        self.evaluator_duration = histogram(name, text, _EVALUATOR_SECONDS, "evaluator")
        self.judge_tokens = counter("judge_tokens", "Tokens of the judge.", "evaluator direction")
        self.judge_cost = counter("judge_cost_usd", "What the judge cost.", "evaluator")

    def _counter(self, name: str, text: str, labels: str = "") -> Family:
        return self._add(family(self._base, "counter", name, text, labels))

    def _histogram(self, name: str, text: str, buckets: Iterable[float], labels: str = "") -> Family:
        return self._add(family(self._base, "histogram", name, text, labels, buckets=buckets))

    def _add(self, member: Family) -> Family:
        self.families.append(member)
        return member
