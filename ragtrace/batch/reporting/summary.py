"""Figures of a run for each model and metric: quality, precision and coverage."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean

from ragtrace.batch.reporting.results import FAIL, PASS, EvaluationRun, Metric, Result
from ragtrace.errors import PARSE_FAILURE
from ragtrace.evaluation import NOT_APPLICABLE
from ragtrace.statistics import intervals
from ragtrace.statistics.tally import ScoreTally

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
_REFUSAL = "refusal"


@dataclass(frozen=True, slots=True)
class VerdictCounts:
    """The five counts of an evaluator that passes or fails. A row may count in several: if the answer passes and its
    context fails, the row is a pass and a retrieval failure."""

    passed: int = 0
    failed: int = 0
    retrieval_failures: int = 0
    """The retrieved context itself fails the check."""
    generation_failures: int = 0
    """The answer fails, and the context is not the cause."""
    parse_failures: int = 0
    """The reply of the judge could not be read."""


@dataclass(frozen=True, slots=True)
class Summary:
    """One metric of one model."""

    model: str
    metric: str
    rows: int
    """Rows of the model. Each row has a value, a verdict without a value, a refusal or an error, or the evaluator was
    not applicable or not run."""
    count: int
    """Rows with a value."""
    coverage: float
    """Share of the rows with a value or a verdict, in [0, 1]."""
    mean: float | None
    interval: tuple[float, float] | None
    """95 % bootstrap interval of the mean; None for fewer than two values."""
    median: float | None
    quantiles: tuple[float, ...]
    """At the probabilities `QUANTILES`; empty without values."""
    pass_rate: float | None
    """Passes / (passes + fails); None where nothing passes or fails."""
    pass_interval: tuple[float, float] | None
    """Its 95 % Wilson interval."""
    counts: VerdictCounts
    not_applicable: int
    refusals: int
    errors: Mapping[str, int] = field(default_factory=dict)
    """By reason, parse failures aside."""
    cost: float = 0.0
    """US dollars that the judge cost for these scores."""

    @property
    def failures(self) -> int:
        """Rows without a score because the evaluator failed, including parse failures."""
        return sum(self.errors.values()) + self.counts.parse_failures

    @property
    def usable(self) -> bool:
        """Whether there is any value or verdict."""
        return bool(self.count or self.counts.passed or self.counts.failed)


@dataclass(frozen=True, slots=True)
class ModelSummary:
    """Duration and cost of a model's answers; None if no row has them."""

    model: str
    rows: int
    duration: float | None
    """Mean seconds."""
    median_duration: float | None
    cost: float | None
    """Mean US dollars per row."""


def summarise(run: EvaluationRun) -> list[Summary]:
    """One summary for each model and metric, models and metrics in the run's order. Raises MissingExtraError without
    numpy."""
    rows = list(run.originals())
    of_model = {model: [row for row in rows if row.model == model] for model in run.models()}
    return [_summary(model, metric, of) for model, of in of_model.items() for metric in run.metrics.values()]


def _summary(model: str, metric: Metric, rows: Sequence[Result]) -> Summary:
    scores = [row.scores[metric.name] for row in rows if metric.name in row.scores]
    values = [score.value for score in scores if score.value is not None]
    tally = ScoreTally()
    for score in scores:
        tally.add(score)
    counts = VerdictCounts(
        passed=tally.verdicts[PASS], failed=tally.verdicts[FAIL], retrieval_failures=tally.failures["retrieval"],
        generation_failures=tally.failures["generation"], parse_failures=tally.errors[PARSE_FAILURE],
    )  # fmt: skip
    verdicts = counts.passed + counts.failed
    usable = sum(score.value is not None or score.label in (PASS, FAIL) for score in scores)
    quantiles = intervals.quantiles(values, QUANTILES) if values else ()
    return Summary(
        model=model, metric=metric.name, rows=len(rows), count=len(values), coverage=usable / len(rows),
        mean=fmean(values) if values else None, interval=intervals.bootstrap_mean(values),
        median=quantiles[QUANTILES.index(0.5)] if quantiles else None, quantiles=quantiles,
        pass_rate=counts.passed / verdicts if verdicts else None,
        pass_interval=intervals.wilson(counts.passed / verdicts, verdicts) if verdicts else None, counts=counts,
        not_applicable=tally.verdicts[NOT_APPLICABLE], refusals=tally.verdicts[_REFUSAL],
        errors={reason: n for reason, n in tally.errors.most_common() if reason != PARSE_FAILURE}, cost=tally.cost,
    )  # fmt: skip


def summarise_models(run: EvaluationRun) -> list[ModelSummary]:
    """Duration and cost of each model."""
    summaries = []
    for model in run.models():
        rows = [row for row in run.originals() if row.model == model]
        durations = [row.duration for row in rows if row.duration is not None]
        costs = [row.cost for row in rows if row.cost is not None]
        summaries.append(
            ModelSummary(
                model=model,
                rows=len(rows),
                duration=fmean(durations) if durations else None,
                median_duration=intervals.quantiles(durations, [0.5])[0] if durations else None,
                cost=fmean(costs) if costs else None,
            )
        )
    return summaries
