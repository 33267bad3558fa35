"""What a run over a data set leaves behind: its rows with their scores, and what their evaluators mean."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from ragtrace.evaluation import Direction
from ragtrace.records import Score

ERRORS_OF_READING = "parse_failure"
"""`Score.error` of a judge whose answer could not be read; pass/fail evaluators count it apart from other errors."""
PASS, FAIL = "pass", "fail"


@dataclass(frozen=True, slots=True)
class Metric:
    """What is known of an evaluator: enough to order its values and to say what they mean."""

    name: str
    direction: Direction = "higher"
    threshold: float | None = None
    """A value that equals it passes. None where the evaluator has no threshold."""
    range: tuple[float, float] = (0.0, 1.0)
    """Least and greatest value; infinite where there is no bound."""
    method: str = "code"
    """`code`, `model` or `judge`."""
    version: str = "1"

    def oriented(self, value: float) -> float:
        """The value with its sign chosen so that more is better."""
        return value if self.direction == "higher" else -value

    def meets(self, value: float) -> bool | None:
        """Whether the value passes; None without a threshold."""
        if self.threshold is None:
            return None
        return self.oriented(value) >= self.oriented(self.threshold)


@dataclass(frozen=True, slots=True)
class Result:
    """One row of the data set with its scores."""

    id: str
    """Unique in the run, or unique for each model."""
    query: str
    answer: str
    contexts: tuple[str, ...] = ()
    """The chunks in rank order: `Evidence.document_rank` counts from 0 in here."""
    reference: str | None = None
    model: str = ""
    """What the row is compared by: a model, an application or a prompt's version. Empty where there is none."""
    perturbation: str | None = None
    """Name of what was done to the row's input; None for a row as it was given."""
    original: str | None = None
    """Id of the row that this one perturbs."""
    duration: float | None = None
    """Seconds that the application took for its answer."""
    cost: float | None = None
    """US dollars that the answer cost; what a judge cost stands in the scores."""
    scores: Mapping[str, Score] = field(default_factory=dict)
    """By the evaluator's name."""


@dataclass(frozen=True, slots=True)
class Info:
    """Where a run came from."""

    file: str = ""
    started: float | None = None
    """Unix time in seconds."""
    duration: float | None = None
    """Seconds that the evaluation took."""
    version: str = ""
    """Version of ragtrace."""
    unusable: tuple[str, ...] = ()
    """One message for each line of the file that could not be evaluated."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """What else is worth to be shown: options of the command, models, seeds."""


@dataclass(frozen=True, slots=True)
class Run:
    """All rows of a run. Statistics are about rows as they were given; perturbed ones serve to find flips only, because
    a row that counts twice would make every interval too narrow."""

    results: tuple[Result, ...]
    metrics: Mapping[str, Metric]
    """By name, in the order in which they are shown."""
    info: Info = Info()

    def originals(self) -> Iterator[Result]:
        """Rows as they were given."""
        return (row for row in self.results if row.perturbation is None)

    def models(self) -> list[str]:
        """The groups that are compared, in the order of their first row."""
        return list(dict.fromkeys(row.model for row in self.originals()))

    def primary(self, name: str | None = None) -> Metric | None:
        """The metric by which models are ranked: the one named, else the first that has a value in any row.

        None if no metric has one, or the named one is not part of the run.
        """
        if name is not None:
            return self.metrics.get(name)
        for metric in self.metrics.values():
            if any(value_of(row, metric.name) is not None for row in self.originals()):
                return metric
        return None


def value_of(row: Result, metric: str) -> float | None:
    """A row's value for a metric; None where there is no score, or it has no value."""
    score = row.scores.get(metric)
    return None if score is None else score.value


def label_of(row: Result, metric: str) -> str | None:
    """A row's verdict for a metric: `pass`, `fail`, another label, or None."""
    score = row.scores.get(metric)
    return None if score is None else score.label


def shown(model: str) -> str:
    """A model's name for people."""
    return model or "(no model)"


def clip(text: str, width: int = 100) -> str:
    """One line of text of at most `width` characters."""
    line = " ".join(text.split())
    return line if len(line) <= width else f"{line[: width - 1]}…"
