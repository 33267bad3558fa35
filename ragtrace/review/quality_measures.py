"""How good labels and probabilities are, with intervals."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from ragtrace.review.curves import numpy
from ragtrace.statistics import Estimate

_DRAWS = 1_000
_CELLS = 8_000_000
"""Numbers drawn at most; more logs need fewer draws."""
_BINS = 10


@dataclass(frozen=True, slots=True)
class QualityMeasures:
    """How good labels and probabilities are on logs that had no part in making them."""

    balanced_accuracy: Estimate
    f1: Estimate
    brier: Estimate | None
    """Mean squared difference between probability and verdict; 0 is best (G. W. Brier, 1950). None where the bare score
    is no probability."""
    ece: Estimate | None
    """Expected calibration error in ten bins of equal width: mean distance between what was said and what came true
    (M. Pakdaman Naeini, G. F. Cooper, M. Hauskrecht, 2015). Few logs make it larger than it is."""


class Sample(NamedTuple):
    """Logs as arrays of n float64 numbers."""

    values: Any
    bad: Any
    weights: Any

    def part(self, chosen: Any) -> Sample:
        """Those that an array of n bools chooses."""
        return Sample(self.values[chosen], self.bad[chosen], self.weights[chosen])


def draw_samples(count: int, chance: Any) -> Any:
    """How often each log is drawn, in each of many samples with replacement."""
    np = numpy()
    times = min(_DRAWS, max(200, _CELLS // count))
    return chance.multinomial(count, np.full(count, 1.0 / count), size=times).astype(np.float64)


def measure_quality(data: Sample, flags: Any, said: Any, draws: Any) -> QualityMeasures:
    """With 95 % intervals by drawing logs with replacement (B. Efron, 1979); the same draws before and after."""
    w, bad = data.weights, data.bad

    def balanced(n: Any) -> Any:
        recall = (n @ (w * bad * flags)) / (n @ (w * bad))
        return (recall + (n @ (w * (1 - bad) * ~flags)) / (n @ (w * (1 - bad)))) / 2

    def f1(n: Any) -> Any:
        return 2 * (n @ (w * bad * flags)) / (n @ (w * flags) + n @ (w * bad))

    def brier(n: Any) -> Any:
        return (n @ (w * (bad * (1 - said) ** 2 + (1 - bad) * said**2))) / (n @ w)

    def ece(n: Any) -> Any:
        np = numpy()
        bins = np.minimum((said * _BINS).astype(int), _BINS - 1)
        gaps = [n @ (w * (said - bad) * (bins == i)) for i in range(_BINS)]
        return sum(np.abs(gap) for gap in gaps) / (n @ w)

    return QualityMeasures(
        _estimate(balanced, w, draws),
        _estimate(f1, w, draws),
        None if said is None else _estimate(brier, w, draws),
        None if said is None else _estimate(ece, w, draws),
    )


def _estimate(figure: Callable[[Any], Any], weights: Any, draws: Any) -> Estimate:
    np = numpy()
    with np.errstate(divide="ignore", invalid="ignore"):  # a draw without bad logs says nothing, and is left out
        value, drawn = float(np.nan_to_num(figure(np.ones((1, len(weights))))[0])), figure(draws)
    low, high = np.quantile(drawn[np.isfinite(drawn)], [0.025, 0.975]) if np.isfinite(drawn).any() else (value, value)
    effective = float(weights.sum() ** 2 / (weights**2).sum())
    return Estimate(value, (min(float(low), value), max(float(high), value)), len(weights), effective)
