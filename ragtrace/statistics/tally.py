"""Counts and sums of the scores of one evaluator."""

from collections import Counter
from dataclasses import dataclass, field, replace

from ragtrace.evaluation import NOT_APPLICABLE
from ragtrace.records import Score
from ragtrace.statistics.estimates import Estimate, Sums


@dataclass(slots=True)
class ScoreTally:
    """Counts and sums of the scores of one evaluator. Not thread-safe."""

    passes: Sums = field(default_factory=Sums)
    """Of passes (1) and fails (0); other labels, such as a refusal, are neither."""
    values: Sums = field(default_factory=Sums)
    verdicts: Counter[str] = field(default_factory=Counter)
    """Number of scores by label; `none` without a label, `error` for failed checks."""
    errors: Counter[str] = field(default_factory=Counter)
    """Failed checks by reason."""
    failures: Counter[str] = field(default_factory=Counter)
    """Scores by kind of failure: `retrieval`, `generation`."""
    cost: float = 0.0
    """US dollars that a judge cost."""
    is_share: bool = True
    """Whether each value was in [0, 1]."""

    def add(self, score: Score) -> None:
        """Count one score with the weight 1 / p."""
        self.cost += score.cost
        if score.failures:
            self.failures.update(score.failures)
        if score.error is not None:
            self.verdicts["error"] += 1
            self.errors[score.error] += 1
            return
        self.verdicts[score.label or "none"] += 1
        if score.label in ("pass", "fail"):
            self.passes.add(float(score.label == "pass"), score.sampling_probability)
        if score.value is not None:
            self.values.add(score.value, score.sampling_probability)
            self.is_share &= 0.0 <= score.value <= 1.0

    def mean(self) -> Estimate | None:
        """The weighted mean of the values. Its interval stays within [0, 1] where all values do."""
        estimate = self.values.mean()
        if estimate is None or estimate.interval is None or not self.is_share:
            return estimate
        low, high = estimate.interval
        return replace(estimate, interval=(max(0.0, low), min(1.0, high)))

    @property
    def evaluated(self) -> int:
        """Number of scores, including failed checks, for which the evaluator was applicable."""
        return self.verdicts.total() - self.verdicts[NOT_APPLICABLE]
