"""The metrics that ragtrace counts itself: their names, labels and buckets. They are a contract with dashboards and
alert rules; docs/metrics.md says what each one means, and a test compares the two."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from ragtrace.evaluation import Evaluator
from ragtrace_prometheus.families import Family, Kind, Merge

Base = tuple[str, str]
"""The values of `app` and `env`, the first two labels of every series."""
_SECONDS = (0.1, 0.25, 0.5, 1, 2.5, 3, 4, 5, 7, 10, 15, 20, 30, 60)
_STAGE_SECONDS = (0.005, 0.025, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_FIRST_SECONDS = (0.1, 0.25, 0.5, 1, 1.5, 2, 3, 5, 10, 30)
_EVALUATOR_SECONDS = (0.001, 0.01, 0.1, 0.5, 2.5, 10)
"""Few: each evaluator has such a histogram, and together they are a third of a scrape."""
_LAG = (1, 5, 15, 30, 60, 300, 900, 3600)
_DOCUMENTS = (0, 1, 2, 3, 5, 8, 10, 15, 20)
_TENTHS = tuple(round(0.1 * i, 1) for i in range(1, 11))


def family(
    base: Base,
    kind: Kind,
    name: str,
    documentation: str,
    labels: str = "",
    *,
    buckets: Iterable[float] = (),
    merge: Merge = "sum",
) -> Family:
    """A metric `ragtrace_<name>` with `app`, `env` and further labels, separated by spaces."""
    names = ("app", "env", *labels.split())
    return Family(kind, f"ragtrace_{name}", documentation, names, base=base, buckets=buckets, merge=merge)


class Catalogue:
    """Every metric once, in the order of a scrape."""

    def __init__(self, base: Base, evaluators: Sequence[Evaluator]) -> None:
        """Every threshold of an evaluator is a bound of the scores' histogram, so that the share beyond it can be read
        off the buckets."""
        self._base = base
        self.families: list[Family] = []
        self._add_request_metrics()
        self._add_evaluation_metrics(evaluators)
        self._add_evaluator_metrics()

    def _add_request_metrics(self) -> None:
        self.requests = self._counter("requests", "Finished requests.", "status model prompt_version")
        self.duration = self._histogram("request_duration_seconds", "Duration of requests.", _SECONDS)
        self.first_chunk = self._histogram(
            "time_to_first_chunk_seconds", "From a request's start to its answer's first piece.", _FIRST_SECONDS
        )
        self.stages = self._histogram(
            "stage_duration_seconds", "What a stage took of a request, in all.", _STAGE_SECONDS, "stage"
        )
        self.documents = self._histogram("retrieved_documents", "Documents that the model saw.", _DOCUMENTS)
        self.top_score = self._histogram(
            "retrieval_top_score", "Highest score that the retriever gave.", (0.0, *_TENTHS)
        )
        self.empty = self._counter("retrieval_empty", "Requests whose retrieval found nothing.")
        self.tokens = self._counter("tokens", "Tokens of the application's models.", "direction model")
        self.cost = self._counter("cost_usd", "US dollars spent on models.", "component model")
        self.decisions = self._counter("sampling_decisions", "Sampling decisions.", "decision stratum")
        self.feedback = self._counter("feedback", "What users said of answers.", "value")

    def _add_evaluation_metrics(self, evaluators: Sequence[Evaluator]) -> None:
        verdicts = "evaluator verdict model prompt_version"
        self.evaluations = self._counter("evaluations", "Evaluations by verdict.", verdicts)
        self.weight = self._counter(
            "evaluation_weight", "Sum of 1/p: the requests that the evaluated ones stand for.", verdicts
        )
        self.weight_squared = self._counter(
            "evaluation_weight_squared", "Sum of 1/p squared: for effective sample sizes.", verdicts
        )
        self.weighted_score = self._counter(
            "evaluation_weighted_score", "Sum of score/p, for scores of at least 0.", "evaluator model prompt_version"
        )
        self.clipped = self._counter("evaluation_weight_clipped", "Weights cut at their bound.", "evaluator")
        thresholds = {e.threshold for e in evaluators if e.threshold is not None and math.isfinite(e.threshold)}
        self.score = self._histogram(
            "evaluation_score", "Scores as they are, not weighted.", {*_TENTHS, 0.0, *thresholds}, "evaluator"
        )
        self.failures = self._counter(
            "evaluation_failures",
            "Of checks that pass or fail: the retrieved context failed (retrieval), the answer did on its own "
            "(generation), the judge's answer could not be read (parse).",
            "evaluator kind",
        )
        self.causes = self._counter("failure_causes", "Causes of answers.", "cause")
        self.lag = self._histogram(
            "evaluation_lag_seconds", "From the end of a request to that of its evaluation.", _LAG
        )
        self.dropped = self._counter("evaluations_dropped", "Sampled requests that were not evaluated.", "reason")
        name, text = "last_evaluation_timestamp_seconds", "When an evaluation ended last."
        self.last = self._add(family(self._base, "gauge", name, text, merge="latest"))

    def _add_evaluator_metrics(self) -> None:
        self.errors = self._counter("evaluator_errors", "Failed evaluations by reason.", "evaluator reason")
        self.evaluator_duration = self._histogram(
            "evaluator_duration_seconds", "An evaluator's time for one trace.", _EVALUATOR_SECONDS, "evaluator"
        )
        self.judge_tokens = self._counter("judge_tokens", "Tokens of the judge.", "evaluator direction")
        self.judge_cost = self._counter("judge_cost_usd", "What the judge cost.", "evaluator")

    def _counter(self, name: str, text: str, labels: str = "") -> Family:
        return self._add(family(self._base, "counter", name, text, labels))

    def _histogram(self, name: str, text: str, buckets: Iterable[float], labels: str = "") -> Family:
        return self._add(family(self._base, "histogram", name, text, labels, buckets=buckets))

    def _add(self, member: Family) -> Family:
        self.families.append(member)
        return member
