"""The result of a run over a data set: rows with scores, and a description of each evaluator."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ragtrace.evaluation import Direction, Evaluator
from ragtrace.records import Score

PASS, FAIL = "pass", "fail"


@dataclass(frozen=True, slots=True)
class Metric:
    """The properties of an evaluator that its values need: which are better, and which pass."""

    name: str
    direction: Direction = "higher"
    threshold: float | None = None
    """A value equal to it passes. None if the evaluator has no threshold."""
    range: tuple[float, float] = (0.0, 1.0)
    """Least and greatest value; infinite without a bound."""
    method: str = "code"
    """`code`, `model` or `judge`."""
    version: str = "1"

    def oriented(self, value: float) -> float:
        """The value, negated if lower is better: then more is always better."""
        return value if self.direction == "higher" else -value

    def meets(self, value: float) -> bool | None:
        """Whether the value passes; None without a threshold."""
        if self.threshold is None:
            return None
        return self.oriented(value) >= self.oriented(self.threshold)

    def ends(self, values: Sequence[float]) -> tuple[float, float]:
        """Where a scale for these values ends: at the range, or where that is infinite at the least or greatest
        value."""
        low, high = self.range
        low = low if math.isfinite(low) else min(values, default=0.0)
        high = high if math.isfinite(high) else max(values, default=1.0)
        return low, high if high > low else low + 1.0

    @property
    def condition(self) -> str:
        """When a value passes: `≥ 0.75`; without a threshold, which direction is better."""
        if self.threshold is None:
            return f"{self.direction} is better"
        return f"{'≥' if self.direction == 'higher' else '≤'} {self.threshold:g}".replace("inf", "∞")


def metric_of(check: Evaluator) -> Metric:
    """The metric of an evaluator."""
    return Metric(check.name, check.direction, check.threshold, check.range, check.method, check.version)


@dataclass(frozen=True, slots=True)
class Result:
    """One row of the data set with its scores."""

    id: str
    """Unique in the run, or unique for each model."""
    query: str
    answer: str
    contexts: tuple[str, ...] = ()
    """The chunks in rank order; `Evidence.document_rank` is an index of it."""
    reference: str | None = None
    model: str = ""
    """The group to compare: a model, an application or a prompt version. Empty without groups."""
    perturbation: str | None = None
    """Name of the change that was made to the input; None for an original row."""
    original: str | None = None
    """Id of the original row of a perturbed one."""
    duration: float | None = None
    """Seconds that the application needed for the answer."""
    cost: float | None = None
    """US dollars that the answer cost, without the judge: its cost is part of the scores."""
    scores: Mapping[str, Score] = field(default_factory=dict)
    """By the evaluator's name."""


@dataclass(frozen=True, slots=True)
class Info:
    """The origin of a run."""

    file: str = ""
    started: float | None = None
    """Unix time in seconds."""
    duration: float | None = None
    """Seconds that the evaluation needed."""
    version: str = ""
    """Version of ragtrace."""
    unusable: tuple[str, ...] = ()
    """One message for each line of the file that could not be evaluated."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """Further properties to display: options of the command, models, seeds."""


@dataclass(frozen=True, slots=True)
class EvaluationRun:
    """All rows of a run. Statistics use original rows only; perturbed rows are used to detect flips. A row that counts
    twice would make every interval too narrow."""

    results: tuple[Result, ...]
    metrics: Mapping[str, Metric]
    """By name, in the order of display."""
    info: Info = Info()

    def originals(self) -> Iterator[Result]:
        """The rows that are not perturbed."""
        return (row for row in self.results if row.perturbation is None)

    def models(self) -> list[str]:
        """The groups to compare, in the order of their first row."""
        return list(dict.fromkeys(row.model for row in self.originals()))

    def primary(self) -> Metric | None:
        """The metric that ranks the models: the first with a value in any row. None if the run has no such metric."""
        for metric in self.metrics.values():
            if any(value_of(row, metric.name) is not None for row in self.originals()):
                return metric
        return None


def value_of(row: Result, metric: str) -> float | None:
    """A row's value for a metric; None where there is no score, or it has no value."""
    score = row.scores.get(metric)
    return None if score is None else score.value


def values_of(rows: Iterable[Result], metric: str) -> list[float]:
    """The values that rows have for a metric."""
    return [value for row in rows if (value := value_of(row, metric)) is not None]


def label_of(row: Result, metric: str) -> str | None:
    """A row's verdict for a metric: `pass`, `fail`, another label, or None."""
    score = row.scores.get(metric)
    return None if score is None else score.label
