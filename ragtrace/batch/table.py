"""The figures of a run by evaluator, as a table for a terminal."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ragtrace.batch.reporting.formats import NONE, clip, number, rate, table
from ragtrace.evaluation import NOT_APPLICABLE
from ragtrace.records import Score
from ragtrace.statistics.tally import ScoreTally

_HEAD = ("evaluator", "rows", "mean", "pass share (95 %)", "errors", "not applicable", "time")


@dataclass(slots=True)
class EvaluatorFigures:
    """The figures of one evaluator."""

    tally: ScoreTally = field(default_factory=ScoreTally)
    seconds: float = 0.0
    """That it took; rows that an earlier run evaluated do not count."""
    error: str = ""
    """The explanation of the first failure."""


class RunFigures:
    """Adds up the scores of a run. Memory does not grow with the rows."""

    def __init__(self, names: Iterable[str]) -> None:
        self.figures = {name: EvaluatorFigures() for name in names}
        self._own = frozenset(self.figures)

    def add(self, scores: Mapping[str, Score]) -> None:
        """Add the scores of one row."""
        for name, score in scores.items():
            figures = self.figures.setdefault(name, EvaluatorFigures())
            figures.tally.add(score)
            if score.error is not None and not figures.error:
                figures.error = clip(score.explanation or "", 200)

    def add_time(self, seconds: Mapping[str, float]) -> None:
        """Add the time that evaluators took for a batch."""
        for name, value in seconds.items():
            self.figures.setdefault(name, EvaluatorFigures()).seconds += value

    def lines(self, columns: int | None = None) -> list[str]:
        """The table: a line of column names, and a line for each evaluator; or a paragraph for each evaluator if the
        terminal has too few `columns`. A refusal has neither value nor verdict."""
        rows = [_HEAD, *(_row(name, figures) for name, figures in self.figures.items())]
        if not any(figures.seconds for figures in self.figures.values()):  # nobody measured it
            rows = [row[:-1] for row in rows]
        return table(rows, range(1, len(rows[0])), columns)

    def without_value(self, required: Sequence[str]) -> list[str]:
        """A sentence for each evaluator without a value that failed, or is required and gave no other score."""
        others = any(each.tally.values.count for name, each in self.figures.items() if name not in self._own)
        return [
            f"{name} has no value: {_reasons(figures)}"
            for name, figures in self.figures.items()
            if not (figures.tally.values.count or figures.tally.passes.count)
            and (figures.tally.errors or (name in required and (figures.tally.verdicts or not others)))
        ]


def _row(name: str, figures: EvaluatorFigures) -> tuple[str, ...]:
    tally = figures.tally
    mean = tally.values.mean()
    return (
        name, str(tally.verdicts.total()), NONE if mean is None else number(mean.value), rate(tally.passes.rate()),
        str(tally.errors.total()), str(tally.verdicts[NOT_APPLICABLE]), f"{figures.seconds:.1f} s",
    )  # fmt: skip


def _reasons(figures: EvaluatorFigures) -> str:
    counts = Counter(figures.tally.errors)
    counts.update({label.replace("_", " "): n for label, n in figures.tally.verdicts.items() if label != "error"})
    text = ", ".join(f"{n} rows {reason}" for reason, n in counts.most_common()) or "there are no rows"
    return f"{text} ({figures.error})" if figures.error else text
